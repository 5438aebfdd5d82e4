"""Histograms of snapshots: what is released when, by whom it is paid, and what the views say."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from samples import LOSSES
from tailrace import (
    ZCDP,
    Categorical,
    ConfigError,
    Event,
    Integer,
    Noise,
    PureDP,
    Schema,
    SnapshotHistogram,
    Stream,
    User,
    Window,
    papers,
)
from tailrace.checks import check_mechanism
from tailrace.checks.spy import Spy
from tailrace.counting.plan import Counts
from tailrace.mechanisms.snapshot.adaptive import Adaptive
from tailrace.mechanisms.snapshot.levels import Quadtree
from tailrace.mechanisms.snapshot.tracking import Tracking
from tailrace.papers.snapshot_policies import (
    DSAT,
    DSFT,
    BudgetAbsorption,
    BudgetDistribution,
    EveryStep,
    FixedSampling,
)
from tailrace.papers.snapshot_policies.sampling import public_share
from tailrace.papers.snapshot_policies.static import Hierarchy, LaplaceBins

WARD = Schema(sex=Categorical(["f", "m"], outside="other"), age=Integer(0, 4))
PERSON, WINDOW = User(column="id", records=2), Window(steps=4, column="id", records=2)
POLICIES = (
    Adaptive(),
    Adaptive(season=3),
    Tracking(),
    EveryStep(),
    FixedSampling(releases=3),
    DSFT(threshold=0.2, releases=3),
    DSAT(releases=3, gains=(0.5, 0.1, 0.1), burn_in=1),
    BudgetDistribution(),
    BudgetAbsorption(),
)
STATICS = (LaplaceBins(), None, Quadtree(height=1), Hierarchy(fan_out=4))
BINS = LaplaceBins()


def rows(seed, many=40):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": rng.integers(0, 30, many),
            "sex": rng.choice(["f", "m", "x"], many),
            "age": rng.integers(-1, 6, many),
        }
    )


BATCHES = [
    (rows(0), None),
    (rows(1), rows(0, 10)),
    (rows(2, 0), rows(1, 5)),
    (None, None),
    (rows(3), None),
]


def made(
    policy=None, histogram=BINS, privacy=LOSSES[0], unit=PERSON, horizon=12, domain=WARD, **options
):
    return SnapshotHistogram(
        domain=domain,
        privacy=privacy,
        unit=unit,
        horizon=horizon,
        policy=policy,
        histogram=histogram,
        **options,
    )


def cases():
    """Every policy with every static part; budgets, units and feeds take turns."""
    for turn, (policy, static) in enumerate((p, s) for p in POLICIES for s in STATICS):
        unit, horizon, changes = ((PERSON, 12, False), (WINDOW, None, False), (PERSON, 12, True))[
            turn // 3 % 3
        ]
        mechanism = made(policy, static, LOSSES[turn % 3], unit, horizon, changes=changes)
        # by default every policy with two of the four
        quick = (turn + turn // 4) % 2 == 0
        yield mechanism if quick else pytest.param(mechanism, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "mechanism",
    list(cases()),
    ids=lambda m: f"{type(m.policy).__name__}-{type(m.histogram).__name__}",
)
def test_conformance(mechanism):
    check_mechanism(mechanism, BATCHES)


def share(mechanism):
    """How much of the declared loss the guarantee proves."""
    proved = mechanism.guarantee.loss
    if isinstance(mechanism.privacy, ZCDP):
        return float(proved.as_zcdp().rho / mechanism.privacy.rho)
    return float(proved.epsilon / mechanism.privacy.epsilon)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("static", STATICS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("unit", [PERSON, WINDOW], ids=["user", "window"])
def test_the_noise_proves_the_declared_loss_and_wastes_none_of_it(policy, static, unit):
    for privacy in LOSSES:
        assert 0.99 <= share(made(policy, static, privacy, unit)) <= 1


def drawn(mechanism, steps):
    """All draws of a run on a snapshot that changes wildly."""
    spy, state = Spy(Noise.insecure(1)), mechanism.init()
    for t in range(1, steps + 1):
        counts = np.zeros(mechanism.domain.size, np.int64)
        counts[t % len(counts)] = 10**5 * (t % 3)
        state = mechanism.measure(state, Counts(counts, np.zeros_like(counts)), spy.at(t)).state
    return spy.record, state


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("static", [LaplaceBins(), Quadtree()], ids=lambda s: type(s).__name__)
def test_what_is_drawn_for_releases_adds_up_to_no_more_than_the_budget(policy, static):
    """From the scales that a spy saw: the epsilons of the releases of any window, decisions
    apart.
    """
    for unit, steps, width in ((PERSON, 12, 12), (WINDOW, 40, 4)):
        mechanism = made(policy, static, unit=unit, horizon=steps if unit is PERSON else None)
        record, _ = drawn(mechanism, steps)
        spent = np.zeros(steps + 1)
        for draw in record:
            if "release" in draw.path:
                spent[draw.path[0]] += 2 / float(draw.parameter)
        decisions = mechanism._policy.proved(mechanism.series)
        room = 1 - (float(decisions.epsilon) if decisions is not None else 0)
        worst = max(spent[at : at + width].sum() for at in range(1, steps - width + 2))
        assert 0 < worst <= room + 1e-9


def test_two_distances_as_two_persons_records_apart_are_drawn_for_both():
    one, two = (made(EveryStep(), unit=User(column="id", records=m)) for m in (1, 2))
    scales = [next(float(d.parameter) for d in drawn(m, 1)[0]) for m in (one, two)]
    assert scales == [12, 24]


@pytest.mark.parametrize("releases", [1, 3, 5])
def test_a_schedule_is_public_and_even(releases):
    for policy in (FixedSampling(releases=releases), Tracking(releases=releases)):
        for unit, steps in ((PERSON, 12), (WINDOW, 12)):
            mechanism = made(policy, unit=unit)
            at = sorted({d.path[0] for d in drawn(mechanism, steps)[0]})
            assert at[0] == 1
            if unit is PERSON:
                assert len(at) == releases
                assert np.ptp(np.diff([*at, 13])) <= 1
            else:
                every = -(-4 // min(releases, 4))
                assert at == list(range(1, 13, every))


def test_tracking_spends_most_on_the_first_release():
    record, _ = drawn(made(Tracking(releases=5)), 12)
    scales = [float(draw.parameter) for draw in record]
    assert 2 / scales[0] == pytest.approx(3 / 7)
    assert {round(2 / scale, 6) for scale in scales[1:]} == {round(1 / 7, 6)}


def test_a_sparse_vector_releases_when_the_data_move_and_only_then():
    line = Schema(place=Integer(0, 1))
    mechanism = made(
        DSFT(threshold=0.5, releases=4),
        privacy=PureDP(epsilon=50),
        domain=line,
        population=1000,
        horizon=40,
    )
    noise, state, at = Noise.insecure(2), mechanism.init(), []
    for t in range(1, 31):
        counts = np.array([1000, 0] if t < 15 else [0, 1000])
        state = mechanism.measure(state, Counts(counts, np.zeros(2, np.int64)), noise.at(t)).state
        at += [t] if int(state.public.pace.last) == t else []
    assert at == [1, 15]
    assert np.abs(state.public.estimates - [0, 1000]).max() < 10


def test_the_controller_follows_the_papers_rule():
    """Too many releases so far: up; too few: down; within the tolerance: still. P, I and D add
    up.
    """
    policy = DSAT(releases=10, gains=(0.1, 0.02, 0.05), burn_in=0, threshold=1.0, tolerance=0.1)
    series = made(policy, horizon=100).series
    pace = policy.begin(series)

    def at(step, made, last=1, errors=None):
        now = dataclasses.replace(
            pace, step=np.asarray(step), releases=np.asarray([made]), last=np.asarray(last)
        )
        now = now if errors is None else dataclasses.replace(now, errors=np.asarray(errors, float))
        return policy.controlled(series, now, 10)

    assert float(at(10, 1).threshold) == 1.0
    high = (1.5 - 1 - 0.1) / 0.1  # three releases where two are wanted
    up = at(20, 3, last=15, errors=[1, 2, 2, 2, 2, 2])
    assert float(up.threshold) == pytest.approx(
        1 + 0.1 * high + 0.02 * (high + 8) + 0.05 * (high - 1) / 5
    )
    assert up.errors.tolist() == pytest.approx([1, 2, 2, 2, 2, high])
    low = (1 - 0.5 - 0.1) / 0.1
    assert float(at(20, 1, last=15).threshold) == pytest.approx(
        1 - 0.1 * low - 0.02 * low - 0.05 * low / 5
    )
    assert float(at(1, 50).threshold) == 2.0
    sliding = made(policy, unit=Window(steps=50, column="id", records=1), horizon=None).series
    late = dataclasses.replace(policy.begin(sliding), step=np.asarray(1000), last=np.asarray(990))
    late = dataclasses.replace(late, releases=np.eye(1, 50, dtype=np.int64)[0] * 10)
    assert float(policy.controlled(sliding, late, 10).threshold) == 1.0, (
        "ten in the last 50 steps are as wanted"
    )


def test_the_share_of_theorem_54_needs_public_numbers_only():
    shares = [
        float(
            public_share(
                made(DSAT(releases=10), horizon=1000, domain=Schema(x=Integer(0, n))).series, 10
            )
        )
        for n in (9, 999, 99_999)
    ]
    assert shares[0] > shares[1] > shares[2]
    series = made(DSAT(releases=5), horizon=500, domain=Schema(x=Integer(0, 27_647))).series
    found = float(public_share(series, 5))
    k = np.linspace(0.001, 0.999, 999)
    s = 8 ** (2 / 3)
    noise = 2 * (1 + s) ** 2 + 2 * (8 * (1 + s) / s) ** 2
    best = k[np.argmin(noise / k**2 + 27_648 * 25 / (1 - k) ** 2)]
    assert found == pytest.approx(best, abs=0.002)
    assert found == float(public_share(dataclasses.replace(series, records=7), 5))


def test_absorbed_budget_is_paid_back():
    """A release that took the parts of three quiet steps is followed by two that release
    nothing.
    """
    mechanism = made(
        BudgetAbsorption(),
        unit=Window(steps=10, column="id", records=1),
        horizon=None,
        privacy=PureDP(epsilon=1000),
    )
    spy, state = Spy(Noise.insecure(1)), mechanism.init()
    paid = {}
    for t in range(1, 30):
        counts = np.zeros(15, np.int64)
        counts[0] = 10**6 * t * (t >= 5)
        state = mechanism.measure(state, Counts(counts, np.zeros_like(counts)), spy.at(t)).state
        if int(state.public.pace.last) == t:
            paid[t] = int(state.public.pace.paid)
    quiet = [t for t in paid if t > 1]
    assert paid[1] == 1
    assert quiet[0] == 5
    assert paid[5] == 4
    assert quiet[1] == 9, "three steps pay for it"


def test_distributed_budget_halves():
    mechanism = made(BudgetDistribution(), privacy=PureDP(epsilon=1000), horizon=30)
    record, _ = drawn(mechanism, 6)
    scales = [float(d.parameter) for d in record if "release" in d.path]
    assert np.allclose(np.array(scales[1:]) / scales[:-1], 2)


def test_full_frames_and_changes_lead_to_the_same_histogram():
    before, after = rows(0), rows(1)
    with (
        Stream(made(EveryStep()), noise=Noise.insecure(1)) as whole,
        Stream(made(EveryStep(), changes=True), noise=Noise.insecure(1)) as changing,
    ):
        whole.push(before)
        changing.push(before)
        first = whole.push(after).view.estimates
        second = changing.push(after, before).view.estimates
    assert np.abs(first - second).max() <= 40, "the same up to which rows of a person are accepted"
    assert made(changes=True).takes.name == "Events"
    assert made().takes.name == "Snapshots"


@pytest.mark.parametrize("unit", [PERSON, WINDOW], ids=["user", "window"])
def test_a_stream_counts_at_most_so_many_rows_of_a_person_in_a_snapshot(unit):
    crowd = pl.DataFrame(
        {"id": [1] * 500 + [2], "sex": ["f"] * 501, "age": [0, 1, 2, 3, 4] * 100 + [0]}
    )
    mechanism = made(EveryStep(), privacy=PureDP(epsilon=1000), unit=unit)
    with Stream(mechanism, noise=Noise.insecure(1)) as stream:
        shown = [stream.push(crowd).view for _ in range(3)]
    for view in shown:
        assert view.estimates.sum() == 3
    assert np.array_equal(shown[0].estimates, shown[2].estimates), "the same rows each time"
    alone = made(EveryStep(), privacy=PureDP(epsilon=1000), unit=unit)
    with Stream(alone, noise=Noise.insecure(1)) as stream:
        without = stream.push(crowd[:500]).view.estimates
    assert np.abs(shown[0].estimates - without).sum() == 1, "who else is there makes no difference"


def test_a_stream_is_kept_and_opened_again(tmp_path):
    mechanism = made(DSAT(releases=3, burn_in=1), Quadtree(), unit=WINDOW, horizon=None)
    kept = {}
    for name, cut in (("cut", True), ("whole", False)):
        stream = Stream.create(
            tmp_path / name, mechanism, population="test", noise=Noise.insecure(5)
        )
        for t in range(6):
            if cut and t == 3:
                stream.close()
                stream = Stream.open(tmp_path / name)
            kept[name, t] = stream.push(rows(t)).view
        assert stream.mechanism == mechanism
        stream.close()
    for t in range(6):
        assert np.array_equal(kept["cut", t].estimates, kept["whole", t].estimates)


def test_rows_stand_while_a_release_stands():
    with Stream(
        made(FixedSampling(releases=2), privacy=PureDP(epsilon=20)), noise=Noise.insecure(1)
    ) as stream:
        releases = [stream.push(rows(t)) for t in range(12)]
    for release in releases:
        fresh = release.view.measured == release.step
        assert fresh or (len(release.added.cells) == 0 and len(release.removed.cells) == 0)
    assert len(releases[0].rows.cells) > 0


def test_the_names_of_the_paper():
    about = {"domain": WARD, "privacy": PureDP(epsilon=1), "unit": PERSON, "horizon": 500}
    assert papers.dsft(threshold=0.1, **about).policy == DSFT(threshold=0.1, releases=5)
    assert papers.dsat(**about).policy == DSAT(releases=5)
    assert papers.dsat(**about).guarantee.loss == PureDP(epsilon=1)
    wide = {**about, "unit": Window(steps=200, column="id", records=1), "horizon": None}
    assert papers.dsat(**wide).policy.releases == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"unit": Event()}, "records=m"),
        ({"unit": User(column="id", events=2)}, "records=m"),
        ({"unit": WINDOW, "changes": True}, "whole snapshots"),
        ({"horizon": None, "policy": EveryStep()}, "divides a budget"),
        ({"horizon": None, "policy": DSAT()}, "divides a budget"),
        ({"policy": DSAT}, "policy must be"),
        ({"histogram": Quadtree}, "histogram must be"),
        ({"domain": "ward"}, "domain must be"),
        ({"privacy": 1}, "privacy must be"),
        ({"population": 0}, "population"),
        ({"privacy": PureDP(epsilon="1e-9")}, "sampler's range"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options, words):
    with pytest.raises(ConfigError, match=words):
        made(**options)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: DSFT(threshold=3),
        lambda: DSFT(threshold=0.1, share=1),
        lambda: DSAT(releases=0),
        lambda: DSAT(gains=(1, 2)),
        lambda: DSAT(tolerance=0),
        lambda: DSAT(burn_in=-1),
        lambda: Tracking(first=1),
        lambda: Hierarchy(fan_out=3),
        lambda: Quadtree(height=0),
    ],
)
def test_a_wrong_part_is_refused(wrong):
    with pytest.raises(ConfigError):
        wrong()


def test_an_endless_series_of_one_person_takes_a_policy_that_stops():
    mechanism = made(DSFT(threshold=0.1, releases=3), horizon=None)
    assert share(mechanism) == 1
    _, state = drawn(mechanism, 50)
    assert int(state.public.pace.spent.sum()) <= 3


@pytest.mark.parametrize(
    "static", [LaplaceBins(), Quadtree(), Hierarchy(fan_out=4)], ids=lambda s: type(s).__name__
)
def test_budget_distribution_lets_a_release_stand_while_nothing_happens(static):
    """The error of the next release, made with half, is twice that of the one that stands: noise
    alone is no reason for it.
    """
    wide = Schema(x=Integer(0, 63), y=Integer(0, 63))
    mechanism = made(BudgetDistribution(), static, domain=wide, horizon=20)
    noise, state, zeros = Noise.insecure(3), mechanism.init(), np.zeros(4096, np.int64)
    for t in range(20):
        state = mechanism.measure(state, Counts(zeros, zeros), noise.at(t)).state
    assert int(state.public.pace.last) == 1
