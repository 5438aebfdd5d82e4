"""Trajectories: journeys of any length, released once as synthetic journeys over the same map.

Everything is counted in one pass, on public grids: where trajectories begin and end and how far
apart, which cells they pass, where their points lie, how they turn, how much longer than need be
they are. Each of these is small enough to be seen through its noise; journeys are then put
together: ends from a gravity model that agrees with all that was measured of them, walks between
them that pass the cells and turn as was measured, points along the walks.

Privacy: the declared loss of the declared unit, neighbours add/remove. A unit is one trajectory,
whole, or one person with all of theirs. In each level of each part one unit adds nonnegative parts
of at most its whole in all (`trajectories_counts`), in whole numbers that are never rounded up
beyond it; every count of a public set gets noise of that sensitivity; the losses of parts and
levels add up to the declared one. All that is made of them is post-processing. How many
trajectories, people and points there are is measured too, never known. Under ApproxDP the parts
share epsilon (pure) or the rho within it, whichever makes less noise.
Accuracy: noise is that of `view`'s counts. Long trajectories weigh no more than short ones, so what
only they do is seen through more.
Source: none as a whole. Contributions of 1 / t: DPT (He et al. 2015) and after it AdaTrace (Gursoy
et al. 2018) and Kumar's dissertation, chapter 5, which also has walks conditioned on both ends;
ours are second-order, and exact. `papers.trajectories` is the latter's.
Departs: from all of these: no transition is measured. A walk of given ends and length is nearly
determined by the cells it should pass, and these are a ninth as many as the edges between them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counting.journeys.reading import Reading
from tailrace.domain import Box
from tailrace.domain.geometry import Region, Roads
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Nothing, Sample, State, Step, Table, Takes
from tailrace.mechanisms.trajectories.clock import DayClock
from tailrace.mechanisms.trajectories.counts import Bins, Grids, Query, queries
from tailrace.mechanisms.trajectories.layout import Layout, even_layout
from tailrace.mechanisms.trajectories.plan import JourneyPlan, Points, Tally
from tailrace.mechanisms.trajectories.points import placed, stays
from tailrace.mechanisms.trajectories.promise import check, promise
from tailrace.mechanisms.trajectories.view import Noisy, TrajectoriesView
from tailrace.mechanisms.trajectories.walks import Model, TurningWalks, Walks, moves_of
from tailrace.noise import Draws
from tailrace.privacy.budget import split
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import Loss
from tailrace.privacy.unit import AddRemove, Neighbours, Unit, User

_PARTS = (
    "visits",
    "points",
    "ends",
    "pairs",
    "distances",
    "detours",
    "turns",
    "sizes",
    "timing",
    "number",
)


@dataclass(frozen=True)
class Released:
    """Every noisy count, part after part and level after level."""

    round: np.ndarray  # ()
    parts: np.ndarray  # (counts,)


@told
@dataclass(frozen=True, kw_only=True)
class Trajectories:
    """Journeys in `domain`: rows with the id of a `trajectory`, its `order` (a number or a time),
    and a place.

    `unit=Event()` protects one trajectory, `User(column=...)` one person with all of theirs. The
    other parameters say what is counted, each with a share of the budget relative to the others',
    and how `walks` are drawn; `pairs` may be None. With `timing`, a DayClock, synthetic points have
    times; without one they are numbered. `between` also counts cells that lie between two points as
    visited: for records with gaps of many cells (of a 64th of the map).

    >>> from tailrace import Box, Event, PureDP
    >>> city = Box(low=(116.15, 39.75), high=(116.60, 40.10), columns=("lon", "lat"))
    >>> Trajectories(domain=city, privacy=PureDP(epsilon=1), unit=Event(), trajectory="trip", order="time").guarantee.short
    'epsilon = 1 for one trajectory over 1 step'
    """

    domain: Box | Region | Roads
    privacy: Loss
    unit: Unit
    trajectory: str
    order: str
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
        check(self.domain, self.privacy, self.unit, self.trajectory, self.order)
        for name in _PARTS:
            part = getattr(self, name)
            kind = (
                DayClock
                if name == "timing"
                else Grids
                if name in ("visits", "points", "ends", "pairs")
                else Bins
            )
            if not isinstance(part, kind) and not (name in ("pairs", "timing") and part is None):
                raise ConfigError(f"{name} must be {kind.__name__}(...).")
        if not isinstance(self.walks, TurningWalks):
            raise ConfigError("walks must be TurningWalks(...).")
        self.guarantee  # noqa: B018 - a budget beyond the range of the noise is refused now

    @property
    def takes(self) -> Takes:
        return Takes.Once

    @property
    def neighbours(self) -> Neighbours:
        return AddRemove

    @property
    def horizon(self) -> int:
        return 1

    @property
    def deletes(self) -> bool:
        return False

    @property
    def rounds(self) -> int:
        return 1

    @property
    def rows(self) -> Points:
        """What a row of the synthetic table is made of."""
        return Points(self.domain, self.trajectory, self.order, self.timing)

    @property
    def _parts(self) -> dict[str, Any]:
        """What is counted, by name."""
        return {name: getattr(self, name) for name in _PARTS if getattr(self, name) is not None}

    @functools.cached_property
    def queries(self) -> tuple[Query, ...]:
        """What is counted, in order."""
        return queries(self.domain, self._parts, self.budgets, between=bool(self.between))

    @functools.cached_property
    def budgets(self) -> dict[str, Any]:
        """What each part may lose: its share of epsilon, or of rho."""
        return split(self.privacy, {name: part.share for name, part in self._parts.items()})

    @functools.cached_property
    def guarantee(self) -> Guarantee:
        losses = [query.loss(self.budgets[query.name]) for query in self.queries]
        return promise(losses, self.privacy, self.unit)

    @property
    def layout(self) -> Layout:
        """The cells that are walked on."""
        return even_layout(self.domain, self.visits.within(self.domain.side)[-1])

    def init(self) -> State:
        return State(Released(np.zeros((), np.int64), np.zeros(0, np.int64)), Nothing())

    def plan(self, public: Released) -> JourneyPlan:  # noqa: ARG002
        user = self.unit.column if isinstance(self.unit, User) else None
        reading = Reading(self.domain, trajectory=self.trajectory, order=self.order, user=user)
        return JourneyPlan(reading, self.layout, self.queries)

    def measure(self, state: State, counts: Tally, noise: Draws) -> Step:
        found = [
            query.measured(masses, budget=self.budgets[query.name], noise=noise.at(query.name))
            for query, masses in zip(self.queries, counts.parts, strict=True)
        ]
        released = Released(np.asarray(state.public.round + 1), np.concatenate(found))
        return Step(State(released, state.private))

    def view(self, public: Released) -> TrajectoriesView | None:
        if not public.round:
            return None
        noisy, start = {}, 0
        for query in self.queries:
            levels = []
            for size in query.sizes:
                levels.append(public.parts[start : start + size] / query.whole)
                start += size
            atoms = query.noise(self.budgets[query.name])
            noisy[query.name] = Noisy(
                query,
                tuple(levels),
                tuple((one.variance() / 2) ** 0.5 / query.whole for one in atoms),
            )
        return TrajectoriesView(self.layout, noisy)

    def sample(
        self, view: TrajectoriesView | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        stayed, none = np.zeros(len(previous.cells), np.bool_), np.zeros(0, np.int64)
        many = 0 if view is None else round(view.total.value)
        if view is None or many < 1:
            return Sample(Table(none, self.rows.decode(none, rng)), stayed)
        layout, detours = view.layout, view.noisy["detours"]
        ends = view.pairs.draw(many, rng)
        homes = layout.homes[ends].astype(np.int64)
        moves = moves_of(detours.levels[0], detours.scales[0], layout.apart(*homes), rng)
        more = many / max(
            float(view.noisy["ends"].levels[0].sum()), 1.0
        )  # synthetic trajectories for each unit
        most, passed = self.visits.most, float(view.sizes[2])
        model = Model(layout, view.visits * more, view.turns, most, passed, self.between)
        walks = _both_ends(self.walks.draw(model, homes, moves, rng), ends)
        points = np.add.reduceat(view.density, layout.first) * more  # in each cell of the layout
        each = stays(walks, points, rng)
        places = placed(layout, walks, ends, np.append(0.0, np.cumsum(view.density)), rng)
        sums, places = np.append(0, np.cumsum(each)), np.repeat(places, each)
        offsets, times = sums[walks.offsets], None
        if self.timing is not None:
            times = self.timing.draw(view.noisy["timing"].levels[0], offsets, rng)
        return Sample(Table(places, self.rows.rows(offsets, places, rng, times)), stayed)


def _both_ends(walks: Walks, ends: np.ndarray) -> Walks:
    """Walks of one cell, whose ends lie apart in it, as two visits of that cell."""
    twice = (np.diff(walks.offsets) == 1) & (ends[0] != ends[1])
    again = np.ones(len(walks.cells), np.int64)
    again[walks.offsets[:-1][twice]] = 2
    offsets = walks.offsets + np.append(0, np.cumsum(twice))
    return Walks(offsets, np.repeat(walks.cells, again), np.repeat(walks.stops, again))
