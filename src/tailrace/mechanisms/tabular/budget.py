"""Divide a tabular stream's budget: clock, single columns, workloads.

Privacy.
1. Each part proves its own loss; the losses add up.
2. An epoch pays for workloads from a purse (`Purse`). What is bought, and for how much, may depend
   on releases; on every path no more than the purse is spent, so that an event, which lies in one
   epoch, loses at most the purse.
3. A unit with a_e events in epoch e loses, of epsilon, one part per event. Of rho, the cells' noise
   costs a_e^2 (insertions and deletions separately) and the choice a_e^2 (both together). These
   squares sum to at most the square for m and d events in one epoch, which is paid for.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.counters import Counter
from tailrace.mechanisms.tabular.epochs import Selection
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.budget import Drawn, part, per_event, quieter, restate
from tailrace.privacy.loss import ZCDP, Loss, PureDP

# Most workloads of an epoch to begin with: a model holds few more.
_MOST = 256
# A purse is divided into whole parts.
_PARTS = 10**6
# The last round takes all that is left, if less than this many units are.
_LAST = Fraction(8, 5)


@dataclass(frozen=True)
class Choice:
    """`rounds` choices of workloads from the same counts, under one budget.

    `events` are the insertions and deletions of a unit.

    Privacy: the exponential mechanism on integer scores.
    1. Fix all releases. A workload's score is the 1-norm of its exact net counts less public
       integers, less a public integer.
    2. One event moves one cell of every workload by one, so every score by at most one, up or down;
       a unit's a events in the same counts move it by at most a.
    3. A choice with probabilities proportional to exp(rate score) loses 2 rate a (pure). The
       logarithms of the ratios lie in an interval of that length, so it loses (2 rate a)^2 / 8 in
       zCDP.
    4. Every event is counted once. A unit's m insertions and d deletions, spread over sets of
       counts in any way, lose at most rounds * 2 rate (m + d), or rounds * (2 rate (m + d))^2 / 8,
       because the squares of parts sum to at most the square of the whole.
    """

    privacy: Drawn
    rounds: int
    events: tuple[int, int]

    @property
    def rate(self) -> Fraction:
        """By how much one point of score raises the log-probability."""
        if isinstance(self.privacy, PureDP):
            return self.privacy.epsilon / (2 * self.rounds * sum(self.events))
        return ZCDP(rho=self.privacy.rho / self.rounds).pure_within().epsilon / sum(self.events)

    def draw(self, scores: np.ndarray, noise: Draws) -> int:
        """Choose among integer scores; returns an index."""
        return noise.choose(scores, self.rate)

    def loss(self, inserted: int, deleted: int) -> Loss:
        """The proved loss of all rounds for one unit."""
        each = 2 * self.rate * (inserted + deleted)
        if isinstance(self.privacy, PureDP):
            return PureDP(epsilon=self.rounds * each)
        return ZCDP(rho=self.rounds * each**2 / 8)


@dataclass(frozen=True)
class Purse:
    """The budget of an epoch's workloads, spent in rounds.

    A round chooses a workload and measures it. The choice takes a share of the round's unit, the
    counts the rest times the workload's weight.

    Parameters
    whole: the loss of all parts.
    events: insertions and deletions of a unit.
    weights: of each workload's counts, 1 on average.
    choosing: the choice's share of a unit.
    unit: parts of a round, on average.
    left: parts not spent yet.

    Privacy: a filter.
    1. Fix all releases. They fix every unit, choice and amount, because these are functions of
       releases.
    2. A choice and a workload's counts cost the parts taken for them (`Choice`, `Atoms`): of
       epsilon or of rho, for the unit's events.
    3. Parts taken never exceed those left, so their sum is at most `whole` on every path.
    4. Then so is the loss of the whole transcript, although amounts depend on releases: pure losses
       because the ratio of a transcript is the product of its draws' (Rogers et al. 2016), zCDP by
       the filter of Feldman and Zrnic 2021.
    """

    whole: Drawn
    events: tuple[int, int]
    weights: np.ndarray  # (workloads,)
    choosing: Fraction
    unit: int
    everything: bool = False
    left: int = _PARTS

    @property
    def rounds(self) -> int:
        """How many rounds of this unit the purse pays for."""
        return _PARTS // self.unit

    @property
    def part_left(self) -> Fraction:
        """The part of the purse that is not spent yet."""
        return Fraction(self.left, _PARTS)

    def round(self) -> tuple[Choice, np.ndarray, Purse]:
        """The next choice, parts of each workload's counts if chosen, and the purse after it.

        All that is left goes into the round where little would be left for another.
        """
        unit = self.left if self.left < _LAST * self.unit else self.unit
        chosen = max(int(self.choosing * unit), 1)
        rest = self.left - chosen
        asked = np.maximum((unit - chosen) * self.weights, 1).astype(np.int64)
        amounts = np.where(rest - asked < float(_LAST - 1) * unit, rest, asked)
        choice = Choice(part(self.whole, Fraction(chosen, _PARTS)), 1, self.events)
        return choice, amounts, self._less(chosen)

    def counts(self, parts: int) -> tuple[Atoms, Purse]:
        """Noise of counts for these parts, and the purse after it."""
        return self._atoms(parts), self._less(parts)

    def sizes(self, parts: np.ndarray) -> np.ndarray:
        """Mean absolute noise of a cell for so many parts."""
        power = 1.0 if isinstance(self.whole, PureDP) else 0.5
        return size(self._atoms(_PARTS)) * (_PARTS / parts) ** power

    def even(self) -> np.ndarray:
        """(workloads,) parts of each one's counts, if all are measured: all parts there are."""
        ends = np.rint(_PARTS * np.cumsum(self.weights) / self.weights.sum()).astype(np.int64)
        return np.diff(ends, prepend=0)

    def doubled(self) -> Purse:
        """The same for rounds of twice the unit."""
        return replace(self, unit=2 * self.unit)

    def _atoms(self, parts: int) -> Atoms:
        return Atoms(per_event(part(self.whole, Fraction(parts, _PARTS)), self.events), weight=1)

    def _less(self, parts: int) -> Purse:
        assert 0 < parts <= self.left, "no more is spent than is left"
        return replace(self, left=self.left - parts)


@dataclass(frozen=True)
class Budget:
    """A unit's budget, divided.

    Parameters
    privacy: the loss of the unit.
    events: its insertions and deletions.
    selection: the shares.
    columns: cells of each column that is measured by itself.
    several: cells of each workload of several columns.
    """

    privacy: Loss
    events: tuple[int, int]
    selection: Selection
    columns: tuple[int, ...]
    several: tuple[int, ...]

    @functools.cached_property
    def whole(self) -> Drawn:
        """Pure or zCDP, whichever is quieter for the most workloads."""
        most = max(self._most, len(self.columns))
        return quieter(self.privacy, events=self.events, weight=most)

    @property
    def _most(self) -> int:
        chosen = self.selection.chosen
        return min(_MOST if chosen is None else chosen, len(self.several))

    def part(self, share: Fraction) -> Drawn:
        """A share of the whole."""
        return part(self.whole, share)

    @property
    def clock(self) -> Drawn:
        """The clock's share."""
        return self.part(Fraction(self.selection.clock))

    @functools.cached_property
    def singles(self) -> tuple[Atoms, ...]:
        """Noise of each column: an event moves one cell of each."""
        rest, singles = 1 - Fraction(self.selection.clock), Fraction(self.selection.singles)
        share = rest * singles if self.several else rest
        weights = self._weights(self.columns)
        return tuple(
            Atoms(per_event(self.part(share * weight / sum(weights)), self.events), weight=1)
            for weight in weights
        )

    @functools.cached_property
    def _workloads(self) -> Drawn:
        """The share of an epoch's workloads."""
        rest = (1 - Fraction(self.selection.clock)) * (1 - Fraction(self.selection.singles))
        return self.part(rest)

    def _weights(self, cells: tuple[int, ...]) -> list[int]:
        """Shares of the least total noise: noise of all cells, in the 1-norm.

        Noise of one cell is 1 / e of a share e (pure), or 1 / sqrt(e). Then the sum of cells c_i
        times noise is least where e_i is as the root of c_i, or as its power 2/3. These are rounded
        to powers of the root of 2, so that few tables of noise are made; near the least it hardly
        matters.
        """
        power = 1 / 2 if isinstance(self.whole, PureDP) else 2 / 3
        return [round(1000 * 2 ** (round(2 * power * math.log2(one)) / 2)) for one in cells]

    def purse(self, events: float) -> Purse:
        """The purse of an epoch of so many events.

        Its rounds, to begin with, are as many as keep the noise of one workload, over all its
        cells, below `noise` times the events.
        """
        cells, weights = np.array(self.several), np.array(self._weights(self.several), float)
        purse = Purse(
            self._workloads,
            self.events,
            weights / weights.mean(),
            Fraction(self.selection.choice),
            _PARTS,
        )
        rounds = float(self.selection.chosen or 0)
        if not rounds:
            quiet = purse.sizes(np.array(_PARTS * (1 - float(self.selection.choice))))
            rounds = self.selection.noise * max(events, 0.0) / (cells.mean() * float(quiet))
            rounds = rounds if isinstance(self.whole, PureDP) else rounds**2
        everything = rounds >= len(self.several) * (1 - float(self.selection.choice))
        unit = int(_PARTS / min(max(rounds, 1.0), self._most))
        return replace(purse, unit=unit, everything=everything)

    def check(self) -> None:
        """Refuse a budget whose noise cannot be drawn."""
        for atoms in self.singles:
            atoms.check()
        if self.several:
            _, amounts, purse = replace(self.purse(0.0), unit=_PARTS // self._most).round()
            purse.counts(int(amounts.min()))[0].check()

    def loss(self, clock: Counter[Any], inserted: int, deleted: int, *, chosen: bool) -> Loss:
        """The proved loss of all draws, in the declared form.

        `chosen`: whether workloads may be; otherwise every epoch measures all.
        """
        columns = [atoms.loss(inserted, deleted) for atoms in self.singles]
        loss = functools.reduce(operator.and_, columns, clock.loss(inserted, deleted))
        if self.several:
            loss = loss & self._of_workloads(inserted, deleted, chosen=chosen)
        return restate(loss, self.privacy)

    def _of_workloads(self, inserted: int, deleted: int, *, chosen: bool) -> Loss:
        """The loss of a purse: counts, or choices where these lose more."""
        m, d = self.events
        if isinstance(self._workloads, PureDP):
            return part(self._workloads, Fraction(inserted + deleted, m + d))
        counts = Fraction(inserted**2 + deleted**2, m**2 + d**2)
        choices = Fraction(inserted + deleted, m + d) ** 2
        return part(self._workloads, max(counts, choices) if chosen else counts)

    @property
    def everything(self) -> bool:
        """Whether every epoch measures all workloads, if a model can hold them."""
        return self.selection.chosen is not None and self.selection.chosen >= len(self.several)


def size(atoms: Atoms) -> float:
    """The mean absolute value of one draw."""
    variance = atoms.variance()
    return math.sqrt(variance / 2 if isinstance(atoms.privacy, PureDP) else 2 * variance / math.pi)
