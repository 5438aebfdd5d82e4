"""A spatial tree and its synthetic points, as compiled loops.

Nodes stand in preorder: a node, all of its first child's subtree, all of its second's. So `inner`
alone, whether a node has children, says the whole shape: the first child of i is i + 1, and
`second[i]` is found in one pass.
"""

import numpy as np
from numba import njit

# Places looked at together where most hold nothing.
_BLOCK = 64


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
            share = _share(below[a], below[b], drawn[a] + drawn[b], _half(area[a], area[b]))
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
        half, spread = _half(area[a], area[b]), (variance[a], variance[b])
        counts[a] = _first(counts[i], estimate[a], estimate[b], *spread, half, unsure, far)
        counts[b] = counts[i] - counts[a]
    return counts


@njit(cache=True)
def _share(below, beside, drawn, half):
    """The first child's share of what was measured above it."""
    prior = np.sqrt(2 * drawn)
    if 0 < half < 1 and prior > 0:
        return (abs(below) + prior * half) / (abs(below) + abs(beside) + prior)
    return half


@njit(cache=True)
def _first(mass, estimate, other, variance, spread, half, unsure, far):
    """The first child's count, of its parent's; `half` is its part of the area."""
    if half <= 0 or half >= 1:
        return mass * half
    both = variance + spread
    part = variance / both if both > 0 else half
    least, deviation = min(estimate, other), np.sqrt(variance if estimate <= other else spread)
    if least < unsure * deviation and mass / 2 - least > far * deviation:
        return 0.0 if estimate <= other else mass
    return min(max(estimate + (mass - estimate - other) * part, 0.0), mass)


@njit(cache=True)
def halved(area, parents, second):
    """The part of each parent's area that its first child has."""
    halves = np.empty(len(parents))
    for at in range(len(parents)):
        halves[at] = _half(area[parents[at] + 1], area[second[at]])
    return halves


@njit(cache=True)
def _half(area, other):
    return area / (area + other) if area + other > 0 else 0.5


@njit(cache=True)
def grown(counts, inner, second, needed, epoch, limits, least, keep, deepest, finest, before):
    """The next epoch's tree: (inner, leaf, needed, source, folded).

    A node is divided where its count passes the first of `limits`, or the second if it was divided
    before, or above depth `least`, and never at depth `finest`. `source` is the node it was, or -1;
    a subtree that was not needed for `keep` epochs is `folded` into its root.
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
        enough = mass > limits[1 if known else 0] or d < least
        divide = open_here and d < finest and room > 0 and enough
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
def placed(inner, second, counts, have, dense, cumulative, depth_of_cells, rng):
    """Choose the points that leave, and place new ones.

    Returns (gone, new): which points leave, numbered in the order of their places, and the places
    of new ones. `have` has the places of the points, sorted, or if `dense` the number of points
    before each place. `counts` belong to nodes in preorder, and `cumulative` is the area before
    each place.

    Every box holds its count to within one. From the root down, a box that wants n points for its
    count x gives its halves k and n - k, both within one of their own counts: |n - x| < 1 leaves an
    interval longer than 1 for k, so there is always a whole number in it, and among those the one
    is taken that keeps most of the points that are there. Below the leaves halves are taken by
    area, so that points are spread evenly inside a leaf: a part of it, too, holds its count to
    within one.
    """
    wanted, points = np.int64(np.rint(counts[0])), have[-1] if dense else len(have)
    gone, left = np.empty(points, np.int64), 0
    new, made = np.empty(wanted, np.int64), 0
    most = 2 * depth_of_cells + 4
    stack = np.zeros((6, most), np.int64)
    node, level, start, low, high, want = stack[0], stack[1], stack[2], stack[3], stack[4], stack[5]
    exact = np.zeros(most)
    high[0], want[0], exact[0], height = points, wanted, counts[0], 1
    while height:
        height -= 1
        i, d, first = node[height], level[height], start[height]
        a, b, n, x = low[height], high[height], want[height], exact[height]
        divided = i >= 0 and inner[i]
        if n == 0 or (not divided and (d == depth_of_cells or n == 1)):
            there = b - a
            # Which of them leave is chance.
            skip = np.int64(rng.random() * there) if there > n > 0 else 0
            for j in range(there - n):
                gone[left] = a + (skip + j) % there
                left += 1
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
        middle = have[first + half] if dense else a + np.searchsorted(have[a:b], first + half)
        k = _halved(n, x, part, middle - a, b - middle, rng)
        for right in (True, False):
            child = (second[i] if right else i + 1) if divided else -1
            begin, end = (middle, b) if right else (a, middle)
            wants = n - k if right else k
            ends = (d + 1 == depth_of_cells or wants == 1) and (child < 0 or not inner[child])
            # A half that has what it wants, and is not divided further, is done.
            if end - begin == wants and (wants == 0 or ends):
                continue
            node[height], level[height], want[height] = child, d + 1, wants
            start[height] = first + (half if right else 0)
            low[height], high[height] = begin, end
            exact[height] = x - part if right else part
            height += 1
    return gone[:left], new[:made]


@njit(cache=True)
def _halved(n, x, part, there, beyond, rng):
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
    if stay_least == stay_most:
        return stay_least
    target = part + missed * (part / x if x > 0 else 0.5)
    return min(max(np.int64(np.floor(target + rng.random())), stay_least), stay_most)


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


@njit(cache=True)
def touched(adds, deletes):
    """The places where either is not 0, sorted."""
    found, many = np.empty(256, np.int64), 0
    for start in range(0, len(adds), _BLOCK):
        stop = min(start + _BLOCK, len(adds))
        something = np.int64(0)
        for i in range(start, stop):
            something |= adds[i] | deletes[i]
        if something == 0:
            continue
        for i in range(start, stop):
            if adds[i] | deletes[i]:
                if many == len(found):
                    found = np.concatenate((found, np.empty_like(found)))
                found[many] = i
                many += 1
    return found[:many].copy()
