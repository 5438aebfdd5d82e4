"""Walks whose next move depends on the last one: ordinary walks over the graph of edges.

A cell of that graph is an edge of the first one, or a cell's beginning, or a cell's end. A beginning leads to the edges that leave
its cell and to its own end, an edge (a, b) to the edges that leave b and to the end of b. So the paths from the beginning of
a cell to the end of another are the walks between these cells, with one move more.
"""

from __future__ import annotations

import numpy as np

from tailrace.errors import DataError
from tailrace.journeys.graph import Graph
from tailrace.journeys.paths import cells_of
from tailrace.journeys.walks import walks


def edge_graph(graph: Graph) -> Graph:
    """The graph of edges: first the edges of `graph`, then the beginnings of its cells, then their ends.

    >>> line = Graph(starts=np.array([0, 1, 2]), targets=np.array([1, 0]))
    >>> edge_graph(line).starts, edge_graph(line).targets
    (array([0, 2, 4, 6, 8, 8, 8]), array([1, 5, 0, 4, 0, 4, 1, 5]))
    """
    edges, cells = len(graph.targets), graph.cells
    at = np.concatenate([graph.targets, np.arange(cells)])  # where a walk stands on an edge or at a beginning
    many = np.diff(graph.starts)[at] + 1
    starts = np.concatenate([[0], np.cumsum(many)])
    targets = np.arange(starts[-1]) + np.repeat(graph.starts[at] - starts[:-1], many)
    targets[starts[1:] - 1] = edges + cells + at
    return Graph(starts=np.concatenate([starts, np.full(cells, starts[-1])]), targets=targets)


def walks_by_pairs(
    graph: Graph,
    probability: np.ndarray,
    pairs: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    moves: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """As `walks`, in proportion to the probability of the first edge times those of all pairs of edges that follow one another.

    `pairs` has for each edge (a, b) in turn the probabilities of all edges that leave b.
    """
    edges, cells = len(graph.targets), graph.cells
    over = edge_graph(graph)
    chances = np.ones(len(over.targets))
    inner = over.targets < edges
    if np.count_nonzero(inner) != len(pairs) + len(probability):
        raise DataError(
            "Second-order walks need a probability for each edge, and one for each pair of edges that can follow."
        )
    chances[inner] = np.concatenate([pairs, probability])
    first, last = cells_of(graph, first, last)
    beyond = np.asarray(moves, np.int64) + 1
    offsets, nodes = walks(over, chances, edges + first, edges + cells + last, beyond, rng)
    nodes = np.delete(nodes, offsets[1:] - 1)  # the ends
    at = np.concatenate([graph.targets, np.arange(cells)])
    return offsets - np.arange(len(offsets)), at[nodes]
