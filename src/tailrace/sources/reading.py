"""Read written cells as the domain's columns, one by one.

Cells are read as `tailrace.domain.cells` says, here as in frames that are pushed. A column that is
missing, or whose cells are no single values, is refused by name. Whatever the format, what was read
has the same types: text, truth values, and numbers as doubles, which is how the domain sees them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np

from tailrace.calls import told
from tailrace.counting.plan import unit_of
from tailrace.domain import Codes, cells
from tailrace.domain.times import instants, orders
from tailrace.errors import DataError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Rows:
    """What was read: the columns of the domain (and the unit's), and what is known of each row."""

    frame: pl.DataFrame
    deletes: np.ndarray  # (rows,) bool
    readable: np.ndarray  # (rows,) bool: whether the row says insert or delete, where it must
    times: np.ndarray | None = None  # (rows,) datetime64[us] in UTC
    arrived: np.ndarray | None = None


@told
@dataclass(frozen=True, kw_only=True)
class Reader:
    """Which columns are wanted, and how they are written."""

    domain: Codes
    key: str | None = None  # the unit's id
    time: str | None = None
    # Of `time` and `arrived`, where they are not in ISO 8601; of several the first that fits.
    format: str | Sequence[str] | None = None
    op: str | None = None  # a column of "insert" and "delete"
    arrived: str | None = None
    timezone: str = "UTC"  # of times that do not say theirs
    trajectory: str | None = None  # the id of the trajectory that a row is a point of
    order: str | None = None  # its place in that: a number or a time
    id: str | None = None  # the column that names a row
    # By column: other spellings of its values.
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    decimal: Literal[".", ","] = "."  # how numbers in text are written: 1234.5 or 1.234,5
    encoding: str = "utf-8"  # of CSV files

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read, each once."""
        extra = (self.key, self.trajectory, self.order, self.time, self.op, self.arrived, self.id)
        return list(
            dict.fromkeys([*self.domain.columns, *(name for name in extra if name is not None)])
        )

    @property
    def cut(self) -> dict[str, Any]:
        """What decides which step a row goes to, and whether it is inserted there or deleted."""
        names = ("time", "op", "arrived", "timezone", "id")
        form = self.format
        if form is not None and not isinstance(form, str):
            form = list(form)
        return {"format": form, **{name: getattr(self, name) for name in names}}

    def once(self, rows: pl.DataFrame, *within: pl.Series) -> np.ndarray:
        """Which rows count, where rows of one id (and `within`) count once: (rows,) bool.

        Rows of one id that agree in all that is read count as one row; rows that disagree count
        not at all. A row without an id counts. Ids are compared within a person, and within a
        trajectory, where these are told apart.

        1. One row more, under Event: the rows of its id counted as one row or as none before. They
           go from none to this row, or from one row to none, or stay. So one counted row comes or
           goes, as without ids.
        2. One person more, under User: only rows of this person are compared with theirs, so no
           other row changes; contributions are bounded afterwards. Trajectories alike.
        3. Keeping the first, or the last, of rows that disagree would put one row in another's
           place: two changes for one.
        """
        import polars as pl

        if self.id is None:
            return np.ones(len(rows), bool)
        ids = {self.id, self.key, self.trajectory}
        # Under names of our own, which are no patterns.
        held = [*rows.get_columns(), *within]
        frame = pl.DataFrame({f"column {n}": one for n, one in enumerate(held)})
        named = list(zip(frame.columns, [*rows.columns, *[self.id] * len(within)], strict=True))
        by = [own for own, name in named if name in ids]
        others = [own for own, name in named if name not in ids]
        agree = pl.struct(others).n_unique().over(by) == 1 if others else pl.lit(value=True)
        first = agree & pl.struct(by).is_first_distinct()
        unnamed = pl.col(f"column {rows.columns.index(self.id)}").is_null()
        return frame.select(unnamed | first).to_series().to_numpy()

    def read(self, frame: pl.DataFrame) -> Rows:
        """The rows of a frame whose columns hold text, or values already."""
        import polars as pl

        for column in self.columns:
            if column not in frame.columns:
                raise DataError(f"There is no column '{column}', which the configuration names.")
        self.domain.check(nw.from_native(frame[list(self.domain.columns)], eager_only=True))
        read = pl.DataFrame(
            {
                name: _typed(self._spelt(frame[name]), dtype, self.decimal)
                for name, dtype in self.domain.types.items()
            }
        )
        ids = {
            name: _ids(frame[name])
            for name in (self.key, self.trajectory, self.id)
            if name is not None
        }
        read = read.with_columns(
            **ids
        )  # an id that is a column of the domain too is read from its text again
        if self.order is not None:
            places = orders(frame[self.order], timezone=self.timezone, format=self.format)
            read = read.with_columns(**{self.order: pl.Series(places).fill_nan(None)})
        deletes = np.zeros(len(frame), bool)
        readable = ~deletes
        if self.op is not None:
            op = _text(frame[self.op]).str.strip_chars().str.to_lowercase()
            deletes = (op == "delete").fill_null(value=False).to_numpy()
            readable = deletes | (op == "insert").fill_null(value=False).to_numpy()
        return Rows(
            read,
            deletes,
            readable,
            self._instants(frame, self.time),
            self._instants(frame, self.arrived),
        )

    def _spelt(self, values: pl.Series) -> pl.Series:
        """A column with each alias as the value that it stands for."""
        known = self.aliases.get(values.name)
        if not known:
            return values
        text = cells.text(values)
        return text.str.strip_chars().replace_strict(dict(known), default=None).fill_null(text)

    def _instants(self, frame: pl.DataFrame, column: str | None) -> np.ndarray | None:
        if column is None:
            return None
        return instants(frame[column], timezone=self.timezone, format=self.format)


def text_frame(columns: dict[str, list[Any]]) -> pl.DataFrame:
    """Python values, of a database or of JSON, written as text.

    >>> text_frame({"age": [41, None, 4.5, [1]]})["age"].to_list()
    ['41', None, '4.5', '\\x00']
    """
    import polars as pl

    return pl.DataFrame({name: cells.texts(values) for name, values in columns.items()})


def _typed(values: pl.Series, dtype: nw.dtypes.DType, decimal: str) -> pl.Series:
    """One type for the files of every format, so that their rows can be put together."""
    import polars as pl

    if isinstance(dtype, nw.String):
        return cells.text(values)
    if decimal == "," and values.dtype == pl.String:
        values = cells.pointed(values)
    number = cells.number(
        values, words=cells.YES_NO if isinstance(dtype, nw.Boolean) else cells.TRUE_FALSE
    )
    if not isinstance(dtype, nw.Boolean):
        return number
    return number.replace_strict([1.0, 0.0], [True, False], default=None, return_dtype=pl.Boolean)


def _ids(values: pl.Series) -> pl.Series:
    """Ids as text, which the unit memory compares."""
    unit_of(nw.from_native(values.to_frame(), eager_only=True), values.name)
    ids = cells.text(values)
    return ids.set((ids == cells.UNREADABLE).fill_null(value=False), None)


def _text(values: pl.Series) -> pl.Series:
    import polars as pl

    if values.dtype in (pl.Categorical, pl.Enum, pl.Null):
        return cells.text(values)
    if values.dtype != pl.String:
        raise DataError(f"Column '{values.name}' must hold text: insert or delete.")
    return cells.nameless(values)
