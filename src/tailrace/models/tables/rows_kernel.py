"""Deal values of one column to rows, as compiled loops."""

import numpy as np
from numba import njit


@njit(cache=True)
def deal(groups, shares, given, sizes, values, wanted, rng):
    """Give each row a value of this column, in place.

    Returns which rows kept theirs. A value of -1 says that a row has none yet.

    1. Rows of one group agree in all columns that this one is drawn from; `shares` has the
       distribution for each group.
    2. A group's exact counts are rounded so that each stays within about one.
    3. The next group that shares a value of a given column makes up for the rounding, so that the
       joint counts with every single given column stay close as well.

    Where `wanted` is not negative, all rows are one group, and `wanted` of them get a value; the
    others end with -1.
    """
    width, columns = shares.shape[1], given.shape[1]
    order, starts = _sorted(groups, len(shares))
    kept = values >= 0
    # `owed` is expected minus given so far.
    owed, first = np.zeros((sizes.sum(), width)), np.zeros(columns, np.int64)
    for j in range(1, columns):
        first[j] = first[j - 1] + sizes[j - 1]
    have, keep, final = (
        np.zeros(width, np.int64),
        np.zeros(width, np.int64),
        np.zeros(width, np.int64),
    )
    low, high, target = np.zeros(width, np.int64), np.zeros(width, np.int64), np.zeros(width)
    free = np.empty(len(groups), np.int64)
    for group in range(len(shares)):
        begin, end = starts[group], starts[group + 1]
        if begin == end:
            continue
        count = wanted if wanted >= 0 else end - begin
        have[:] = 0
        for i in range(begin, end):
            if kept[order[i]]:
                have[values[order[i]]] += 1
        for v in range(width):
            target[v] = count * shares[group, v]
        for j in range(columns if columns > 1 else 0):
            row = first[j] + given[order[begin], j]
            for v in range(width):
                target[v] += owed[row, v] / columns
        _bounds(target, shares[group], count, low, high)
        _round(target, shares[group], count, have, low, high, keep, final, rng)
        for j in range(columns if columns > 1 else 0):
            row = first[j] + given[order[begin], j]
            for v in range(width):
                owed[row, v] += count * shares[group, v] - final[v]
        _assign(order[begin:end], keep, final, values, kept, free, rng)
    return kept


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


@njit(cache=True)
def _assign(rows, keep, final, values, kept, free, rng):
    """Keep values from a random row on; shuffle the rest."""
    waiting, skip = 0, np.int64(rng.random() * len(rows))
    for i in range(len(rows)):
        row = rows[(i + skip) % len(rows)]
        if kept[row] and keep[values[row]] > 0:
            keep[values[row]] -= 1
            final[values[row]] -= 1
        else:
            kept[row] = False
            free[waiting] = row
            waiting += 1
    for i in range(waiting - 1, 0, -1):
        j = np.int64(rng.random() * (i + 1))
        free[i], free[j] = free[j], free[i]
    for v in range(len(final)):
        for _ in range(final[v]):
            waiting -= 1
            values[free[waiting]] = v
    for i in range(waiting):
        values[free[i]] = -1


@njit(cache=True)
def _sorted(groups, count):
    """(order, starts): the rows of each group, by counting sort."""
    starts = np.zeros(count + 1, np.int64)
    for group in groups:
        starts[group + 1] += 1
    for group in range(count):
        starts[group + 1] += starts[group]
    order, following = np.empty(len(groups), np.int64), starts[:-1].copy()
    for row in range(len(groups)):
        order[following[groups[row]]] = row
        following[groups[row]] += 1
    return order, starts
