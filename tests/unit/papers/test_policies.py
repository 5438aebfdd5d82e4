"""Every policy at the ends of what may be asked of it: it is built and takes steps, or says why
not.
"""

import itertools

import polars as pl
import pytest

import tailrace as tr
from tailrace.mechanisms.snapshot.tracking import Tracking
from tailrace.papers.snapshot_policies import (
    DSAT,
    DSFT,
    BudgetAbsorption,
    BudgetDistribution,
    EveryStep,
    FixedSampling,
)

BIT = tr.Schema(poor=tr.Integer(0, 1))
MANY = (1, 2, 5, 500, 50_000, 10**9, 2**61)
UNITS = (
    tr.User(column="id", records=1),
    tr.Window(steps=1, column="id", records=1),
    tr.Window(steps=50_000, column="id", records=3),
)
LOSSES = (
    tr.PureDP(epsilon=1),
    tr.ZCDP(rho="1/2"),
    tr.ApproxDP(epsilon=1, delta=1e-6),
    tr.PureDP(epsilon=100_000),
)
POLICIES = [
    *(DSFT(threshold=0.1, releases=many) for many in MANY),
    DSFT(threshold=0.1, releases=50_000, share="0.999999"),
    DSFT(threshold=2, releases=50_000, share="0.000001"),
    *(DSAT(releases=many) for many in MANY),
    *(FixedSampling(releases=many) for many in MANY),
    *(Tracking(releases=many) for many in MANY),
    Tracking(first="0.999999999"),
    Tracking(first="1e-9"),
    *(
        EveryStep(),
        BudgetDistribution(),
        BudgetAbsorption(),
        DSFT(threshold=0),
        DSAT(),
        FixedSampling(),
    ),
]
HORIZONS = (1, 2, 1000, 2**61, None)
ROW = pl.DataFrame({"id": ["a", "b"], "poor": [0, 1]})


def built(policy, unit, privacy, horizon):
    """The mechanism, or the sentence that refuses it."""
    try:
        return tr.SnapshotHistogram(
            domain=BIT, privacy=privacy, unit=unit, horizon=horizon, policy=policy
        )
    except tr.ConfigError as error:
        return str(error)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_a_policy_is_built_and_steps_or_says_what_to_change(policy):
    stepped = 0
    for unit, privacy, horizon in itertools.product(UNITS, LOSSES, HORIZONS):
        made = built(policy, unit, privacy, horizon)
        if isinstance(made, str):
            assert made.endswith(".") and ("privacy=" in made or "horizon" in made)
            continue
        assert made.guarantee.horizon == horizon
        if privacy is LOSSES[0] and unit is not UNITS[2] and horizon in (2, None):
            stream = tr.Stream(made, noise=tr.Noise.insecure(1))
            for _ in range(2):
                stepped += stream.push(ROW).view.measured >= 1
    assert stepped, "some series has this policy"


def test_as_many_releases_as_there_are_steps_divide_by_nothing():
    """The share of the threshold rounded to nothing above 22,000 positive comparisons."""
    for releases in (22_000, 23_000, 50_000):
        made = tr.SnapshotHistogram(
            domain=BIT,
            privacy=tr.PureDP(epsilon=1),
            unit=tr.User(column="id", records=1),
            horizon=releases,
            policy=DSFT(threshold=0.1, releases=releases),
        )
        assert made.guarantee.loss == tr.PureDP(epsilon=1)
