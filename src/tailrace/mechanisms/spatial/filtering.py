"""Filter the shares of halves over epochs, as compiled loops.

A parent is a node with children; parents stand in preorder, and `halves` is the first child's part
of their area. A parent keeps the share that its first child has of its points, and the variance of
that share. Every epoch measures changes; whatever is measured says what the share is now.
"""

import numpy as np
from numba import njit

# The variance of a share that nothing is known of, where both halves have the same area: between
# that of a coin, 1/4, and that of a uniform share, 1/12. From ../shared/accuracy2.md, part 1.
_UNKNOWN = 0.125
# Deviations of a measured change, squared, beyond which something has moved here.
_MOVED = 9.0
# Deviations, squared, below which a change that was seen is not taken to go on.
_CLEAR = 9.0
_TINY = 1e-9
# Part of the square of `unsure` deviations by which a small half shrinks: 3/4 lies between what is
# best for points that move (1) and for points that are deleted (1/2).
_SOFT = 0.75
# The least spread of a fair split of events, in parts of their number.
_LEAST = 0.01


@njit(cache=True)
def combined(value, weight, inner, second, area):
    """The change below each node and its variance: (z, variance).

    `weight` is the precision of a node's own measurements and `value` their weighted sum. A node's
    estimate weighs its own mean against the sum of its halves (Hay et al. 2010). Without any
    measurement the variance is infinite; a node without area changes by 0.
    """
    z, variance = np.zeros(len(inner)), np.full(len(inner), np.inf)
    for i in range(len(inner) - 1, -1, -1):
        if area[i] <= 0:
            variance[i] = 0.0
            continue
        precision, total = weight[i], value[i]
        if inner[i]:
            a, b = i + 1, second[i]
            both = variance[a] + variance[b]
            if np.isfinite(both) and both > 0:
                precision += 1 / both
                total += (z[a] + z[b]) / both
        if precision > 0:
            z[i], variance[i] = total / precision, 1 / precision
    return z, variance


@njit(cache=True)
def divided(z, variance, inner, second):
    """Changes that add up: halves share what their parent says, by variances."""
    made = z.copy()
    for i in range(len(inner)):
        if inner[i]:
            a, b = i + 1, second[i]
            both = variance[a] + variance[b]
            if np.isfinite(both) and both > 0:
                part = variance[a] / both
                made[a] = z[a] + part * (made[i] - z[a] - z[b])
                made[b] = made[i] - made[a]
            else:
                # Not measured below.
                made[a] = made[b] = 0.0
    return made


@njit(cache=True)
def filtered(total, change, gross, unrest, held, z, variance, parents, second, halves, depth):
    """The shares after an epoch: (share, spread, moved, squares, scales).

    total, change: points before the epoch, and by how many they changed.
    gross: events of the epoch per point.
    unrest: of each depth, how far splits of events stray, in parts of a fair coin's variance.
    held: the shares and their variances before.
    moved: what the first half's clear change was more than its share of its parent's.
    squares, scales: sums over the parents of each depth that tell its unrest.
    """
    share, spread, moved = held[0].copy(), held[1].copy(), np.zeros(len(parents))
    squares, scales = np.zeros(len(unrest)), np.zeros(len(unrest))
    x, c = np.zeros(len(z)), np.zeros(len(z))
    x[0], c[0] = total, change
    for at in range(len(parents)):
        i, a, b, d = parents[at], parents[at] + 1, second[at], depth[at]
        s, v, old, net = share[at], spread[at], x[i], c[i]
        new, both = old + net, variance[a] + variance[b]
        first, clear = s * net, 0.0
        if 0 < halves[at] < 1 and np.isfinite(both) and both > 0:
            rest = variance[a] * variance[b] / both
            seen = z[a] + variance[a] / both * (net - z[a] - z[b]) - s * net
            fair = (gross * max(old, 0.0) + abs(net)) * max(s * (1 - s) - v, _LEAST)
            known = net * net * v + rest
            squares[d] += (seen * seen - known) * fair / (known + fair) ** 2
            scales[d] += (fair / (known + fair)) ** 2
            stray = unrest[d] * fair
            expected = known + stray
            if seen * seen > _MOVED * expected:
                stray += seen * seen - expected
                expected = seen * seen
            first += (net * net * v + stray) / expected * seen
            clear = max(1 - _CLEAR * known / max(seen * seen, _TINY), 0.0)
            if new > 0:
                gain = (net * new * v + stray) / expected
                left = new * new * v + stray - gain * gain * expected
                spread[at] = min(max(left / (new * new), 0.0), 0.25)
                share[at] = min(max(s + gain * seen / new, -0.5), 1.5)
        # What was clearly seen is taken to go on beyond the epoch; all else goes by shares.
        moved[at] = clear * (first - share[at] * net)
        c[a], c[b] = first, net - first
        x[a], x[b] = share[at] * new - c[a], (1 - share[at]) * new - c[b]
    return share, spread, moved, squares, scales


@njit(cache=True)
def shown(now, ahead, total, change, held, parents, second, halves, nodes, unsure, far):
    """Counts that are not negative and add up, from the root down.

    `now` points are shared out as at the last close, where there were `total`, with `ahead` times
    that epoch's change added. A half that is not clearly there (about `unsure` deviations or less),
    where half of the parent would be (`far` deviations above it), shrinks, or is empty.
    """
    share, spread, moved = held
    counts, x, c = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
    counts[0], x[0], c[0] = max(now, 0.0), total, change
    for at in range(len(parents)):
        i, a, b, m = parents[at], parents[at] + 1, second[at], counts[parents[at]]
        x[a], c[a] = share[at] * x[i], share[at] * c[i] + moved[at]
        x[b], c[b] = x[i] - x[a], c[i] - c[a]
        both = x[i] + ahead * c[i]
        part = (x[a] + ahead * c[a]) / both if both > 0 else share[at]
        if halves[at] <= 0 or halves[at] >= 1:
            part = halves[at]
        least, deviation = min(part, 1 - part), np.sqrt(spread[at])
        if 0.5 - least > far * deviation:
            unclear = _SOFT * (unsure * deviation / max(least, _TINY)) ** 2
            left = max(least, 0.0) * max(1 - unclear, 0.0)
            part = left if part < 0.5 else 1 - left
        counts[a] = min(max(part * m, 0.0), m)
        counts[b] = m - counts[a]
    return counts


@njit(cache=True)
def carried(held, kept, halves):
    """Shares, variances and changes of another tree's parents.

    `kept` is the place of each among the parents before, or -1: nothing is known of its halves but
    their area.
    """
    share, spread, moved = halves.copy(), np.zeros(len(halves)), np.zeros(len(halves))
    for at in range(len(halves)):
        spread[at] = 4 * _UNKNOWN * halves[at] * (1 - halves[at])
        if kept[at] >= 0:
            share[at], spread[at] = held[0][kept[at]], held[1][kept[at]]
            moved[at] = held[2][kept[at]]
    return share, spread, moved


@njit(cache=True)
def covered(part, counts, doubt, inner, second):
    """The variance that the splits of nodes add to a count.

    `part` is the covered part of each leaf; an inner node's is the mean over its halves' points.
    `doubt` is the variance of each split.
    """
    total = 0.0
    for i in range(len(inner) - 1, -1, -1):
        if inner[i]:
            a, b = i + 1, second[i]
            both = counts[a] + counts[b]
            share = counts[a] / both if both > 0 else 0.5
            part[i] = share * part[a] + (1 - share) * part[b]
            total += doubt[i] * (part[a] - part[b]) ** 2
    return total


@njit(cache=True)
def passed_on(variance, counts, doubt, inner, second):
    """The variance of each node's count, from the root's and from the splits'."""
    made = np.zeros(len(inner))
    made[0] = variance
    for i in range(len(inner)):
        if inner[i]:
            a, b = i + 1, second[i]
            share = counts[a] / counts[i] if counts[i] > 0 else 0.5
            made[a] = share**2 * made[i] + doubt[i]
            made[b] = (1 - share) ** 2 * made[i] + doubt[i]
    return made
