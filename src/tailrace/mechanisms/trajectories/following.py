"""Counts of journeys followed over epochs: functions of released numbers.

An epoch's noisy counts, divided by its number of journeys, are shares; noise of an epoch with more
journeys moves them less. Shares of epochs that look alike are averaged, each with a weight of one
over its variance. Where an epoch differs from those before it by more than noise and chance, the
variance of what they said grows by the square of the change, so that they count for less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tailrace.mechanisms.trajectories.counts import Grids
from tailrace.mechanisms.trajectories.setting import Setting
from tailrace.mechanisms.trajectories.view import Noisy

Key = tuple[str, int, int]
# The counts that say whether epochs look alike, on levels of at most so many cells.
# By reasoning: where journeys end, between where, and which way they take; coarse enough to be
# seen in epochs of a thousand journeys at epsilon 1.
_TELLING, _COARSE = ("visits", "ends", "pairs"), 300
# Deviations of the mean squared difference (of Laplace noise: kurtosis 6) that are no accident.
_SURE, _SPREAD = 4.0, 5.0
# What the watch counts at every step, and over how many steps it looks back. By reasoning: with
# less than a week of days, each weekend would be a change.
WATCHED, WEEKS = Grids(share=1, sides=(8,)), (7, 14, 28)
# The squared change, in parts of the squares, that ends an epoch. By reasoning: a smaller one is
# worth less than an epoch's noise.
_WORTH = 0.1


@dataclass(frozen=True)
class Track:
    """Shares of counts in the journeys, as epochs have told so far."""

    shares: np.ndarray  # (parts,) of the last epoch's setting, level after level
    variance: np.ndarray  # (levels,) of the noise of one share

    @classmethod
    def none(cls) -> Track:
        return cls(np.zeros(0), np.zeros(0))

    def noisy(self, setting: Setting, number: float) -> dict[str, Noisy]:
        """The counts of so many journeys like these."""
        found = {}
        levels = self._levels(setting)
        for count in setting.counts:
            mine = [next(levels)[1:] for _ in count.sizes]
            scales = tuple(math.sqrt(variance / 2) * number for _, variance in mine)
            found[count.name] = Noisy(count, tuple(number * one for one, _ in mine), scales)
        return found

    def journeys(self, setting: Setting) -> float:
        """How many journeys in one epoch would have told as much, on the coarsest grid."""
        count = setting.counts[0]
        atoms = count.noise(setting.budgets[count.name])[0]
        return math.sqrt(atoms.variance() / float(self.variance[0])) / count.whole

    def coarse(self, setting: Setting, cells: int) -> tuple[np.ndarray, float]:
        """The shares of ends in so many cells or fewer, and their variance."""
        ends = [one for one in self._levels(setting) if one[0][0] == "ends"]
        fine = [one for one in ends if one[0][1] >= cells]
        (_, size, _), shares, variance = fine[0] if fine else ends[-1]
        cells = min(cells, size)
        return shares.reshape(cells, -1).sum(axis=1), size // cells * variance

    def _levels(self, setting: Setting) -> Iterator[tuple[Key, np.ndarray, float]]:
        """The key, the shares and the variance of each level."""
        start = 0
        for key, variance in zip(_keys(setting), self.variance, strict=True):
            yield key, self.shares[start : start + key[1]], float(variance)
            start += key[1]

    def after(
        self,
        before: Setting,
        now: Setting,
        found: Mapping[str, Noisy],
        number: float,
        *,
        moved: bool = False,
    ) -> tuple[Track, bool]:
        """With an epoch of so many journeys; and whether it differs from those before.

        If the watch says that all has `moved`, what was known before is forgotten.
        """
        fresh = [level / number for count in now.counts for level in found[count.name].levels]
        noise = [
            2 * (scale / number) ** 2 for one in now.counts for scale in found[one.name].scales
        ]
        if moved or not len(self.variance):
            return Track(np.concatenate(fresh), np.array(noise)), moved
        old = {key: (shares, variance) for key, shares, variance in self._levels(before)}
        pairs = {
            key: (old[key], (shares, variance))
            for key, shares, variance in zip(_keys(now), fresh, noise, strict=True)
            if key in old
        }
        unrest = _unrest(pairs, 1 / number + 1 / self.journeys(before))
        merged = []
        for key, shares, variance in zip(_keys(now), fresh, noise, strict=True):
            earlier, spread = old.get(key, (shares, math.inf))
            # The mean square of the shares themselves, without their noise.
            size = max(float((shares**2).mean()) - variance, 0.0)
            gain = 1.0
            if math.isfinite(spread):
                spread = spread + unrest * size
                gain = spread / (spread + variance)
            merged.append((earlier + gain * (shares - earlier), gain * variance))
        shares, variance = zip(*merged, strict=True)
        return Track(np.concatenate(shares), np.array(variance)), unrest > 0


def moved(
    watched: np.ndarray,
    numbers: Sequence[float],
    variance: float,
    shares: np.ndarray,
    spread: float,
) -> bool:
    """Whether the last steps differ from the shares, by more than noise and chance.

    Parameters
    watched: (steps, cells) noisy counts of the steps of an epoch, each of so much variance.
    numbers: the journeys of the last WEEKS of them.
    shares: of cells as fine, or coarser, each with a variance of `spread`.
    """
    each = watched.shape[1] // len(shares)
    watched = watched.reshape(len(watched), len(shares), each).sum(axis=2)
    for steps, number in zip(WEEKS, numbers, strict=True):
        if steps > len(watched) or number <= 0:
            continue
        expected = number * np.maximum(shares, 0.0)
        noise = steps * each * variance + number**2 * spread + expected
        squares = (watched[-steps:].sum(axis=0) - number * shares) ** 2
        sure = 1 + _SURE * math.sqrt(_SPREAD / len(shares))
        excess = float((squares - noise).sum())
        if (squares / noise).mean() > sure and excess > _WORTH * float((expected**2).sum()):
            return True
    return False


def _keys(setting: Setting) -> Iterator[Key]:
    """What makes levels of two settings the same: name, size, weights."""
    for count in setting.counts:
        for size in count.sizes:
            yield count.name, size, getattr(count.part, "most", 1)


def _unrest(
    pairs: Mapping[Key, tuple[tuple[np.ndarray, float], tuple[np.ndarray, float]]], few: float
) -> float:
    """The squared change of shares, in parts of their squares; 0 where it may be chance."""
    found = 0.0
    for (name, size, _), ((earlier, spread), (shares, noise)) in pairs.items():
        if name not in _TELLING or size > _COARSE:
            continue
        # The variance of a share p among n journeys is p / n; `few` is the sum of both 1 / n.
        variance = spread + noise + few * np.maximum(earlier, 0.0)
        squares = (shares - earlier) ** 2
        sure = 1 + _SURE * math.sqrt(_SPREAD / size)
        if float((squares / variance).mean()) > sure:
            excess = max(float((squares - variance).sum()), 0.0)
            found = max(found, excess / max(float((earlier**2).sum()), 1e-12))
    return found
