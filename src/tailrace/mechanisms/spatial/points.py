"""Synthetic points for a released tree, as a compiled loop.

Every box holds its count to within one, and points stay where they can.

From the root down, a box that wants n points for its count x gives its halves k and n - k, both
within one of their own counts: |n - x| < 1 leaves an interval longer than 1 for k, so there is
always a whole number in it, and among those the one is taken that keeps most of the points that are
there. Below the leaves halves are taken by area, so that points are spread evenly inside a leaf: a
part of it, too, holds its count to within one.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def in_order(places, size):
    """Sort points by place with a counting sort.

    Places run from 0 to size - 1; two passes over the points.
    """
    following, order = np.zeros(size + 1, np.int64), np.empty(len(places), np.int64)
    for place in places:
        following[place + 1] += 1
    for place in range(size):
        following[place + 1] += following[place]
    for i in range(len(places)):
        order[following[places[i]]] = i
        following[places[i]] += 1
    return order


@njit(cache=True)
def placed(inner, second, counts, have, cumulative, depth_of_cells, rng):
    """Choose the points that stay, and place new ones.

    Returns (kept, new): which points at the sorted places `have` stay, and the places of new ones.

    `counts` belong to nodes in preorder, and `cumulative` is the area before each place.
    """
    kept = np.zeros(len(have), np.bool_)
    wanted = np.int64(np.rint(counts[0]))
    new, made = np.empty(wanted, np.int64), 0
    most = 2 * depth_of_cells + 4
    stack = np.zeros((6, most), np.int64)
    node, level, start, low, high, want = stack[0], stack[1], stack[2], stack[3], stack[4], stack[5]
    exact = np.zeros(most)
    high[0], want[0], exact[0], height = len(have), wanted, counts[0], 1
    while height:
        height -= 1
        i, d, first = node[height], level[height], start[height]
        a, b, n, x = low[height], high[height], want[height], exact[height]
        if n == 0:
            continue
        divided = i >= 0 and inner[i]
        if not divided and (d == depth_of_cells or n == 1):
            there = b - a
            if there > n:  # which of them stay is chance
                skip = np.int64(rng.random() * there)
                for j in range(n):
                    kept[a + (skip + j) % there] = True
                continue
            kept[a:b] = True
            width = np.int64(1) << (depth_of_cells - d)
            for _ in range(n - there):
                new[made] = _place(cumulative, first, first + width, rng.random())
                made += 1
            continue
        half = np.int64(1) << (depth_of_cells - d - 1)
        if divided:
            part = counts[i + 1]
        else:
            room = cumulative[first + 2 * half] - cumulative[first]
            part = x * (cumulative[first + half] - cumulative[first]) / room
        middle = a + np.searchsorted(have[a:b], first + half)
        k = _halved(n, x, part, middle - a, b - middle, rng.random())
        for right in (True, False):
            node[height] = (second[i] if right else i + 1) if divided else -1
            level[height], start[height] = d + 1, first + (half if right else 0)
            low[height], high[height] = (middle, b) if right else (a, middle)
            want[height], exact[height] = (n - k, x - part) if right else (k, part)
            height += 1
    return kept, new[:made]


@njit(cache=True)
def _halved(n, x, part, there, beyond, chance):
    """How many of n points the first half gets.

    Its exact count is `part` of x; it holds `there` points, the other half `beyond`.
    """
    missed = n - x
    least = max(np.int64(np.floor(part - 1 + max(missed, 0.0) + 1e-9)) + 1, 0)
    most = min(np.int64(np.ceil(part + 1 + min(missed, 0.0) - 1e-9)) - 1, n)
    if most < least:  # only by rounding
        least = most = min(max(np.int64(np.rint(part)), 0), n)
    stay_least, stay_most = max(least, min(there, n - beyond)), min(most, max(there, n - beyond))
    if stay_least > stay_most:  # none keeps all: the nearest does best
        return most if min(there, n - beyond) > most else least
    target = part + missed * (part / x if x > 0 else 0.5)
    return min(max(np.int64(np.floor(target + chance)), stay_least), stay_most)


@njit(cache=True)
def _place(cumulative, first, last, chance):
    """A place from `first` up to `last`, by area."""
    target = cumulative[first] + chance * (cumulative[last] - cumulative[first])
    while last - first > 1:
        middle = (first + last) >> 1
        if cumulative[middle] <= target:
            first = middle
        else:
            last = middle
    return first
