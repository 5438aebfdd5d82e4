"""A spatial stream's tree, all public."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailrace.domain.geometry.partition import Layout, Space, area_before, lay_out, partition_of

# The finest depth at which events are told apart: 262,144 places. With a million, a push of 1,000
# rows took half as long again.
FINEST = 18
# As many more where there are attributes, at most. A push of 1,000 rows with three values took a
# seventh longer than without; no committed result.
_MORE = 2
# Longer than any stream: nothing is forgotten between the rounds of an epoch.
_ALWAYS = 1 << 62


def _none() -> np.ndarray:
    return np.zeros(0, np.float32)


@dataclass(frozen=True)
class Tree:
    """Nodes in preorder.

    With a retention, each has noisy counts: a part is a stretch of the past with a weight of its
    own, a row of `counts` and `draws`. Else each parent, a node with children, has the share of its
    points that lie in its first half, the variance of that share, and how much more of the last
    epoch's change the first half clearly had.
    """

    inner: np.ndarray  # (nodes,) bool: has children
    leaf: np.ndarray  # (nodes,) bool: counted in the open epoch
    needed: np.ndarray  # (nodes,) the last epoch that was counted below the node
    counts: np.ndarray  # (parts, nodes) noisy counts from when the node was a leaf
    draws: np.ndarray  # (parts, nodes) how many draws of noise they hold
    share: np.ndarray = field(default_factory=_none)  # (parents,)
    spread: np.ndarray = field(default_factory=_none)  # (parents,)
    moved: np.ndarray = field(default_factory=_none)  # (parents,)

    @property
    def held(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Shares, their variances, and changes, to count with."""
        share, spread, moved = (
            values.astype(float) for values in (self.share, self.spread, self.moved)
        )
        return share, spread, moved

    def holding(self, share: np.ndarray, spread: np.ndarray, moved: np.ndarray) -> Tree:
        """With other shares, kept in half the room."""
        share, spread, moved = (values.astype(np.float32) for values in (share, spread, moved))
        return replace(self, share=share, spread=spread, moved=moved)


def coarser(standing: Standing, domain: Space) -> Standing:
    """An older version's tree, with its leaves no deeper than events are told apart."""
    tree, depth, most = standing.tree, standing.layout.depth, finest(domain)
    if depth.max() <= most:
        return standing
    leaf = (tree.leaf & (depth < most)) | (standing.shown & (depth == most))
    return replace(standing, tree=replace(tree, leaf=leaf))


def finest(domain: Space) -> int:
    """The depth at which events are told apart."""
    partition = partition_of(domain)
    return min(partition.depth, FINEST + min(partition.coded, _MORE))


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


@dataclass(frozen=True, eq=False)
class Standing:
    """What stays the same about a tree while its epoch is open."""

    tree: Tree
    layout: Layout

    @functools.cached_property
    def parents(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes with children, second children, and the first ones' parts of the area."""
        from tailrace.mechanisms.spatial.kernel import halved

        parents = np.flatnonzero(self.tree.inner).astype(np.int32)
        second = self.layout.second[parents].astype(np.int32)
        return parents, second, halved(self.layout.area, parents, second)

    @functools.cached_property
    def held(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The shares of the tree, their variances, and changes."""
        return self.tree.held

    @functools.cached_property
    def shown(self) -> np.ndarray:
        """Which nodes are not below a leaf."""
        layout = self.layout
        covered = np.maximum.accumulate(np.where(self.tree.leaf, layout.last, 0))
        return layout.first >= np.concatenate([[0], covered[:-1]])

    @functools.cached_property
    def places(self) -> slice | np.ndarray:
        """The nodes that are shown."""
        return slice(None) if self.shown.all() else np.flatnonzero(self.shown)

    @functools.cached_property
    def inner(self) -> np.ndarray:
        """Which of them have children there."""
        inner = (self.tree.inner & ~self.tree.leaf & self.shown)[self.places]
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
class Found:
    """What the rounds of an epoch have measured so far, in a tree.

    A node has the sum of its measurements, each weighed by its precision, and of the precisions.
    """

    standing: Standing
    value: np.ndarray  # (nodes,)
    weight: np.ndarray  # (nodes,)

    @classmethod
    def nothing(cls, standing: Standing) -> Found:
        """Before the first round."""
        return cls(standing, *np.zeros((2, len(standing.tree.inner))))

    @functools.cached_property
    def leaves(self) -> np.ndarray:
        """The nodes counted in this round."""
        return counted(self.standing.tree.leaf, self.standing.layout)

    def plus(self, noisy: np.ndarray, variance: float) -> Found:
        """With a round's noisy counts of the leaves."""
        value, weight = self.value.copy(), self.weight.copy()
        value[self.leaves] += noisy / variance
        weight[self.leaves] += 1 / variance
        return Found(self.standing, value, weight)

    @functools.cached_property
    def changes(self) -> tuple[np.ndarray, np.ndarray]:
        """The change below each node, and its variance."""
        from tailrace.mechanisms.spatial.filtering import combined

        inner, layout = self.standing.tree.inner, self.standing.layout
        return combined(self.value, self.weight, inner, layout.second, layout.area)

    @functools.cached_property
    def divided(self) -> np.ndarray:
        """The same, so that halves add up to their parent."""
        from tailrace.mechanisms.spatial.filtering import divided

        return divided(*self.changes, self.standing.tree.inner, self.standing.layout.second)


def regrown(
    standing: Standing,
    domain: Space,
    expected: np.ndarray,
    *,
    epoch: int,
    limits: tuple[float, float],
    least: int,
    keep: int = _ALWAYS,
) -> tuple[Standing, np.ndarray]:
    """Grow another tree: it, and the node before of each of its nodes, or -1.

    Nodes are divided above depth `least`, and where more than the first of `limits` are expected,
    or the second, where they were divided before.
    """
    from tailrace.mechanisms.spatial import kernel

    tree, layout = standing.tree, standing.layout
    deepest, before = partition_of(domain).depth, area_before(domain)
    grown: Any = kernel.grown(
        expected,
        tree.inner,
        layout.second,
        tree.needed,
        epoch,
        limits,
        least,
        keep,
        deepest,
        finest(domain),
        before,
    )
    inner, leaf, needed, source, folded = grown
    moved = [np.where(source >= 0, values[:, source], 0) for values in (tree.counts, tree.draws)]
    if folded.any():
        for values, into in zip((tree.counts, tree.draws), moved, strict=True):
            sums = [kernel.gathered(part, tree.inner, layout.second) for part in values]
            into[:, folded] = np.reshape(sums, values.shape)[:, source[folded]]
    return Standing(Tree(inner, leaf, needed, *moved), lay_out(inner, domain)), source


def carried(standing: Standing, source: np.ndarray, before: Standing) -> Standing:
    """A regrown tree with the shares of the tree before."""
    from tailrace.mechanisms.spatial import filtering

    old = np.full(len(before.tree.inner) + 1, -1)
    old[before.parents[0]] = np.arange(len(before.parents[0]))
    parents, _, halves = standing.parents
    held = filtering.carried(before.held, old[source[parents]], halves)
    return replace(standing, tree=standing.tree.holding(*held))
