"""Trips as lines, and points that lie evenly along them.

A line has its trip's two ends and points in between, closer together where the released density has
more points for each length that all lines travel. Some trips have more points than others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.mechanisms.trajectories.points import cells_at
from tailrace.mechanisms.trajectories.walks import Walks, picked

# Chosen by trial on trips on Manhattan's streets (benchmarks/trajectories_data.py, seeds 0 and 1,
# 5,000 trips at epsilon 1 and with true counts).
# How much closer together than usual points lie in a cell, at most, or farther apart.
_CLOSER = 5.0
# How much farther apart than usual one trip's points lie, and how much closer together.
_STRIDES = (0.6, 1.4)


@dataclass(frozen=True, eq=False)
class Lines:
    """Trips one after another, each a row of straight pieces."""

    offsets: np.ndarray  # (trips + 1,) vertices; every trip has one at least
    x: np.ndarray  # (vertices,) in the domain's coordinates
    y: np.ndarray
    # (vertices,) the layout's cell in which the piece before lies; the number of cells: none
    cells: np.ndarray
    lengths: np.ndarray  # (vertices,) of the piece before; 0: none

    @classmethod
    def of(cls, walks: Walks, layout: Layout, at: np.ndarray) -> Lines:
        """Walks with a vertex in each cell, at (2, visits) in cells of the domain."""
        x, y = np.array(layout.domain.low)[:, None] + at * layout.step[:, None]
        lengths = np.hypot(np.diff(x, prepend=0.0), np.diff(y, prepend=0.0))
        lengths[walks.offsets[:-1]] = 0.0
        return cls(walks.offsets, x, y, walks.cells, lengths)

    def pick(self, which: np.ndarray) -> Lines:
        """The lines of these numbers."""
        offsets, rows = picked(self.offsets, which)
        parts = (self.x[rows], self.y[rows], self.cells[rows], self.lengths[rows])
        return Lines(offsets, *parts)

    def points(
        self, layout: Layout, ends: np.ndarray, points: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw points: offsets, and cells of the domain.

        Parameters
        ends: (2, trips) cells of the domain, the first and last point of every trip.
        points: (cells,) of the layout, points in each.
        """
        from tailrace.mechanisms.trajectories import lines_kernel as kernel

        many = len(self.offsets) - 1
        travelled = np.bincount(self.cells, self.lengths, minlength=layout.cells + 1)
        # Both ends are points already.
        ended = np.bincount(layout.homes[ends].ravel(), minlength=layout.cells)
        rates = _rates(np.append(np.maximum(points - ended, 0.0), 0.0), travelled)
        strides = rng.uniform(*_STRIDES, many)
        strides *= (1 / strides).mean() if many else 1.0
        owner = np.repeat(np.arange(many), np.diff(self.offsets))
        steps = self.lengths * rates[self.cells] / strides[owner]
        sums, x, y = kernel.along(self.offsets, self.x, self.y, steps, rng.random(many))
        found = np.append(0, np.cumsum(np.diff(sums) + 2))
        places, inner = np.empty(found[-1], np.int64), np.ones(found[-1], np.bool_)
        places[found[:-1]], places[found[1:] - 1] = ends
        inner[found[:-1]] = inner[found[1:] - 1] = False
        places[inner] = cells_at(layout.domain, layout.scaled(x, y))
        return found, places


def _rates(points: np.ndarray, travelled: np.ndarray) -> np.ndarray:
    """(cells + 1,) points of each length, as many as released in all."""
    if not travelled.any():
        return np.zeros(len(points))
    usual, some = points.sum() / travelled.sum(), 0.1 * travelled.mean()
    rates = (points + usual * some) / (travelled + some)
    rates = np.clip(rates, usual / _CLOSER, usual * _CLOSER)
    return rates * (points.sum() / max(float(rates @ travelled), 1e-300))
