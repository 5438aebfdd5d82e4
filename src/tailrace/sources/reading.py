"""From cells as they are written to columns as the domain wants them, cell by cell.

A cell that cannot be read becomes a missing value and follows the domain's policy; which type a column has is never guessed
from its content. A column that is missing, or of a type that no cell of it could be read from, is refused by name. Whatever the
format, what was read has the same types: text, truth values, and numbers as doubles, which is how the domain sees them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from tailrace.domain import Categorical, Codes, Schema
from tailrace.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0", "0.0"), False),
}
_UNREADABLE = "\x00"  # stands for a value that is no text, number, date or boolean
_HALVES = re.compile("[\ud800-\udfff]")  # of letters beyond 16 bits: JSON can hold one alone, no text can


@dataclass(frozen=True, eq=False)
class Rows:
    """What was read: the columns of the domain (and the unit's), and what is known of each row."""

    frame: pl.DataFrame
    deletes: np.ndarray  # (rows,) bool
    readable: np.ndarray  # (rows,) bool: whether the row says insert or delete, where it must
    times: np.ndarray | None = None  # (rows,) datetime64[us] in UTC
    arrived: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Which columns are wanted, and how they are written."""

    domain: Codes
    key: str | None = None  # the unit's id
    time: str | None = None
    format: str | None = None  # of `time` and `arrived`, where they are not in ISO 8601
    op: str | None = None  # a column of "insert" and "delete"
    arrived: str | None = None
    timezone: str = "UTC"  # of times that do not say theirs
    trajectory: str | None = None  # the id of the trajectory that a row is a point of
    order: str | None = None  # its place in that: a number or a time

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read, each once."""
        extra = (self.key, self.trajectory, self.order, self.time, self.op, self.arrived)
        return list(dict.fromkeys([*self.domain.columns, *(name for name in extra if name is not None)]))

    @property
    def cut(self) -> dict[str, str | None]:
        """What decides which step a row goes to, and whether it is inserted there or deleted."""
        return {name: getattr(self, name) for name in ("time", "format", "op", "arrived", "timezone")}

    def read(self, frame: pl.DataFrame) -> Rows:
        """The rows of a frame whose columns hold text, or values already."""
        import polars as pl

        for column in self.columns:
            if column not in frame.columns:
                raise DataError(f"There is no column '{column}', which the configuration names.")
        types = self.domain.types
        read = pl.DataFrame(
            [typed(frame[name], types[name], trimmed=self._trimmed(name)) for name in self.domain.columns]
        )
        self.domain.check(nw.from_native(read, eager_only=True))
        read = read.select(_uniform(read[name], types[name]) for name in self.domain.columns)
        for id_ in (self.key, self.trajectory):
            if id_ is not None and id_ not in types:
                read = read.with_columns(_ids(frame[id_]))
        if self.order is not None:
            read = read.with_columns(self._order(frame[self.order]))
        deletes = np.zeros(len(frame), bool)
        readable = ~deletes
        if self.op is not None:
            op = _text(frame[self.op]).str.strip_chars().str.to_lowercase()
            deletes = (op == "delete").fill_null(value=False).to_numpy()
            readable = deletes | (op == "insert").fill_null(value=False).to_numpy()
        return Rows(read, deletes, readable, self._instants(frame, self.time), self._instants(frame, self.arrived))

    def _instants(self, frame: pl.DataFrame, column: str | None) -> np.ndarray | None:
        if column is None:
            return None
        from tailrace.sources.times import instants

        return instants(frame[column], timezone=self.timezone, format=self.format)

    def _order(self, values: pl.Series) -> pl.Series:
        """Numbers as they are, times as microseconds: cell by cell, whichever a cell can be read as."""
        import polars as pl

        from tailrace.sources.times import instants

        numbers = typed(values, nw.Float64())
        if numbers.dtype.is_numeric() and values.dtype != pl.String:
            return numbers.cast(pl.Float64)
        moments = instants(values, timezone=self.timezone, format=self.format)
        times = pl.Series(values.name, moments.astype(np.int64), pl.Float64).set(pl.Series(np.isnat(moments)), None)
        return times if numbers.dtype != pl.Float64 else numbers.fill_null(times)

    def _trimmed(self, column: str) -> bool:
        """Whether blanks around a text mean nothing: no declared value has any."""
        if not isinstance(self.domain, Schema):
            return True
        attribute = self.domain.attributes[self.domain.columns.index(column)]
        return not isinstance(attribute, Categorical) or all(v == v.strip() for v in map(str, attribute.values))


def text_frame(columns: dict[str, list[Any]]) -> pl.DataFrame:
    """Python values, of a database or of JSON, written as text.

    >>> text_frame({"age": [41, None, 4.5, [1]]})["age"].to_list()
    ['41', None, '4.5', '\\x00']
    """
    import polars as pl

    written = {name: [_written(cell) for cell in cells] for name, cells in columns.items()}
    return pl.DataFrame({name: pl.Series(name, cells, pl.String) for name, cells in written.items()})


def typed(values: pl.Series, dtype: nw.dtypes.DType, *, trimmed: bool = True) -> pl.Series:
    """Text as the domain's type, cell by cell; a column that is not of text stays as it is."""
    import polars as pl

    if values.dtype in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
    if values.dtype != pl.String:
        return values
    bare = values.str.strip_chars()
    if isinstance(dtype, nw.String):
        return bare if trimmed else values
    if isinstance(dtype, nw.Boolean):
        lower = bare.str.to_lowercase()
        return lower.replace_strict(list(_TRUTH), list(_TRUTH.values()), default=None, return_dtype=pl.Boolean)
    return bare.cast(pl.Float64, strict=False)


def _uniform(values: pl.Series, dtype: nw.dtypes.DType) -> pl.Series:
    """One type for the files of every format, so that their rows can be put together."""
    import polars as pl

    text, truth = isinstance(dtype, nw.String), isinstance(dtype, nw.Boolean)
    return values.cast(pl.String if text else pl.Boolean if truth else pl.Float64)


def _ids(values: pl.Series) -> pl.Series:
    """Ids as text, each in one spelling: somebody whose id were 7 here and 7.0 there would count as two."""
    import polars as pl

    dtype = values.dtype
    if dtype.is_float():
        whole = values.cast(pl.Int64, strict=False)
        fractions = values.fill_nan(None).cast(pl.String)
        values = whole.cast(pl.String).zip_with((whole.cast(pl.Float64) == values).fill_null(value=False), fractions)
    elif not (dtype.is_numeric() or dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)):
        raise DataError(f"Column '{values.name}' must hold ids as text or as whole numbers.")
    ids = values.cast(pl.String).str.strip_chars().str.replace(r"^(-?[0-9]+)\.0*$", "${1}")
    return ids.set(ids.is_in(["", _UNREADABLE]).fill_null(value=False), None)


def _text(values: pl.Series) -> pl.Series:
    import polars as pl

    if values.dtype in (pl.Categorical, pl.Enum, pl.Null):
        return values.cast(pl.String)
    if values.dtype != pl.String:
        raise DataError(f"Column '{values.name}' must hold text: insert or delete.")
    return values


def _written(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _HALVES.sub("\ufffd", value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 1024:  # beyond every double; Python may refuse to write it
        return "inf" if value > 0 else "-inf"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return _UNREADABLE
