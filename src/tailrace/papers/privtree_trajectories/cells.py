"""Draw the cells that trajectories are followed on, by PrivTree.

The cells are the leaves of a tree of places, small where points are many.

**Privacy.**
1. One unit adds at most its whole, WHOLE parts, to the finest places, and so to the nodes above.
2. A node holds the sum of its children, and nothing negative. So the coins (`privtree/splits.py`)
   lose what they prove for a mass of 1, however the unit's points are spread.
3. The leaves are all that is released: no count of this round is.

Source: Kumar's dissertation, Algorithm 16 (PrivTree, Zhang, Xiao, Xie 2016, on points that count 1
/ t each).
Departs: run once (Algorithm 21 as printed runs it twice and pays once); the constant kappa; exact
coins on whole parts; nodes without any of the domain's geometry are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.calls import told
from tailrace.counting.journeys.masses import WHOLE, Masses
from tailrace.domain.geometry.partition import area_before, partition_of
from tailrace.errors import ConfigError
from tailrace.mechanisms.trajectories.layout import Leaves, Map
from tailrace.noise import Draws
from tailrace.papers.privtree.splits import SplitCoin
from tailrace.privacy.loss import ZCDP, Loss, Number, PureDP, exact, whole


@told
@dataclass(frozen=True, kw_only=True)
class PrivTreeCells:
    """Cells by PrivTree, within a relative `share` of the budget.

    A node splits, by a coin, where its count of trajectories less a penalty for its depth exceeds
    `threshold`; cells are at most `max_depth` halvings deep (None: the domain's finest cells).

    >>> PrivTreeCells(share=0.3)
    PrivTreeCells(share=Fraction(3, 10), threshold=0, max_depth=None)
    """

    share: Number = Fraction(3, 10)
    threshold: int = 0
    max_depth: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", exact("share", self.share))
        object.__setattr__(self, "threshold", threshold_of(self.threshold))
        if self.max_depth is not None:
            object.__setattr__(self, "max_depth", whole("max_depth", self.max_depth))

    def coin(self, budget: PureDP | ZCDP) -> SplitCoin:
        """The coins that draw the tree."""
        return SplitCoin(2, self.threshold, budget, 1, grid=WHOLE)

    def loss(self, budget: PureDP | ZCDP) -> Loss:
        return self.coin(budget).loss(1)

    def measured(
        self, masses: Masses, *, domain: Map, budget: PureDP | ZCDP, noise: Draws
    ) -> Leaves:
        """Draw the leaves, level by level from the root."""
        deepest, before, coin = partition_of(domain).depth, area_before(domain), self.coin(budget)
        limit = deepest if self.max_depth is None else min(self.max_depth, deepest)
        sums, nodes = np.concatenate([[0], np.cumsum(masses.parts)]), np.zeros(1, np.int64)
        depths, leaves = [], []
        for depth in range(limit + 1):
            shift = deepest - depth
            ends = np.searchsorted(masses.codes, [nodes << shift, (nodes + 1) << shift])
            # At the greatest depth nothing is drawn: it would not be seen.
            split = np.zeros(len(nodes), np.bool_)
            if depth < limit and len(nodes):
                mass = sums[ends[1]] - sums[ends[0]]
                split = coin.draw_parts(noise.at("split", depth), mass, depth)
            leaves.append(nodes[~split])
            depths.append(np.full(len(leaves[-1]), depth))
            nodes = (2 * nodes[split][:, None] + np.arange(2)).reshape(-1)
            start, stop = (part << max(shift - 1, 0) for part in (nodes, nodes + 1))
            nodes = nodes[before[stop] > before[start]]
        depth, index = np.concatenate(depths), np.concatenate(leaves)
        order = np.argsort(index << (deepest - depth))
        return Leaves(depth[order], index[order])


def threshold_of(value: int) -> int:
    """A threshold of PrivTree, checked."""
    if whole("threshold", value, least=0) > 10**9:
        raise ConfigError("threshold must be a number of trajectories of at most 10**9.")
    return int(value)
