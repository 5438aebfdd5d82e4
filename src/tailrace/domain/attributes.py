"""Attributes: public sets of values, numbered from 0.

Each says what happens to a value outside its set.

| `outside` | a value outside the set                                     | null and NaN    |
|-----------|-------------------------------------------------------------|-----------------|
| "drop"    | its row is not counted                                      | not counted     |
| "clip"    | the nearest value of the set (numbers only, also infinities) | not counted     |
| "other"   | one more code, the last, decoded as a missing value         | the same code   |

An attribute knows two forms of the same map: `code`, an expression for any engine, and `encode`, a
compiled loop for arrays. Both see numbers as doubles, in which every bound and category here is
exact. A `Categorical` of text has one of each for columns of text and for columns of numbers in
their place (`cells.py` says why).
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np

from tailrace.calls import told
from tailrace.domain import cells
from tailrace.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

# Below it every integer is a double and every larger integer stays outside when it is rounded to
# one.
EXACT = 2**53 - 1
# Values in a sentence.
_LISTED = 20


@told
@dataclass(frozen=True)
class Categorical:
    """One of a list of texts, whole numbers or booleans.

    >>> Categorical(["f", "m"], outside="other").size
    3
    """

    values: Sequence[str] | Sequence[int] | Sequence[bool]
    _: KW_ONLY
    outside: Literal["drop", "other"] = "drop"
    # Compared too: the values 0 and 1 equal False and True.
    holds: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.values, str) or not isinstance(self.values, Iterable):
            raise ConfigError(
                "Categorical takes a list of its values, for example Categorical(['f', 'm'])."
            )
        values = tuple(
            value.item() if isinstance(value, np.generic) else value for value in self.values
        )
        kinds = {type(value) for value in values}
        if len(kinds) != 1 or not kinds <= {str, int, bool} or len(set(values)) != len(values):
            raise ConfigError(
                "Categorical takes one or more distinct values, all text, all whole numbers or all "
                "booleans."
            )
        kind = kinds.pop()
        if kind is int and max(map(abs, map(int, values))) > EXACT:
            raise ConfigError(
                "The whole numbers of a Categorical must lie strictly between -2**53 and 2**53."
            )
        if kind is str and any(_surrogate(str(value)) for value in values):
            raise ConfigError(
                "The values of a Categorical must be valid Unicode text, which every engine can "
                "hold."
            )
        policy(self.outside, ("drop", "other"), "Categorical")
        object.__setattr__(self, "values", values)
        object.__setattr__(
            self, "holds", {str: "text", int: "whole numbers", bool: "booleans"}[kind]
        )

    @property
    def size(self) -> int:
        return len(self.values) + (self.outside == "other")

    @property
    def dtype(self) -> nw.dtypes.DType:
        return {"text": nw.String(), "whole numbers": nw.Int64(), "booleans": nw.Boolean()}[
            self.holds
        ]

    def code(self, x: nw.Expr) -> nw.Expr:
        other = len(self.values) if self.outside == "other" else None
        known = [int(value) for value in self.values]
        inside, whole = _whole(x, min(known), max(known))
        code = whole.replace_strict(
            known, list(range(len(known))), default=other, return_dtype=nw.Int64
        )
        return _else(nw.when(inside).then(code), other)

    def encode(self, values: np.ndarray) -> np.ndarray:
        outside = len(self.values) if self.outside == "other" else -1
        return _members(
            values, [float(value) for value in self.values], range(len(self.values)), outside
        )

    def code_number(self, number: nw.Expr) -> nw.Expr:
        """The code of the declared text that spells a number."""
        other = len(self.values) if self.outside == "other" else None
        if not self.spelt:
            return _else(
                nw.when(number.is_null() & ~number.is_null()).then(nw.lit(0, nw.Int64)), other
            )
        # -0.0 becomes 0.0, which every engine finds.
        exact = number + 0.0
        return exact.replace_strict(
            list(self.spelt), list(self.spelt.values()), default=other, return_dtype=nw.Int64
        )

    def code_text(self, text: nw.Expr) -> nw.Expr:
        """The code of the declared text that a text spells."""
        other = len(self.values) if self.outside == "other" else None
        bare, known = text.str.strip_chars(cells.BLANKS) if self.trimmed else text, self._codes
        if not self.spelt:
            return bare.replace_strict(
                list(known), list(known.values()), default=other, return_dtype=nw.Int64
            )
        code = bare.replace_strict(
            list(known), list(known.values()), default=None, return_dtype=nw.Int64
        )
        rest = self.code_number(cells.number_there(text, words={}))
        return nw.when(~code.is_null()).then(code).otherwise(rest)

    def encode_number(self, values: np.ndarray) -> np.ndarray:
        """As `code_number`, of numbers in memory."""
        outside = len(self.values) if self.outside == "other" else -1
        return _members(values, list(self.spelt), list(self.spelt.values()), outside)

    def encode_text(self, text: pl.Series) -> np.ndarray:
        """As `code_text`, of a column in memory."""
        codes = self._exact(text)
        rest = np.flatnonzero(codes < 0)
        # Few or none: blanks are looked for where there is no declared text.
        if self.trimmed and len(rest):
            codes[rest] = self._exact(text.gather(rest).str.strip_chars())
            rest = rest[codes[rest] < 0]
        if len(rest):
            numbers = cells.number(text.gather(rest), words={})
            codes[rest] = self.encode_number(numbers.fill_null(math.nan).to_numpy())
        return codes

    def _exact(self, text: pl.Series) -> np.ndarray:
        import polars as pl

        found = text.replace_strict(self._codes, default=None, return_dtype=pl.Int64)
        return found.fill_null(-1).to_numpy(writable=True)

    @property
    def trimmed(self) -> bool:
        """Whether to ignore blanks: no declared text has any."""
        return all(value == value.strip(cells.BLANKS) for value in map(str, self.values))

    @functools.cached_property
    def _codes(self) -> dict[str, int]:
        """The code of each declared text.

        Also of true and false, where one declared text is a word for it.

        Some readers make booleans of the words, "f" too.
        """
        declared, found = {str(value): code for code, value in enumerate(self.values)}, {}
        for word, meaning in cells.TRUE_FALSE.items():
            meant = [
                code for text, code in declared.items() if cells.YES_NO.get(text.lower()) == meaning
            ]
            if len(meant) == 1:
                found |= dict.fromkeys((word, word.title(), word.upper()), meant[0])
        return found | declared

    @functools.cached_property
    def spelt(self) -> dict[float, int]:
        """The code of each number that one declared text spells.

        Also of one of them as numbers are written.
        """
        import polars as pl

        texts = pl.Series(list(map(str, self.values)), dtype=pl.String)
        numbers = cells.number(texts, words={}).fill_nan(None).to_list()
        many = Counter(numbers)
        return {
            number + 0.0: code
            for code, (text, number) in enumerate(zip(texts, numbers, strict=True))
            if number is not None and (many[number] == 1 or text == f"{number:.0f}")
        }

    def decode(self, codes: np.ndarray, _rng: np.random.Generator) -> np.ndarray:
        if self.outside == "other":
            return _objects([*self.values, None])[codes]
        return (_objects(self.values) if self.holds == "text" else np.array(self.values))[codes]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "Categorical", "values": list(self.values), "outside": self.outside}


@told
@dataclass(frozen=True)
class Integer:
    """A whole number from `low` to `high`, both included.

    A number with a fraction lies outside ("clip" rounds it down).

    >>> Integer(0, 99).size
    100
    """

    low: int
    high: int
    _: KW_ONLY
    outside: Literal["drop", "clip", "other"] = "drop"

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | np.integer)
                or abs(int(value)) > EXACT
            ):
                raise ConfigError(
                    f"{name} of an Integer must be a whole number strictly between -2**53 and "
                    "2**53."
                )
            object.__setattr__(self, name, int(value))
        if self.low > self.high:
            raise ConfigError("low of an Integer must not be above its high.")
        policy(self.outside, ("drop", "clip", "other"), "Integer")

    @property
    def holds(self) -> str:
        return "whole numbers"

    @property
    def size(self) -> int:
        return self.high - self.low + 1 + (self.outside == "other")

    @property
    def dtype(self) -> nw.dtypes.DType:
        return nw.Int64()

    def code(self, x: nw.Expr) -> nw.Expr:
        if self.outside == "clip":
            return nw.when(present(x)).then(
                clipped(x, self.low, self.high).floor().cast(nw.Int64) - self.low
            )
        inside, whole = _whole(x, self.low, self.high)
        return _else(
            nw.when(inside).then(whole - self.low),
            self.size - 1 if self.outside == "other" else None,
        )

    def encode(self, values: np.ndarray) -> np.ndarray:
        from tailrace.domain import kernel

        outside = self.size - 1 if self.outside == "other" else -1
        return kernel.integers(
            values, float(self.low), float(self.high), self.outside == "clip", outside
        )

    def decode(self, codes: np.ndarray, _rng: np.random.Generator) -> np.ndarray:
        values = self.low + codes.astype(np.int64)
        if self.outside != "other":
            return values
        missing = values.astype(object)
        missing[codes == self.size - 1] = None
        return missing

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "Integer", "low": self.low, "high": self.high, "outside": self.outside}


@told
@dataclass(frozen=True, kw_only=True)
class Real:
    """A number, known by its bin.

    A bin goes from an edge up to the next, the last bin closed; values are decoded evenly inside
    it.

    >>> Real(edges=[0, 0.5, 2]).size
    2
    """

    edges: Sequence[float]
    outside: Literal["drop", "clip", "other"] = "drop"

    def __post_init__(self) -> None:
        edges = reals(self.edges, "edges of a Real")
        if len(edges) < 2 or any(a >= b for a, b in itertools.pairwise(edges)):
            raise ConfigError("edges of a Real must be two or more increasing numbers.")
        policy(self.outside, ("drop", "clip", "other"), "Real")
        object.__setattr__(self, "edges", edges)

    @property
    def holds(self) -> str:
        return "numbers"

    @property
    def size(self) -> int:
        return len(self.edges) - 1 + (self.outside == "other")

    @property
    def dtype(self) -> nw.dtypes.DType:
        return nw.Float64()

    def code(self, x: nw.Expr) -> nw.Expr:
        bins = self._search(x, 0, len(self.edges) - 1)
        if self.outside == "clip":
            return nw.when(present(x)).then(bins)
        inside = (x >= self.edges[0]) & (x <= self.edges[-1])
        return _else(nw.when(inside).then(bins), self.size - 1 if self.outside == "other" else None)

    def _search(self, x: nw.Expr, lower: int, upper: int) -> nw.Expr:
        """Search by halves, as nested cases of logarithmic depth.

        So no engine's limit on depth is met.
        """
        if upper - lower == 1:
            return nw.lit(lower, nw.Int64)
        middle = (lower + upper) // 2
        below, above = self._search(x, lower, middle), self._search(x, middle, upper)
        return nw.when(x < self.edges[middle]).then(below).otherwise(above)

    def encode(self, values: np.ndarray) -> np.ndarray:
        from tailrace.domain import kernel

        outside = self.size - 1 if self.outside == "other" else -1
        return kernel.bins(values, np.array(self.edges), self.outside == "clip", outside)

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        edges = np.array(self.edges)
        last = len(edges) - 2
        bins = np.minimum(codes, last)
        low, high = edges[bins], edges[bins + 1]
        share = rng.random(len(codes))
        # A difference of two edges might be infinite.
        values = low * (1 - share) + high * share
        # Rounding must not carry a value over its upper edge, which belongs to the next bin.
        values = np.clip(values, low, np.where(bins == last, high, np.nextafter(high, low)))
        return np.where(codes > last, np.nan, values)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "Real", "edges": list(self.edges), "outside": self.outside}


Attribute = Categorical | Integer | Real


def listed(values: Sequence[Any]) -> str:
    """The public values, for a sentence; of many the ends.

    >>> listed(["f", "m"]), listed(range(100))
    ("'f', 'm'", '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... 99')
    """
    shown = [repr(value) for value in values]
    return ", ".join(
        shown if len(shown) <= _LISTED else [*shown[: _LISTED // 2], f"... {shown[-1]}"]
    )


def reals(values: Sequence[float], name: str) -> tuple[float, ...]:
    """Finite numbers as the doubles that they equal."""
    wanted = ConfigError(f"{name} must be a list of finite numbers.")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise wanted
    given = tuple(values)
    try:
        # -0.0 becomes 0.0.
        numbers = tuple(float(value) + 0.0 for value in given if not isinstance(value, bool | str))
    except (TypeError, ValueError, OverflowError):
        raise wanted from None
    if (
        len(numbers) != len(given)
        or not all(map(math.isfinite, numbers))
        or any(map(operator.ne, numbers, given))
    ):
        raise wanted
    return numbers


def policy(outside: str, known: tuple[str, ...], name: str) -> None:
    if outside not in known:
        raise ConfigError(f"outside of {name} must be one of {', '.join(map(repr, known))}.")


def _surrogate(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _objects(values: Iterable[Any]) -> np.ndarray:
    """An object array of the values as they are.

    numpy's own text arrays drop trailing zero letters.
    """
    values = list(values)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def present(x: nw.Expr) -> nw.Expr:
    return ~x.is_null() & ~x.is_nan()


def clipped(x: nw.Expr, low: float, high: float) -> nw.Expr:
    """Clip to the bounds, NaN too, so casts cannot fail."""
    low, high = float(low), float(high)
    return (
        nw.when((x >= low) & (x <= high))
        .then(x)
        .otherwise(nw.when(x > high).then(nw.lit(high)).otherwise(nw.lit(low)))
    )


def _whole(x: nw.Expr, low: int, high: int) -> tuple[nw.Expr, nw.Expr]:
    """Whether x is whole and within bounds, and that number.

    Where it is not, the number is anything between the bounds.
    """
    # NaN is below the range on some engines, above it on others, and inside on none.
    inside = (x >= float(low)) & (x <= float(high))
    down = nw.when(inside).then(x).otherwise(nw.lit(float(low))).floor()
    return inside & (x == down), down.cast(nw.Int64)


def _members(
    values: np.ndarray, known: Sequence[float], codes: Sequence[int], outside: int
) -> np.ndarray:
    """The code of each value that is a known one."""
    from tailrace.domain import kernel

    if not known:
        return np.full(len(values), outside, np.int64)
    order = np.argsort(known)
    return kernel.members(values, np.array(known)[order], np.array(codes, np.int64)[order], outside)


def _else(case: Any, other: int | None) -> nw.Expr:
    return case if other is None else case.otherwise(nw.lit(other, nw.Int64))
