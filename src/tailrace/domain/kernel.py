"""Compiled loops: numbers to codes, cells and counts.

Each loop says in doubles what the attribute's expression says on an engine, with the same
operations in the same order, so both give the same codes to the last bit. NaN stands for a missing
value; -1 for a dropped row.
"""

import numpy as np
from numba import njit

# Rows counted at a time: with all their attributes they stay in a near cache.
_TURN = 1024


@njit(cache=True)
def integers(values, low, high, clip, outside):
    """The code of each whole number from `low` to `high`."""
    codes = np.empty(len(values), np.int64)
    for i in range(len(values)):
        x = values[i]
        if clip and not np.isnan(x):
            x = np.floor(min(max(x, low), high))
        codes[i] = np.int64(x - low) if low <= x <= high and x == np.floor(x) else outside
    return codes


@njit(cache=True, inline="always")
def _last_not_above(x, edges):
    """The index of the last sorted edge not above x.

    The first edge is never above x. There are no branches to mispredict.
    """
    index, length = 0, len(edges)
    while length > 1:
        half = length >> 1
        index += half * (edges[index + half] <= x)
        length -= half
    return index


@njit(cache=True)
def members(values, known, numbers, outside):
    """Look up each value: `numbers[j]` where it equals `known[j]`.

    `known` is sorted.
    """
    codes = np.empty(len(values), np.int64)
    for i in range(len(values)):
        x = values[i]
        codes[i] = outside
        # False for NaN.
        if x >= known[0]:
            j = _last_not_above(x, known)
            if known[j] == x:
                codes[i] = numbers[j]
    return codes


@njit(cache=True)
def bins(values, edges, clip, outside):
    """The bin of each value; the last bin is closed.

    A value's bin begins at the last edge that is not above it.
    """
    codes = np.empty(len(values), np.int64)
    last = len(edges) - 1
    for i in range(len(values)):
        x = values[i]
        if clip and not np.isnan(x):
            x = min(max(x, edges[0]), edges[last])
        codes[i] = _last_not_above(x, edges[:last]) if edges[0] <= x <= edges[last] else outside
    return codes


@njit(cache=True)
def grid(values, low, high, scale, cells, clip):
    """The cell of each value on an even grid.

    A product, since engines may divide by multiplying with an inverse.
    """
    codes = np.empty(len(values), np.int64)
    for i in range(len(values)):
        x = values[i]
        if clip and not np.isnan(x):
            x = min(max(x, low), high)
        codes[i] = min(np.int64(np.floor((x - low) * scale)), cells - 1) if low <= x <= high else -1
    return codes


@njit(cache=True)
def units(values, low, high, start, scale, clip):
    """The whole units from `start` of each value; -1 where dropped."""
    codes = np.empty(len(values), np.int64)
    for i in range(len(values)):
        x = values[i]
        if clip and not np.isnan(x):
            x = min(max(x, low), high)
        codes[i] = np.int64(np.floor((x - start) * scale)) if low <= x <= high else -1
    return codes


@njit(cache=True)
def join(cells, codes, size):
    """Append one attribute's codes to cell numbers, in place.

    A row dropped once stays dropped.
    """
    for i in range(len(cells)):
        cells[i] = -1 if cells[i] < 0 or codes[i] < 0 else cells[i] * size + codes[i]


@njit(cache=True)
def look_up(cells, groups):
    """The group of each cell; a dropped row stays dropped."""
    found = np.empty(len(cells), np.int64)
    for i in range(len(cells)):
        found[i] = groups[cells[i]] if cells[i] >= 0 else -1
    return found


@njit(cache=True)
def count(cells, size):
    """How many rows lie in each cell."""
    counts = np.zeros(size, np.int64)
    for i in range(len(cells)):
        if cells[i] >= 0:
            counts[cells[i]] += 1
    return counts


@njit(cache=True)
def add_up(cells, rows, size):
    """Count rows per cell; entry i stands for `rows[i]`."""
    counts = np.zeros(size, np.int64)
    for i in range(len(cells)):
        if cells[i] >= 0:
            counts[cells[i]] += rows[i]
    return counts


@njit(cache=True)
def note(codes, row, dropped):
    """Write one attribute's codes, and note the rows dropped."""
    for i in range(len(codes)):
        row[i] = codes[i]
        dropped[i] |= codes[i] < 0


@njit(cache=True)
def turn(table, dropped):
    """Transpose codes to the digits of rows; -1 where dropped."""
    attributes, rows = table.shape
    digits = np.empty((rows, attributes), np.int32)
    for at in range(0, rows, _TURN):
        for a in range(attributes):
            for i in range(at, min(at + _TURN, rows)):
                digits[i, a] = -1 if dropped[i] else table[a, i]
    return digits


@njit(cache=True)
def split(cells, shape):
    """The digits of cell numbers; a dropped row stays dropped.

    The last attribute changes fastest.
    """
    digits = np.empty((len(cells), len(shape)), np.int32)
    for i in range(len(cells)):
        left = cells[i]
        for a in range(len(shape) - 1, -1, -1):
            digits[i, a] = left % shape[a] if cells[i] >= 0 else -1
            left //= shape[a]
    return digits


@njit(cache=True)
def marginals(digits, rows, shape, offsets, starts, members, strides):
    """Count rows per cell of each marginal.

    Entry i stands for `rows[i]` of them, or for one where `rows` is empty.

    Some rows at a time, laid out by attribute: then cell numbers are sums of stretches of memory,
    and the counts that are raised are those of one marginal.
    """
    counts = np.zeros(offsets[-1], np.int64)
    values = np.empty((len(shape), _TURN), np.int32)
    numbers, weights = np.empty(_TURN, np.int32), np.ones(_TURN, np.int64)
    for at in range(0, len(digits), _TURN):
        many = 0
        for i in range(at, min(at + _TURN, len(digits))):
            inside = True
            for a in range(len(shape)):
                values[a, many] = digits[i, a]
                inside &= 0 <= digits[i, a] < shape[a]
            if len(rows):
                weights[many] = rows[i]
            many += inside
        for c in range(len(starts) - 1):
            part = counts[offsets[c] : offsets[c + 1]]
            numbers[:many] = 0
            for j in range(starts[c], starts[c + 1]):
                column, stride = values[members[j]], np.int32(strides[j])
                for i in range(many):
                    numbers[i] += column[i] * stride
            for i in range(many):
                part[numbers[i]] += weights[i]
    return counts
