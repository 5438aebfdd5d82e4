"""Trees that noise or deletions hold at the threshold."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.audit import gallery
from tailrace.audit.losses.replaying import Points
from tailrace.papers.privtree.splits import SplitCoin
from tailrace.privacy.loss import PureDP

_HALF = Fraction(1, 2)


def _slope(counts: np.ndarray, scale: float, threshold: float = 0.0) -> float:
    """The log-ratio of a path down to a depth, with one insertion more."""
    one, two = (
        gallery.published_privtree(counts + more, scale=scale, threshold=threshold).sum()
        for more in (1, 0)
    )
    return float(one - two)


def _corrected(counts: np.ndarray, threshold: int = 0) -> float:
    """Ours on released counts made nonnegative and falling; with the counter's half."""
    coin = SplitCoin(2, threshold, PureDP(epsilon=_HALF), 1)
    falling = np.minimum.accumulate(np.maximum(counts, 0.0))
    logs = []
    for more in (1, 0):
        told: Any = _Told([])
        for depth, count in enumerate(falling):
            coin.draw(told, np.array([count]), np.array([more]), depth)
        excess = np.array(told.excess) / float(coin.scale * coin.grid)
        tail = -np.abs(excess) - math.log(2)
        logs.append(np.where(excess > 0, np.log1p(-np.exp(tail)), tail).sum())
    return float(logs[0] - logs[1]) + 0.5


class _Told:
    """Coins that note by how much a node exceeds its threshold."""

    def __init__(self, excess: list[float]) -> None:
        self.excess = excess

    def at(self, *path: Any) -> Any:  # noqa: ARG002
        return self

    def coin(self, excess: np.ndarray, scale: Any) -> np.ndarray:  # noqa: ARG002
        self.excess.extend(np.asarray(excess, float).tolist())
        return np.ones(len(excess), np.bool_)


def tree_on_noise() -> Points:
    """Algorithms 6 and 7: every node of a path at the threshold."""
    points: Points = []
    for depth in (5, 10, 15, 20, 25, 30):
        released = np.arange(depth) * 6.0 * math.log(2)
        points.append((depth, _slope(released, 6.0) + 0.25, _corrected(released)))
    return points


def tree_on_deletions() -> Points:
    """Legal data: N points are spread over siblings, deleted, and gathered in one place."""
    threshold, points = 200, []
    for depth in (6, 12, 18, 24):
        delta = 6.0 * math.log(2)
        number, level = math.floor(depth * delta), np.arange(depth)
        inside = np.clip(np.rint(number * (1 + 0.5**level) - level * delta), 0, number)
        inside = np.minimum.accumulate(inside)
        counts = number * 0.5**level + threshold + number - inside
        # ours never sees the deletions: the released counts, and the insertions
        kept = number * 0.5**level + threshold + number
        points.append((depth, _slope(counts, 6.0, threshold) + 0.25, _corrected(kept, threshold)))
    return points
