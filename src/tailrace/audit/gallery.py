"""Published mechanisms that lose more privacy than they claim.

Plain functions for audits: no Stream accepts them. Findings: docs/explanation/corrections.md.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf, log, log2
from typing import TypeVar

import numpy as np

from tailrace.noise import Draws

Sequences = Sequence[Sequence[int]]  # of cells, a trajectory each
T = TypeVar("T")
# Threshold noise beyond so many scales is left out: its probability is below e^-199.
_FAR = 200.0


# Counters, trees and panels.


def published_binary_tree(inputs: np.ndarray, *, epsilon: Fraction, noise: Draws) -> np.ndarray:
    """PrivStream, Algorithm 10, as printed.

    Every node has noise of scale log2(T) / epsilon. Element 1 lies in bit_length(T) noisy nodes,
    one more than log2(T) at powers of two: the loss is 2, 1.5, 1.33 times epsilon at T = 2, 4, 8,
    and there is no noise at all at T = 1.
    """
    horizon, copies = inputs.shape
    scale = Fraction(log2(horizon)) / epsilon
    alpha = np.zeros((horizon.bit_length(), copies), np.int64)
    noisy, outputs = alpha.copy(), np.empty_like(inputs)
    for t in range(1, horizon + 1):
        # line 6: the lowest set bit
        j = (t & -t).bit_length() - 1
        alpha[j] = alpha[:j].sum(axis=0) + inputs[t - 1]
        noisy[j] = alpha[j] + (noise.at(t).laplace(scale, copies) if scale else 0)
        alpha[:j] = noisy[:j] = 0
        outputs[t - 1] = sum(noisy[i] for i in range(len(noisy)) if t >> i & 1)
    return outputs


class PasswordCounter:
    """(0, 2^-bits)-DP on fixed streams, not private on adaptive ones.

    It prints a random password at step 1, and the first input at step 2 if it is then fed the
    password.
    """

    def __init__(self, bits: int, rng: np.random.Generator) -> None:
        self.password = int(rng.integers(1, 1 << bits))
        self._first = 0

    def step(self, t: int, x: int) -> int:
        if t == 1:
            self._first = x
            return self.password
        return self._first if x == self.password else 0


def published_privtree(
    counts: np.ndarray, *, scale: float, threshold: float = 0.0, fan_out: int = 2
) -> np.ndarray:
    """Log-probabilities of splits in PrivStream's tree, as printed.

    `counts` are those of a path from the root: the noisy counts released before, plus the batch's
    net change. A child can exceed its parent then, every node of the path can stand at the
    threshold, and one insertion moves each of them by 1 / scale. Algorithms 1 and 5 say scale = 12
    / epsilon for fan-out 2, Algorithms 6 and 7 say 6 / epsilon.
    """
    penalty = scale * log(fan_out)
    biased = np.maximum(counts - penalty * np.arange(len(counts)), threshold - penalty) - threshold
    tail = -np.abs(biased) / scale - log(2)
    return np.where(biased > 0, np.log1p(-np.exp(tail)), tail)


def published_panel_counts(
    histories: np.ndarray, *, window: int, rho: Fraction, noise: Draws
) -> np.ndarray:
    """Bun et al., Algorithm 1, as printed: noisy window counts.

    The noise of variance (T-k+1)/(2 rho) is that of one count that moves by 1. A person who is
    replaced moves two: the loss is 2 rho.
    """
    horizon = histories.shape[1]
    powers = 1 << np.arange(window)[::-1]
    codes = [histories[:, t - window : t] @ powers for t in range(window, horizon + 1)]
    counts = np.array([np.bincount(code, minlength=1 << window) for code in codes])
    return counts + noise.at("counts").gaussian(Fraction(len(counts), 1) / (2 * rho), counts.shape)


def published_panel_people(
    histories: np.ndarray, *, window: int, rho: Fraction, noise: Draws
) -> np.ndarray:
    """Bun et al., Algorithm 1, as printed: last synthetic column.

    Without hats, I_z are the real people who end in z, and row i gets a value that depends on the
    history of person i. Further rows: how many people of each prefix get a 1.
    """
    noisy = published_panel_counts(histories, window=window, rho=rho, noise=noise)
    powers = 1 << np.arange(window - 1)[::-1]
    prefixes = histories[:, -window:-1] @ powers
    before = noisy[-2].reshape(2, -1).sum(axis=0)
    ones = np.maximum((before + noisy[-1, 1::2] - noisy[-1, ::2]) // 2, 0)
    values = np.zeros(len(histories), np.int64)
    for z, many in enumerate(ones):
        values[np.flatnonzero(prefixes == z)[:many]] = 1
    return np.concatenate([values, ones])


def published_panel_sums(histories: np.ndarray, *, rho: Fraction, noise: Draws) -> np.ndarray:
    """Bun et al., Algorithms 2 and 3, as printed.

    S_b^t for b = 0..t with the split of Corollary B.1, before they are made monotone; b = 0 has no
    counter and is n itself.

    A node's noise has variance max(ceil(log2 T'), 1)/(2 rho_b), T' = T-b+1, where a person lies in
    bit_length(T') nodes: 1.037 rho at T = 12. A person who is replaced moves from some nodes to
    others: up to 2.073 rho. A person who leaves is missing from n.
    """
    people, horizon = histories.shape
    weights = np.cumsum(histories, axis=1)
    levels = [max((horizon - b).bit_length(), 1) for b in range(1, horizon + 1)]
    sums = np.zeros((horizon, horizon + 1), np.int64)
    sums[:, 0] = people
    for b, level in enumerate(levels, 1):
        spread = level / (2 * rho * Fraction(level**3, sum(other**3 for other in levels)))
        alpha = np.zeros(horizon.bit_length(), np.int64)
        noisy = alpha.copy()
        for t in range(1, horizon - b + 2):
            now = t + b - 2
            j = (t & -t).bit_length() - 1
            alpha[j] = alpha[:j].sum() + ((weights[:, now] == b) & (histories[:, now] == 1)).sum()
            noisy[j] = alpha[j] + noise.at(b, t).gaussian(spread, 1)[0]
            alpha[:j] = noisy[:j] = 0
            sums[now, b] = sum(noisy[i] for i in range(len(noisy)) if t >> i & 1)
    return sums


# Snapshots: DSFT and DSAT.


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


# Tables: streaming MWEM and Kumar's tabular stream.


def published_exponential_mechanism(
    utilities: np.ndarray, *, epsilon: float, sensitivity: float
) -> np.ndarray:
    """Definition 3.8, as printed: log-probabilities of the choice.

    exp(-epsilon u / (2 Delta)), for a utility that should be large: private, but it picks the
    worst.
    """
    return _normalised(-epsilon * utilities / (2 * sensitivity))


def published_mwem_selection(errors: np.ndarray, *, epsilon: float, rounds: int) -> np.ndarray:
    """Algorithm 2, line 10, as printed: log-probabilities of the choice.

    exp(epsilon / (2 k) e), for errors e of sensitivity 1: epsilon / k for each of k selections,
    twice the amount that the measurements leave; 1.5 epsilon in all.
    """
    return _normalised(epsilon / (2 * rounds) * errors)


def published_workload_selection(
    residuals: Sequence[np.ndarray], *, epsilon: float, rounds: int
) -> np.ndarray:
    """Algorithm 3, section 7.2, as printed: log-probabilities of workloads.

    The score is the mean error less the number of cells, and its sensitivity is taken to be 1/4. It
    is 1 / |q|: 1/2 for a pair with one attribute of a single value, 1 for two. And the number of
    cells is subtracted from a mean: a 2 x 2 workload that fits perfectly (score -4) beats a 50 x 41
    one with an error of 100,000 (score -2,001).
    """
    scores = np.array(
        [np.abs(residual).sum() / residual.size - residual.size for residual in residuals]
    )
    return _normalised(epsilon / (2 * rounds) / (2 * 0.25) * scores)


def published_mwem_step(
    model: np.ndarray, cell: int, measured: float, batch: np.ndarray
) -> np.ndarray:
    """Algorithm 2, line 17, as printed: model after a measurement.

    It is scaled to the batch's true number of rows: the total is released exactly, and an empty
    batch divides by zero.
    """
    rows = batch.sum()
    weights = model.astype(float)
    weights[cell] *= np.exp((measured - weights[cell]) / (2 * rows))
    return rows * weights / weights.sum()


def _normalised(exponents: np.ndarray) -> np.ndarray:
    """Log-probabilities proportional to the exponents' exponentials."""
    top = exponents.max()
    return exponents - top - np.log(np.exp(exponents - top).sum())


# Trajectories.


def transition_counts(trajectories: Sequences, cells: int) -> np.ndarray:
    """Weighted transitions, 1 / t each: Algorithm 17, lines 3-7."""
    counts = np.zeros((cells, cells))
    for trajectory in trajectories:
        for one, other in itertools.pairwise(trajectory):
            counts[one, other] += 1 / (len(trajectory) - 1)
    return counts


def published_transitions(
    trajectories: Sequences, *, edges: np.ndarray, epsilon: Fraction, noise: Draws, grid: int = 1000
) -> np.ndarray:
    """Kumar's dissertation, Algorithm 17, as printed: shares of transitions.

    Line 10 sets c^ to the noise and forgets the counts; line 12 sets it to max(c, 0) and forgets
    the noise: exact shares are released.
    """
    counts = transition_counts(trajectories, len(edges))
    noisy = noise.laplace(grid / epsilon, counts.shape) / grid * edges  # line 10
    noisy = np.maximum(counts, 0) * edges  # line 12
    return _shares(noisy, edges)


def published_lengths(trajectories: Sequences, *, edges: np.ndarray, first: int, last: int) -> int:
    """Algorithm 20, lines 4-7, as printed: cells on a path.

    With the w of Algorithm 21, line 8, the most probable path is that of the true shares, not of
    the noisy ones.
    """
    shares = _shares(transition_counts(trajectories, len(edges)), edges)
    best, queue = {first: 0.0}, [(0.0, 1, first)]
    while queue:
        cost, length, cell = heapq.heappop(queue)
        if cell == last:
            return length
        for other in np.flatnonzero(shares[cell] > 0):
            further = cost - log(shares[cell, other])
            if further < best.get(int(other), inf):
                best[int(other)] = further
                heapq.heappush(queue, (further, length + 1, int(other)))
    return 0


def noise_on_observed_edges(
    trajectories: Sequences, *, epsilon: Fraction, noise: Draws, grid: int = 1000
) -> dict[tuple[int, int], float]:
    """Algorithm 17 with noise on observed transitions only.

    The text says "for all e in E", and Algorithms 18 and 19 the same of pairs. A dictionary of
    observed keys tells which transitions occurred: an infinite loss.
    """
    counts = transition_counts(
        trajectories, 1 + max((cell for one in trajectories for cell in one), default=0)
    )
    keys = [(int(one), int(other)) for one, other in zip(*np.nonzero(counts), strict=True)]
    drawn = noise.laplace(grid / epsilon, len(keys)) / grid
    return {key: counts[key] + extra for key, extra in zip(keys, drawn, strict=True)}


def published_discretisation(draw: Callable[[Draws], T], noise: Draws) -> tuple[T, T]:
    """The two trees that Algorithm 21 draws, as printed.

    Lines 4 and 10 each draw one within epsilon_1. The claimed sum counts epsilon_1 once: with
    shares .3, .4, .3 the loss is 1.3 epsilon.
    """
    return draw(noise.at("line 4")), draw(noise.at("line 10"))


def _shares(counts: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Rows divided by their sums; even where these are 0."""
    sums = counts.sum(axis=1, keepdims=True)
    return np.where(
        sums > 0, counts / np.where(sums > 0, sums, 1), edges / edges.sum(axis=1, keepdims=True)
    )
