"""Count points and trajectories, as compiled loops."""

import numpy as np
from numba import njit


@njit(cache=True, inline="always")
def _coordinate(x, low, scale, side):
    """The place of a coordinate on the grid.

    Points and edges go through the same operations, so that rounding puts both on the same side; it
    is monotone in x.
    """
    scaled = (x - low) * scale
    if not scaled > 0:
        return 0
    return side - 1 if scaled >= side else np.int64(scaled)


@njit(cache=True)
def place(points, low, scale, side):
    """The cell of each point, the last dimension changing fastest."""
    cells = np.empty(len(points), np.int64)
    for i in range(len(points)):
        cell = 0
        for d in range(points.shape[1]):
            cell = cell * side + _coordinate(points[i, d], low[d], scale[d], side)
        cells[i] = cell
    return cells


@njit(cache=True)
def in_order(points, cells, starts):
    """The points sorted by cell."""
    ordered, following = np.empty_like(points), starts[:-1].copy()
    for i in range(len(points)):
        ordered[following[cells[i]]] = points[i]
        following[cells[i]] += 1
    return ordered


@njit(cache=True)
def _inside(points, first, last, low, high):
    """Count the points `first` to `last` between the corners."""
    found = 0
    for i in range(first, last):
        inside = True
        for d in range(points.shape[1]):
            if points[i, d] < low[d] or points[i, d] > high[d]:
                inside = False
                break
        found += inside
    return found


@njit(cache=True)
def count(points, starts, origin, scale, side, low, high):
    """Count the points in each rectangle.

    Whole runs of inner cells are counted by their offsets, cells on the edge point by point.
    """
    rectangles, dimensions = low.shape
    counts = np.zeros(rectangles, np.int64)
    first, last, at = np.empty((3, dimensions), np.int64)
    for r in range(rectangles):
        empty = False
        for d in range(dimensions):
            first[d] = _coordinate(low[r, d], origin[d], scale[d], side)
            last[d] = _coordinate(high[r, d], origin[d], scale[d], side)
            empty |= not low[r, d] <= high[r, d]
            at[d] = first[d]
        if empty:
            continue
        final, found = dimensions - 1, 0
        while True:
            row, edge = 0, False
            for d in range(final):
                row = row * side + at[d]
                edge |= at[d] == first[d] or at[d] == last[d]
            row *= side
            left, right = row + first[final], row + last[final]
            if edge or last[final] - first[final] < 2:
                found += _inside(points, starts[left], starts[right + 1], low[r], high[r])
            else:
                found += starts[right] - starts[left + 1]
                found += _inside(points, starts[left], starts[left + 1], low[r], high[r])
                found += _inside(points, starts[right], starts[right + 1], low[r], high[r])
            d = final - 1
            while d >= 0 and at[d] == last[d]:
                at[d] = first[d]
                d -= 1
            if d < 0:
                break
            at[d] += 1
        counts[r] = found
    return counts


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
def _meets(x, y, other_x, other_y, low, high):
    """Whether a straight line and a rectangle share a point.

    The line is cut to each side in turn (Liang and Barsky 1984).
    """
    enters, leaves = 0.0, 1.0
    for axis in range(2):
        start, stop = (x, other_x) if axis == 0 else (y, other_y)
        along = stop - start
        if along == 0:
            if start < low[axis] or start > high[axis]:
                return False
            continue
        one, other = (low[axis] - start) / along, (high[axis] - start) / along
        enters, leaves = max(enters, min(one, other)), min(leaves, max(one, other))
    return enters <= leaves


@njit(cache=True)
def crossing(offsets, x, y, low, high):
    """The number of trajectories whose lines meet each rectangle."""
    counts = np.zeros(len(low), np.int64)
    for i in range(len(offsets) - 1):
        first, last = offsets[i], offsets[i + 1]
        left, right = x[first:last].min(), x[first:last].max()
        bottom, top = y[first:last].min(), y[first:last].max()
        for r in range(len(low)):
            if right < low[r, 0] or left > high[r, 0] or top < low[r, 1] or bottom > high[r, 1]:
                continue
            for k in range(first, max(last - 1, first + 1)):
                end = min(k + 1, last - 1)
                if _meets(x[k], y[k], x[end], y[end], low[r], high[r]):
                    counts[r] += 1
                    break
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
                across = own_x[corners[a]] - own_x[corners[b]]
                along = own_y[corners[a]] - own_y[corners[b]]
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
