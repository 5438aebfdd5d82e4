"""Sparse counts of units, in public fractions of one unit.

One unit is `WHOLE` parts, or fewer where a mechanism's noise would be too large for so many. Counts
are additive over trajectories.

1. Whatever is counted, one unit adds nonnegative parts, no more than its whole in all.
2. So the 1-norm of what one unit changes is at most the whole.
3. The 2-norm is at most the 1-norm, so it has the same bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.errors import DataError

# Parts of one unit: for most budgets, and at least. Chosen by reasoning: a millionth of a unit is
# exact enough; the whole is halved while the noise for it is beyond the sampler's range.
WHOLE, LEAST = 1 << 20, 1 << 10


@dataclass(frozen=True, eq=False)
class Masses:
    """The parts at some codes; none at all others.

    Codes are sorted and distinct.

    >>> (Masses(np.array([3, 8]), np.array([1, 2])) + Masses(np.array([8]), np.array([5]))).parts
    array([1, 7])
    """

    codes: np.ndarray  # (codes,) int64
    parts: np.ndarray  # (codes,) int64

    def __post_init__(self) -> None:
        for name in ("codes", "parts"):
            values = np.asarray(getattr(self, name))
            if values.dtype.kind not in "iu" or values.ndim != 1:
                raise DataError(f"{name} of masses must be whole numbers, in one dimension.")
            object.__setattr__(self, name, values.astype(np.int64, copy=False))
        if self.codes.shape != self.parts.shape:
            raise DataError("Masses have as many parts as codes.")

    @classmethod
    def none(cls) -> Masses:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    @classmethod
    def of(cls, codes: np.ndarray, parts: np.ndarray) -> Masses:
        """Add up parts at codes in any order, with repeats."""
        order = np.argsort(codes, kind="stable")
        codes, parts = codes[order], parts[order]
        first = np.flatnonzero(np.diff(codes, prepend=-1))
        return cls(codes[first], np.add.reduceat(parts, first) if len(first) else parts)

    @classmethod
    def held(cls, dense: np.ndarray) -> Masses:
        """The entries of an array that are not 0."""
        codes = np.flatnonzero(dense)
        return cls(codes, dense[codes])

    def dense(self, size: int) -> np.ndarray:
        """An array with an entry for every code below `size`."""
        found = np.zeros(size, np.int64)
        found[self.codes] = self.parts
        return found

    def __add__(self, other: Masses) -> Masses:
        if not isinstance(other, Masses):
            return NotImplemented
        codes = np.concatenate([self.codes, other.codes])
        return Masses.of(codes, np.concatenate([self.parts, other.parts]))
