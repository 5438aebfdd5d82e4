"""Tracking: scheduled releases, each combined with all before it.

Privacy:
1. Releases are units of an even part of the budget at steps of a public schedule, at most `units`
   of them in any `steps` consecutive steps; nothing is looked at to decide.
2. The combination (`fold`) is a function of released numbers.

Accuracy: empirical Bayes on the details of the halving tree; the Kalman filter with the drift
learned from the releases.
1. Write y = x + noise for the details of a release: they are orthonormal, so details are
   uncorrelated and those of depth d have the known noise variance v_d. Write p for the details of
   the estimate before it (at the first release 0: an even split).
2. E (y - p)^2 = v_d + E (x - p)^2. So the mean of (y - p)^2 over a group of details, less v_d,
   estimates the drift s^2, the mean squared error of p there.
3. Among all p + g (y - p) the gain g = s^2 / (s^2 + v_d) has the least expected squared error,
   s^2 v_d / (s^2 + v_d): noise is averaged out where the data stand still, large changes are
   followed.
4. Details are grouped by depth and, within a depth, by the size of their node: the 16 largest, the
   next 32, 64, ... A few details say little about s^2, so a group's is shrunk towards that of its
   depth, and a depth's towards that of the depth below.
5. The first release gets `first` of the budget where nothing slides: under pure DP the information
   in a release grows with the square of its budget, and later ones are measured against the first.

Source: none of the papers; Kalman 1960 and James-Stein 1961 for the idea. benchmarks/snapshots.py
measures it beside DSAT.
Departs: from DSAT, in that nothing is spent on decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.domain.halving import Halving
from tailrace.mechanisms.snapshot.policy import (
    Combined,
    Scheduled,
    Series,
    Split,
    Variances,
    bounded,
    checked_releases,
    cutoff,
    due,
)
from tailrace.privacy.budget import part
from tailrace.privacy.loss import Number, PureDP, exact

# Chosen with `first` on the census-like table and the taxis of benchmarks/snapshots.py
# (docs/how-to/publish-snapshots.md); no committed result.
# Details that a prior counts for: that of a depth, that of a group.
_DEPTH, _GROUP = 8.0, 4.0
# Nodes in the first group.
_LARGEST = 16


@told
@dataclass(frozen=True, kw_only=True)
class Tracking(Scheduled):
    """Release at evenly spaced steps, and combine by variances.

    Parameters
    releases: in the series, or in any window; None: a hundredth of the steps, at least 5, and three
        times as many under zCDP, where noise grows with their root only.
    first: the share of the budget that the first release gets.
    """

    releases: int | None = None
    first: Number = "2/5"

    def __post_init__(self) -> None:
        checked_releases(self.releases)
        object.__setattr__(self, "first", exact("first", self.first, below=1))

    @property
    def tracks(self) -> bool:
        return True

    def split(self, series: Series) -> Split:
        releases = self._releases(series)
        # Refuses a series without an end.
        due(series, 1, releases, "Tracking")
        units = releases if series.sliding else releases - 1 + self._opening(series)
        return Split(part(series.privacy, Fraction(1, units)), units)

    def units(self, series: Series, step: int) -> int:
        if not due(series, step, self._releases(series), "Tracking"):
            return 0
        return self._opening(series) if step == 1 and not series.sliding else 1

    def combined(
        self, series: Series, known: Combined, found: np.ndarray, variances: Variances
    ) -> Combined:
        before = None if int(known.pace.last) == 1 else known.estimates
        estimates, spread = fold(series.tree, before, found, variances(int(known.pace.paid)))
        return Combined(known.pace, estimates, spread.astype(np.float32))

    def _releases(self, series: Series) -> int:
        usual = cutoff(series, self.releases, "Tracking")
        if self.releases is not None or isinstance(series.privacy, PureDP):
            return usual
        return min(3 * usual, bounded(series, "Tracking"))

    def _opening(self, series: Series) -> int:
        """The units of the first release: about `first` of all."""
        assert isinstance(self.first, Fraction)
        others = self._releases(series) - 1
        return max(1, round(others * self.first / (1 - self.first)))


def fold(
    tree: Halving, before: np.ndarray | None, fresh: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Combine a fresh release with the estimate before.

    Parameters
    before: the cells of the estimate, None at the first release.
    fresh: the cells of the release.
    noise: the variance of the whole, and of the details of each depth; 0: not measured.

    Returns the cells of the combination, and the expected squared error of each of its details.
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
    """The drift of the whole and of each depth."""
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
    """The gain and expected squared error of each detail."""
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


def _gain(drift: Any, noise: float, details: Any) -> tuple[Any, Any]:
    """The gain for a drift, and the error it leaves.

    The error is the expected squared one. The drift was learned from some `details`: one that seems
    to be nothing may still be something, so the error is stated for a drift larger by a standard
    error.
    """
    gain = drift / (drift + noise)
    larger = drift + (drift + noise) * np.sqrt(2 / details)
    return gain, (1 - gain) ** 2 * larger + gain**2 * noise
