"""An attribute whose values are added up, in whole units."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Literal

import narwhals as nw
import numpy as np

from tailrace.calls import told
from tailrace.domain.attributes import Coded, clipped, policy, present
from tailrace.errors import ConfigError

# Units from low to high at most: a code has 31 bits, and wider noise cannot be drawn.
MOST_UNITS = 10**9
# Of a bound, far above what its units allow.
_LARGEST = 1e300
# Units of a bound at most, so that doubles tell halves of a unit apart by far.
_FINEST = 2**45


@told
@dataclass(frozen=True)
class Amount(Coded):
    """A number that is added up: clipped to [low, high], in whole units.

    A value is rounded to the nearest multiple of `unit` above `low`; its code is how many. So an
    event moves a sum of codes by at most `bound`, which noise is scaled by: choose `high` where
    few values lie above, and `unit` as coarse as totals may be.

    Parameters
    low, high: the least and the greatest value; others are clipped, or drop their row.
    unit: totals are in multiples of it, for example 0.01 for cents.
    outside: "clip" or "drop"; a row whose amount is missing is not counted.

    >>> Amount(0, 500, unit=0.5).bound
    1000
    """

    low: float
    high: float
    _: KW_ONLY
    unit: float = 1
    outside: Literal["clip", "drop"] = "clip"

    def __post_init__(self) -> None:
        for name in ("low", "high", "unit"):
            value = getattr(self, name)
            number = isinstance(value, int | float | np.integer | np.floating)
            # A whole number may be beyond all doubles.
            if not number or isinstance(value, bool) or not -_LARGEST <= value <= _LARGEST:
                raise ConfigError(f"{name} of an Amount must be a finite number.")
            # As Python's own number; -0.0 becomes 0.0.
            plain = value.item() if isinstance(value, np.generic) else value
            object.__setattr__(self, name, plain + 0)
        policy(self.outside, ("clip", "drop"), "Amount")
        if not self.low < self.high or self.unit <= 0:
            raise ConfigError("low of an Amount must lie below its high, and its unit above 0.")
        low, high, unit = self._exact
        units = (high - low) / unit
        if units.denominator != 1 or units > MOST_UNITS:
            raise ConfigError(
                "high of an Amount must lie a whole number of units above its low, at most "
                f"{MOST_UNITS:,}: for example Amount(0, 500, unit=0.01)."
            )
        if max(abs(low), abs(high)) / unit > _FINEST:
            raise ConfigError("unit of an Amount is too small beside its low and high.")

    @property
    def _exact(self) -> tuple[Fraction, Fraction, Fraction]:
        """low, high and unit as their decimals say."""
        low, high, unit = (Fraction(repr(value)) for value in (self.low, self.high, self.unit))
        return low, high, unit

    @property
    def bound(self) -> int:
        """The units from `low` to `high`: how far one event moves a sum."""
        low, high, unit = self._exact
        return int((high - low) / unit)

    @property
    def size(self) -> int:
        return self.bound + 1

    @property
    def holds(self) -> str:
        return "numbers"

    @property
    def dtype(self) -> nw.dtypes.DType:
        return nw.Float64()

    @property
    def _grid(self) -> tuple[float, float]:
        """Half a unit below `low`, and units in 1.

        Values halfway between two multiples are the ends of a code's interval, so that rounding
        of doubles moves no multiple into another code.
        """
        low, _, unit = self._exact
        return float(low - unit / 2), float(1 / unit)

    def code(self, x: nw.Expr) -> nw.Expr:
        low, high = float(self.low), float(self.high)
        start, scale = self._grid
        inside = present(x) if self.outside == "clip" else (x >= low) & (x <= high)
        units = ((clipped(x, low, high) - start) * scale).floor().cast(nw.Int64)
        return nw.when(inside).then(units)

    def encode(self, values: np.ndarray) -> np.ndarray:
        from tailrace.domain import kernel

        start, scale = self._grid
        low, high = float(self.low), float(self.high)
        return kernel.units(values, low, high, start, scale, self.outside == "clip")

    def decode(self, codes: np.ndarray, _rng: np.random.Generator) -> np.ndarray:
        return np.clip(self.low + codes * float(self.unit), self.low, self.high)
