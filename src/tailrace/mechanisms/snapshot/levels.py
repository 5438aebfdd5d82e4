"""Levels: noise on depths of the halving tree, made consistent.

Privacy:
1. A unit of at most m records in a snapshot moves the counts of one level by at most m in the
   1-norm, and so in the 2-norm.
2. On a level of share s, Laplace noise of scale m / (epsilon s) loses epsilon s, and Gaussian noise
   of variance m^2 / (2 rho s) loses rho s, both on integers. Shares add up to one.
3. All else is post-processing.

Accuracy: `variances` gives the variance of every detail (`domain/halving.py`).
1. With y = A x + noise of level variances v_l, the least-squares estimate has the precision sum
   over levels A'A / v.
2. A'A of level l multiplies a detail of a node above it by n_l, the cells of its nodes, and kills
   the others. So a detail of depth d has the variance 1 / sum over l > d of n_l / v_l: exactly
   where the nodes of a level are of one size, and with n_l their mean size elsewhere.
3. Cells below the last level are taken to be even: that is bias, not noise.

Source: Hay et al. 2010 (consistency), Cormode et al. 2012 (budgets by level), as in section 7 of Li
et al. 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from tailrace.calls import told
from tailrace.domain.halving import Halving
from tailrace.noise import Draws, check_drawable, gaussian_variance, laplace_variance
from tailrace.privacy.budget import Drawn
from tailrace.privacy.loss import ZCDP, PureDP, whole

# 2^(1/3), the ratio of budgets of neighbouring levels: Cormode et al. 2012, for range queries.
_GROWTH = Fraction(126, 100)


class Static(Protocol):
    """How one snapshot is measured."""

    def levels(self, tree: Halving) -> dict[int, Fraction]:
        """The depths that are measured, with their shares."""
        ...


def scale(loss: Drawn, share: Fraction, records: int) -> Fraction:
    """The Laplace scale, or the Gaussian variance, of a level."""
    if isinstance(loss, PureDP):
        return records / (loss.epsilon * share)
    return records**2 / (2 * loss.rho * share)


def check(static: Static, tree: Halving, loss: Drawn, records: int) -> None:
    """Refuse a budget whose noise the sampler cannot draw."""
    for share in static.levels(tree).values():
        check_drawable(scale(loss, share, records), gaussian=not isinstance(loss, PureDP))


def proved(static: Static, tree: Halving, loss: Drawn, records: int) -> Drawn:
    """The loss of one release, from the noise drawn."""
    scales = [scale(loss, share, records) for share in static.levels(tree).values()]
    if isinstance(loss, PureDP):
        return PureDP(epsilon=sum(records / each for each in scales))
    return ZCDP(rho=sum(Fraction(records**2) / (2 * each) for each in scales))


def noise_variance(static: Static, tree: Halving, loss: Drawn, records: int) -> dict[int, float]:
    """The exact variance of the noise at each level."""
    exact = laplace_variance if isinstance(loss, PureDP) else gaussian_variance
    return {
        depth: exact(scale(loss, share, records)) for depth, share in static.levels(tree).items()
    }


def variances(static: Static, tree: Halving, loss: Drawn, records: int) -> np.ndarray:
    """Variances of the whole, then of each depth's details.

    (1 + depths,); they are 0 below the last level.
    """
    cells, found = len(tree.order), np.zeros(1 + tree.depth)
    levels = noise_variance(static, tree, loss, records)
    for place in range(1 + tree.depth):
        precision = sum(
            cells / len(tree.size[depth]) / each for depth, each in levels.items() if depth >= place
        )
        found[place] = 1 / precision if precision else 0.0
    return found


def measure(
    static: Static, tree: Halving, counts: np.ndarray, loss: Drawn, records: int, noise: Draws
) -> np.ndarray:
    """(cells,) the least-squares histogram of a snapshot's noisy levels."""
    levels = static.levels(tree)
    sums = [counts] if set(levels) == {tree.depth} else tree.sums(counts[tree.order])
    noisy = {}
    for depth, share in levels.items():
        size, at = scale(loss, share, records), noise.at("level", depth)
        here = sums[depth] if len(sums) > 1 else counts
        noisy[depth] = here + (
            at.laplace(size, len(here))
            if isinstance(loss, PureDP)
            else at.gaussian(size, len(here))
        )
    if len(sums) == 1:
        return noisy[tree.depth].astype(float)
    return consistent(tree, noisy, noise_variance(static, tree, loss, records))


def consistent(
    tree: Halving, noisy: dict[int, np.ndarray], variance: dict[int, float]
) -> np.ndarray:
    """The cells nearest to the noisy sums of some depths.

    The squared distance is weighed by variances; cells are even below the last depth.

    Upward, each node gets the best estimate from the nodes in it; downward, the difference between
    a node's total and the sum of its children is divided among these by their variances.
    """
    last = max(noisy)
    mean, spread = noisy[last].astype(float), np.full(len(noisy[last]), variance[last])
    means, spreads = [mean], [spread]
    for depth in range(last - 1, -1, -1):
        mean, spread = (np.add.reduceat(part, tree.first[depth]) for part in (mean, spread))
        if depth in noisy:
            gain = spread / (spread + variance[depth])
            mean, spread = mean + gain * (noisy[depth] - mean), spread * (1 - gain)
        means.append(mean)
        spreads.append(spread)
    total = means.pop()
    spreads.pop()
    for depth in range(last):
        mean, spread = means.pop(), spreads.pop()
        below, wide = (np.add.reduceat(part, tree.first[depth]) for part in (mean, spread))
        total = mean + spread * tree.below(depth, (total - below) / wide)
    for depth in range(last, tree.depth):
        total = tree.below(depth, total / tree.size[depth]) * tree.size[depth + 1]
    out = np.empty(len(tree.order))
    out[tree.order] = total
    return out


@told
@dataclass(frozen=True, kw_only=True)
class Quadtree:
    """Noise on a quadtree's levels, least on its leaves.

    Parameters
    height: how often all sides are halved; None: down to single bins. With less, a leaf's people
        are taken to be even over it: coarser, and with less noise.
    """

    height: int | None = None

    def __post_init__(self) -> None:
        if self.height is not None:
            whole("height", self.height)

    def levels(self, tree: Halving) -> dict[int, Fraction]:
        depths = tree.rounds if self.height is None else tree.rounds[: self.height + 1]
        weights = [_GROWTH**place for place in range(len(depths))]
        return {depth: weight / sum(weights) for depth, weight in zip(depths, weights, strict=True)}
