"""Compiled loops over cells: strips, draws, nearest cells, trees, graphs."""

import numpy as np
from numba import njit

# Of a cell: a narrower strip is rounding, not geometry. Chosen by reasoning: far above the
# precision of doubles, far below LEAST in measures.py.
THIN = 1e-12


@njit(cache=True)
def strips(offsets, start, end):
    """Cut cells into upright strips between the ends of pieces.

    The pieces from offsets[i] to offsets[i + 1] lie in cell i. No two borders of a valid polygon
    cross within a strip.

    Returns two tuples of arrays:

    1. For each strip its cell, its left side and its right side.
    2. The levels of all strips, from bottom to top: the strip and the heights at both sides. They
       are its floor (0, 0), the pieces that run through it, and its ceiling (1, 1).
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
            through = np.flatnonzero(
                (np.minimum(a[:, 0], b[:, 0]) <= left) & (np.maximum(a[:, 0], b[:, 0]) >= right)
            )
            slope = (b[through, 1] - a[through, 1]) / (b[through, 0] - a[through, 0])
            low = a[through, 1] + (left - a[through, 0]) * slope
            high = a[through, 1] + (right - a[through, 0]) * slope
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
def scaled(points, low, scale, last, side):
    """Points (n, 2) in units of cells, as `Grid.scaled` says."""
    found = np.empty((len(points), 2))
    for i in range(len(points)):
        for axis in range(2):
            value = (points[i, axis] - low[axis]) * scale[axis]
            # The highest edge is inside.
            inside = points[i, axis] <= last[axis]
            found[i, axis] = min(value, float(side)) if inside else value
    return found


@njit(cache=True)
def points(cells, inside, low, scale, first, last):
    """The points (n, 2) at places of their cells, as `Grid.points` says."""
    found, side = np.empty((len(cells), 2)), first.shape[1]
    for i in range(len(cells)):
        for axis in range(2):
            code = cells[i] % side if axis else cells[i] // side
            value = low[axis] + (code + inside[i, axis]) / scale[axis]
            # Rounding may stray over an edge.
            found[i, axis] = min(max(value, first[axis, code]), last[axis, code])
    return found


@njit(cache=True)
def cumulate(offsets, sizes):
    """Cumulate sizes anew in each cell, for precision."""
    sums = sizes.copy()
    for cell in range(len(offsets) - 1):
        for part in range(offsets[cell] + 1, offsets[cell + 1]):
            sums[part] += sums[part - 1]
    return sums


@njit(cache=True)
def choose(offsets, cumulated, cells, shares):
    """The part at each share of its cell.

    It is the first part whose cumulated size is above the share, which runs from 0 to 1.
    """
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
    """The nearest held cell for each cell of a grid.

    Distances are centre to centre; -1 where all held cells are beyond reach. Exact in two passes:
    along rows, then for each column the lower envelope of the parabolas that the rows' distances
    make (Felzenszwalb and Huttenlocher, Distance transforms of sampled functions, 2012).
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
                # Where the parabola of row i takes over.
                until[count - 1] = begins
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


@njit(cache=True)
def lay_out(inner, deepest):
    """(second, depth, first) of a tree's nodes in preorder.

    They are the second child of each inner node, the depth of each node, and the first place it
    covers.
    """
    nodes = len(inner)
    second = np.full(nodes, -1, np.int64)
    depth, first = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    waiting, height = np.empty(deepest + 1, np.int64), 0
    for i in range(nodes - 1):
        if inner[i]:
            waiting[height] = i
            height += 1
            depth[i + 1], first[i + 1] = depth[i] + 1, first[i]
        else:
            height -= 1
            parent = waiting[height]
            second[parent] = i + 1
            depth[i + 1] = depth[parent] + 1
            first[i + 1] = first[parent] + (np.int64(1) << (deepest - depth[parent] - 1))
    return second, depth, first


@njit(cache=True)
def group_of(places, first, last):
    """The leaf that covers each cell's place; -1: none.

    Leaf n covers first[n] up to last[n].
    """
    by_place = np.full(len(places), -1, np.int32)
    for leaf in range(len(first)):
        by_place[first[leaf] : last[leaf]] = leaf
    groups = np.empty(len(places), np.int32)
    for cell in range(len(places)):
        groups[cell] = by_place[places[cell]]
    return groups


# Boxes that touch or lie nearest stand in a tree, which is a heap: node 1 is the root, and the
# children of node i are 2 i and 2 i + 1. The last half of it are the boxes, empty ones (low above
# high) at the end. A node's box holds those of its children.


@njit(cache=True)
def _touch(low, high, u, v):
    touch = True
    for d in range(low.shape[1]):
        touch &= low[u, d] <= high[v, d] and low[v, d] <= high[u, d]
    return touch


@njit(cache=True)
def _longer(pairs):
    longer = np.empty((2 * len(pairs), 2), np.int64)
    for i in range(len(pairs)):
        longer[i, 0], longer[i, 1] = pairs[i, 0], pairs[i, 1]
    return longer


@njit(cache=True)
def touching(low, high):
    """All pairs of boxes that share a point.

    The smaller number comes first. Pairs of nodes on one level are tested from the root down.
    """
    half, found, height = len(low) // 2, 0, 1
    pairs, stack = np.empty((1024, 2), np.int64), np.empty((1024, 2), np.int64)
    stack[0, 0] = stack[0, 1] = 1
    while height:
        height -= 1
        u, v = stack[height, 0], stack[height, 1]
        if u >= half:
            if u < v:
                if found == len(pairs):
                    pairs = _longer(pairs)
                pairs[found, 0], pairs[found, 1] = u - half, v - half
                found += 1
            continue
        if height + 4 > len(stack):
            stack = _longer(stack)
        for a in range(2 * u, 2 * u + 2):
            for b in range(max(a, 2 * v), 2 * v + 2):
                if _touch(low, high, a, b):
                    stack[height, 0], stack[height, 1] = a, b
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
