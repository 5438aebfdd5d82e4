"""The view of a spatial stream: leaves and rectangles."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrace.domain.geometry.partition import Layout, lay_out, partition_of
from tailrace.domain.geometry.shares import shares
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.spatial.tree import Places, Tree

# Deviations of the difference of two halves above which a count says how uneven they are.
# Chosen by trial while building; no committed result.
_CLEAR = 4.0
# Times the noise: the error that inheritance and empty halves add.
# Measured on generated streams while building; benchmarks/spatial.py shows the coverage it gives
# (results/spatial_coverage.csv).
_MODEL_ERROR = 2.0


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of a view, in the partition's order."""

    depth: np.ndarray  # (leaves,)
    index: np.ndarray  # (leaves,) among the nodes of that depth
    low: np.ndarray  # (leaves, dimensions)
    high: np.ndarray  # (leaves, dimensions)
    count: np.ndarray  # (leaves,)
    error: np.ndarray  # (leaves,) standard errors


@dataclass(frozen=True, eq=False)
class SpatialView:
    """The released tree down to its leaves."""

    domain: Places
    inner: np.ndarray  # (nodes,) in preorder
    second: np.ndarray  # (nodes,)
    counts: np.ndarray  # (nodes,) nonnegative, children add up to their parent
    variance: np.ndarray  # (nodes,) of the estimates by noise
    total_variance: float  # of the number of points
    pending: float  # events that no leaf has counted yet

    @classmethod
    def of(
        cls,
        domain: Places,
        tree: Tree,
        layout: Layout,
        counts: np.ndarray,
        variance: np.ndarray,
        *,
        total_variance: float,
        pending: float,
    ) -> SpatialView:
        """Without the nodes below the leaves."""
        covered = np.maximum.accumulate(np.where(tree.leaf, layout.last, 0))
        shown = layout.first >= np.concatenate([[0], covered[:-1]])
        inner = (tree.inner & ~tree.leaf)[shown]
        second = lay_out(inner, domain).second
        for array in (inner, second, counts := counts[shown], variance := variance[shown]):
            array.setflags(write=False)
        return cls(domain, inner, second, counts, variance, total_variance, pending)

    @functools.cached_property
    def leaves(self) -> Leaves:
        """Where the leaves lie and what they hold."""
        layout, partition = lay_out(self.inner, self.domain), partition_of(self.domain)
        ends = np.flatnonzero(~self.inner & (layout.area > 0))
        depth, count = layout.depth[ends], self.counts[ends]
        index = layout.first[ends] >> (partition.depth - depth)
        error = np.sqrt(_MODEL_ERROR * self.variance[ends])
        return Leaves(depth, index, *partition.box(depth, index), count, error)

    def count(self, *, low: Sequence[float], high: Sequence[float]) -> Estimate:
        """Count the points between two corners.

        The error adds up the noise of the leaves inside, less what the known total takes away of
        it; the total's own error; how unevenly points may lie in the leaves that are cut; and where
        the events fell that no leaf has counted yet.
        """
        leaves, corners = self.leaves, (self._corner("low", low), self._corner("high", high))
        part = shares(self.domain, leaves.low, leaves.high, *corners)
        value, noise = float(part @ leaves.count), leaves.error**2
        share = min(value / max(float(self.counts[0]), 1.0), 1.0)
        shared = float(part @ noise) ** 2 / max(float(noise.sum()), np.finfo(float).tiny)
        cut = float(part * (1 - part) @ (leaves.count + self.unevenness * leaves.count**2))
        unseen = self.pending * share * (1 - share)
        variance = float(part**2 @ noise) - shared + share**2 * self.total_variance + cut + unseen
        return Estimate(value, math.sqrt(max(variance, 0.0)))

    @functools.cached_property
    def unevenness(self) -> float:
        """How unevenly points lie in the halves of a node.

        The mean square of (a - b) / (a + b) over the halves of nodes with clear counts, less the
        noise's share of it.

        A leaf is not divided further since its halves are not clear; they are taken to be as uneven
        as those above.
        """
        nodes = np.flatnonzero(self.inner)
        a, b = nodes + 1, self.second[nodes]
        both = self.variance[a] + self.variance[b]
        noise = 4 * self.variance[a] * self.variance[b] / np.maximum(both, np.finfo(float).tiny)
        clear = self.counts[nodes] > _CLEAR * np.sqrt(noise)
        if not clear.any():
            return 1.0
        squares = ((self.counts[a] - self.counts[b]) ** 2 - noise)[clear].sum()
        return float(np.clip(squares / (self.counts[nodes][clear] ** 2).sum(), 0.0, 1.0))

    def _corner(self, name: str, corner: Sequence[float]) -> np.ndarray:
        values = np.asarray(corner, float)
        if values.shape != (len(self.domain.columns),) or np.isnan(values).any():
            raise ConfigError(
                f"{name} must hold a number for each of the columns "
                f"{', '.join(self.domain.columns)}."
            )
        return values
