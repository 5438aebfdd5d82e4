"""The unit memory after one step: a folder never changed.

    header        a line of JSON: format, rows, bound, key check, and the live segments, newest
                  first, each with its rows and digests; a line with its own digest
    000007-...    segments (`segment.py`), each named for the step that wrote it
    states        of a panel: how many people have each state (`panel.py`)

A step writes one segment, with the units that it changed, and gives the segments that stay a second
name in its folder (a hard link; a copy where links are refused). The newest segment that has a unit
says all about it. So a step writes what changed; and a folder is whole by itself, so that it is
copied, and removed, without regard to others. The header is written last, when all else is on disk:
a folder without a whole header is no memory.

**Merges.** A segment of n rows has the class log_16(n). A new segment takes in all newer ones of a
lower class than its own, and those of its class once they would be 16; it takes in everything once
half of the rows stored are out of date. So a row is written again when its class grows, log_16
(units / changes) times in all, and at most 15 segments of a class are looked through.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting.memory.batch import FINEST, SMALL, slice_bits
from tailrace.counting.memory.buckets import BUCKETS, buckets_of
from tailrace.counting.memory.columns import Former
from tailrace.counting.memory.hashing import UNITS
from tailrace.counting.memory.segment import (
    ROW,
    Segment,
    State,
    Writer,
    chosen,
    columns_of,
    damaged,
    failing,
    laid_out,
)
from tailrace.errors import ConfigError, Corrupt, Mismatch
from tailrace.storage.durable import link, remove, sync, write_file

# In formats 1 and 2 the memory was written whole; in 1, the text "7" was another unit than 7.
FORMAT = 3
# Segments of a class that are merged. With 16, a unit that changes is written 3 times where 1,000
# of 10^5 to 10^6 units change a step (with 4 it would be 5 times); the filters keep lookups quick.
RATIO = 16
# Rows up to which segments are of one class: they cost as much as their files.
_LEAST = 256
# The durable writes, in their order.
POINTS = (
    "memory.segment",
    "memory.links",
    "memory.header",
    "memory.directory",
)
_HEADER, _STATES = "header", "states"
EMPTY: State = (
    np.empty(0, np.uint64),
    np.empty(0, np.uint64),
    np.empty(0, np.int64),
    np.empty(0, np.uint32),
)


def check(path: Path) -> int:
    """Refuse a damaged memory; return its number of live rows.

    Every byte must be as written.
    """
    if (buckets := buckets_of(path)) is not None:
        return sum(map(check, buckets))
    levels = Levels(path, None)
    try:
        for segment in levels.segments:
            segment.check()
    finally:
        levels.close()
    return levels.rows


def discard(path: Path) -> None:
    """Remove a memory, the header first.

    A half-removed one is then never taken for a whole one.
    """
    with failing(path):
        if path.is_dir() and not path.is_symlink():
            for name in (_HEADER, BUCKETS):
                (path / name).unlink(missing_ok=True)
        remove(path)


def clean(folder: Path, kept: Collection[str | None]) -> None:
    """Remove all but `kept`; no link is followed."""
    with failing(folder):
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for name in os.listdir(at):
                if name not in kept:
                    shutil.rmtree(name, ignore_errors=True, dir_fd=at)
        finally:
            os.close(at)


def former(path: Path | None) -> Callable[[np.ndarray], np.ndarray] | None:
    """Which units a memory knows by format 1's hashes; None for later ones."""
    if path is None or buckets_of(path) is not None:
        return None
    with _whole(path):
        header = _header(path)
        if header.get("hashing", header["format"]) != 1:
            return None

    def known(units: np.ndarray) -> np.ndarray:
        with closing(Levels(path, None)) as levels:
            return levels.known(units)

    return known


def divisible(path: Path | None) -> bool:
    """Whether a memory is in buckets, or can be divided into them.

    A panel's is not: its silent people are known by their number alone. Nor one of a former format.
    """
    if path is None or buckets_of(path) is not None:
        return True
    with _whole(path):
        header = _header(path)
        return header["format"] == FORMAT and header["hashing"] > 1 and header["states"] is None


def part_of(path: Path, s: int, bits: int, to: Path) -> None:
    """Write the memory of the units whose hashes begin with `bits` of `s`."""
    from tailrace.counting.memory import levels_kernel as kernel

    made = {name: _header(path)[name] for name in ("bound", "key")}
    with failing(to), closing(Levels(path, made)) as levels, closing(Levels(None, None)) as none:
        rows = EMPTY
        for segment in levels.segments:
            rows = kernel.overlay(rows, segment.slice(s, bits))
        rows = chosen(rows, rows[3] > 0)
        # So that the new memory stands at the same step.
        none.step = levels.step - 1
        with closing(Change(none, to, made, point=lambda _: None)) as change:
            change.append(rows)
            change.finish(len(rows[0]))


class Levels:
    """The segments of a memory, newest first, and what their header says.

    None is a memory without rows.
    """

    def __init__(self, path: Path | None, made: dict[str, str] | None) -> None:
        """Open a memory; refuse one not `made` with this bound and key."""
        self.path = path
        self.rows, self.step, self.hashing = 0, 0, 2
        self.segments: list[Segment | Former] = []
        self.told: dict[str, Any] = {}
        self.states = np.empty((2, 0), np.int64)
        if path is None:
            return
        try:
            with _whole(path):
                header = _header(path)
                if made is not None and any(header[name] != made[name] for name in made):
                    raise Mismatch(
                        f"The unit memory '{path.name}' was made with another key or another bound "
                        "on a unit's records: open it with the configuration it was made with."
                    )
                self._open(path, header)
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path, header: dict[str, Any]) -> None:
        self.rows = int(header["rows"])
        if header["format"] != FORMAT:
            self.hashing = int(header["format"])
            self.segments.append(Former(path, header))
            return
        self.hashing, self.step = int(header["hashing"]), int(header["step"])
        for told in header["segments"]:
            self.segments.append(Segment(path, told))
        self.told = {told["name"]: told for told in header["segments"]}
        if header["states"] is not None:
            data = (path / _STATES).read_bytes()
            if _digest(data) != header["states"]:
                raise damaged(path)
            self.states = np.frombuffer(data, "<i8").reshape(2, -1)

    @property
    def in_columns(self) -> bool:
        """Whether an earlier version wrote it, whole."""
        return any(isinstance(segment, Former) for segment in self.segments)

    def known(self, units: np.ndarray) -> np.ndarray:
        """Which units have rows here."""
        wanted, places = np.unique(units, return_inverse=True)
        hi, lo, _, count = self.find(
            np.ascontiguousarray(wanted["hi"]), np.ascontiguousarray(wanted["lo"])
        )
        here = np.empty(len(hi), UNITS)
        here["hi"], here["lo"] = hi, lo
        return np.isin(wanted, here[count > 0])[places]

    def find(self, hi: np.ndarray, lo: np.ndarray) -> State:
        """The rows of units, sorted."""
        from tailrace.counting.memory import levels_kernel as kernel

        found = EMPTY
        for segment in self.segments:
            if not len(hi):
                break
            rows, here = segment.find(hi, lo)
            if here.any():
                found = kernel.overlay(found, rows) if len(found[0]) else rows
                hi, lo = hi[~here], lo[~here]
        return found

    def taken_in(self, rows: int, live: int) -> int:
        """How many of the newest segments a new one of `rows` rows takes in.

        `live` rows are then up to date.
        """
        sizes = [segment.rows for segment in self.segments]
        if self.in_columns or sum(sizes) + rows > 2 * live + _LEAST * RATIO:
            return len(sizes)
        taken = 0
        while taken < len(sizes):
            own, run = _class(rows), taken
            while run < len(sizes) and _class(sizes[run]) <= own:
                run += 1
            alike = sum(_class(size) == own for size in sizes[taken:run])
            # Classes do not fall from newer to older, so the lower ones come first.
            more = run - taken if alike + 1 >= RATIO else run - taken - alike
            if not more:
                break
            rows += sum(sizes[taken : taken + more])
            taken += more
        return taken

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


class Change:
    """Writes the memory after one step; whole after `finish`."""

    def __init__(
        self, old: Levels, path: Path, made: dict[str, str], *, point: Callable[[str], None]
    ) -> None:
        if old.path is not None and old.path.resolve() == path.resolve():
            raise ConfigError("A memory is never changed: give the new one a folder of its own.")
        self._old, self._path, self._made, self._point = old, path, made, point
        # Closed by `close`.
        self._file = tempfile.SpooledTemporaryFile(SMALL, dir=str(path.parent))  # noqa: SIM115
        # Rows by the first bits of the hash.
        self._many = np.zeros(1 << FINEST, np.int64)

    def append(self, rows: State) -> None:
        """Take the units that changed, in the order of their hashes."""
        self._file.write(laid_out(rows).tobytes())
        places = (rows[0] >> np.uint64(64 - FINEST)).astype(np.int64)
        self._many += np.bincount(places, minlength=1 << FINEST)

    def finish(self, live: int, states: np.ndarray | None = None, *, drops: bool = False) -> None:
        """Make all durable, the header last; `live` rows are up to date.

        `drops`: a unit that did not change is forgotten.
        """
        old, path = self._old, self._path
        taken = old.taken_in(int(self._many.sum()), live)
        kept = [] if drops else old.segments[taken:]
        # An interrupted step may have left it.
        discard(path)
        with failing(path):
            path.mkdir(mode=0o700)
            told = self._segment([] if drops else old.segments[:taken], last=not kept)
            if old.path is not None and kept:
                self._point("memory.links")
                for segment in kept:
                    link(old.path / segment.name, path / segment.name)
                    told.append(old.told[segment.name])
            header: dict[str, Any] = {
                "format": FORMAT,
                "rows": live,
                **self._made,
                "hashing": old.hashing,
                "step": old.step + 1,
                "segments": told,
                "states": None,
            }
            self._point("memory.header")
            if states is not None:
                data = np.ascontiguousarray(states, "<i8").tobytes()
                write_file(path / _STATES, data, private=True)
                header["states"] = _digest(data)
            line = json.dumps(header)
            write_file(path / _HEADER, f"{line}\n{_digest(line.encode())}\n".encode(), private=True)
            for folder in (path, path.parent):
                self._point("memory.directory")
                sync(folder)

    def close(self) -> None:
        self._file.close()

    def _segment(self, taken: list[Segment | Former], *, last: bool) -> list[dict[str, Any]]:
        """Write what changed and what is taken in; tell of it."""
        from tailrace.counting.memory import levels_kernel as kernel

        many = int(self._many.sum()) + sum(segment.rows for segment in taken)
        if not many:
            return []
        bits = slice_bits(many)
        ends = self._many.reshape(1 << bits, -1).sum(axis=1).cumsum().tolist()
        with closing(Writer(self._path / self._path.name, point=self._point)) as writer:
            for s, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
                self._file.seek(start * ROW.itemsize)
                data = self._file.read((end - start) * ROW.itemsize)
                rows = columns_of(np.frombuffer(data, ROW))
                for segment in taken:
                    rows = kernel.overlay(rows, segment.slice(s, bits))
                # Where nothing older is left, nothing needs to be hidden.
                writer.append(chosen(rows, rows[3] > 0) if last else rows)
            return [writer.finish()]


def made_with(bound: str, key: bytes) -> dict[str, str]:
    """What a memory is made with: a bound, and a key told apart from others."""
    checked = hashlib.blake2b(key=key, digest_size=8, person=b"tailrace memory").hexdigest()
    return {"bound": bound, "key": checked}


def _header(path: Path) -> dict[str, Any]:
    """The header of a whole memory."""
    descriptor = os.open(path / _HEADER, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, encoding="ascii") as file:
        line, digest, rest = file.read().split("\n")
    if _digest(line.encode()) != digest or rest:
        raise damaged(path)
    header = json.loads(line)
    if header["format"] not in (1, 2, FORMAT):
        raise Corrupt(
            f"The unit memory '{path.name}' has another format than this version of Tailrace "
            "reads: open it with the version that wrote it."
        )
    return header


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Whatever is not as it was written is damaged."""
    with failing(path):
        try:
            yield
        except (ValueError, KeyError, TypeError, FileNotFoundError, NotADirectoryError):
            raise damaged(path) from None


def _class(rows: int) -> int:
    """The logarithm of a segment's rows, base 16; small ones are alike."""
    return (max(rows, _LEAST) // _LEAST).bit_length() - 1 >> 2


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()
