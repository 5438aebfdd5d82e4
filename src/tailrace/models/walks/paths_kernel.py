"""Searches over a graph, per end of walks, compiled."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def outward(starts, targets, root, farthest, hops, order):
    """Search breadth first from `root`; return how many cells.

    Sets `hops` (-1 before) of the cells it finds, and lists them in `order`.
    """
    hops[root], order[0], found, at = 0, root, 1, 0
    while at < found:
        cell = order[at]
        at += 1
        if hops[cell] == farthest:
            break
        for edge in range(starts[cell], starts[cell + 1]):
            other = targets[edge]
            if hops[other] < 0:
                hops[other] = hops[cell] + 1
                order[found] = other
                found += 1
    return found


@njit(cache=True, nogil=True)
def fewest(back, groups, members, first, last, found):
    """The fewest moves from each first cell to its last.

    Even numbers are in found[:, 0], odd ones in found[:, 1]; -1: none. Breadth first over pairs of
    a cell and a parity, which are numbered 2 cell + parity, until all answers are found.
    """
    starts, sources = back
    pairs = 2 * (len(starts) - 1)
    moves, order = np.full(pairs, -1, np.int32), np.empty(pairs, np.uint32)
    wanted = np.zeros(pairs, np.bool_)
    for group in range(len(groups) - 1):
        walks = members[groups[group] : groups[group + 1]]
        missing = 0
        for walk in walks:
            missing += 0 if wanted[2 * first[walk]] else 2
            wanted[2 * first[walk] : 2 * first[walk] + 2] = True
        order[0] = 2 * last[walks[0]]
        moves[order[0]], many, at = 0, 1, 0
        missing -= wanted[order[0]]
        while at < many and missing:
            pair = order[at]
            at += 1
            for edge in range(starts[pair // 2], starts[pair // 2 + 1]):
                other = np.uint32(2 * sources[edge] + 1 - pair % 2)
                if moves[other] < 0:
                    moves[other], order[many] = moves[pair] + 1, other
                    missing -= wanted[other]
                    many += 1
        for walk in walks:
            found[walk, 0] = moves[2 * first[walk]]
            found[walk, 1] = moves[2 * first[walk] + 1]
            wanted[2 * first[walk] : 2 * first[walk] + 2] = False
        for i in range(many):
            moves[order[i]] = -1


@njit(cache=True, nogil=True)
def _feasible(graph, back, first, last, moves):
    """As `feasible`, for one walk.

    Goes back from the end by all moves at once, over the cells that the first one reaches. These
    run out, unless a circle lies on a way from first to last; then some number beyond `moves` is
    feasible, so that the search ends.
    """
    cells = len(graph[0]) - 1
    hops, order = np.full(cells, -1, np.int32), np.empty(cells, np.uint32)
    outward(graph[0], graph[1], first, cells, hops, order)
    latest = np.full(cells, -1, np.int64)
    here, there, many, best, j = order, np.empty(cells, np.uint32), 1, -1, 0
    here[0], latest[last] = last, 0
    while many:
        if latest[first] == j:
            best = j
            if j >= moves:
                break
        following = 0
        for i in range(many):
            for edge in range(back[0][here[i]], back[0][here[i] + 1]):
                other = back[1][edge]
                if hops[other] >= 0 and latest[other] <= j:
                    latest[other], there[following] = j + 1, other
                    following += 1
        here, there, many, j = there, here, following, j + 1
    return best


@njit(cache=True, nogil=True)
def feasible(graph, back, first, last, moves):
    """The feasible number of moves nearest to `moves`.

    That is the smallest from `moves` on that leads from first to last; where there is none, the
    largest below it; or -1.
    """
    found = np.empty(len(first), np.int64)
    for walk in range(len(first)):
        found[walk] = _feasible(graph, back, first[walk], last[walk], moves[walk])
    return found


@njit(cache=True, nogil=True)
def push(keys, cells, many, key, cell):
    at = many
    while at > 0 and keys[(at - 1) // 2] > key:
        keys[at], cells[at] = keys[(at - 1) // 2], cells[(at - 1) // 2]
        at = (at - 1) // 2
    keys[at], cells[at] = key, cell


@njit(cache=True, nogil=True)
def pop(keys, cells, many):
    """Take the least off a heap of `many`."""
    key, cell, at, last = keys[many - 1], cells[many - 1], 0, many - 1
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[at], cells[at] = keys[child], cells[child]
        at = child
    keys[at], cells[at] = key, cell


@njit(cache=True, nogil=True)
def cheapest(back, costs, groups, members, first, last, found):
    """Moves on each cheapest path (Dijkstra 1959); -1: none."""
    starts, sources = back
    cells = len(starts) - 1
    cost, moves = np.full(cells, np.inf), np.zeros(cells, np.int32)
    wanted, touched = np.zeros(cells, np.bool_), np.empty(cells, np.uint32)
    keys, queue = np.empty(len(sources) + 1), np.empty(len(sources) + 1, np.uint32)
    for group in range(len(groups) - 1):
        walks = members[groups[group] : groups[group + 1]]
        missing = 0
        for walk in walks:
            missing += not wanted[first[walk]]
            wanted[first[walk]] = True
        touched[0] = last[walks[0]]
        cost[touched[0]], moves[touched[0]], many, reached = 0.0, 0, 1, 1
        keys[0], queue[0] = 0.0, touched[0]
        while many and missing:
            key, cell = keys[0], queue[0]
            pop(keys, queue, many)
            many -= 1
            # A cheaper path has overtaken this entry.
            if key > cost[cell]:
                continue
            if wanted[cell]:
                wanted[cell] = False
                missing -= 1
            for edge in range(starts[cell], starts[cell + 1]):
                other, total = sources[edge], key + costs[edge]
                if total < cost[other]:
                    if cost[other] == np.inf:
                        touched[reached] = other
                        reached += 1
                    cost[other], moves[other] = total, moves[cell] + 1
                    push(keys, queue, many, total, other)
                    many += 1
        for walk in walks:
            found[walk] = moves[first[walk]] if cost[first[walk]] < np.inf else -1
            wanted[first[walk]] = False
        for i in range(reached):
            cost[touched[i]] = np.inf
