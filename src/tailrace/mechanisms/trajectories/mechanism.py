"""Trajectories of any length, released once as synthetic ones.

Everything is counted in one pass, on public grids: where trajectories begin and end and how far
apart, which cells they pass, where their points lie, how they turn, how much longer than need be
they are. Each count is small enough to be seen through its noise. Synthetic trajectories have ends
from a gravity model that is fitted to the counts of ends, walks between them that pass cells and
turn as released, and points along the walks.

Privacy: the declared loss of the declared unit, neighbours add/remove.
1. A unit is one trajectory, whole, or one person with all of theirs. In each level of each count it
   adds nonnegative parts, at most its whole in all, in whole numbers never rounded up beyond it
   (`counts.py`).
2. Cells, pairs and bins are public: nothing that is counted depends on another release.
3. Every count gets noise of that sensitivity, also the numbers of trajectories, people and points.
4. The losses of counts and levels add up to the declared one; the rest is post-processing. Under
   ApproxDP the counts share epsilon (pure) or the rho within it, whichever makes less noise.

Accuracy: noise is that of `view`'s counts. Long trajectories weigh no more than short ones, so what
only they do is seen through more noise.
Source: none as a whole. Contributions of 1 / t: DPT (He et al. 2015), AdaTrace (Gursoy et al.
2018), and Kumar's dissertation, chapter 5 (`papers.trajectories`), which also has walks conditioned
on both ends; ours are second-order, and exact.
Departs: no transition is measured. A walk of given ends and length is nearly determined by the
cells it passes, and these are a ninth as many as the edges between them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Nothing, Sample, State, Step, Table
from tailrace.mechanisms.trajectories.clock import DayClock
from tailrace.mechanisms.trajectories.counts import COUNTS, Bins, Count, Grids, counts_of
from tailrace.mechanisms.trajectories.layout import Layout, Map, even_layout
from tailrace.mechanisms.trajectories.plan import JourneyPlan, Points, Tally
from tailrace.mechanisms.trajectories.points import placed, stays
from tailrace.mechanisms.trajectories.promise import OfTrajectories
from tailrace.mechanisms.trajectories.view import Noisy, TrajectoriesView
from tailrace.mechanisms.trajectories.walks import Model, TurningWalks, Walks, moves_of
from tailrace.noise import Draws
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import Loss
from tailrace.privacy.unit import Unit


@dataclass(frozen=True)
class TrajectoriesPublic:
    """Every noisy count, part after part and level after level."""

    round: np.ndarray  # ()
    parts: np.ndarray  # (counts,)


@told
@dataclass(frozen=True, kw_only=True)
class Trajectories(OfTrajectories):
    """Trajectories in `domain`, released once as synthetic ones.

    Rows have the id of a `trajectory`, its `order` (a number or a time), and a place.
    `unit=Event()` protects one trajectory, `User(column=...)` one person with all of theirs. The
    parameters from `visits` to `number` are counts, each with a share of the budget relative to the
    others'; `pairs` may be None. With `timing`, synthetic points have times; without it they are
    numbered. `between` counts cells between two points as visited: for records with gaps of many
    cells (of a 64th of the map). `walks` says how walks are drawn, at no cost.

    >>> from tailrace import Box, Event, PureDP
    >>> city = Box(low=(116.15, 39.75), high=(116.60, 40.10), columns=("lon", "lat"))
    >>> own = {"trajectory": "trip", "order": "time"}
    >>> Trajectories(domain=city, privacy=PureDP(epsilon=1), unit=Event(), **own).guarantee.short
    'epsilon = 1 for one trajectory over 1 step'
    """

    rounds = 1

    domain: Map
    privacy: Loss
    unit: Unit
    trajectory: str
    order: str
    # Chosen on the data of benchmarks/trajectories.py; results/trajectories.csv has the errors.
    visits: Grids = field(
        default_factory=lambda: Grids(share="0.49", sides=(16, 64), most=6, weights=(1, 2))
    )
    points: Grids = field(default_factory=lambda: Grids(share="0.08", sides=(64,), most=50))
    ends: Grids = field(default_factory=lambda: Grids(share="0.12", sides=(4, 16, 64, 256)))
    pairs: Grids | None = field(default_factory=lambda: Grids(share="0.17", sides=(4, 8, 16, 32)))
    distances: Bins = field(default_factory=lambda: Bins(share="0.02"))
    detours: Bins = field(default_factory=lambda: Bins(share="0.045"))
    turns: Bins = field(default_factory=lambda: Bins(share="0.02", most=20))
    sizes: Bins = field(default_factory=lambda: Bins(share="0.04"))
    number: Bins = field(default_factory=lambda: Bins(share="0.01"))
    timing: DayClock | None = None
    between: bool = False
    walks: TurningWalks = field(default_factory=TurningWalks)

    def __post_init__(self) -> None:
        self._check()
        for name, count in COUNTS.items():
            part, optional = getattr(self, name), name in ("pairs", "timing")
            if not isinstance(part, count.kind) and not (optional and part is None):
                raise ConfigError(f"{name} must be {count.kind.__name__}(...).")
        if not isinstance(self.walks, TurningWalks):
            raise ConfigError("walks must be TurningWalks(...).")
        self.guarantee  # noqa: B018 - a budget beyond the range of the noise is refused now

    @property
    def rows(self) -> Points:
        """The rows of the synthetic table."""
        return Points(self.domain, self.trajectory, self.order, self.timing)

    @property
    def _parts(self) -> dict[str, Any]:
        return {name: part for name in COUNTS if (part := getattr(self, name)) is not None}

    @functools.cached_property
    def counts(self) -> tuple[Count, ...]:
        """The counts that are released, in order."""
        return counts_of(self.domain, self._parts, self.budgets, between=bool(self.between))

    @functools.cached_property
    def guarantee(self) -> Guarantee:
        losses = [count.loss(self.budgets[count.name]) for count in self.counts]
        return self._guaranteed(losses)

    @property
    def layout(self) -> Layout:
        """The cells that are walked on."""
        return even_layout(self.domain, self.visits.within(self.domain.side)[-1])

    def init(self) -> State[TrajectoriesPublic, Nothing]:
        return State(TrajectoriesPublic(np.zeros((), np.int64), np.zeros(0, np.int64)), Nothing())

    def plan(self, public: TrajectoriesPublic) -> JourneyPlan:  # noqa: ARG002
        return JourneyPlan(self._reading, self.layout, self.counts)

    def measure(
        self, state: State[TrajectoriesPublic, Nothing], counts: Tally, noise: Draws
    ) -> Step[TrajectoriesPublic, Nothing]:
        found = [
            count.measured(masses, budget=self.budgets[count.name], noise=noise.at(count.name))
            for count, masses in zip(self.counts, counts.parts, strict=True)
        ]
        released = TrajectoriesPublic(np.asarray(state.public.round + 1), np.concatenate(found))
        return Step(State(released, state.private))

    def view(self, public: TrajectoriesPublic) -> TrajectoriesView | None:
        if not public.round:
            return None
        noisy, start = {}, 0
        for count in self.counts:
            ends = start + np.cumsum(count.sizes)
            levels = np.split(public.parts[start : ends[-1]] / count.whole, ends[:-1] - start)
            atoms, start = count.noise(self.budgets[count.name]), ends[-1]
            scales = tuple((one.variance() / 2) ** 0.5 / count.whole for one in atoms)
            noisy[count.name] = Noisy(count, tuple(levels), scales)
        return TrajectoriesView(self.layout, noisy)

    def sample(
        self, view: TrajectoriesView | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        gone, none = np.ones(len(previous), np.bool_), np.zeros(0, np.int64)
        many = 0 if view is None else round(view.total.value)
        if view is None or many < 1:
            return previous.after(gone, none, self.rows.decode(none, rng))
        layout, detours = view.layout, view.noisy["detours"]
        ends = view.pairs.draw(many, rng)
        homes = layout.homes[ends].astype(np.int64)
        moves = moves_of(detours.levels[0], detours.scales[0], layout.apart(*homes), rng)
        # Synthetic trajectories for each unit.
        more = many / max(float(view.noisy["ends"].levels[0].sum()), 1.0)
        most, passed = self.visits.most, float(view.sizes[2])
        model = Model(layout, view.visits * more, view.turns, most, passed, self.between)
        walks = _both_ends(self.walks.draw(model, homes, moves, rng), ends)
        each = stays(walks, np.add.reduceat(view.density, layout.first) * more, rng)
        places = placed(layout, walks, ends, np.append(0.0, np.cumsum(view.density)), rng)
        sums, places = np.append(0, np.cumsum(each)), np.repeat(places, each)
        offsets, times = sums[walks.offsets], None
        if self.timing is not None:
            times = self.timing.draw(view.noisy["timing"].levels[0], offsets, rng)
        return previous.after(gone, places, self.rows.rows(offsets, places, rng, times))


def _both_ends(walks: Walks, ends: np.ndarray) -> Walks:
    """Visit a lone cell twice if its ends differ."""
    twice = (np.diff(walks.offsets) == 1) & (ends[0] != ends[1])
    again = np.ones(len(walks.cells), np.int64)
    again[walks.offsets[:-1][twice]] = 2
    offsets = walks.offsets + np.append(0, np.cumsum(twice))
    return Walks(offsets, np.repeat(walks.cells, again), np.repeat(walks.stops, again))
