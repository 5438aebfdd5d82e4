"""A unit memory in buckets, each a memory of its own.

    buckets      a line of JSON: the folder of each bucket, in the order of hashes; its digest
    003-...      a memory (`levels.py`) of the units whose hashes begin with these bits

A unit lies in one bucket with all its rows, so buckets are bounded and counted apart, by whatever
process sees the folder, and their counts add up: to those of one memory of all units, whatever the
number of buckets. `buckets` is written last: a folder without it is no memory, and what it does not
name was left by a task that was cut off, or that ran twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting.memory.batch import FINEST, Batch, Columns
from tailrace.counting.memory.hashing import UNITS
from tailrace.counting.memory.segment import damaged, failing
from tailrace.counting.plan import Counts, ReadRows
from tailrace.storage.durable import remove, sync, write_file

BUCKETS = "buckets"


def buckets_of(path: Path | None) -> list[Path] | None:
    """The folders of a memory's buckets; None for a memory without."""
    if path is None or not (path / BUCKETS).is_file() or (path / BUCKETS).is_symlink():
        return None
    with failing(path):
        try:
            line, digest, rest = (path / BUCKETS).read_text("ascii").split("\n")
            names = json.loads(line)
        except ValueError:
            raise damaged(path) from None
    plain = isinstance(names, list) and all(Path(str(name)).name == name for name in names)
    if _digest(line) != digest or rest or not plain or bits_of(names) > FINEST:
        raise damaged(path)
    return [path / name for name in names]


def bits_of(buckets: Sequence[Any]) -> int:
    """The bits of a hash that tell buckets apart."""
    return len(buckets).bit_length() - 1


def begin(path: Path) -> None:
    """Make the folder of a memory in buckets, in place of one cut off."""
    with failing(path):
        if path.is_dir() and not path.is_symlink():
            (path / BUCKETS).unlink(missing_ok=True)
        remove(path)
        path.mkdir(mode=0o700)


def finish(path: Path, names: Sequence[str], point: Callable[[str], None]) -> None:
    """Make a memory of buckets that are whole."""
    line = json.dumps(list(names))
    with failing(path):
        point("memory.header")
        write_file(path / BUCKETS, f"{line}\n{_digest(line)}\n".encode(), private=True)
        for folder in (path, path.parent):
            point("memory.directory")
            sync(folder)


def counted_apart(
    count: Callable[[ReadRows, ReadRows, Path, Path], Counts],
    old: list[Path],
    new: Path,
    key: bytes,
    rows: Iterable[Any],
    gone: Iterable[Any] | None,
    point: Callable[[str], None],
) -> Counts:
    """Count a step bucket by bucket, in this process.

    `count` takes the rows inserted and deleted of a bucket, its memory, and the folder for the next
    one.
    """
    begin(new)
    bits, names = bits_of(old), [f"{s:03d}" for s in range(len(old))]
    with ExitStack() as stack:
        batches = [stack.enter_context(closing(Batch(new.parent))) for _ in range(2)]
        for batch, some in zip(batches, (rows, gone), strict=True):
            batch.read(some, key)
        parts = []
        for s, (before, name) in enumerate(zip(old, names, strict=True)):
            adds, deletes = (read_rows([batch.slice(s, bits)]) for batch in batches)
            parts.append(count(adds, deletes, before, new / name))
    finish(new, names, point)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def read_rows(parts: Iterable[Columns]) -> ReadRows:
    """Rows by hash and cell, as `Plan.rows` gives them."""
    parts = list(parts)
    return ReadRows(lambda: ((as_units(hi, lo), cells) for hi, lo, cells in parts))


def as_units(hi: np.ndarray, lo: np.ndarray) -> np.ndarray:
    """Hashes as `hash_units` gives them."""
    units = np.empty(len(hi), UNITS)
    units["hi"], units["lo"] = hi, lo
    return units


def _digest(line: str) -> str:
    return hashlib.blake2b(line.encode(), digest_size=32).hexdigest()
