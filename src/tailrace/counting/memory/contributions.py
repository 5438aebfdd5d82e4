"""Contribution bounds under `User` and `Window`.

**Privacy.**

1. One unit can add or remove its own rows, at any steps.
2. A row is accepted or dropped by its own unit's rows alone, now and earlier, in the order of a
   keyed hash. So one unit changes which of its own rows are accepted, and no others.
3. The accepted rows of a unit are within its bound, whatever it sends.
4. Which rows were dropped, and how many, is as private as the rows. Nothing here may be used
   under `Event`, which has no units.
5. Under `Window(events=m)` a memory lasts for one block of steps (`count` begins it anew), so that
   rows of other blocks change nothing in it. Deletions then are not matched with insertions, which
   may lie in earlier blocks: they are rows of a second unit of the same person, with a bound of m
   of its own (`privacy.unit.events_of` has the loss).

The memory after each step lies on disk (`levels.py`). A step reads the units that it touches, slice
by slice of their hashes, and writes those that it changes; it never holds all units. A panel is
followed in `panel.py`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting.memory.batch import Batch, Columns, Rows, slice_bits
from tailrace.counting.memory.buckets import buckets_of, counted_apart
from tailrace.counting.memory.hashing import words
from tailrace.counting.memory.levels import Change, Levels, made_with
from tailrace.counting.memory.panel import follow, one_step
from tailrace.counting.memory.segment import State, failing
from tailrace.counting.plan import Counts, Plan, TextCounts
from tailrace.domain.growing import Labels
from tailrace.errors import ConfigError
from tailrace.privacy.unit import User, Window

# A larger bound is this one: `count` holds 32 bits.
_MOST = 2**31 - 1
_NONE: Columns = (np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64))


@dataclass(frozen=True)
class Bounded:
    """The cells of the accepted inserts and deletes.

    One per row, in the order of the units' hashes.
    """

    adds: np.ndarray
    deletes: np.ndarray


def counted(
    plan: Plan,
    unit: User | Window,
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
    labels: Labels = {}
    rows = plan.rows(frame, key, labels)
    if (parts := buckets_of(old)) is not None:
        gone = None if deletes is None else plan.rows(deletes)

        def one(adds: Any, removals: Any, before: Path, after: Path) -> Counts:
            where = {"old": before, "new": after, "key": key, "point": point}
            return counted(plan, unit, adds, None if gone is None else removals, **where)

        return counted_apart(one, parts, new, key, rows, gone, point)
    if plan.memory is not None:
        tally = follow(old=old, new=new, recall=plan.memory, key=key, rows=rows, point=point)
        return Counts(tally, np.zeros_like(tally))
    gone = None if deletes is None else plan.rows(deletes)
    adds, removals = np.zeros(plan.size, np.int64), np.zeros(plan.size, np.int64)
    many = Counter[str]()
    for accepted in _slices(old, new, unit, key, rows, gone, point):
        cells = accepted.adds
        if plan.growing is not None:
            cells, texts = plan.named(cells, labels)
            many += texts
        adds += plan.tally(cells)
        removals += plan.tally(accepted.deletes)
    counts = Counts(adds, removals)
    return counts if plan.growing is None else TextCounts.of(counts, many)


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

    The memory after this step is written to the folder `new`.

    `events=m`: at most m inserts are ever accepted, deleted ones included, and inserts come before
    deletes. `records=m`: at most m live at once; first come deletes of records from earlier steps,
    then inserts while there is room, then the other deletes. A delete is accepted if it meets a
    live accepted insert of the same unit and cell. A window's `events=m`: at most m inserts and m
    deletes, each by itself. Rows without an id or a cell are dropped.
    `point` is called before each durable write, with its name (`POINTS`).
    """
    parts = list(_slices(old, new, unit, key, adds, deletes, point))
    return Bounded(
        np.concatenate([part.adds for part in parts]),
        np.concatenate([part.deletes for part in parts]),
    )


def _slices(
    old: Path | None,
    new: Path,
    unit: User | Window,
    key: bytes,
    adds: Rows | None,
    deletes: Rows | None,
    point: Callable[[str], None],
) -> Iterator[Bounded]:
    """What is accepted, by slices of the units' hashes.

    The memory is written once all are taken.
    """
    from tailrace.counting.memory import levels_kernel

    limit, forever = limit_of(unit)
    apart = forever and isinstance(unit, Window)
    made = made_with(
        f"{'events' if forever else 'records'}={limit}{' apart' if apart else ''}", key
    )
    k0, k1 = words(key)
    with failing(new), ExitStack() as stack:
        levels = stack.enter_context(closing(Levels(old, made)))
        change = stack.enter_context(closing(Change(levels, new, made, point=point)))
        batches = [stack.enter_context(closing(Batch(new.parent))) for _ in range(2)]
        for batch, rows, second in zip(batches, (adds, deletes), (False, apart), strict=True):
            known = None if levels.hashing > 1 else levels.known
            batch.read(rows, key, known=known, second=second)
        most = max(batch.kept for batch in batches)
        # A unit has at most `limit` cells, and a count of what it deleted.
        bits, live = slice_bits(max(most, min(levels.rows, most * (limit + 1)))), levels.rows
        for s in range(1 << bits):
            fresh, undone = (batch.slice(s, bits) for batch in batches)
            found = levels.find(*levels_kernel.touched(*fresh[:2], *undone[:2]))
            merged = functools.partial(_merged, found, (limit, forever, k0, k1))
            if apart:
                changed, accepted, _, replaced = merged(fresh, _NONE)
                others, deleted, _, more = merged(undone, _NONE)
                changed, replaced = levels_kernel.overlay(changed, others), replaced + more
            else:
                changed, accepted, deleted, replaced = merged(fresh, undone)
            change.append(changed)
            live += int(np.count_nonzero(changed[3])) - replaced
            yield Bounded(accepted, deleted)
        change.finish(live)


def _merged(
    found: State, rule: tuple[int, bool, np.uint64, np.uint64], adds: Columns, deletes: Columns
) -> tuple[State, np.ndarray, np.ndarray, int]:
    """Rows of changed units, cells accepted and deleted, old rows replaced."""
    from tailrace.counting.memory import kernel

    accepted, deleted = (np.empty(len(part[0]), np.int64) for part in (adds, deletes))
    changed, inserts, removals, replaced = kernel.merge(
        found[:3], found[3], adds, deletes, *rule, accepted, deleted
    )
    return changed, accepted[:inserts], deleted[:removals], replaced


def limit_of(unit: User | Window) -> tuple[int, bool]:
    """How many, and whether of all that were ever inserted."""
    if unit.events is not None:
        return min(unit.events, _MOST), True
    if unit.records is not None:
        return min(unit.records, _MOST), False
    raise ConfigError(
        "Contributions are bounded for a unit with events= or records=, for example "
        "User(column='id', events=1)."
    )
