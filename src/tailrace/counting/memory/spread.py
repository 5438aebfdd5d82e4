"""Bounding units on Spark's executors.

No row of a person comes to the driver:

1. **Write.** Tasks hash the ids of their rows under the stream's key, keep of each unit only rows
   that a bound can accept (`bounding.py`), and bring each bucket of hashes together. The rows of a
   bucket are written to a file; the driver gets its name and digest.
2. **Count.** Once a step is complete, each bucket is counted with its memory (`counting.jobs`).
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from tailrace.counting import executors, files
from tailrace.counting.files import Files, Writer
from tailrace.counting.jobs import remembered
from tailrace.counting.memory import buckets
from tailrace.counting.memory.batch import Batch, Columns, in_order
from tailrace.counting.memory.bounding import Rule
from tailrace.counting.memory.hashing import hash_units
from tailrace.counting.plan import Counts, Plan, ReadRows, unit_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.counting.step import UnitMemory

_ROW = np.dtype([("hi", "<u8"), ("lo", "<u8"), ("cell", "<i8")])
_ROWS = {"bucket": "int", "hi": "long", "lo": "long", "cell": "long"}


def written(plan: Plan, rule: Rule, rows: nw.LazyFrame[Any], *, key: bytes, below: Path) -> Files:
    """Write the rows of a Spark frame to files in a new folder `below`."""
    assert plan.key is not None
    with executors.explained(executors.session_of(rows), below):
        plan.codes.check(rows)
        unit = unit_of(rows, plan.key).alias(plan.key)
        columns = [name for name in plan.codes.columns if name != plan.key]
        frame = executors.chosen(rows.with_columns(unit), [plan.key, *columns])
    hashed, write = functools.partial(_hash, plan, rule, key), functools.partial(_write, rule, key)
    return files.written(frame, hashed, _ROWS, write, below=below)


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

    found = []
    # In this machine's own folder, without a name.
    with closing(Batch(Path(tempfile.gettempdir()))) as batch:
        for some in batches:
            hi, lo, cell = (some[name].to_numpy() for name in ("hi", "lo", "cell"))
            batch.append(buckets.as_units(hi.view(np.uint64), lo.view(np.uint64)), cell)
        for s in range(1 << bits) if batch.kept else ():
            rows = rule.cut(batch.slice(s, bits), key)
            if len(rows[0]):
                found.append(_keep(Path(folder), s, rows))
    yield files.told(found)


def _keep(folder: Path, s: int, rows: Columns) -> dict[str, Any]:
    """Write a file of rows."""
    laid = np.empty(len(rows[0]), _ROW)
    for name, column in zip(_ROW.names or (), rows, strict=True):
        laid[name] = column
    writer = Writer(folder, s)
    writer.append(laid)
    return writer.done()


def rows_of(
    files: Files, below: Path, first: int = 0, last: int | None = None
) -> Iterator[Columns]:
    """The rows of units in files, as `Files.rows` gives them."""
    for rows in files.rows(below, _ROW, first, last):
        hi, lo, cell = (np.array(rows[name]) for name in _ROW.names or ())
        yield hi, lo, cell


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

    def rows(folder: Path, bits: int) -> tuple[tuple[Files, ...], ...]:
        return tuple((*one.files, *_spilt(one, folder, bits)) for one in (frame, deletes))

    told: Any = {"spark": spark, "step": step, "snapshot": snapshot, "memory": memory}
    return remembered(plan, unit, rows, _rows, bits=files.bits_for(spark), **told)


def _rows(some: Sequence[Files], folder: Path, first: int, last: int) -> ReadRows:
    """The rows of a bucket."""
    return buckets.read_rows(rows for one in some for rows in rows_of(one, folder, first, last))


def _spilt(rows: ReadRows, new: Path, bits: int) -> Iterator[Files]:
    """Rows that the driver holds, in files beside the others."""
    with closing(Batch(new.parent)) as batch:
        for units, cells in rows.here():
            batch.append(units, cells)
        kept = []
        for s in range(1 << bits) if batch.kept else ():
            some = batch.slice(s, bits)
            if len(some[0]):
                kept.append(tuple(_keep(new, s, some).values()))
    if kept:
        yield Files(new.name, bits, tuple(kept))
