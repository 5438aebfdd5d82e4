"""Put rows together into trajectories, in order, compiled."""

import numpy as np
from numba import njit


@njit(cache=True)
def numbered(high, low):
    """Number different pairs as they come; (0, 0) gets -1."""
    size = 64
    while size < 2 * len(high):
        size *= 2
    first, numbers, many = np.full(size, -1, np.int64), np.empty(len(high), np.int64), 0
    mask = np.uint64(size - 1)
    for i in range(len(high)):
        if high[i] == 0 and low[i] == 0:
            numbers[i] = -1
            continue
        if i and high[i] == high[i - 1] and low[i] == low[i - 1]:
            numbers[i] = numbers[i - 1]
            continue
        slot = (low[i] ^ (low[i] >> np.uint64(32)) ^ high[i]) & mask
        while first[slot] >= 0 and (high[first[slot]] != high[i] or low[first[slot]] != low[i]):
            slot = (slot + np.uint64(1)) & mask
        if first[slot] < 0:
            first[slot], numbers[i] = i, many
            many += 1
        else:
            numbers[i] = numbers[first[slot]]
    return numbers, many


@njit(cache=True)
def ordered(numbers, many, order, cells):
    """(offsets, rows) of each number, by `order`, then cell.

    Rows of number -1 are left out.
    """
    offsets = np.zeros(many + 1, np.int64)
    for number in numbers:
        if number >= 0:
            offsets[number + 1] += 1
    for number in range(many):
        offsets[number + 1] += offsets[number]
    rows, following = np.empty(offsets[many], np.int64), offsets[:-1].copy()
    for i in range(len(numbers)):
        if numbers[i] >= 0:
            rows[following[numbers[i]]] = i
            following[numbers[i]] += 1
    for number in range(many):
        _sort(rows[offsets[number] : offsets[number + 1]], order, cells)
    return offsets, rows


@njit(cache=True)
def _sort(rows, order, cells):
    """Sort in place, unless the rows are sorted, as most."""
    settled = True
    for i in range(1, len(rows)):
        a, b = rows[i - 1], rows[i]
        if order[b] < order[a] or (order[b] == order[a] and cells[b] < cells[a]):
            settled = False
            break
    if settled:
        return
    rows[:] = rows[np.argsort(cells[rows], kind="mergesort")]
    rows[:] = rows[np.argsort(order[rows], kind="mergesort")]
