"""Mechanisms of events: what they promise, and when an epoch ends.

An epoch is a run of steps that are measured together. The clock is a counter with a row for
insertions and, where there are any, one for deletions, under a budget of its own; it is the only
thing that is told about the data before an epoch ends. Its verdict is a function of released
numbers only.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.counters.base import Counter
from tailrace.domain import Codes
from tailrace.mechanisms.base import Sample, Table, Takes
from tailrace.privacy.guarantee import Guarantee, promised
from tailrace.privacy.loss import Loss, whole
from tailrace.privacy.unit import AddRemove, Event, Unit, check_events, events_of

# All three chosen by trial while building; no committed result.
# Deviations of the clock by which an epoch must have seen events.
_SURE = 3
# The least number of epochs over the horizon, however few events there are.
_EPOCHS = 8
# Without a horizon, an epoch lasts at most max(this many steps, this part of the time so far).
_ENDLESS = 8


class OfEvents(abc.ABC):
    """The shared part of mechanisms that are fed insertions and deletions."""

    takes = Takes.Events
    neighbours = AddRemove
    rounds = 1

    privacy: Loss
    unit: Unit
    horizon: int | None
    deletes: bool

    def _check(self) -> None:
        """Refuse what no such mechanism can promise."""
        check_events(self)
        if self.horizon is not None:
            object.__setattr__(self, "horizon", whole("horizon", self.horizon))

    @property
    def _events(self) -> tuple[int, int]:
        """How far one unit raises and lowers counts, in all."""
        return events_of(self)

    @property
    def _key(self) -> str | None:
        """The column that says whose rows they are."""
        return None if isinstance(self.unit, Event) else self.unit.column

    @property
    def guarantee(self) -> Guarantee:
        return promised(self, self._loss)

    @abc.abstractmethod
    def _loss(self, inserted: int, deleted: int) -> Loss:
        """The proved loss of all draws, in the declared form."""


def changed(
    codes: Codes,
    previous: Table,
    stayed: np.ndarray,
    new: np.ndarray,
    rng: np.random.Generator,
) -> Sample:
    """The previous rows that stayed, then rows in the new cells."""
    return previous.after(~stayed, new, codes.decode(new, rng))


def chosen(table: Table, held: np.ndarray, due: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers of `due` rows of each cell, by chance.

    `held` has the number of its rows, where any are due. Every row of a cell is equally likely.
    """
    if not due.any():
        return np.zeros(0, np.int64)
    from tailrace.models.kernel import leaving

    births, none = table.births, np.zeros(0, np.int64)
    # A row's code is its only digit, times one.
    digit = (np.zeros(1, np.int64), np.ones(1, np.int64))
    living = (table.died, table.now, none)
    found = leaving(births.cells[None], *digit, *living, held.copy(), due.copy(), rng)
    return births.numbers[found]


@dataclass(frozen=True)
class Clock:
    """The counter of events, and its verdict on epochs."""

    counter: Counter[Any]
    rows: int  # adds, and deletes where there are any
    horizon: int | None
    origin: int  # the first step that is counted
    churn: float  # an epoch ends when this part of the records has come or gone

    def ends(
        self, *, step: int, closed: int, pending: float, total: float, longest: int = 1
    ) -> bool:
        """Whether the epoch open since step `closed` ends with `step`.

        It ends when enough has happened, when it lasts too long, or with the horizon.

        It may last `longest` steps at any rate, and an eighth of the horizon (or of the time so
        far).
        """
        if step == self.horizon:
            return True
        eighth = math.ceil((closed if self.horizon is None else self.horizon) / _EPOCHS)
        if step - max(closed, self.origin - 1) >= max(
            longest, eighth, _ENDLESS if self.horizon is None else 1
        ):
            return True
        sure = _SURE * math.sqrt(self.variance(step, closed))
        return pending >= max(self.churn * total, sure)

    def variance(self, step: int, since: int) -> float:
        """Of the clock's rows together, from one step to another."""
        late, early = max(step - self.origin + 1, 0), max(since - self.origin + 1, 0)
        return self.rows * float(self.counter.variance(late, early))


def net(clock: np.ndarray) -> float:
    """Insertions less deletions, of the clock's rows."""
    return float(clock[0]) - float(clock[1:].sum())
