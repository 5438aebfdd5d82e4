"""From measured cliques to the cliques of a junction tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tailrace.errors import ConfigError

Clique = tuple[int, ...]
Shape = tuple[int, ...]


def tree_cells(shape: Sequence[int], cliques: Iterable[Clique]) -> int:
    """The cells of all tables of the cliques' junction tree.

    >>> tree_cells((2, 3, 4), [(0, 1), (1, 2)])
    18
    """
    return int(_best(shape, cliques)[0])


def tree_cliques(shape: Sequence[int], cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """The cliques of a junction tree.

    Each given clique lies in one of them, each attribute in at least one.

    >>> tree_cliques((2, 2, 2, 2), [(0, 1), (1, 2), (2, 3), (0, 3)])
    ((0, 1, 3), (1, 2, 3))
    """
    _, members, maximal = _best(shape, cliques)
    return tuple(sorted(tuple(np.flatnonzero(row).tolist()) for row in members[maximal]))


def in_tree_order(
    shape: Sequence[int], cliques: Sequence[Clique]
) -> tuple[list[Clique], list[int]]:
    """(cliques, parents) from the root down, largest table first.

    Whatever a clique shares with all before it, it shares with its parent, given by its place.
    Cliques without a common attribute share nothing.

    >>> in_tree_order((2, 2, 5), [(0, 1), (1, 2)])
    ([(1, 2), (0, 1)], [-1, 0])
    """
    held = np.zeros((len(cliques), len(shape)), bool)
    for row, clique in zip(held, cliques, strict=True):
        row[list(clique)] = True
    shared = held.astype(np.int64) @ held.T.astype(np.int64)
    cells = held @ np.log(np.asarray(shape, float))
    root = int(np.argmax(cells))
    order, parents = [root], [-1]
    # A place in `order`, and how much is shared there.
    nearest, overlap = np.zeros(len(cliques), np.int64), shared[root].copy()
    overlap[root] = -1
    for place in range(1, len(cliques)):
        chosen = int(np.argmax(overlap))
        order.append(chosen)
        parents.append(int(nearest[chosen]))
        overlap[chosen] = -1
        closer = (overlap >= 0) & (shared[chosen] > overlap)
        nearest[closer], overlap[closer] = place, shared[chosen][closer]
    return [cliques[place] for place in order], parents


def _best(shape: Sequence[int], cliques: Iterable[Clique]) -> tuple[float, np.ndarray, np.ndarray]:
    from tailrace.models.tables.triangulation_kernel import eliminated

    count = len(shape)
    graph, sizes = np.zeros((count, count), np.bool_), np.asarray(shape, np.float64)
    for clique in cliques:
        if not all(0 <= attribute < count for attribute in clique):
            raise ConfigError(
                f"A clique names an attribute outside of 0 to {count - 1}: use the schema's own "
                f"numbers."
            )
        for one in clique:
            for other in clique:
                graph[one, other] = one != other
    by_fill, by_weight = eliminated(graph, sizes, True), eliminated(graph, sizes, False)
    return by_fill if by_fill[0] <= by_weight[0] else by_weight
