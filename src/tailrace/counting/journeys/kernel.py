"""Compiled loops: put rows together (reading.py), and count parts (moves.py)."""

import numpy as np
from numba import njit

# Halvings of a weight, after which nothing is left of it: WHOLE has 20 bits.
_FINEST = 30


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
def grouped(numbers, many, order, cells):
    """(offsets, rows, sorted) of each number, as they come.

    Rows of number -1 are left out. `sorted` says whether they come by `order`, then cell, as most.
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
    for i in range(1, len(rows)):
        a, b = rows[i - 1], rows[i]
        if numbers[a] == numbers[b] and (
            order[b] < order[a] or (order[b] == order[a] and cells[b] < cells[a])
        ):
            return offsets, rows, False
    return offsets, rows, True


@njit(cache=True)
def visited(offsets, cells, among, whole, most, places, size):
    """(size,) a trajectory's parts, even over its cells.

    They are divided among `most` if it has fewer, each at the cell's place.
    """
    found = np.zeros(size, np.int64)
    for i in range(len(among)):
        share, first, many = whole // among[i], offsets[i], offsets[i + 1] - offsets[i]
        equal, before = max(many, most), 0
        for j in range(many):
            after = (j + 1) * share // equal
            place = places[cells[first + j]]
            if place >= 0:
                found[place] += after - before
            before = after
    return found


@njit(cache=True)
def distinct(offsets, runs, points, cells):
    """(trajectories,) the number of different cells with points."""
    found, seen = np.zeros(len(offsets) - 1, np.int64), np.full(cells, -1, np.int64)
    for i in range(len(found)):
        for j in range(offsets[i], offsets[i + 1]):
            if points[j] > 0 and seen[runs[j]] != i:
                seen[runs[j]] = i
                found[i] += 1
    return found


@njit(cache=True)
def held(offsets, runs, points, among, whole, most, cells, many):
    """(cells,) a trajectory's parts, the same for each of its different cells.

    Only cells with points count, `many` of them, or `most` if these are fewer. What division leaves
    is dropped: a part above the others would move a longer vector than Gaussian noise is made for.
    """
    found, seen = np.zeros(cells, np.int64), np.full(cells, -1, np.int64)
    for i in range(len(among)):
        part = whole // among[i] // max(many[i], most)
        for j in range(offsets[i], offsets[i + 1]):
            if points[j] > 0 and seen[runs[j]] != i:
                seen[runs[j]] = i
                found[runs[j]] += part
    return found


@njit(cache=True)
def turned(offsets, runs, among, whole, most, starts, targets, directions):
    """(8,) parts of turns, divided among `most` or more."""
    found = np.zeros(8, np.int64)
    for i in range(len(among)):
        many = 0
        # First how many there are, then their parts.
        for part in range(2):
            last, at, share = -1, 0, whole // among[i]
            for j in range(offsets[i] + 1, offsets[i + 1]):
                edge = edge_of(starts, targets, runs[j - 1], runs[j])
                if edge >= 0 and last >= 0:
                    if part:
                        equal = max(many, most)
                        turn = (directions[edge] - directions[last]) & 7
                        found[turn] += (at + 1) * share // equal - at * share // equal
                    at += 1
                last = edge
            many = at
    return found


@njit(cache=True)
def edge_of(starts, targets, source, target):
    """The number of an edge, or -1."""
    low, high = starts[source], starts[source + 1]
    while low < high:
        middle = (low + high) >> 1
        if targets[middle] < target:
            low = middle + 1
        else:
            high = middle
    return low if low < starts[source + 1] and targets[low] == target else -1


@njit(cache=True)
def walked(offsets, cells, homes, side, starts, targets, runs, points, ends):
    """Write each trajectory as runs of points in one home.

    Fills `runs`, `points` and `ends` where there is room, and returns the number of runs. Between
    two homes that do not touch come those that the straight line between the two cells passes,
    without points.
    """
    many, room = 0, len(runs)
    for i in range(len(offsets) - 1):
        last, before = -1, -1
        for j in range(offsets[i], offsets[i + 1]):
            home = homes[cells[j]]
            if home < 0:
                continue
            if home != last:
                if last >= 0 and edge_of(starts, targets, last, home) < 0:
                    x, y = before // side, before % side
                    across, up = cells[j] // side - x, cells[j] % side - y
                    steps = max(abs(across), abs(up))
                    for step in range(1, steps):
                        column = x + (2 * step * across + steps) // (2 * steps)
                        row = y + (2 * step * up + steps) // (2 * steps)
                        between = homes[column * side + row]
                        if between >= 0 and between != last and between != home:
                            if many < room:
                                runs[many], points[many] = between, 0
                            many += 1
                            last = between
                        elif between == home:
                            break
                if many < room:
                    runs[many], points[many] = home, 0
                many += 1
                last = home
            if many <= room:
                points[many - 1] += 1
            before = cells[j]
        if len(ends) > i + 1:
            ends[i + 1] = many
    return many


@njit(cache=True)
def _weight(share, total, at, many, ends):
    """The parts of the at-th of `many` transitions, of `share`.

    `total` is the sum of the numerators where the ends weigh more.
    """
    if not ends:
        return (at + 1) * share // many - at * share // many
    halvings = min(at, many - 1 - at)
    return (share << (_FINEST - halvings)) // total if halvings <= _FINEST else 0


@njit(cache=True)
def moved(offsets, runs, points, among, whole, starts, targets, stays, ends):
    """(edges + cells,) parts of the transitions.

    Along each edge, and (with `stays`) from each cell to itself.
    """
    edges = len(targets)
    found = np.zeros(edges + len(starts) - 1, np.int64)
    for i in range(len(among)):
        first, last, many = offsets[i], offsets[i + 1], 0
        for j in range(first, last):
            if j > first and edge_of(starts, targets, runs[j - 1], runs[j]) >= 0:
                many += 1
            if stays:
                many += max(points[j] - 1, 0)
        total = 0
        if ends:
            for at in range(min(many, _FINEST + 1)):
                halvings = min(at, many - 1 - at)
                total += 1 << (_FINEST - halvings)
            for at in range(max(many - _FINEST - 1, _FINEST + 1), many):
                total += 1 << (_FINEST - (many - 1 - at))
        share, at = whole // among[i], 0
        for j in range(first, last):
            if j > first:
                edge = edge_of(starts, targets, runs[j - 1], runs[j])
                if edge >= 0:
                    found[edge] += _weight(share, total, at, many, ends)
                    at += 1
            if stays:
                for _ in range(points[j] - 1):
                    found[edges + runs[j]] += _weight(share, total, at, many, ends)
                    at += 1
    return found
