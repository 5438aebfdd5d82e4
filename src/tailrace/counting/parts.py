"""Parts of a step, read in several calls and counted together.

A part is a frozen dataclass of arrays:

- the counts of rows (`Counts`) where units need not be told apart: counts add up;
- the hashed unit and the cell of each row (`UnitRows`) where they must: which rows of a unit are
  accepted is a function of all its rows of the step, so it is decided once they are together;
- what a plan of everything at once keeps of each row (`OncePlan.part`).

So the parts of a step make the same counts however its rows were split, and in any order.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.counting.arrow import readable
from tailrace.counting.memory.hashing import UNITS, hash_units, recognised
from tailrace.counting.memory.panel import one_step
from tailrace.counting.plan import Counts, Plan, ReadRows
from tailrace.errors import ConfigError
from tailrace.privacy.unit import Unit, User, Window

Known = Callable[[np.ndarray], np.ndarray]
# Rows of units in one part: 12 MB of them.
_PIECE = 1 << 19


@dataclass(frozen=True, eq=False)
class Hashed:
    """Rows by the keyed hash of their unit, and their cell."""

    hi: np.ndarray  # (rows,) uint64
    lo: np.ndarray  # (rows,) uint64
    cell: np.ndarray  # (rows,) int64

    @property
    def units(self) -> np.ndarray:
        """The hashes as `hash_units` gives them."""
        found = np.empty(len(self.hi), UNITS)
        found["hi"], found["lo"] = self.hi, self.lo
        return found


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Rows of units, inserted and deleted."""

    adds: Hashed
    deletes: Hashed


_NONE = Hashed(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64))


def bounded(plan: Any, unit: Unit) -> bool:
    """Whether the rows of each unit are told apart."""
    return isinstance(plan, Plan) and isinstance(unit, User | Window)


def read_parts(
    plan: Plan | Any,
    unit: Unit,
    frame: Any,
    deletes: Any,
    *,
    key: bytes,
    known: Known | None,
) -> Iterator[Any]:
    """Read rows inserted and deleted into parts of a step.

    `known` are the units of an earlier version's memory.
    """
    frame, deletes = readable(frame), readable(deletes)
    if not isinstance(plan, Plan):
        if not hasattr(plan, "part"):
            raise ConfigError(
                "This mechanism takes all its rows in one call: give them to push, in one frame."
            )
        yield plan.part(frame, key)
    elif bounded(plan, unit):
        if plan.memory is not None:
            one_step(plan, frame)
        for rows in _hashed(plan, frame, key, known):
            yield UnitRows(rows, _NONE)
        for rows in () if deletes is None else _hashed(plan, deletes, key, known):
            yield UnitRows(_NONE, rows)
    else:
        yield plan.counts(frame, deletes)


def _hashed(plan: Plan, frame: Any, key: bytes, known: Known | None) -> Iterator[Hashed]:
    """The rows of a frame that have a unit and a cell."""
    for ids, cells in plan.rows(frame):
        # Also for no rows: a wrong type is refused whatever the content.
        for at in range(0, max(1, len(cells)), _PIECE):
            few, cell = ids[at : at + _PIECE], cells[at : at + _PIECE]
            units = hash_units(few, key) if known is None else recognised(few, key, known)
            there = (cell >= 0) & ((units["hi"] != 0) | (units["lo"] != 0))
            yield Hashed(units["hi"][there], units["lo"][there], cell[there])


def like(plan: Plan | Any, unit: Unit) -> Any:
    """A part without rows, of the types that all have."""
    if not isinstance(plan, Plan):
        return plan.part(None, bytes(16))
    none = np.zeros(0, np.int64)
    return UnitRows(_NONE, _NONE) if bounded(plan, unit) else Counts(none, none)


def together(plan: Plan | Any, unit: Unit, parts: Callable[[], Iterable[Any]]) -> tuple[Any, Any]:
    """The parts of a step as one frame inserted and one deleted, for `count`.

    `parts` gives all of them, each time from the first.
    """
    if not isinstance(plan, Plan):
        return plan.read(tuple(parts())), None
    if bounded(plan, unit):
        adds = ReadRows(lambda: ((part.adds.units, part.adds.cell) for part in parts()))
        return adds, ReadRows(lambda: ((part.deletes.units, part.deletes.cell) for part in parts()))
    return functools.reduce(operator.add, parts()), None
