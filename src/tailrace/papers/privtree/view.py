"""A released tree: leaves with errors, and counts of rectangles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate


@dataclass(frozen=True, eq=False)
class Leaves:
    """A tree's leaves, in the order of their places.

    Counts are unbiased, so some are negative.
    """

    depth: np.ndarray  # (leaves,) halvings
    index: np.ndarray  # (leaves,) among the nodes of that depth
    low: np.ndarray  # (leaves, dimensions) corners
    high: np.ndarray  # (leaves, dimensions)
    count: np.ndarray  # (leaves,)
    error: np.ndarray  # (leaves,) standard errors

    def __len__(self) -> int:
        return len(self.depth)


@dataclass(frozen=True, eq=False)
class PrivTreeView:
    """A tree at a step.

    Leaves below one node share its noise; `count` accounts for that.
    """

    columns: tuple[str, ...]
    leaves: Leaves
    points: np.ndarray  # (leaves,) synthetic points
    start: np.ndarray  # (leaves,) first place
    low: np.ndarray  # (nodes, dimensions) corners of all nodes, leaves last
    high: np.ndarray  # (nodes, dimensions)
    # (nodes,) measured at the node, spread evenly over it; at leaves also what was measured below
    amount: np.ndarray
    variance: np.ndarray  # (nodes,) of the amounts, which are independent

    def count(self, *, low: Sequence[float], high: Sequence[float]) -> Estimate:
        """The number of points between two corners.

        The error is that of the noise alone: where points crowd in a part of a leaf, a rectangle
        that cuts it is off by more.
        """
        corners = [np.asarray(corner, float) for corner in (low, high)]
        wrong = any(corner.shape != (len(self.columns),) for corner in corners)
        if wrong or not (corners[0] <= corners[1]).all():
            raise ConfigError(
                f"Ask for low=(...) and high=(...), low not above high, with a number for each of "
                f"{', '.join(self.columns)}."
            )
        sides = np.clip(corners[1], self.low, self.high) - np.clip(corners[0], self.low, self.high)
        part = (sides / (self.high - self.low)).prod(axis=1)
        return Estimate(float(part @ self.amount), float(np.sqrt(part**2 @ self.variance)))
