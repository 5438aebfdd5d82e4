"""Values that nobody declared: how they are written, and those taken up."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.domain import cells
from tailrace.domain.attributes import Categorical
from tailrace.domain.schema import Schema

# Letters of a value that may be taken up. By reasoning: a name, no story.
_LONGEST = 200
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# Below it every whole number is a double.
_EXACT = 2.0**53


@dataclass(frozen=True)
class Grown(Categorical):
    """A growing list with the values taken up so far.

    Codes stay what they are: declared values, other, values taken up in order.
    """

    grown: tuple[str, ...] = ()

    @property
    def texts(self) -> dict[str, int]:
        first = len(self.values) + 1
        return super().texts | {text: first + i for i, text in enumerate(self.grown)}

    def decode(self, codes: np.ndarray, _rng: np.random.Generator) -> np.ndarray:
        left = [None] * (self.room - len(self.grown))
        known = np.array([*self.values, None, *self.grown, *left, None], object)[:-1]
        return known[codes]


def growing_column(schema: Schema) -> str | None:
    """The column whose list grows; the first of several."""
    pairs = zip(schema.columns, schema.attributes, strict=True)
    return next((c for c, a in pairs if isinstance(a, Categorical) and a.growing), None)


def grown(schema: Schema, column: str, values: Sequence[str]) -> Schema:
    """The schema whose growing column has taken up some values."""
    known = dict(zip(schema.columns, schema.attributes, strict=True))
    one = known[column]
    assert isinstance(one, Categorical)
    known[column] = Grown(one.values, outside="other", growing=one.growing, grown=tuple(values))
    return Schema(**known)


def settled(schema: Schema, column: str, values: Sequence[str]) -> Schema:
    """The same values as an ordinary list: declared, taken up, other."""
    known = dict(zip(schema.columns, schema.attributes, strict=True))
    one = known[column]
    assert isinstance(one, Categorical)
    known[column] = replace(one, values=(*map(str, one.values), *values), growing=False)
    return Schema(**known)


def settled_codes(attribute: Categorical, many: int) -> np.ndarray:
    """The codes of a growing list in the order of the settled one."""
    other = len(attribute.values)
    return np.array([*range(other), *range(other + 1, other + 1 + many), other])


def spelling(value: Any, *, trimmed: bool) -> str | None:
    """The one text of an undeclared value; None where it cannot be taken up.

    A number, or true and false, is the same text in whatever type a reader gave it.

    >>> [spelling(one, trimmed=True) for one in (" oak", "7.0", 7, True, "TRUE", "", None)]
    ['oak', '7', '7', 'true', 'true', None, None]
    """
    text = cells.written(value)
    if text is None:
        return None
    bare = text.strip(cells.BLANKS) if trimmed else text
    if bare.lower() in cells.TRUE_FALSE:
        bare = bare.lower()
    elif _DECIMAL.fullmatch(bare):
        number = float(bare)
        bare = f"{number:.0f}" if number.is_integer() and abs(number) < _EXACT else repr(number)
    return bare if bare and len(bare) <= _LONGEST and bare.isprintable() else None


# By the number under which a unit's row is known: its cell and its text.
Labels = dict[int, tuple[int, str]]


def numbered(
    rows: np.ndarray, values: Any, schema: Schema, column: str, key: bytes, labels: Labels
) -> np.ndarray:
    """The cells of rows, with a number of its own for each unknown text.

    The number is a keyed hash of cell and text, of 62 bits and above all cells: of no other row. It
    is noted in `labels`. `values` are the raw cells of the column.
    """
    from tailrace.domain.columns import MOST_CELLS

    axis = schema.columns.index(column)
    attribute, stride = schema.attributes[axis], int(np.prod(schema.shape[axis + 1 :]))
    assert isinstance(attribute, Categorical)
    other = (rows >= 0) & (rows // stride % attribute.size == len(attribute.values))
    places = np.flatnonzero(other)
    raws = cells_of(values).gather(places).to_list()
    found, numbers = rows.copy(), {}
    for place, raw, cell in zip(places.tolist(), raws, rows[places].tolist(), strict=True):
        if (raw, cell) not in numbers:
            text, numbers[raw, cell] = spelling(raw, trimmed=attribute.trimmed), cell
            if text is not None:
                said = cell.to_bytes(8, "big") + text.encode()
                digest = hashlib.blake2b(said, key=key, digest_size=8, person=b"tailrace text")
                number = int.from_bytes(digest.digest(), "big") % (MOST_CELLS - schema.size)
                numbers[raw, cell] = schema.size + number
                labels[schema.size + number] = (cell, text)
        found[place] = numbers[raw, cell]
    return found


def cells_of(values: Any) -> Any:
    """A column's raw cells in memory: numbers or texts."""
    column = cells.column(values)
    return column if column.dtype.is_numeric() else cells.text(column)


def unknown(frame: nw.DataFrame[Any] | nw.LazyFrame[Any], schema: Schema, column: str) -> Any:
    """The raw cells of a column that no list has, of counted rows, with their number.

    A frame, or a query of one, with columns `raw` and `rows`.
    """
    from tailrace.domain.columns import raw

    attribute = schema.attributes[schema.columns.index(column)]
    assert isinstance(attribute, Categorical)
    if isinstance(frame, nw.LazyFrame):
        codes = dict(zip(schema.columns, schema.codes(frame), strict=True))
        named = [code.alias(f"digit{i}") for i, code in enumerate(codes.values())]
        digits = frame.select(raw(frame, column).alias("raw"), *named)
        mine = f"digit{schema.columns.index(column)}"
        inside = [~nw.col(f"digit{i}").is_null() for i in range(len(codes))]
        kept = digits.filter(*inside, nw.col(mine) == len(attribute.values))
        return kept.group_by("raw").agg(nw.len().alias("rows"))
    digits = schema.digits(frame)[:, schema.columns.index(column)]
    kept = (
        cells_of(frame.get_column(column))
        .alias("raw")
        .to_frame()
        .filter(digits == len(attribute.values))
    )
    found = nw.from_native(kept, eager_only=True)
    return found.group_by("raw").agg(nw.len().alias("rows"))
