"""Published mechanisms that lose more privacy than they claim.

Plain functions for audits: no Stream accepts them. Findings: docs/explanation/corrections.md.
"""

from __future__ import annotations

from fractions import Fraction
from math import log, log2

import numpy as np

from tailrace.noise import Draws


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
