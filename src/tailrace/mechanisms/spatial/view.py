"""What a spatial stream shows: its tree down to the leaves."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.domain import Schema, attributes_of
from tailrace.domain.geometry.partition import Space, lay_out, partition_of
from tailrace.domain.geometry.shares import shares
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Looks
from tailrace.mechanisms.shared.bins import weights
from tailrace.mechanisms.shared.strata import Strata
from tailrace.mechanisms.spatial.tree import Standing

# Times the variance of a half's count that a cut leaf adds: points crowd in parts of halves, too.
# Chosen on circles, cities and Gowalla at seeds 0 to 7; benchmarks/spatial_streams.py shows the
# coverage it gives.
_CUT = 3.0


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of a view, in the partition's order."""

    depth: np.ndarray  # (leaves,)
    index: np.ndarray  # (leaves,) among the nodes of that depth
    low: np.ndarray  # (leaves, dimensions)
    high: np.ndarray  # (leaves, dimensions)
    # (leaves, attributes) of each attribute the first code, and the one after the last
    first: np.ndarray
    last: np.ndarray
    count: np.ndarray  # (leaves,)
    error: np.ndarray  # (leaves,) standard errors


@dataclass(frozen=True, eq=False, repr=False)
class SpatialView(Looks):
    """The released tree down to its leaves."""

    domain: Space
    inner: np.ndarray  # (nodes,) in preorder
    second: np.ndarray  # (nodes,)
    counts: np.ndarray  # (nodes,) nonnegative, children add up to their parent
    total_variance: float  # of the number of points
    # () -> (nodes,) variance of the first child's count, given its parent's; and the mean square of
    # (a - b) / (a + b) over the halves a, b of a leaf
    doubted: Callable[[], tuple[np.ndarray, float]]

    @classmethod
    def of(
        cls,
        domain: Space,
        standing: Standing,
        counts: np.ndarray,
        total_variance: float,
        doubted: Callable[[], tuple[np.ndarray, float]],
    ) -> SpatialView:
        """Without the nodes below the leaves."""
        counts = counts[standing.places]
        counts.setflags(write=False)

        def shown() -> tuple[np.ndarray, float]:
            doubt, uneven = doubted()
            return doubt[standing.places], uneven

        return cls(domain, standing.inner, standing.second, counts, total_variance, shown)

    @property
    def facts(self) -> dict[str, str]:
        points = Estimate(float(self.counts[0]), math.sqrt(self.total_variance))
        leaves = f"{len(self.inner) - int(self.inner.sum()):,} in {', '.join(self.domain.columns)}"
        return {"points": str(points), "leaves": leaves}

    @functools.cached_property
    def _doubts(self) -> tuple[np.ndarray, float]:
        """Made when first asked for: most steps only show counts."""
        return self.doubted()

    @functools.cached_property
    def leaves(self) -> Leaves:
        """Where the leaves lie and what they hold."""
        from tailrace.mechanisms.spatial.filtering import passed_on

        layout, partition = lay_out(self.inner, self.domain), partition_of(self.domain)
        depth, count = layout.depth[self._ends], self.counts[self._ends]
        index = layout.first[self._ends] >> (partition.depth - depth)
        tree = (self.counts, self._doubts[0], self.inner, self.second)
        error = np.sqrt(passed_on(self.total_variance, *tree)[self._ends])
        where = (*partition.box(depth, index), *partition.codes(depth, index))
        return Leaves(depth, index, *where, count, error)

    @functools.cached_property
    def held(self) -> np.ndarray:
        """(leaves, combinations) the points of each leaf, by the values of all attributes."""
        leaves = self.leaves
        made = leaves.count[:, None]
        for axis, attribute in enumerate(attributes_of(self.domain).values()):
            first, last, codes = leaves.first[:, [axis]], leaves.last[:, [axis]], attribute.size
            inside = (first <= np.arange(codes)) & (np.arange(codes) < last)
            part = inside / np.maximum(last - first, 1)
            made = (made[:, :, None] * part[:, None, :]).reshape(len(part), -1)
        return made

    @property
    def strata(self) -> Strata:
        """What `Release.drawn` draws rows from."""
        ends = lay_out(self.inner, self.domain).last[self._ends]
        return Strata(self.domain, ends, self.counts[self._ends])

    @functools.cached_property
    def _ends(self) -> np.ndarray:
        """The leaves that have an area."""
        return np.flatnonzero(~self.inner & (lay_out(self.inner, self.domain).area > 0))

    def count(
        self,
        *,
        low: Sequence[float] | None = None,
        high: Sequence[float] | None = None,
        **where: Any,
    ) -> Estimate:
        """Count the points between two corners, by attributes.

        `count(low=(3, 4), high=(5, 6), kind="fire", priority=(2, 3))`: a tuple is a range, both
        ends included; a list is any of its values. A corner that is left out is that of the domain.

        The error adds up the variances of the splits above the leaves, as far as the rectangle
        takes the two halves differently; the total's own; and how unevenly points may lie in the
        leaves that are cut.
        """
        from tailrace.mechanisms.spatial.filtering import covered

        part = self.asked(low, high, where)
        covers = np.zeros(len(self.inner))
        covers[self._ends] = part
        doubt, uneven = self._doubts
        variance = covered(covers, self.counts, doubt, self.inner, self.second)
        variance += float(covers[0]) ** 2 * self.total_variance
        # Only the leaves inside: a rectangle leaves most of them out.
        inside = np.flatnonzero(part)
        count, error = self.leaves.count[inside], self.leaves.error[inside]
        part = part[inside]
        value = float(part @ count)
        cut = part * (1 - part) @ (count + uneven * (count**2 + error**2))
        return Estimate(value, math.sqrt(max(variance + _CUT * float(cut), 0.0)))

    def asked(
        self, low: Sequence[float] | None, high: Sequence[float] | None, where: dict[str, Any]
    ) -> np.ndarray:
        """(leaves,) the share of each leaf that is asked for."""
        leaves, ground = self.leaves, partition_of(self.domain).ground
        corners = self._corner("low", low), self._corner("high", high)
        part, known = shares(ground, leaves.low, leaves.high, *corners), attributes_of(self.domain)
        for column in where:
            if column not in known:
                there = (
                    f"it has {', '.join(known)}" if known else "it has none: ask by low and high"
                )
                raise ConfigError(f"The domain has no attribute '{column}': {there}.")
        for axis, (column, attribute) in enumerate(known.items()):
            if column in where:
                chosen = weights(Schema(**{column: attribute}), {column: where[column]})
                before = np.append(0.0, np.cumsum(chosen))
                first, last = leaves.first[:, axis], leaves.last[:, axis]
                part = part * (before[last] - before[first]) / np.maximum(last - first, 1)
        return part

    def _corner(self, name: str, corner: Sequence[float] | None) -> np.ndarray:
        ground = partition_of(self.domain).ground
        values = np.asarray(getattr(ground, name) if corner is None else corner, float)
        if values.shape != (len(ground.columns),) or np.isnan(values).any():
            raise ConfigError(
                f"{name} must hold a number for each of the columns {', '.join(ground.columns)}."
            )
        return values
