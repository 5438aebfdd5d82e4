"""Numbers of moves: fewest, and on the most probable path."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tailrace.domain.geometry.graph import Graph
from tailrace.errors import DataError

# Groups of a piece of work: enough to start it for, few enough that all workers end at about the
# same time. Chosen by trial while building; no committed result.
_TOGETHER = 32
# At most, because each one needs memory.
_WORKERS = 4
# The probability of an edge without any: such an edge is on a most probable path only if all paths
# have one.
_NEVER = 2.0**-1000


@dataclass(frozen=True, kw_only=True, eq=False)
class Ways:
    """The edges of positive weight, forwards and backwards.

    Weights are divided by the largest sum over a cell's edges.
    """

    forward: tuple[np.ndarray, np.ndarray, np.ndarray]  # starts, targets, weights
    back: tuple[np.ndarray, np.ndarray]  # starts, sources
    # The number in the graph of each edge that leads backwards.
    edges: np.ndarray

    @classmethod
    def of(cls, graph: Graph, weights: np.ndarray) -> Ways:
        """The edges whose weight relative to the largest is positive."""
        weights = weights / weights.max(initial=2.0**-1000)
        there = weights > 0
        sources, targets, weights = graph.sources[there], graph.targets[there], weights[there]
        weights = weights / np.bincount(sources, weights).max(initial=1.0)
        order = np.argsort(targets, kind="stable")
        return cls(
            forward=(_starts(sources, graph.cells), targets.astype(np.uint32), weights),
            back=(_starts(targets, graph.cells), sources[order].astype(np.uint32)),
            edges=np.flatnonzero(there)[order],
        )

    def fewest(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The fewest moves from first to last; -1: none.

        Column 0 is over even numbers of moves, column 1 over odd ones.
        """
        from tailrace.models.walks import paths_kernel as kernel

        groups, members = by_end(last)
        found = np.empty((len(first), 2), np.int64)
        in_parallel(
            lambda part: kernel.fewest(self.back, part, members, first, last, found), groups
        )
        return found


def hops(graph: Graph, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The fewest moves from each first cell to its last.

    It is -1 where there is no way.

    >>> line = Graph(starts=np.array([0, 1, 3, 4]), targets=np.array([1, 0, 2, 1]))
    >>> hops(line, np.array([0, 0, 1]), np.array([2, 0, 0]))
    array([2, 0, 1])
    """
    first, last = cells_of(graph, first, last)
    found = Ways.of(graph, np.ones(len(graph.targets))).fewest(first, last)
    return np.where((found < 0).any(axis=1), found.max(axis=1), found.min(axis=1))


def most_probable(
    graph: Graph, probability: np.ndarray, first: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """The number of moves on each most probable path.

    It is -1 where there is no way from the first cell to the last.

    >>> triangle = Graph(starts=np.array([0, 2, 4, 6]), targets=np.array([1, 2, 0, 2, 0, 1]))
    >>> probability = np.array([0.9, 0.1, 0.5, 0.5, 0.5, 0.5])
    >>> most_probable(triangle, probability, np.array([0]), np.array([2]))
    array([2])
    """
    from tailrace.models.walks import paths_kernel as kernel

    first, last = cells_of(graph, first, last)
    ways = Ways.of(graph, np.ones(len(graph.targets)))
    costs = -np.log(np.clip(np.nan_to_num(probability), _NEVER, 1.0))[ways.edges]
    groups, members = by_end(last)
    found = np.empty(len(first), np.int64)
    in_parallel(
        lambda part: kernel.cheapest(ways.back, costs, part, members, first, last, found), groups
    )
    return found


def cells_of(graph: Graph, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Check first and last cells: compiled loops do not."""
    first, last = np.ascontiguousarray(first, np.int64), np.ascontiguousarray(last, np.int64)
    if len(first) != len(last):
        raise DataError("Walks need as many last cells as first ones.")
    if len(first) and (
        min(first.min(), last.min()) < 0 or max(first.max(), last.max()) >= graph.cells
    ):
        raise DataError(
            "First and last cells of walks must be numbers of the graph's cells, from 0 on."
        )
    return first, last


def by_end(last: np.ndarray, moves: np.ndarray | int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Group walks with the same end, those with most moves first.

    Group i has the members from groups[i] up to groups[i + 1].

    >>> by_end(np.array([7, 3, 7]), np.array([1, 1, 2]))
    (array([0, 1, 3]), array([1, 2, 0]))
    """
    members = np.lexsort((np.broadcast_to(-moves, last.shape), last))
    return np.append(np.flatnonzero(np.diff(last[members], prepend=-1)), len(last)), members


def in_parallel(work: Callable[[np.ndarray], object], groups: np.ndarray) -> None:
    """Do the work of all groups, in a few threads."""
    parts = [groups[i : i + _TOGETHER + 1] for i in range(0, len(groups) - 1, _TOGETHER)]
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _WORKERS)) as pool:
        for _ in pool.map(work, parts):
            pass


def _starts(sources: np.ndarray, cells: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=cells))]).astype(np.uint32)
