"""How a tabular stream divides its budget: the clock, every column by itself, and the workloads of
an epoch.

Privacy: each part proves its own loss. The number of workloads of an epoch may depend on what was
released: whatever it is, their noise grows with it so that the loss of an event, which lies in one
epoch, stays the same; so does that of a unit whose a_e events lie in epoch e. Of epsilon, each
event costs its part. Of rho, the cells' noise costs a_e^2 (of insertions and of deletions apart)
and the choice a_e^2 (of both), in parts of what m and d events in one epoch would, and squares add
up to no more than that.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tailrace.mechanisms.tabular.epochs import Selection
from tailrace.mechanisms.tabular.select import Choice
from tailrace.noise.atoms import Atoms
from tailrace.privacy.budget import Drawn, part, per_event, quieter, restate
from tailrace.privacy.loss import Loss, PureDP

_MOST = 256  # workloads of an epoch, where their number is not given: a model holds few more


@dataclass(frozen=True)
class Share:
    """What the workloads of one epoch are measured with; `choice` is None where all of them are."""

    workloads: int
    atoms: Atoms
    choice: Choice | None

    def loss(self, inserted: int, deleted: int) -> Loss:
        """Of choosing and measuring."""
        loss = self.atoms.loss(inserted, deleted)
        return loss if self.choice is None else loss & self.choice.loss(inserted, deleted)


@dataclass(frozen=True)
class Budget:
    """The budget of a unit of so many insertions and deletions, for so many columns and workloads
    of several columns.
    """

    privacy: Loss
    events: tuple[int, int]
    selection: Selection
    columns: int
    several: int

    @functools.cached_property
    def whole(self) -> Drawn:
        """Pure or zCDP, whichever gives less noise where as many workloads are measured as may
        be.
        """
        return quieter(self.privacy, events=self.events, weight=max(self.allowed[-1], self.columns))

    @property
    def allowed(self) -> range:
        """How many workloads of several columns may be measured in an epoch."""
        chosen = self.selection.chosen
        if chosen is None:
            return range(min(1, self.several), min(self.several, _MOST) + 1)
        return range(min(chosen, self.several), min(chosen, self.several) + 1)

    def part(self, share: Fraction) -> Drawn:
        """A share of the whole."""
        return part(self.whole, share)

    @property
    def clock(self) -> Drawn:
        return self.part(Fraction(self.selection.clock))

    @functools.cached_property
    def singles(self) -> Atoms:
        """The noise of a column's cell: one event lies in one cell of every column."""
        rest, singles = 1 - Fraction(self.selection.clock), Fraction(self.selection.singles)
        return self._atoms(rest * singles if self.several else rest, self.columns)

    def share(self, workloads: int) -> Share:
        """What an epoch with so many workloads of several columns draws with: one event lies in one
        cell of each.
        """
        rest = (1 - Fraction(self.selection.clock)) * (1 - Fraction(self.selection.singles))
        if workloads == self.several:
            return Share(workloads, self._atoms(rest, workloads), None)
        choice = rest * Fraction(self.selection.choice)
        return Share(
            workloads,
            self._atoms(rest - choice, workloads),
            Choice(self.part(choice), workloads, self.events),
        )

    def _atoms(self, share: Fraction, weight: int) -> Atoms:
        return Atoms(per_event(self.part(share), self.events), weight=weight)

    def workloads(self, events: float, cells: float) -> int:
        """How many workloads of so many cells each to measure in an epoch of so many events.

        As many as keep the noise of one, over all its cells, below a part of the events. All, where
        that is no louder than choosing among them.
        """
        if len(self.allowed) == 1:
            return self.allowed[0]
        allowed = self.selection.noise * events / (cells * size(self.share(1).atoms))
        many = allowed if isinstance(self.whole, PureDP) else allowed**2
        if many >= self.several * (1 - Fraction(self.selection.choice)):
            return self.allowed[-1]
        return min(max(int(many), 1), self.allowed[-1])

    def loss(self, clock: Any, inserted: int, deleted: int) -> Loss:
        """What all that draws proves together, in the form that was asked for; of epochs' shares,
        the one that loses most.
        """
        parts = [clock.loss(inserted, deleted), self.singles.loss(inserted, deleted)]
        if self.several:
            parts.append(
                max((self.share(many).loss(inserted, deleted) for many in self.allowed), key=_order)
            )
        return restate(functools.reduce(operator.and_, parts), self.privacy)


def size(atoms: Atoms) -> float:
    """The mean size of one draw."""
    variance = atoms.variance()
    return math.sqrt(variance / 2 if isinstance(atoms.privacy, PureDP) else 2 * variance / math.pi)


def _order(loss: Loss) -> Fraction:
    return loss.epsilon if isinstance(loss, PureDP) else loss.as_zcdp().rho
