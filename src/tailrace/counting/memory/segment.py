"""The unit memory after one step: a directory never changed.

It is sorted by unit and written once.

    hi, lo    the keyed hash of the unit (uint64, uint64)
    cell      a cell, or -1 (int64)
    count     the unit's live records in it; at -1, the inserts that it has deleted again (uint32)
    header    a line of JSON: format, rows, bound, key check, digest of each column;
              a line with its own digest

The columns are bare little-endian numbers. The header is written last, when the columns are on
disk: a segment without a whole header is not one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.errors import Corrupt, Mismatch, StateError
from tailrace.storage.durable import remove, sync

# In format 1, the text "7" was another unit than the number 7.
FORMAT = 2
COLUMNS = {
    "hi": np.dtype("<u8"),
    "lo": np.dtype("<u8"),
    "cell": np.dtype("<i8"),
    "count": np.dtype("<u4"),
}
# The durable writes, in their order.
POINTS = (
    "memory.columns",
    "memory.header",
    "memory.directory",
)

_HEADER = "header"
_BLOCK = 1 << 20


def check(path: Path) -> int:
    """Refuse a damaged segment; return its number of rows.

    Its format, length and digest must be as written.
    """
    return int(_checked(path)["rows"])


def discard(path: Path) -> None:
    """Remove a segment, the header first.

    A half-removed one is then never taken for a whole one.
    """
    with failing(path):
        if path.is_dir() and not path.is_symlink():
            (path / _HEADER).unlink(missing_ok=True)
        remove(path)


def clean(folder: Path, kept: str | None) -> None:
    """Remove every segment but `kept`; no link is followed."""
    with failing(folder):
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for name in os.listdir(at):
                if name != kept:
                    shutil.rmtree(name, ignore_errors=True, dir_fd=at)
        finally:
            os.close(at)


def former(path: Path | None) -> Callable[[np.ndarray], np.ndarray] | None:
    """Which units a segment of format 1 knows; None for later ones."""
    if path is None or (header := _header(path))["format"] == FORMAT:
        return None
    return functools.partial(_known, path, int(header["rows"]))


def _known(path: Path, rows: int, units: np.ndarray) -> np.ndarray:
    if not rows:
        return np.zeros(len(units), bool)
    with failing(path):
        hi, lo = (np.memmap(path / name, COLUMNS[name], "r") for name in ("hi", "lo"))
        at = np.minimum(np.searchsorted(hi, units["hi"]), rows - 1)
        return (hi[at] == units["hi"]) & (lo[at] == units["lo"])


class Reader:
    """Reads the columns of a segment, first row to last.

    None is a memory without rows.
    """

    def __init__(self, path: Path | None, *, bound: str, key: bytes) -> None:
        self.rows, self.format = 0, FORMAT
        self._path = path
        if path is not None:
            header = _checked(path)
            if (header["bound"], header["key"]) != (bound, _key_check(key)):
                raise Mismatch(
                    f"The memory segment '{path.name}' was made with another key or another bound "
                    "on a unit's records: open it with the configuration it was made with."
                )
            self.rows, self.format = int(header["rows"]), int(header["format"])
        self._at = 0

    @property
    def former(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """Which units the segment may know by format 1's hashes."""
        return former(self._path)

    def starts(self, bits: int) -> np.ndarray:
        """The first row of each slice, and the end.

        Units of a slice share their first `bits`.
        """
        edges = np.array([s << (64 - bits) for s in range(1, 1 << bits)], np.uint64)
        inner = np.zeros(len(edges), np.int64)
        if self._path is not None and self.rows and len(edges):
            with failing(self._path):
                inner = np.searchsorted(np.memmap(self._path / "hi", COLUMNS["hi"], "r"), edges)
        return np.concatenate([[0], inner, [self.rows]])

    def take(self, rows: int) -> list[np.ndarray]:
        """The next rows, a column each."""
        if self._path is None:
            return [np.empty(0, dtype) for dtype in COLUMNS.values()]
        at, self._at = self._at, self._at + rows
        # Read and not mapped: mapped pages would stay in memory to the end.
        with failing(self._path):
            return [
                np.fromfile(self._path / name, dtype, rows, offset=at * dtype.itemsize)
                for name, dtype in COLUMNS.items()
            ]


class Writer:
    """Writes a segment in unit order; whole after `finish`."""

    def __init__(
        self,
        path: Path,
        *,
        bound: str,
        key: bytes,
        point: Callable[[str], None],
        format: int = FORMAT,  # noqa: A002
    ) -> None:
        # An interrupted step may have left it.
        discard(path)
        self._path, self._point = path, point
        self._header: dict[str, Any] = {
            "format": format,
            "rows": 0,
            "bound": bound,
            "key": _key_check(key),
        }
        self._digests = {name: hashlib.blake2b(digest_size=32) for name in COLUMNS}
        with failing(path):
            path.mkdir(mode=0o700)
            self._files = {name: (path / name).open("xb") for name in COLUMNS}

    def append(self, columns: tuple[np.ndarray, ...]) -> None:
        with failing(self._path):
            for (name, dtype), column in zip(COLUMNS.items(), columns, strict=True):
                data = np.ascontiguousarray(column, dtype).view(np.uint8).data
                self._files[name].write(data)
                self._digests[name].update(data)
        self._header["rows"] += len(columns[0])

    def finish(self) -> None:
        with failing(self._path):
            for file in self._files.values():
                file.flush()
                self._point("memory.columns")
                os.fsync(file.fileno())
                file.close()
            self._header["columns"] = {
                name: digest.hexdigest() for name, digest in self._digests.items()
            }
            line = json.dumps(self._header)
            with (self._path / _HEADER).open("x") as file:
                file.write(f"{line}\n{_digest(line)}\n")
                file.flush()
                self._point("memory.header")
                os.fsync(file.fileno())
            for folder in (self._path, self._path.parent):
                self._point("memory.directory")
                sync(folder)

    def close(self) -> None:
        """Close the files; without `finish` they are no segment."""
        for file in self._files.values():
            with contextlib.suppress(OSError):
                file.close()


def _header(path: Path) -> dict[str, Any]:
    """The header of a segment; its columns are not read."""
    with failing(path):
        try:
            line, digest, rest = (path / _HEADER).read_text("ascii").split("\n")
            if _digest(line) != digest or rest:
                raise _damaged(path)
            header = json.loads(line)
            if header["format"] not in (1, FORMAT):
                raise Corrupt(
                    f"The memory segment '{path.name}' has another format than this version of "
                    "Tailrace reads: open it with the version that wrote it."
                )
        except (ValueError, KeyError, TypeError, FileNotFoundError, NotADirectoryError):
            raise _damaged(path) from None
    return header


def _checked(path: Path) -> dict[str, Any]:
    """The header of a whole segment."""
    header = _header(path)
    with failing(path):
        try:
            for name, dtype in COLUMNS.items():
                with (path / name).open("rb") as file:
                    if os.fstat(file.fileno()).st_size != header["rows"] * dtype.itemsize:
                        raise _damaged(path)
                    actual = hashlib.blake2b(digest_size=32)
                    while block := file.read(_BLOCK):
                        actual.update(block)
                if actual.hexdigest() != header["columns"][name]:
                    raise _damaged(path)
        except (ValueError, KeyError, TypeError, FileNotFoundError, NotADirectoryError):
            raise _damaged(path) from None
    return header


@contextlib.contextmanager
def failing(path: Path) -> Iterator[None]:
    """A failing disk in one sentence."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "input or output failed"
        raise StateError(
            f"The memory segment '{path.name}' cannot be read or written ({reason}): free the disk "
            "or the rights to the directory, then open the stream again."
        ) from None


def _damaged(path: Path) -> Corrupt:
    return Corrupt(
        f"The memory segment '{path.name}' is damaged, cut short or missing. Restore the last good "
        "copy."
    )


def _digest(line: str) -> str:
    return hashlib.blake2b(line.encode(), digest_size=32).hexdigest()


def _key_check(key: bytes) -> str:
    """Tells another key apart, and says nothing else about it."""
    return hashlib.blake2b(key=key, digest_size=8, person=b"tailrace memory").hexdigest()
