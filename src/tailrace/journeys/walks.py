"""Walks of a Markov chain over a graph of cells, conditioned on both ends and on the number of moves: exactly, and fast.

The law. A path x_n, x_(n-1), ..., x_0 (indices are the moves that remain) from first = x_n to last = x_0 has the probability
w(x_n, ..., x_0) / h_n(first), where w is the product of its edges' probabilities and h_n(x) the sum of w over all paths of n moves
from x to last.

The method. h_0 is 1 at the last cell and 0 elsewhere, and h_j(x) is the sum over edges of p(x, y) h_(j-1)(y). A walk at x with j
moves left goes on to y with probability p(x, y) h_(j-1)(y) / h_j(x). The product of these over a path telescopes to the law above.

What need not be computed. h_j(x) matters only if some walk to this end can be at x with j moves left: if hops(x, last) <= j,
and j <= need(x), the largest of n - hops(first, x) over the walks to this end. If it matters at x for j, it matters
for j - 1 at each y that x leads to, or is 0 there: need(y) >= need(x) - 1. So the messages of a cell fill the window from
hops(x, last) to need(x), and cells with an empty window are left out altogether. Walks with the same end share their messages.

What rounding does. Layers are scaled up by powers of two, which changes no ratio. A message that falls below the smallest
double is lost. A path law made from messages that lost something gives no path more than the law's probability divided by
the share that is left, hence is at most the lost share away from it in total variation. The kernel carries an upper bound on
the loss, and a walk whose bound is above 2^-50 of its probability is drawn again with logarithms, which lose nothing.
"""

from __future__ import annotations

import numpy as np

from tailrace.errors import DataError
from tailrace.journeys.graph import Graph
from tailrace.journeys.paths import Ways, by_end, cells_of, in_parallel

_ROOM = 1 << 24  # messages of one end that are held at once: 128 MB
_RARE = 2.0**-64  # what an edge without probability counts, of the largest, between ends that nothing else connects


def walks(
    graph: Graph,
    probability: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    moves: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Paths from first to last in so many moves; path i is cells[offsets[i]:offsets[i + 1]], both ends included.

    Each is drawn in proportion to the product of its edges' probabilities; a factor common to all edges changes nothing.
    Where no path has exactly that number of moves, the next larger number that some path has is taken, or if there is
    none, the next smaller one. Edges of probability 0 are used only between ends that nothing else connects.
    """
    probability = np.nan_to_num(np.asarray(probability, float), nan=0.0, posinf=0.0)
    first, last = cells_of(graph, first, last)
    moves = np.asarray(moves, np.int64)
    if len(probability) != len(graph.targets) or len(moves) != len(first):
        raise DataError("Walks need a probability for each edge and a number of moves for each walk.")
    ways = Ways.of(graph, probability)
    fewest = ways.fewest(first, last)
    apart = (fewest < 0).all(axis=1)
    settled = _settled(fewest, np.maximum(moves, 0))
    pieces = _drawn(ways, np.flatnonzero(~apart), first, last, settled, rng)
    if apart.any():
        if len(ways.edges) == len(probability):
            raise DataError("Edges must lead from every first cell to its last, as those of adjacency() do.")
        rare = np.maximum(probability, _RARE * probability.max(initial=2.0**-900))
        pieces.append((np.flatnonzero(apart), *walks(graph, rare, first[apart], last[apart], moves[apart], rng)))
    return _joined(pieces, len(first))


def _settled(fewest: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The next number of moves with a path, where edges lead both ways: any two moves more are a step there and back."""
    parity = np.arange(2)
    next_of_parity = moves[:, None] + (moves[:, None] + parity) % 2
    return np.where(fewest < 0, np.iinfo(np.int64).max, np.maximum(fewest, next_of_parity)).min(axis=1)


_Piece = tuple[np.ndarray, np.ndarray, np.ndarray]  # numbers of walks, offsets, cells


def _drawn(
    ways: Ways, numbers: np.ndarray, first: np.ndarray, last: np.ndarray, moves: np.ndarray, rng: np.random.Generator
) -> list[_Piece]:
    """Draw walks with doubles; then with logarithms those that doubles cannot hold, or that no path of their moves leads to."""
    from tailrace.journeys import paths_kernel

    pieces, first, last, moves = [], first[numbers], last[numbers], moves[numbers]
    for logs in (False, True):
        cells, done = _attempted(ways, first, last, moves, rng, logs)
        pieces.append((numbers[done], _offsets(moves[done] + 1), cells[np.repeat(done, moves + 1)]))
        numbers, first, last, moves = numbers[~done], first[~done], last[~done], moves[~done]
        if not len(numbers):
            break
        moves = paths_kernel.feasible(ways.forward, ways.back, first, last, moves)
    return pieces


def _attempted(
    ways: Ways, first: np.ndarray, last: np.ndarray, moves: np.ndarray, rng: np.random.Generator, logs: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The cells of all walks one after the other, and which of them are done."""
    from tailrace.journeys import walks_kernel as kernel

    starts, targets, weights = ways.forward
    edges = (starts, targets, np.log(weights) if logs else weights)
    offsets = _offsets(moves + 1)
    asked = (first, last, moves, offsets, rng.random(offsets[-1]))
    cells, done = np.empty(offsets[-1], np.int64), np.zeros(len(first), np.bool_)
    groups, members = by_end(last)
    in_parallel(lambda part: kernel.draw(edges, ways.back, part, members, asked, (cells, done), _ROOM, logs), groups)
    return cells, done


def _joined(pieces: list[_Piece], many: int) -> tuple[np.ndarray, np.ndarray]:
    """All walks in the order of their numbers."""
    lengths = np.zeros(many, np.int64)
    for numbers, offsets, _ in pieces:
        lengths[numbers] = np.diff(offsets)
    starts = _offsets(lengths)
    cells = np.empty(starts[-1], np.int64)
    for numbers, offsets, drawn in pieces:
        cells[np.repeat(starts[numbers] - offsets[:-1], np.diff(offsets)) + np.arange(len(drawn))] = drawn
    return starts, cells


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)])
