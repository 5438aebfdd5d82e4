"""Estimates of windows of a panel that people join and leave.

A window is k symbols: one of q values, or A, absent, the last of Q = q + 1. Counts x lie in rows by
prefix (the first k-1 symbols), the last symbol changing fastest. The last row, of the prefix
A^(k-1), is *outside*: nobody knows how many people are there, and A^k is not counted.

One step has three kinds of measurements: in every inside row the differences of all pairs of
counts (variance v_d), in the outside row the q counts, births (v_r), and the q counts of values at
this step over all rows, the marginals (v_m).

1. Everybody of an inside row was counted a step ago, N_z of them: x_zc = (N_z + sum_j D_z^cj) / Q,
   whose noise has the covariance (v_d / Q) (I - 11'/Q). Births are as measured.
2. The marginals correct x by Kalman's gain. The covariance P of x does not change when the q values
   of any one position are permuted: neither noise nor step 1 tells values apart. So P has two parts
   that the marginals see, and they are apart:
   - contrasts of the values at this step: fresh noise, v_d / Q in each inside row, v_r outside;
   - the total of those present: the sums of x by pattern of presence, 2^k numbers with a covariance
     that is brought on from step to step.
   So the gain is exact without a matrix of all windows.
3. x is unbiased, and the variance of any weights @ x follows by taking the weights back through
   steps 2 and 1 to the first release.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Spread(NamedTuple):
    """Variances of one release's measurements."""

    differences: float
    births: float
    marginals: float


class Gain(NamedTuple):
    """What a release's marginals correct, per unit of their surprise."""

    inside: float  # a value's surprise, in each inside row
    births: float  # a value's surprise, outside
    total: np.ndarray  # (windows,) the surprise of all values together


@dataclass(frozen=True, eq=False)
class Presence:
    """The windows of a panel, and the noise of its releases.

    values: how many there are, without absence.
    window: the steps of a window.
    first: the variance of a count of the first release.
    later: the variances of each later release.
    """

    values: int
    window: int
    first: float
    later: tuple[Spread, ...]

    @property
    def symbols(self) -> int:
        return self.values + 1

    @functools.cached_property
    def patterns(self) -> np.ndarray:
        """(windows,) the pattern of presence, a bit a step; 1: absent."""
        bits, absent = np.zeros(1, np.int64), np.arange(self.symbols) == self.values
        for _ in range(self.window):
            bits = (2 * bits[:, None] + absent).ravel()
        return bits

    def predicted(self, before: np.ndarray, differences: np.ndarray, births: np.ndarray):
        """Step 1: counts (rows, symbols) by differences and births."""
        ending = before.reshape(self.symbols, -1).sum(axis=0)
        rows = np.zeros((len(ending), self.symbols))
        one, other = np.triu_indices(self.symbols, 1)
        rows[:-1] = ending[:-1, None]
        for place, (i, j) in enumerate(zip(one, other, strict=True)):
            rows[:-1, i] += differences[:, place]
            rows[:-1, j] -= differences[:, place]
        rows /= self.symbols
        rows[-1, :-1], rows[-1, -1] = births, 0.0
        return rows

    def corrected(self, rows: np.ndarray, marginals: np.ndarray, release: int) -> np.ndarray:
        """Step 2: counts (windows,) after the marginals of a release."""
        gain = self.gains[release - 1]
        surprise = marginals - rows[:, :-1].sum(axis=0)
        apart, rows = surprise - surprise.mean(), rows.copy()
        rows[:-1, :-1] += gain.inside * apart
        rows[-1, :-1] += gain.births * apart
        return rows.ravel() + gain.total * surprise.sum()

    @functools.cached_property
    def gains(self) -> tuple[Gain, ...]:
        """Kalman's gain of each later release."""
        q, many = self.values, 2**self.window
        # Windows of each pattern, and prefixes of each pattern of k-1 steps.
        sizes = q ** (self.window - np.bitwise_count(np.arange(many)).astype(np.int64))
        prefixes = sizes[many // 2 :].copy()
        sizes[-1] = prefixes[-1] = 0
        # People of an inside row go to values and absence as q : 1; all others are forgotten.
        step = np.zeros((many, many))
        for pattern in range(many):
            prefix = pattern % (many // 2)
            if prefixes[prefix]:
                step[2 * prefix, pattern], step[2 * prefix + 1, pattern] = q / (q + 1), 1 / (q + 1)
        present = (np.arange(many) % 2 == 0).astype(float)
        covariance, found = np.diag(self.first * sizes), []
        for spread in self.later:
            covariance = step @ covariance @ step.T
            for prefix, rows in enumerate(prefixes):
                pair = slice(2 * prefix, 2 * prefix + 2)
                part = spread.differences * q / (q + 1) ** 2 * rows
                covariance[pair, pair] += part * np.array([[1, -1], [-1, 1]])
            covariance[-2, -2] += q * spread.births
            seen = covariance @ present
            total = seen / (present @ seen + q * spread.marginals)
            covariance = covariance - np.outer(total, seen)
            inside = spread.differences / (q + 1)
            apart = prefixes.sum() * inside + spread.births + spread.marginals
            by_window = (total / np.maximum(sizes, 1))[self.patterns]
            found.append(Gain(inside / apart, spread.births / apart, by_window))
        return tuple(found)

    def variance(self, weights: np.ndarray, release: int) -> float:
        """Step 3: the exact variance of weights @ counts."""
        weights, variance = weights.copy(), 0.0
        weights[-1] = 0.0
        for at in range(release, 0, -1):
            spread, gain = self.later[at - 1], self.gains[at - 1]
            rows = weights.reshape(-1, self.symbols)
            apart = gain.inside * rows[:-1, :-1].sum(axis=0) + gain.births * rows[-1, :-1]
            pull = apart - apart.mean() + gain.total @ weights
            variance += spread.marginals * float(pull @ pull)
            rows = rows - np.append(pull, 0.0)
            rows[-1, -1] = 0.0
            variance += spread.births * float((rows[-1, :-1] ** 2).sum())
            inside = rows[:-1]
            squares = (inside**2).sum() - (inside.sum(axis=1) ** 2).sum() / self.symbols
            variance += spread.differences / self.symbols * float(squares)
            back = np.append(inside.mean(axis=1), 0.0)
            weights = np.tile(back, self.symbols)
            weights[-1] = 0.0
        return max(0.0, variance + self.first * float((weights**2).sum()))


@functools.lru_cache(maxsize=16)
def made(values: int, window: int, first: float, later: tuple[Spread, ...]) -> Presence:
    """A `Presence`, the same one for the same numbers: its gains are kept."""
    return Presence(values, window, first, later)
