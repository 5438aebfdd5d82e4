"""A public binary tree over the cells of a table.

Sides are halved in turn: the whole is at the top, single cells are at the bottom. The tree is a
function of the table's shape alone. It gives static histograms their levels, and an orthonormal
basis:

1. For a node of a + b cells, a in its first half (sum S1) and b in its second (sum S2), the
   *detail* is (b S1 - a S2) / sqrt(a b (a + b)).
2. For the whole it is its sum over the square root of its size.
3. Independent noise of variance v in the cells is noise of variance v in every detail.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Halving:
    """The nodes of every depth, each a run of cells.

    Depth 0 is the whole, the last depth has single cells; runs are in `order`.
    """

    order: np.ndarray  # (cells,) the cells in the order of the tree
    # Of each depth but the last: (nodes,) the first of the one or two children of each node.
    first: tuple[np.ndarray, ...]
    # Of each depth: (nodes,) how many cells a node holds.
    size: tuple[np.ndarray, ...]
    # The depths at which every side has been halved equally often, or is a single cell.
    rounds: tuple[int, ...]

    @property
    def depth(self) -> int:
        return len(self.first)

    def sums(self, cells: np.ndarray) -> list[np.ndarray]:
        """The sums of each depth; `cells` in tree order."""
        found = [cells]
        for first in reversed(self.first):
            found.append(np.add.reduceat(found[-1], first))
        return found[::-1]

    def below(self, depth: int, values: np.ndarray) -> np.ndarray:
        """The value of each node, for its children."""
        return np.repeat(values, self._children[depth])

    @functools.cached_property
    def _children(self) -> tuple[np.ndarray, ...]:
        return tuple(
            np.diff(first, append=len(size))
            for first, size in zip(self.first, self.size[1:], strict=True)
        )

    @functools.cached_property
    def _halves(self) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
        """Each depth's nodes of two children, and the cells of both."""
        found = []
        for first, children, size in zip(self.first, self._children, self.size[1:], strict=True):
            nodes = np.flatnonzero(children == 2)
            halves = size[first[nodes]], size[first[nodes] + 1]
            found.append((nodes, *(half.astype(float) for half in halves)))
        return tuple(found)

    def details(self, cells: np.ndarray) -> list[np.ndarray]:
        """The orthonormal coefficients of cells in their own order.

        First the whole, then for each depth the details of its nodes of two children.
        """
        sums = self.sums(np.asarray(cells, float)[self.order])
        found = [sums[0] / np.sqrt(len(self.order))]
        for depth, (nodes, a, b) in enumerate(self._halves):
            left = sums[depth + 1][self.first[depth][nodes]]
            right = sums[depth + 1][self.first[depth][nodes] + 1]
            found.append((b * left - a * right) / np.sqrt(a * b * (a + b)))
        return found

    def descend(self, depth: int, sums: np.ndarray, details: np.ndarray) -> np.ndarray:
        """The sums of the next depth, from this depth's details."""
        nodes, a, b = self._halves[depth]
        under = np.empty(len(self.size[depth + 1]))
        under[self.first[depth]] = sums
        left = a / (a + b) * sums[nodes] + details * np.sqrt(a * b / (a + b))
        under[self.first[depth][nodes]] = left
        under[self.first[depth][nodes] + 1] = sums[nodes] - left
        return under

    def cells(self, details: list[np.ndarray]) -> np.ndarray:
        """The cells, in their own order, with these coefficients."""
        sums = details[0] * np.sqrt(len(self.order))
        for depth in range(self.depth):
            sums = self.descend(depth, sums, details[depth + 1])
        out = np.empty(len(self.order))
        out[self.order] = sums
        return out

    def whose(self, depth: int) -> np.ndarray:
        """The nodes that the details of a depth belong to."""
        return self._halves[depth][0]


@functools.lru_cache(maxsize=16)
def halving(shape: tuple[int, ...]) -> Halving:
    """The tree of a table of this shape.

    >>> tree = halving((3, 2))
    >>> [len(size) for size in tree.size], tree.rounds
    ([1, 2, 4, 6], (0, 2, 3))
    """
    paths, bits = zip(*(halvings(side) for side in shape), strict=True)
    turns = [(turn, a) for turn in range(max(bits)) for a in range(len(shape)) if bits[a] > turn]
    key = np.zeros(shape, np.int64)
    for turn, axis in turns:
        along = paths[axis] >> (bits[axis] - 1 - turn) & 1
        key = key << 1 | along.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    key = key.reshape(-1)
    order = np.argsort(key, kind="stable")
    key, levels = key[order], []
    for depth in range(len(turns) + 1):
        node = key >> (len(turns) - depth)
        levels.append(np.flatnonzero(np.diff(node, prepend=-1)))
    first = tuple(np.searchsorted(below, here) for here, below in itertools.pairwise(levels))
    size = tuple(np.diff(starts, append=len(order)) for starts in levels)
    ends = [depth for depth in range(1, len(turns)) if turns[depth][0] != turns[depth - 1][0]]
    return Halving(order, first, size, (0, *ends, len(turns)) if turns else (0,))


def halvings(side: int) -> tuple[np.ndarray, int]:
    """(bits, halvings): the halves that each place lies in."""
    bits = (side - 1).bit_length()
    path, low, high = np.zeros(side, np.int64), np.zeros(side, np.int64), np.full(side, side)
    place = np.arange(side)
    for _ in range(bits):
        middle = (low + high + 1) // 2
        upper = (place >= middle) & (high - low > 1)
        path = path << 1 | upper
        low, high = np.where(upper, middle, low), np.where(upper | (high - low <= 1), high, middle)
    return path, bits
