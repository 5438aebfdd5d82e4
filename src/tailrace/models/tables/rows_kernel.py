"""Deal values of one column to rows, as compiled loops."""

import numpy as np
from numba import njit


@njit(cache=True)
def dealt(have, waiting, shares, sizes, rows, first, rng):
    """Decide how many rows of each group get each value.

    Returns (keep, final), (groups, values): rows that keep a value, and all that have it then.

    1. Rows of one group agree in all columns that this one is drawn from; `shares` has the
       distribution for each group. `have` rows have a value, and `waiting` have none yet.
    2. A group's exact counts are rounded so that each stays within about one.
    3. The next group that shares a value of a given column makes up for the rounding, so that the
       joint counts with every single given column stay close as well.

    For the `first` column all rows are one group, and `rows` of them get a value.
    """
    width, columns = shares.shape[1], len(sizes)
    keep, final = np.zeros(shares.shape, np.int64), np.zeros(shares.shape, np.int64)
    # `owed` is expected minus given so far, by given column and its value.
    owed, row = np.zeros((sizes.sum(), width)), np.zeros(columns, np.int64)
    low, high, target = np.zeros(width, np.int64), np.zeros(width, np.int64), np.zeros(width)
    for group in range(len(shares)):
        count = rows if first else have[group].sum() + waiting[group]
        if count == 0 and have[group].sum() == 0:
            continue
        for v in range(width):
            target[v] = count * shares[group, v]
        if columns > 1:
            rest, begin = group, sizes.sum()
            for j in range(columns - 1, -1, -1):
                begin -= sizes[j]
                row[j] = begin + rest % sizes[j]
                rest //= sizes[j]
                for v in range(width):
                    target[v] += owed[row[j], v] / columns
        _bounds(target, shares[group], count, low, high)
        _round(target, shares[group], count, have[group], low, high, keep[group], final[group], rng)
        if columns > 1:
            for j in range(columns):
                for v in range(width):
                    owed[row[j], v] += count * shares[group, v] - final[group, v]
    return keep, final


@njit(cache=True)
def _bounds(target, shares, count, low, high):
    """The least and the most rows for each value.

    They are within one of the target, or a little more where that is impossible.
    """
    slack = 1.0
    while True:
        least, most = 0, 0
        for v in range(len(target)):
            possible = shares[v] > 0.0
            low[v] = max(np.int64(np.ceil(target[v] - slack)), 0) if possible else 0
            high[v] = max(np.int64(np.floor(target[v] + slack)), 0) if possible else 0
            least += low[v]
            most += high[v]
        if least <= count <= most or slack > count + 2:
            return
        slack += 0.5


@njit(cache=True)
def _round(target, shares, count, have, low, high, keep, final, rng):
    """Decide how many rows `keep` each value, and `final` counts.

    The remaining rows are dealt at random, in proportion to the missing counts.
    """
    left = count
    for v in range(len(target)):
        keep[v] = min(have[v], high[v])
        final[v] = max(keep[v], low[v])
        left -= final[v]
    # More are due elsewhere than rows are free: take from the values most in surplus.
    while left < 0:
        worst = -1
        for v in range(len(target)):
            if final[v] > low[v] and (
                worst < 0 or final[v] - target[v] > final[worst] - target[worst]
            ):
                worst = v
        if worst < 0:
            worst = np.argmax(final)
        final[worst] -= 1
        keep[worst] = min(keep[worst], final[worst])
        left += 1
    if left == 0:
        return
    missing = 0.0
    for v in range(len(target)):
        if shares[v] > 0.0:
            missing += max(target[v] - final[v], 0.0)
    along, before, offset = 0.0, 0, rng.random()
    for v in range(len(target)):
        if missing > 0 and shares[v] > 0.0:
            along += max(target[v] - final[v], 0.0) / missing * left
        elif missing == 0:
            along += shares[v] * left
        reached = min(np.int64(np.floor(along + offset)), left)
        final[v] += reached - before
        before = reached
    # Only rounding of floats leads here.
    if before < left:
        final[np.argmax(shares)] += left - before
