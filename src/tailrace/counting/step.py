"""Count one step's rows, each unit's within its bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tailrace.counting import jobs
from tailrace.counting.arrow import readable
from tailrace.counting.journeys.bounding import within
from tailrace.counting.journeys.spread import Spread, gathered
from tailrace.counting.journeys.spread import within as spread_within
from tailrace.counting.memory import counted, divisible, spread
from tailrace.counting.memory.buckets import buckets_of
from tailrace.counting.memory.snapshot import snapshot_counted
from tailrace.counting.parts import bounded
from tailrace.counting.plan import Counts, Plan, ReadRows
from tailrace.privacy.unit import Unit, User, Window


@dataclass(frozen=True)
class UnitMemory:
    """Where a stream remembers its units, a folder for each step.

    folder: holds them, and the parts of a batch that do not fit in memory.
    key: of the hashes under which units are known.
    before: the memory after the last step; None before the first.
    after: the name of the memory that this step may write.
    point: called before each durable write, with its name.
    """

    folder: Path
    key: bytes
    before: str | None
    after: str
    point: Callable[[str], None] = lambda name: None  # noqa: ARG005


def count(
    plan: Plan | Any,
    unit: Unit,
    frame: Any,
    deletes: Any,
    *,
    step: int,
    snapshot: bool,
    memory: UnitMemory,
) -> tuple[Any, str | None]:
    """Count one step; return the counts, and the memory written.

    A snapshot bounds each unit by its rows of this step alone; a stream of events, and a panel,
    by all steps so far, or by those of its block under a `Window`: with a block's first step the
    memory begins anew. Events, and everything at once, need no memory. A plan of journeys (no
    `Plan`) bounds the journeys of each unit. `frame` and `deletes` may be the parts of a step
    (`parts.together`).
    """
    if isinstance(frame, Counts):
        return frame, None
    frame, deletes = readable(frame), readable(deletes)
    if not bounded(plan, unit):
        return plan.counts(frame, deletes), None
    assert isinstance(unit, User | Window)
    forgets = isinstance(unit, Window) and not snapshot and unit.begins(step)
    old = None if memory.before is None or forgets else memory.folder / memory.before
    where: Any = {"old": old, "new": memory.folder / memory.after}
    if not isinstance(plan, Plan):
        parts = frame if isinstance(frame, tuple | Spread) else (plan.part(frame, memory.key),)
        if isinstance(parts, Spread) or buckets_of(old) is not None:
            memory = replace(memory, before=None if old is None else memory.before)
            there = gathered(parts, memory.folder)
            return spread_within(plan, unit, there, step=step, memory=memory)
        rows = within(parts, unit, **where, key=memory.key, point=memory.point)
        return plan.counts((rows,)), memory.after
    if isinstance(frame, ReadRows) and (frame.files or deletes.files) and divisible(old):
        spark = jobs.session()
        if spark is not None:
            memory = replace(memory, before=None if old is None else memory.before)
            told = {"step": step, "snapshot": snapshot, "memory": memory}
            return spread.counted(plan, unit, frame, deletes, spark=spark, **told)
    if snapshot:
        return snapshot_counted(plan, unit, frame, folder=memory.folder, key=memory.key), None
    counts = counted(plan, unit, frame, deletes, **where, key=memory.key, point=memory.point)
    return counts, memory.after
