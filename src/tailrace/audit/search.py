"""The search for an event that tells two worlds apart.

One half of the runs trains: columns of the releases are screened, a score is fitted to them by
logistic regression (its logarithm of odds is that of the likelihoods), and the threshold is chosen
that shows the largest loss. The other half tests that one event, so its bound needs no correction
for the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrace.audit.bounds import entropy_shown, epsilon_shown, limits, rho_shown

# Columns kept, quantiles tried as thresholds, limits of a score, and the weight that keeps
# coefficients small: chosen by reasoning (a few columns carry the loss of one unit) and tried on
# the planted faults of tests/audit/test_audit.py.
_COLUMNS, _QUANTILES, _SCORES, _RIDGE = 24, 60, (1.0, 1.5, 2.0, 3.0, 4.0), 1.0
Score = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Shown:
    """What runs show of a loss: its bound, estimate and event.

    kind: "epsilon" or "rho".
    at_least: the lower bound.
    estimate: the loss of the event as counted.
    often: how often it happened, and in the neighbouring world.
    """

    kind: str
    at_least: float
    estimate: float
    often: tuple[float, float]


def shown(world: np.ndarray, other: np.ndarray, *, kind: str, alpha: float) -> Shown:
    """The loss that runs of two worlds show, (runs, columns) each.

    Wrong (larger than the true loss) with a probability of at most alpha.
    """
    (train_a, test_a), (train_b, test_b) = ((one[::2], one[1::2]) for one in (world, other))
    score, threshold, turned = _event(train_a, train_b, kind)
    a, b = score(test_a), score(test_b)
    if turned:
        a, b, threshold = -b, -a, -threshold
    hits = [int((one >= threshold).sum()) for one in (a, b)]
    part = alpha / 2 if kind == "epsilon" else alpha / 4
    lower, upper = limits(hits[0], len(a), part)[0], limits(hits[1], len(b), part)[1]
    often = hits[0] / len(a), hits[1] / len(b)
    if kind == "epsilon":
        counted = math.log(often[0] / often[1]) if min(hits) else math.inf * (hits[0] > 0)
        return Shown(kind, epsilon_shown(lower, upper), counted, often)
    trained = score(train_a), score(train_b)
    trained = (-trained[1], -trained[0]) if turned else trained
    most = max(_SCORES, key=lambda most: entropy_shown(*trained, most, alpha / 2))
    at_least = max(rho_shown(lower, upper), entropy_shown(a, b, most, alpha / 2))
    kept = np.clip(a, -most, most), np.clip(b, -most, most)
    counted = float(kept[0].mean() - np.log(np.exp(kept[1]).mean()))
    return Shown(kind, at_least, max(counted, at_least), often)


def _event(one: np.ndarray, other: np.ndarray, kind: str) -> tuple[Score, float, bool]:
    """The score and threshold that show the most in training.

    `turned`: the event is a low score, likelier in the other world.
    """
    both, many = np.concatenate([one, other]), len(one)
    columns = _screened(one, other)
    linear = _fitted(lambda rows: rows[:, columns], both, many)
    between = _between(one[:, columns], other[:, columns])
    clipped = _fitted(lambda rows: np.clip(rows[:, columns], *between), both, many)
    best = (-math.inf, clipped, 0.0, False)
    for score in (clipped, linear):
        a, b = score(one), score(other)
        tried = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, _QUANTILES)))
        for threshold in tried:
            for turned in (False, True):
                ours, theirs, least = (-b, -a, -threshold) if turned else (a, b, threshold)
                often = float((ours >= least).mean()), float((theirs >= least).mean())
                value = _worth(*often, many, kind)
                best = max(best, (value, score, float(threshold), turned), key=lambda one: one[0])
    return best[1:]


def _worth(p: float, q: float, many: int, kind: str) -> float:
    """The bound to expect of an event, by five standard errors."""
    lower = p - 5 * math.sqrt(max(p * (1 - p), 1 / many) / many)
    upper = q + 5 * math.sqrt(max(q * (1 - q), 1 / many) / many)
    return epsilon_shown(lower, upper) if kind == "epsilon" else rho_shown(lower, upper)


def _screened(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The columns whose distributions differ most."""
    apart = np.zeros(one.shape[1])
    for column, (a, b) in enumerate(zip(one.T, other.T, strict=True)):
        places = np.unique(np.concatenate([a, b]))
        if len(places) > 1:
            below = [np.searchsorted(np.sort(each), places, side="right") for each in (a, b)]
            apart[column] = np.abs(below[0] / len(a) - below[1] / len(b)).max()
    return np.argsort(-apart, kind="stable")[:_COLUMNS]


def _between(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The medians of the two worlds, at least a little apart.

    The log-ratio of Laplace noise is flat beyond them and linear between.
    """
    low, high = np.sort([np.median(one, axis=0), np.median(other, axis=0)], axis=0)
    wide = np.maximum(high - low, 1e-3 * np.concatenate([one, other]).std(axis=0))
    return low, low + wide


def _fitted(features: Score, both: np.ndarray, many: int) -> Score:
    """Logistic regression by Newton's method: a score of rows."""
    raw = features(both)
    mean, spread = raw.mean(axis=0), np.maximum(raw.std(axis=0), 1e-12)

    def design(rows: np.ndarray) -> np.ndarray:
        return np.hstack([(features(rows) - mean) / spread, np.ones((len(rows), 1))])

    x, wanted = design(both), np.repeat([1.0, 0.0], [many, len(both) - many])
    weights = np.zeros(x.shape[1])
    for _ in range(25):
        chance = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        slope = x.T @ (wanted - chance) - _RIDGE * weights
        curve = (x * (chance * (1 - chance))[:, None]).T @ x + _RIDGE * np.eye(len(weights))
        move = np.linalg.solve(curve, slope)
        weights = weights + move
        if np.abs(move).max() < 1e-6:
            break
    return lambda rows: design(rows) @ weights
