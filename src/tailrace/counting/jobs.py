"""Counting a step bucket by bucket, on Spark's executors or here.

A task takes a bucket: all its files, and its memory after the last step (`memory/buckets.py`). It
is counted as a step on one machine is (`counting.step.count`) and leaves a memory, under a name
that nobody has used. Counts of buckets add up. The driver gets the sums, and the memory's names.
"""

from __future__ import annotations

import functools
import operator
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.counting import executors
from tailrace.counting.files import Files, tasks_for
from tailrace.counting.journeys.masses import Masses
from tailrace.counting.memory import buckets
from tailrace.counting.memory.batch import FINEST
from tailrace.counting.memory.levels import part_of
from tailrace.counting.plan import Counts, Plan
from tailrace.storage.durable import remove

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.counting.step import UnitMemory

_COUNTS = {"part": "int", "number": "long", "sum": "long", "name": "string"}
# Makes a frame of a bucket: of files in a folder, from one hash prefix up to another.
Read = Callable[[tuple[Files, ...], Path, int, int], Any]


@dataclass(frozen=True)
class Job:
    """What a task must know to count a bucket.

    rows: files of rows inserted, and of those deleted.
    new: the folder of the memory; None where units are not remembered.
    """

    plan: Any
    unit: Any
    step: int
    snapshot: bool
    folder: Path
    rows: tuple[tuple[Files, ...], ...]
    read: Read
    bits: int
    key: bytes = b""
    new: Path | None = None
    old: Path | None = None
    before: list[Path] | None = None

    def count(self, s: int) -> tuple[Any, str]:
        """Count a bucket as a step is counted."""
        from tailrace.counting import step

        name, wide = f"{s:03d}-{uuid.uuid4().hex}", FINEST - self.bits
        ends = (s << wide, s + 1 << wide)
        adds, *others = (self.read(some, self.folder, *ends) for some in self.rows)
        deletes = others[0] if others else None
        if self.new is None:
            return self.plan.counts(adds, deletes), name
        before = self.old if self.before is None else self.before[s]
        if self.old is not None and self.before is None:
            before = self.new / f"{name}.part"
            part_of(self.old, s, self.bits, before)
        memory = step.UnitMemory(self.new, self.key, None if before is None else str(before), name)
        told = {"step": self.step, "snapshot": self.snapshot, "memory": memory}
        return step.count(self.plan, self.unit, adds, deletes, **told)[0], name


def session() -> Any:
    """The Spark session of this process, if there is one."""
    if "pyspark" not in sys.modules:
        return None
    with suppress(Exception):
        from pyspark.sql import SparkSession

        found: Any = SparkSession.getActiveSession() or SparkSession._instantiatedSession
        return None if found._jsc.sc().isStopped() else found
    return None


def remembered(
    plan: Any,
    unit: Any,
    rows: Callable[[Path, int], tuple[tuple[Files, ...], ...]],
    read: Read,
    *,
    bits: int,
    spark: Any,
    step: int,
    snapshot: bool,
    memory: UnitMemory,
) -> tuple[Any, str | None]:
    """Count a step of units with a memory; return the counts, and the memory written.

    `rows` gives the files of the step; it may write some to a folder, by so many bits of hashes:
    those of the memory, or `bits` where it begins.
    """
    folder, new = memory.folder.resolve(), memory.folder.resolve() / memory.after
    old = None if memory.before is None else folder / memory.before
    before = buckets.buckets_of(old)
    bits = bits if before is None else buckets.bits_of(before)
    buckets.begin(new)
    where: Any = {"key": memory.key, "new": new, "old": old, "before": before}
    job = Job(plan, unit, step, snapshot, folder, rows(new, bits), read, bits, **where)
    counts, names = counted(job, spark)
    if snapshot:
        remove(new)
        return counts, None
    buckets.finish(new, names, memory.point)
    return counts, memory.after


def counted(job: Job, spark: Any) -> tuple[Any, list[str]]:
    """Count all buckets, here without Spark; return the sum, and the names of memories."""
    many = 1 << job.bits
    if spark is None:
        each = [job.count(s) for s in range(many)]
        return functools.reduce(operator.add, (counts for counts, _ in each)), [n for _, n in each]
    with executors.explained(spark, job.folder):
        executors.check_size(spark, job.plan.size * len(job.rows))
        tasks = spark.range(0, many, 1, tasks_for(spark, job.bits))
        parts = executors.mapped(tasks, functools.partial(_count, job), _COUNTS)
        found = parts.groupBy("part", "number", "name").sum("sum").toArrow()
    part, number, sums = (found[name].to_numpy() for name in ("part", "number", "sum(sum)"))
    named = zip(number[part < 0].tolist(), found["name"].filter(part < 0).to_pylist(), strict=True)
    masses = [Masses.of(number[part == i], sums[part == i]) for i in range(part.max(initial=0) + 1)]
    return _made(job.plan, masses), [name for _, name in sorted(named)]


def _count(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the buckets of one task."""
    import pyarrow as pa

    total, names = None, {}
    for batch in batches:
        for s in batch["id"].to_pylist():
            counts, names[s] = job.count(s)
            total = counts if total is None else total + counts
    if total is None:
        return
    kinds = (pa.int32(), pa.int64(), pa.int64(), pa.string())
    for part, masses in enumerate(_masses(total)):
        many = len(masses.codes)
        columns = (np.full(many, part), masses.codes, masses.parts, [None] * many)
        arrays = [pa.array(one, kind) for one, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, list(_COUNTS))
    # Of no part: the memory of each bucket.
    columns = ([-1] * len(names), [*names], [0] * len(names), [*names.values()])
    arrays = [pa.array(one, kind) for one, kind in zip(columns, kinds, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, list(_COUNTS))


def _masses(counts: Any) -> Sequence[Masses]:
    """Counts that are not 0, part after part."""
    if isinstance(counts, Counts):
        return Masses.held(counts.adds), Masses.held(counts.deletes)
    return counts.parts


def _made(plan: Any, masses: list[Masses]) -> Any:
    """The counts of a plan again."""
    if not isinstance(plan, Plan):
        return plan.tally(masses)
    adds, deletes = [*masses, Masses.none(), Masses.none()][:2]
    return Counts(adds.dense(plan.size), deletes.dense(plan.size))
