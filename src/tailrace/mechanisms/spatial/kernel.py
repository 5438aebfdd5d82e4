"""A spatial tree and its synthetic points, as compiled loops.

Nodes stand in preorder: a node, all of its first child's subtree, all of its second's. So `inner`
alone, whether a node has children, says the whole shape: the first child of i is i + 1, and
`second[i]` is found in one pass.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def gathered(values, inner, second):
    """The sum over each node's subtree."""
    sums = values.copy()
    for i in range(len(inner) - 1, -1, -1):
        if inner[i]:
            sums[i] += sums[i + 1] + sums[second[i]]
    return sums


@njit(cache=True)
def inherited(own, noise, inner, second, area):
    """Estimate every node, with its share of measurements above it.

    Returns (estimate, variance).

    A child's share grows with what was measured inside it, whatever its sign, against a prior: its
    part of the area, with a weight that is the deviation of the children's noise.
    """
    below, drawn = gathered(own, inner, second), gathered(noise, inner, second)
    above, passed = np.zeros(len(own)), np.zeros(len(own))
    for i in range(len(inner)):
        if inner[i]:
            a, b = i + 1, second[i]
            both = area[a] + area[b]
            share = area[a] / both if both > 0 else 0.5
            prior = np.sqrt(2 * (drawn[a] + drawn[b]))
            if 0 < share < 1 and prior > 0:
                share = (abs(below[a]) + prior * share) / (abs(below[a]) + abs(below[b]) + prior)
            mass, spread = above[i] + own[i], passed[i] + noise[i]
            above[a], above[b] = share * mass, (1 - share) * mass
            passed[a], passed[b] = share**2 * spread, (1 - share) ** 2 * spread
    return above + below, passed + drawn


@njit(cache=True)
def released(total, estimate, variance, inner, leaf, second, area, unsure, far):
    """Nonnegative counts that add up, from root to leaves.

    Nodes below the leaves get 0.

    What the children's estimates leave of their parent's count is divided by their variances. A
    child that is not clearly there (below `unsure` deviations), where half of the parent would be
    (`far` deviations above it), is empty.
    """
    counts, reached = np.zeros(len(inner)), np.zeros(len(inner), np.bool_)
    counts[0], reached[0] = max(total, 0.0), True
    for i in range(len(inner)):
        if not reached[i] or leaf[i] or not inner[i]:
            continue
        a, b = i + 1, second[i]
        reached[a], reached[b] = True, True
        mass, both = counts[i], variance[a] + variance[b]
        if area[a] <= 0 or area[b] <= 0:
            counts[a] = mass if area[a] > 0 else 0.0
        else:
            part = variance[a] / both if both > 0 else area[a] / (area[a] + area[b])
            counts[a] = min(max(estimate[a] + (mass - estimate[a] - estimate[b]) * part, 0.0), mass)
            smaller = a if estimate[a] <= estimate[b] else b
            deviation = np.sqrt(variance[smaller])
            if (
                estimate[smaller] < unsure * deviation
                and mass / 2 - estimate[smaller] > far * deviation
            ):
                counts[a] = 0.0 if smaller == a else mass
        counts[b] = mass - counts[a]
    return counts


@njit(cache=True)
def grown(counts, inner, second, needed, epoch, limit, least, keep, deepest, before):
    """The next epoch's tree: (inner, leaf, needed, source, folded).

    A node is divided where its count passes `limit`, or above depth `least`. `source` is the node
    it was, or -1; a subtree that was not needed for `keep` epochs is `folded` into its root.
    """
    capacity = 2 * len(inner) + 64
    divided, leaf, folded = (
        np.zeros(capacity, np.bool_),
        np.zeros(capacity, np.bool_),
        np.zeros(capacity, np.bool_),
    )
    last, source = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    size, height, most = 0, 1, 2 * deepest + 4
    node, level, start = (
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
    )
    count, live = np.zeros(most), np.zeros(most, np.bool_)
    count[0], live[0] = counts[0], True
    while height:
        height -= 1
        i, d, first = node[height], level[height], start[height]
        mass, open_here = count[height], live[height]
        if size == capacity:
            capacity *= 2
            divided, leaf, folded = _longer(divided), _longer(leaf), _longer(folded)
            last, source = _longer(last), _longer(source)
        half = np.int64(1) << (deepest - d) >> 1
        room = before[first + max(2 * half, 1)] - before[first]
        known = i >= 0 and inner[i]
        divide = open_here and d < deepest and room > 0 and (mass > limit or d < least)
        last[size] = epoch if divide else (needed[i] if known else 0)
        stays = divide or (known and epoch - last[size] < keep)
        source[size], leaf[size], divided[size] = i, open_here and not divide, stays
        folded[size] = known and not stays
        size += 1
        if stays:
            share = (before[first + half] - before[first]) / room if room > 0 else 0.5
            for child in (1, 0):  # the first child is taken from the stack first
                node[height] = -1 if not known else second[i] if child else i + 1
                level[height], start[height], live[height] = d + 1, first + child * half, divide
                count[height] = (
                    counts[node[height]] if known else mass * ((1 - share) if child else share)
                )
                height += 1
    return divided[:size], leaf[:size], last[:size], source[:size], folded[:size]


@njit(cache=True)
def _longer(array):
    longer = np.zeros(2 * len(array), array.dtype)
    # A loop: assigning a slice takes two seconds to compile, for the text of its error.
    for i in range(len(array)):
        longer[i] = array[i]
    return longer


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

    Every box holds its count to within one. From the root down, a box that wants n points for its
    count x gives its halves k and n - k, both within one of their own counts: |n - x| < 1 leaves an
    interval longer than 1 for k, so there is always a whole number in it, and among those the one
    is taken that keeps most of the points that are there. Below the leaves halves are taken by
    area, so that points are spread evenly inside a leaf: a part of it, too, holds its count to
    within one.
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
        middle = _first_from(have, a, b, first + half)
        k = _halved(n, x, part, middle - a, b - middle, rng.random())
        for right in (True, False):
            node[height] = (second[i] if right else i + 1) if divided else -1
            level[height], start[height] = d + 1, first + (half if right else 0)
            low[height], high[height] = (middle, b) if right else (a, middle)
            want[height], exact[height] = (n - k, x - part) if right else (k, part)
            height += 1
    return kept, new[:made]


@njit(cache=True)
def _first_from(have, a, b, place):
    """Where the sorted places have[a:b] reach `place`."""
    while a < b:
        middle = (a + b) >> 1
        if have[middle] < place:
            a = middle + 1
        else:
            b = middle
    return a


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
