"""Cut a table of a database into steps by times.

Which step a row belongs to is written in its own cells: when it happened (`time`) and, where rows
come late, when it came into the table (`arrived`). Asked again, a step has the same rows, as long
as none is changed and none comes in with an `arrived` of the past: leave such rows time with the
calendar's grace.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.calendar import Calendar
from tailrace.calls import told
from tailrace.errors import ConfigError, DataError
from tailrace.privacy.loss import whole
from tailrace.sources.base import Batch, Clock, now
from tailrace.sources.cut import Late, joined, plain_cut, steps_of
from tailrace.sources.database import Database, Span, check, connect
from tailrace.sources.reading import Reader, Rows, text_frame
from tailrace.sources.settings import Given, Settings

if TYPE_CHECKING:
    import polars as pl

# Rows of later steps that are held while a step is made; more are read again when it is their turn.
_HELD = 20_000_000


@told
@dataclass(frozen=True, kw_only=True)
class SqlSource(Settings):
    """`kind = "SqlTable"`: a table of a database.

    Parameters
        url: the database.
        table: its table.
        arrived: the column that says when a row came into the table.
    """

    # May hold a password.
    url: str = field(repr=False, metadata={"example": '"sqlite:///ward.db"'})
    table: str = field(metadata={"example": '"cases"'})
    time: str = field(metadata={"example": '"day"'})
    arrived: str | None = None

    def __post_init__(self) -> None:
        check(self.url, self.table)
        super().__post_init__()

    @property
    def came(self) -> str | None:
        return self.arrived

    @property
    def only_drops(self) -> str | None:
        if self.arrived is not None:
            return None
        return (
            '= "next" needs to know when a row of the table came; add arrived (a column) to '
            '[source], or write late = "drop".'
        )

    def open(self, given: Given) -> SqlTable:
        assert given.calendar is not None
        return SqlTable(
            self.url,
            self.table,
            reader=given.reader,
            calendar=given.calendar,
            late=given.late if self.arrived is not None else "drop",
            held=given.held,
        )


@told
@dataclass(frozen=True)
class SqlTable:
    """The rows of `table` by the calendar; a late row goes by `late` and by its column `arrived`.

    With "next" it belongs to the step that was open when it came, with "drop" to none. The table is
    read once for all steps that are ready, and the database sends only rows near them where it
    can tell: PostgreSQL where the columns are of types of times (an index on them helps), SQLite
    where texts begin as in ISO 8601.
    """

    url: str = field(repr=False)  # may hold a password
    table: str
    _: KW_ONLY
    reader: Reader
    calendar: Calendar
    late: Late
    clock: Clock = now
    # What was read of the steps that are ready.
    held: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        check(self.url, self.table)
        if self.late not in ("next", "drop"):
            raise ConfigError('late must be "next" or "drop".')
        if self.reader.time is None:
            raise ConfigError(
                "A SQL source is cut by a time column: name it with time= in [source]."
            )
        if self.late == "next" and self.reader.arrived is None:
            raise ConfigError(
                'late = "next" needs to know when a row came into the table: name that column with '
                "arrived= in [source], or "
                'choose late = "drop".'
            )

    @property
    def over(self) -> bool:
        return False

    @property
    def cut(self) -> dict[str, Any]:
        """The database may move, and its password change: rows say their step themselves."""
        return plain_cut(
            self.reader, self.calendar, kind="SqlTable", table=self.table, late=self.late
        )

    def ready(self, step: int) -> bool:
        return self.calendar.released_by(self.clock()) >= step

    def batch(self, step: int) -> Batch:
        for earlier in [held for held in self.held if held < step]:
            del self.held[earlier]
        if whole("step", step) not in self.held:
            self.held.clear()
            closed = self.calendar.released_by(self.clock())
            self.held.update(self._read(step, max(step, closed)))
            # One that is not closed yet may still get rows.
            parts = self.held[step] if step <= closed else self.held.pop(step)
        else:
            parts = self.held[step]
        return joined(self.reader, parts, deletes=self.reader.op is not None)

    def _read(self, first: int, last: int) -> dict[int, list[tuple[pl.DataFrame, np.ndarray]]]:
        """The rows of these steps, or of as many as can be held."""
        with connect(self.url, write=False) as database:
            times = self._times(database)
            chunks = database.read(self.table, self.reader.columns, self._spans(first, last))
            # Columns without any rows too.
            none, _ = self._part([], times)
            found = {step: [(none.frame, none.deletes)] for step in range(first, last + 1)}
            for rows in chunks:
                part, steps = self._part(rows, times)
                for step in np.unique(steps[(steps >= first) & (steps <= last)]).tolist():
                    chosen = steps == step
                    found[step].append((part.frame.filter(chosen), part.deletes[chosen]))
                while last > first and _rows(found) > _HELD:
                    del found[last]
                    last -= 1
        return found

    def _spans(self, first: int, last: int) -> list[Span]:
        """Where the rows of these steps are found: in their periods, or late in the time in which
        they were open.
        """
        assert self.reader.time is not None
        spans = [(self.reader.time, self.calendar.begin(first), self.calendar.end(last))]
        if self.late == "next" and last > 1:
            assert self.reader.arrived is not None
            since = self.calendar.closes(max(first - 1, 1))
            spans.append((self.reader.arrived, since, self.calendar.closes(last)))
        # With a format of its own, a text that looks like ISO 8601 may be none.
        return [] if self.reader.format is not None and self.url.startswith("sqlite") else spans

    def _times(self, database: Database) -> list[str]:
        """The columns that the database knows to be of times, if all that are wanted are there."""
        found = database.columns(self.table)
        if not found:
            raise DataError(
                f"The database has no table '{self.table}' (upper and lower case differ)."
            )
        for column in self.reader.columns:
            if column not in found:
                raise DataError(
                    f"Table '{self.table}' has no column '{column}' (upper and lower case differ)."
                )
        times = [column for column in (self.reader.time, self.reader.arrived) if column is not None]
        for column in times:
            if found[column] == "numbers":
                raise DataError(
                    f"Column '{column}' of table '{self.table}' holds numbers, not times: read a "
                    f"view that makes times of them."
                )
        return [column for column in times if found[column] == "times"]

    def whole(self) -> pl.DataFrame:
        """All rows of the table as they are read, for the curator."""
        with connect(self.url, write=False) as database:
            times = self._times(database)
            chunks = database.read(self.table, self.reader.columns)
            return self._frame([row for chunk in chunks for row in chunk], times)

    def _part(self, rows: list[tuple[Any, ...]], times: list[str]) -> tuple[Rows, np.ndarray]:
        """What was read, and the step that each row goes to."""
        read = self.reader.read(self._frame(rows, times))
        opened = 0 if read.arrived is None else self.calendar.open_at(read.arrived)
        return read, steps_of(read, self.calendar, self.late, opened)

    def _frame(self, rows: list[tuple[Any, ...]], times: list[str]) -> pl.DataFrame:
        frame = text_frame(
            {name: [row[at] for row in rows] for at, name in enumerate(self.reader.columns)}
        )
        if self.reader.format is not None:  # which is for texts
            for name in times:
                typed = _typed(frame[name], self.reader.timezone)
                frame = frame.with_columns(**{name: typed})
        return frame


def _rows(found: dict[int, list[tuple[pl.DataFrame, np.ndarray]]]) -> int:
    return sum(len(gone) for parts in found.values() for _, gone in parts)


def _typed(texts: pl.Series, timezone: str) -> pl.Series:
    """Times in the database's own spelling."""
    import polars as pl

    from tailrace.domain.times import instants

    return pl.Series(instants(texts, timezone=timezone)).dt.replace_time_zone("UTC")
