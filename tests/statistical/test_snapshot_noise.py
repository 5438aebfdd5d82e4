"""The noise of releases and decisions has the variance that is stated: it is accepted, and one that
is 10 % off is not.
"""

import numpy as np
import pytest

from tailrace import ZCDP, Integer, Noise, PureDP, Schema, SnapshotHistogram, User
from tailrace.counting.plan import Counts
from tailrace.mechanisms.snapshot.levels import Quadtree
from tailrace.mechanisms.snapshot.tracking import Tracking
from tailrace.papers.snapshot_policies import DSFT, BudgetDistribution, EveryStep
from tailrace.papers.snapshot_policies.static import Hierarchy, LaplaceBins

PERSON = User(column="id", records=2)
GRID = Schema(x=Integer(0, 63), y=Integer(0, 63))


def stated(ratio, scale, many, kurtosis):
    """Whether a mean of `many` squares, relative to the variance times `scale`, is within six
    standard errors.
    """
    return abs(ratio / scale - 1) <= 6 * np.sqrt((kurtosis - 1) / many)


@pytest.mark.parametrize("privacy", [PureDP(epsilon=1), ZCDP(rho=0.05)], ids=["pure", "zcdp"])
@pytest.mark.parametrize(
    "static", [LaplaceBins(), Quadtree(), Hierarchy(fan_out=4)], ids=lambda s: type(s).__name__
)
def test_the_details_of_a_release_have_their_stated_variance(privacy, static):
    mechanism = SnapshotHistogram(
        domain=GRID, privacy=privacy, unit=PERSON, horizon=10, policy=EveryStep(), histogram=static
    )
    counts, total, many = np.random.default_rng(0).integers(0, 9, 4096), 0.0, 0
    from tailrace.domain.halving import halving

    tree, state = halving((64, 64)), mechanism.init()
    for t in range(10):
        state = mechanism.measure(
            state, Counts(counts, np.zeros_like(counts)), Noise.insecure(7).at(t)
        ).state
        view = mechanism.view(state.public)
        errors = np.concatenate(tree.details(view.estimates - counts))
        variances = view.variances if len(view.variances) > 1 else np.full(4096, view.variances[0])
        total, many = total + (errors**2 / variances).sum(), many + 4096
    assert stated(total / many, 1.0, many, 6)
    assert not stated(total / many, 1.1, many, 6)
    assert not stated(total / many, 0.9, many, 6)


@pytest.mark.parametrize(
    "static",
    [
        LaplaceBins(),
        *(pytest.param(s, marks=pytest.mark.slow) for s in (Quadtree(), Hierarchy(fan_out=4))),
    ],
    ids=lambda s: type(s).__name__,
)
def test_the_standard_error_of_a_count_is_that_of_its_noise(static):
    mechanism = SnapshotHistogram(
        domain=GRID,
        privacy=PureDP(epsilon=1),
        unit=PERSON,
        horizon=3000,
        policy=EveryStep(),
        histogram=static,
    )
    zeros, found = np.zeros(4096, np.int64), []
    state = mechanism.init()
    for t in range(2000):
        state = mechanism.measure(state, Counts(zeros, zeros), Noise.insecure(8).at(t)).state
        answer = mechanism.view(state.public).count(x=(5, 40), y=(0, 20))
        found.append(answer.value / answer.error)
    ratio = float(np.mean(np.square(found)))
    assert stated(ratio, 1.0, 2000, 3)
    assert not stated(ratio, 1.3, 2000, 3)
    assert not stated(ratio, 0.7, 2000, 3)


def threshold_and_distance(policy, many=20_000):
    """Draws of the decisions of a policy, many times over."""
    series = SnapshotHistogram(
        domain=GRID, privacy=PureDP(epsilon=1), unit=PERSON, horizon=100, policy=policy
    ).series
    noise = Noise.insecure(9)
    if isinstance(policy, DSFT):
        scales = policy._sampling(series)._comparing
        hidden = [int(scales.fresh_threshold(noise.at(i))) for i in range(many)]
        yield hidden, float(scales.threshold_scale)
        yield (
            [scales.distance_noise(noise.at("d", i)) for i in range(many)],
            float(scales.distance_scale),
        )
    else:
        from tailrace.papers.snapshot_policies.budget import Dissimilarity

        looks = Dissimilarity(series, "BD")
        yield [looks.noise(noise.at(i)) for i in range(many)], float(looks.scale)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", [DSFT(threshold=0.1), BudgetDistribution()], ids=lambda p: type(p).__name__
)
def test_the_noise_of_decisions_has_its_scale(policy):
    for found, scale in threshold_and_distance(policy):
        ratio = float(np.mean(np.square(np.array(found, float)))) / (2 * scale**2)
        assert stated(ratio, 1.0, len(found), 6)
        assert not stated(ratio, 1.21, len(found), 6), "a scale that is 10 % larger"
        assert not stated(ratio, 0.81, len(found), 6)


def test_combined_releases_are_nearer_to_the_truth_and_say_how_near():
    """Forty runs on data that stand still: the error falls below one release's, and is what the
    view states, or a little less.
    """
    rng = np.random.default_rng(1)
    counts = rng.poisson(np.exp(rng.normal(1, 1.5, 4096)))
    ratios, stated_errors = [], []
    for seed in range(40):
        runs = {}
        for policy in (Tracking(releases=4, first="1/4"), EveryStep()):
            mechanism = SnapshotHistogram(
                domain=GRID,
                privacy=PureDP(epsilon=1),
                unit=PERSON,
                horizon=4,
                policy=policy,
                histogram=LaplaceBins(),
            )
            noise, state = Noise.insecure(seed), mechanism.init()
            for t in range(4):
                state = mechanism.measure(
                    state, Counts(counts, np.zeros_like(counts)), noise.at(t)
                ).state
            runs[type(policy)] = mechanism.view(state.public)
        ours, theirs = (
            ((runs[kind].estimates - counts) ** 2).mean() for kind in (Tracking, EveryStep)
        )
        ratios.append(ours / theirs)
        stated_errors.append(runs[Tracking].variances.mean() / ours)
    assert np.mean(ratios) < 0.35
    assert 1.0 < np.mean(stated_errors) < 1.5, (
        "stated a little too large, for one standard error of the drift"
    )
