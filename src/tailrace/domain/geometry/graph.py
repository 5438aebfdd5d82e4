"""The public graph of cells that touch."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.domain.geometry.partition import Partition
from tailrace.errors import DataError


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """Directed edges, sorted by source and then by target.

    Cell i leads to targets[starts[i]:starts[i + 1]], never to itself.

    >>> line = Graph(starts=np.array([0, 1, 3, 4]), targets=np.array([1, 0, 2, 1]))
    >>> line.cells, line.sources, line.edge(np.array([1, 0]), np.array([2, 2]))
    (3, array([0, 1, 1, 2]), array([ 2, -1]))
    """

    starts: np.ndarray  # (cells + 1,)
    targets: np.ndarray  # (edges,)

    @classmethod
    def of_pairs(cls, pairs: np.ndarray, cells: int) -> Graph:
        """The graph with both directions of each pair of cells."""
        one, other = pairs.T
        keys = np.unique(np.concatenate([one * cells + other, other * cells + one]))
        starts = np.searchsorted(keys, np.arange(cells + 1) * cells)
        return cls(starts=starts, targets=keys % cells if cells else keys)

    @property
    def cells(self) -> int:
        return len(self.starts) - 1

    @functools.cached_property
    def sources(self) -> np.ndarray:
        """The cell that each edge leaves."""
        return np.repeat(np.arange(self.cells), np.diff(self.starts))

    def edge(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The edge from each source to its target; -1: none."""
        keys = np.append(self.sources * self.cells + self.targets, self.cells**2)
        wanted = np.asarray(sources, np.int64) * self.cells + targets
        places = np.searchsorted(keys, wanted)
        return np.where(keys[places] == wanted, places, -1)


def adjacency(partition: Partition, depth: np.ndarray, index: np.ndarray) -> Graph:
    """The graph of nodes that touch, at a corner too.

    Components are linked where they lie nearest. The nodes must not overlap, and may leave out
    parts of the box: those that hold nothing of a geometry.

    >>> from tailrace.domain import Box
    >>> square = Partition(Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=4))
    >>> adjacency(square, np.array([1, 2, 2]), np.array([0, 2, 3])).targets
    array([1, 2, 0, 2, 0, 1])
    """
    from tailrace.domain.geometry import kernel

    low, high = partition.rectangles(depth, index)
    if not len(low):
        raise DataError("A graph needs at least one cell.")
    pairs = kernel.touching(*_tree(low, high))
    graph = Graph.of_pairs(pairs, len(low))
    labels = kernel.components(graph.starts, graph.targets)
    if not labels.any():
        return graph
    # A graph is of maps alone, without attributes.
    plane: Any = partition.domain
    sides = np.subtract(plane.high, plane.low)
    # Distances are compared in the plane's own units, whatever their size.
    sides /= sides.max()
    links = kernel.links(*_tree(low * sides, high * sides), labels)
    return Graph.of_pairs(np.concatenate([pairs, links]), len(low))


def _tree(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heaps of corners: boxes at the bottom, pairs above."""
    half, far = 1 << (len(low) - 1).bit_length(), np.inf
    lows, highs = np.full((2 * half, low.shape[1]), far), np.full((2 * half, low.shape[1]), -far)
    lows[half : half + len(low)], highs[half : half + len(low)] = low, high
    while half > 1:
        left, right = slice(half, 2 * half, 2), slice(half + 1, 2 * half, 2)
        half //= 2
        lows[half : 2 * half] = np.minimum(lows[left], lows[right])
        highs[half : 2 * half] = np.maximum(highs[left], highs[right])
    return lows, highs
