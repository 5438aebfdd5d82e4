"""Whether trips bring visits nearer to those that were seen, compiled."""

import numpy as np
from numba import njit


@njit(cache=True)
def _gain(passes, visits, none, weight):
    """The error removed by one more trip than `passes` through a cell.

    It is the mean weight, times the chance that more pass it less the chance that fewer do. Half of
    the chance lies below the best estimate `visits`, `none` of it at 0.
    """
    if passes < visits:
        return weight * (1.0 - 2.0 * (none + (0.5 - none) * passes / visits))
    if visits > 0:
        return weight * (visits / passes - 1.0)
    return weight * (1.0 - 2.0 * none)


@njit(cache=True)
def within(offsets, cells, leaves, groups):
    """(offsets, groups, cells in each): the different groups that trips pass.

    Trip i passes `cells` from offsets[i] up to offsets[i + 1], those beyond `leaves` nowhere; a
    cell lies in its one of `groups`.
    """
    many, size = len(offsets) - 1, groups.max() + 1
    ends, found = np.zeros(many + 1, np.int64), np.empty(len(cells), np.int64)
    inside, at = np.zeros(len(cells), np.int64), 0
    seen, place = np.full(leaves, -1), np.full(size, -1)
    for trip in range(many):
        start = at
        for k in range(offsets[trip], offsets[trip + 1]):
            cell = cells[k]
            if cell >= leaves or seen[cell] == trip:
                continue
            seen[cell] = trip
            group = groups[cell]
            # Places of trips before lie below the start.
            if place[group] < start:
                place[group], found[at] = at, group
                at += 1
            inside[place[group]] += 1
        ends[trip + 1] = at
    return ends, found[:at], inside[:at]


@njit(cache=True)
def worth(offsets, cells, order, visits, none, weight, patience, rounds):
    """(trips,) whether each trip gains more than it costs, less a part `patience` of its weights.

    Trip i passes the different cells from offsets[i] up to offsets[i + 1].
    """
    kept, passes = np.ones(len(offsets) - 1, np.bool_), np.zeros(len(visits))
    for cell in cells:
        passes[cell] += 1.0
    for _ in range(rounds):
        for trip in order:
            gain, room, own = 0.0, 0.0, 1.0 if kept[trip] else 0.0
            for k in range(offsets[trip], offsets[trip + 1]):
                cell = cells[k]
                room += weight[cell]
                gain += _gain(passes[cell] - own, visits[cell], none[cell], weight[cell])
            gain += patience * room
            if (gain > 0) != kept[trip]:
                kept[trip] = gain > 0
                for k in range(offsets[trip], offsets[trip + 1]):
                    passes[cells[k]] += 1.0 if kept[trip] else -1.0
    return kept
