"""What is shown of trajectories: what was measured, with errors, and the model that synthetic ones
are drawn from.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.domain.geometry.partition import partition_of
from tailrace.domain.geometry.shares import shares
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.trajectories.counts import CELLS, POINTS, Query
from tailrace.mechanisms.trajectories.ends import Pairs, fitted
from tailrace.mechanisms.trajectories.fit import areas, divided, refined, smooth
from tailrace.mechanisms.trajectories.layout import Layout

# of what cells with next to no visits may have on average, for points and ends: most of them have
# none
_RARE = 0.2


@dataclass(frozen=True, eq=False)
class Noisy:
    """One part as it was measured."""

    query: Query
    levels: tuple[np.ndarray, ...]  # counts, from coarse to fine
    scales: tuple[
        float, ...
    ]  # of their noise, as if it were Laplace's: the standard error over the root of two


@dataclass(frozen=True, eq=False)
class TrajectoriesView:
    """Noisy counts, and what is made of them. `visits`, `density` and `pairs` are fits: better than
    the counts, without known errors.
    """

    layout: Layout
    noisy: Mapping[str, Noisy]

    @property
    def total(self) -> Estimate:
        """How many trajectories there are (under User: at most so many of each person as are
        counted).
        """
        number = self.noisy["number"]
        most = number.query.part.most
        return Estimate(float(number.levels[0][0]) * most, number.scales[0] * 2**0.5 * most)

    def count(self, *, low: Sequence[float], high: Sequence[float]) -> Estimate:
        """How many trajectories begin, or end, between two corners, on average over both: from the
        largest cells inside to the smallest.
        """
        corners = [np.asarray(corner, float) for corner in (low, high)]
        if any(corner.shape != (2,) for corner in corners) or not (corners[0] <= corners[1]).all():
            raise ConfigError(
                "Ask for low=(...) and high=(...), low not above high, two numbers each."
            )
        domain, ends = self.layout.domain, self.noisy["ends"]
        partition, value, squares = partition_of(domain), 0.0, 0.0
        taken = np.zeros(1, np.bool_)
        for level, (side, counts, scale) in enumerate(
            zip(ends.query.sides, ends.levels, ends.scales, strict=True)
        ):
            taken = np.repeat(taken, len(counts) // len(taken))
            boxes = partition.box(
                np.full(len(counts), 2 * (side.bit_length() - 1)), np.arange(len(counts))
            )
            part = shares(domain, *boxes, *corners)
            if level < len(ends.levels) - 1:
                part = np.where(part >= 1 - 1e-12, 1.0, 0.0)
            part = np.where(taken, 0.0, part)
            taken = taken | (part > 0)
            value, squares = (
                value + float(part @ counts),
                squares + 2 * scale**2 * float(part @ part),
            )
        return Estimate(value, squares**0.5)

    @functools.cached_property
    def turns(self) -> np.ndarray:
        """(8,) the shares of turns between one move and the next, in eighths of a circle, from
        straight on.
        """
        counts = np.maximum(self.noisy["turns"].levels[0], 1.0)
        return counts / counts.sum()

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """All cells and points of all trajectories, and the share of cells passed without a
        point.
        """
        units = max(float(self.noisy["ends"].levels[0].sum()), 1.0)  # trajectories, or people
        cells, points, passed = 3 * self.noisy["sizes"].levels[0]
        return np.array(
            [
                max(cells * CELLS, units),
                max(points * POINTS, units),
                np.clip(passed / units, 0, 0.95),
            ]
        )

    @functools.cached_property
    def visits(self) -> np.ndarray:
        """(cells of the layout,) how many trajectories have points in each."""
        return self._visits[1][self.layout.index]

    @functools.cached_property
    def _visits(self) -> tuple[np.ndarray, np.ndarray]:
        return self._refined("visits", self.sizes[0], floor=0.001 * max(self.total.value, 1.0))

    @functools.cached_property
    def density(self) -> np.ndarray:
        """(places of the domain,) how many points lie at each."""
        mean, nearest = self._visits
        likely = nearest + _RARE * (mean - nearest)
        prior = self._spread(
            smooth(likely, min(4 * round(len(likely) ** 0.5), self.layout.domain.side))
        )
        found = self._refined("points", self.sizes[1], prior=prior)[0]
        return self._spread(found * (self.sizes[1] / max(float(found.sum()), 1e-300)), prior)

    @functools.cached_property
    def pairs(self) -> Pairs:
        """From where to where."""
        ends = self._spread(self._refined("ends", prior=self.density)[0], self.density)
        coarse, distances = self.noisy.get("pairs"), self.noisy["distances"]
        found = [] if coarse is None else list(zip(coarse.levels, coarse.scales, strict=True))
        units = float(self.noisy["ends"].levels[0].sum())
        return fitted(distances.query.domain, ends, distances.levels[0], found, units)

    def _refined(
        self,
        name: str,
        total: float | None = None,
        *,
        prior: np.ndarray | None = None,
        floor: float = 1.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The density of a part on its finest grid, in units of which there are so many in all;
        None: as they were counted.
        """
        noisy = self.noisy[name]
        found = max(
            float(noisy.levels[0].sum()), 0.01 * float(self.noisy["ends"].levels[0].sum()), 1.0
        )
        weight = 1.0 if total is None else total / found
        levels, scales = (
            [level * weight for level in noisy.levels],
            [scale * weight for scale in noisy.scales],
        )
        return refined(levels, scales, self.layout.domain, prior=prior, floor=floor)

    def _spread(self, values: np.ndarray, prior: np.ndarray | None = None) -> np.ndarray:
        """Values of a grid over the finest places: by another density, or by area."""
        domain: Any = self.layout.domain
        area = areas(domain, domain.side)
        if prior is None:
            return divided(values, area)
        return divided(values, prior + 1e-9 * prior.sum() * area / area.sum())
