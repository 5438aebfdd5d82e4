"""Posterior of many noisy counts under one prior, as a compiled loop."""

import numpy as np
from numba import njit


@njit(cache=True)
def posterior(found, expected, scale, values, weights, floor):
    """Of counts expected[i] * values[j] with probability weights[j], seen through Laplace noise of these scales.

    The mean of each, the value with the least expected error relative to max(count, floor), and the log-likelihood of all.
    """
    many, kinds = len(found), len(values)
    mean, nearest, total = np.empty(many), np.empty(many), 0.0
    chance = np.empty(kinds)
    for i in range(many):
        least = np.inf
        for j in range(kinds):
            chance[j] = abs(found[i] - expected[i] * values[j]) / scale[i]
            least = min(least, chance[j])
        sums, first, relative = 0.0, 0.0, 0.0
        for j in range(kinds):
            chance[j] = weights[j] * np.exp(least - chance[j])
            sums += chance[j]
            first += chance[j] * values[j]
            relative += chance[j] / max(expected[i] * values[j], floor)
        mean[i] = expected[i] * first / sums
        total += np.log(sums) - least
        half, nearest[i] = 0.0, 0.0
        for j in range(kinds):
            half += chance[j] / max(expected[i] * values[j], floor)
            if half >= relative / 2:
                nearest[i] = expected[i] * values[j]
                break
    return mean, nearest, total
