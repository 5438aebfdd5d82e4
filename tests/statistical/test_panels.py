"""The noise of panels is as wide as it says: the test accepts it, and rejects it 10 % off."""

import numpy as np
import pytest
from scipy import stats

from samples import released
from tailrace import (
    ZCDP,
    AddRemove,
    Integer,
    Missing,
    Noise,
    Null,
    PanelCumulative,
    PanelWindow,
    Replace,
    Schema,
    User,
    papers,
)

UNIT = User(column="id")


def fits(values, deviation):
    """Whether independent values could have this standard deviation: chi-square, both sides."""
    square = float((np.asarray(values, float) ** 2).sum()) / deviation**2
    freedom = np.size(values)
    return 1e-4 < stats.chi2.cdf(square, freedom) < 1 - 1e-4


def accepted_and_rejected(values, deviation):
    assert fits(values, deviation)
    assert not fits(values, 0.9 * deviation) and not fits(values, 1.1 * deviation)


def run(mechanism, noise, steps):
    """Estimates of a panel in which nobody is: noise alone."""
    zeros = np.zeros(mechanism.plan(mechanism.init().public).size, np.int64)
    *_, last = released(mechanism, [zeros] * steps, noise)
    return last.estimates


@pytest.mark.parametrize("neighbours", [AddRemove, Replace, Null], ids=repr)
@pytest.mark.parametrize("make", [PanelWindow, papers.panel_window], ids=["ours", "papers"])
@pytest.mark.parametrize("values", [2, 3])
def test_the_noise_of_windows(neighbours, make, values):
    window, later = {2: 11, 3: 7}[values], 2
    mechanism = make(
        domain=Schema(s=Integer(0, values - 1)),
        unit=UNIT,
        window=window,
        horizon=window + later,
        privacy=ZCDP(rho=0.05),
        neighbours=neighbours,
        missing=Missing.Carry,
    )
    first, *rest = run(mechanism, Noise.insecure(1), window + later)
    accepted_and_rejected(first, np.sqrt(mechanism.variances[0]))
    changes = []
    for before, after in zip([first, *rest], rest, strict=False):
        given = np.repeat(before.reshape(values, -1).sum(axis=0) / values, values)
        changes.append((after - given).reshape(-1, values))
    changes = np.concatenate(changes)
    assert np.abs(changes.sum(axis=1)).max() < 1e-6, "people are shared out, not made"
    centred = np.linalg.qr(np.ones((values, 1)), "complete")[0][
        :, 1:
    ]  # independent directions of what is shared out
    accepted_and_rejected(changes @ centred, np.sqrt(mechanism.variances[1]))


@pytest.mark.parametrize(
    "neighbours",
    [AddRemove, *(pytest.param(one, marks=pytest.mark.slow) for one in (Replace, Null))],
)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(PanelCumulative, id="ours"),
        pytest.param(papers.panel_cumulative, id="papers", marks=pytest.mark.slow),
    ],
)
def test_the_noise_of_weights(neighbours, make):
    """Each counter at its first step and at its last."""
    people = None if neighbours is AddRemove else 1
    mechanism = make(
        domain=Schema(s=Integer(0, 1)),
        unit=UNIT,
        horizon=4,
        privacy=ZCDP(rho=0.05),
        neighbours=neighbours,
        people=people,
        missing=Missing.Carry,
    )
    found = np.array([run(mechanism, Noise.insecure(seed), 4) for seed in range(800)])
    deviations = np.sqrt(mechanism.variances)
    accepted_and_rejected([found[:, b - 1, b] / deviations[b - 1, b] for b in range(1, 5)], 1.0)
    accepted_and_rejected([found[:, 3, b] / deviations[3, b] for b in range(1, 5)], 1.0)
    if people is None:
        assert fits(found[:, 0, 0], deviations[0, 0])
