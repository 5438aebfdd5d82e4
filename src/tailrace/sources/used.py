"""Remember the files that a source has used.

The memory is private, and kept in the stream's private directory.

A file belongs to the step at which it was first there (`since`): its rows of earlier periods are
late. It is noted before that step is pushed, so that a process killed in between finds it again in
the same place.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tailrace.calls import told
from tailrace.errors import Corrupt, StateError
from tailrace.sources.files import closed, opened
from tailrace.storage.durable import place, write_file


@dataclass(frozen=True)
class Seen:
    """A file as it is now."""

    data: bytes
    modified: int  # nanoseconds

    @classmethod
    def at(cls, path: Path) -> Seen:
        with opened(path) as file:
            modified = os.fstat(
                file.fileno()
            ).st_mtime_ns  # before it is read: what is added meanwhile is found later
            return cls(file.read(), modified)


@dataclass(frozen=True, kw_only=True)
class Use:
    """A file that was used: when it was first there, and what it was like when it was last read."""

    since: int  # step
    until: int  # the last step that it had rows for
    size: int
    modified: int
    digest: str
    deletes: bool = False  # whether its rows are to be deleted
    times: str | None = (
        None  # how the times of its rows were read; None where it is used whole, and only once
    )
    changed: bool = False
    # Bytes of a CSV file that hold rows of released steps alone: they are not read again.
    settled: int = 0

    def same(self, path: Path) -> bool:
        """Whether the file looks as it did."""
        try:
            found = path.stat()
        except OSError:
            raise closed(path) from None
        return (found.st_size, found.st_mtime_ns) == (self.size, self.modified)

    def differs(self, path: Path) -> bool:
        """Whether the file was changed after it was used; one that is cut by times may grow."""
        if self.changed or self.same(path):
            return self.changed
        data = Seen.at(path).data
        return not self._begins(data) if self.times is not None else _digest(data) != self.digest

    def read_again(self, new: Use, data: bytes) -> Use:
        """The same file, as it is now."""
        grown = self._begins(data)
        settled = self.settled if grown and self.times == new.times else 0
        return replace(
            new,
            since=self.since,
            until=self.until if settled else 0,
            changed=self.changed or not grown,
            settled=settled,
        )

    def _begins(self, data: bytes) -> bool:
        return _digest(data[: self.size]) == self.digest


def first(seen: Seen, *, since: int, until: int, deletes: bool, times: str | None = None) -> Use:
    """A file that is used for the first time."""
    return Use(
        since=since,
        until=until,
        size=len(seen.data),
        modified=seen.modified,
        digest=_digest(seen.data),
        deletes=deletes,
        times=times,
    )


@told
class Used:
    """The files used so far, in a JSON file that is replaced whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: tuple[int, ...] | None = None  # of the file that was read last
        self._files: dict[str, Use] = {}

    @property
    def files(self) -> Mapping[str, Use]:
        """All of them, by name, as they are written down now."""
        state = self._found()
        if state != self._state:
            self._files, self._state = {} if state is None else self._read(), state
        return self._files

    def seen_from(self, path: Path) -> str:
        """Where a folder lies, seen from the stream's: the two may be moved together."""
        return os.path.relpath(path.resolve(), self._path.resolve().parents[1])

    def before(self, step: int) -> Mapping[str, Use]:
        """The same for the one who makes a step; refused where it is lost which files earlier steps
        were made of.
        """
        if step > 1 and self._found() is None:
            raise StateError(
                f"private/{self._path.name} is missing, which says what files the steps so far "
                f"were made of: copy it from the "
                "directory that this one was copied or forked from, or write {} into it if they "
                "were made of none."
            )
        return self.files

    def note(self, files: Mapping[str, Use]) -> None:
        """Remember these, durably; nothing is written where nothing is new."""
        known = self.files
        if self._state is not None and all(known.get(name) == use for name, use in files.items()):
            return
        plain = {name: asdict(use) for name, use in {**known, **files}.items()}
        partial = self._path.with_name(f".{self._path.name}.partial")
        try:
            write_file(partial, json.dumps(plain).encode(), private=True)
        except OSError:
            raise StateError(
                f"{self._path.name} cannot be written: the disk is full, read-only or refuses."
            ) from None
        place(partial, self._path, "files used")

    def _found(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        except OSError:
            raise StateError(f"{self._path.name} cannot be read: see whether it may be.") from None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> dict[str, Use]:
        try:
            plain = json.loads(self._path.read_bytes())
            return {name: Use(**values) for name, values in plain.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            raise Corrupt(
                f"{self._path.name} is damaged: restore the whole directory from a backup."
            ) from None


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
