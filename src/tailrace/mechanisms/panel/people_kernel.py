"""Give each synthetic person its next value, as compiled loops."""

import numpy as np
from numba import njit


@njit(cache=True, inline="always")
def _mixed(x):
    """SplitMix64's finaliser: public, spreads choices evenly."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True)
def spread(seed, step, many):
    """Draw a number below 2^32 for each place."""
    out = np.empty(many, np.int64)
    start = _mixed(np.uint64(seed) + np.uint64(step) * np.uint64(0x9E3779B97F4A7C15))
    for i in range(many):
        out[i] = np.int64(
            _mixed(start + np.uint64(i + 1) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
        )
    return out


@njit(cache=True)
def extend(groups, left, seed, step, factor, modulus, out):
    """Choose a value for each person.

    `left[g, c]` people of group g get c; each choice of people is as likely as any other. Person
    after person takes one of the places that its group has left, so the counts come out exactly;
    `left` is used up. A group becomes (group * factor + value) % modulus.
    """
    start = _mixed(np.uint64(seed) + np.uint64(step) * np.uint64(0x9E3779B97F4A7C15))
    totals = np.zeros(len(left), np.int64)
    for g in range(len(left)):
        for c in range(left.shape[1]):
            totals[g] += left[g, c]
    for i in range(len(groups)):
        g = groups[i]
        drawn = _mixed(start + np.uint64(i + 1) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
        place = np.int64((drawn * np.uint64(totals[g])) >> np.uint64(32))
        value = 0
        while place >= left[g, value]:
            place -= left[g, value]
            value += 1
        left[g, value] -= 1
        totals[g] -= 1
        out[i] = value
        groups[i] = (g * factor + value) % modulus
