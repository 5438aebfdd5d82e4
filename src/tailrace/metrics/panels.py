"""Windows and weights of a panel, and the papers' error bounds.

An error is a share of the true people: |p / n - C / n| for every window and release, or for every
"at least b of t", with padding taken off the synthetic counts first.
"""

from __future__ import annotations

import math

import numpy as np

from tailrace.errors import ConfigError, DataError


def window_counts(panel: np.ndarray, *, window: int, values: int = 2) -> np.ndarray:
    """(releases, windows): the people with each window of values.

    The panel holds codes (steps, people); the last value of a window changes fastest.

    >>> window_counts(np.array([[0, 1], [1, 1], [1, 0]]), window=2)
    array([[0, 1, 0, 1],
           [0, 0, 1, 1]])
    """
    codes = _panel(panel)
    if not 1 <= window <= len(codes):
        raise ConfigError("window must be from 1 to the number of steps.")
    powers = values ** np.arange(window)[::-1]
    ends = [powers @ codes[t - window : t] for t in range(window, len(codes) + 1)]
    return np.array([np.bincount(end, minlength=values**window) for end in ends])


def weight_counts(panel: np.ndarray) -> np.ndarray:
    """(steps, weights): the people with at least b ones.

    The panel holds zeros and ones (steps, people); b = 1, 2, ... counts the ones up to each step.

    >>> weight_counts(np.array([[0, 1], [1, 1]]))
    array([[1, 0],
           [2, 1]])
    """
    weights = np.cumsum(_panel(panel) == 1, axis=0)
    exactly = np.array([np.bincount(row, minlength=len(weights) + 1) for row in weights])
    return exactly[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]


def window_bound(
    *,
    people: int,
    horizon: int,
    window: int,
    rho: float,
    beta: float,
    values: int = 2,
    replaced: bool = False,
) -> float:
    """The bound on window errors of Bun et al.

    Theorem 3.2: with probability 1 - beta, no published window has a larger error, padding taken
    off. `replaced` is the relation Replace, for which the noise is sqrt(2) times as wide.

    >>> round(window_bound(people=23_374, horizon=12, window=3, rho=0.005, beta=0.05), 4)
    0.0053
    """
    releases = horizon - window + 1
    deviation = math.sqrt((2 if replaced else 1) * releases / rho) + math.sqrt(0.5)
    return deviation * math.sqrt(math.log(values**window * releases / beta)) / people


def cumulative_bound(*, people: int, horizon: int, rho: float, beta: float) -> float:
    """The bound on weight errors of Bun et al.

    Corollary B.1: with probability 1 - beta, no published weight has a larger error.

    >>> round(cumulative_bound(people=23_374, horizon=12, rho=0.005, beta=0.05), 4)
    0.0277
    """
    cubes = sum(max((horizon - b).bit_length(), 1) ** 3 for b in range(1, horizon + 1))
    return math.sqrt(cubes / rho * math.log(horizon / beta)) / people


def _panel(panel: np.ndarray) -> np.ndarray:
    codes = np.asarray(panel)
    if codes.ndim != 2 or codes.dtype.kind not in "iub":
        raise DataError("A panel is an array of codes, a row per step and a column per person.")
    return codes.astype(np.int64)
