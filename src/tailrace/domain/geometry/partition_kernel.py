"""Nodes of a partition in preorder, as compiled loops."""

import numpy as np
from numba import njit


@njit(cache=True)
def lay_out(inner, deepest):
    """(second, depth, first): the second child of each inner node, the depth of each node, and the
    first place it covers.
    """
    nodes = len(inner)
    second, depth, first = (
        np.full(nodes, -1, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
    )
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
    """The number of the leaf that covers each cell's place, -1 where none does; leaf n covers
    first[n] up to last[n].
    """
    by_place = np.full(len(places), -1, np.int32)
    for leaf in range(len(first)):
        by_place[first[leaf] : last[leaf]] = leaf
    groups = np.empty(len(places), np.int32)
    for cell in range(len(places)):
        groups[cell] = by_place[places[cell]]
    return groups
