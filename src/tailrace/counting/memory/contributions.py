"""Contribution bounds under `User` and `Window`.

**Privacy.**

1. One unit can add or remove its own rows, at any steps.
2. A row is accepted or dropped by its own unit's rows alone, now and earlier, in the order of a
   keyed hash. So one unit changes which of its own rows are accepted, and no others.
3. The accepted rows of a unit are within its bound, whatever it sends.
4. Which rows were dropped, and how many, is as private as the rows. Nothing here may be used
   under `Event`, which has no units.

The memory after each step is a segment on disk (`segment.py`), merged with the step's rows slice by
slice, so that no step ever holds all units. A panel, whose units report at every step, is followed
in `panel.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting.memory.batch import Batch, Rows
from tailrace.counting.memory.hashing import words
from tailrace.counting.memory.panel import follow, one_step
from tailrace.counting.memory.segment import Reader, Writer, failing
from tailrace.counting.plan import Counts, Plan
from tailrace.errors import ConfigError
from tailrace.privacy.unit import User, Window

# A slice holds some 2^19 rows.
_SLICE_BITS = 19
# A larger bound is this one: `count` holds 32 bits.
_MOST = 2**31 - 1


@dataclass(frozen=True)
class Bounded:
    """The cells of the accepted inserts and deletes.

    One per row, in the order of the units' hashes.
    """

    adds: np.ndarray
    deletes: np.ndarray


def counted(
    plan: Plan,
    unit: User,
    frame: Any,
    deletes: Any,
    *,
    old: Path | None,
    new: Path,
    key: bytes,
    point: Callable[[str], None] = lambda name: None,  # noqa: ARG005
) -> Counts:
    """Count one step within the bound of each unit.

    A panel's units are counted by their reports, others by the rows they may contribute.
    """
    if plan.memory is not None:
        one_step(plan, frame)
    rows = plan.rows(frame)
    if plan.memory is not None:
        tally = follow(old=old, new=new, recall=plan.memory, key=key, rows=rows, point=point)
        return Counts(tally, np.zeros_like(tally))
    gone = None if deletes is None else plan.rows(deletes)
    accepted = bound(old=old, new=new, unit=unit, key=key, adds=rows, deletes=gone, point=point)
    return Counts(plan.tally(accepted.adds), plan.tally(accepted.deletes))


def bound(
    *,
    old: Path | None,
    new: Path,
    unit: User | Window,
    key: bytes,
    adds: Rows | None,
    deletes: Rows | None,
    point: Callable[[str], None] = lambda name: None,  # noqa: ARG005
) -> Bounded:
    """Accept each unit's inserts and deletes within its bound.

    The memory after this step is written to the directory `new`.

    `events=m`: at most m inserts are ever accepted, deleted ones included, and inserts come before
    deletes. `records=m`: at most m live at once; first come deletes of records from earlier steps,
    then inserts while there is room, then the other deletes. A delete is accepted if it meets a
    live accepted insert of the same unit and cell. Rows without an id or a cell are dropped.
    `point` is called before each durable write, with its name (`POINTS`).
    """
    from tailrace.counting.memory import kernel

    limit, forever = _limit(unit)
    if old is not None and old.resolve() == new.resolve():
        raise ConfigError("A segment is never changed: give the new one a directory of its own.")
    name = f"{'events' if forever else 'records'}={limit}"
    k0, k1 = words(key)
    reader = Reader(old, bound=name, key=key)
    with failing(new), ExitStack() as stack:
        batches = [
            stack.enter_context(closing(Batch(rows, folder=new.parent))) for rows in (adds, deletes)
        ]
        bits = max(
            0, max(reader.rows, *(batch.given for batch in batches)).bit_length() - _SLICE_BITS
        )
        for batch in batches:
            batch.read(key, bits, known=reader.former)
        accepted, deleted = (np.empty(batch.kept, np.int64) for batch in batches)
        inserts = removals = 0
        writer = stack.enter_context(
            closing(Writer(new, bound=name, key=key, point=point, format=reader.format))
        )
        starts = reader.starts(bits)
        for s in range(1 << bits):
            hi, lo, cell, count = reader.take(int(starts[s + 1] - starts[s]))
            fresh, undone = (batch.slice(s) for batch in batches)
            *rows, more_inserts, more_removals = kernel.merge(
                (hi, lo, cell),
                count,
                fresh,
                undone,
                limit,
                forever,
                k0,
                k1,
                accepted[inserts:],
                deleted[removals:],
            )
            inserts, removals = inserts + more_inserts, removals + more_removals
            writer.append(tuple(rows))
        writer.finish()
    return Bounded(accepted[:inserts], deleted[:removals])


def _limit(unit: User | Window) -> tuple[int, bool]:
    """How many, and whether over the whole horizon."""
    if isinstance(unit, User) and unit.events is not None:
        return min(unit.events, _MOST), True
    if isinstance(unit, User | Window) and unit.records is not None:
        return min(unit.records, _MOST), False
    raise ConfigError(
        "Contributions are bounded for a unit with events= or records=, for example "
        "User(column='id', events=1)."
    )
