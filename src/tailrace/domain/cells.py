"""Read one cell: one rule for every engine and source.

Data frames guess the type of a column from its cells, so that one word turns a column of numbers
into text, and one missing number turns integers into floats. What a cell means must not depend on
such a guess: it is decided by the schema and by the cell's text alone.

| declared | a cell is read as                                                              |
|----------|--------------------------------------------------------------------------------|
| numbers  | the number that it spells; true and false are 1 and 0                          |
| booleans | true, yes, y, t or a number 1; false, no, n, f or a number 0                   |
| text     | the declared text that it is, but for blanks around it; else the only one that |
|          | spells the same number, or the same of true and false                          |

A cell that cannot be read is a missing value and follows the domain's policy. Blanks count where a
declared text has some.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

if TYPE_CHECKING:
    import polars as pl

BLANKS = " \t\n\v\f\r\x85\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
# The text of a Python object that is no text, number, time or boolean.
UNREADABLE = "\x00"
# A name that Polars takes for a pattern.
_PATTERN = re.compile(r"\^.*\$", re.DOTALL)
# Halves of letters beyond 16 bits: Python can hold one alone, no text can.
_HALVES = re.compile("[\ud800-\udfff]")
_DECIMAL = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?$"
_COMMA = r"^[+-]?(?:[0-9]+|[0-9]{1,3}(?:\.[0-9]{3})+)(?:,[0-9]+)?$"
_INFINITE = {
    sign + word: float(sign + word) for sign in ("", "+", "-") for word in ("inf", "infinity")
}
TRUE_FALSE = {"true": 1.0, "false": 0.0}
YES_NO = {
    **TRUE_FALSE,
    **dict.fromkeys(("yes", "y", "t"), 1.0),
    **dict.fromkeys(("no", "n", "f"), 0.0),
}


def named(frame: nw.DataFrame[Any] | nw.LazyFrame[Any], column: str) -> nw.Expr:
    """The column of exactly this name, on any engine.

    Polars takes `^...$` for a regular expression of names, and `*` for all of them.
    """
    if frame.implementation.is_polars() and (column == "*" or _PATTERN.fullmatch(column)):
        column = f"^{re.escape(column)}$"
    return nw.col(column)


def nameless(values: pl.Series) -> pl.Series:
    """The same cells: Polars finds a series by its name, too."""
    return values.alias("")


def number(values: pl.Series, *, words: Mapping[str, float] = TRUE_FALSE) -> pl.Series:
    """The doubles that cells spell; null where none.

    They are spelt in digits or by one of the words.

    >>> import polars as pl
    >>> number(pl.Series([" 7", "1e3", "true", "seven"])).to_list()
    [7.0, 1000.0, 1.0, None]
    """
    import polars as pl

    values = nameless(values)
    if values.dtype.is_numeric() or values.dtype == pl.Boolean:
        return values.cast(pl.Float64)
    bare = text(values).str.strip_chars()
    found = bare.cast(pl.Float64, strict=False)
    if not words or found.null_count() == bare.null_count():
        return found
    return found.fill_null(
        bare.str.to_lowercase().replace_strict(words, default=None, return_dtype=pl.Float64)
    )


def pointed(values: pl.Series) -> pl.Series:
    """Texts of numbers with a decimal comma as texts with a point.

    Dots stand between groups of three digits, or a cell is no such number and stays as it is.

    >>> import polars as pl
    >>> pointed(pl.Series(["13,4", "-1.234,5", "1.234", "13.40", "n,a"])).to_list()
    ['13.4', '-1234.5', '1234', '13.40', 'n,a']
    """
    bare = nameless(values).str.strip_chars()
    written = bare.str.contains(_COMMA).fill_null(value=False)
    shown = bare.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return shown.zip_with(written, bare)


def number_there(text: nw.Expr, *, words: Mapping[str, float] = TRUE_FALSE) -> nw.Expr:
    """The same as an expression over text; it never fails."""
    bare = text.str.strip_chars(BLANKS).str.to_lowercase()
    found: Any = nw.when(bare.str.contains(_DECIMAL)).then(bare).cast(nw.Float64)
    meanings = {**_INFINITE, **words}
    for value in set(meanings.values()):
        spelt = [word for word, meaning in meanings.items() if meaning == value]
        found = nw.when(bare.is_in(spelt)).then(nw.lit(value)).otherwise(found)
    return found


def text(values: pl.Series) -> pl.Series:
    """Cells of any type but nested ones as text."""
    import polars as pl

    values = nameless(values)
    if values.dtype == pl.Binary:
        return pl.Series([written(cell) for cell in values], dtype=pl.String)
    if values.dtype == pl.Duration:
        return values.dt.to_string()
    return values.cast(pl.String)


def texts(cells: Iterable[Any]) -> pl.Series:
    """Python objects as text, each by itself.

    >>> texts([41, None, 4.5, [1]]).to_list()
    ['41', None, '4.5', '\\x00']
    """
    import polars as pl

    return pl.Series([written(cell) for cell in cells], dtype=pl.String)


def column(values: nw.Series[Any]) -> pl.Series:
    """A column in memory, without its name; Python objects become text."""
    if isinstance(values.dtype, nw.Object) or holds_objects(values):
        return texts(values.to_numpy().tolist())
    try:
        return nameless(values.to_polars())
    except ImportError:
        # pandas without PyArrow.
        return texts(values.to_list())


def holds_objects(values: nw.Series[Any]) -> bool:
    """Whether pandas holds a Python object per cell or category."""
    if not values.implementation.is_pandas_like():
        return False
    dtype = values.to_native().dtype
    categories = getattr(dtype, "categories", None)
    return "object" in (str(dtype), str(getattr(categories, "dtype", None)))


def written(value: Any) -> str | None:
    """The text of one Python object; None where missing."""
    if isinstance(value, str):
        return _HALVES.sub("\ufffd", value)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return None if value.is_nan() else str(value)
    if isinstance(value, numbers.Real):
        return _written_number(value)
    if isinstance(value, datetime | date | time):
        # pandas' NaT does not equal itself.
        return value.isoformat() if value == value else None
    return None if value is None else UNREADABLE


def _written_number(value: Any) -> str | None:
    if isinstance(value, numbers.Integral):
        whole = int(value)
        # Python may refuse to write a longer one, which is beyond every double.
        if whole.bit_length() <= 1024:
            return str(whole)
        return "inf" if whole > 0 else "-inf"
    try:
        double = float(value)
    except OverflowError:
        # A fraction beyond every double.
        return "inf" if value > 0 else "-inf"
    return None if math.isnan(double) else repr(double)
