"""Exact lower bounds on a loss, from counts of runs.

1. Clopper-Pearson limits hold for a hit's probability whatever it is: P(limit fails) <= alpha.
2. Epsilon: an event of probability P in one world and Q in the other shows epsilon >= ln(P / Q),
   so the lower limit of P and the upper one of Q give a lower bound.
3. Rho by the (epsilon, delta) curve: the event shows delta >= P - e^epsilon Q at every epsilon,
   and rho-zCDP allows at most the curve of `privacy/loss.py`. Solved for rho, for every order.
4. Rho by relative entropy: rho-zCDP bounds it by rho (the limit of order 1), and for every bounded
   score s it is at least E_P[s] - ln E_Q[e^s] (Donsker and Varadhan). Empirical Bernstein limits
   (Maurer and Pontil 2009, Theorem 4) bound both means.
"""

from __future__ import annotations

import functools
import math

import numpy as np

_ORDERS = 1 + np.geomspace(0.01, 200, 120)[:, None]
_EPSILONS = np.linspace(0, 20, 400)[None]


def limits(hits: int, trials: int, alpha: float) -> tuple[float, float]:
    """Clopper-Pearson: each limit fails with probability alpha.

    >>> lower, upper = limits(0, 100, 0.05)
    >>> lower, round(upper, 4)  # 1 - 0.05^(1/100)
    (0.0, 0.0295)
    """
    upper = 1.0 if hits == trials else _solved(hits, trials, alpha)
    lower = 0.0 if hits == 0 else 1 - _solved(trials - hits, trials, alpha)
    return lower, upper


def _solved(hits: int, trials: int, alpha: float) -> float:
    """The chance at which so few hits have probability alpha."""
    low, high = hits / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _log_at_most(hits, trials, middle) > math.log(alpha):
            low = middle
        else:
            high = middle
    return high


def _log_at_most(hits: int, trials: int, chance: float) -> float:
    """ln P(at most so many hits), for a chance of at least hits / trials.

    Terms fall from `hits` down; beyond forty standard deviations they are below e^-800.
    """
    if chance >= 1:
        return -math.inf
    factorials = _log_factorials(trials)
    wide = 1000 + int(40 * math.sqrt(trials * chance * (1 - chance)))
    some = np.arange(max(0, hits - wide), hits + 1)
    logs = factorials[trials] - factorials[some] - factorials[trials - some]
    logs = logs + some * math.log(chance) + (trials - some) * math.log1p(-chance)
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum()))


@functools.lru_cache(maxsize=4)
def _log_factorials(most: int) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])


def epsilon_shown(lower: float, upper: float) -> float:
    """The epsilon that a pair of limits shows."""
    return math.log(lower / upper) if lower > 0 else -math.inf


def rho_shown(lower: float, upper: float) -> float:
    """The rho that a pair of limits shows, by its curve."""
    deltas = lower - np.exp(_EPSILONS) * upper
    seen = deltas > 0
    if not seen.any():
        return 0.0
    epsilons, deltas, order = _EPSILONS[seen], deltas[seen], _ORDERS
    gained = (np.log(deltas) + np.log(order)) / (order - 1)
    return max(0.0, float(((epsilons - np.log((order - 1) / order) + gained) / order).max()))


def entropy_shown(ours: np.ndarray, theirs: np.ndarray, most: float, alpha: float) -> float:
    """The relative entropy that scores show, kept within +-most."""
    ours, theirs = np.clip(ours, -most, most), np.clip(theirs, -most, most)
    mean = _mean_at_least(ours, 2 * most, alpha / 2)
    # the mean of e^s is at most the negative of what that of -e^s is at least
    grown = -_mean_at_least(-np.exp(theirs), math.exp(most), alpha / 2)
    return mean - math.log(grown)


def _mean_at_least(values: np.ndarray, spread: float, alpha: float) -> float:
    """An empirical Bernstein limit; `spread` is the values' range."""
    many, log = len(values), math.log(2 / alpha)
    slack = math.sqrt(2 * values.var(ddof=1) * log / many) + 7 * spread * log / (3 * (many - 1))
    return float(values.mean()) - slack
