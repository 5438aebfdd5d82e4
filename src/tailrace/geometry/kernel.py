"""Compiled loops over cells: strips of a polygon, a part drawn among those of a cell, the nearest cell that holds something."""

import numpy as np
from numba import njit

THIN = 1e-12  # of a cell: a strip that narrow is rounding, not geometry


@njit(cache=True)
def strips(offsets, start, end):
    """Upright strips of cells between the ends of their pieces, and the pieces that run through each.

    The pieces from offsets[i] to offsets[i + 1] lie in cell i. Returns of each strip the cell, the left and the right
    side; and the levels of all strips, from bottom to top, as the strip they belong to and their height at both sides: its
    floor (0, 0), the pieces that run through it, its ceiling (1, 1). No two borders of a valid polygon cross in a strip.
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
            through = np.flatnonzero((np.minimum(a[:, 0], b[:, 0]) <= left) & (np.maximum(a[:, 0], b[:, 0]) >= right))
            slope = (b[through, 1] - a[through, 1]) / (b[through, 0] - a[through, 0])
            low, high = a[through, 1] + (left - a[through, 0]) * slope, a[through, 1] + (right - a[through, 0]) * slope
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
    """Sizes added up anew in each cell, so that small ones are not lost beside those of other cells."""
    sums = sizes.copy()
    for cell in range(len(offsets) - 1):
        for part in range(offsets[cell] + 1, offsets[cell + 1]):
            sums[part] += sums[part - 1]
    return sums


@njit(cache=True)
def choose(offsets, cumulated, cells, shares):
    """The part at each share, from 0 to 1, of its cell: the first whose cumulated size is above it."""
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
    """The number of the nearest held cell for each cell of a grid, centre to centre; -1 where all are beyond reach.

    Exact in two passes: along rows, then for each column the lower envelope of the parabolas that the rows' distances make
    (Felzenszwalb and Huttenlocher, Distance transforms of sampled functions, 2012).
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
                until[count - 1] = begins  # where the parabola of row i takes over
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
