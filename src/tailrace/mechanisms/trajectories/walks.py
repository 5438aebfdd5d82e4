"""Walks that begin, end, pass cells and turn as released.

A walk goes on along an edge in proportion to the edge's attraction times a factor for its turn.
1. Attractions begin as the visits of the cells that edges lead to.
2. A part of the walks is drawn, and the attraction of every cell is moved towards the value that
   makes its visits right; a few times over. Visits are counted as in the data, where a trajectory
   of many cells gives each of them less.
3. The turn factors are fitted to the released shares of turns, except turns back: most of these are
   points to and fro across a border, so they are put into the walks afterwards, anywhere.

Walks have exactly the law of that chain, given both ends and the number of moves
(`models/walks/second_order.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.mechanisms.trajectories.counts import FEWEST, MORE
from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.models.walks.second_order import by_direction, mixing_of, turning_walks
from tailrace.privacy.loss import whole

# The turn by half a circle.
BACK = 4
# The others were chosen by trial on the data of benchmarks/trajectories.py; no committed result.
# Further moves, at most.
_LAST = 400
# Rounds of the turns' fit, and rounds of calibration after which they are fitted again.
_FITS, _REFITS = 15, (1, 3)
# Moves beyond three times the fewest from which a trip on streets is long. By reasoning: fewer are
# detours that streets and narrow cells ask for.
LONG = 12
# The share of turns back that walks make by themselves, at most: some numbers of moves need one.
_SELDOM = 0.005


@told
@dataclass(frozen=True, kw_only=True)
class TurningWalks:
    """How walks are drawn, from released counts, at no cost.

    A step to a cell that touches at a corner is `diagonal` times as attractive; cells with fewer
    than `least` visits are passed only where nothing else leads on; `rounds` of calibration each
    draw a `part` of the walks and take a `step` of the way (1: all of it). No walk has more than
    `longest` moves, unless its ends need them.
    """

    # Chosen on the data of benchmarks/trajectories.py; results/trajectories.csv has the errors.
    diagonal: float = 0.25
    least: float = 1.5
    rounds: int = 8
    part: float = 0.25
    step: float = 0.7
    longest: int = 150

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", whole("rounds", self.rounds, least=0))
        object.__setattr__(self, "longest", whole("longest", self.longest))
        for name, most in (("diagonal", np.inf), ("part", 1.0), ("step", 1.0)):
            if not 0 < getattr(self, name) <= most:
                raise ConfigError(
                    f"{name} of TurningWalks must lie above 0, and not above {most:g}."
                )

    def draw(
        self, model: Model, ends: np.ndarray, moves: np.ndarray, rng: np.random.Generator
    ) -> Walks:
        """Draw walks from ends[0] to ends[1], of about `moves` moves."""
        layout = model.layout
        fewest = layout.apart(ends[0], ends[1])
        ended = np.bincount(ends[0], minlength=layout.cells)
        ended = ended + np.bincount(ends[1][ends[0] != ends[1]], minlength=layout.cells)
        open_ = (model.visits > self.least) | (ended > 0)
        wanted = np.maximum(np.maximum(model.visits, 0.3), ended) * open_
        attraction = wanted[layout.graph.targets] * open_[layout.graph.sources]
        attraction = attraction * np.where(layout.directions % 2, self.diagonal, 1.0)
        turns, longer = _ahead(model.turns), 1.0
        factors = _factors(layout, attraction, turns)
        room, now = 0.0003 * len(moves), np.minimum(moves, self.longest)
        for turn in range(self.rounds):
            some = np.flatnonzero(rng.random(len(moves)) < self.part)
            found = _drawn(model, attraction, factors, ends[:, some], now[some], rng)
            visits = found.visits(layout.cells, most=model.most, between=model.between)
            visits *= len(moves) / max(len(some), 1)
            # Walks get longer or shorter while all visits are too few or too many.
            if turn < self.rounds - 1:
                longer = np.clip(longer * (wanted.sum() / max(visits.sum(), 1.0)) ** 1.3, 0.2, 1.5)
                more = np.floor((moves - fewest) * longer + rng.random(len(moves))).astype(np.int64)
                now = np.minimum(fewest + more, np.maximum(self.longest, fewest))
            level = visits.sum() / max(wanted.sum(), 1e-300)
            ratio = (wanted * level + room) / (visits + room)
            attraction = attraction * (ratio**self.step)[layout.graph.targets]
            if turn in _REFITS:
                factors = _factors(layout, attraction, turns)
        return _drawn(model, attraction, factors, ends, now, rng)


@dataclass(frozen=True, eq=False)
class Model:
    """The released features that walks are fitted to."""

    layout: Layout
    visits: np.ndarray  # (cells,) walks with points in each cell
    turns: np.ndarray  # (8,) shares
    most: int  # cells of a walk that count fully; the cells of longer walks weigh less
    passed: float  # the share of cells without a point
    between: bool = False  # whether cells without a point are visited too


@dataclass(frozen=True, eq=False)
class Walks:
    """Walks as cells with or without points, ends with."""

    offsets: np.ndarray
    cells: np.ndarray
    stops: np.ndarray  # (cells,) bool

    @classmethod
    def kept(
        cls, offsets: np.ndarray, cells: np.ndarray, passed: float, rng: np.random.Generator
    ) -> Walks:
        stops = rng.random(len(cells)) >= passed
        stops[offsets[:-1]] = stops[offsets[1:] - 1] = True
        return cls(offsets, cells, stops)

    def pick(self, which: np.ndarray) -> Walks:
        """The walks of these numbers."""
        offsets, rows = picked(self.offsets, which)
        return Walks(offsets, self.cells[rows], self.stops[rows])

    def visits(self, cells: int, *, most: int, between: bool = False) -> np.ndarray:
        """(cells,) walks with points in each, or passing it (`between`).

        Walks of more than `most` cells weigh less; the sum is that of the plain visits.
        """
        stops = self.stops | between
        walk = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))[stops]
        walk, cell = np.divmod(np.unique(walk * cells + self.cells[stops]), cells)
        weights = 1 / np.maximum(np.bincount(walk), most)[walk]
        scale = len(cell) / max(float(weights.sum()), 1e-300)
        return scale * np.bincount(cell, weights, minlength=cells).astype(float)


def picked(offsets: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The offsets and the rows of some of the groups that lie one after another.

    >>> picked(np.array([0, 2, 5]), np.array([1]))[1]
    array([2, 3, 4])
    """
    sizes = np.diff(offsets)[which]
    found = np.append(0, np.cumsum(sizes))
    return found, np.arange(found[-1]) + np.repeat(offsets[which] - found[:-1], sizes)


def _drawn(
    model: Model,
    attraction: np.ndarray,
    factors: np.ndarray,
    ends: np.ndarray,
    moves: np.ndarray,
    rng: np.random.Generator,
) -> Walks:
    """Draw walks of the chain, with hops along them."""
    layout = model.layout
    hops = _hops(moves, layout.apart(ends[0], ends[1]), float(model.turns[BACK]), rng)
    chain = (layout.graph, layout.directions, attraction, factors)
    offsets, cells = turning_walks(*chain, ends[0], ends[1], moves - 2 * hops, rng)
    offsets, cells = hopped(offsets, cells, hops, rng)
    return Walks.kept(offsets, cells, model.passed, rng)


def hopped(
    offsets: np.ndarray, cells: np.ndarray, hops: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Put hops into walks: (a, b) becomes (a, b, a, b).

    Walks without a move stay as they are.
    """
    moves = np.diff(offsets) - 1
    walk = np.repeat(np.arange(len(moves)), np.where(moves > 0, hops, 0))
    start = offsets[walk] + (rng.random(len(walk)) * moves[walk]).astype(np.int64)
    # A cell and, for each hop, the next one and the cell again.
    each = 1 + 2 * np.bincount(start, minlength=len(cells))
    sums = np.append(0, np.cumsum(each))
    origin = np.repeat(np.arange(len(cells)), each)
    return sums[offsets], cells[origin + (np.arange(sums[-1]) - sums[origin]) % 2]


def _hops(
    moves: np.ndarray, fewest: np.ndarray, back: float, rng: np.random.Generator
) -> np.ndarray:
    """(walks,) hops of each, as far as its moves allow.

    `back` is the share of turns back among all turns; a hop has two.
    """
    room = np.maximum(moves - fewest, 0) // 2
    wanted = back * np.maximum(moves - 1, 0).sum() / 2
    return rng.binomial(room, min(1.0, wanted / max(int(room.sum()), 1)))


def _ahead(turns: np.ndarray) -> np.ndarray:
    """Shares of turns, with hardly any turn back."""
    rest = np.where(np.arange(len(turns)) == BACK, np.minimum(turns, _SELDOM), turns)
    return rest / rest.sum()


def _factors(layout: Layout, attraction: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """(8,) factors of turns, fitted to their released shares."""
    graph, factors, eighths = layout.graph, np.ones(8), np.arange(8)
    leaving, arriving = (
        by_direction(cells, layout.directions, attraction, graph.cells)
        for cells in (graph.sources, graph.targets)
    )
    for _ in range(_FITS):
        sums = leaving @ mixing_of(factors)
        used = np.divide(arriving, sums, out=np.zeros_like(sums), where=sums > 0)
        both = (leaving.T @ used)[(eighths + eighths[:, None]) % 8, eighths]
        found = factors * both.sum(axis=1)
        factors *= turns / np.maximum(found / max(found.sum(), 1e-300), 1e-9)
        factors /= factors.max()
    return factors


def moves_of(
    detours: np.ndarray, scale: float, fewest: np.ndarray, rng: np.random.Generator, unit: int = 1
) -> np.ndarray:
    """Draw the number of moves of walks, by noisy detours in units of so many moves."""
    counts = np.maximum(detours.reshape(len(FEWEST), len(MORE)), 0.0)
    usual = counts.sum(axis=0) / max(counts.sum(), 1e-300)
    if not counts.any():
        usual = np.full(len(MORE), 1 / len(MORE))
    counts = np.where(counts > 2 * scale, counts, 0.3 * counts) + 5 * usual
    kind = np.searchsorted(FEWEST, fewest // unit, side="right") - 1
    sums = np.cumsum(counts, axis=1)
    drawn = (sums[kind] < (rng.random(len(fewest)) * sums[kind, -1])[:, None]).sum(axis=1)
    width = np.diff(MORE, append=_LAST)
    more = MORE[drawn] + rng.random(len(fewest)) * width[drawn]
    return fewest + (unit * more).astype(np.int64)


def long_moves(
    moves: np.ndarray, fewest: np.ndarray, detours: np.ndarray, scale: float, unit: int = 1
) -> np.ndarray:
    """The moves of as many long trips as there surely are; 0 for the others.

    A trip is long with more than three times the fewest moves, and LONG units. Most bins of detours
    are noise where trips are few, so only what exceeds two standard errors of their sum is
    believed.
    """
    rows = detours.reshape(len(FEWEST), len(MORE))
    far = 2 * FEWEST[:, None] + LONG < MORE
    sure = rows[far].sum() - 2 * scale * (2 * far.sum()) ** 0.5
    # Trips come in the order of chance.
    long = np.flatnonzero(moves > 3 * fewest + LONG * unit)
    long = long[: round(len(moves) * max(sure, 0.0) / max(float(rows.sum()), 1.0))]
    found = np.zeros_like(moves)
    found[long] = moves[long]
    return found
