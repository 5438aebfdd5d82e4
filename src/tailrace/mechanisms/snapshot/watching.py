"""One step of `Adaptive`: its state, its ledger, and its alarm.

Privacy: the proof stands in `adaptive.py`. Here units are paid before noise is drawn, and an open
alarm is charged to the latest step that it saw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailrace.mechanisms.snapshot.alarm import MEAN, UNITS, Alarm, Facts, recalled
from tailrace.mechanisms.snapshot.filter import Track
from tailrace.mechanisms.snapshot.policy import Decision, Hidden, Pace, Snapshot, decided
from tailrace.noise import Draws

# Settings after a prototype, tried one at a time on the family CHOSEN of
# benchmarks/snapshots_generated.py; no committed result.
# The most of what is left that an alarm may cost, without and with an archive to recall.
_ALARM, _ALARM_AGAIN = 0.35, 0.8
# The price of a recall, relative to its alarm's epsilon.
_RECALL = 0.3
# Later jumps that are reckoned with for each so far.
_JUMPS = 0.7
# Levels that are archived at most.
_ARCHIVED = 3

STILL, MOVING = 0, 1
FIRST, PLANNED, RANG, RECALLED = 0, 1, 2, 3
# Alarms that ring within this many steps of each other are no news of a jump.
SOON = 3


@dataclass(frozen=True)
class Course(Pace):
    """The public state of `Adaptive`."""

    mode: np.ndarray  # () STILL or MOVING
    next: np.ndarray  # () the step of the next planned release; 0: none
    planned: np.ndarray  # () its units
    why: np.ndarray  # () how the level came: FIRST, PLANNED, RANG, RECALLED
    gap: np.ndarray  # () the steps between the last two releases
    open: np.ndarray  # () the units of the open alarm; 0: none
    alarms: np.ndarray  # () bought so far
    rang: np.ndarray  # (2,) the steps of the last two that rang
    rate: np.ndarray  # () the drift of a range count in a step
    quiet: np.ndarray  # () releases in a row that showed no drift
    jump: np.ndarray  # () people that the last jump moved
    recalls: np.ndarray  # () levels that came back so far
    stands: np.ndarray  # () since which step the level stands
    archive: np.ndarray  # (archived, bins) float32, the details of levels that were left
    spreads: np.ndarray  # (archived, classes) their variances
    stood: np.ndarray  # (archived,) for how many steps they stood
    track: Track


class Watching:
    """One step: the state, what is paid, and what the alarm says."""

    def __init__(self, facts: Facts, course: Course) -> None:
        self.facts, self.course = facts, course
        self.series, self.filter = facts.series, facts.filter
        self.step, self.steps = int(course.step), facts.filter.steps
        # Steps that are left, this one included; a window never ends.
        self.left = self.steps if self.series.sliding else self.steps - self.step + 1

    def change(self, **fields: Any) -> None:
        """The state with other values of some fields."""
        made = {
            name: value
            if isinstance(value, Track)
            else np.asarray(value, getattr(self.course, name).dtype)
            for name, value in fields.items()
        }
        self.course = replace(self.course, **made)

    # The ledger

    @property
    def rest(self) -> int:
        """The units that are left, in the series or in the window."""
        return UNITS - int(self.course.spent.sum())

    def pay(self, units: int) -> None:
        """Charge units to this step."""
        assert 0 < units <= self.rest
        spent = self.course.spent.copy()
        spent[self.step % len(spent)] += units
        self.change(spent=spent)

    def carry(self) -> None:
        """Charge an open alarm to this step instead of the last."""
        units, window = int(self.course.open), len(self.course.spent)
        if units and window > 1:
            spent = self.course.spent.copy()
            spent[(self.step - 1) % window] -= units
            spent[self.step % window] += units
            self.change(spent=spent)

    def released(self, units: int, why: int, hidden: Hidden) -> Decision:
        """Release with these units, or what is left; the alarm is closed."""
        units = min(units, self.rest)
        if units < 1:
            return Decision(0, self.course, hidden)
        self.change(why=why, open=0, gap=self.step - int(self.course.last))
        return decided(units, self.course, hidden)

    # What is shown

    @property
    def level(self) -> np.ndarray:
        """(bins,) details."""
        return self.filter.level(self.course.track, self.step)

    def cells(self, details: np.ndarray) -> np.ndarray:
        tree = self.filter.tree
        return tree.cells(np.split(details, np.cumsum(self.filter.many)[:-1]))

    def by_place(self, values: np.ndarray) -> np.ndarray:
        """Means of classes, for the whole and each depth."""
        place, many = self.filter.place, len(self.filter.many)
        sums = np.bincount(place, values * self.filter.counts, minlength=many)
        return sums / np.maximum(1, self.filter.many)

    @property
    def known(self) -> np.ndarray:
        """The variances of the last combination, by place."""
        return self.by_place(self.filter.known(self.course.track))

    def uncertain(self) -> np.ndarray:
        """(bins,) variances of details now.

        A hypothesis under which an open alarm would have rung is doubted.
        """
        track, shares = self.course.track, self.filter.shares(self.course.track)
        if self.course.open:
            grown, limit = self.filter.grown(track, self.step), self.thresholds
            far = np.array([self.facts.far(self.by_place(each)) for each in grown])
            shares = shares / (1 + (far / limit).max(axis=1) ** 8)
            shares = shares / shares.sum()
        return self.filter.variance(track, self.step, shares)

    # The alarm

    @property
    def alarm(self) -> Alarm:
        whole = self.filter.level(self.course.track, self.step, 1)[0]
        people = max(1.0, float(whole) * math.sqrt(self.series.bins))
        return Alarm(self.facts, self.left, people, float(self.course.jump))

    @property
    def archived(self) -> int:
        return len(self.course.archive)

    @property
    def answer(self) -> int:
        """The units of a release that an alarm asks for."""
        if self.series.sliding:
            return max(1, self.rest // 2)
        ahead = self.left / max(self.step, self.steps / 10)
        jumps = _JUMPS * max(1, int(self.course.alarms)) * ahead
        return max(1, min(self.rest // 2, int(self.rest / (1 + jumps))))

    @property
    def thresholds(self) -> np.ndarray:
        fresh = None if self.archived else self.facts.noise(self.answer)
        units = int(self.course.open) or self.alarm.units
        return self.alarm.thresholds(units, self.known, fresh)

    def affordable(self, alarm: Alarm) -> bool:
        return alarm.units <= (_ALARM_AGAIN if self.archived else _ALARM) * self.rest

    def watch(self, hidden: Hidden, noise: Draws) -> Hidden:
        """Buy an alarm where it pays; hold the usual level where it cannot."""
        alarm = self.alarm
        if self.left > 1 and alarm.worth and self.affordable(alarm):
            self.pay(alarm.units)
            self.change(open=alarm.units, alarms=int(self.course.alarms) + 1)
            return Hidden(alarm.comparing(alarm.units).fresh_threshold(noise))
        stood = self.course.stood
        if self.course.recalls and stood.max() > self.step - int(self.course.stands):
            self.recall(int(stood.argmax()))
            # It is not left again.
            self.change(stands=0)
        return hidden

    @property
    def soon(self) -> bool:
        """Whether the last two alarms rang in quick succession."""
        return bool(self.course.rang[0]) and self.course.rang[1] - self.course.rang[0] < SOON

    @property
    def returns(self) -> np.ndarray:
        """(archived,) distances to archived levels below which the data are back.

        Of two levels that are D apart, data at one are at a distance D from the other.
        """
        facts, track = self.facts, self.course.track
        here, found = self.filter.level(track, int(track.at), facts.top), []
        for level, spread in zip(self.course.archive, self.course.spreads, strict=True):
            ((_, sums),) = self.filter.nodes(here - level[: facts.top], [facts.coarse])
            noise = facts.deviations(self.known + self.by_place(spread))[facts.coarse]
            apart = float(np.abs(sums).sum()) ** 2 - (MEAN * len(sums) * noise) ** 2
            found.append(math.sqrt(max(0.0, apart)))
        seen = self.alarm.visible(int(self.course.open))
        return np.floor(np.array(found) - seen).astype(np.int64)

    def rings(self, snapshot: Snapshot, hidden: Hidden, noise: Draws) -> bool:
        """Whether the data left what is shown, or came back to an archived level."""
        scales = self.alarm.comparing(int(self.course.open))
        drawn = scales.distance_noise(noise)
        shown = self.filter.level(self.course.track, self.step, self.facts.top)
        apart = snapshot.apart(self.filter.nodes(shown, self.facts.depths))
        beyond = [int((apart - self.thresholds).max())]
        if self.archived:
            beyond += [int(one) for one in self.returns - self.distances(snapshot)]
        return scales.positive(max(beyond), 0, drawn=drawn, threshold=hidden.threshold)

    def distances(self, snapshot: Snapshot) -> np.ndarray:
        """(archived,) PRIVATE: how far the snapshot is from archived levels."""
        archive = self.course.archive.astype(float)
        levels = [self.filter.nodes(level, [self.facts.coarse])[0] for level in archive]
        return snapshot.apart(levels)

    def answered(self, snapshot: Snapshot, hidden: Hidden, noise: Draws) -> Decision:
        """Recall an archived level, or else release."""
        facts, alarm = self.facts, int(self.course.open)
        self.change(open=0, rang=[self.course.rang[1], self.step])
        # A choice of range epsilon costs a quarter of what a pure epsilon does in zCDP.
        epsilon = _RECALL * float(facts.epsilon(alarm)) / (1 if facts.pure else 2)
        units = facts.price(epsilon)
        doubted = self.soon and self.course.why == RECALLED
        if self.archived and units <= self.rest and not doubted:
            self.pay(units)
            apart = self.distances(snapshot)
            chosen = recalled(facts, units, apart, facts.noise(self.answer), noise)
            if chosen is not None:
                self.recall(chosen)
                self.change(recalls=int(self.course.recalls) + 1)
                return Decision(0, self.course, hidden)
        return self.released(self.answer, RANG, hidden)

    def recall(self, chosen: int) -> None:
        """Show an archived level, and archive the one shown."""
        level, spread = self.course.archive[chosen].astype(float), self.course.spreads[chosen]
        self.shelve(without=chosen)
        track = self.filter.standing(self.course.track, level, spread, self.step)
        self.change(track=track, stands=self.step, mode=STILL, why=RECALLED)

    def shelve(self, without: int = -1) -> None:
        """Archive the level that is left."""
        course, at = self.course, int(self.course.track.at)
        keep = [i for i in range(self.archived) if i != without][1 - _ARCHIVED :]
        level = self.filter.level(course.track, at)
        self.change(
            archive=np.concatenate([course.archive[keep], [level]]),
            spreads=np.concatenate([course.spreads[keep], [self.filter.known(course.track)]]),
            stood=np.append(course.stood[keep], self.step - int(course.stands)),
        )
