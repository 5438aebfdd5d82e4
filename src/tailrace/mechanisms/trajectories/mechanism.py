"""Trajectories of any length, released once as synthetic ones.

The number of trajectories is counted first. What is counted next, on public grids, is as fine as
that noisy number and the budget allow: where trajectories begin and end and how far apart, which
cells they pass, where their points lie, how they turn, how much longer than need be they are. Each
count is small enough to be seen through its noise. Synthetic trajectories have ends from a gravity
model that is fitted to the counts of ends, walks between them that pass cells and turn as released,
and points along the walks.

Privacy: the declared loss of the declared unit, neighbours add/remove.
1. A unit is one trajectory, whole, or one person with all of theirs. In each level of each count it
   adds nonnegative parts, at most its whole in all, in whole numbers never rounded up beyond it
   (`counts.py`).
2. Fix the released number. Cells, pairs and bins of all other counts follow from it and from public
   settings (`setting.py`), so they are the same for neighbours.
3. Every count gets noise of that sensitivity, also the numbers of trajectories, people and points.
4. The number has its share of the budget, and whatever it turns out to be, the other counts have
   the rest: losses of counts and levels add up to the declared one. Adaptive composition of pure
   and of zCDP losses allows that the second round depends on the first (Dwork and Roth 2014, 3.5;
   Bun and Steinke 2016, lemma 2.3). The rest is post-processing. Under ApproxDP the counts share
   epsilon (pure) or the rho within it, whichever makes less noise, decided before the first round.
5. Where all parts are given, nothing depends on the number: everything is counted in one round.

Accuracy: where the signal (number times epsilon) is too small, no journeys are drawn, since they
would be worse than none; `view.advice` says so. Noise is that of `view`'s counts. Long trajectories
weigh no more than short ones, so what only they do is seen through more noise.
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
from tailrace.domain.geometry import Roads
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Nothing, Sample, State, Step, Table
from tailrace.mechanisms.trajectories.clock import DayClock
from tailrace.mechanisms.trajectories.counts import COUNTS, EDITION, Bins, Grids, Octaves
from tailrace.mechanisms.trajectories.drawing import drawn
from tailrace.mechanisms.trajectories.layout import Map
from tailrace.mechanisms.trajectories.plan import JourneyPlan, Points, Tally
from tailrace.mechanisms.trajectories.promise import OfTrajectories
from tailrace.mechanisms.trajectories.setting import (
    Setting,
    added,
    parts_for,
    setting_of,
    shared,
    signal_of,
)
from tailrace.mechanisms.trajectories.view import TrajectoriesView, cuts_of, least_of
from tailrace.mechanisms.trajectories.walks import TurningWalks
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import Loss
from tailrace.privacy.unit import Event, Unit

# The parts that follow from the noisy number where they are not given.
FOLLOWING = ("visits", "points", "ends", "pairs", "distances", "detours", "turns", "sizes")


@dataclass(frozen=True)
class TrajectoriesPublic:
    """Every noisy count, part after part and level after level.

    After the first of two rounds, the noisy number; after the second, the others behind it.
    """

    round: np.ndarray  # ()
    parts: np.ndarray  # (counts,)
    edition: np.ndarray = field(default_factory=lambda: np.zeros((), np.int64))  # of the rules


@told
@dataclass(frozen=True, kw_only=True)
class Trajectories(OfTrajectories):
    """Trajectories in `domain`, released once as synthetic ones.

    Rows have the id of a `trajectory`, its `order` (a number or a time), and a place.
    `unit=Event()` protects one trajectory, `User(column=...)` one person with all of theirs.

    The `number` of trajectories is counted first, and decides how finely all else is counted. A
    part from `visits` to `sizes` that is given is counted as it says, with its share of the budget
    relative to the others'. With all of them given (`pairs` may stay None: then they are not
    counted) everything is counted in one round. With `timing`, synthetic points have times; without
    it they are numbered. `between` counts cells between two points as visited; None: on roads, and
    wherever anything follows from the number. `walks` says how walks are drawn off roads, at no
    cost, on grids that are not finer than 64.

    >>> from tailrace import Box, Event, PureDP
    >>> city = Box(low=(116.15, 39.75), high=(116.60, 40.10), columns=("lon", "lat"))
    >>> own = {"trajectory": "trip", "order": "time"}
    >>> Trajectories(domain=city, privacy=PureDP(epsilon=1), unit=Event(), **own).guarantee.short
    'epsilon = 1 for one trajectory over 1 step'
    """

    domain: Map
    privacy: Loss
    unit: Unit
    trajectory: str
    order: str
    visits: Grids | None = None
    points: Grids | None = None
    ends: Grids | None = None
    pairs: Grids | None = None
    distances: Bins | None = None
    detours: Bins | None = None
    turns: Bins | None = None
    sizes: Bins | None = None
    number: Bins = None  # type: ignore[assignment]  # None: by the unit
    timing: DayClock | None = None
    between: bool | None = None
    walks: TurningWalks = field(default_factory=TurningWalks)

    def __post_init__(self) -> None:
        self._check()
        if self.number is None:
            # By reasoning: people need a larger share, since most of the octaves are noise.
            event = isinstance(self.unit, Event)
            number = Bins(share="0.02") if event else Octaves(share="0.05")
            object.__setattr__(self, "number", number)
        for name, count in COUNTS.items():
            part = getattr(self, name)
            if not isinstance(part, count.kind) and not (name != "number" and part is None):
                raise ConfigError(f"{name} must be {count.kind.__name__}(...).")
        if not isinstance(self.walks, TurningWalks):
            raise ConfigError("walks must be TurningWalks(...).")
        self.guarantee  # noqa: B018 - a budget beyond the range of the noise is refused now

    @property
    def rows(self) -> Points:
        """The rows of the synthetic table."""
        return Points(self.domain, self.trajectory, self.order, self.timing)

    @property
    def rounds(self) -> int:
        """One where all parts are given, otherwise two."""
        return 1 if all(getattr(self, name) for name in FOLLOWING if name != "pairs") else 2

    @property
    def needed(self) -> float:
        """Trajectories (under User: people) from which some are drawn."""
        if self.rounds == 1:
            return 0.0
        return least_of(self.domain) / signal_of(1.0, added(self.budgets.values()))

    def _parts_at(self, signal: float, edition: int = EDITION) -> dict[str, Any]:
        """The parts that are counted, in the order of release."""
        found = {} if self.rounds == 1 else parts_for(signal, self.domain, edition)
        given = {name: part for name in COUNTS if (part := getattr(self, name)) is not None}
        return {name: found[name] for name in COUNTS if name in (found := {**found, **given})}

    @property
    def _parts(self) -> dict[str, Any]:
        return self._parts_at(0.0)

    def setting(self, signal: float, edition: int = EDITION) -> Setting:
        """What is counted after a number of so much signal."""
        parts = self._parts_at(signal, edition)
        if self.rounds == 1:
            return self._setting(parts, self.budgets, edition)
        del parts["number"]
        others = added(budget for name, budget in self.budgets.items() if name != "number")
        return self._setting(parts, shared(others, parts), edition)

    @functools.cached_property
    def _first(self) -> Setting:
        return self._setting({"number": self.number}, self.budgets, EDITION)

    def _setting(self, parts: dict[str, Any], budgets: dict[str, Drawn], edition: int) -> Setting:
        # One round counts as it always did; streams were kept that do.
        usual = (edition > 0 and self.rounds == 2) or isinstance(self.domain, Roads)
        between = usual if self.between is None else bool(self.between)
        return setting_of(self.domain, parts, budgets, between=between, edition=edition)

    @functools.cached_property
    def guarantee(self) -> Guarantee:
        # The same for every signal: a setting divides what the number leaves.
        losses = [self.setting(signal).loss for signal in (0.0, *cuts_of(self.domain))]
        if self.rounds == 2:
            losses = [self._first.loss & loss for loss in losses]
        (made,) = {self._guaranteed([loss]) for loss in losses}
        return made

    def init(self) -> State[TrajectoriesPublic, Nothing]:
        zero, edition = np.zeros((), np.int64), np.asarray(EDITION)
        return State(TrajectoriesPublic(zero, np.zeros(0, np.int64), edition), Nothing())

    def _now(self, public: TrajectoriesPublic) -> Setting:
        """What the next round counts; after the last, what it counted."""
        edition = int(public.edition)
        if self.rounds == 1:
            return self.setting(0.0, edition)
        return self.setting(self._signal(public), edition) if public.round else self._first

    def _signal(self, public: TrajectoriesPublic) -> float:
        """Units times epsilon, by the noisy number."""
        number = self._first.noisy(public.parts[: self._first.size])["number"]
        octaves = isinstance(self.number, Octaves)
        units = number.people if octaves else float(number.levels[0][0])
        return signal_of(units, added(self.budgets.values()))

    def plan(self, public: TrajectoriesPublic) -> JourneyPlan:
        now = self._now(public)
        return JourneyPlan(self._reading, now.layout, now.counts)

    def measure(
        self, state: State[TrajectoriesPublic, Nothing], counts: Tally, noise: Draws
    ) -> Step[TrajectoriesPublic, Nothing]:
        public, found = state.public, self._now(state.public).measured(counts, noise)
        parts = np.concatenate([public.parts, found])
        done = TrajectoriesPublic(np.asarray(public.round + 1), parts, public.edition)
        return Step(State(done, state.private), again=bool(done.round < self.rounds))

    def view(self, public: TrajectoriesPublic) -> TrajectoriesView | None:
        if public.round < self.rounds:
            return None
        setting, first = self._now(public), self._first.size if self.rounds == 2 else 0
        noisy, signal = setting.noisy(public.parts[first:]), None
        if first:
            noisy |= self._first.noisy(public.parts[:first])
            signal = self._signal(public)
        assert setting.layout is not None, "visits are always counted"
        return TrajectoriesView(setting.layout, noisy, signal=signal)

    def sample(
        self, view: TrajectoriesView | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        gone, none = np.ones(len(previous), np.bool_), np.zeros(0, np.int64)
        many = 0 if view is None or not view.enough else round(view.total.value)
        if view is None or many < 1:
            return previous.after(gone, none, self.rows.decode(none, rng))
        offsets, places = drawn(view, many, self.walks, rng)
        times = None
        if self.timing is not None:
            times = self.timing.draw(view.noisy["timing"].levels[0], offsets, rng)
        return previous.after(gone, places, self.rows.rows(offsets, places, rng, times))
