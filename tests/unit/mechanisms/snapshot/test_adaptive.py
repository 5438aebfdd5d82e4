"""Adaptive snapshots: when they release, what they recall, and what their errors say."""

import math

import numpy as np
import polars as pl
import pytest

from tailrace import (
    ZCDP,
    ApproxDP,
    ConfigError,
    Integer,
    Noise,
    PureDP,
    Schema,
    SnapshotHistogram,
    Stream,
    User,
    Window,
)
from tailrace.counting.plan import Counts
from tailrace.domain.halving import halving
from tailrace.mechanisms.snapshot.adaptive import Adaptive
from tailrace.mechanisms.snapshot.alarm import UNITS
from tailrace.mechanisms.snapshot.filter import Filter
from tailrace.mechanisms.snapshot.tracking import Tracking

PURE, ZERO = PureDP(epsilon=1), ZCDP(rho=0.03)
PERSON = User(column="id", records=1)
OLD = np.array([4000, 3000, 2000, 1000, 500, 300, 100, 100])
NEW = OLD[::-1].copy()


def made(policy=None, privacy=PURE, unit=PERSON, horizon=60, shape=(8,)):
    domain = Schema(**{f"side{i}": Integer(0, side - 1) for i, side in enumerate(shape)})
    given = {} if policy is None else {"policy": policy}
    return SnapshotHistogram(domain=domain, privacy=privacy, unit=unit, horizon=horizon, **given)


def run(mechanism, snapshots, seed=1):
    """The views of all steps, the steps of releases, and the last state."""
    noise, state, views = Noise.insecure(seed), mechanism.init(), []
    for t, counts in enumerate(snapshots):
        state = mechanism.measure(state, Counts(counts, np.zeros_like(counts)), noise.at(t)).state
        views.append(mechanism.view(state.public))
    releases = [view.step for view in views if view.measured == view.step]
    return views, releases, state.public.pace


def error(views, snapshots):
    pairs = zip(views, snapshots, strict=True)
    return float(np.mean([np.abs(view.estimates - counts).mean() for view, counts in pairs]))


def test_it_is_the_default_and_its_budget_is_all_of_it():
    assert made().policy == Adaptive()
    for privacy in (PURE, ZERO, ApproxDP(epsilon=1, delta=1e-6)):
        assert made(privacy=privacy).guarantee.loss.epsilon <= 1 if privacy is PURE else True


def test_data_that_stand_still_are_measured_once_and_watched():
    views, releases, course = run(made(), [OLD] * 60)
    assert releases == [1]
    assert int(course.open) > 0
    assert int(course.spent.sum()) == int(course.paid) + int(course.open)
    tracked, _, _ = run(made(Tracking()), [OLD] * 60)
    assert error(views, [OLD] * 60) < error(tracked, [OLD] * 60)


def test_a_jump_is_followed_at_once():
    snapshots = [OLD] * 33 + [NEW] * 27
    for privacy in (PURE, ZERO):
        views, releases, _ = run(made(privacy=privacy), snapshots)
        assert 34 in releases
        assert error(views, snapshots) < 150


def test_a_level_that_comes_back_is_recalled_without_a_release():
    snapshots = [NEW if t % 15 in (9, 10, 11, 12) else OLD for t in range(60)]
    views, releases, course = run(made(), snapshots)
    assert len(releases) == 2
    assert int(course.recalls) >= 5
    assert len(course.archive) == 1
    assert error(views, snapshots) < 100


def test_moving_data_are_released_at_a_pace():
    snapshots = [(OLD + (NEW - OLD) * t / 59).astype(np.int64) for t in range(60)]
    _, releases, course = run(made(), snapshots)
    assert 3 <= len(releases) <= 40
    assert int(course.spent.sum()) <= UNITS
    assert float(course.rate) > 0


def test_where_an_alarm_sees_nothing_none_is_bought():
    few = OLD // 100
    views, releases, course = run(made(), [few] * 60)
    assert int(course.alarms) == 0
    assert len(releases) == 5, "a schedule instead"
    assert int(course.spent.sum()) == UNITS
    assert np.isfinite(views[-1].count().error)


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("privacy", [PURE, ZERO, ApproxDP(epsilon=1, delta=1e-6)])
def test_short_series(horizon, privacy):
    _, releases, course = run(made(privacy=privacy, horizon=horizon), [OLD] * horizon)
    assert releases[0] == 1
    assert int(course.spent.sum()) <= UNITS
    assert horizon > 1 or int(course.paid) == UNITS


def test_one_bin_and_no_people():
    views, _, _ = run(made(shape=(1,)), [np.array([7])] * 60)
    assert views[-1].estimates.shape == (1,)
    views, _, _ = run(made(), [np.zeros(8, np.int64)] * 60)
    assert np.isfinite(views[-1].estimates).all()


@pytest.mark.parametrize("unit", [PERSON, Window(steps=12, column="id", records=3)])
def test_two_sides_and_windows(unit):
    rng = np.random.default_rng(0)
    old, new = (rng.multinomial(20_000, rng.dirichlet(np.ones(48))) for _ in range(2))
    snapshots = [old] * 30 + [new] * 30
    endless = isinstance(unit, Window)
    mechanism = made(shape=(8, 6), unit=unit, horizon=None if endless else 60)
    views, releases, _ = run(mechanism, snapshots)
    assert any(31 <= step <= 36 for step in releases)
    assert np.abs(views[-1].estimates - new).sum() < np.abs(old - new).sum() / 2
    if endless:
        assert len(releases) >= 4, "a window's budget comes back"


def test_a_season_is_learned():
    phase = np.arange(120) * 2 * np.pi / 24
    snapshots = [(OLD + (NEW - OLD) * (0.5 - 0.5 * np.cos(x))).astype(np.int64) for x in phase]
    plain, _, _ = run(made(horizon=120), snapshots)
    known, releases, _ = run(made(Adaptive(season=24), horizon=120), snapshots)
    gaps = set(np.diff(releases))
    assert len(gaps) == 1
    assert math.gcd(int(gaps.pop()), 24) == 1
    assert error(known[60:], snapshots[60:]) < 0.6 * error(plain[60:], snapshots[60:])
    with pytest.raises(ConfigError, match="season"):
        Adaptive(season=1)


def test_errors_grow_while_nobody_looks_and_cover_what_drifts():
    snapshots = [(OLD + (NEW - OLD) * t / 119).astype(np.int64) for t in range(120)]
    views, releases, _ = run(made(horizon=120), snapshots)
    ask = {"side0": (0, 2)}
    first, last = (views[step - 1].count(**ask).error for step in (1, releases[1] - 1))
    assert last > 1.5 * first
    off = [
        abs(view.count(**ask).value - counts[:3].sum())
        for view, counts in zip(views, snapshots, strict=True)
    ]
    stated = [view.count(**ask).error for view in views]
    assert np.mean(np.array(off) <= 1.96 * np.array(stated)) > 0.85


def test_many_bins_are_followed_with_few_hypotheses():
    small, large = Filter(halving((64,)), 10, None), Filter(halving((1 << 18,)), 10, None)
    assert len(large.hypotheses) == 3 < len(small.hypotheses)
    assert large.blank().means.nbytes <= 24 << 18
    assert Filter(halving((64,)), 10, 7).terms == 8


def test_streams_of_earlier_versions_go_on_under_their_policy(tmp_path):
    """They were kept with no policy, which was `Tracking`."""
    mechanism = SnapshotHistogram(
        domain=Schema(age=Integer(0, 7)), privacy=PURE, unit=PERSON, horizon=9, policy=None
    )
    rows = pl.DataFrame({"id": range(50), "age": [x % 8 for x in range(50)]})
    Stream.create(tmp_path / "old", mechanism, population="ward", noise=Noise.insecure(1)).close()
    with Stream.open(tmp_path / "old") as stream:
        stream.push(rows)
        assert stream.mechanism.policy is None
        assert stream.mechanism._policy == Tracking()
    assert mechanism.renewed == SnapshotHistogram(
        domain=mechanism.domain, privacy=PURE, unit=PERSON, horizon=9
    )


def test_a_stream_is_kept_and_goes_on(tmp_path):
    def rows(step):
        ages = np.random.default_rng(step // 4).integers(0, 8, 3000)
        return pl.DataFrame({"id": range(3000), "age": ages % (4 if step // 4 % 2 else 8)})

    mechanism = SnapshotHistogram(
        domain=Schema(age=Integer(0, 7)), privacy=PureDP(epsilon=5), unit=PERSON, horizon=16
    )
    shown = {}
    for name, cut in (("cut", True), ("whole", False)):
        stream = Stream.create(tmp_path / name, mechanism, population=name, noise=Noise.insecure(5))
        for step in range(16):
            if cut:
                stream.close()
                stream = Stream.open(tmp_path / name)
            shown[name, step] = stream.push(rows(step)).view
        stream.close()
    for step in range(16):
        assert np.array_equal(shown["cut", step].estimates, shown["whole", step].estimates)
        assert np.array_equal(shown["cut", step].variances, shown["whole", step].variances)


@pytest.mark.parametrize("people", [0, 10**9, 10**14])
def test_a_season_of_very_many_people_is_followed(people):
    """Noise that no double tells from the people's number must not make a variance negative."""
    mechanism = made(Adaptive(season=24), ZCDP(rho=1), horizon=40, shape=(1,))
    state, none = mechanism.init(), np.zeros(1, np.int64)
    for step in range(40):
        noise = Noise.insecure(3).at("step", step)
        state = mechanism.measure(state, Counts(none + people, none), noise).state
        view = mechanism.view(state.public)
        assert view is not None and abs(view.estimates[0] - people) <= 1e-3 * people + 200
        assert np.isfinite(view.variances).all()
