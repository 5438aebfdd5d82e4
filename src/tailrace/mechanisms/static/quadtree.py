"""A tree that halves every side at once, with geometric budgets and consistency.

Privacy: as `levels.py`.
Accuracy: as `levels.py`; large ranges are sums of few nodes.
Source: Cormode et al. 2012 (PSD), whose budgets grow by 2^(1/3) a level towards the leaves in the plane.
Departs: least squares over all levels, weighed by their variances; a side that is a single cell is not halved further;
the same shares under zCDP.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tailrace.calls import told
from tailrace.loss import whole
from tailrace.mechanisms.halving import Halving

_GROWTH = Fraction(126, 100)  # 2^(1/3)


@told
@dataclass(frozen=True, kw_only=True)
class Quadtree:
    """Noise on the nodes of up to `height` halvings of all sides, the leaves' budget the largest.

    Without `height` the leaves are single bins. With less, a leaf's people are taken to be even over it: coarser, and
    with less noise.
    """

    height: int | None = None

    def __post_init__(self) -> None:
        if self.height is not None:
            whole("height", self.height)

    def levels(self, tree: Halving) -> dict[int, Fraction]:
        depths = tree.rounds if self.height is None else tree.rounds[: self.height + 1]
        weights = [_GROWTH**place for place in range(len(depths))]
        return {depth: weight / sum(weights) for depth, weight in zip(depths, weights, strict=True)}
