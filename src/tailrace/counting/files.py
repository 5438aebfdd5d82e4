"""Rows of a step in files, by buckets of hashes.

Tasks of Spark write them and read them; the driver holds their names and digests. A task may be cut
off, or run twice: it writes under names that nobody has used, and only what the driver names at the
end exists. Files lie in the stream's own folder: executors must see it under the same path.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.counting import executors
from tailrace.counting.memory.batch import FINEST
from tailrace.counting.memory.segment import damaged, failing
from tailrace.storage.durable import sync

if TYPE_CHECKING:
    import pyarrow as pa

# A folder of files that one call of `add` wrote.
PREFIX = "add-"
_FILE = {"bucket": "int", "name": "string", "digest": "string"}
# Two to a core: a task that is longer than others then has less to wait for.
_BUCKETS_A_CORE = 2
# Tasks over the batches of one part of a frame.
Task = Callable[..., "Iterator[pa.RecordBatch]"]


@dataclass(frozen=True)
class Files:
    """Rows in a folder, one file a bucket.

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

    def rows(
        self, below: Path, row: np.dtype, first: int = 0, last: int | None = None
    ) -> Iterator[np.ndarray]:
        """The rows of all buckets, or from one hash prefix of FINEST bits up to another."""
        wide = FINEST - self.bits
        for bucket, name, digest in self.files:
            if last is None or (first < bucket + 1 << wide and bucket << wide < last):
                found = np.frombuffer(_read(below / self.folder / name, digest), row)
                yield found if last is None else _within(found, first, last)


def written(
    frame: Any, hashed: Task, columns: Mapping[str, str], write: Task, *, below: Path
) -> Files:
    """Bring each bucket of a frame's rows together, and write it to a new folder `below`.

    `hashed(bits, batches)` gives rows in these `columns`, one of them the bucket; `write(bits,
    folder, batches)` gives what `Writer.done` told.
    """
    spark, folder = frame.sparkSession, below / f"{PREFIX}{uuid.uuid4().hex}"
    with failing(below):
        folder.mkdir(mode=0o700)
    with executors.explained(spark, below):
        bits = bits_for(spark)
        rows = executors.mapped(frame, functools.partial(hashed, bits), columns)
        together = rows.repartition(tasks_for(spark, bits), "bucket")
        task = functools.partial(write, bits, str(folder))
        found = executors.mapped(together, task, _FILE).toArrow().to_pylist()
    with failing(below):
        sync(folder)
        sync(below)
    files = sorted((one["bucket"], one["name"], one["digest"]) for one in found)
    return Files(folder.name, bits, tuple(files))


def told(found: list[dict[str, Any]]) -> pa.RecordBatch:
    """What a task tells of its files."""
    import pyarrow as pa

    kinds = (pa.int32(), pa.string(), pa.string())
    schema = pa.schema(list(zip(_FILE, kinds, strict=True)))
    return pa.RecordBatch.from_pylist(found, schema)


def bits_for(spark: Any) -> int:
    """The bits of buckets for the cores that Spark has, which are public."""
    many = _BUCKETS_A_CORE * executors.cores(spark)
    return min(max(2, (many - 1).bit_length()), FINEST - 2)


def tasks_for(spark: Any, bits: int) -> int:
    """Tasks for so many buckets."""
    return min(1 << bits, executors.cores(spark))


class Writer:
    """A file of a bucket, under a name that nobody has used."""

    def __init__(self, folder: Path, bucket: int) -> None:
        self._bucket, self._name = bucket, f"{bucket:03d}-{uuid.uuid4().hex}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        # Closed by `done`.
        self._file = os.fdopen(os.open(folder / self._name, flags, 0o600), "wb")
        self._digest = hashlib.blake2b(digest_size=32)

    def append(self, rows: np.ndarray) -> None:
        data = rows.tobytes()
        self._file.write(data)
        self._digest.update(data)

    def done(self) -> dict[str, Any]:
        """Make it durable, and tell of it."""
        with self._file as file:
            file.flush()
            os.fsync(file.fileno())
        return {"bucket": self._bucket, "name": self._name, "digest": self._digest.hexdigest()}


def _read(path: Path, digest: str) -> bytes:
    with failing(path):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise damaged(path.parent) from None
        with os.fdopen(descriptor, "rb") as file:
            data = file.read()
    if hashlib.blake2b(data, digest_size=32).hexdigest() != digest:
        raise damaged(path.parent)
    return data


def _within(rows: np.ndarray, first: int, last: int) -> np.ndarray:
    """The rows whose hashes begin with FINEST bits from `first` up to `last`."""
    place = rows["hi"] >> np.uint64(64 - FINEST)
    return rows[(place >= np.uint64(first)) & (place < np.uint64(last))]
