"""Combine a new release with the estimate before it: empirical Bayes on the details of the halving
tree.

Privacy: a function of released numbers.
Accuracy: write y = x + noise for the details of a release (orthonormal, so the noise of a detail of
depth d has the known variance v_d and details are uncorrelated) and p for those of the estimate
before it (at the first release: 0, an even split). E (y - p)^2 = v_d + E (x - p)^2, so the mean of
(y - p)^2 over a group of details, less v_d, estimates how wrong p is there: s^2. The combination p
+ s^2 / (s^2 + v_d) (y - p) has the least expected squared error of all that move by one factor, s^2
v_d / (s^2 + v_d): it is the Kalman filter with the drift learned from the releases. Details are
grouped by depth and, within a depth, by the size of their node: the 16 largest, the next 32, 64,
... Few details say little about s^2, so that of a group is drawn towards that of its depth, and
that of a depth towards that of the one below.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrace.domain.halving import Halving

_DEPTH, _GROUP = 8.0, 4.0  # how many details a prior counts for: that of a depth, that of a group
_LARGEST = 16  # nodes in the first group


def fold(
    tree: Halving, before: np.ndarray | None, fresh: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The cells of the combined estimate, and the expected squared error of each of its details, in
    the order of `details`.

    `noise` is the variance of the whole and of the details of each depth; 0 says that a depth was
    not measured.
    """
    found = tree.details(fresh)
    prior = [np.zeros(len(part)) for part in found] if before is None else tree.details(before)
    drift = _drifts(found, prior, noise)
    gain, error = (1.0, noise[0]) if before is None else _gain(drift[0], noise[0], 1 + _DEPTH)
    sums = (prior[0] + gain * (found[0] - prior[0])) * np.sqrt(len(tree.order))
    errors = [np.atleast_1d(error)]
    for depth in range(tree.depth):
        moved = found[depth + 1] - prior[depth + 1]
        gains = error = np.zeros(len(moved))
        if noise[depth + 1] and len(moved):
            gains, error = _gains(
                moved, sums[tree.whose(depth)], drift[depth + 1], noise[depth + 1]
            )
        sums = tree.descend(depth, sums, prior[depth + 1] + gains * moved)
        errors.append(error)
    cells = np.empty(len(tree.order))
    cells[tree.order] = sums
    return cells, np.concatenate(errors)


def _drifts(found: list[np.ndarray], prior: list[np.ndarray], noise: np.ndarray) -> list[float]:
    """How wrong the estimate before is, for the whole and at each depth: from the cells up."""
    drifts, below = [0.0] * len(found), 0.0
    for place in range(len(found) - 1, -1, -1):
        if noise[place] and len(found[place]):
            energy = float(((found[place] - prior[place]) ** 2).sum()) + _DEPTH * (
                below + noise[place]
            )
            below = max(0.0, energy / (len(found[place]) + _DEPTH) - noise[place])
        drifts[place] = below
    return drifts


def _gains(
    moved: np.ndarray, size: np.ndarray, drift: float, noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """The factor and the expected squared error of each detail, by groups of nodes from the largest
    on.
    """
    order = np.argsort(-size, kind="stable")
    starts, many = [0], _LARGEST
    while starts[-1] + 2 * many < len(order):
        starts.append(starts[-1] + many)
        many *= 2
    counts = np.diff(starts, append=len(order))
    energy = np.add.reduceat(moved[order] ** 2, starts) + _GROUP * (drift + noise)
    by_group = _gain(np.maximum(0.0, energy / (counts + _GROUP) - noise), noise, counts + _GROUP)
    gains, errors = np.empty(len(order)), np.empty(len(order))
    gains[order], errors[order] = (np.repeat(part, counts) for part in by_group)
    return gains, errors


def _gain(drift: Any, noise: float, many: Any) -> tuple[Any, Any]:
    """The factor for a drift learned from so many details, and the expected squared error it
    leaves.

    Where a drift seems to be nothing it may still be something: the error is stated for one larger
    by a standard error.
    """
    gain = drift / (drift + noise)
    larger = drift + (drift + noise) * np.sqrt(2 / many)
    return gain, (1 - gain) ** 2 * larger + gain**2 * noise
