"""The length of a line network in each grid cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.domain.geometry import shapes
from tailrace.domain.geometry.grid import Grid, Pieces, cut
from tailrace.domain.geometry.parts import LEAST, Parts, gathered


@dataclass(frozen=True, eq=False)
class Lengths:
    """A line network on a grid, in pieces within cells."""

    grid: Grid
    measure: np.ndarray  # (side, side) length
    parts: Parts
    pieces: Pieces

    def draw(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Points (n, 2), even along the lines in each cell."""
        chosen = self.parts.draw(cells, rng)
        share = rng.random((len(cells), 1))
        start, end = self.pieces.start[chosen], self.pieces.end[chosen]
        return self.grid.points(cells, start * (1 - share) + end * share)


def measured(lines: Any, grid: Grid) -> Lengths:
    """Measure lines on the grid; a repeated stretch counts once."""
    segments = shapes.segments(lines)
    x, y, to_x, to_y = segments.T
    backwards = (x > to_x) | ((x == to_x) & (y > to_y))
    segments[backwards] = segments[backwards][:, [2, 3, 0, 1]]
    pieces = cut(np.unique(segments, axis=0), grid)
    size = grid.side * grid.side
    measure = np.bincount(pieces.cells, pieces.length, minlength=size)
    measure[measure < LEAST * grid.width.min()] = 0
    kept = (measure[pieces.cells] > 0) & (pieces.length > 0)
    pieces = Pieces(pieces.cells[kept], pieces.start[kept], pieces.end[kept], pieces.length[kept])
    measure = measure.reshape(grid.side, grid.side)
    measure.setflags(write=False)
    return Lengths(grid, measure, gathered(pieces.cells, pieces.length), pieces)
