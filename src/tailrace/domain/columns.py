"""Read a frame's columns, and its rows as cells.

Numbers of every type are read as doubles: no bound or category lies beyond the integers that
doubles hold exactly, so rounding a larger number cannot move it into the domain, and all engines
round alike. Everything else is text, read cell by cell as `cells.py` says: the type of a column,
which a data frame may have guessed from one cell, changes no cell's meaning.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import narwhals as nw
import numpy as np

from tailrace.domain import cells as reading
from tailrace.domain.attributes import EXACT, Categorical
from tailrace.errors import ConfigError, DataError

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]
# A cell number has 64 bits; two are left as room to reckon.
MOST_CELLS = 2**62
_MOST_VALUES = 2**31 - 1
_WIDE = {nw.Int64: -EXACT - 1, nw.UInt64: 0}
# Types that narwhals does not know, by their own names.
_UNKNOWN = {**dict.fromkeys(("null", '"null"', "void", "nulltype()"), "null"), "uuid": "text"}
_SIMPLE = {
    nw.Boolean: "boolean",
    nw.Object: "object",
    nw.Binary: "bytes",
    **dict.fromkeys((nw.String, nw.Enum), "text"),
    **dict.fromkeys((nw.Date, nw.Datetime, nw.Time, nw.Duration), "time"),
}


class Axis(Protocol):
    """One axis of a domain: an attribute or a side."""

    @property
    def holds(self) -> str: ...
    @property
    def size(self) -> int: ...
    def code(self, x: nw.Expr) -> nw.Expr: ...
    def encode(self, values: np.ndarray) -> np.ndarray: ...
    def decode(self, codes: np.ndarray, _rng: np.random.Generator, /) -> np.ndarray: ...


def kinds(frame: Frame, columns: Sequence[str]) -> dict[str, str]:
    """The kind of each column: integer, text, ..., or "nested"."""
    types = frame.collect_schema()
    for column in columns:
        if column not in types:
            raise DataError(f"The frame has no column '{column}'.")
    return {column: _kind(frame, column, types[column]) for column in columns}


class Product(abc.ABC):
    """Cells that are one value of each axis, the last changing fastest."""

    columns: tuple[str, ...]

    @property
    @abc.abstractmethod
    def axes(self) -> tuple[Axis, ...]:
        """One axis for each column."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:
        """The number of cells, perhaps too many to count."""
        return math.prod(self.shape)

    def check(self, frame: Frame) -> None:
        """Refuse a frame that lacks columns, or has nested ones."""
        self._read(frame)

    def cell(self, frame: Frame) -> nw.Expr:
        """Each row's cell as an expression; null where dropped."""
        # pandas holds numbers beside a missing one as doubles
        self._bound(EXACT if frame.implementation.is_pandas_like() else MOST_CELLS)
        number, *others = self.codes(frame)
        for size, code in zip(self.shape[1:], others, strict=True):
            number = number * size + code
        return number

    def cells(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        """Each in-memory row's cell, int64; -1 where dropped."""
        from tailrace.domain import kernel

        self._bound(MOST_CELLS)
        number = np.zeros(len(frame), np.int64)
        for size, found in zip(self.shape, self._encoded(frame), strict=True):
            kernel.join(number, found, size)
        return number

    def codes(self, frame: Frame) -> list[nw.Expr]:
        """Each axis's code as an expression; null where dropped."""
        read = self._read(frame)
        if {"object", "bytes"} & {kind for _, kind, _ in read}:
            raise DataError(
                "Columns of Python objects have no expression; they are counted in memory, by "
                "cells()."
            )
        return [_code(frame, *one) for one in read]

    def digits(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        """Each in-memory row's codes, (rows, axes) int32.

        All are -1 where the row is dropped. Unlike cells they have no bound on the number of axes.
        """
        from tailrace.domain import kernel

        if max(self.shape) > _MOST_VALUES:
            raise ConfigError(
                "An attribute has 2**31 values or more, too many for a table of numbers: make it "
                "coarser."
            )
        table = np.empty((len(self.axes), len(frame)), np.int32)
        dropped = np.zeros(len(frame), np.bool_)
        for row, found in zip(table, self._encoded(frame), strict=True):
            kernel.note(found, row, dropped)
        return kernel.turn(table, dropped)

    def settle(self, cells: np.ndarray) -> np.ndarray:
        """The cells as they are: the expression leaves nothing open."""
        return cells

    def decode(self, cells: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Values of each cell; `rng` places numbers in their bins."""
        return self.decode_digits(np.unravel_index(np.asarray(cells, np.int64), self.shape), rng)

    def decode_digits(
        self, digits: Iterable[np.ndarray], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Values of rows, from an array of codes per axis."""
        parts = zip(self.columns, self.axes, digits, strict=True)
        return {column: axis.decode(code, rng) for column, axis, code in parts}

    def _read(self, frame: Frame) -> list[tuple[str, str, Axis]]:
        """Columns with kinds and axes; only nested ones are refused."""
        found = kinds(frame, self.columns)
        for column, axis in zip(self.columns, self.axes, strict=True):
            if found[column] in unreadable(frame):
                raise DataError(
                    f"Column '{column}' must hold {axis.holds}; convert it before it is pushed."
                )
        return [(name, found[name], axis) for name, axis in zip(found, self.axes, strict=True)]

    def _encoded(self, frame: nw.DataFrame[Any]) -> Iterator[np.ndarray]:
        """The codes of one column after the other."""
        for column, kind, axis in self._read(frame):
            texts = _of_text(axis)
            if kind in ("integer", "float") or (kind == "boolean" and texts is None):
                values = frame.select(_double(frame, column, kind).alias("value"))["value"]
                doubles = np.ascontiguousarray(values.to_numpy(), np.float64)
                yield axis.encode(doubles) if texts is None else texts.encode_number(doubles)
                continue
            values = reading.column(frame.get_column(column))
            if texts is None:
                numbers = reading.number(values, words=_words(axis))
                yield axis.encode(numbers.fill_null(math.nan).to_numpy())
            else:
                yield texts.encode_text(reading.text(values))

    def _bound(self, most: int) -> None:
        if self.size > most:
            raise ConfigError(
                f"The domain has more than {most:,} cells, too many to number: use fewer columns "
                "or coarser ones."
            )


def unreadable(frame: Frame) -> set[str]:
    """Kinds that cannot be read; objects only in memory."""
    return {"nested"} if isinstance(frame, nw.DataFrame) else {"nested", "object", "bytes"}


def _of_text(axis: Axis) -> Categorical | None:
    """The axis, if its values are text."""
    return axis if isinstance(axis, Categorical) and axis.holds == "text" else None


def _words(axis: Axis) -> dict[str, float]:
    return reading.YES_NO if axis.holds == "booleans" else reading.TRUE_FALSE


def _kind(frame: Frame, column: str, dtype: nw.dtypes.DType) -> str:
    if frame.implementation.is_pandas_like() and frame.to_native()[column].dtype == object:
        # Whatever its first rows look like.
        return "object"
    if isinstance(dtype, nw.Categorical):
        return _kind_of_categories(frame, column)
    # Decimals are as exact as integers.
    if dtype.is_numeric():
        return "float" if dtype.is_float() else "integer"
    if isinstance(dtype, nw.Unknown):
        return _UNKNOWN.get(_native_type(frame, column), "nested")
    return _SIMPLE.get(type(dtype), "nested")


def _kind_of_categories(frame: Frame, column: str) -> str:
    """The kind of categories, which need not be text."""
    native, name = frame.to_native(), "categories"
    if frame.implementation.is_pandas_like():
        series = native[column].dtype.categories.to_series()
        values = series.reset_index(drop=True).to_frame(name)
    elif frame.implementation.is_pyarrow():
        import pyarrow as pa

        values = pa.table({name: pa.array([], native.schema.field(column).type.value_type)})
    else:
        return "text"
    return kinds(nw.from_native(values, eager_only=True), [name])[name]


def _native_type(frame: Frame, column: str) -> str:
    native: Any = frame.to_native()
    if frame.implementation.is_duckdb():
        return str(native.types[native.columns.index(column)]).lower()
    if frame.implementation.is_pandas_like():
        return str(native[column].dtype).removesuffix("[pyarrow]")
    schema = native.collect_schema() if frame.implementation.is_polars() else native.schema
    field = schema.field(column) if hasattr(schema, "field") else schema[column]
    return str(getattr(field, "dataType", getattr(field, "type", field))).lower()


def _in_arrow(frame: Frame, column: str) -> bool:
    if frame.implementation.is_pandas_like():
        return str(frame.to_native()[column].dtype).endswith("[pyarrow]")
    return frame.implementation.is_pyarrow()


def raw(frame: Frame, column: str) -> nw.Expr:
    """A column as numbers or texts, as it came."""
    kind = kinds(frame, [column])[column]
    if kind in ("integer", "float"):
        return _double(frame, column, kind)
    if kind in ("object", "bytes"):
        return reading.named(frame, column)
    return reading.named(frame, column).cast(nw.String)


def _code(frame: Frame, column: str, kind: str, axis: Axis) -> nw.Expr:
    """The code of one column as an expression."""
    texts, text = _of_text(axis), reading.named(frame, column).cast(nw.String)
    if kind in ("integer", "float") or (kind == "boolean" and texts is None):
        number = _double(frame, column, kind)
        return axis.code(number) if texts is None else texts.code_number(number)
    if texts is None:
        return axis.code(reading.number_there(text, words=_words(axis)))
    return texts.code_text(text)


def _double(frame: Frame, column: str, kind: str) -> nw.Expr:
    """A column of numbers or booleans as doubles."""
    x = reading.named(frame, column)
    if kind == "boolean":
        return x.cast(nw.Int64).cast(nw.Float64)
    dtype = frame.collect_schema()[column]
    if type(dtype) in _WIDE and _in_arrow(frame, column):
        # Arrow refuses to round an integer to a double; what lies beyond the exact ones is outside,
        # so any such will do.
        lowest, highest = nw.lit(_WIDE[type(dtype)], dtype), nw.lit(EXACT + 1, dtype)
        above = nw.when(x < lowest).then(lowest).otherwise(x)
        x = nw.when(x > highest).then(highest).otherwise(above)
    return x.cast(nw.Float64)
