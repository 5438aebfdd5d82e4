"""Compiled loops over cells: strips, draws, nearest cells."""

import numpy as np
from numba import njit

# Of a cell: a narrower strip is rounding, not geometry. Chosen by reasoning: far above the
# precision of doubles, far below LEAST in parts.py.
THIN = 1e-12


@njit(cache=True)
def strips(offsets, start, end):
    """Cut cells into upright strips between the ends of pieces.

    The pieces from offsets[i] to offsets[i + 1] lie in cell i. No two borders of a valid polygon
    cross within a strip.

    Returns two tuples of arrays:

    1. For each strip its cell, its left side and its right side.
    2. The levels of all strips, from bottom to top: the strip and the heights at both sides. They
       are its floor (0, 0), the pieces that run through it, and its ceiling (1, 1).
    """
    cells, lefts, rights = [0][:0], [0.0][:0], [0.0][:0]
    owners, at_left, at_right = [0][:0], [0.0][:0], [0.0][:0]
    for cell in range(len(offsets) - 1):
        here = slice(offsets[cell], offsets[cell + 1])
        a, b = start[here], end[here]
        sides = np.sort(np.concatenate((a[:, 0], b[:, 0], np.array([0.0, 1.0]))))
        for side in range(1, len(sides)):
            left, right = sides[side - 1], sides[side]
            if right - left <= THIN:
                continue
            through = np.flatnonzero(
                (np.minimum(a[:, 0], b[:, 0]) <= left) & (np.maximum(a[:, 0], b[:, 0]) >= right)
            )
            slope = (b[through, 1] - a[through, 1]) / (b[through, 0] - a[through, 0])
            low = a[through, 1] + (left - a[through, 0]) * slope
            high = a[through, 1] + (right - a[through, 0]) * slope
            owners.append(len(cells))
            at_left.append(0.0)
            at_right.append(0.0)
            for level in np.argsort(low + high):
                owners.append(len(cells))
                at_left.append(min(max(low[level], 0.0), 1.0))
                at_right.append(min(max(high[level], 0.0), 1.0))
            owners.append(len(cells))
            at_left.append(1.0)
            at_right.append(1.0)
            cells.append(cell)
            lefts.append(left)
            rights.append(right)
    strips = (np.array(cells), np.array(lefts), np.array(rights))
    return strips, (np.array(owners), np.array(at_left), np.array(at_right))


@njit(cache=True)
def cumulate(offsets, sizes):
    """Cumulate sizes anew in each cell, for precision."""
    sums = sizes.copy()
    for cell in range(len(offsets) - 1):
        for part in range(offsets[cell] + 1, offsets[cell + 1]):
            sums[part] += sums[part - 1]
    return sums


@njit(cache=True)
def choose(offsets, cumulated, cells, shares):
    """The part at each share of its cell.

    It is the first part whose cumulated size is above the share, which runs from 0 to 1.
    """
    parts = np.empty(len(cells), np.int64)
    for i in range(len(cells)):
        low, high = offsets[cells[i]], offsets[cells[i] + 1] - 1
        wanted = shares[i] * cumulated[high]
        while low < high:
            middle = (low + high) // 2
            if cumulated[middle] > wanted:
                high = middle
            else:
                low = middle + 1
        parts[i] = low
    return parts


@njit(cache=True)
def nearest(held, width, height, reach):
    """The nearest held cell for each cell of a grid.

    Distances are centre to centre; -1 where all held cells are beyond reach. Exact in two passes:
    along rows, then for each column the lower envelope of the parabolas that the rows' distances
    make (Felzenszwalb and Huttenlocher, Distance transforms of sampled functions, 2012).
    """
    rows, columns = held.shape
    along = np.full((rows, columns), -1, np.int64)
    for i in range(rows):
        near = -1
        for j in range(columns):
            near = j if held[i, j] else near
            along[i, j] = near
        near = -1
        for j in range(columns - 1, -1, -1):
            near = j if held[i, j] else near
            if near >= 0 and (along[i, j] < 0 or near - j < j - along[i, j]):
                along[i, j] = near
    found = np.full(rows * columns, -1, np.int64)
    lowest, until = np.empty(rows, np.int64), np.empty(rows)
    for j in range(columns):
        count = 0
        for i in range(rows):
            if along[i, j] < 0:
                continue
            begins = -np.inf
            while count:
                k = lowest[count - 1]
                gap = ((along[i, j] - j) * height) ** 2 - ((along[k, j] - j) * height) ** 2
                begins = (gap / width**2 + float(i * i - k * k)) / (2.0 * (i - k))
                if count == 1 or begins > until[count - 2]:
                    break
                count -= 1
            if count:
                # Where the parabola of row i takes over.
                until[count - 1] = begins
            lowest[count] = i
            count += 1
        place = 0
        for i in range(rows):
            while place < count - 1 and until[place] < i:
                place += 1
            if count:
                k = lowest[place]
                far = np.hypot((i - k) * width, (along[k, j] - j) * height)
                if far <= reach:
                    found[i * columns + j] = k * columns + along[k, j]
    return found
