"""Routes along streets, as compiled loops."""

from typing import NamedTuple

import numpy as np
from numba import njit

from tailrace.models.walks.paths_kernel import pop, push


class Streets(NamedTuple):
    """Streets as a graph of pieces, each within one cell of a layout."""

    starts: np.ndarray  # (nodes + 1,) the first piece that leaves a node
    targets: np.ndarray  # (pieces,) where it leads
    lengths: np.ndarray  # (pieces,)
    cells: np.ndarray  # (pieces,) the layout's cell that each lies in; the number of cells: none
    x: np.ndarray  # (nodes,)
    y: np.ndarray


@njit(cache=True, nogil=True)
def _grown(values):
    """A copy with room for as many again."""
    larger = np.empty(2 * len(values), values.dtype)
    larger[: len(values)] = values
    return larger


@njit(cache=True, nogil=True)
def _draw(trip, piece):
    """A number from 0 to 1 that looks drawn, the same both ways."""
    h = np.uint64(trip) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(piece) * np.uint64(
        0xC2B2AE3D27D4EB4F
    )
    h = (h ^ (h >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((h ^ (h >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


@njit(cache=True, nogil=True)
def landmarks(streets, prices, many):
    """(nodes, many) distances from landmarks, each far from the others."""
    nodes = len(streets.starts) - 1
    found, nearest, root = np.zeros((nodes, many)), np.full(nodes, np.inf), 0
    keys, queue = np.empty(len(prices) + 1), np.empty(len(prices) + 1, np.uint32)
    for mark in range(many):
        cost = np.full(nodes, np.inf)
        cost[root], keys[0], queue[0], waiting = 0.0, 0.0, root, 1
        while waiting:
            key, node = keys[0], queue[0]
            pop(keys, queue, waiting)
            waiting -= 1
            if key > cost[node]:
                continue
            for piece in range(streets.starts[node], streets.starts[node + 1]):
                other, total = streets.targets[piece], key + prices[piece]
                if total < cost[other]:
                    cost[other] = total
                    push(keys, queue, waiting, total, other)
                    waiting += 1
        farthest = -1.0
        for node in range(nodes):
            # Nodes that the landmark does not reach are not bounded by it.
            found[node, mark] = cost[node] if cost[node] < np.inf else 0.0
            nearest[node] = min(nearest[node], cost[node])
            if farthest < nearest[node] < np.inf:
                farthest, root = nearest[node], node
    return found


@njit(cache=True, nogil=True)
def _ways(streets):
    """(3, pieces) where each begins, which one follows it, and where its street ends.

    A street is a row of pieces between nodes at which streets meet or end. -1: none follows.
    """
    many = len(streets.targets)
    source, onward, head = np.empty(many, np.int64), np.full(many, -1), np.empty(many, np.int64)
    for node in range(len(streets.starts) - 1):
        source[streets.starts[node] : streets.starts[node + 1]] = node
    for piece in range(many):
        node = streets.targets[piece]
        at = streets.starts[node]
        if streets.starts[node + 1] - at == 2:
            back, other = streets.targets[at] == source[piece], streets.targets[at + 1]
            # Of two pieces between the same nodes neither is the way on.
            if back != (other == source[piece]):
                onward[piece] = at + 1 if back else at
    for piece in range(many):
        last = piece
        while onward[last] >= 0 and streets.targets[last] != source[piece]:
            last = onward[last]
        head[piece] = streets.targets[last]
    return source, onward, head


@njit(cache=True, nogil=True)
def routes(streets, prices, marks, first, last, numbers, spread):
    """(offsets, pieces) of a good route of each trip.

    A piece costs its price, and for each trip up to `spread` times more. A* (Hart et al. 1968) over
    whole streets, with bounds from landmarks (Goldberg and Harrelson 2005) times the usual part of
    the spread: no route costs more than that part above the best one. Where no route leads, there
    are no pieces.
    """
    nodes, usual = len(streets.starts) - 1, 1.0 + spread / 2
    source, onward, head = _ways(streets)
    whole = np.empty(len(prices))
    for begin in range(len(prices)):
        piece, whole[begin] = begin, prices[begin]
        while onward[piece] >= 0 and streets.targets[piece] != source[begin]:
            piece = onward[piece]
            whole[begin] += prices[piece]
    cost, came = np.full(nodes, np.inf), np.full(nodes, -1, np.int64)
    bounds, closed = np.empty(nodes), np.zeros(nodes, np.bool_)
    touched = np.empty(nodes, np.int64)
    keys, queue = np.empty(len(prices) + 1), np.empty(len(prices) + 1, np.uint32)
    ends, many = np.zeros(len(first) + 1, np.int64), 0
    found = np.empty(64 * len(first) + 64, np.int64)
    for trip in range(len(first)):
        root, goal, number = first[trip], last[trip], numbers[trip]
        # The street that the goal lies inside of, by its ends.
        one, other = -1, -1
        at = streets.starts[goal]
        if streets.starts[goal + 1] - at == 2:
            one, other = head[at], head[at + 1]
        cost[root], touched[0], reached, waiting = 0.0, root, 1, 1
        keys[0], queue[0] = 0.0, root
        while waiting:
            node = np.int64(queue[0])
            pop(keys, queue, waiting)
            waiting -= 1
            if node == goal:
                break
            if closed[node]:
                continue
            closed[node] = True
            for begin in range(streets.starts[node], streets.starts[node + 1]):
                end = head[begin]
                past = (node == one and end == other) or (node == other and end == one)
                # No draw makes a street cheaper than its prices.
                if not past and node != root and cost[node] + whole[begin] >= cost[end]:
                    continue
                piece, total = begin, cost[node]
                while True:
                    total += prices[piece] * (1.0 + spread * _draw(number, piece))
                    end = streets.targets[piece]
                    if onward[piece] < 0 or end in (goal, node):
                        break
                    piece = onward[piece]
                if total < cost[end] and not closed[end]:
                    if cost[end] == np.inf:
                        touched[reached] = end
                        reached += 1
                        bound = 0.0
                        for mark in range(marks.shape[1]):
                            bound = max(bound, abs(marks[end, mark] - marks[goal, mark]))
                        bounds[end] = usual * bound
                    cost[end], came[end] = total, begin
                    push(keys, queue, waiting, total + bounds[end], end)
                    waiting += 1
        if cost[goal] < np.inf:
            start, node = many, goal
            while node != root:
                # A street is walked from its first piece, and written down backwards.
                begin, piece, length = came[node], came[node], 1
                while streets.targets[piece] != node:
                    piece = onward[piece]
                    length += 1
                while many + length > len(found):
                    found = _grown(found)
                piece = begin
                for k in range(length):
                    found[many + length - 1 - k] = piece
                    piece = onward[piece]
                many += length
                node = source[begin]
            found[start:many] = found[start:many][::-1].copy()
        for k in range(reached):
            cost[touched[k]], came[touched[k]], closed[touched[k]] = np.inf, -1, False
        ends[trip + 1] = many
    return ends, found[:many]


@njit(cache=True, nogil=True)
def passed(streets, offsets, pieces, most, cells):
    """(cells + 1,) trips that pass each cell, those of more than `most` cells less.

    A trip through n different cells gives each 1 / max(n, most).
    """
    found, seen = np.zeros(cells + 1), np.full(cells + 1, -1, np.int64)
    for trip in range(len(offsets) - 1):
        many = 0
        for k in range(offsets[trip], offsets[trip + 1]):
            cell = streets.cells[pieces[k]]
            if seen[cell] != trip:
                seen[cell] = trip
                many += 1
        for k in range(offsets[trip], offsets[trip + 1]):
            cell = streets.cells[pieces[k]]
            if seen[cell] == trip:
                seen[cell] = -1
                found[cell] += 1 / max(many, most)
    return found
