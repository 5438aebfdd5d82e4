"""Count over trajectories, as compiled loops."""

import numpy as np
from numba import njit

from tailrace.metrics.kernel import _coordinate


@njit(cache=True)
def pattern_codes(offsets, cells, length, base):
    """The run of `length` cells from every point, as number.

    A number has the digits cell + 1 to the base; runs that do not fit in are left out.
    """
    number = 0
    for i in range(len(offsets) - 1):
        number += max(0, offsets[i + 1] - offsets[i] - length + 1)
    codes, at = np.empty(number, np.int64), 0
    for i in range(len(offsets) - 1):
        for start in range(offsets[i], offsets[i + 1] - length + 1):
            code = 0
            for k in range(start, start + length):
                code = code * base + cells[k] + 1
            codes[at] = code
            at += 1
    return codes


@njit(cache=True)
def visits(offsets, cells, number):
    """The number of trajectories with a point in each cell."""
    counts, seen = np.zeros(number, np.int64), np.full(number, -1, np.int64)
    for i in range(len(offsets) - 1):
        for k in range(offsets[i], offsets[i + 1]):
            if seen[cells[k]] != i:
                seen[cells[k]] = i
                counts[cells[k]] += 1
    return counts


@njit(cache=True)
def passing(points, owner, starts, origin, scale, side, low, high, trajectories):
    """The number of trajectories with a point in each rectangle."""
    counts, seen = np.zeros(len(low), np.int64), np.full(trajectories, -1, np.int64)
    for r in range(len(low)):
        left = _coordinate(low[r, 1], origin[1], scale[1], side)
        right = _coordinate(high[r, 1], origin[1], scale[1], side)
        first = _coordinate(low[r, 0], origin[0], scale[0], side)
        last = _coordinate(high[r, 0], origin[0], scale[0], side)
        for row in range(first, last + 1):
            for k in range(starts[row * side + left], starts[row * side + right + 1]):
                if (
                    low[r, 0] <= points[k, 0] <= high[r, 0]
                    and low[r, 1] <= points[k, 1] <= high[r, 1]
                    and seen[owner[k]] != r
                ):
                    seen[owner[k]] = r
                    counts[r] += 1
    return counts


@njit(cache=True)
def _hull(x, y, corners):
    """Write the convex hull's corners (Andrew); return how many."""
    order = np.argsort(x)
    # Equal x in the order of y; runs of equal x are short.
    for k in range(1, len(order)):
        moved, j = order[k], k
        while j > 0 and x[order[j - 1]] == x[moved] and y[order[j - 1]] > y[moved]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = moved
    number = 0
    for turn in range(2):
        floor = number
        for step in range(len(order)):
            k = order[step] if turn == 0 else order[len(order) - 1 - step]
            while number >= floor + 2:
                a, b = corners[number - 2], corners[number - 1]
                if (x[b] - x[a]) * (y[k] - y[a]) - (y[b] - y[a]) * (x[k] - x[a]) > 0:
                    break
                number -= 1
            corners[number] = k
            number += 1
    return number


@njit(cache=True)
def diameters(offsets, x, y):
    """The largest distance within each trajectory, over its hull."""
    found = np.zeros(len(offsets) - 1)
    for i in range(len(offsets) - 1):
        first, last = offsets[i], offsets[i + 1]
        corners = np.empty(2 * (last - first), np.int64)
        own_x, own_y = x[first:last], y[first:last]
        number = _hull(own_x, own_y, corners)
        for a in range(number):
            for b in range(a):
                across, along = (
                    own_x[corners[a]] - own_x[corners[b]],
                    own_y[corners[a]] - own_y[corners[b]],
                )
                found[i] = max(found[i], np.sqrt(across * across + along * along))
    return found


@njit(cache=True)
def lengths(offsets, x, y):
    """The distance travelled along each trajectory."""
    found = np.zeros(len(offsets) - 1)
    for i in range(len(offsets) - 1):
        for k in range(offsets[i] + 1, offsets[i + 1]):
            found[i] += np.sqrt((x[k] - x[k - 1]) ** 2 + (y[k] - y[k - 1]) ** 2)
    return found
