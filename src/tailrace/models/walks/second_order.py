"""Walks whose next move depends on the last one's turn.

They are exact, and about as fast as walks of first order.

**The law.** Edges have one of eight directions. A path over edges e_1, ..., e_n from first to last
has a probability in proportion to

    attraction(e_1) * product over i > 1 of chance(e_i | e_(i-1)),
    chance(f | e) = attraction(f) factor(turn(e, f)) / Z(e),

where turn(e, f) is the direction of f less that of e, mod 8, and Z(e) the sum of the products
attraction(f) factor(turn(e, f)) over all f that leave where e leads.

**Why a cell has eight messages.** Write y(f) for where f leads and a(f) for its direction.

1. Z(e) and the turns into all that can follow depend on e only by the cell x that it leads to and
   by its direction d.
2. So does H_j(e), the sum over all paths of j moves that go on from e to the last cell of the
   product of their chances: it is H_j(x, d).
3. H_0(x, d) = 1 if x is the last cell, otherwise 0, and

    H_j(x, d) = sum over f that leave x of chance(f | x, d) H_(j-1)(y(f), a(f)).

4. The messages are K_j(x, d) = Z(x, d) H_j(x, d). With weight(f) = attraction(f) / Z(y(f), a(f))
   the recursion becomes

    K_j(x, d) = sum over a of factor(a - d)
        * (sum over f that leave x in direction a of weight(f) K_(j-1)(y(f), a)).

5. That is one matrix for all cells, times eight numbers, instead of a product for each pair of
   edges.

**Why the walks have the law.**

1. A walk of n moves takes the first edge f in proportion to weight(f) K_(n-1)(y(f), a(f)), which is
   attraction(f) H_(n-1)(y(f), a(f)).
2. At (x, d) with j moves left it takes the edge f in proportion to factor(a(f) - d) weight(f)
   K_(j-1)(y(f), a(f)), which is Z(x, d) chance(f | x, d) H_(j-1)(y(f), a(f)), and sums to Z(x, d)
   H_j(x, d).
3. Over a path, the messages cancel but for the first sum, which is the same for all paths of a
   walk, and H_0(last, .) = 1: the law above is left.
4. Attractions are divided by their sums over a cell, and factors by the largest. Neither changes a
   chance, nor the proportions of first edges.
5. Where Z is 0, nothing can follow, and any number will do in its place: 1 is taken.

**Windows and rounding.** The windows of walks.py hold, since a path over edges is one over cells; a
message within its window may be 0, where factors are. An H_j may lose, beyond earlier losses, the
products of weights and messages of its K_j, and those with factors, which are 1 at most: each less
than the smallest double, divided by Z.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tailrace.domain.geometry.graph import Graph
from tailrace.errors import DataError
from tailrace.models.walks.paths import Ways
from tailrace.models.walks.walks import RARE, Chain, conditioned

DIRECTIONS = 8
# The smallest positive double.
_SMALLEST = 2.0**-1074
# Where Z is less, hardly anything can follow: doubles would not hold 1 / Z.
_NEVER = 2.0**-1000


def turning_walks(
    graph: Graph,
    directions: np.ndarray,
    attraction: np.ndarray,
    factors: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    moves: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw walks as `walks` does, with factors for turns.

    Each has a probability in proportion to the attraction of its first edge times the chances of
    the others, given the one before. Edges without attraction, and turns without a factor, are used
    only between ends that nothing else connects, and there as little as can be.

    Parameters
    directions: of each edge, in eighths of a circle.
    attraction: of each edge.
    factors: of each of the eight turns.
    """
    directions, attraction = np.asarray(directions, np.int64), _finite(attraction)
    as_many = len(attraction) == len(directions) == len(graph.targets)
    if not as_many or np.shape(factors) != (DIRECTIONS,):
        raise DataError(
            "Walks that turn need a direction and an attraction for each edge, and eight factors."
        )
    if len(directions) and not 0 <= directions.min() <= directions.max() < DIRECTIONS:
        raise DataError("Directions are eighths of a circle: 0 to 7.")
    chain = TurningChain.of(graph, directions, attraction, _finite(factors))
    return conditioned(chain, first, last, moves, rng)


def by_direction(
    cells: np.ndarray, directions: np.ndarray, values: np.ndarray, many: int
) -> np.ndarray:
    """(many, 8) sums of edges' values, by cell and direction."""
    sums = np.bincount(cells * DIRECTIONS + directions, values, minlength=many * DIRECTIONS)
    return sums.reshape(many, DIRECTIONS)


def mixing_of(factors: np.ndarray) -> np.ndarray:
    """(8, 8) factors of turns, to rows from columns."""
    eighths = np.arange(DIRECTIONS)
    return factors[(eighths[:, None] - eighths) % DIRECTIONS]


@dataclass(frozen=True, kw_only=True, eq=False)
class TurningChain(Chain):
    """A chain whose next edge depends on the last direction.

    `probability` is an edge's share of the attraction that leaves its cell.
    """

    width: ClassVar[int] = DIRECTIONS
    directions: np.ndarray  # (edges,)
    mixing: np.ndarray  # (8, 8) factors, 1 at most
    # (cells, 8) Z, after arrival in each direction; 1 where nothing can follow
    sums: np.ndarray

    @classmethod
    def of(
        cls, graph: Graph, directions: np.ndarray, attraction: np.ndarray, factors: np.ndarray
    ) -> TurningChain:
        attraction = attraction / attraction.max(initial=_SMALLEST)
        leaving = np.bincount(graph.sources, attraction, minlength=graph.cells)[graph.sources]
        share = np.divide(attraction, leaving, out=np.zeros_like(attraction), where=leaving > 0)
        mixing = mixing_of(factors / factors.max(initial=_SMALLEST))
        sums = by_direction(graph.sources, directions, share, graph.cells) @ mixing
        sums[sums < _NEVER] = 1.0
        return cls(graph=graph, probability=share, directions=directions, mixing=mixing, sums=sums)

    @property
    def whole(self) -> bool:
        return super().whole and bool((self.mixing > 0).all())

    def rarer(self) -> TurningChain:
        """The chain that hardly ever uses impossible moves too.

        Each chance that was 0 becomes RARE at most: a factor or a share raised here to `least`,
        times 1 at most, divided by the sum as it was. So a walk uses as few of them as it can, also
        after the first one. (Only beside sums below 2^-836 they are more than that.)
        """
        least = max(RARE * self.sums.min(), 2.0**-900)
        share, mixing = np.maximum(self.probability, least), np.maximum(self.mixing, least)
        return replace(self, probability=share, mixing=mixing)

    @functools.cached_property
    def slots(self) -> tuple[np.ndarray, np.ndarray]:
        """(targets, weights): the edges of each cell, in slots.

        Both are (cells, 8 or more), with target -1 where there is no edge. Slot s has direction s
        mod 8; there are more than eight where a cell has several edges of one direction, as links
        of islands.
        """
        edges = np.sort(self.ways.edges)
        sources, directions = self.graph.sources[edges], self.directions[edges]
        order = np.lexsort((directions, sources))
        keys = (sources * DIRECTIONS + directions)[order]
        slots = np.empty(len(edges), np.int64)
        repeats = np.arange(len(keys)) - np.searchsorted(keys, keys)
        slots[order] = repeats * DIRECTIONS + keys % DIRECTIONS
        shape = self.graph.cells, DIRECTIONS * (1 + int(slots.max(initial=0)) // DIRECTIONS)
        targets, weights = np.full(shape, -1, np.int32), np.zeros(shape)
        targets[sources, slots] = to = self.graph.targets[edges]
        weights[sources, slots] = self.probability[edges] / self.sums[to, directions]
        return targets, weights

    def edges(
        self, logs: bool
    ) -> tuple[None, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]]:
        """For the kernel: None, and all about turns.

        That is slots, messages of ends, factors, and the most that a message loses.
        """
        targets, weights = self.slots
        if logs:
            with np.errstate(divide="ignore"):
                return None, (targets, np.log(weights), np.log(self.sums), np.log(self.mixing), 0.0)
        lost = (targets.shape[1] + DIRECTIONS) * _SMALLEST / self.sums.min()
        return None, (targets, weights, self.sums, self.mixing, lost)

    def room(self) -> tuple[np.ndarray, ...]:
        targets, weights = self.slots
        return np.empty(targets.shape, np.uint32), np.empty_like(weights)

    def feasible(self, first: np.ndarray, last: np.ndarray, moves: np.ndarray) -> np.ndarray:
        from tailrace.models.walks import paths_kernel

        edges, cells, over = len(self.graph.targets), self.graph.cells, edge_graph(self.graph)
        directions = np.append(self.directions, np.zeros(cells, np.int64))
        possible = np.ones(len(over.targets))
        inner = over.targets < edges
        before, after = over.sources[inner], over.targets[inner]
        turns = np.where(before < edges, self.mixing[directions[after], directions[before]], 1.0)
        possible[inner] = (self.probability[after] > 0) & (turns > 0)
        ways = Ways.of(over, possible)
        found = paths_kernel.feasible(
            ways.forward, ways.back, edges + first, edges + cells + last, moves + 1
        )
        return np.maximum(found - 1, -1)


def edge_graph(graph: Graph) -> Graph:
    """The graph of edges, beginnings and ends of `graph`.

    Its cells are first the edges of `graph`, then the beginnings of its cells, then their ends. A
    beginning leads to the edges that leave its cell and to its own end, an edge (a, b) to the edges
    that leave b and to the end of b. So the paths from the beginning of a cell to the end of
    another are the paths over edges between these cells, with one move more.

    >>> line = Graph(starts=np.array([0, 1, 2]), targets=np.array([1, 0]))
    >>> edge_graph(line).starts, edge_graph(line).targets
    (array([0, 2, 4, 6, 8, 8, 8]), array([1, 5, 0, 4, 0, 4, 1, 5]))
    """
    edges, cells = len(graph.targets), graph.cells
    # Where a walk stands, on an edge or at a beginning.
    at = np.concatenate([graph.targets, np.arange(cells)])
    many = np.diff(graph.starts)[at] + 1
    starts = np.concatenate([[0], np.cumsum(many)])
    targets = np.arange(starts[-1]) + np.repeat(graph.starts[at] - starts[:-1], many)
    targets[starts[1:] - 1] = edges + cells + at
    return Graph(starts=np.concatenate([starts, np.full(cells, starts[-1])]), targets=targets)


def _finite(weights: np.ndarray) -> np.ndarray:
    return np.maximum(np.nan_to_num(np.asarray(weights, float), nan=0.0, posinf=0.0), 0.0)
