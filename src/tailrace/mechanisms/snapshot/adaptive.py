"""Adaptive: releases at a pace that the releases themselves teach.

Privacy: one ledger, in whole units of 1 / 10,000 of the budget (epsilon, or rho).
1. A person moves every snapshot by at most `records` in the 1-norm. Everything bought is paid when
   it is bought, before its noise is drawn, and refused where it exceeds what is left: a release
   (`levels.py`), an alarm and a recall (`alarm.py`). What is bought, when and for how many units is
   decided from released numbers and public ones.
2. An alarm is closed by its positive answer and by every release, so draws follow each other and
   nothing stays open while something else is drawn. Fix all that was released before a draw: its
   parameters and its query are then fixed, and its loss, given the past, is at most what was paid.
3. Pure: fix all releases and answers. The ratio of their likelihoods is the product of the ratios
   of the draws, each at most e^(what was paid), so at most e^(the sum) on every path; the ledger
   keeps that sum within epsilon (Rogers, Roth, Ullman, Vadhan 2016).
4. zCDP: for every order a > 1, the exponential of (a - 1) times the loss so far less a (a - 1)
   times what was paid is a supermartingale, since each draw given the past is zCDP for its payment
   (an alarm, pure epsilon, for epsilon^2 / 2). So the divergence of order a at the end is at most a
   times the ledger's sum, which stays within rho on every path (Feldman, Zrnic 2021; Whitehouse et
   al. 2023).
5. A window of w steps: two series that differ in it alone have equal laws outside. Its loss is that
   of the releases and recalls in it, and of every alarm that looked at a step in it. An open alarm
   is charged to the latest step that it saw. So at the window's last step the ledger of the last w
   steps holds all of these, and later steps add nothing to them.
6. Inputs may depend on earlier releases: the ratios are of draws given the past.

Accuracy: `filter.py` combines releases and learns how fast the data drift.
1. The first release gets `_FIRST` of the budget. Then the data stand *still*: an alarm watches,
   where it can see through its noise. Where it cannot, releases are scheduled instead.
2. An alarm asks for a release. A change that overshoots the alarm's threshold is a *jump*: the old
   level is archived, and recalled, without a release, when a later alarm finds the data there.
   Otherwise the data are *moving*.
3. Moving data are released every g steps, where noise and drift are in balance: with nu the noise
   of a release with all of the budget, R the share and L the steps that are left and r the drift of
   a step, noise is nu L / (R g), or nu sqrt(L / (R g)) in zCDP, and drift r g.
4. With a `season` releases are even, g steps apart with g prime to the season, so that they meet
   all of its phases, and the filter has harmonics of it.
benchmarks/snapshots_hindsight.py measures it beside the best setting in hindsight of others.

Source: none of the papers; DSFT (Li et al. 2015) for the test of a distance.
Departs: from DSFT and DSAT, in that an alarm looks at depths of a tree instead of all bins, is
bought only where it can see, and leaves the pace to what was learned.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.calls import told
from tailrace.domain.halving import Halving
from tailrace.mechanisms.snapshot.alarm import MEAN, UNITS, Facts
from tailrace.mechanisms.snapshot.filter import Filter, importance
from tailrace.mechanisms.snapshot.policy import (
    Combined,
    Decision,
    Hidden,
    Pace,
    Policy,
    Series,
    Snapshot,
    Split,
    Variances,
    beginning,
    bounded,
)
from tailrace.mechanisms.snapshot.watching import (
    FIRST,
    MOVING,
    PLANNED,
    RANG,
    STILL,
    Course,
    Watching,
)
from tailrace.noise import Draws
from tailrace.privacy.budget import part
from tailrace.privacy.loss import whole

# Settings after a prototype, tried one at a time on the family CHOSEN of
# benchmarks/snapshots_generated.py; no committed result.
# The share of the first release, pure and zCDP.
_FIRST = {True: 0.62, False: 0.45}
# Releases that are scheduled where no alarm can see.
_BLIND = 4
# zCDP: still data are measured again at these shares of the steps, with a share of what is left.
_AGAIN, _MORE = (0.05, 0.25, 0.5), 0.2
# The drift of a range count behind an alarm: at least this part of what it sees.
_DRIFTED = 0.25
# A factor on the gap of moving data, pure.
_GAP = 1.2
# With a season, the least steps between releases, pure (whose noise grows with them) and zCDP.
_APART = {True: 5, False: 1}
# Still data are moving where a release shows a drift of this many times the noise.
_SURE = 2
# A drift of nothing, so that gaps are finite.
_SLOW = 1e-9


@told
@dataclass(frozen=True, kw_only=True)
class Adaptive(Policy):
    """Release when the data moved, at a pace learned from releases.

    Parameters
    season: the steps after which the data repeat, for example 24 for the hours of days; None: they
        are not known to.
    """

    season: int | None = None

    def __post_init__(self) -> None:
        if self.season is not None:
            whole("season", self.season, least=2)

    @property
    def tracks(self) -> bool:
        return True

    @property
    def foresees(self) -> bool:
        return True

    def split(self, series: Series) -> Split:
        usual = UNITS // min(5, bounded(series, "Adaptive"))
        return Split(part(series.privacy, Fraction(1, UNITS)), UNITS, usual=usual)

    def begin(self, series: Series) -> Course:
        plain, of, zero = beginning(series), self._filter(series), np.zeros((), np.int64)
        track = of.blank()
        numbers = {
            name: np.zeros((), float if name in ("rate", "jump") else np.int64)
            for name in Course.__dataclass_fields__
            if name not in Pace.__dataclass_fields__
        }
        arrays = {
            "rang": np.stack([zero, zero]),
            "archive": np.zeros((0, series.bins), np.float32),
            "spreads": np.zeros((0, len(track.energy))),
            "stood": np.zeros(0, np.int64),
            "track": track,
        }
        before = {name: getattr(plain, name) for name in Pace.__dataclass_fields__}
        return Course(**{**before, **numbers, **arrays})

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:
        now = self._now(series, pace, snapshot.variances)
        if now.step == 1:
            return now.released(now.first, FIRST, hidden)
        now.carry()
        if self.season is None and now.course.mode == STILL and not now.course.open:
            hidden = now.watch(hidden, noise)
        if now.course.open and now.rings(snapshot, hidden, noise):
            return now.answered(snapshot, hidden, noise)
        return now.scheduled(hidden)

    def combined(
        self, series: Series, known: Combined, found: np.ndarray, variances: Variances
    ) -> Combined:
        now = self._now(series, known.pace, variances)
        now.combine(found, variances(int(known.pace.paid)))
        return Combined(now.course, now.cells(now.level), known.variances)

    def shown(
        self, series: Series, known: Combined, variances: Variances
    ) -> tuple[np.ndarray, np.ndarray]:
        now = self._now(series, known.pace, variances)
        return now.cells(now.level), now.uncertain()

    def _now(self, series: Series, pace: Pace, variances: Variances) -> _Now:
        assert isinstance(pace, Course)
        facts = Facts(series, self._filter(series), variances(UNITS))
        return _Now(facts, pace, self.season)

    def _filter(self, series: Series) -> Filter:
        return _filter(series.tree, bounded(series, "Adaptive"), self.season)


class _Now(Watching):
    """One step: what is planned from what was released."""

    def __init__(self, facts: Facts, course: Course, season: int | None) -> None:
        super().__init__(facts, course)
        self.season = season

    @property
    def first(self) -> int:
        """The units of the first release; with a season, of each."""
        if self.season is not None:
            return max(1, UNITS // -(-self.steps // self.gap))
        return UNITS if self.steps == 1 else int(UNITS * _FIRST[self.facts.pure])

    @property
    def gap(self) -> int:
        """With a season, the steps between releases: prime to it, to meet all its phases."""
        gap = max(_APART[self.facts.pure], -(-self.steps // UNITS))
        while math.gcd(gap, self.season or 1) > 1:
            gap += 1
        return gap

    def scheduled(self, hidden: Hidden) -> Decision:
        """Release if it is planned for this step and can be paid."""
        due = bool(self.course.next) and self.step >= int(self.course.next)
        planned = int(self.course.planned)
        if not due or (self.series.sliding and 2 * self.rest < planned):
            return Decision(0, self.course, hidden)
        return self.released(planned, PLANNED, hidden)

    def combine(self, found: np.ndarray, noise: np.ndarray) -> None:
        """Fold a release in, say how the data move, and plan."""
        of, why = self.filter, int(self.course.why)
        fresh = np.concatenate(of.tree.details(found))
        if why == FIRST:
            self.change(track=of.begun(fresh, noise, self.step), stands=self.step)
            self.plan()
            return
        weight = importance(self.series.shape, of.tree) * (noise > 0)
        place = of.place[self.course.track.kinds]
        squares = np.bincount(place, (fresh - self.level) ** 2, minlength=len(of.many))
        noisy = float(weight @ (noise + self.known))
        drift = float(weight @ (squares / np.maximum(1, of.many))) - noisy
        if why == RANG and (jump := self.jumped(found, noise)):
            self.shelve()
            track = of.jumped(self.course.track, fresh, noise, self.step)
            self.change(track=track, stands=self.step, jump=jump, mode=STILL)
        else:
            people = self.alarm.people
            track = of.updated(
                self.course.track, fresh, noise, self.step, people=people, weight=weight
            )
            self.moves(drift, noisy)
            self.change(track=track)
        self.plan()

    def moves(self, drift: float, noisy: float) -> None:
        """Learn how fast the data move from a squared innovation.

        Parameters
        drift: the mean squared drift of range counts since the last release.
        noisy: that of noise.
        """
        gap, course = int(self.course.gap), self.course
        if course.why == RANG:
            alarm = self.alarm
            least = _DRIFTED * alarm.visible(alarm.units)
            self.change(rate=math.sqrt(max(drift, least**2)) / gap, mode=MOVING, quiet=0)
            return
        seen = max(0.0, drift) / gap**2
        rate = math.sqrt((float(course.rate) ** 2 + seen) / 2 if course.rate else seen)
        quiet = int(course.quiet) + 1 if drift < noisy / 4 else 0
        moving = course.mode == MOVING or drift > _SURE * noisy
        self.change(rate=rate, quiet=quiet, mode=MOVING if moving else STILL)

    def jumped(self, found: np.ndarray, noise: np.ndarray) -> float:
        """People that a jump moved; 0: the data drifted.

        A drift is seen at the alarm's threshold. A jump overshoots it, on some depth.
        """
        facts = self.facts
        if self.soon:
            return 0.0
        alarm, gap = self.alarm, int(self.course.gap)
        sums = self.filter.tree.sums((found - self.cells(self.level))[self.filter.tree.order])
        moved = np.array([np.abs(sums[depth]).sum() for depth in facts.depths])
        moved = np.sqrt(np.maximum(0, moved**2 - facts.far(self.known + noise) ** 2))
        unsure = facts.far(noise) / (MEAN * np.sqrt(facts.nodes()))
        beyond = 2 * float(alarm.comparing(alarm.units).distance_scale) + 0.6 * unsure
        over = moved * (1 - 1 / gap) > self.thresholds + beyond
        return float(moved.max()) if over.any() else 0.0

    def plan(self) -> None:
        """When to release next, with how many units."""
        if self.season is not None:
            self.change(next=self.step + self.gap, planned=self.first)
        elif self.course.mode == MOVING:
            self.plan_moving()
        else:
            self.plan_still()

    def plan_still(self) -> None:
        alarm, next_, planned = self.alarm, 0, 0
        if self.series.sliding:
            next_, planned = self.step + self.steps, self.first
        elif not (alarm.worth and self.affordable(alarm)) and not self.course.recalls:
            many = max(1, _BLIND + 1 - int(self.course.releases.sum()))
            next_, planned = self.step + max(1, self.left // (many + 1)), self.rest // many
        elif not self.facts.pure:
            marks = (math.ceil(share * self.steps) for share in _AGAIN)
            next_, planned = next((t for t in marks if t > self.step), 0), int(_MORE * self.rest)
        self.change(next=next_, planned=planned)

    def plan_moving(self) -> None:
        weight = importance(self.series.shape, self.filter.tree)
        rate = float(self.course.rate)
        rest = UNITS if self.series.sliding else max(1, self.rest)
        # The noise of all of the budget, from what a quarter of the rest leaves.
        some = max(1, rest // 4)
        left = self.filter.shrunk(self.course.track, self.facts.noise(some))
        noise = math.sqrt(float(weight @ left)) * (some / UNITS) ** (1 if self.facts.pure else 0.5)
        if self.facts.pure:
            gap = _GAP * math.sqrt(noise * self.left * UNITS / (rest * max(rate, _SLOW)))
        else:
            gap = (noise * math.sqrt(self.left * UNITS / rest) / max(rate, _SLOW)) ** (2 / 3)
        if int(self.course.quiet) >= 2 and gap > self.left / 4:
            self.change(mode=STILL, quiet=0)
            self.plan_still()
            return
        gap = max(1.0, min(gap, 2 * int(self.course.gap)))
        many = max(1, round(self.left / gap) - (0 if self.series.sliding else 1))
        spread = many if self.series.sliding else many + 1
        self.change(next=self.step + max(1, round(self.left / spread)), planned=rest // many)


@functools.lru_cache(maxsize=16)
def _filter(tree: Halving, steps: int, season: int | None) -> Filter:
    return Filter(tree, steps, season)
