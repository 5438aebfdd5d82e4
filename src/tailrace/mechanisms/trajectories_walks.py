"""The ways between two ends: walks over a grid that pass its cells as often as was released, and turn as often.

A walk goes on along an edge in proportion to the edge's attraction times a factor for the turn that it makes there. Attractions
begin as the visits of the cell that the edge leads to; then a part of the walks is drawn, and the attraction of every cell is moved
towards what would make its visits right, a few times over. The turn factors are fitted so that turns have the released shares.
Walks have exactly the law of that chain, given both ends and the number of moves (`journeys.second_order`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.errors import ConfigError
from tailrace.journeys.graph import Graph
from tailrace.journeys.second_order import by_direction, mixing_of, turning_walks
from tailrace.loss import whole
from tailrace.mechanisms.trajectories_counts import FEWEST, MORE
from tailrace.mechanisms.trajectories_layout import Layout

_LAST = 400  # further moves, at most
_FITS = 15  # rounds of the turns' fit
_REFITS = (1, 3)  # rounds of calibration after which they are fitted again


@dataclass(frozen=True, kw_only=True)
class TurningWalks:
    """How walks are drawn; nothing here costs any privacy.

    A step to a cell that touches at a corner is `diagonal` times as attractive; cells with fewer than `least` visits are
    passed only where nothing else leads on; `rounds` of calibration each draw a `part` of the walks and take a `step` of the way (1: all
    of it). No walk has more than `longest` moves, unless its ends need them.
    """

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
                raise ConfigError(f"{name} of TurningWalks must lie above 0, and not above {most:g}.")

    def draw(self, model: Model, ends: np.ndarray, moves: np.ndarray, rng: np.random.Generator) -> Walks:
        """Walks between the cells ends[0] and ends[1], of about so many moves."""
        layout = model.layout
        steps, fewest = _steps(layout), layout.apart(ends[0], ends[1])
        ended = np.bincount(ends[0], minlength=layout.cells) + np.bincount(
            ends[1][ends[0] != ends[1]], minlength=layout.cells
        )
        open_ = (model.visits > self.least) | (ended > 0)
        wanted = np.maximum(np.maximum(model.visits, 0.3), ended) * open_
        attraction = wanted[layout.graph.targets] * open_[layout.graph.sources]
        attraction = attraction * np.where(layout.directions % 2, self.diagonal, 1.0)
        factors, longer = steps.factors(attraction, model.turns), 1.0
        room, now = 0.0003 * len(moves), np.minimum(moves, self.longest)
        for turn in range(self.rounds):
            some = np.flatnonzero(rng.random(len(moves)) < self.part)
            found = Walks.kept(*steps.walks(attraction, factors, ends[:, some], now[some], rng), model.passed, rng)
            visits = found.visits(layout.cells, between=model.between) * (len(moves) / max(len(some), 1))
            if turn < self.rounds - 1:  # walks are longer or shorter where all visits are too few or too many
                longer = np.clip(longer * (wanted.sum() / max(visits.sum(), 1.0)) ** 1.3, 0.2, 1.5)
                more = np.floor((moves - fewest) * longer + rng.random(len(moves))).astype(np.int64)
                now = np.minimum(fewest + more, np.maximum(self.longest, fewest))
            level = visits.sum() / max(wanted.sum(), 1e-300)
            ratio = (wanted * level + room) / (visits + room)
            attraction = attraction * (ratio**self.step)[layout.graph.targets]
            if turn in _REFITS:
                factors = steps.factors(attraction, model.turns)
        return Walks.kept(*steps.walks(attraction, factors, ends, now, rng), model.passed, rng)


@dataclass(frozen=True, eq=False)
class Model:
    """What walks should be like."""

    layout: Layout
    visits: np.ndarray  # (cells,) how many of them have points in each cell
    turns: np.ndarray  # (8,) shares
    passed: float  # the share of cells that are passed without a point
    between: bool = False  # whether these are visited too


@dataclass(frozen=True, eq=False)
class Walks:
    """Cells one after another, and whether there are points in them: at both ends always."""

    offsets: np.ndarray
    cells: np.ndarray
    stops: np.ndarray  # (cells,) bool

    @classmethod
    def kept(cls, offsets: np.ndarray, cells: np.ndarray, passed: float, rng: np.random.Generator) -> Walks:
        stops = rng.random(len(cells)) >= passed
        stops[offsets[:-1]] = stops[offsets[1:] - 1] = True
        return cls(offsets, cells, stops)

    def visits(self, cells: int, *, between: bool = False) -> np.ndarray:
        """(cells,) how many walks have points in each, or pass it."""
        stops = self.stops | between
        walk = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))[stops]
        return np.bincount(np.unique(walk * cells + self.cells[stops]) % cells, minlength=cells).astype(float)


@dataclass(frozen=True, eq=False)
class _Steps:
    """Edges, and their directions in eighths of a circle."""

    graph: Graph
    directions: np.ndarray  # (edges,)

    def factors(self, attraction: np.ndarray, turns: np.ndarray) -> np.ndarray:
        """(8,) how much a turn multiplies an attraction, such that turns have their shares where edges are used as they attract."""
        graph, factors, eighths = self.graph, np.ones(8), np.arange(8)
        leaving, arriving = (
            by_direction(cells, self.directions, attraction, graph.cells) for cells in (graph.sources, graph.targets)
        )
        for _ in range(_FITS):
            sums = leaving @ mixing_of(factors)
            used = np.divide(arriving, sums, out=np.zeros_like(sums), where=sums > 0)
            found = factors * (leaving.T @ used)[(eighths + eighths[:, None]) % 8, eighths].sum(axis=1)
            factors *= turns / np.maximum(found / max(found.sum(), 1e-300), 1e-9)
            factors /= factors.max()
        return factors

    def walks(
        self, attraction: np.ndarray, factors: np.ndarray, ends: np.ndarray, moves: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        return turning_walks(self.graph, self.directions, attraction, factors, ends[0], ends[1], moves, rng)


def _steps(layout: Layout) -> _Steps:
    return _Steps(layout.graph, layout.directions)


def moves_of(detours: np.ndarray, scale: float, fewest: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A number of moves for each walk that needs at least `fewest`, by noisy counts (bins of the fewest, bins of further ones)."""
    counts = np.maximum(detours.reshape(len(FEWEST), len(MORE)), 0.0)
    usual = counts.sum(axis=0) / max(counts.sum(), 1e-300)
    if not counts.any():
        usual = np.full(len(MORE), 1 / len(MORE))
    counts = np.where(counts > 2 * scale, counts, 0.3 * counts) + 5 * usual
    kind = np.searchsorted(FEWEST, fewest, side="right") - 1
    sums = np.cumsum(counts, axis=1)
    drawn = (sums[kind] < (rng.random(len(fewest)) * sums[kind, -1])[:, None]).sum(axis=1)
    width = np.diff(MORE, append=_LAST)
    return fewest + MORE[drawn] + (rng.random(len(fewest)) * width[drawn]).astype(np.int64)
