"""A spatial stream's tree and its view, all public."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailrace.domain import Box
from tailrace.domain.geometry import Region, Roads
from tailrace.domain.geometry.partition import Layout, area_before, lay_out, partition_of
from tailrace.domain.geometry.shares import shares
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate

Places = Box | Region | Roads
# Deviations of the difference of two halves above which a count says how uneven they are.
# Chosen by trial while building; no committed result.
_CLEAR = 4.0
# Times the noise: the error that inheritance and empty halves add.
# Measured on generated streams while building; benchmarks/spatial.py shows the coverage it gives
# (results/spatial_coverage.csv).
_MODEL_ERROR = 2.0


@dataclass(frozen=True)
class Tree:
    """Nodes in preorder, with the noisy counts of each.

    A part is a stretch of the past with a weight of its own: a row of `counts` and `draws`.
    """

    inner: np.ndarray  # (nodes,) bool: has children
    leaf: np.ndarray  # (nodes,) bool: counted in the open epoch
    needed: np.ndarray  # (nodes,) the last epoch that was counted below the node
    counts: np.ndarray  # (parts, nodes) noisy counts from when the node was a leaf
    draws: np.ndarray  # (parts, nodes) how many draws of noise they hold


def seed(depth: int) -> Tree:
    """The tree before any measurement: every node down to `depth`."""
    inner = np.zeros(1, np.bool_)
    for _ in range(depth):
        inner = np.concatenate([[True], inner, inner])
    none = np.zeros((0, len(inner)), np.int64)
    return Tree(inner, ~inner, np.zeros(len(inner), np.int64), none, none)


def counted(leaf: np.ndarray, layout: Layout) -> np.ndarray:
    """The nodes counted now, in order.

    A leaf outside the domain's geometry is a public zero and is not counted.
    """
    return np.flatnonzero(leaf & (layout.area > 0))


def groups_of(tree: Tree, domain: Places) -> np.ndarray:
    """The counted leaf of each cell, (cells,); -1 for none."""
    inner, leaf = (np.packbits(flags).tobytes() for flags in (tree.inner, tree.leaf))
    return _groups(domain, len(tree.inner), inner, leaf)


@functools.lru_cache(maxsize=4)  # leaves change only between epochs
def _groups(domain: Places, nodes: int, *packed: bytes) -> np.ndarray:
    from tailrace.domain.geometry import kernel

    inner, leaf = (
        np.unpackbits(np.frombuffer(flags, np.uint8), count=nodes).astype(np.bool_)
        for flags in packed
    )
    layout = lay_out(inner, domain)
    chosen = counted(leaf, layout)
    found = kernel.group_of(partition_of(domain).places, layout.first[chosen], layout.last[chosen])
    found.setflags(write=False)
    return found


def measured(tree: Tree, layout: Layout, noisy: np.ndarray) -> Tree:
    """The tree with one more part: its leaves' noisy counts."""
    counts, draws = np.zeros((2, len(tree.inner)), np.int64)
    chosen = counted(tree.leaf, layout)
    counts[chosen], draws[chosen] = noisy, 1
    return replace(
        tree, counts=np.vstack([tree.counts, counts]), draws=np.vstack([tree.draws, draws])
    )


def regrown(
    tree: Tree,
    layout: Layout,
    domain: Places,
    expected: np.ndarray,
    *,
    epoch: int,
    limit: float,
    least: int,
    keep: int,
) -> Tree:
    """Grow the tree of the next epoch.

    Nodes are divided above depth `least`, and where more than `limit` points are expected.
    """
    from tailrace.mechanisms.spatial import kernel

    deepest, before = partition_of(domain).depth, area_before(domain)
    grown: Any = kernel.grown(
        expected, tree.inner, layout.second, tree.needed, epoch, limit, least, keep, deepest, before
    )
    inner, leaf, needed, source, folded = grown
    moved = [np.where(source >= 0, values[:, source], 0) for values in (tree.counts, tree.draws)]
    if folded.any():
        for values, into in zip((tree.counts, tree.draws), moved, strict=True):
            sums = np.stack([kernel.gathered(part, tree.inner, layout.second) for part in values])
            into[:, folded] = sums[:, source[folded]]
    return Tree(inner, leaf, needed, *moved)


@dataclass(frozen=True, eq=False)
class Standing:
    """What stays the same about a tree while its epoch is open."""

    tree: Tree
    layout: Layout

    @functools.cached_property
    def sums(self) -> np.ndarray:
        """(nodes, 2 * parts): counts of each part in subtrees, then draws in them."""
        from tailrace.mechanisms.spatial.kernel import gathered

        tree, second = self.tree, self.layout.second
        made = [gathered(part, tree.inner, second) for part in (*tree.counts, *tree.draws)]
        sums = np.stack(made, axis=1)
        # Half as much to read, where it fits.
        return sums.astype(np.int32) if np.abs(sums).max(initial=0) < 1 << 30 else sums

    def parents(self, whole_tree: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes with children, second children, and the first ones' parts of the area.

        Those above the leaves, or of the whole tree.
        """
        return self._all_parents if whole_tree else self._parents

    @functools.cached_property
    def _parents(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._of(np.flatnonzero(self._above))

    @functools.cached_property
    def _all_parents(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._of(np.flatnonzero(self.tree.inner))

    def _of(self, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from tailrace.mechanisms.spatial.kernel import halved

        parents = parents.astype(np.int32)
        second = self.layout.second[parents].astype(np.int32)
        return parents, second, halved(self.layout.area, parents, second)

    @functools.cached_property
    def shown(self) -> np.ndarray:
        """Which nodes are not below a leaf."""
        layout = self.layout
        covered = np.maximum.accumulate(np.where(self.tree.leaf, layout.last, 0))
        return layout.first >= np.concatenate([[0], covered[:-1]])

    @functools.cached_property
    def _above(self) -> np.ndarray:
        return self.tree.inner & ~self.tree.leaf & self.shown

    @functools.cached_property
    def places(self) -> slice | np.ndarray:
        """The nodes that are shown."""
        return slice(None) if self.shown.all() else np.flatnonzero(self.shown)

    @functools.cached_property
    def inner(self) -> np.ndarray:
        """Which of them have children there."""
        inner = self._above[self.places]
        inner.setflags(write=False)
        return inner

    @functools.cached_property
    def second(self) -> np.ndarray:
        """Their second children, among them."""
        from tailrace.domain.geometry.kernel import lay_out

        second = lay_out(np.array(self.inner), int(self.layout.depth.max()))[0]
        second.setflags(write=False)
        return second


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
        standing: Standing,
        counts: np.ndarray,
        variance: np.ndarray,
        *,
        total_variance: float,
        pending: float,
    ) -> SpatialView:
        """Without the nodes below the leaves."""
        inner, second, places = standing.inner, standing.second, standing.places
        for array in (counts := counts[places], variance := variance[places]):
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
