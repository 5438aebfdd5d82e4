"""The distance of a snapshot, as a compiled loop."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def distance(counts, estimates):  # pragma: no cover (compiled)
    """The 1-norm of counts less rounded estimates, in integers."""
    total = np.int64(0)
    for i in range(len(counts)):
        total += abs(counts[i] - np.int64(np.rint(estimates[i])))
    return total
