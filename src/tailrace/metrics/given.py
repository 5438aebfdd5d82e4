"""Check what metrics are given: numbers, boxes and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tailrace.errors import ConfigError, DataError
from tailrace.privacy.loss import whole

MOST = 10_000_000  # queries


@dataclass(frozen=True, eq=False)
class Blocks:
    """Boxes with both corners included."""

    _kind: ClassVar[type] = float

    low: np.ndarray  # (blocks, dimensions)
    high: np.ndarray  # (blocks, dimensions)

    def __post_init__(self) -> None:
        for side in ("low", "high"):
            name = f"{side} of {type(self).__name__}"
            object.__setattr__(self, side, numbers(name, getattr(self, side), self._kind))

    def __len__(self) -> int:
        return len(self.low)


def numbers(name: str, values: Any, kind: type = float) -> np.ndarray:
    """`values` as an array of floats, or of ints."""
    try:
        given = np.asarray(values)
    except ValueError:  # lists of different lengths
        given = np.array(None)
    if given.dtype.kind not in "biuf" or (kind is int and not np.isfinite(given).all()):
        raise DataError(f"{name} must be an array of numbers.")
    return np.ascontiguousarray(given, np.float64 if kind is float else np.int64)


def corners(low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a box that is not flat."""
    lowest, highest = numbers("low", low), numbers("high", high)
    fits = lowest.ndim == 1 and 1 <= len(lowest) <= 4 and lowest.shape == highest.shape
    if not fits or not np.isfinite(highest - lowest).all() or not (highest > lowest).all():
        raise ConfigError(
            "low and high must be the corners of a box: one to four numbers each, high above low."
        )
    return lowest, highest


def queries(number: int) -> int:
    """How many queries."""
    if whole("number", number, least=0) > MOST:
        raise ConfigError(f"number must be at most {MOST:,}.")
    return int(number)


def sides(shape: Sequence[int]) -> tuple[int, ...]:
    """The sides of a table."""
    if not isinstance(shape, list | tuple) or not shape:
        raise ConfigError(
            "shape must be the number of cells on each side of a table, for example (12, 7)."
        )
    return tuple(whole("shape", side) for side in shape)
