"""DSFT and DSAT as published: they lose more than claimed.

Plain functions for audits: no Stream accepts them. Findings: docs/explanation/corrections.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Threshold noise beyond so many scales is left out: its probability is below e^-199.
_FAR = 200.0


def answers_log_probability(
    distances: np.ndarray,
    answers: np.ndarray,
    *,
    threshold: float,
    threshold_scale: float,
    distance_scale: float,
) -> float:
    """The log-probability of comparisons with one noisy threshold.

    Noise is integer; the threshold's noise is summed over. `answers[i]` says whether
    distances[i] + noise >= threshold + the threshold's noise.
    """
    far = int(_FAR * max(threshold_scale, distance_scale))
    hidden = np.arange(-far, far + 1)
    total = -np.abs(hidden) / threshold_scale + np.log(np.tanh(0.5 / threshold_scale))
    values, many = np.unique(
        np.stack([distances, answers.astype(np.int64)]), axis=1, return_counts=True
    )
    for (distance, answer), times in zip(values.T.tolist(), many.tolist(), strict=True):
        # the least noise for a positive answer
        need = np.ceil(threshold) + hidden - distance
        total = total + times * _log_tail(need if answer else 1 - need, distance_scale)
    top = total.max()
    return float(top + np.log(np.exp(total - top).sum()))


def _log_tail(least: np.ndarray, scale: float) -> np.ndarray:
    """The log-probability that integer Laplace noise reaches `least`.

    The noise is symmetric, so P(noise < n) = P(noise >= 1 - n).
    """
    q = np.exp(-1 / scale)
    # of the less likely side
    tail = -np.abs(np.where(least > 0, least, 1 - least)) / scale - np.log1p(q)
    return np.where(least > 0, tail, np.log1p(-np.exp(tail)))


def published_clamped_threshold(start: float, moves: Sequence[float]) -> list[float]:
    """DSAT, Algorithm 2, lines 7 and 8, as printed.

    The *noisy* threshold is moved and clamped to 0 and 2. At a bound it no longer depends on its
    noise: it is public, and each negative comparison costs a full query.
    """
    thresholds = []
    for move in moves:
        start = min(2.0, max(0.0, start + move))
        thresholds.append(start)
    return thresholds


def published_distance_scale(people: int, *, releases: int, epsilon: float) -> float:
    """Lemma 4.1, as printed: a scale by the private n.

    2 C Delta / epsilon with Delta = 2 / (n - 1), n the number of people.
    """
    return 2 * releases * 2 / (people - 1) / epsilon


def published_window(
    snapshots: np.ndarray,
    *,
    window: int,
    releases: int,
    epsilon: float,
    far: np.ndarray,
    noise: np.ndarray,
) -> np.ndarray:
    """DSAT with a window, Algorithm 3, as printed.

    A ledger of floats; and where a release stands, lines 5 and 13 say `D_j`, the true snapshot of
    the last release's step. `far[i]`: whether the comparison of step i is positive. `noise`: of
    each release.
    """
    spent, shown, last = np.zeros(len(snapshots)), [], 0
    for i, snapshot in enumerate(snapshots):
        left = epsilon - spent[max(0, i - window + 1) : i].sum() if i else epsilon
        if left > 0 and far[i]:
            spent[i], last = epsilon / releases, i
            shown.append(snapshot + noise[i])
        else:
            shown.append(snapshots[last].astype(float))
    return np.array(shown)


def float_ledger_releases(releases: int, epsilon: float) -> int:
    """Releases of epsilon / C that a float ledger allows."""
    left, made = epsilon, 0
    while left > 0:
        left, made = left - epsilon / releases, made + 1
    return made
