"""A segment of the unit memory: one file, never changed.

It holds the state of the units that some steps changed, sorted by unit.

    rows      hi, lo      the keyed hash of the unit (uint64, uint64)
              cell        a cell, or -1 (int64)
              count       the unit's live records in it; at -1, the inserts that it has deleted
                          again, or 0: nothing is left of the unit (uint32)
    index     the first `hi` and the digest of every block of 64 rows
    filter    a Bloom filter of the units, one byte a row

A block is checked by its digest whenever it is read, index and filter by theirs, which the header
of the memory holds (`levels.py`). So a lookup reads the index and the blocks that may hold a unit.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.errors import Corrupt, StateError

ROW = np.dtype([("hi", "<u8"), ("lo", "<u8"), ("cell", "<i8"), ("count", "<u4")])
# hi, lo, cell, count
State = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

# Rows of a block, 1.8 kB. A lookup reads and checks one a unit, and the index takes 24 bytes for
# each: by reasoning, the two cost alike at some 10^3 units of 10^7.
BLOCK = 64
_ENTRY = np.dtype([("hi", "<u8"), ("digest", "V16")])
# Bytes of a file that is read and checked whole when it is opened: as quick as looking things up.
_SMALL = 1 << 16
# Rows of the largest segment with a filter. A larger one is read by its index alone.
_FILTERED = 1 << 22


class Segment:
    """Reads the blocks of a segment that are asked for.

    `told` is what the header says of it.
    """

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        self._folder, self._told = folder, told
        self.name, self.rows = str(told["name"]), int(told["rows"])
        if self.name != os.path.basename(self.name) or self.name in ("", ".", ".."):
            raise damaged(folder)
        self._file = os.open(folder / self.name, os.O_RDONLY | os.O_NOFOLLOW)
        self._sieve: np.ndarray | None = None
        try:
            blocks = -(-self.rows // BLOCK)
            self._ends = [self.rows * ROW.itemsize]
            for size in (blocks * _ENTRY.itemsize, int(told["bytes"])):
                self._ends.append(self._ends[-1] + size)
            if os.fstat(self._file).st_size != self._ends[-1]:
                raise damaged(folder)
            index = np.frombuffer(self._part(0, told["index"]), _ENTRY)
            self._first, self._digests = np.ascontiguousarray(index["hi"]), index["digest"]
            if self._ends[-1] <= _SMALL:
                self.check()
        except BaseException:
            self.close()
            raise

    def find(self, hi: np.ndarray, lo: np.ndarray) -> tuple[State, np.ndarray]:
        """The rows of some units, sorted and each given once; and which are here."""
        from tailrace.counting.memory import levels_kernel as kernel

        size = self._ends[2] - self._ends[1]
        some = np.arange(len(hi))
        # Only where the filter is smaller than the blocks that it may spare.
        if size and size < len(hi) * BLOCK * ROW.itemsize:
            if self._sieve is None:
                self._sieve = np.frombuffer(self._part(1, self._told["filter"]), np.uint8)
            some = np.flatnonzero(kernel.may_hold(self._sieve, lo))
        # A unit's rows may begin in the block before the first that begins with it.
        first = np.maximum(np.searchsorted(self._first, hi[some]) - 1, 0)
        end = np.searchsorted(self._first, hi[some], "right")
        edges = np.zeros(len(self._first) + 1, np.int64)
        np.add.at(edges, first[end > 0], 1)
        np.add.at(edges, end[end > 0], -1)
        rows = self._blocks(np.cumsum(edges[:-1]) > 0)
        theirs, here = kernel.picked(rows[0], rows[1], hi[some], lo[some])
        found = np.zeros(len(hi), bool)
        found[some] = here
        return chosen(rows, theirs), found

    def slice(self, s: int, bits: int) -> State:
        """The rows of units whose hash begins with `bits` of `s`."""
        if not bits:
            return self._blocks(np.ones(len(self._first), bool))
        low, high = (np.uint64(edge) for edge in edges_of(s, bits))
        inside = self._first <= high
        inside[: max(int(np.searchsorted(self._first, low)) - 1, 0)] = False
        rows = self._blocks(inside)
        return chosen(rows, (rows[0] >= low) & (rows[0] <= high))

    def check(self) -> None:
        """Refuse a segment with a damaged part."""
        for at in range(0, len(self._first), 1 << 10):
            self._run(at, min(at + (1 << 10), len(self._first)))
        self._part(1, self._told["filter"])

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _part(self, place: int, digest: str) -> bytes:
        """The index (0) or the filter (1)."""
        start, end = self._ends[place : place + 2]
        data = self._read(start, end)
        if _digest(data).hex() != digest:
            raise damaged(self._folder)
        return data

    def _read(self, start: int, end: int) -> bytes:
        data = os.pread(self._file, end - start, start)
        # One read gives 2 GB at most.
        while len(data) < end - start:
            more = os.pread(self._file, end - start - len(data), start + len(data))
            if not more:
                raise damaged(self._folder)
            data += more
        return data

    def _blocks(self, wanted: np.ndarray) -> State:
        """The rows of some blocks, each run of blocks read at once."""
        steps = np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8))
        runs = zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1), strict=True)
        with failing(self._folder):
            data = b"".join([self._run(int(start), int(end)) for start, end in runs])
        return columns_of(np.frombuffer(data, ROW))

    def _run(self, start: int, end: int) -> bytes:
        size = BLOCK * ROW.itemsize
        data = self._read(start * size, min(end * size, self._ends[0]))
        view = memoryview(data)
        for place in range(end - start):
            found = _digest(view[place * size : (place + 1) * size])
            if found != self._digests[start + place].tobytes():
                raise damaged(self._folder)
        return data


class Writer:
    """Writes a segment in unit order; whole after `finish`."""

    def __init__(self, path: Path, *, point: Callable[[str], None]) -> None:
        self._path, self._point = path, point
        self.rows = 0
        self._left, self._index, self._units = b"", [], []
        with failing(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self._file = os.fdopen(os.open(path, flags, 0o600), "wb")

    def append(self, state: State) -> None:
        rows = laid_out(state)
        self.rows += len(rows)
        # Of a segment too large for a filter, none are kept.
        self._units.append(state[1])
        if self.rows > _FILTERED:
            self._units.clear()
        data = self._left + rows.tobytes()
        whole = len(data) - len(data) % (BLOCK * ROW.itemsize)
        self._write(memoryview(data)[:whole])
        self._left = data[whole:]

    def finish(self) -> dict[str, Any]:
        """Write index and filter; return what a header tells of the segment."""
        from tailrace.counting.memory import levels_kernel as kernel

        self._write(memoryview(self._left))
        index, sieve = b"".join(self._index), b""
        if self.rows <= _FILTERED:
            bits = np.zeros(self.rows, np.uint8)
            kernel.sow(bits, np.concatenate([np.empty(0, np.uint64), *self._units]))
            sieve = bits.tobytes()
        with failing(self._path):
            self._file.write(index)
            self._file.write(sieve)
            self._file.flush()
            self._point("memory.segment")
            os.fsync(self._file.fileno())
            self._file.close()
        digests = {"index": _digest(index).hex(), "filter": _digest(sieve).hex()}
        return {"name": self._path.name, "rows": self.rows, "bytes": len(sieve), **digests}

    def close(self) -> None:
        """Close the file; without `finish` it is no segment."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _write(self, data: memoryview) -> None:
        size = BLOCK * ROW.itemsize
        for at in range(0, len(data), size):
            block = data[at : at + size]
            self._index.append(bytes(block[:8]) + _digest(block))
        with failing(self._path):
            self._file.write(data)


def chosen(state: State, rows: np.ndarray) -> State:
    """Some rows of a state."""
    hi, lo, cell, count = state
    return hi[rows], lo[rows], cell[rows], count[rows]


def columns_of(rows: np.ndarray) -> State:
    """The columns of rows as a file holds them."""
    hi, lo, cell, count = (np.ascontiguousarray(rows[name]) for name in ROW.names or ())
    return hi, lo, cell, count


def laid_out(state: State) -> np.ndarray:
    """Rows as a file holds them."""
    rows = np.empty(len(state[0]), ROW)
    for name, column in zip(ROW.names or (), state, strict=True):
        rows[name] = column
    return rows


def edges_of(s: int, bits: int) -> tuple[int, int]:
    """The first and the last hash of a slice."""
    return s << (64 - bits), ((s + 1) << (64 - bits)) - 1


@contextlib.contextmanager
def failing(path: Path) -> Iterator[None]:
    """A failing disk in one sentence."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "input or output failed"
        raise StateError(
            f"The unit memory '{path.name}' cannot be read or written ({reason}): free the disk "
            "or the rights to the directory, then open the stream again."
        ) from None


def damaged(path: Path) -> Corrupt:
    return Corrupt(
        f"The unit memory '{path.name}' is damaged, cut short or missing. Restore the last good "
        "copy."
    )


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
