"""Boxes that touch or lie nearest, as compiled loops.

The boxes stand in a tree, which is a heap: node 1 is the root, and the children of node i are 2 i
and 2 i + 1. The last half of it are the boxes, empty ones (low above high) at the end. A node's box
holds those of its children.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def _touch(low, high, u, v):
    touch = True
    for d in range(low.shape[1]):
        touch &= low[u, d] <= high[v, d] and low[v, d] <= high[u, d]
    return touch


@njit(cache=True)
def touching(low, high):
    """All pairs of boxes that share a point.

    The smaller number comes first. Pairs of nodes on one level are tested from the root down.
    """
    half, found, height = len(low) // 2, 0, 1
    pairs, stack = np.empty((1024, 2), np.int64), np.empty((1024, 2), np.int64)
    stack[0] = 1
    while height:
        height -= 1
        u, v = stack[height]
        if u >= half:
            if u < v:
                if found == len(pairs):
                    pairs = np.concatenate((pairs, np.empty_like(pairs)))
                pairs[found] = u - half, v - half
                found += 1
            continue
        if height + 4 > len(stack):
            stack = np.concatenate((stack, np.empty_like(stack)))
        for a in range(2 * u, 2 * u + 2):
            for b in range(max(a, 2 * v), 2 * v + 2):
                if _touch(low, high, a, b):
                    stack[height] = a, b
                    height += 1
    return pairs[:found].copy()


@njit(cache=True)
def components(starts, targets):
    """The smallest connected cell, as a label of each cell."""
    cells = len(starts) - 1
    labels, queue = np.full(cells, -1, np.int64), np.empty(cells, np.int64)
    for root in range(cells):
        if labels[root] >= 0:
            continue
        labels[root], queue[0], many, at = root, root, 1, 0
        while at < many:
            cell = queue[at]
            at += 1
            for edge in range(starts[cell], starts[cell + 1]):
                other = targets[edge]
                if labels[other] < 0:
                    labels[other], queue[many] = root, other
                    many += 1
    return labels


@njit(cache=True)
def _gap(low, high, u, v):
    """The square of the distance between two boxes."""
    total = 0.0
    for d in range(low.shape[1]):
        total += max(0.0, low[v, d] - high[u, d], low[u, d] - high[v, d]) ** 2
    return total


@njit(cache=True)
def _nearest_outside(low, high, labels, members):
    """The nearest pair of a member and another label's box."""
    half = len(low) // 2
    best, inner, outer = np.inf, -1, -1
    stack = np.empty(128, np.int64)
    for cell in members:
        stack[0], height = 1, 1
        while height:
            height -= 1
            node = stack[height]
            if _gap(low, high, half + cell, node) >= best:
                continue
            if node < half:
                left = _gap(low, high, half + cell, 2 * node)
                near = 2 * node + (left > _gap(low, high, half + cell, 2 * node + 1))
                # The nearer one comes next.
                stack[height], stack[height + 1] = near ^ 1, near
                height += 2
            elif labels[node - half] != labels[cell]:
                best, inner, outer = _gap(low, high, half + cell, node), cell, node - half
    return inner, outer


@njit(cache=True)
def links(low, high, labels):
    """Pairs of boxes that connect all components.

    Again and again the smallest component is linked to the nearest box outside it.
    """
    labels, sizes = labels.copy(), np.bincount(labels)
    left = np.count_nonzero(sizes)
    pairs = np.empty((left - 1, 2), np.int64)
    for link in range(left - 1):
        smallest = -1
        for label in range(len(sizes)):
            if sizes[label] and (smallest < 0 or sizes[label] < sizes[smallest]):
                smallest = label
        members = np.flatnonzero(labels == smallest)
        inner, outer = _nearest_outside(low, high, labels, members)
        pairs[link] = inner, outer
        sizes[labels[outer]] += sizes[smallest]
        sizes[smallest] = 0
        labels[members] = labels[outer]
    return pairs
