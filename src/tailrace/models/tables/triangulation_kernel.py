"""Elimination of attributes from a graph, as a compiled loop."""

import numpy as np
from numba import njit


@njit(cache=True)
def eliminated(graph, sizes, by_fill):
    """(cells, members, maximal): cliques of a greedy elimination.

    The next attribute is the one that adds fewest edges (`by_fill`) or makes the smallest table;
    ties go to the other criterion, then to the lower number. Row i of `members` is the clique of
    the i-th attribute eliminated; `cells` counts those of the `maximal` cliques.
    """
    count = len(sizes)
    linked, members = graph.copy(), np.zeros((count, count), np.bool_)
    place, order = np.full(count, count, np.int64), np.empty(count, np.int64)
    fill, weight, stale = np.zeros(count, np.int64), np.zeros(count), np.ones(count, np.bool_)
    near = np.empty(count, np.int64)
    for turn in range(count):
        best = -1
        for one in range(count):
            if place[one] < count:
                continue
            if stale[one]:
                degree = _neighbours(linked, one, near)
                fill[one], weight[one], stale[one] = (
                    _missing(linked, near, degree),
                    sizes[one],
                    False,
                )
                for i in range(degree):
                    weight[one] *= sizes[near[i]]
            if best < 0 or _before(fill[one], weight[one], fill[best], weight[best], by_fill):
                best = one
        place[best], order[turn] = turn, best
        members[turn, best] = True
        degree = _neighbours(linked, best, near)
        for i in range(degree):
            one = near[i]
            members[turn, one] = True
            linked[one, best] = False
            for j in range(degree):
                if i != j:
                    linked[one, near[j]] = True
        for i in range(degree):
            stale[near[i]] = True
            for other in range(count):
                if linked[near[i], other]:
                    stale[other] = True
    return _maximal(members, place, order, sizes)


@njit(cache=True)
def _maximal(members, place, order, sizes):
    """Find the maximal cliques.

    A clique lies in another only where one eliminated before has just one attribute more, and hands
    it the rest.
    """
    count = len(sizes)
    maximal, width = np.ones(count, np.bool_), np.zeros(count, np.int64)
    for turn in range(count):
        width[turn] = members[turn].sum()
    for turn in range(count):
        following = count
        for one in range(count):
            if members[turn, one] and one != order[turn]:
                following = min(following, place[one])
        if following < count and width[following] + 1 == width[turn]:
            maximal[following] = False
    cells = 0.0
    for turn in range(count):
        if maximal[turn]:
            product = 1.0
            for one in range(count):
                if members[turn, one]:
                    product *= sizes[one]
            cells += product
    return cells, members, maximal


@njit(cache=True)
def _neighbours(linked, one, near):
    degree = 0
    for other in range(len(near)):
        if linked[one, other]:
            near[degree] = other
            degree += 1
    return degree


@njit(cache=True)
def _missing(linked, near, degree):
    missing = 0
    for i in range(degree):
        for j in range(i):
            if not linked[near[i], near[j]]:
                missing += 1
    return missing


@njit(cache=True)
def _before(fill, weight, other_fill, other_weight, by_fill):
    if by_fill:
        return fill < other_fill or (fill == other_fill and weight < other_weight)
    return weight < other_weight or (weight == other_weight and fill < other_fill)
