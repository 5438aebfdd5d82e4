"""Published mechanisms whose guarantee is not what was claimed. Plain functions for audits: no Stream accepts them."""

from __future__ import annotations

from fractions import Fraction
from math import log2

import numpy as np

from tailrace.noise import Draws


def published_binary_tree(inputs: np.ndarray, *, epsilon: Fraction, noise: Draws) -> np.ndarray:
    """PrivStream, Algorithm 10, as printed: noise of scale log2(T) / epsilon on every node (docs/explanation/corrections.md).

    Element 1 lies in bit_length(T) noisy nodes, one more than log2(T) at powers of two: the loss is 2, 1.5, 1.33
    times epsilon at T = 2, 4, 8, and there is no noise at all at T = 1.
    """
    horizon, copies = inputs.shape
    scale = Fraction(log2(horizon)) / epsilon
    alpha = np.zeros((horizon.bit_length(), copies), np.int64)
    noisy, outputs = alpha.copy(), np.empty_like(inputs)
    for t in range(1, horizon + 1):
        j = (t & -t).bit_length() - 1  # line 6: the lowest set bit
        alpha[j] = alpha[:j].sum(axis=0) + inputs[t - 1]
        noisy[j] = alpha[j] + (noise.at(t).laplace(scale, copies) if scale else 0)
        alpha[:j] = noisy[:j] = 0
        outputs[t - 1] = sum(noisy[i] for i in range(len(noisy)) if t >> i & 1)
    return outputs


class PasswordCounter:
    """(0, 2^-bits)-DP on every fixed stream, and no privacy at all when it is fed what it printed (docs/explanation/corrections.md).

    It prints a random password at step 1, and the first input at step 2 if it is then fed the password.
    """

    def __init__(self, bits: int, rng: np.random.Generator) -> None:
        self.password = int(rng.integers(1, 1 << bits))
        self._first = 0

    def step(self, t: int, x: int) -> int:
        if t == 1:
            self._first = x
            return self.password
        return self._first if x == self.password else 0
