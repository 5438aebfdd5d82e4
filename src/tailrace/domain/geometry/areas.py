"""The area of a region in each grid cell.

Borders are cut along the grid. Sweeping each column of cells upwards, a piece that runs right opens
the area above it and one that runs left closes it, so the area of every cell comes from one pass
over the pieces and one running sum. Cells that borders cross are divided into upright strips, and
those into trapezoids, from which points are drawn evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.domain.geometry import shapes
from tailrace.domain.geometry.grid import Grid, Pieces, cut
from tailrace.domain.geometry.parts import LEAST, Parts, gathered

# Attempts to draw a point that rounding does not carry over a border. Chosen by reasoning: rounding
# carries few points over, and the middle of the largest trapezoid, tested beforehand, ends it.
_ATTEMPTS = 20


@dataclass(frozen=True, eq=False)
class Areas:
    """A region on a grid.

    Every cell with a measure holds a point that is both counted in it and on the region.
    """

    region: Any
    grid: Grid
    measure: np.ndarray  # (side, side) area
    # The trapezoids of the cells that borders cross.
    parts: Parts
    # (parts, 6) left and right side; lower border at both, upper border at both
    trapezoids: np.ndarray

    def draw(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Points (n, 2), even over the region in each cell."""
        points = self.grid.points(cells, rng.random((len(cells), 2)))
        waiting = np.flatnonzero(np.isin(cells, self.parts.cells))
        for _ in range(_ATTEMPTS):
            chosen = self.trapezoids[self.parts.draw(cells[waiting], rng)]
            points[waiting] = self.grid.points(
                cells[waiting], _inside(chosen, rng.random((len(waiting), 2)))
            )
            waiting = waiting[~_on(self.region, points[waiting])]
            if not len(waiting):
                return points
        chosen = self.trapezoids[self.parts.largest_of(cells[waiting])]
        points[waiting] = self.grid.points(cells[waiting], _middles(chosen))
        return points


def measured(region: Any, grid: Grid) -> Areas:
    """Measure a region that the grid may cut off."""
    pieces = cut(shapes.segments(shapes.within(region, grid.outline)), grid)
    shares = _shares(pieces, grid.side)
    crossed, offsets = np.unique(pieces.cells, return_index=True)
    cells, trapezoids = _trapezoids(
        region, grid, crossed, np.append(offsets, len(pieces.cells)), pieces
    )
    kept = (shares[cells] >= LEAST) & (_sizes(trapezoids) > 0)
    parts = gathered(cells[kept], _sizes(trapezoids[kept]))
    # A cell counts only if a point can be drawn in it, whatever rounding does.
    sure = _on(region, grid.points(parts.cells, _middles(trapezoids[kept][parts.largest])))
    shares[np.setdiff1d(crossed, parts.cells[sure])] = 0
    kept &= shares[cells] > 0
    parts = gathered(cells[kept], _sizes(trapezoids[kept]))
    measure = (shares * grid.width.prod()).reshape(grid.side, grid.side)
    measure.setflags(write=False)
    return Areas(region, grid, measure, parts, trapezoids[kept])


def _shares(pieces: Pieces, side: int) -> np.ndarray:
    """The share of each cell inside the borders."""
    run = pieces.end[:, 0] - pieces.start[:, 0]
    above = run * (1 - (pieces.start[:, 1] + pieces.end[:, 1]) / 2)
    opened = np.bincount(pieces.cells, run, minlength=side * side).reshape(side, side)
    here = np.bincount(pieces.cells, above, minlength=side * side).reshape(side, side)
    shares = (here + np.cumsum(opened, axis=1) - opened).reshape(-1)
    # Rings may run either way around.
    shares = np.clip(shares if shares.sum() > 0 else -shares, 0, 1) + 0.0
    empty = np.ones(side * side, bool)
    empty[pieces.cells] = False
    # A cell without a border is inside or outside as a whole.
    shares[empty] = np.round(shares[empty])
    return shares


def _trapezoids(
    region: Any, grid: Grid, crossed: np.ndarray, offsets: np.ndarray, pieces: Pieces
) -> tuple[np.ndarray, np.ndarray]:
    """(cells, trapezoids): the inside of every crossed cell.

    The sides of a trapezoid are upright. Between two levels of one strip all is inside or all
    outside, in turn, so one answer for the strip's widest gap gives the others.
    """
    from tailrace.domain.geometry import kernel

    (place, left, right), (strip, low, high) = kernel.strips(offsets, pieces.start, pieces.end)
    gaps = np.flatnonzero(strip[:-1] == strip[1:])
    owner, width = strip[gaps], (low[gaps + 1] + high[gaps + 1]) - (low[gaps] + high[gaps])
    number = np.arange(len(gaps)) - np.searchsorted(owner, owner)
    last = np.searchsorted(owner, np.arange(len(place)), side="right") - 1
    widest = np.lexsort((width, owner))[last]
    middle = (low[gaps] + high[gaps] + low[gaps + 1] + high[gaps + 1])[widest] / 4
    asked = grid.points(crossed[place], np.stack([(left + right) / 2, middle], axis=1))
    inside = (number - number[widest][owner]) % 2 == np.where(_on(region, asked), 0, 1)[owner]
    owner, below = owner[inside], gaps[inside]
    parts = (left[owner], right[owner], low[below], high[below], low[below + 1], high[below + 1])
    return crossed[place[owner]], np.stack(parts, axis=1)


def _sizes(trapezoids: np.ndarray) -> np.ndarray:
    left, right, low, high, upper, top = trapezoids.T
    return (right - left) * (upper + top - low - high) / 2


def _middles(trapezoids: np.ndarray) -> np.ndarray:
    return np.stack([trapezoids[:, :2].mean(axis=1), trapezoids[:, 2:].mean(axis=1)], axis=1)


def _inside(trapezoids: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Points even over trapezoids: across by height, then up."""
    left, right, low, high, upper, top = trapezoids.T
    near, far = np.maximum(upper - low, 0), np.maximum(top - high, 0)
    grown = near + np.sqrt(near**2 + share[:, 0] * (far**2 - near**2))
    across = np.divide(share[:, 0] * (near + far), grown, out=np.zeros(len(share)), where=grown > 0)
    floor, ceiling = low + across * (high - low), upper + across * (top - upper)
    x, y = left + across * (right - left), floor + share[:, 1] * (ceiling - floor)
    return np.stack([x, y], axis=1)


def _on(region: Any, points: np.ndarray) -> np.ndarray:
    return shapes.library().intersects_xy(region, points[:, 0], points[:, 1])
