"""The rows of a unit that a bound may accept.

Which rows of a unit are accepted depends on all its rows of a step and on its memory. But in any
part of the rows, most of a unit with very many can be left out at once. What is kept of two parts
together is what would be kept of the whole, so that parts are cut in any order, any often.

1. Insertions under a bound of m are accepted in the order of a keyed hash, at most m: only the
   first m of a part can be among them.
2. A deletion must meet a row of the same unit and cell that is live. These are at most 2m: m of
   earlier steps and m new ones. Under `Window` at most m are accepted. So 2m of a kind are enough.
3. A unit of a panel reports one value or contradicts itself, and the lowest and the highest one
   tell which.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.counting.memory.batch import Columns
from tailrace.counting.memory.contributions import limit_of
from tailrace.counting.memory.hashing import words
from tailrace.counting.plan import Plan
from tailrace.privacy.unit import User, Window


@dataclass(frozen=True)
class Rule:
    """How the rows of a unit are cut.

    limit: the bound of a unit; None for a panel.
    gone: whether the rows are deletions.
    """

    limit: int | None
    gone: bool = False

    @classmethod
    def of(cls, plan: Plan, unit: User | Window, *, gone: bool) -> Rule:
        return cls(None if plan.memory is not None else limit_of(unit)[0], gone)

    def cut(self, rows: Columns, key: bytes) -> Columns:
        """Leave out rows that cannot be accepted; rows are sorted."""
        from tailrace.counting.memory import kernel

        kept = np.empty(len(rows[0]), np.bool_)
        if self.limit is None:
            kernel.cut_ends(*rows, kept)
        elif self.gone:
            kernel.cut_alike(*rows, 2 * self.limit, kept)
        else:
            kernel.cut(*rows, self.limit, *words(key), kept)
        if kept.all():
            return rows
        hi, lo, cell = (column[kept] for column in rows)
        return hi, lo, cell
