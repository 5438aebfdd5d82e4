"""Compiled loops over the segments of the unit memory."""

import numpy as np
from numba import njit


@njit(cache=True, inline="always")
def _before(high, low, other_high, other_low):
    return high < other_high or (high == other_high and low < other_low)


@njit(cache=True)
def touched(high, low, other_high, other_low):
    """The units of two sorted batches, each once."""
    bound = len(high) + len(other_high)
    new_high, new_low = np.empty(bound, np.uint64), np.empty(bound, np.uint64)
    i = j = units = 0
    while i < len(high) or j < len(other_high):
        if j == len(other_high) or (
            i < len(high) and not _before(other_high[j], other_low[j], high[i], low[i])
        ):
            a, b = high[i], low[i]
            i += 1
        else:
            a, b = other_high[j], other_low[j]
            j += 1
        if units == 0 or new_high[units - 1] != a or new_low[units - 1] != b:
            new_high[units], new_low[units] = a, b
            units += 1
    return new_high[:units], new_low[:units]


@njit(cache=True)
def picked(row_high, row_low, high, low):
    """Which rows are of some units, and which units have any; both sorted."""
    rows, units = np.zeros(len(row_high), np.bool_), np.zeros(len(high), np.bool_)
    i = 0
    for u in range(len(high)):
        while i < len(row_high) and _before(row_high[i], row_low[i], high[u], low[u]):
            i += 1
        while i < len(row_high) and row_high[i] == high[u] and row_low[i] == low[u]:
            rows[i] = units[u] = True
            i += 1
    return rows, units


@njit(cache=True)
def overlay(newer, older):
    """Rows of both; of a unit in both, the newer ones alone."""
    high, low, cell, count = newer
    old_high, old_low, old_cell, old_count = older
    bound = len(high) + len(old_high)
    new_high, new_low = np.empty(bound, np.uint64), np.empty(bound, np.uint64)
    new_cell, new_count = np.empty(bound, np.int64), np.empty(bound, np.uint32)
    i = j = rows = 0
    while i < len(high) or j < len(old_high):
        if i == len(high) or (
            j < len(old_high) and _before(old_high[j], old_low[j], high[i], low[i])
        ):
            new_high[rows], new_low[rows] = old_high[j], old_low[j]
            new_cell[rows], new_count[rows] = old_cell[j], old_count[j]
            rows, j = rows + 1, j + 1
            continue
        a, b = high[i], low[i]
        while i < len(high) and high[i] == a and low[i] == b:
            new_high[rows], new_low[rows] = a, b
            new_cell[rows], new_count[rows] = cell[i], count[i]
            rows, i = rows + 1, i + 1
        while j < len(old_high) and old_high[j] == a and old_low[j] == b:
            j += 1
    return new_high[:rows], new_low[:rows], new_cell[:rows], new_count[:rows]


# Of 8 bits a unit, the best number is 8 ln 2 = 5.5; with 4, one stranger in 42 passes.
_MARKS = 4


@njit(cache=True, inline="always")
def _mark(low, n, bits):
    # Two halves of the hash make all marks (Kirsch and Mitzenmacher, 2006).
    return ((low >> np.uint64(32)) + np.uint64(n) * ((low << np.uint64(1)) | np.uint64(1))) % bits


@njit(cache=True)
def sow(sieve, low):
    """Mark units in a Bloom filter."""
    bits = np.uint64(8 * len(sieve))
    for i in range(len(low)):
        for n in range(_MARKS):
            place = _mark(low[i], n, bits)
            sieve[place >> np.uint64(3)] |= np.uint8(1 << (place & np.uint64(7)))


@njit(cache=True)
def may_hold(sieve, low):
    """Which units a Bloom filter may hold."""
    held = np.ones(len(low), np.bool_)
    bits = np.uint64(8 * len(sieve))
    for i in range(len(low)):
        for n in range(_MARKS):
            place = _mark(low[i], n, bits)
            if not (sieve[place >> np.uint64(3)] >> np.uint8(place & np.uint64(7))) & 1:
                held[i] = False
                break
    return held
