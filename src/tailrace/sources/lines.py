"""Read JSON lines from standard input.

Each line is an object, its cells parsed by the schema.

Nothing is kept of what was piped in: rows of steps that are released already are passed over, and
rows of periods that are not over yet must be piped in again. So whoever pipes may always start
again from the first row of the next step, or earlier, and no row counts twice; late rows cannot go
to the next step for the same reason.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tailrace.calendar import Calendar
from tailrace.calls import told
from tailrace.errors import ConfigError, DataError
from tailrace.sources.base import Batch, Clock, now
from tailrace.sources.cut import joined, plain_cut, steps_of
from tailrace.sources.reading import Reader, Rows, text_frame
from tailrace.sources.settings import Given, Settings


@told
@dataclass(frozen=True, kw_only=True)
class LinesSource(Settings):
    """`kind = "Lines"`: JSON lines on standard input."""

    lasting: ClassVar[bool] = False

    @property
    def only_drops(self) -> str:
        return (
            'must be "drop" with lines from standard input: a row that is piped again would count '
            "twice."
        )

    def open(self, given: Given) -> Lines:
        if sys.stdin is None:
            raise DataError(
                "Standard input is closed: pipe rows into it, as JSON, one object a line."
            )
        # Not sys.stdin: Python cannot let go of it at its end while a thread still reads.
        return Lines(
            lines=open(0, "rb", closefd=False),
            reader=given.reader,
            calendar=given.calendar,
            live=given.live,
        )


@told
@dataclass(kw_only=True, eq=False)
class Lines:
    """Lines of bytes, read in the background. Without a calendar all of them are one step.

    `live`: steps close by the clock while lines still come; otherwise the end of the input is
    waited for first.
    """

    lines: Iterable[bytes]
    reader: Reader
    calendar: Calendar | None = None
    live: bool = False
    clock: Clock = now
    _cells: dict[str, list[Any]] = field(default_factory=dict, init=False)
    _rows: Rows | None = field(default=None, init=False)
    _given: int | None = field(
        default=None, init=False
    )  # the step that all lines went to, without a calendar
    _broken: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.lines, Iterable) or isinstance(self.lines, str | bytes):
            raise ConfigError(
                "lines must be a list of lines, or a stream that gives one after another, in bytes."
            )
        self._cells = {column: [] for column in self.reader.columns}
        self._lock, self._ended = threading.Lock(), threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def over(self) -> bool:
        return self._ended.is_set()

    @property
    def cut(self) -> dict[str, Any]:
        return plain_cut(self.reader, self.calendar, kind="Lines")

    def ready(self, step: int) -> bool:
        if not self.live or self.calendar is None:
            self._ended.wait()
            if self._broken:
                raise DataError("Standard input broke off before its end: pipe the rows in again.")
        if self.calendar is None:
            return self._given in (None, step)
        return self.calendar.released_by(self.clock()) >= step

    def batch(self, step: int) -> Batch:
        rows = self._taken()
        if self.calendar is None:
            self._given, self._rows, chosen = step, rows, rows.readable
        else:
            steps = steps_of(rows, self.calendar, "drop", step)
            self._rows = _some(
                rows, steps >= step
            )  # a step that cannot be pushed is asked for again
            chosen = steps == step
        return joined(
            self.reader,
            [(rows.frame.filter(chosen), rows.deletes[chosen])],
            deletes=self.reader.op is not None,
        )

    def _taken(self) -> Rows:
        """All rows that are still wanted."""
        with self._lock:
            cells, self._cells = self._cells, {column: [] for column in self._cells}
        new = self.reader.read(text_frame(cells))
        return new if self._rows is None else _both(self._rows, new)

    def _listen(self) -> None:
        try:
            for line in self.lines:
                if not line.strip():
                    continue
                cells = cells_of(line)
                with self._lock:
                    for column, values in self._cells.items():
                        values.append(cells.get(column))
        except (OSError, ValueError, AttributeError):  # it was closed, or gives no bytes
            self._broken = True
        finally:
            self._ended.set()


def cells_of(line: bytes) -> dict[str, Any]:
    """The cells of a line, numbers as they are written; all missing where it holds no object."""
    try:
        found = json.loads(
            line.decode("utf-8-sig", errors="replace"), parse_int=str, parse_float=str
        )
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _some(rows: Rows, chosen: np.ndarray) -> Rows:
    times = None if rows.times is None else rows.times[chosen]
    return Rows(rows.frame.filter(chosen), rows.deletes[chosen], rows.readable[chosen], times)


def _both(one: Rows, other: Rows) -> Rows:
    times = (
        None
        if one.times is None or other.times is None
        else np.concatenate([one.times, other.times])
    )
    deletes, readable = (
        np.concatenate([getattr(rows, name) for rows in (one, other)])
        for name in ("deletes", "readable")
    )
    return Rows(one.frame.vstack(other.frame), deletes, readable, times)
