"""Points of trajectories, and the grid cells they pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tailrace.calls import told
from tailrace.errors import ConfigError, DataError
from tailrace.metrics.given import corners, numbers


@told
@dataclass(frozen=True, eq=False)
class Tracks:
    """Trajectories one after another.

    The i-th has the points from offsets[i] up to offsets[i + 1]. Points that are not finite are
    left out, and so are trajectories without a point.

    >>> Tracks([0, 2, 2, 3], [0.0, 1.0, 5.0], [0.0, 1.0, 5.0]).offsets
    array([0, 2, 3])
    """

    offsets: np.ndarray  # (trajectories + 1,)
    x: np.ndarray
    y: np.ndarray

    def __post_init__(self) -> None:
        offsets = numbers("offsets", self.offsets, int)
        x, y = (numbers(name, getattr(self, name)) for name in ("x", "y"))
        if x.ndim != 1 or x.shape != y.shape or offsets.ndim != 1 or not len(offsets):
            raise DataError(
                "offsets, x and y of Tracks must be arrays of one dimension, x and y of one length."
            )
        if offsets[0] != 0 or offsets[-1] != len(x) or (np.diff(offsets) < 0).any():
            raise DataError("offsets of Tracks must rise from 0 to the number of points.")
        finite = np.isfinite(x) & np.isfinite(y)
        sizes = np.diff(np.concatenate([[0], np.cumsum(finite)])[offsets])
        object.__setattr__(
            self, "offsets", np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
        )
        object.__setattr__(self, "x", x[finite])
        object.__setattr__(self, "y", y[finite])

    @classmethod
    def of_rows(
        cls, trajectory: np.ndarray, order: np.ndarray, x: np.ndarray, y: np.ndarray
    ) -> Tracks:
        """The trajectories of a table's columns.

        The rows of a trajectory are taken in their order, wherever they stand.

        >>> trajectory, order = np.array([5, 2, 5]), np.array([1, 0, 0])
        >>> Tracks.of_rows(trajectory, order, np.array([3.0, 1.0, 2.0]), np.zeros(3)).x
        array([1., 2., 3.])
        """
        rows = np.lexsort((order, trajectory))
        named = trajectory[rows]
        starts = (
            np.flatnonzero(np.concatenate([[True], named[1:] != named[:-1]])) if len(rows) else rows
        )
        return cls(np.concatenate([starts, [len(rows)]]), x[rows], y[rows])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def pick(self, which: ArrayLike) -> Tracks:
        """The trajectories of these numbers, in their order."""
        chosen = np.asarray(which, np.int64)
        sizes = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        points = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        return Tracks(offsets, self.x[points], self.y[points])


@dataclass(frozen=True, eq=False)
class Visits:
    """Cells of a grid of `number` cells, as visited."""

    offsets: np.ndarray
    cells: np.ndarray
    number: int

    def moves(self) -> Visits:
        """The visits with repeated cells in a row taken once.

        >>> Visits(np.array([0, 3, 5]), np.array([7, 7, 2, 2, 2]), 9).moves().cells
        array([7, 2, 2])
        """
        kept = np.ones(len(self.cells), bool)
        kept[1:] = self.cells[1:] != self.cells[:-1]
        kept[self.offsets[:-1]] = True
        return Visits(
            np.concatenate([[0], np.cumsum(kept)])[self.offsets], self.cells[kept], self.number
        )

    def ends(self) -> np.ndarray:
        """The pair of first and last cell, as one number."""
        return self.cells[self.offsets[:-1]] * self.number + self.cells[self.offsets[1:] - 1]


def visits(tracks: Tracks, *, low: ArrayLike, high: ArrayLike, side: int) -> Visits:
    """The cell of every point in an even grid.

    The grid divides the box (side, side); points outside count for the nearest cell.
    """
    lowest, highest = corners(low, high)
    if len(lowest) != 2:
        raise ConfigError("low and high must have two numbers each: tracks lie on a map.")
    scale = side / (highest - lowest)
    column = np.clip(np.floor((tracks.x - lowest[0]) * scale[0]), 0, side - 1).astype(np.int64)
    row = np.clip(np.floor((tracks.y - lowest[1]) * scale[1]), 0, side - 1).astype(np.int64)
    return Visits(tracks.offsets, row * side + column, side * side)
