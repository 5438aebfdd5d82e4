"""Divide a tabular stream's budget: clock, single columns, workloads.

Privacy.
1. Each part proves its own loss; the losses add up.
2. The number of an epoch's workloads may depend on releases. Their noise grows with it, so that an
   event, which lies in one epoch, loses the same for any number.
3. A unit with a_e events in epoch e loses, of epsilon, one part per event. Of rho, the cells' noise
   costs a_e^2 (insertions and deletions separately) and the choice a_e^2 (both together). These
   squares sum to at most the square for m and d events in one epoch, which is paid for.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.counters import Counter
from tailrace.mechanisms.tabular.epochs import Selection
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.budget import Drawn, part, per_event, quieter, restate
from tailrace.privacy.loss import ZCDP, Loss, PureDP

# Most workloads of an epoch where their number is not given: a model holds few more.
_MOST = 256


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
class Share:
    """The noise of one epoch's workloads; no `choice`: measure all."""

    workloads: int
    atoms: Atoms
    choice: Choice | None

    def loss(self, inserted: int, deleted: int) -> Loss:
        """The loss of choosing and measuring."""
        loss = self.atoms.loss(inserted, deleted)
        return loss if self.choice is None else loss & self.choice.loss(inserted, deleted)


@dataclass(frozen=True)
class Budget:
    """A unit's budget, divided.

    Parameters
    privacy: the loss of the unit.
    events: its insertions and deletions.
    selection: the shares.
    columns: how many columns are measured by themselves.
    several: how many workloads have several columns.
    """

    privacy: Loss
    events: tuple[int, int]
    selection: Selection
    columns: int
    several: int

    @functools.cached_property
    def whole(self) -> Drawn:
        """Pure or zCDP, whichever is quieter for the most workloads."""
        return quieter(self.privacy, events=self.events, weight=max(self.allowed[-1], self.columns))

    @property
    def allowed(self) -> range:
        """The numbers of workloads an epoch may measure."""
        chosen = self.selection.chosen
        least, most = (1, _MOST) if chosen is None else (chosen, chosen)
        return range(min(least, self.several), min(most, self.several) + 1)

    def part(self, share: Fraction) -> Drawn:
        """A share of the whole."""
        return part(self.whole, share)

    @property
    def clock(self) -> Drawn:
        """The clock's share."""
        return self.part(Fraction(self.selection.clock))

    @functools.cached_property
    def singles(self) -> Atoms:
        """Noise of columns: an event moves one cell of each."""
        rest, singles = 1 - Fraction(self.selection.clock), Fraction(self.selection.singles)
        return self._atoms(rest * singles if self.several else rest, self.columns)

    def share(self, workloads: int) -> Share:
        """Noise of workloads: an event moves one cell of each."""
        rest = (1 - Fraction(self.selection.clock)) * (1 - Fraction(self.selection.singles))
        if workloads == self.several:
            return Share(workloads, self._atoms(rest, workloads), None)
        choosing = rest * Fraction(self.selection.choice)
        choice = Choice(self.part(choosing), workloads, self.events)
        return Share(workloads, self._atoms(rest - choosing, workloads), choice)

    def _atoms(self, share: Fraction, weight: int) -> Atoms:
        return Atoms(per_event(self.part(share), self.events), weight=weight)

    def workloads(self, events: float, cells: float) -> int:
        """How many workloads of `cells` cells an epoch measures.

        As many as keep the noise of one, over all its cells, below `noise` times the epoch's
        events. All of them where that is no louder than choosing.
        """
        if len(self.allowed) == 1:
            return self.allowed[0]
        allowed = self.selection.noise * events / (cells * size(self.share(1).atoms))
        many = allowed if isinstance(self.whole, PureDP) else allowed**2
        if many >= self.several * (1 - Fraction(self.selection.choice)):
            return self.allowed[-1]
        return min(max(int(many), 1), self.allowed[-1])

    def loss(self, clock: Counter[Any], inserted: int, deleted: int) -> Loss:
        """The proved loss of all draws, in the declared form.

        Of the numbers of workloads an epoch may have, the one that loses most counts.
        """
        loss = clock.loss(inserted, deleted) & self.singles.loss(inserted, deleted)
        if self.several:
            shares = (self.share(many).loss(inserted, deleted) for many in self.allowed)
            loss = loss & max(shares, key=_order)
        return restate(loss, self.privacy)


def size(atoms: Atoms) -> float:
    """The mean absolute value of one draw."""
    variance = atoms.variance()
    return math.sqrt(variance / 2 if isinstance(atoms.privacy, PureDP) else 2 * variance / math.pi)


def _order(loss: Loss) -> Fraction:
    return loss.epsilon if isinstance(loss, PureDP) else loss.as_zcdp().rho
