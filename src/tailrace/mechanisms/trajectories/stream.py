"""Journeys that ended at each step, released as synthetic ones.

A clock counts journeys under a small share of the budget, and ends an epoch when enough have come.
The epoch's exact counts (`counts.py`) then get noise, once, under nearly all the rest of the
budget. How finely an epoch is counted is decided when it begins, from released numbers. Everything
else is made of them: shares followed over epochs (`following.py`), the fit, synthetic journeys. At
each step these come in the number that the clock says; when an epoch ends, journeys drawn since the
routes last changed are drawn anew, from what is known now. A watch counts at every step, coarsely,
where journeys begin and end: if a week of them differs from the shares, the epoch ends at once, and
the next one as soon as journeys can be drawn of it.

Privacy: the declared loss of the declared unit over the horizon, neighbours add/remove.
1. One journey that ended changes the clock at one step, by one; the watch at the same step, where
   it adds one whole in all; and the counts of the one epoch that this step falls into: nonnegative
   parts, in each level of each count at most its whole in all (`counts.py`). A journey is all rows
   of one id at one step: whether and how it is counted depends on its own rows alone.
2. Fix all releases. Then the end of every epoch is fixed, by the clock, by the watch or by public
   schedule (the longest epoch, the horizon); and so is what the epoch counts, chosen at its first
   step from releases before it. Every cell, pair and bin gets a draw, empty or not; so does every
   cell of the watch at every step.
3. The journey loses `clock.loss` by the clock, and the watch's share by the watch: draws of other
   steps do not hold it. Its epoch's counts and levels have budgets that add up to the rest,
   whatever the setting (`setting.py`); counts of other epochs do not hold it.
4. Given the same releases all draws are independent and made in turn, so the losses add (adaptive
   composition; concurrent with the clock's: Vadhan and Wang 2021, Lyu 2022). What is counted may
   depend on past releases: for pure losses by F1 of the selective-counting proof, for Gaussian ones
   by F2, since every count depends only on what came before its draw.
5. A user of m accepted journeys (`counting/journeys/bounding.py`) raises counts by parts that add
   up to at most m wholes over all epochs, and the watch over all steps, wherever they fall:
   `loss(m, 0)` of the clock and of each draw, which is the sum again. A `Window` raises by 2m and
   lowers by m (`unit.events_of`).
6. With `retention` synthetic journeys leave by the calendar: post-processing.

Accuracy: with c = 3, an epoch has three times as many journeys as all before it, so that a few
epochs hold nearly all; noise of shares averages out while routes stay the same. Journeys that begin
and end elsewhere are seen by the watch within days; routes that change between the same ends when
the epoch ends. `view` has the errors that noise makes.
Source: none as a whole. Epochs by a noisy clock: `SpatialStream`; counts and walks: `Trajectories`.
Departs: Kumar's dissertation, chapter 5, releases journeys once; this is its continual form.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counters.base import Counter
from tailrace.counters.choice import allot
from tailrace.counting.journeys.masses import Masses
from tailrace.counting.journeys.reading import Reading
from tailrace.domain.geometry import Roads
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Sample, State, Step, Table
from tailrace.mechanisms.shared.events import Clock, OfEvents
from tailrace.mechanisms.trajectories.clock import DayClock
from tailrace.mechanisms.trajectories.counts import COUNTS, EDITION, Bins, Count
from tailrace.mechanisms.trajectories.drawing import drawn
from tailrace.mechanisms.trajectories.following import WATCHED, WEEKS, Track, moved
from tailrace.mechanisms.trajectories.layout import Map
from tailrace.mechanisms.trajectories.plan import Points, Tally, TripPlan
from tailrace.mechanisms.trajectories.promise import check_columns, on_map
from tailrace.mechanisms.trajectories.setting import (
    Setting,
    added,
    parts_for,
    setting_of,
    shared,
    signal_of,
)
from tailrace.mechanisms.trajectories.view import Noisy, TrajectoriesView, cuts_of, least_of
from tailrace.mechanisms.trajectories.walks import TurningWalks
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn, part, per_event, restate, split
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import Loss, whole
from tailrace.privacy.unit import Event, Unit

# The clock's share of the budget, as that of places (`AdaTree.clock`), and the watch's. By
# reasoning: at epsilon 1 a week of 1,000 journeys a day stands out that has a fifth other ends.
_CLOCK, _WATCH = Fraction(1, 20), Fraction(1, 25)
# An epoch ends when it has this many times the journeys before it (../shared/accuracy2.md, part 4,
# section 4: less noise than 1 and .5), and at least so many deviations of the clock, and as much
# signal as journeys need to be drawn (`least_of`).
_GROWTH, _SURE = 3.0, 3.0
# The longest epoch, in parts of the horizon: what growth makes of the last one; and the longest of
# a stream without one, in steps, or in times of all steps before.
_LONGEST, _ENDLESS = Fraction(3, 4), 60
# An epoch is counted as finely as a single release of so much less: a level that is new is told of
# by this epoch alone. Chosen on seeds 101 and 102 of benchmarks/journeys.py ("same", day 60): 1 has
# a tenth more error in QE, a quarter in QE_path.
_FINER = 2.0
# Numbers of journeys of one step, behind its number in their ids.
_IDS = 10**9


@dataclass(frozen=True)
class JourneysPublic:
    """Everything a stream of journeys has released up to a step."""

    clock: np.ndarray  # (steps,) the noisy number of journeys up to each step
    closes: np.ndarray  # (epochs,) the steps that closed them
    since: np.ndarray  # () journeys of later steps are drawn from the shares
    signal: np.ndarray  # () for which the last closed epoch was counted
    ahead: np.ndarray  # () for which the open epoch is counted
    track: Track
    # () the shares tell of the journeys after this step
    base: np.ndarray = field(default_factory=lambda: np.zeros((), np.int64))
    # (steps, cells) noisy ends of each step of the open epoch
    watched: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    # () of the rules
    edition: np.ndarray = field(default_factory=lambda: np.zeros((), np.int64))


@dataclass(frozen=True)
class JourneysPrivate:
    """Private state: exact counts of the open epoch, clock sums."""

    pending: Tally
    clock: Any


@dataclass(frozen=True, eq=False, repr=False)
class JourneysView(TrajectoriesView):
    """Noisy counts of the journeys since routes last changed.

    Those that came since an epoch was last measured are taken to be like those before.
    """

    fit: TrajectoriesView  # at the end of the last epoch: journeys are drawn from it
    born: np.ndarray  # (steps,) synthetic journeys of each step
    since: int  # journeys of later steps are like these
    fresh: bool  # whether an epoch ended with this step


@told
@dataclass(frozen=True, kw_only=True)
class JourneyStream(OfEvents):
    """Journeys that ended since the last step, and synthetic ones.

    Rows have the id of a `trajectory`, its `order` (a number or a time), and a place in `domain`.
    All rows of a journey belong to the step at which it ended: rows of one id at two steps are two
    journeys. Journeys under way are out of scope: push them when they have ended.

    `unit=Event()` protects one journey, `User(column=..., events=m)` a person with at most m of
    them, `Window(steps=w, column=..., events=m)` a person within any w steps. With `retention`,
    synthetic journeys leave so many steps after they came. With `timing` they have times of day:
    its start and end are those of the first step, and all steps are as long. `walks` says how walks
    are drawn, at no cost.

    The ids of synthetic journeys begin with their step: the seventh of step 12 is 12000000007.

    >>> from tailrace import Box, Event, PureDP
    >>> city = Box(low=(116.15, 39.75), high=(116.60, 40.10), columns=("lon", "lat"))
    >>> own = {"trajectory": "trip", "order": "time", "horizon": 365}
    >>> JourneyStream(domain=city, privacy=PureDP(epsilon=1), unit=Event(), **own).guarantee.short
    'epsilon = 1 for one trajectory over 365 steps'
    """

    deletes = False

    domain: Map
    privacy: Loss
    unit: Unit
    horizon: int | None
    trajectory: str
    order: str
    retention: int | None = None
    timing: DayClock | None = None
    walks: TurningWalks = field(default_factory=TurningWalks)

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "domain", on_map(self.domain))
        check_columns(self.domain, trajectory=self.trajectory, order=self.order)
        if self.retention is not None:
            object.__setattr__(self, "retention", whole("retention", self.retention))
        if self.timing is not None and not isinstance(self.timing, DayClock):
            raise ConfigError("timing must be DayClock(...): start and end of the first step.")
        if not isinstance(self.walks, TurningWalks):
            raise ConfigError("walks must be TurningWalks(...).")
        # A budget beyond the range of the noise is refused now.
        self.guarantee  # noqa: B018
        self.clock.init(0)

    @property
    def rows(self) -> Points:
        return Points(self.domain, self.trajectory, self.order, self.timing)

    @functools.cached_property
    def _budget(self) -> Drawn:
        """The budget of a unit, pure or zCDP, whichever makes less noise."""
        parts = self._parts(0.0)
        return added(split(self.privacy, {name: one.share for name, one in parts.items()}).values())

    @functools.cached_property
    def clock(self) -> Counter[Any]:
        """The counter of journeys."""
        budget = part(self._budget, _CLOCK)
        return allot(None, privacy=budget, horizon=self.horizon, events=self._events)

    @functools.cached_property
    def _ticking(self) -> Clock:
        return Clock(self.clock, 1, self.horizon, 1, _GROWTH)

    def _counts_budget(self, edition: int = EDITION) -> Drawn:
        """Of one journey, for all counts of its epoch."""
        watch = _WATCH if edition else 0
        return per_event(part(self._budget, 1 - _CLOCK - watch), self._events)

    @functools.cached_property
    def _watch(self) -> Setting:
        """What is counted at every step: where journeys begin and end, coarsely."""
        budget = {"ends": per_event(part(self._budget, _WATCH), self._events)}
        return setting_of(self.domain, {"ends": WATCHED}, budget, between=False)

    def _parts(self, signal: float, edition: int = EDITION) -> dict[str, Any]:
        found = parts_for(signal, self.domain, edition)
        return found if self.timing is None else {**found, "timing": self.timing}

    def setting(self, signal: float, edition: int = EDITION) -> Setting:
        """What an epoch counts that so much signal is expected of."""
        reached = sum(signal >= cut for cut in cuts_of(self.domain, edition))
        return self._settings(edition)[reached]

    def _settings(self, edition: int = EDITION) -> tuple[Setting, ...]:
        if edition not in self._made:
            signals = (0.0, *cuts_of(self.domain, edition))
            each = [self._parts(signal, edition) for signal in signals]
            budget, between = self._counts_budget(edition), isinstance(self.domain, Roads)
            about: dict[str, Any] = {"between": between or edition > 0, "edition": edition}
            self._made[edition] = tuple(
                setting_of(self.domain, parts, shared(budget, parts), **about) for parts in each
            )
        return self._made[edition]

    @functools.cached_property
    def _made(self) -> dict[int, tuple[Setting, ...]]:
        """The settings of each edition."""
        return {}

    def _loss(self, inserted: int, deleted: int) -> Loss:
        watch, *counts = (
            functools.reduce(
                operator.and_,
                (
                    atoms.loss(inserted, deleted)
                    for count in setting.counts
                    for atoms in count.noise(setting.budgets[count.name])
                ),
            )
            for setting in (self._watch, *self._settings())
        )
        # An epoch is counted by one of the settings, and all cost the same.
        most = max(counts, key=lambda loss: loss.as_zcdp().rho)
        return restate(self.clock.loss(inserted, deleted) & watch & most, self.privacy)

    @property
    def guarantee(self) -> Guarantee:
        made = super().guarantee
        return replace(made, record="trajectory") if isinstance(self.unit, Event) else made

    @functools.cached_property
    def _number(self) -> Count:
        return COUNTS["number"]("number", Bins(share=1), self.domain, whole=1)

    def init(self) -> State[JourneysPublic, JourneysPrivate]:
        zero, none = np.zeros(()), np.zeros(0, np.int64)
        start, watched = zero.astype(np.int64), np.zeros((0, 0))
        track = Track.none()
        edition = np.asarray(EDITION)
        public = JourneysPublic(
            np.zeros(0), none, start, zero, zero, track, start, watched, edition
        )
        nothing = Tally(tuple(Masses.none() for _ in self.setting(0.0).counts))
        return State(public, JourneysPrivate(nothing, self.clock.init(1)))

    def _emptied(self, measured: Tally) -> Tally:
        """The exact counts of an epoch that begins."""
        return Tally(tuple(Masses.none() for _ in measured.parts))

    def plan(self, public: JourneysPublic) -> TripPlan:
        setting = self.setting(float(public.ahead), int(public.edition))
        reading = Reading(self.domain, trajectory=self.trajectory, order=self.order, user=self._key)
        watch = self._watch.counts if public.edition else ()
        parts = (self._number, *watch, *setting.counts)
        return TripPlan(reading, setting.layout, parts, self.timing)

    def measure(
        self, state: State[JourneysPublic, JourneysPrivate], counts: Tally, noise: Draws
    ) -> Step[JourneysPublic, JourneysPrivate]:
        public, private = state.public, state.private
        number, *parts = counts.parts
        if public.edition:
            ends, *parts = parts
            seen = self._watch.measured(Tally((ends,)), noise.at("watch"))
            watched = np.vstack([*public.watched, seen / self._watch.counts[0].whole])
            public = replace(public, watched=watched)
        pending = private.pending + Tally(tuple(parts))
        happened = np.array([number.parts.sum()])
        ticking, estimates = self.clock.step(private.clock, happened, noise.at("clock"))
        public = replace(public, clock=np.append(public.clock, estimates.astype(float)))
        if self._ends(public):
            setting = self.setting(float(public.ahead), int(public.edition))
            found = setting.noisy(setting.measured(pending, noise.at("counts")))
            public = self._closed(public, found)
            pending = self._emptied(pending)
        return Step(State(public, JourneysPrivate(pending, ticking)))

    def _at(self, public: JourneysPublic, step: int) -> float:
        """The clock at a step."""
        return float(public.clock[step - 1]) if step else 0.0

    def _ends(self, public: JourneysPublic) -> bool:
        """Whether the open epoch ends with the last step."""
        step, closed = len(public.clock), _last(public.closes)
        if step == self.horizon or step - closed >= self._longest(closed):
            return True
        before = max(self._at(public, closed) - self._at(public, int(public.base)), 0.0)
        pending = self._at(public, step) - self._at(public, closed)
        sure = _SURE * math.sqrt(self._ticking.variance(step, closed))
        needed = self._needed(int(public.edition))
        return pending >= max(_GROWTH * before, sure, needed) or self._moved(public)

    def _moved(self, public: JourneysPublic) -> bool:
        """Whether journeys begin and end elsewhere than the shares say, by the watch."""
        if not len(public.closes) or not public.edition:
            return False
        step, (count,) = len(public.clock), self._watch.counts
        variance = float(count.noise(self._watch.budgets["ends"])[0].variance()) / count.whole**2
        setting = self.setting(float(public.signal), int(public.edition))
        told = public.track.coarse(setting, count.sizes[0])
        numbers = [self._at(public, step) - self._at(public, max(step - w, 0)) for w in WEEKS]
        return moved(public.watched, numbers, variance, *told)

    @property
    def needed(self) -> float:
        """Journeys of the first epoch from which some are drawn."""
        return self._needed(EDITION)

    def _needed(self, edition: int) -> float:
        return least_of(self.domain, edition) / signal_of(1.0, self._counts_budget(edition))

    def _longest(self, closed: int) -> int:
        """Steps of an epoch, at most."""
        if self.horizon is None:
            most = max(math.ceil(_GROWTH * closed), _ENDLESS)
        else:
            most = math.ceil(_LONGEST * self.horizon)
        return most if self.retention is None else min(most, self.retention)

    def _closed(self, public: JourneysPublic, found: dict[str, Noisy]) -> JourneysPublic:
        """Follow the counts of an epoch; decide how the next one is counted."""
        step, closed = len(public.clock), _last(public.closes)
        each, edition = (public.signal, public.ahead), int(public.edition)
        before, now = (self.setting(float(one), edition) for one in each)
        number = max(self._at(public, step) - self._at(public, closed), 1.0)
        # Where the watch ended an epoch, the shares tell of nothing that comes then.
        moved, anew = self._moved(public), 0 < closed == int(public.base)
        track, changed = public.track.after(before, now, found, number, moved=anew)
        since, base = (closed, closed) if changed else (public.since, public.base)
        return replace(
            public,
            closes=np.append(public.closes, step),
            since=np.asarray(since),
            signal=public.ahead,
            ahead=np.asarray(self._ahead(public, step)),
            track=track,
            base=np.asarray(step if moved else base),
            watched=public.watched[:0],
        )

    def _ahead(self, public: JourneysPublic, step: int) -> float:
        """The signal that is expected of the epoch after `step`, at today's rate.

        Its own: of a level that it is the first to have, no other epoch tells anything. Levels that
        were reached stay.
        """
        before = max(self._at(public, step), 1.0)
        longest = self._longest(step)
        days = longest if self.horizon is None else min(longest, self.horizon - step)
        coming = min(_GROWTH * before, before / step * max(days, 1))
        return max(signal_of(coming, self._counts_budget()) / _FINER, float(public.ahead))

    @functools.cached_property
    def _fits(self) -> list[Any]:
        """The shares that were fitted last, and the fit."""
        return []

    def view(self, public: JourneysPublic) -> JourneysView | None:
        if not len(public.closes):
            return None
        step, track, since = len(public.clock), public.track, int(public.since)
        edition, closed = int(public.edition), _last(public.closes)
        layout = self.setting(float(public.signal), edition).layout
        assert layout is not None, "visits are always counted"
        # A function of the last epoch alone: a stream that is opened again fits the same.
        if not self._fits or self._fits[0] is not track.shares:
            told = track.journeys(self.setting(float(public.signal), edition))
            signal = signal_of(told, self._counts_budget(edition))
            noisy = self._noisy(public, 0, closed)
            self._fits[:] = [track.shares, TrajectoriesView(layout, noisy, signal=signal)]
        noisy, fit, born = self._noisy(public, since, step), self._fits[1], self._born(public.clock)
        # Where too little is known since routes changed, those of before stay.
        born[since:] = born[since:] if fit.enough else 0
        about = {"signal": fit.signal, "fit": fit, "born": born, "since": since}
        return JourneysView(layout, noisy, **about, fresh=closed == step)

    def _noisy(self, public: JourneysPublic, since: int, step: int) -> dict[str, Noisy]:
        """Counts of the journeys after one step up to another that have not left."""
        since = since if self.retention is None else max(since, step - self.retention)
        number = self._at(public, step) - self._at(public, since)
        scale = math.sqrt(self._ticking.variance(step, since) / 2)
        setting = self.setting(float(public.signal), int(public.edition))
        counted = Noisy(self._number, (np.array([number]),), (scale,))
        return {**public.track.noisy(setting, max(number, 1.0)), "number": counted}

    def _born(self, clock: np.ndarray) -> np.ndarray:
        """(steps,) the journeys of each step that are shown.

        Together they are as many as the clock says now; where it has fallen, the newest are fewer.
        """
        sums = np.rint(np.maximum(clock, 0.0)).astype(np.int64)
        many = np.diff(np.minimum.accumulate(sums[::-1])[::-1], prepend=0)
        if self.retention is not None:
            many[: -self.retention] = 0
        return many

    def sample(
        self, view: JourneysView | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        ids = previous.columns[self.trajectory]
        if view is None:
            none = np.zeros(0, np.int64)
            return previous.after(np.ones(len(ids), np.bool_), none, self.rows.decode(none, rng))
        step = ids // _IDS
        stays = step <= view.since if view.fresh else np.ones(len(ids), np.bool_)
        # The first journeys of each step stay, as many as there are now.
        steps = len(view.born)
        stays &= _rank(ids) < view.born[step - 1]
        kept = np.bincount(np.unique(ids[stays]) // _IDS - 1, minlength=steps)
        # What was left out of earlier steps is not tried again.
        drawn_for = view.since if view.fresh else int(step.max(initial=0))
        missing = np.maximum(view.born - kept, 0)
        missing[:drawn_for] = 0
        new = np.repeat(np.arange(1, steps + 1), missing)
        offsets, places = drawn(view.fit, len(new), self.walks, rng) if len(new) else _none()
        # Journeys over places that were not seen are not drawn: some steps have fewer then.
        new = np.sort(rng.permutation(new)[: len(offsets) - 1])
        last = np.zeros(steps, np.int64)
        np.maximum.at(last, step - 1, ids % _IDS)
        number = np.arange(len(new)) - np.searchsorted(new, new) + 1 + last[new - 1]
        times = None
        if self.timing is not None:
            timing = view.noisy["timing"].levels[0]
            times = self.timing.draw(timing, offsets, rng, new - 1)
        columns = self.rows.rows(offsets, places, rng, times, new * _IDS + number)
        return previous.after(~stays, places, columns)


def _last(steps: np.ndarray) -> int:
    return int(steps[-1]) if len(steps) else 0


def _none() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(1, np.int64), np.zeros(0, np.int64)


def _rank(ids: np.ndarray) -> np.ndarray:
    """(rows,) how many journeys of the same step have lower ids."""
    different, which = np.unique(ids, return_inverse=True)
    step = different // _IDS
    return (np.arange(len(different)) - np.searchsorted(step, step))[which]
