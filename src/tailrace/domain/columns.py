"""A frame's columns as a domain reads them, and its rows as cells, on every engine.

Numbers of every type are read as doubles: no bound or category lies beyond the integers that doubles hold exactly,
so rounding a larger number cannot move it into the domain, and all engines round alike. Columns of Python objects (whose type
depends on their content) are read cell by cell, and what is not of the attribute's type lies outside.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Protocol

import narwhals as nw
import numpy as np

from tailrace.domain.attributes import EXACT
from tailrace.errors import ConfigError, DataError

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]
MOST_CELLS = 2**62  # what a number of 64 bits holds, with room to reckon
_MOST_VALUES = 2**31 - 1
_WIDE = {nw.Int64: -EXACT - 1, nw.UInt64: 0}
_NULL_TYPES = {"null", '"null"', "void", "nulltype()"}


class Axis(Protocol):
    """What cells are made of: the attributes of a schema, the sides of a box."""

    @property
    def holds(self) -> str: ...
    @property
    def size(self) -> int: ...
    def code(self, x: nw.Expr) -> nw.Expr: ...
    def encode(self, values: np.ndarray) -> np.ndarray: ...
    def decode(self, codes: np.ndarray, _rng: np.random.Generator, /) -> np.ndarray: ...


def kinds(frame: Frame, columns: Sequence[str]) -> dict[str, str]:
    """How each of the frame's columns is read: number, boolean, text, object, null or another type."""
    types = frame.collect_schema()
    for column in columns:
        if column not in types:
            raise DataError(f"The frame has no column '{column}'.")
    return {column: _kind(frame, column, types[column]) for column in columns}


def checked(frame: Frame, columns: Sequence[str], axes: Sequence[Axis]) -> dict[str, str]:
    """The columns' kinds, or an error that names the column and what it must hold."""
    found = kinds(frame, columns)
    for column, axis in zip(columns, axes, strict=True):
        fitting = {"text": "text", "booleans": "boolean"}.get(axis.holds, "number")
        objects = "object" if isinstance(frame, nw.DataFrame) else fitting  # only memory can hold them
        if found[column] not in (fitting, objects, "null"):
            raise DataError(f"Column '{column}' must hold {axis.holds}; convert it before it is pushed.")
    return found


def codes(frame: Frame, columns: Sequence[str], axes: Sequence[Axis]) -> list[nw.Expr]:
    """The code of each column as an expression; null where it drops the row."""
    found = checked(frame, columns, axes)
    if "object" in found.values():
        raise DataError("Columns of Python objects have no expression; they are counted in memory, by cells().")
    return [axis.code(_read(frame, name, found[name], axis)) for name, axis in zip(columns, axes, strict=True)]


def cell(frame: Frame, columns: Sequence[str], axes: Sequence[Axis]) -> nw.Expr:
    """The cell number of each row as one expression; null where the row is dropped."""
    # pandas holds numbers beside a missing one as doubles
    _bounded(axes, EXACT if frame.implementation.is_pandas_like() else MOST_CELLS)
    first, *others = codes(frame, columns, axes)
    number = first
    for code, axis in zip(others, axes[1:], strict=True):
        number = number * axis.size + code
    return number


def cells(frame: nw.DataFrame[Any], columns: Sequence[str], axes: Sequence[Axis]) -> np.ndarray:
    """The cell number of each row of an in-memory frame; -1 where the row is dropped."""
    from tailrace.domain import kernel

    _bounded(axes, MOST_CELLS)
    number = np.zeros(len(frame), np.int64)
    for axis, found in zip(axes, _encoded(frame, columns, axes), strict=True):
        kernel.join(number, found, axis.size)
    return number


def digits(frame: nw.DataFrame[Any], columns: Sequence[str], axes: Sequence[Axis]) -> np.ndarray:
    """The code of each column of an in-memory frame, side by side; a row of -1 where the row is dropped."""
    from tailrace.domain import kernel

    if max(axis.size for axis in axes) > _MOST_VALUES:
        raise ConfigError("An attribute has 2**31 values or more, too many for a table of numbers: make it coarser.")
    table, dropped = np.empty((len(axes), len(frame)), np.int32), np.zeros(len(frame), np.bool_)
    for row, found in zip(table, _encoded(frame, columns, axes), strict=True):
        kernel.note(found, row, dropped)
    return kernel.turn(table, dropped)


def _encoded(frame: nw.DataFrame[Any], columns: Sequence[str], axes: Sequence[Axis]) -> Iterator[np.ndarray]:
    """The codes of one column after the other."""
    found = checked(frame, columns, axes)
    for column, axis in zip(columns, axes, strict=True):
        if found[column] == "null":
            yield axis.encode(np.full(len(frame), None if axis.holds == "text" else math.nan))
        elif found[column] == "object":
            yield axis.encode(_objects(frame.get_column(column).to_numpy(), axis.holds))
        else:
            x = _read(frame, column, found[column], axis)
            if axis.holds == "text":  # engines look text up faster than we could
                yield frame.select(axis.code(x).fill_null(-1).alias("code"))["code"].to_numpy().astype(np.int64)
            else:
                values = frame.select(x.alias("value"))["value"].to_numpy()
                yield axis.encode(np.ascontiguousarray(values, np.float64))


def decode(
    cells: np.ndarray, columns: Sequence[str], axes: Sequence[Axis], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """The values of each cell, column by column."""
    codes = np.unravel_index(np.asarray(cells, np.int64), [axis.size for axis in axes])
    return {column: axis.decode(code, rng) for column, axis, code in zip(columns, axes, codes, strict=True)}


def _bounded(axes: Sequence[Axis], most: int) -> None:
    if math.prod(axis.size for axis in axes) > most:
        raise ConfigError(
            f"The domain has more than {most:,} cells, too many to number: use fewer columns or coarser ones."
        )


def _kind(frame: Frame, column: str, dtype: nw.dtypes.DType) -> str:
    if frame.implementation.is_pandas_like():
        values = frame.to_native()[column]
        if values.dtype == object:
            return "object"  # whatever its first rows look like
        if values.isna().all():
            return "null"  # pandas gives a column without one value any type
    if isinstance(dtype, nw.Categorical):
        return _kind_of_categories(frame, column)
    if dtype.is_numeric():  # integers, floats and decimals
        return "number"
    if isinstance(dtype, nw.Unknown) and _native_type(frame, column) in _NULL_TYPES:
        return "null"  # a column without one value has no type yet on some engines
    simple = {nw.Boolean: "boolean", nw.String: "text", nw.Enum: "text", nw.Object: "object"}
    return simple.get(type(dtype), "of another type")


def _kind_of_categories(frame: Frame, column: str) -> str:
    """pandas and Arrow also make categories of numbers."""
    native = frame.to_native()
    if frame.implementation.is_pandas_like():
        kind = native[column].dtype.categories.dtype.kind
        return (
            "number"
            if kind in "iuf"
            else "text"
            if native[column].dtype.categories.inferred_type == "string"
            else "object"
        )
    if frame.implementation.is_pyarrow():
        inner = str(native.schema.field(column).type.value_type)
        return (
            "text"
            if "string" in inner
            else "number"
            if "int" in inner or inner in ("float", "double")
            else "of another type"
        )
    return "text"


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
    pandas_like = frame.implementation.is_pandas_like()
    return (
        str(frame.to_native()[column].dtype).endswith("[pyarrow]") if pandas_like else frame.implementation.is_pyarrow()
    )


def _read(frame: Frame, column: str, kind: str, axis: Axis) -> nw.Expr:
    """The column as doubles or as text."""
    x = nw.col(column)
    if axis.holds == "text":
        return x.cast(nw.String)
    if kind == "boolean":
        return x.cast(nw.Int64).cast(nw.Float64)
    dtype = frame.collect_schema()[column]
    if type(dtype) in _WIDE and _in_arrow(frame, column):
        # Arrow refuses to round an integer to a double; what lies beyond the exact ones is outside, so any such will do.
        lowest, highest = nw.lit(_WIDE[type(dtype)], dtype), nw.lit(EXACT + 1, dtype)
        x = nw.when(x > highest).then(highest).otherwise(nw.when(x < lowest).then(lowest).otherwise(x))
    return x.cast(nw.Float64)


def _objects(values: np.ndarray, holds: str) -> np.ndarray:
    """Python objects as the array that an attribute encodes."""
    if holds == "text":
        return values
    if holds == "booleans":
        return np.array([float(v) if isinstance(v, bool | np.bool_) else math.nan for v in values], np.float64)
    return np.array([number_of(value) for value in values], np.float64)


def number_of(value: Any) -> float:
    """A Python object as a double, NaN where it is no number."""
    if type(value) not in (float, int) and not _is_number(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool | np.bool_)
