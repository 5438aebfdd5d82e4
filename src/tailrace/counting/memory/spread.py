"""Bounding units on Spark's executors.

No row of a person comes to the driver:

1. **Write.** Tasks hash the ids of their rows under the stream's key, keep of each unit only rows
   that a bound can accept (`bounding.py`), and bring each bucket of hashes together. The rows of a
   bucket are written to a file; the driver gets its name and digest.
2. **Count.** Once a step is complete, a task takes a bucket: all its files, and its memory after
   the last step (`buckets.py`). It is counted as a step on one machine is (`counting.step.count`)
   and leaves a memory. The driver gets counts, added up over buckets, and the memory's name.

A task may be cut off, or run twice: it writes under names that nobody has used, and only what the
driver names at the end exists. Files and memories lie in the stream's own folder: executors must
see it under the same path.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from tailrace.counting import executors
from tailrace.counting.memory import buckets
from tailrace.counting.memory.batch import FINEST, Batch, Columns, in_order
from tailrace.counting.memory.bounding import Rule
from tailrace.counting.memory.hashing import hash_units
from tailrace.counting.memory.levels import part_of
from tailrace.counting.memory.segment import damaged, failing
from tailrace.counting.plan import Counts, Plan, ReadRows, unit_of
from tailrace.storage.durable import remove, sync

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.counting.step import UnitMemory

# A folder of files that one call of `add` wrote.
PREFIX = "add-"
_ROW = np.dtype([("hi", "<u8"), ("lo", "<u8"), ("cell", "<i8")])
_ROWS = {"bucket": "int", "hi": "long", "lo": "long", "cell": "long"}
_FILE = {"bucket": "int", "name": "string", "digest": "string"}
_COUNTS = {"number": "long", "adds": "long", "deletes": "long", "name": "string"}
# Two to a core: a task that is longer than others then has less to wait for.
_BUCKETS_A_CORE = 2


@dataclass(frozen=True)
class Files:
    """The rows of units in a folder, one file a bucket.

    bits: of the hashes, which tell buckets apart.
    files: the bucket, the name and the digest of each.
    """

    folder: str
    bits: int
    files: tuple[tuple[int, str, str], ...]

    @classmethod
    def read(cls, text: str) -> Files:
        """What `str` wrote."""
        folder, bits, files = json.loads(text)
        return cls(folder, bits, tuple((int(s), str(name), str(d)) for s, name, d in files))

    def __str__(self) -> str:
        return json.dumps([self.folder, self.bits, self.files])

    def rows(self, below: Path, first: int = 0, last: int | None = None) -> Iterator[Columns]:
        """The rows of all buckets, or from one hash prefix of FINEST bits up to another."""
        wide = FINEST - self.bits
        for bucket, name, digest in self.files:
            if last is None or (first < bucket + 1 << wide and bucket << wide < last):
                yield _within(_read(below / self.folder / name, digest), first, last)


def session() -> Any:
    """The Spark session of this process, if there is one."""
    if "pyspark" not in sys.modules:
        return None
    with suppress(Exception):
        from pyspark.sql import SparkSession

        found: Any = SparkSession.getActiveSession() or SparkSession._instantiatedSession
        return None if found._jsc.sc().isStopped() else found
    return None


def written(plan: Plan, rule: Rule, rows: nw.LazyFrame[Any], *, key: bytes, below: Path) -> Files:
    """Write the rows of a Spark frame to files in a new folder `below`."""
    assert plan.key is not None
    plan.codes.check(rows)
    unit = unit_of(rows, plan.key).alias(plan.key)
    columns = [name for name in plan.codes.columns if name != plan.key]
    frame = executors.chosen(rows.with_columns(unit), [plan.key, *columns])
    spark = frame.sparkSession
    bits, name = _bits(spark), f"{PREFIX}{uuid.uuid4().hex}"
    with failing(below):
        (below / name).mkdir(mode=0o700)
    with executors.explained(spark, below):
        hashed = executors.mapped(frame, functools.partial(_hash, plan, rule, key, bits), _ROWS)
        together = hashed.repartition(_tasks(spark, 1 << bits), "bucket")
        task = functools.partial(_write, rule, key, bits, str(below / name))
        found = executors.mapped(together, task, _FILE).toArrow().to_pylist()
    with failing(below):
        sync(below / name)
        sync(below)
    files = sorted((one["bucket"], one["name"], one["digest"]) for one in found)
    return Files(name, bits, tuple(files))


def _hash(
    plan: Plan, rule: Rule, key: bytes, bits: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of one task, hashed and cut."""
    import pyarrow as pa

    first = next(batches, None)
    if first is None:
        return

    def again() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    for ids, cells in plan.rows(pa.RecordBatchReader.from_batches(first.schema, again())):
        units = hash_units(ids, key)
        hi, lo, cell = rule.cut(_sorted(units["hi"], units["lo"], cells), key)
        bucket = (hi >> np.uint64(64 - bits)).astype(np.int32)
        arrays = (bucket, hi.view(np.int64), lo.view(np.int64), cell)
        yield pa.RecordBatch.from_arrays([pa.array(one) for one in arrays], list(_ROWS))


def _sorted(hi: np.ndarray, lo: np.ndarray, cells: np.ndarray) -> Columns:
    """Rows with a unit and a cell, by unit and cell."""
    from tailrace.counting.memory import kernel

    hi, lo, cells = (np.array(one) for one in (hi, lo, cells))
    order = np.empty(len(cells), np.int64)
    many = kernel.partition(hi, lo, cells, 0, max(0, len(cells).bit_length() - 3), order)[-1]
    order = order[:many]
    return in_order(hi[order], lo[order], cells[order])


def _write(
    rule: Rule, key: bytes, bits: int, folder: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the buckets of one task; tell of their files."""
    import pyarrow as pa

    found = []
    # In this machine's own folder, without a name.
    with closing(Batch(Path(tempfile.gettempdir()))) as batch:
        for some in batches:
            hi, lo, cell = (some[name].to_numpy() for name in ("hi", "lo", "cell"))
            batch.append(buckets.as_units(hi.view(np.uint64), lo.view(np.uint64)), cell)
        for s in range(1 << bits) if batch.kept else ():
            rows = rule.cut(batch.slice(s, bits), key)
            if len(rows[0]):
                found.append({"bucket": s, **_keep(Path(folder), s, rows)})
    schema = pa.schema([("bucket", pa.int32()), ("name", pa.string()), ("digest", pa.string())])
    yield pa.RecordBatch.from_pylist(found, schema)


def _keep(folder: Path, s: int, rows: Columns) -> dict[str, str]:
    """Write a file of rows, durably, under a name that nobody has used."""
    laid = np.empty(len(rows[0]), _ROW)
    for name, column in zip(_ROW.names or (), rows, strict=True):
        laid[name] = column
    data, name = laid.tobytes(), f"{s:03d}-{uuid.uuid4().hex}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(folder / name, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return {"name": name, "digest": _digest(data)}


def _read(path: Path, digest: str) -> Columns:
    with failing(path):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise damaged(path.parent) from None
        with os.fdopen(descriptor, "rb") as file:
            data = file.read()
    if _digest(data) != digest:
        raise damaged(path.parent)
    rows = np.frombuffer(data, _ROW)
    hi, lo, cell = (np.array(rows[name]) for name in _ROW.names or ())
    return hi, lo, cell


def _within(rows: Columns, first: int, last: int | None) -> Columns:
    """The rows whose hashes begin with FINEST bits from `first` up to `last`."""
    if last is None:
        return rows
    place = rows[0] >> np.uint64(64 - FINEST)
    some = (place >= np.uint64(first)) & (place < np.uint64(last))
    hi, lo, cell = (column[some] for column in rows)
    return hi, lo, cell


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def counted(
    plan: Plan,
    unit: Any,
    frame: ReadRows,
    deletes: ReadRows,
    *,
    spark: Any,
    step: int,
    snapshot: bool,
    memory: UnitMemory,
) -> tuple[Counts, str | None]:
    """Count one step on the executors; return the counts, and the memory written."""
    executors.check_size(spark, 2 * plan.size)
    folder, new = memory.folder.resolve(), memory.folder.resolve() / memory.after
    old = None if memory.before is None else folder / memory.before
    before = buckets.buckets_of(old)
    bits = _bits(spark) if before is None else buckets.bits_of(before)
    buckets.begin(new)
    rows = tuple((*one.files, *_spilt(one, folder, new, bits)) for one in (frame, deletes))
    job = Job(plan, unit, step, snapshot, memory.key, folder, new, rows, old, before, bits)
    tasks = spark.range(0, 1 << bits, 1, _tasks(spark, 1 << bits))
    with executors.explained(spark, folder):
        parts = executors.mapped(tasks, functools.partial(_count, job), _COUNTS)
        found = parts.groupBy("number", "name").sum("adds", "deletes").toArrow()
    number, name = found["number"].to_numpy(), found["name"].to_pylist()
    sums = []
    for column in ("adds", "deletes"):
        sums.append(np.zeros(plan.size, np.int64))
        sums[-1][number[number >= 0]] = found[f"sum({column})"].to_numpy()[number >= 0]
    if snapshot:
        remove(new)
        return Counts(*sums), None
    names = {-1 - int(n): kept for n, kept in zip(number, name, strict=True) if n < 0}
    buckets.finish(new, [names[s] for s in range(1 << bits)], memory.point)
    return Counts(*sums), memory.after


@dataclass(frozen=True)
class Job:
    """What a task must know to count a bucket."""

    plan: Plan
    unit: Any
    step: int
    snapshot: bool
    key: bytes
    folder: Path
    new: Path
    rows: tuple[tuple[Files, ...], ...]
    old: Path | None
    before: list[Path] | None
    bits: int

    def count(self, s: int) -> tuple[Counts, str]:
        """Count a bucket as a step is counted."""
        from tailrace.counting import step

        name, wide = f"{s:03d}-{uuid.uuid4().hex}", FINEST - self.bits
        before = self.old if self.before is None else self.before[s]
        aside = self.new / f"{name}.part"
        if self.old is not None and self.before is None:
            part_of(self.old, s, self.bits, aside)
            before = aside
        ends = (s << wide, s + 1 << wide)
        adds, deletes = (
            buckets.read_rows(rows for one in some for rows in one.rows(self.folder, *ends))
            for some in self.rows
        )
        memory = step.UnitMemory(self.new, self.key, None if before is None else str(before), name)
        counts, _ = step.count(
            self.plan,
            self.unit,
            adds,
            deletes,
            step=self.step,
            snapshot=self.snapshot,
            memory=memory,
        )
        return counts, name


def _count(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the buckets of one task."""
    import pyarrow as pa

    total, names = None, {}
    for batch in batches:
        for s in batch["id"].to_pylist():
            counts, names[-1 - s] = job.count(s)
            total = counts if total is None else total + counts
    if total is None:
        return
    some = executors.sparse(adds=total.adds, deletes=total.deletes).to_pydict()
    none = [0] * len(names)
    yield pa.RecordBatch.from_pydict(
        {
            "number": pa.array([*some["number"], *names], pa.int64()),
            "adds": pa.array([*some["adds"], *none], pa.int64()),
            "deletes": pa.array([*some["deletes"], *none], pa.int64()),
            "name": pa.array([*[None] * len(some["number"]), *names.values()], pa.string()),
        }
    )


def _spilt(rows: ReadRows, folder: Path, new: Path, bits: int) -> Iterator[Files]:
    """Rows that the driver holds, in files beside the others."""
    with closing(Batch(folder)) as batch:
        for units, cells in rows.here():
            batch.append(units, cells)
        kept = []
        for s in range(1 << bits) if batch.kept else ():
            some = batch.slice(s, bits)
            if len(some[0]):
                told = _keep(new, s, some)
                kept.append((s, told["name"], told["digest"]))
    if kept:
        yield Files(new.name, bits, tuple(kept))


def _bits(spark: Any) -> int:
    """The bits of buckets for the cores that Spark has, which are public."""
    many = _BUCKETS_A_CORE * executors.cores(spark)
    return min(max(2, (many - 1).bit_length()), FINEST - 2)


def _tasks(spark: Any, most: int) -> int:
    return min(most, executors.cores(spark))
