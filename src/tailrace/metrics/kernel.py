"""Count points in rectangles, as compiled loops."""

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
    first, last, at = (
        np.empty(dimensions, np.int64),
        np.empty(dimensions, np.int64),
        np.empty(dimensions, np.int64),
    )
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
