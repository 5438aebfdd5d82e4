"""Counting journeys on Spark's executors.

No point of a journey comes to the driver:

1. **Write.** Tasks find the cell, the order and the keyed hashes of each point. They bring the
   points of a journey together or, where people are told apart, all journeys of a person. Each
   bucket of hashes is written to a file.
2. **Count.** Each round counts each bucket (`counting.jobs`): what a plan counts of journeys adds
   up over them. Where Spark is gone by then, buckets are counted here, one after the other.
"""

from __future__ import annotations

import functools
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from tailrace.counting import executors, files, jobs
from tailrace.counting.files import PREFIX, Files, Writer
from tailrace.counting.journeys.reading import JourneyRows, Reading, joined
from tailrace.counting.memory.batch import FINEST
from tailrace.counting.memory.segment import failing
from tailrace.counting.plan import unit_of
from tailrace.storage.durable import sync

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.counting.step import UnitMemory

# The hash that keeps rows together, that of the journey, the point's order and cell.
_ROW = np.dtype(
    [
        *((name, "<u8") for name in ("hi", "lo", "own_hi", "own_lo")),
        ("order", "<f8"),
        ("cell", "<i8"),
    ]
)
_ROWS = {
    "bucket": "int",
    **dict.fromkeys(("hi", "lo", "own_hi", "own_lo"), "long"),
    "order": "double",
    "cell": "long",
}


@dataclass(frozen=True)
class Spread:
    """Rows of journeys in the files of a folder."""

    files: tuple[Files, ...]
    folder: Path

    @classmethod
    def read(cls, sealed: bytes, folder: Path) -> Spread:
        """What was sealed."""
        return cls(tuple(Files.read(one) for one in json.loads(sealed)), folder)

    @property
    def sealed(self) -> bytes:
        """The names of the files."""
        return json.dumps([str(one) for one in self.files]).encode()


def written(reading: Reading, rows: nw.LazyFrame[Any], *, key: bytes, below: Path) -> JourneyRows:
    """Write the rows of a Spark frame to files in a new folder `below`."""
    with executors.explained(executors.session_of(rows), below):
        reading.check(rows)
        ids = [one for one in (reading.trajectory, reading.user) if one is not None]
        told = rows.with_columns(*(unit_of(rows, name).alias(name) for name in ids))
        frame = executors.chosen(told, reading.columns, time=reading.order)
    hashed = functools.partial(_hash, reading, key)
    found = files.written(frame, hashed, _ROWS, _write, below=below)
    return JourneyRows.none(str(found))


def _hash(
    reading: Reading, key: bytes, bits: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The points of one task, with their hashes; those of nobody and nowhere are left out."""
    import pyarrow as pa

    for batch in batches:
        found = _laid(reading.rows(pa.Table.from_batches([batch]), key))
        bucket = (found["hi"] >> np.uint64(64 - bits)).astype(np.int32)
        columns = [pa.array(found[name].view(np.int64)) for name in (_ROW.names or ())[:4]]
        columns += [pa.array(found["order"]), pa.array(found["cell"])]
        yield pa.RecordBatch.from_arrays([pa.array(bucket), *columns], list(_ROWS))


def _laid(rows: JourneyRows) -> np.ndarray:
    """Points that can be counted, as they are written."""
    rows = rows.at(np.flatnonzero(rows.known))
    found = np.empty(len(rows.cell), _ROW)
    found["hi"], found["lo"] = (rows.user if len(rows.user) else rows.trajectory).T
    found["own_hi"], found["own_lo"] = rows.trajectory.T
    found["order"], found["cell"] = rows.order, rows.cell
    return found


def _write(_: int, folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the buckets of one task; tell of their files."""
    writers: dict[int, Writer] = {}
    for some in batches:
        found = np.empty(len(some), _ROW)
        for name in _ROW.names or ():
            found[name] = some[name].to_numpy().view(_ROW[name])
        _append(writers, some["bucket"].to_numpy(), found, Path(folder))
    yield files.told([writer.done() for writer in writers.values()])


def _append(writers: dict[int, Writer], bucket: np.ndarray, rows: np.ndarray, folder: Path) -> None:
    """Append rows to the file of each one's bucket."""
    for s in np.unique(bucket).tolist():
        writers[s] = writers.get(s) or Writer(folder, s)
        writers[s].append(rows[bucket == s])


def gathered(parts: Spread | Sequence[JourneyRows], below: Path) -> Spread:
    """The parts of a step in files: those that are held here are written too."""
    if isinstance(parts, Spread):
        return parts
    there = [one for part in parts for one in part.told() if one is not None]
    here = [part for part in parts if not len(part.files)]
    bits = there[0].bits if there else FINEST // 2
    spilt = [spill(joined(here), below, bits)] if here else []
    return Spread((*there, *spilt), below)


def spill(rows: JourneyRows, below: Path, bits: int) -> Files:
    """Write rows that are held here to a new folder `below`."""
    folder, writers, found = below / f"{PREFIX}{uuid.uuid4().hex}", {}, _laid(rows)
    with failing(below):
        folder.mkdir(mode=0o700)
        _append(writers, found["hi"] >> np.uint64(64 - bits), found, folder)
        told = [tuple(writers[s].done().values()) for s in sorted(writers)]
        sync(folder)
        sync(below)
    return Files(folder.name, bits, tuple(told))


def counts(plan: Any, rows: Spread) -> Any:
    """Count journeys, each person's as they are."""
    read, bits = functools.partial(_read, plan.reading.user is not None), rows.files[0].bits
    job = jobs.Job(plan, None, 0, False, rows.folder.resolve(), (rows.files,), read, bits)
    return jobs.counted(job, jobs.session())[0]


def within(
    plan: Any, unit: Any, rows: Spread, *, step: int, memory: UnitMemory
) -> tuple[Any, str | None]:
    """Count a step's journeys within the bound of each person."""
    read = functools.partial(_read, True)
    told: Any = {"spark": jobs.session(), "step": step, "snapshot": False, "memory": memory}
    return jobs.remembered(
        plan, unit, lambda *_: (rows.files,), read, bits=rows.files[0].bits, **told
    )


def _read(
    people: bool, some: Sequence[Files], folder: Path, first: int, last: int
) -> tuple[JourneyRows, ...]:
    """The rows of a bucket."""
    found = []
    for one in some:
        for rows in one.rows(folder, _ROW, first, last):
            own = np.stack([rows["own_hi"], rows["own_lo"]], axis=1)
            user = np.stack([rows["hi"], rows["lo"]], axis=1) if people else own[:0]
            found.append(JourneyRows(own, np.array(rows["order"]), np.array(rows["cell"]), user))
    return (joined(found),) if found else (JourneyRows.none(),)
