"""What is shown of trajectories: the cells, how many go from where to where, and the chances of the
next cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.domain.geometry.shares import shares
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.papers.privtree_trajectories.transitions import Chances

Corners = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, eq=False)
class PrivTreeTrajectoriesView:
    """Estimates are unbiased but for what a cell hides: inside a group of cells trajectories are
    taken to begin and end evenly.
    """

    layout: Layout
    chances: Chances
    trips: Any  # as released by the part that measured them
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
        """How many trajectories there are (people, where one person is protected)."""
        return self.count()

    def count(self, *, start: Corners | None = None, end: Corners | None = None) -> Estimate:
        """How many begin between the two corners of `start` and end between those of `end`; None:
        anywhere.
        """
        part = self._inside(self.trips.a, start) * self._inside(self.trips.b, end)
        return Estimate(float(part @ self.trips.counts), float(np.sqrt(part @ part)) * self.error)

    def _inside(self, groups: np.ndarray, corners: Corners | None) -> np.ndarray:
        """(groups,) the share of each group's cells that lies between the corners."""
        if corners is None:
            return np.ones(len(groups))
        box = [np.asarray(corner, float) for corner in corners]
        if (
            len(box) != 2
            or any(corner.shape != (2,) for corner in box)
            or not (box[0] <= box[1]).all()
        ):
            raise ConfigError(
                "start and end are pairs of corners, ((lowest x, lowest y), (highest x, highest "
                "y))."
            )
        inside = shares(self.layout.domain, self.layout.low, self.layout.high, *box)
        sums = np.concatenate([[0.0], np.cumsum(inside)])
        return (sums[groups[:, 1]] - sums[groups[:, 0]]) / (groups[:, 1] - groups[:, 0])
