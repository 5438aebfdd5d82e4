"""Theorems 5.1 to 5.3 of Li et al. 2015 beside measured errors; distances other than the 1-norm."""

import math

import numpy as np
import pytest

from tailrace import ConfigError, Integer, Noise, PureDP, Schema, SnapshotHistogram, User
from tailrace.counting.plan import Counts
from tailrace.mechanisms.snapshot import kernel
from tailrace.papers.snapshot_policies import DSFT, FixedSampling
from tailrace.papers.snapshot_policies.static import LaplaceBins
from tailrace.papers.snapshot_policies.theorems import least_people, release_error, standing_error

SIGMA = 0.05


def made(policy, bins=64):
    return SnapshotHistogram(
        domain=Schema(x=Integer(0, bins - 1)),
        privacy=PureDP(epsilon=1),
        unit=User(column="id", records=1),
        horizon=40,
        policy=policy,
        histogram=LaplaceBins(),
        population=10_000,
    )


def errors(mechanism, seeds, bins):
    """Of a count over some bins, at the release and before the next one; and releases in between."""
    at, between = [], []
    counts = np.full(mechanism.domain.size, 100)
    for seed in range(seeds):
        noise, state = Noise.insecure(seed), mechanism.init()
        for t in range(6):
            now = Counts(counts + 2 * t, np.zeros_like(counts))
            state = mechanism.measure(state, now, noise.at(t)).state
            off = abs(float((state.public.estimates - now.adds)[:bins].sum()))
            (at if int(state.public.pace.last) == t + 1 else between).append(off)
    return np.array(at), np.array(between)


def test_the_theorems_hold_where_they_are_measured():
    mechanism = made(DSFT(threshold=0.4, releases=4, share="1/4"))
    at, between = errors(mechanism, 60, 64)
    assert np.mean(at <= release_error(mechanism, bins=64, sigma=SIGMA)) >= 1 - SIGMA
    assert len(between) > 100
    bound = standing_error(mechanism, threshold=4000, sigma=SIGMA)
    assert np.mean(between <= bound) >= 1 - SIGMA
    assert 4000 < bound < 10 * 4000


def test_the_printed_theorem_51_fails_with_many_bins():
    mechanism = made(DSFT(threshold=2, releases=4, share="1/4"))
    at, _ = errors(mechanism, 60, 64)
    scale = 4 / 0.75
    printed = 2 * math.sqrt(2) * scale * math.log(2 / SIGMA)
    assert np.mean(at <= printed) < 1 - SIGMA
    few = release_error(mechanism, bins=3, sigma=SIGMA)
    assert few == pytest.approx(printed), "the same where it holds"


def test_more_budget_needs_fewer_people():
    poor, rich = (made(DSFT(threshold=0.2, releases=4, share=share)) for share in ("1/10", "1/2"))
    asked = {"threshold": 0.2, "sigma": SIGMA, "share": 0.1}
    assert least_people(rich, **asked) == pytest.approx(least_people(poor, **asked) / 5, rel=0.01)
    with pytest.raises(ConfigError, match="DSFT and DSAT"):
        least_people(made(FixedSampling()), **asked)
    with pytest.raises(ConfigError, match="nothing is compared"):
        least_people(made(DSFT(threshold=0.2, releases=1)), **asked)


@pytest.mark.parametrize("kind", [kernel.distance, kernel.largest, kernel.divergence])
def test_one_record_moves_a_distance_by_at_most_one(kind):
    rng = np.random.default_rng(0)
    for _ in range(300):
        counts = rng.integers(0, 60, 6)
        estimates = rng.normal(counts + rng.integers(-9, 9, 6), 5)
        more = counts.copy()
        more[rng.integers(6)] += 1
        assert abs(kind(more, estimates) - kind(counts, estimates)) <= 1


def test_the_divergence_is_the_divergence_near_the_estimate():
    g, h = np.array([1000.0, 500.0, 2000.0]), np.array([1300, 400, 2100])
    true = float((h * np.log(h / g) - h + g).sum())
    assert kernel.divergence(h, g) == pytest.approx(true, abs=2)
    assert kernel.divergence(np.array([1000, 500, 2000]), g) == 0


@pytest.mark.parametrize("distance", ["kl", "max"])
def test_other_distances_decide_too(distance):
    mechanism = made(DSFT(threshold=0.02, releases=4, share="1/2", distance=distance), bins=8)
    noise, state, at = Noise.insecure(2), mechanism.init(), []
    for t in range(12):
        counts = np.full(8, 1000) if t < 6 else np.arange(8) * 300
        state = mechanism.measure(state, Counts(counts, np.zeros_like(counts)), noise.at(t)).state
        at += [t + 1] if int(state.public.pace.last) == t + 1 else []
    assert 7 in at
    with pytest.raises(ConfigError, match="distance must be"):
        DSFT(threshold=0.1, distance="l2")
