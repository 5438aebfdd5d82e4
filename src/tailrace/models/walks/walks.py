"""Walks of a Markov chain, given both ends and length.

They are exact and fast.

**The law.** A path x_n, x_(n-1), ..., x_0 (indices are the moves that remain) from first = x_n to
last = x_0 has the probability w(x_n, ..., x_0) / h_n(first), where w is the product of its edges'
probabilities and h_n(x) the sum of w over all paths of n moves from x to last.

**The method.**

1. h_0 is 1 at the last cell and 0 elsewhere, and h_j(x) is the sum over edges of p(x, y)
   h_(j-1)(y).
2. A walk at x with j moves left goes on to y with probability p(x, y) h_(j-1)(y) / h_j(x).
3. The product of these over a path telescopes to the law above.

**What need not be computed.**

1. h_j(x) matters only if some walk to this end can be at x with j moves left: if hops(x, last) <= j
   <= need(x), the largest of n - hops(first, x) over the walks to this end.
2. If it matters at x for j, it matters for j - 1 at each y that x leads to, or is 0 there: need(y)
   >= need(x) - 1.
3. So the messages of a cell fill the window from hops(x, last) to need(x), and cells with an empty
   window are left out altogether.
4. Walks with the same end share their messages.

**What rounding does.**

1. Layers are scaled up by powers of two, which changes no ratio.
2. A message that falls below the smallest double is lost.
3. A path law made from messages that lost something gives no path more than the law's probability
   divided by the share that is left; hence its total variation distance from the law is at most the
   lost share.
4. The kernel carries an upper bound on the loss, and a walk whose bound is above 2^-50 of its
   probability is drawn again with logarithms, which lose nothing.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tailrace.domain.geometry.graph import Graph
from tailrace.errors import DataError
from tailrace.models.walks.paths import Ways, by_end, cells_of, in_parallel

# The probability of an impossible edge, relative to the largest, between ends that nothing else
# connects.
RARE = 2.0**-64
# Messages of one end that are held at once: 128 MB.
_ROOM = 1 << 24


def walks(
    graph: Graph,
    probability: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    moves: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw paths from first to last of given lengths.

    Path i is cells[offsets[i]:offsets[i + 1]], both ends included, and should have moves[i] moves.

    1. Each is drawn in proportion to the product of its edges' probabilities; a factor common to
       all edges changes nothing.
    2. Where no path has exactly that number of moves, the next larger number that some path has is
       taken, or if there is none, the next smaller one.
    3. Edges of probability 0 are used only between ends that nothing else connects.
    """
    probability = np.nan_to_num(np.asarray(probability, float), nan=0.0, posinf=0.0)
    if len(probability) != len(graph.targets):
        raise DataError("Walks need a probability for each edge.")
    return conditioned(Chain(graph=graph, probability=probability), first, last, moves, rng)


@dataclass(frozen=True, kw_only=True, eq=False)
class Chain:
    """A Markov chain: the next move depends on the cell."""

    graph: Graph
    probability: np.ndarray  # of each edge
    width: ClassVar[int] = 1  # messages of a cell

    @functools.cached_property
    def ways(self) -> Ways:
        return Ways.of(self.graph, self.probability)

    @property
    def whole(self) -> bool:
        """Whether every edge has some probability."""
        return len(self.ways.edges) == len(self.probability)

    def rarer(self) -> Chain:
        """The chain that hardly ever uses impossible edges too."""
        least = RARE * self.probability.max(initial=2.0**-900)
        return replace(self, probability=np.maximum(self.probability, least))

    def edges(self, logs: bool) -> tuple[np.ndarray | None, tuple[object, ...] | None]:
        """For walks_kernel.draw: chances of edges, and turns.

        One of these is None.
        """
        weights = self.ways.forward[2]
        return np.log(weights) if logs else weights, None

    def room(self) -> tuple[np.ndarray, ...]:
        """Room for the edges around one end."""
        many = len(self.ways.edges)
        return np.empty(self.graph.cells + 1, np.uint32), np.empty(many, np.uint32), np.empty(many)

    def feasible(self, first: np.ndarray, last: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """The feasible number of moves nearest to `moves`.

        That is the smallest from `moves` on that leads from first to last; where there is none, the
        largest below it; or -1.
        """
        from tailrace.models.walks import paths_kernel

        return paths_kernel.feasible(self.ways.forward, self.ways.back, first, last, moves)


def conditioned(
    chain: Chain, first: np.ndarray, last: np.ndarray, moves: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw walks, as `walks` does, from any chain."""
    first, last = cells_of(chain.graph, first, last)
    moves = np.maximum(np.asarray(moves, np.int64), 0)
    if len(moves) != len(first):
        raise DataError("Walks need a number of moves for each walk.")
    fewest = chain.ways.fewest(first, last)
    linked = np.flatnonzero((fewest >= 0).any(axis=1))
    settled = _settled(fewest, moves)
    pieces, left = _drawn(chain, linked, first, last, settled, rng)
    if len(left):
        settled[left] = chain.feasible(first[left], last[left], moves[left])
        pieces += _drawn(chain, left[settled[left] >= 0], first, last, settled, rng)[0]
    drawn = np.concatenate([linked[:0], *(numbers for numbers, _, _ in pieces)])
    apart = np.setdiff1d(np.arange(len(first)), drawn)
    if len(apart):
        if chain.whole:
            raise DataError(
                "Edges must lead from every first cell to its last, as those of adjacency() do."
            )
        walked = conditioned(chain.rarer(), first[apart], last[apart], moves[apart], rng)
        pieces.append((apart, *walked))
    return _joined(pieces, len(first))


def _settled(fewest: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The next number of moves with a path.

    This holds where edges lead both ways: any two moves more are a step there and back. Where they
    do not, or a walk may not turn back, no smaller number has a path.
    """
    parity = np.arange(2)
    next_of_parity = moves[:, None] + (moves[:, None] + parity) % 2
    possible = np.maximum(fewest, next_of_parity)
    return np.where(fewest < 0, np.iinfo(np.int64).max, possible).min(axis=1)


# Numbers of walks, offsets, cells.
_Piece = tuple[np.ndarray, np.ndarray, np.ndarray]


def _drawn(
    chain: Chain,
    numbers: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    moves: np.ndarray,
    rng: np.random.Generator,
) -> tuple[list[_Piece], np.ndarray]:
    """Draw walks; also return those that have no path.

    First with doubles, then with logarithms those that doubles cannot hold.
    """
    pieces = []
    for logs in (False, True):
        if len(numbers):
            cells, done = _attempted(
                chain, first[numbers], last[numbers], moves[numbers], rng, logs
            )
            lengths = moves[numbers] + 1
            pieces.append((numbers[done], _offsets(lengths[done]), cells[np.repeat(done, lengths)]))
            numbers = numbers[~done]
    return pieces, numbers


def _attempted(
    chain: Chain,
    first: np.ndarray,
    last: np.ndarray,
    moves: np.ndarray,
    rng: np.random.Generator,
    logs: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """(cells, done): all walks in turn, and their success."""
    from tailrace.models.walks import walks_kernel as kernel

    starts, targets, _ = chain.ways.forward
    graph, edges = ((starts, targets), chain.ways.back), chain.edges(logs)
    offsets = _offsets(moves + 1)
    asked = kernel.Asked(first, last, moves, offsets, rng.random(offsets[-1]))
    places, done = np.empty(offsets[-1], np.int64), np.zeros(len(first), np.bool_)
    groups, members = by_end(last, moves)
    # Memory of messages: new memory for each part of the work would cost as much time as they do.
    memory = threading.local()

    def draw(part: np.ndarray) -> None:
        near, layers = getattr(memory, "kept", None) or (chain.room(), np.zeros(0))
        work, drawn = (*edges, part, members, asked), (places, done)
        layers = kernel.draw(graph, *work, drawn, near, layers, _ROOM, logs)
        memory.kept = near, layers

    in_parallel(draw, groups)
    return places // chain.width, done


def _joined(pieces: list[_Piece], many: int) -> tuple[np.ndarray, np.ndarray]:
    """All walks in the order of their numbers."""
    lengths = np.zeros(many, np.int64)
    for numbers, offsets, _ in pieces:
        lengths[numbers] = np.diff(offsets)
    starts = _offsets(lengths)
    cells = np.empty(starts[-1], np.int64)
    for numbers, offsets, drawn in pieces:
        shift = np.repeat(starts[numbers] - offsets[:-1], np.diff(offsets))
        cells[shift + np.arange(len(drawn))] = drawn
    return starts, cells


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)])
