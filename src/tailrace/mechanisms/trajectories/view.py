"""Released trajectories: noisy counts with errors, and the fitted model."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tailrace.domain.geometry.partition import partition_of
from tailrace.domain.geometry.shares import shares
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Looks
from tailrace.mechanisms.trajectories.counts import CELLS, POINTS, Count
from tailrace.mechanisms.trajectories.ends import Pairs, fitted
from tailrace.mechanisms.trajectories.fit import areas, divided, refined, smooth
from tailrace.mechanisms.trajectories.layout import Layout

# The part of the mean of a cell with next to no visits that points and ends expect there: most such
# cells have none. Chosen by trial while building; no committed result.
_RARE = 0.2


@dataclass(frozen=True, eq=False)
class Noisy:
    """One part as it was measured."""

    of: Count
    levels: tuple[np.ndarray, ...]  # counts, from coarse to fine
    # Scales of Laplace noise of the same variance: the standard error over the root of two.
    scales: tuple[float, ...]


@dataclass(frozen=True, eq=False, repr=False)
class TrajectoriesView(Looks):
    """Noisy counts of trajectories, and fits to them.

    `visits`, `density` and `pairs` are fits: better than the counts, without known errors.
    """

    layout: Layout
    noisy: Mapping[str, Noisy]

    @property
    def facts(self) -> dict[str, str]:
        domain = self.layout.domain
        return {"journeys": str(self.total), "in": ", ".join(domain.columns)}

    @property
    def total(self) -> Estimate:
        """The number of trajectories (under User: of those that count)."""
        number = self.noisy["number"]
        most = number.of.part.most
        return Estimate(float(number.levels[0][0]) * most, number.scales[0] * 2**0.5 * most)

    @property
    def units(self) -> float:
        """The noisy number of trajectories, or of people."""
        number = self.noisy["number"]
        counted = number if number.of.part.most == 1 else self.noisy["ends"]
        return float(counted.levels[0].sum())

    def count(self, *, low: Sequence[float], high: Sequence[float]) -> Estimate:
        """The mean number of ends between two corners, in trajectories.

        Counts come from the largest cells inside, then from smaller ones.
        """
        corners = [np.asarray(corner, float) for corner in (low, high)]
        if any(corner.shape != (2,) for corner in corners) or not (corners[0] <= corners[1]).all():
            raise ConfigError(
                "Ask for low=(...) and high=(...), low not above high, two numbers each."
            )
        domain, ends = self.layout.domain, self.noisy["ends"]
        partition, value, squares = partition_of(domain), 0.0, 0.0
        taken = np.zeros(1, np.bool_)
        for level, (counts, scale) in enumerate(zip(ends.levels, ends.scales, strict=True)):
            cells = len(counts)
            taken = np.repeat(taken, cells // len(taken))
            boxes = partition.box(np.full(cells, cells.bit_length() - 1), np.arange(cells))
            part = shares(domain, *boxes, *corners)
            if level < len(ends.levels) - 1:
                part = np.where(part >= 1 - 1e-12, 1.0, 0.0)
            part = np.where(taken, 0.0, part)
            taken = taken | (part > 0)
            value += float(part @ counts)
            squares += 2 * scale**2 * float(part @ part)
        return Estimate(value, squares**0.5)

    @functools.cached_property
    def turns(self) -> np.ndarray:
        """(8,) shares of turns by eighths of a circle."""
        counts = np.maximum(self.noisy["turns"].levels[0], 1.0)
        return counts / counts.sum()

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """Cells, points, and the share of cells without points."""
        units = max(self.units, 1.0)
        cells, points, passed = 3 * self.noisy["sizes"].levels[0]
        least = np.maximum([cells * CELLS, points * POINTS], units)
        return np.append(least, np.clip(passed / units, 0, 0.95))

    @functools.cached_property
    def visits(self) -> np.ndarray:
        """(cells of the layout,) trajectories with points in each."""
        return self._visits[1][self.layout.index]

    @functools.cached_property
    def _visits(self) -> tuple[np.ndarray, np.ndarray]:
        return self._refined("visits", self.sizes[0], floor=0.001 * max(self.total.value, 1.0))

    @functools.cached_property
    def density(self) -> np.ndarray:
        """(places of the domain,) points at each."""
        mean, nearest = self._visits
        likely = nearest + _RARE * (mean - nearest)
        side = min(4 * round(len(likely) ** 0.5), self.layout.domain.side)
        prior = self._spread(smooth(likely, side))
        found = self._refined("points", self.sizes[1], prior=prior)[0]
        return self._spread(found * (self.sizes[1] / max(float(found.sum()), 1e-300)), prior)

    @functools.cached_property
    def pairs(self) -> Pairs:
        """The density of pairs of ends."""
        ends = self._spread(self._refined("ends", prior=self.density)[0], self.density)
        coarse, distances = self.noisy.get("pairs"), self.noisy["distances"]
        found = [] if coarse is None else list(zip(coarse.levels, coarse.scales, strict=True))
        units = self.units
        return fitted(distances.of.domain, ends, distances.levels[0], found, units)

    def _refined(
        self,
        name: str,
        total: float | None = None,
        *,
        prior: np.ndarray | None = None,
        floor: float = 1.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """A part's density on its finest grid, scaled to `total`.

        None: as it was counted.
        """
        noisy, units = self.noisy[name], self.units
        found = max(float(noisy.levels[0].sum()), 0.01 * units, 1.0)
        weight = 1.0 if total is None else total / found
        levels = [level * weight for level in noisy.levels]
        scales = [scale * weight for scale in noisy.scales]
        return refined(levels, scales, self.layout.domain, prior=prior, floor=floor)

    def _spread(self, values: np.ndarray, prior: np.ndarray | None = None) -> np.ndarray:
        """Divide values among the finest places, by `prior` or area."""
        area = areas(self.layout.domain, self.layout.domain.side)
        if prior is None:
            return divided(values, area)
        return divided(values, prior + 1e-9 * prior.sum() * area / area.sum())
