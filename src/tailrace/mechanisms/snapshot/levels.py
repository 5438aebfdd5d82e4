"""Noise on some levels of the halving tree, and the least-squares histogram that agrees with all of
them.

Privacy: a unit of at most m records in a snapshot moves the counts of one level by at most m in the
1-norm, and so in the 2-norm. Laplace noise of scale m / (epsilon s) on a level of share s is
epsilon s for that level, Gaussian noise of variance m^2 / (2 rho s) is rho s; shares add up to one.
The noise is on integers; all else is post-processing.
Accuracy: `variances` gives the variance of every detail (`halving.py`). With y = A x + noise of
level variances v_l, the least-squares estimate has the precision sum over levels A'A / v; A'A of
level l multiplies a detail of a node above it by the cells of its nodes, n_l, and kills the others.
So a detail of depth d has the variance 1 / sum over l > d of n_l / v_l: exactly where the nodes of
a level are of one size, and with n_l their mean size elsewhere. Cells below the last level are
taken to be even: that is bias, not noise.
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
from tailrace.privacy.loss import ZCDP, PureDP, whole

Drawn = PureDP | ZCDP  # Laplace noise, or Gaussian


class Static(Protocol):
    """A histogram of one snapshot: the depths of the tree that are measured, each with its share of
    the budget.
    """

    def levels(self, tree: Halving) -> dict[int, Fraction]: ...


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
    """The loss of one release, from the noise that is drawn."""
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
    """(1 + depths,) the variance of the whole's coefficient, then of the details of each depth; 0
    below the last level.
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
    """(cells,) estimates of a snapshot: the least-squares histogram of its noisy levels."""
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
    """The cells of least weighted squared distance to the noisy sums of some depths, even below the
    last of them.

    Upward, the best estimate of each node from what lies in it; downward, what a node's total says
    beyond the sum of its children is divided among them by their variances.
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


_GROWTH = Fraction(126, 100)  # 2^(1/3)


@told
@dataclass(frozen=True, kw_only=True)
class Quadtree:
    """Noise on the nodes of up to `height` halvings of all sides, the leaves' budget the largest.

    Without `height` the leaves are single bins. With less, a leaf's people are taken to be even
    over it: coarser, and with less noise.
    """

    height: int | None = None

    def __post_init__(self) -> None:
        if self.height is not None:
            whole("height", self.height)

    def levels(self, tree: Halving) -> dict[int, Fraction]:
        depths = tree.rounds if self.height is None else tree.rounds[: self.height + 1]
        weights = [_GROWTH**place for place in range(len(depths))]
        return {depth: weight / sum(weights) for depth, weight in zip(depths, weights, strict=True)}
