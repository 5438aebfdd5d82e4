"""The same question with two hundred times the draws: a scale 1 % off is rejected too."""

import numpy as np
import pytest
from scipy import stats

from tailrace import Noise

pytestmark = pytest.mark.slow

DRAWS, ALARM = 20_000_000, 1e-6


def laplace_mass(support, scale):
    mass = np.exp(-np.abs(support) / scale)
    return mass / mass.sum()


def gaussian_mass(support, scale):
    mass = np.exp(-(support**2) / (2 * scale**2))
    return mass / mass.sum()


@pytest.mark.parametrize("scale", [1, 20, 1000])
@pytest.mark.parametrize(
    ("sampler", "mass"), [("laplace", laplace_mass), ("gaussian", gaussian_mass)]
)
def test_every_single_value_is_as_likely_as_claimed(sampler, mass, scale):
    """One bin per integer out to where fewer than 20 draws are expected."""
    parameter = scale if sampler == "laplace" else scale**2
    draws = getattr(Noise.insecure(1).at(sampler, scale), sampler)(parameter, DRAWS)
    support = np.arange(-60 * scale, 60 * scale + 1)
    counts = np.bincount(draws - support[0], minlength=len(support))
    assert len(counts) == len(support), "no draw lies beyond 60 scales"

    def p_value(claimed):
        expected = DRAWS * mass(support, claimed)
        full = expected >= 20
        observed, expected = (
            np.append(counts[full], counts[~full].sum()),
            np.append(expected[full], expected[~full].sum()),
        )
        return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(observed) - 1)

    assert p_value(scale) > ALARM
    assert p_value(0.99 * scale) < ALARM
    assert p_value(1.01 * scale) < ALARM
