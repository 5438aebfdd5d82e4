"""Distances of a snapshot, as compiled loops."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# The divergence counts thousandths of a person.
_PARTS = 1000


@njit(cache=True)
def distance(counts, estimates):  # pragma: no cover (compiled)
    """The 1-norm of counts less rounded estimates, in integers."""
    total = np.int64(0)
    for i in range(len(counts)):
        total += abs(counts[i] - np.int64(np.rint(estimates[i])))
    return total


@njit(cache=True)
def largest(counts, estimates):  # pragma: no cover (compiled)
    """The largest of |counts less rounded estimates|, in integers."""
    most = np.int64(0)
    for i in range(len(counts)):
        most = max(most, abs(counts[i] - np.int64(np.rint(estimates[i]))))
    return most


@njit(cache=True)
def divergence(counts, estimates):  # pragma: no cover (compiled)
    """The divergence sum h ln(h / g) - h + g of counts h from estimates g, in integers.

    A record more adds ln((h + 1/2) / g), rounded to thousandths and cut to at most one: the slope
    of the divergence, so that one record moves it by at most one, exactly.
    """
    total = np.int64(0)
    for i in range(len(counts)):
        g = max(np.int64(1), np.int64(np.rint(estimates[i])))
        low, high = min(g, counts[i]), max(g, counts[i])
        part = np.int64(0)
        for h in range(low, high):
            slope = np.int64(np.rint(_PARTS * math.log((h + 0.5) / g)))
            part += min(_PARTS, max(-_PARTS, slope))
        total += part if counts[i] > g else -part
    return total // _PARTS
