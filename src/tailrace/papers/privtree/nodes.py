"""A tree in arrays, grown anew at every step.

Every node that was ever visited has a row that never moves. `own` is what was measured at the node
while it was a leaf (the last estimate of its counter), `below` the sum of `own` over its
descendants, `above` its share of what was measured at its ancestors (C_n, C_d and C_a of
PrivStream, Algorithm 7). Then above + own + below is the consistent extension of all measurements.
A step touches the nodes of its own tree and no others: below a leaf nothing changes, and a node
that was never visited has only its share of what is above.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from tailrace.noise import Draws
from tailrace.papers.privtree.splits import SplitCoin


@dataclass(frozen=True)
class Nodes:
    """Every node of any tree so far, the root first."""

    depth: np.ndarray  # (rows,) halvings
    index: np.ndarray  # (rows,) among the nodes of its depth
    first: np.ndarray  # (rows,) row of the first child, the others follow it; -1: never split
    counter: np.ndarray  # (rows,) row of its counter; -1: never a leaf
    fed: np.ndarray  # (rows,) steps as a leaf
    own: np.ndarray  # (rows,)
    below: np.ndarray  # (rows,)
    above: np.ndarray  # (rows,)
    own_variance: np.ndarray  # (rows,) of own
    below_variance: np.ndarray  # (rows,) of below
    above_variance: np.ndarray  # (rows,) of above

    @classmethod
    def none(cls) -> Nodes:
        """Before the first tree."""
        whole = {"depth", "index", "first", "counter", "fed"}
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**{name: np.zeros(0, np.int64 if name in whole else float) for name in names})


@dataclass(frozen=True)
class Grid:
    """The public frame of a tree."""

    halvings: int  # in all
    halvings_each: int  # of a split
    deepest: int  # splits
    cumulative: np.ndarray  # (places + 1,) weight before each place

    @property
    def fan_out(self) -> int:
        return 1 << self.halvings_each

    def span(self, depth: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first place of each node, and its end."""
        shift = self.halvings - depth
        return index << shift, (index + 1) << shift

    def weight(self, depth: np.ndarray, index: np.ndarray) -> np.ndarray:
        """The public weight (area, length) of each node."""
        start, stop = self.span(depth, index)
        return self.cumulative[stop] - self.cumulative[start]


@dataclass(frozen=True)
class Batch:
    """Sums of a batch before each place it touches."""

    places: np.ndarray  # (places touched,)
    adds: np.ndarray  # (places touched + 1,)
    net: np.ndarray  # (places touched + 1,)

    def among(self, sums: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """The sum from `start` up to `stop`."""
        return sums[np.searchsorted(self.places, stop)] - sums[np.searchsorted(self.places, start)]


class Growth:
    """The tree of one step while it grows."""

    def __init__(self, nodes: Nodes, grid: Grid) -> None:
        self.grid = grid
        self.rows = len(nodes.depth)
        self._names = [field.name for field in dataclasses.fields(nodes)]
        for name in self._names:
            array = getattr(nodes, name)
            setattr(self, name, np.concatenate([array, np.zeros(self.rows // 4 + 64, array.dtype)]))
        if not self.rows:
            # The root.
            self.rows, self.first[0], self.counter[0] = 1, -1, -1
        # Rows of the nodes of each level, in order, and which of them split.
        self.levels: list[np.ndarray] = []
        self.splits: list[np.ndarray] = []

    depth: np.ndarray
    index: np.ndarray
    first: np.ndarray
    counter: np.ndarray
    fed: np.ndarray
    own: np.ndarray
    below: np.ndarray
    above: np.ndarray
    own_variance: np.ndarray
    below_variance: np.ndarray
    above_variance: np.ndarray

    def grow(self, batch: Batch, coin: SplitCoin, noise: Draws) -> None:
        """Split nodes by coins, level by level from the root."""
        level = np.zeros(1, np.int64)
        public = np.maximum(self._total(level), 0.0)
        for depth in range(self.grid.deepest + 1):
            self.levels.append(level)
            # At the greatest depth nothing is drawn: it would not be seen.
            if depth == self.grid.deepest:
                self.splits.append(np.zeros(len(level), np.bool_))
                return
            added = batch.among(batch.adds, *self.grid.span(self.depth[level], self.index[level]))
            split = coin.draw(noise.at("split", depth), public, added, depth)
            self.splits.append(split)
            if not split.any():
                return
            level, public = self._descend(level[split], public[split])

    def _descend(self, parents: np.ndarray, public: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The children with weight, and their public counts."""
        self._visit(parents[self.first[parents] < 0])
        children = self.first[parents][:, None] + np.arange(self.grid.fan_out)
        weight = self.grid.weight(self.depth[children], self.index[children])
        even = weight / weight.sum(axis=1, keepdims=True)
        self.above[children] = even * (self.above[parents] + self.own[parents])[:, None]
        passed = self.above_variance[parents] + self.own_variance[parents]
        self.above_variance[children] = even**2 * passed[:, None]
        level, shares = children.reshape(-1), self._shares(children, even) * public[:, None]
        there = weight.reshape(-1) > 0
        return level[there], shares.reshape(-1)[there]

    def _shares(self, children: np.ndarray, even: np.ndarray) -> np.ndarray:
        """Each child's part of its parent's public count.

        In proportion to its own count, if positive; by weight where none is.
        """
        positive = np.maximum(self._total(children), 0.0)
        sums = positive.sum(axis=1, keepdims=True)
        return np.where(sums > 0, positive / np.where(sums > 0, sums, 1.0), even)

    def _total(self, rows: np.ndarray) -> np.ndarray:
        return self.above[rows] + self.own[rows] + self.below[rows]

    def _visit(self, parents: np.ndarray) -> None:
        """Make rows for the children of newly split nodes."""
        new, fan_out = len(parents) * self.grid.fan_out, self.grid.fan_out
        while self.rows + new > len(self.depth):
            for name in self._names:
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros(len(array), array.dtype)]))
        rows = slice(self.rows, self.rows + new)
        self.first[parents] = self.rows + fan_out * np.arange(len(parents))
        self.depth[rows] = np.repeat(self.depth[parents] + self.grid.halvings_each, fan_out)
        self.index[rows] = (self.index[parents][:, None] * fan_out + np.arange(fan_out)).reshape(-1)
        self.first[rows] = self.counter[rows] = -1
        self.rows += new

    def leaves(self) -> np.ndarray:
        """The leaves' rows, in the order of their places."""
        both = zip(self.levels, self.splits, strict=True)
        rows = np.concatenate([level[~split] for level, split in both])
        return rows[np.argsort(self.grid.span(self.depth[rows], self.index[rows])[0])]

    def inner(self) -> np.ndarray:
        """The rows above the leaves, from the root down."""
        both = zip(self.levels, self.splits, strict=True)
        return np.concatenate([level[split] for level, split in both])

    def gather(self) -> None:
        """Sum up what was measured below each node that split."""
        for level, split in zip(reversed(self.levels), reversed(self.splits), strict=True):
            parents = level[split]
            children = self.first[parents][:, None] + np.arange(self.grid.fan_out)
            self.below[parents] = (self.own[children] + self.below[children]).sum(axis=1)
            variances = self.own_variance[children] + self.below_variance[children]
            self.below_variance[parents] = variances.sum(axis=1)

    def nonnegative(self, leaves: np.ndarray) -> np.ndarray:
        """The nonnegative, consistent counts of the leaves after this step."""
        counts = np.zeros(self.rows)
        counts[0] = max(float(self._total(np.zeros(1, np.int64))[0]), 0.0)
        for level, split in zip(self.levels, self.splits, strict=True):
            parents = level[split]
            children = self.first[parents][:, None] + np.arange(self.grid.fan_out)
            weight = self.grid.weight(self.depth[children], self.index[children])
            shares = self._shares(children, weight / weight.sum(axis=1, keepdims=True))
            counts[children] = shares * counts[parents][:, None]
        return counts[leaves]

    def nodes(self) -> Nodes:
        return Nodes(**{name: getattr(self, name)[: self.rows].copy() for name in self._names})
