"""Pure functions of released numbers, at no privacy cost."""

from __future__ import annotations

import numpy as np


def on_simplex(values: np.ndarray, total: float) -> np.ndarray:
    """The nearest nonnegative numbers of sum `total`.

    Nearest in squares. Clipping each value alone would keep every upward error and drop every
    downward one; here all are lowered by the same amount and then clipped, so the sum stays where
    the measurements put it.

    >>> on_simplex(np.array([3.0, -1.0, 2.0]), 4.0)
    array([2.5, 0. , 1.5])
    """
    if total <= 0 or not values.size:
        return np.zeros(values.shape)
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    # At least the largest: it may be so large that the total is lost beside it.
    kept = max(np.count_nonzero(falling > excess), 1)
    return np.maximum(values - excess[kept - 1], 0.0)


def rounded(values: np.ndarray) -> np.ndarray:
    """Round nonnegative values to integers with the rounded sum.

    Each is within one of its own value: largest remainders round up.

    >>> rounded(np.array([0.6, 0.6, 0.8]))
    array([1, 0, 1])
    """
    low = np.floor(values).astype(np.int64)
    missing = int(np.rint(values.sum())) - int(low.sum())
    first = np.argsort(-(values - low), kind="stable")[:missing]
    low[first] += 1
    return low
