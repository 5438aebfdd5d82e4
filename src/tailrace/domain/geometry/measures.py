"""The area or length of a geometry in each cell of a grid.

Lines are cut along the grid into pieces. So are the borders of a region: sweeping each column of
cells upwards, a piece that runs right opens the area above it and one that runs left closes it, so
the area of every cell comes from one pass over the pieces and one running sum. Cells that borders
cross are divided into upright strips, and those into trapezoids. Points are drawn evenly: first a
part of the cell, in proportion to its size, then a point of the part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tailrace.domain.geometry import shapes
from tailrace.domain.geometry.grid import Grid, Pieces, cut

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry as Geometry

# Of a cell's area or side: a cell that holds less counts as empty. Chosen by reasoning: less is
# rounding.
LEAST = 1e-9
# Attempts to draw a point that rounding does not carry over a border. Chosen by reasoning: rounding
# carries few points over, and the middle of the largest trapezoid, tested beforehand, ends it.
_ATTEMPTS = 20


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of some cells, sorted by cell."""

    cells: np.ndarray  # (cells,) int64, increasing
    # (cells + 1,) the parts from offsets[i] to offsets[i + 1] lie in cells[i]
    offsets: np.ndarray
    cumulated: np.ndarray  # (parts,) sizes added up within each cell
    largest: np.ndarray  # (cells,) the largest part of each

    @classmethod
    def gathered(cls, cells: np.ndarray, sizes: np.ndarray) -> Parts:
        """Gather parts of positive sizes, sorted by their cells."""
        from tailrace.domain.geometry import kernel

        known, first = np.unique(cells, return_index=True)
        offsets = np.append(first, len(cells))
        by_size = np.lexsort((sizes, cells))
        return cls(known, offsets, kernel.cumulate(offsets, sizes), by_size[offsets[1:] - 1])

    def draw(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a part of each cell; each must have one."""
        from tailrace.domain.geometry import kernel

        place = np.searchsorted(self.cells, cells)
        return kernel.choose(self.offsets, self.cumulated, place, rng.random(len(cells)))


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


def lengths(lines: Geometry, grid: Grid) -> Lengths:
    """Measure lines on the grid; a repeated stretch counts once."""
    segments = shapes.segments(lines)
    x, y, to_x, to_y = segments.T
    backwards = (x > to_x) | ((x == to_x) & (y > to_y))
    segments[backwards] = segments[backwards][:, [2, 3, 0, 1]]
    pieces = cut(np.unique(segments, axis=0), grid)
    measure = np.bincount(pieces.cells, pieces.length, minlength=grid.side**2)
    measure[measure < LEAST * grid.width.min()] = 0
    kept = (measure[pieces.cells] > 0) & (pieces.length > 0)
    pieces = Pieces(pieces.cells[kept], pieces.start[kept], pieces.end[kept], pieces.length[kept])
    parts = Parts.gathered(pieces.cells, pieces.length)
    return Lengths(grid, _square(measure, grid), parts, pieces)


@dataclass(frozen=True, eq=False)
class Areas:
    """A region on a grid.

    Every cell with a measure holds a point that is both counted in it and on the region.
    """

    region: Geometry
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
            inside = _inside(chosen, rng.random((len(waiting), 2)))
            points[waiting] = self.grid.points(cells[waiting], inside)
            waiting = waiting[~_on(self.region, points[waiting])]
            if not len(waiting):
                return points
        largest = self.parts.largest[np.searchsorted(self.parts.cells, cells[waiting])]
        points[waiting] = self.grid.points(cells[waiting], _middles(self.trapezoids[largest]))
        return points


def areas(region: Geometry, grid: Grid) -> Areas:
    """Measure a region that the grid may cut off."""
    pieces = cut(shapes.segments(shapes.within(region, grid.outline)), grid)
    shares = _shares(pieces, grid.side)
    crossed, cells, trapezoids = _trapezoids(region, grid, pieces)
    kept = (shares[cells] >= LEAST) & (_sizes(trapezoids) > 0)
    parts = Parts.gathered(cells[kept], _sizes(trapezoids[kept]))
    # A cell counts only if a point can be drawn in it, whatever rounding does.
    sure = _on(region, grid.points(parts.cells, _middles(trapezoids[kept][parts.largest])))
    shares[np.setdiff1d(crossed, parts.cells[sure])] = 0
    kept &= shares[cells] > 0
    parts = Parts.gathered(cells[kept], _sizes(trapezoids[kept]))
    measure = _square(shares * grid.width.prod(), grid)
    return Areas(region, grid, measure, parts, trapezoids[kept])


def _square(measure: np.ndarray, grid: Grid) -> np.ndarray:
    measure = measure.reshape(grid.side, grid.side)
    measure.setflags(write=False)
    return measure


def _shares(pieces: Pieces, side: int) -> np.ndarray:
    """The share of each cell inside the borders."""
    run = pieces.end[:, 0] - pieces.start[:, 0]
    above = run * (1 - (pieces.start[:, 1] + pieces.end[:, 1]) / 2)
    opened, here = (
        np.bincount(pieces.cells, part, minlength=side * side).reshape(side, side)
        for part in (run, above)
    )
    shares = (here + np.cumsum(opened, axis=1) - opened).reshape(-1)
    # Rings may run either way around.
    shares = np.clip(shares if shares.sum() > 0 else -shares, 0, 1) + 0.0
    empty = np.ones(side * side, bool)
    empty[pieces.cells] = False
    # A cell without a border is inside or outside as a whole.
    shares[empty] = np.round(shares[empty])
    return shares


def _trapezoids(
    region: Geometry, grid: Grid, pieces: Pieces
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(crossed, cells, trapezoids): crossed cells, and their inside.

    The sides of a trapezoid are upright. Between two levels of one strip all is inside or all
    outside, in turn, so one answer for the strip's widest gap gives the others.
    """
    from tailrace.domain.geometry import kernel

    crossed, first = np.unique(pieces.cells, return_index=True)
    offsets = np.append(first, len(pieces.cells))
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
    return crossed, crossed[place[owner]], np.stack(parts, axis=1)


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


def _on(region: Geometry, points: np.ndarray) -> np.ndarray:
    return shapes.library().intersects_xy(region, points[:, 0], points[:, 1])
