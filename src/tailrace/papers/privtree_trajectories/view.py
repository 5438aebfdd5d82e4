"""Released trajectories over cells: counts of pairs, and chances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrace.domain.geometry.shares import shares
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.papers.privtree_trajectories.transitions import Chances
from tailrace.papers.privtree_trajectories.trips import Trips

Corners = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, eq=False)
class PrivTreeTrajectoriesView:
    """Cells, the trajectories between them, and chances of moves.

    Estimates are unbiased if trajectories begin and end evenly inside each group of cells.
    """

    layout: Layout
    chances: Chances
    trips: Trips
    error: float  # the standard error of the count of one group

    @property
    def low(self) -> np.ndarray:
        """(cells, 2) the lower corners of the cells."""
        return self.layout.low

    @property
    def high(self) -> np.ndarray:
        return self.layout.high

    @property
    def total(self) -> Estimate:
        """The number of trajectories (people, where one person is protected)."""
        return self.count()

    def count(self, *, start: Corners | None = None, end: Corners | None = None) -> Estimate:
        """Trajectories from between two corners to between two others.

        None: anywhere.
        """
        part = self._inside(self.trips.a, start) * self._inside(self.trips.b, end)
        return Estimate(float(part @ self.trips.counts), float(np.sqrt(part @ part)) * self.error)

    def _inside(self, groups: np.ndarray, corners: Corners | None) -> np.ndarray:
        """(groups,) the share of each group's cells between the corners."""
        if corners is None:
            return np.ones(len(groups))
        box = [np.asarray(corner, float) for corner in corners]
        if [corner.shape for corner in box] != [(2,), (2,)] or not (box[0] <= box[1]).all():
            raise ConfigError(
                "start and end are pairs of corners, ((lowest x, lowest y), (highest x, "
                "highest y))."
            )
        inside = shares(self.layout.domain, self.layout.low, self.layout.high, *box)
        sums = np.concatenate([[0.0], np.cumsum(inside)])
        return (sums[groups[:, 1]] - sums[groups[:, 0]]) / (groups[:, 1] - groups[:, 0])
