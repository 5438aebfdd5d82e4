"""Every sampler has the distribution it claims: accepted at the right parameter, rejected 10 % off.

A chi-square test over bins of about equal probability. Seeds are fixed, so a result never flickers,
and the threshold of 1e-6 bounds the chance that the seed we fixed was unlucky. The numbers of draws
give the tests power: the same statistic must fall below 1e-6 when the parameter is wrong.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tailrace import Noise

DRAWS = 100_000
ALARM = 1e-6


def chi_square(draws, edges, cdf):
    """p-value of integer draws against a distribution function, in bins (edge_i, edge_{i+1}]."""
    observed = np.histogram(draws, np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]
    expected = np.diff(np.concatenate([[0.0], cdf(edges), [1.0]])) * len(draws)
    full = expected > 5
    if (~full).any():  # thin bins together
        observed, expected = (
            np.append(observed[full], observed[~full].sum()),
            np.append(expected[full], expected[~full].sum()),
        )
    return stats.chi2.sf(
        ((observed - expected) ** 2 / np.maximum(expected, 1e-12)).sum(), max(1, len(observed) - 1)
    )


def laplace_cdf(scale):
    q = math.exp(-1 / scale)
    return lambda y: np.where(
        y >= 0, 1 - q ** (np.abs(y) + 1.0) / (1 + q), q ** np.abs(y).astype(float) / (1 + q)
    )


def gaussian_cdf(sigma):
    if sigma > 30:
        return lambda y: stats.norm.cdf((y + 0.5) / sigma)
    support = np.arange(-math.ceil(40 * sigma) - 2, math.ceil(40 * sigma) + 3)
    mass = np.exp(-(support**2) / (2 * sigma**2))
    cumulative = np.cumsum(mass) / mass.sum()
    return lambda y: cumulative[np.clip(np.searchsorted(support, y), 0, len(support) - 1)]


def edges(quantile):
    return np.unique(np.floor(quantile(np.arange(1, 32) / 32)).astype(np.int64))


SCALES = [Fraction(1, 2), 1, Fraction(7, 3), 20, 127, 128, 1000, 1025, 10**6, 10**9]


@pytest.mark.parametrize("scale", SCALES)
def test_laplace(scale):
    draws = Noise.insecure(1).at("laplace", str(scale)).laplace(scale, DRAWS)
    bins = edges(lambda p: stats.laplace.ppf(p, scale=float(scale)))
    assert chi_square(draws, bins, laplace_cdf(float(scale))) > ALARM
    for wrong in (0.9, 1.1):
        assert chi_square(draws, bins, laplace_cdf(wrong * float(scale))) < ALARM


@pytest.mark.parametrize("sigma", SCALES)
def test_gaussian(sigma):
    draws = Noise.insecure(1).at("gaussian", str(sigma)).gaussian(Fraction(sigma) ** 2, DRAWS)
    bins = edges(lambda p: stats.norm.ppf(p, scale=float(sigma)))
    assert chi_square(draws, bins, gaussian_cdf(float(sigma))) > ALARM
    for wrong in (0.9, 1.1):
        assert chi_square(draws, bins, gaussian_cdf(wrong * float(sigma))) < ALARM


@pytest.mark.parametrize("sampler", ["laplace", "gaussian"])
def test_low_digits_are_uniform_where_they_should_be(sampler):
    """At wide scales the last byte of a draw is uniform: digits and cells join without a seam."""
    parameter = 10**6 if sampler == "laplace" else 10**12
    draws = getattr(Noise.insecure(2).at(sampler), sampler)(parameter, 4 * DRAWS)
    observed = np.bincount(draws % 256, minlength=256)
    expected = len(draws) / 256
    assert stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), 255) > ALARM


@pytest.mark.parametrize("scale", [Fraction(1, 1000), Fraction(1, 100)])
def test_hardly_any_noise_is_still_noise_of_that_scale(scale):
    assert not Noise.insecure(1).laplace(scale, DRAWS).any()
    assert not Noise.insecure(2).gaussian(scale**2, DRAWS).any()


def binomial(hits, trials, probability):
    return stats.binomtest(int(hits), int(trials), probability).pvalue


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(1), Fraction(5, 2)])
@pytest.mark.parametrize("n", [1, 255, 256, 70_000])
def test_survive(gamma, n):
    """exp(-gamma) made of n steps: one byte, the byte's end, two and three bytes."""
    kept = Noise.insecure(3).at(str(gamma), n).survive(np.full(4 * DRAWS, n), gamma / n).sum()
    assert binomial(kept, 4 * DRAWS, math.exp(-gamma)) > ALARM
    for wrong in (0.9, 1.1):
        assert binomial(kept, 4 * DRAWS, math.exp(-gamma * Fraction(wrong))) < ALARM


def test_survive_for_a_small_rate_needs_more_draws_to_tell():
    kept = Noise.insecure(4).survive(np.full(3_000_000, 1), Fraction(1, 100)).sum()
    assert binomial(kept, 3_000_000, math.exp(-0.01)) > ALARM
    assert (
        binomial(kept, 3_000_000, math.exp(-0.009)) < ALARM
        and binomial(kept, 3_000_000, math.exp(-0.011)) < ALARM
    )


@pytest.mark.parametrize("excess", [-700, -100, -1, 0, 1, 100, 700])
def test_split_coin(excess):
    """P(excess + Lap(scale) > 0), on a grid of 1/128."""
    scale = 300
    heads = Noise.insecure(5).at("coin", excess).coin(np.full(4 * DRAWS, excess), scale).sum()
    assert binomial(heads, 4 * DRAWS, stats.laplace.sf(-excess, scale=scale)) > ALARM
    if abs(excess) >= 100:
        for wrong in (0.9, 1.1):
            assert (
                binomial(heads, 4 * DRAWS, stats.laplace.sf(-excess, scale=wrong * scale)) < ALARM
            )


def test_choose():
    scores, rate, noise, draws = (
        np.array([0, 3, -2, 3, 7]),
        Fraction(1, 4),
        Noise.insecure(6),
        60_000,
    )
    picks = np.bincount([noise.at(i).choose(scores, rate) for i in range(draws)], minlength=5)

    def p_value(rate):
        weights = np.exp(float(rate) * scores)
        return stats.chisquare(picks, draws * weights / weights.sum()).pvalue

    assert p_value(rate) > ALARM
    assert p_value(rate * Fraction(9, 10)) < ALARM and p_value(rate * Fraction(11, 10)) < ALARM


def test_draws_and_paths_are_independent():
    noise = Noise.insecure(7)
    a, b = noise.at("a").gaussian(10**6, DRAWS), noise.at("b").gaussian(10**6, DRAWS)
    for x, y in ((a, b), (a[1:], a[:-1]), (np.abs(a), np.abs(b))):
        assert abs(np.corrcoef(x, y)[0, 1]) < 4.9 / math.sqrt(DRAWS)


@pytest.mark.parametrize("scale", [1, 20])
def test_opendp_draws_from_the_same_distribution(scale):
    """The field's reference as an oracle for the oracle: the same test accepts its draws."""
    dp = pytest.importorskip(
        "opendp.prelude", reason="opendp is not installed: pip install 'tailrace[test-oracles]'"
    )
    dp.enable_features("contrib")
    for make, cdf, norm in (
        (dp.m.make_laplace, laplace_cdf, dp.l1_distance(T=int)),
        (dp.m.make_gaussian, gaussian_cdf, dp.l2_distance(T=float)),
    ):
        draws = np.array(
            make(dp.vector_domain(dp.atom_domain(T=int)), norm, scale=float(scale))([0] * 20_000)
        )
        assert (
            chi_square(draws, edges(lambda p: stats.laplace.ppf(p, scale=scale)), cdf(float(scale)))
            > ALARM
        )
