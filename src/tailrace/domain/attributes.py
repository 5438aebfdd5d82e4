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

import abc
import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
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
# Values that a growing list takes up: as many as True stands for, and at most. By reasoning: every
# one has bins of its own from the first step.
_ROOM, _MOST_ROOM = 100, 10_000
# Values in a sentence.
_LISTED = 20


class Coded(abc.ABC):
    """What attributes share: the last code where one stands for all outside."""

    outside: Any  # each has its own policies

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number of codes."""

    @property
    def _other(self) -> int | None:
        return self.size - 1 if self.outside == "other" else None

    @property
    def _outside(self) -> int:
        return self.size - 1 if self.outside == "other" else -1

    def to_dict(self) -> dict[str, Any]:
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.init}  # type: ignore[arg-type]
        plain = {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}
        return {"kind": type(self).__name__, **plain}


@told
@dataclass(frozen=True)
class Categorical(Coded):
    """One of a list of texts, whole numbers or booleans.

    A `growing` list of texts takes up values that nobody declared, once enough rows have them
    (`mechanisms/shared/growth.py`): at most so many, 100 for True. Until then they are `other`.

    >>> Categorical(["f", "m"], outside="other").size
    3
    """

    values: Sequence[str] | Sequence[int] | Sequence[bool]
    _: KW_ONLY
    outside: Literal["drop", "other"] = "drop"
    growing: bool | int = False
    # Compared too: the values 0 and 1 equal False and True.
    holds: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.values, str) or not isinstance(self.values, Iterable):
            raise ConfigError(
                "Categorical takes a list of its values, for example Categorical(['f', 'm'])."
            )
        values = tuple(v.item() if isinstance(v, np.generic) else v for v in self.values)
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
        room = self.growing
        if not isinstance(room, bool | int) or not 0 <= room <= _MOST_ROOM:
            raise ConfigError(
                "growing must be True, False or the most values that may be taken up, up to "
                f"{_MOST_ROOM:,}."
            )
        if room and (kind is not str or self.outside != "other"):
            raise ConfigError(
                "growing is for a Categorical of texts with outside='other': a value counts as "
                "other until it is taken up."
            )
        holds = {str: "text", int: "whole numbers", bool: "booleans"}
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "holds", holds[kind])

    @property
    def room(self) -> int:
        """How many values may be taken up."""
        return _ROOM if self.growing is True else int(self.growing)

    @property
    def size(self) -> int:
        return len(self.values) + (self.outside == "other") + self.room

    @property
    def _other(self) -> int | None:
        return len(self.values) if self.outside == "other" else None

    @property
    def _outside(self) -> int:
        return -1 if self._other is None else self._other

    @property
    def texts(self) -> dict[str, int]:
        """The code of each known text."""
        return {str(value): code for code, value in enumerate(self.values)}

    def to_dict(self) -> dict[str, Any]:
        plain = super().to_dict()
        if not self.growing:
            del plain["growing"]
        return plain

    @property
    def dtype(self) -> nw.dtypes.DType:
        types = {"text": nw.String(), "whole numbers": nw.Int64(), "booleans": nw.Boolean()}
        return types[self.holds]

    def code(self, x: nw.Expr) -> nw.Expr:
        known = {int(value): code for code, value in enumerate(self.values)}
        inside, whole = _whole(x, min(known), max(known))
        return _else(nw.when(inside).then(_mapped(whole, known, self._other)), self._other)

    def encode(self, values: np.ndarray) -> np.ndarray:
        known = {float(value): code for code, value in enumerate(self.values)}
        return _members(values, known, self._outside)

    def code_number(self, number: nw.Expr) -> nw.Expr:
        """The code of the declared text that spells a number."""
        if not self.spelt:
            never = number.is_null() & ~number.is_null()
            return _else(nw.when(never).then(nw.lit(0, nw.Int64)), self._other)
        # -0.0 becomes 0.0, which every engine finds.
        return _mapped(number + 0.0, self.spelt, self._other)

    def code_text(self, text: nw.Expr) -> nw.Expr:
        """The code of the declared text that a text spells."""
        bare = text.str.strip_chars(cells.BLANKS) if self.trimmed else text
        if not self.spelt:
            return _mapped(bare, self._codes, self._other)
        code = _mapped(bare, self._codes, None)
        rest = self.code_number(cells.number_there(text, words={}))
        return nw.when(~code.is_null()).then(code).otherwise(rest)

    def encode_number(self, values: np.ndarray) -> np.ndarray:
        """As `code_number`, of numbers in memory."""
        return _members(values, self.spelt, self._outside)

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
        return all(value == value.strip(cells.BLANKS) for value in self.texts)

    @functools.cached_property
    def _codes(self) -> dict[str, int]:
        """The code of each declared text.

        Also of true and false, where one declared text is a word for it: some readers make booleans
        of the words, "f" too.
        """
        declared, found = self.texts, {}
        for word, meaning in cells.TRUE_FALSE.items():
            meant = [c for text, c in declared.items() if cells.YES_NO.get(text.lower()) == meaning]
            if len(meant) == 1:
                found |= dict.fromkeys((word, word.title(), word.upper()), meant[0])
        return found | declared

    @functools.cached_property
    def spelt(self) -> dict[float, int]:
        """The code of each number that one declared text spells."""
        import polars as pl

        texts = pl.Series(list(self.texts), dtype=pl.String)
        numbers = cells.number(texts, words={}).fill_nan(None).to_list()
        many = Counter(numbers)
        return {
            number + 0.0: code
            for (text, code), number in zip(self.texts.items(), numbers, strict=True)
            if number is not None and (many[number] == 1 or text == f"{number:.0f}")
        }

    def decode(self, codes: np.ndarray, _rng: np.random.Generator) -> np.ndarray:
        if self.outside == "other":
            return _objects([*self.values, None, *[None] * self.room])[codes]
        return (_objects(self.values) if self.holds == "text" else np.array(self.values))[codes]


@told
@dataclass(frozen=True)
class Integer(Coded):
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
            integral = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not integral or abs(int(value)) > EXACT:
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
            down = clipped(x, self.low, self.high).floor().cast(nw.Int64)
            return nw.when(present(x)).then(down - self.low)
        inside, whole = _whole(x, self.low, self.high)
        return _else(nw.when(inside).then(whole - self.low), self._other)

    def encode(self, values: np.ndarray) -> np.ndarray:
        from tailrace.domain import kernel

        low, high = float(self.low), float(self.high)
        return kernel.integers(values, low, high, self.outside == "clip", self._outside)

    def decode(self, codes: np.ndarray, _rng: np.random.Generator) -> np.ndarray:
        values = self.low + codes.astype(np.int64)
        if self.outside != "other":
            return values
        missing = values.astype(object)
        missing[codes == self.size - 1] = None
        return missing


@told
@dataclass(frozen=True, kw_only=True)
class Real(Coded):
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
        return _else(nw.when(inside).then(bins), self._other)

    def _search(self, x: nw.Expr, lower: int, upper: int) -> nw.Expr:
        """Search by halves: nested cases that no engine finds too deep."""
        if upper - lower == 1:
            return nw.lit(lower, nw.Int64)
        middle = (lower + upper) // 2
        below, above = self._search(x, lower, middle), self._search(x, middle, upper)
        return nw.when(x < self.edges[middle]).then(below).otherwise(above)

    def encode(self, values: np.ndarray) -> np.ndarray:
        from tailrace.domain import kernel

        return kernel.bins(values, np.array(self.edges), self.outside == "clip", self._outside)

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


def listed(values: Sequence[Any]) -> str:
    """The public values, for a sentence; of many the ends.

    >>> listed(["f", "m"]), listed(range(100))
    ("'f', 'm'", '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... 99')
    """
    shown = [repr(value) for value in values]
    if len(shown) > _LISTED:
        shown = [*shown[: _LISTED // 2], f"... {shown[-1]}"]
    return ", ".join(shown)


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
    # None was left out or rounded.
    if numbers != given or not all(map(math.isfinite, numbers)):
        raise wanted
    return numbers


def policy(outside: str, known: tuple[str, ...], name: str) -> None:
    if outside not in known:
        raise ConfigError(f"outside of {name} must be one of {', '.join(map(repr, known))}.")


def _surrogate(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _objects(values: Iterable[Any]) -> np.ndarray:
    """An object array: numpy's text arrays drop trailing zero letters."""
    values = list(values)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def present(x: nw.Expr) -> nw.Expr:
    return ~x.is_null() & ~x.is_nan()


def clipped(x: nw.Expr, low: float, high: float) -> nw.Expr:
    """Clip to the bounds, NaN too, so casts cannot fail."""
    low, high = float(low), float(high)
    beyond = nw.when(x > high).then(nw.lit(high)).otherwise(nw.lit(low))
    return nw.when((x >= low) & (x <= high)).then(x).otherwise(beyond)


def _whole(x: nw.Expr, low: int, high: int) -> tuple[nw.Expr, nw.Expr]:
    """Whether x is whole and within bounds, and then the number."""
    # NaN is below the range on some engines, above it on others, and inside on none.
    inside = (x >= float(low)) & (x <= float(high))
    down = nw.when(inside).then(x).otherwise(nw.lit(float(low))).floor()
    return inside & (x == down), down.cast(nw.Int64)


def _members(values: np.ndarray, codes: dict[float, int], outside: int) -> np.ndarray:
    """The code of each value that is a known one."""
    from tailrace.domain import kernel

    if not codes:
        return np.full(len(values), outside, np.int64)
    known = np.array(sorted(codes))
    numbers = np.array([codes[value] for value in known.tolist()], np.int64)
    return kernel.members(values, known, numbers, outside)


def _mapped(x: nw.Expr, codes: Mapping[Any, int], other: int | None) -> nw.Expr:
    """The code of each value that is a known one, as an expression."""
    known, numbers = list(codes), list(codes.values())
    return x.replace_strict(known, numbers, default=other, return_dtype=nw.Int64)


def _else(case: Any, other: int | None) -> nw.Expr:
    return case if other is None else case.otherwise(nw.lit(other, nw.Int64))
