"""A folder of CSV and Parquet files, in three ways.

- `TimedFiles`: files may hold rows of any time, and the calendar cuts them. A step takes the rows
  of its period from every file, and, where late rows go to the next step, the earlier rows of files
  that were not there before. A file may go on growing: rows of closed steps that appear in a file
  already used are passed over, rows of later steps are not.
- `NamedFiles`: one file for each period, whose name says which.
- `OrderedFiles`: no calendar; each file is a step, in the order of names.

Which step a row goes to depends on its own cells and on when its file appeared, never on another
row.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from tailrace.calendar import Calendar
from tailrace.calls import told
from tailrace.errors import ConfigError, DataError, StateError
from tailrace.sources import files
from tailrace.sources.base import Batch, Clock, Source, now
from tailrace.sources.cut import Late, joined, plain_cut, steps_of
from tailrace.sources.reading import Reader, Rows
from tailrace.sources.settings import Given, Settings, Unfit, needs_calendar
from tailrace.sources.used import Seen, Use, Used, first

# What strptime reads where a pattern has no part of a date.
_NO_DATE = datetime(1900, 1, 1)


@dataclass(frozen=True)
class File:
    """A file in a folder, by the name it is remembered by."""

    name: str
    path: Path
    deletes: bool


@told
@dataclass(frozen=True, kw_only=True)
class Shelf:
    """The files of a folder: those that `files` matches, and `deletes` for files of rows to
    delete.
    """

    path: Path
    files: str = "*"
    deletes: str | None = None

    def __post_init__(self) -> None:
        for pattern in (self.files, self.deletes):
            if pattern is not None and (pattern.startswith("/") or ".." in pattern.split("/")):
                raise ConfigError(
                    "A source stays inside its folder: a pattern of files begins there, and holds "
                    "no '..'."
                )

    def found(self) -> list[File]:
        """All CSV and Parquet files in the order of names; hidden ones (unfinished, as a rule) are
        left alone.
        """
        if not self.path.is_dir():
            raise DataError(
                f"There is no folder {self.path.name}: make it, or name another one with path= in "
                f"[source]."
            )
        gone = self._matched(self.deletes)
        paths = {**dict.fromkeys(self._matched(self.files), False), **dict.fromkeys(gone, True)}
        for name in paths:
            self._check_own(name)
        return [File(name, self.path / name, paths[name]) for name in sorted(paths)]

    def _check_own(self, name: str) -> None:
        """Refuse a link: it leads out of the folder, or to a file that is there under its own name
        too.
        """
        place = self.path
        for part in name.split("/"):
            place /= part
            if place.is_symlink():
                raise DataError(
                    f"{name} is a link, or lies behind one: a source reads files of its own "
                    f"folder. Put the file itself "
                    "there, or leave the link out by files in [source]."
                )

    def holds(self, used: Used) -> bool:
        """Whether all files used so far are there, under the names they are remembered by."""
        return used.files.keys() <= {file.name for file in self.found()}

    def _matched(self, pattern: str | None) -> list[str]:
        found = (
            [] if pattern is None else [path for path in self.path.glob(pattern) if _is_ours(path)]
        )
        names = [path.relative_to(self.path) for path in found]
        return [name.as_posix() for name in names if not any(map(_is_hidden, name.parts))]


@dataclass(frozen=True, eq=False)
class _Opened:
    """What was read of a file, and the step that each of its rows goes to."""

    use: Use
    rows: Rows
    steps: np.ndarray
    # Where the lines of a CSV file begin, at least one a row, and its last one.
    lines: np.ndarray | None = None

    def settled(self, step: int) -> _Opened:
        """The same, noting up to where no row is of this or of a later step."""
        if self.lines is None:
            return self
        waiting = np.flatnonzero(self.steps >= step)
        # Blank lines are no rows: a row may begin later than the line of its number, never before.
        start = int(self.lines[waiting[0] if len(waiting) else -1])
        return replace(self, use=replace(self.use, settled=max(start, self.use.settled)))


@told
@dataclass(kw_only=True, eq=False)
class TimedFiles:
    """Rows by their time."""

    shelf: Shelf
    reader: Reader
    calendar: Calendar
    used: Used
    late: Late
    clock: Clock = now
    held: dict[Any, Any] = field(default_factory=dict, repr=False)
    over: bool = field(default=False, init=False)

    @property
    def cut(self) -> dict[str, Any]:
        shelf = self.shelf
        place = {
            "path": self.used.seen_from(shelf.path),
            "files": shelf.files,
            "deletes": shelf.deletes,
        }
        return plain_cut(self.reader, self.calendar, kind="TimedFiles", late=self.late, **place)

    def moved(self) -> bool:
        return self.shelf.holds(self.used)

    def ready(self, step: int) -> bool:
        return self.calendar.released_by(self.clock()) >= step

    def batch(self, step: int) -> Batch:
        known, parts = self.used.before(step), []
        uses: dict[str, Use] = {}
        for file in self.shelf.found():
            use = known.get(file.name)
            if (
                use is not None
                and use.times == self._times
                and use.until < step
                and use.same(file.path)
            ):
                self.held.pop(file.name, None)
                continue
            opened = self.held[file.name] = self._open(file, use, step).settled(step)
            uses[file.name] = opened.use
            chosen = opened.steps == step
            parts.append(
                (opened.rows.frame.filter(chosen), opened.rows.deletes[chosen] | file.deletes)
            )
        self.used.note(uses)
        return joined(
            self.reader, parts, deletes=self.reader.op is not None or self.shelf.deletes is not None
        )

    @property
    def _times(self) -> str:
        """How times are read: where that is mended later, rows are found in files that seemed to
        have none.
        """
        return f"{self.reader.time}, {self.reader.format}, {self.reader.op}"

    def _open(self, file: File, use: Use | None, step: int) -> _Opened:
        held = self.held.get(file.name)
        since = step if use is None else use.since
        if (
            held is not None
            and held.use.since == since
            and use in (None, held.use)
            and held.use.same(file.path)
        ):
            return held
        seen = Seen.at(file.path)
        new = first(seen, since=since, until=0, deletes=file.deletes, times=self._times)
        new = new if use is None else use.read_again(new, seen.data)
        data = seen.data if not new.settled else files.from_line(seen.data, new.settled)
        rows = _read(file, data, self.reader)
        steps = steps_of(rows, self.calendar, self.late, since)
        until = max(new.until, int(steps.max(initial=0)))
        lines = files.line_starts(seen.data, new.settled) if files.is_csv(file.path) else None
        return _Opened(replace(new, until=until), rows, steps, lines)


class _WholeFiles:
    """Files that are each used at one step."""

    reader: Reader
    used: Used
    held: dict[Any, Any]

    def _whole(self, wanted: list[File], step: int, *, deletes: bool) -> Batch:
        """All rows of some files, which are noted as used for this step."""
        parts, found = [], {}
        for file in wanted:
            opened = self.held.get(file.name)
            if opened is None or opened.use.since != step or not opened.use.same(file.path):
                seen = Seen.at(file.path)
                rows = _read(file, seen.data, self.reader)
                use = first(seen, since=step, until=step, deletes=file.deletes)
                opened = _Opened(use, rows, np.full(len(rows.frame), step))
            found[file.name], rows = opened, opened.rows
            parts.append(
                (rows.frame.filter(rows.readable), rows.deletes[rows.readable] | file.deletes)
            )
        self.held.clear()
        self.held.update(found)
        self.used.note({name: opened.use for name, opened in found.items()})
        return joined(self.reader, parts, deletes=deletes or self.reader.op is not None)


@told
@dataclass(kw_only=True, eq=False)
class NamedFiles(_WholeFiles):
    """A file for each period, named after it: `name` is a pattern such as `cases-%Y-%m-%d.csv`."""

    path: Path
    name: str
    reader: Reader
    calendar: Calendar
    used: Used
    late: Late
    deletes: str | None = None
    clock: Clock = now
    held: dict[Any, Any] = field(default_factory=dict, repr=False)
    over: bool = field(default=False, init=False)

    @property
    def cut(self) -> dict[str, Any]:
        place = {"path": self.used.seen_from(self.path), "name": self.name, "deletes": self.deletes}
        return plain_cut(self.reader, self.calendar, kind="NamedFiles", late=self.late, **place)

    def moved(self) -> bool:
        return named_shelf(self.path, self.name, self.deletes).holds(self.used)

    def ready(self, step: int) -> bool:
        return self.calendar.released_by(self.clock()) >= step

    def batch(self, step: int) -> Batch:
        known = self.used.before(step)
        wanted = [
            file for file, own in self._dated() if self._goes(known.get(file.name), own, step)
        ]
        return self._whole(wanted, step, deletes=self.deletes is not None)

    def _goes(self, use: Use | None, own: int, step: int) -> bool:
        due = use is not None or own == step or (self.late == "next" and 1 <= own < step)
        return due and _goes_to(step, use)

    def _dated(self) -> list[tuple[File, int]]:
        """The files whose names say a time, with its step."""
        import polars as pl

        from tailrace.domain.times import instants

        found = []
        for file in named_shelf(self.path, self.name, self.deletes).found():
            for pattern, gone in ((self.name, False), (self.deletes, True)):
                if pattern is not None and (time := time_in(file.name, pattern)) is not None:
                    found.append((File(file.name, file.path, gone), time))
                    break
        texts = pl.Series([time for _, time in found], dtype=pl.String)
        steps = self.calendar.steps(instants(texts, timezone=self.calendar.timezone))
        return [(file, int(own)) for (file, _), own in zip(found, steps, strict=True)]


@told
@dataclass(kw_only=True, eq=False)
class OrderedFiles(_WholeFiles):
    """Each file is a step; a file of deletes belongs to the one of the same name."""

    shelf: Shelf
    reader: Reader
    used: Used
    held: dict[Any, Any] = field(default_factory=dict, repr=False)
    over: bool = field(default=False, init=False)

    @property
    def cut(self) -> dict[str, Any]:
        shelf = self.shelf
        place = {
            "path": self.used.seen_from(shelf.path),
            "files": shelf.files,
            "deletes": shelf.deletes,
        }
        return plain_cut(self.reader, None, kind="OrderedFiles", **place)

    def moved(self) -> bool:
        return self.shelf.holds(self.used)

    def ready(self, step: int) -> bool:
        return self._next(self.used.before(step), step) is not None

    def batch(self, step: int) -> Batch:
        known = self.used.before(step)
        file = self._next(known, step)
        if file is None:
            raise StateError(f"There is no file for step {step} yet.")
        gone = [
            other
            for other in self.shelf.found()
            if other.deletes
            and other.path.name == file.path.name
            and _goes_to(step, known.get(other.name))
        ]
        return self._whole([file, *gone], step, deletes=self.shelf.deletes is not None)

    def _next(self, known: Mapping[str, Use], step: int) -> File | None:
        """The first file after those that were used."""
        adds = [file for file in self.shelf.found() if not file.deletes]
        again = [file for file in adds if file.name in known and known[file.name].since == step]
        last = max((name for name, use in known.items() if not use.deletes), default="")
        return next(iter([*again, *(file for file in adds if file.name > last)]), None)


@told
@dataclass(frozen=True, kw_only=True)
class FolderSource(Settings):
    """`kind = "Folder"`: CSV and Parquet files of a folder.

    Parameters
        path: the folder.
        files: the pattern of its files, cut by `time` or, without a calendar, each a step.
        name: instead of `files`, the pattern of names that say the period.
        deletes: the pattern of files of deleted rows.
        encoding: how the letters of CSV files are written, where not in UTF-8.
    """

    path: Path = field(metadata={"example": '"incoming"'})
    files: str | None = None
    name: str | None = None
    deletes: str | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not files.is_encoding(self.encoding):
            raise Unfit("encoding", files.WRITTEN)
        for key, pattern in self._patterns.items():
            _check_pattern(key, pattern)
        if self.name is not None:
            _check_dated("name", self.name)
        if self.op is not None and self.deletes is not None:
            raise Unfit(
                "op", "and deletes are two ways to say what is deleted; remove one of them."
            )

    @property
    def _patterns(self) -> dict[str, str]:
        found = {"files": self.files, "name": self.name, "deletes": self.deletes}
        return {key: pattern for key, pattern in found.items() if pattern is not None}

    def check(self, calendar: Calendar | None) -> None:
        ways = [key for key in ("time", "name") if getattr(self, key) is not None]
        if ways and calendar is None:
            raise needs_calendar(ways[0])
        if len(ways) > 1:
            raise Unfit(
                "name", "and time are two ways to find the step of a row; remove one of them."
            )
        if not ways and calendar is not None:
            raise Unfit(
                None,
                "must say which step a row belongs to; add time (a column) or name (a pattern of "
                "the files' names), or remove [calendar].",
            )
        self._check_files()

    def _check_files(self) -> None:
        if self.name is None and self.files is None:
            raise Unfit(None, "needs the key 'files', for example files = \"*.csv\".")
        if self.name is not None and self.files is not None:
            raise Unfit(
                "files", "is not needed, since name says which files are read; remove one of them."
            )
        if self.deletes is not None and self.deletes in (self.files, self.name):
            raise Unfit(
                "deletes", "names the same files as those with insertions; keep the two apart."
            )
        if self.deletes is not None and self.name is not None:
            _check_dated("deletes", self.deletes)

    def reads(self, folder: Path) -> bool:
        """Whether a folder is the source's, or lies where its patterns reach below that."""
        own = self.path.resolve()
        deep = any("/" in pattern for pattern in self._patterns.values())
        return folder == own or (deep and folder.is_relative_to(own))

    @property
    def shelf(self) -> Shelf:
        """The files themselves."""
        if self.name is not None:
            return named_shelf(self.path, self.name, self.deletes)
        return Shelf(path=self.path, files=self.files or "*", deletes=self.deletes)

    def open(self, given: Given) -> Source:
        if given.calendar is None:
            return OrderedFiles(
                shelf=self.shelf, reader=given.reader, used=given.used, held=given.held
            )
        if self.name is None:
            return TimedFiles(
                shelf=self.shelf,
                reader=given.reader,
                calendar=given.calendar,
                used=given.used,
                late=given.late,
                held=given.held,
            )
        return NamedFiles(
            path=self.path,
            name=self.name,
            deletes=self.deletes,
            reader=given.reader,
            calendar=given.calendar,
            used=given.used,
            late=given.late,
            held=given.held,
        )


def _check_pattern(key: str, pattern: str) -> None:
    if not pattern.lower().endswith((".csv", ".parquet")):
        raise Unfit(key, 'must end in .csv or .parquet, for example "*.csv".')
    parts = pattern.split("/")
    strays = PurePath(pattern).is_absolute() or ".." in parts
    if strays or any("**" in part and part != "**" for part in parts):
        raise Unfit(
            key, 'must be a pattern inside the folder of path, for example "*.csv" or "**/*.csv".'
        )


def _check_dated(key: str, pattern: str) -> None:
    """Refuse a pattern of names that says no period."""
    try:
        read = datetime.strptime(datetime(2026, 2, 3, 4, 5, 6).strftime(pattern), pattern)
    # A directive that is unknown, or there twice.
    except (ValueError, re.error):
        read = _NO_DATE
    if read == _NO_DATE:
        raise Unfit(key, 'must say where the date stands, for example "cases-%Y-%m-%d.csv".')


@told
def named_shelf(path: Path, name: str, deletes: str | None) -> Shelf:
    """The files whose names may say a time."""
    return Shelf(
        path=path, files=wildcard(name), deletes=None if deletes is None else wildcard(deletes)
    )


def _is_ours(path: Path) -> bool:
    return path.suffix.lower() in files.KNOWN and not path.is_dir()


def _is_hidden(part: str) -> bool:
    return part.startswith(".")


def _goes_to(step: int, use: Use | None) -> bool:
    """Whether a file was used for no other step; this one may have been cut off before anything was
    drawn.
    """
    return use is None or use.since == step


def _read(file: File, data: bytes, reader: Reader) -> Rows:
    frame = files.read(file.path, data, reader.columns, encoding=reader.encoding)
    with files.told(file.path):
        return reader.read(frame)


def wildcard(pattern: str) -> str:
    """What a folder is searched by: every part of a time may be anything.

    >>> wildcard("%Y/cases-%m%d.csv")
    '*/cases-*.csv'
    """
    parts = re.findall(r"%%|(?:%[^%])+|[^%]+", pattern)
    return "".join(
        "%" if part == "%%" else "*" if part[0] == "%" else glob.escape(part) for part in parts
    )


def time_in(name: str, pattern: str) -> str | None:
    """The time that a name says, in ISO 8601; None where it is another name."""
    try:
        return datetime.strptime(name, pattern).isoformat()
    except ValueError:
        return None
