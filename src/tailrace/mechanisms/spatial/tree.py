"""A spatial stream's tree: shape and measurements, all public."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailrace.domain import Box
from tailrace.domain.geometry import Region, Roads
from tailrace.domain.geometry.partition import Layout, area_before, lay_out, partition_of

Places = Box | Region | Roads


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
    return _groups(domain, tree.inner.tobytes(), tree.leaf.tobytes())


@functools.lru_cache(maxsize=4)  # leaves change only between epochs
def _groups(domain: Places, inner: bytes, leaf: bytes) -> np.ndarray:
    from tailrace.domain.geometry import kernel

    layout = lay_out(np.frombuffer(inner, np.bool_), domain)
    chosen = counted(np.frombuffer(leaf, np.bool_), layout)
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
