"""Posteriors of many noisy counts, compiled.

A count is its expectation times a factor. The factor is 0, or lies in one of the bins between
`edges`, evenly within it; noise is Laplace's. Integrals over a bin are exact, so a large count with
little noise is found as it is.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def _seen(found, expected, scale, edges, mass, first):
    """Likelihoods and first moments of each bin, scaled alike.

    The first entry is the factor 0.
    """
    # The distance to the nearest possible count.
    far = max(max(found - expected * edges[-1], -found), 0.0) / scale
    nearest = min(abs(found) / scale, far) if found > 0 else far
    mass[0], first[0] = np.exp(nearest - abs(found) / scale), 0.0
    for j in range(1, len(edges)):
        low, high = expected * edges[j - 1], expected * edges[j]
        below, above = min(high, found), max(low, found)
        mass[j] = first[j] = 0.0
        if low < below:
            a = np.exp(nearest - (found - low) / scale)
            b = np.exp(nearest - (found - below) / scale)
            mass[j] += scale * (b - a)
            first[j] += scale * ((below - scale) * b - (low - scale) * a)
        if above < high:
            a = np.exp(nearest - (above - found) / scale)
            b = np.exp(nearest - (high - found) / scale)
            mass[j] += scale * (a - b)
            first[j] += scale * ((above + scale) * a - (high + scale) * b)
        mass[j] /= high - low
        first[j] /= high - low


@njit(cache=True)
def learned(found, expected, scale, edges, prior, belief, rounds):
    """(bins,) chances of factors that the counts tell of, by expectation maximisation.

    `prior` weighs as much as `belief` counts.
    """
    many, bins = len(found), len(edges)
    likely, first = np.empty((many, bins)), np.empty(bins)
    for i in range(many):
        _seen(found[i], expected[i], scale[i], edges, likely[i], first)
    chances, own = prior.copy(), np.empty(bins)
    for _ in range(rounds):
        told = belief * prior
        for i in range(many):
            sums = 0.0
            for j in range(bins):
                own[j] = chances[j] * likely[i, j]
                sums += own[j]
            if sums > 0:
                for j in range(bins):
                    told[j] += own[j] / sums
        chances = told / told.sum()
    return chances


@njit(cache=True)
def posterior(found, expected, scale, edges, prior, floor):
    """(counts, 4) posterior means, best relative estimates, and chances of 0.

    The last two are the chance of 0 by relative weight 1 / max(count, floor), and the mean weight.
    """
    results = np.zeros((len(found), 4))
    mass, first = np.empty(len(edges)), np.empty(len(edges))
    for i in range(len(found)):
        _seen(found[i], expected[i], scale[i], edges, mass, first)
        sums, moment, relative = 0.0, 0.0, 0.0
        for j in range(len(edges)):
            mass[j] *= prior[j]
            sums += mass[j]
            moment += prior[j] * first[j]
            mass[j] /= max(expected[i] * (edges[j] + edges[max(j - 1, 0)]) / 2, floor)
            relative += mass[j]
        results[i, 0] = max(moment / sums if sums > 0 else found[i], 0.0)
        if relative > 0:
            results[i, 2], results[i, 3] = mass[0] / relative, relative / sums
        half = 0.0
        for j in range(len(edges)):
            if half + mass[j] >= relative / 2 and mass[j] > 0:
                low, high = expected[i] * edges[max(j - 1, 0)], expected[i] * edges[j]
                inside = low + (high - low) * (relative / 2 - half) / mass[j] if j else 0.0
                results[i, 1] = min(max(inside, low), high)
                # In a bin much wider than the noise, the noisy count says where.
                if j and low < found[i] < high and high - low > 2 * scale[i]:
                    results[i, 1] = results[i, 0]
                break
            half += mass[j]
    return results
