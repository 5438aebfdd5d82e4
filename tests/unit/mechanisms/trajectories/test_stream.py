"""Journeys every day: epochs, numbers, days, retention and routes that change."""

import numpy as np
import polars as pl
import pytest

from tailrace import Box, Event, JourneyStream, Noise, PureDP, Stream, User, Window
from tailrace.errors import ConfigError
from tailrace.mechanisms.trajectories.clock import DayClock

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)


def stream(epsilon=200, **more):
    parts = {"domain": SQUARE, "privacy": PureDP(epsilon=epsilon), "unit": Event(), "horizon": 12}
    return JourneyStream(**{**parts, "trajectory": "trip", "order": "at", **more})


def day(step, power=1, many=200):
    rng = np.random.default_rng(step)
    trip = np.repeat(np.arange(many), rng.integers(2, 15, many))
    at = np.arange(len(trip)) - np.searchsorted(trip, trip)
    start, pace = rng.random((many, 2)), rng.normal(0, 0.02, (many, 2))
    places = np.clip(start[trip] + at[:, None] * pace[trip], 0, 0.999) ** power
    when = at + rng.integers(480, 600, many)[trip] + 1440 * (step - 1)
    return pl.DataFrame(
        {"trip": trip, "at": when, "x": places[:, 0], "y": places[:, 1], "id": trip % 50}
    )


def played(made, days, seed=1):
    """The public state after each day."""
    state, noise = made.init(), Noise.insecure(seed)
    for step, rows in enumerate(days, 1):
        counts = made.plan(state.public).counts(rows)
        state = made.measure(state, counts, noise.at(step)).state
        yield state.public


def test_journeys_come_in_the_number_that_the_clock_says_and_on_their_day():
    clock = DayClock(start=0, end=1440)
    with Stream(stream(timing=clock, horizon=8), noise=Noise.insecure(1)) as made:
        for step in range(1, 5):
            release = made.push(day(step))
    table = release.table
    step = table["trip"] // 10**9
    assert table["trip"].n_unique() == pytest.approx(800, abs=60)
    assert sorted(step.unique().to_list()) == [1, 2, 3, 4]
    begins = table.group_by("trip").agg(pl.col("at").min())
    of_day = begins["at"] - 1440 * (begins["trip"] // 10**9 - 1)
    assert of_day.is_between(450, 630).mean() > 0.95


def test_ordinary_days_add_journeys_and_leave_the_others():
    with Stream(stream(), noise=Noise.insecure(1)) as made:
        releases = [made.push(day(step)) for step in range(1, 4)]
    closed = [release.view.fresh for release in releases]
    assert closed == [True, False, False]
    assert releases[1].removed.numbers.size == 0 and len(releases[1].added) > 0


def test_where_too_little_is_known_since_routes_changed_those_of_before_stay():
    made = stream(horizon=3, epsilon=400)
    assert 20 < made.needed < 200, "the last day alone has too few journeys to draw any"
    with Stream(made, noise=Noise.insecure(1)) as kept:
        before = kept.push(day(1))
        kept.push(day(2, power=8, many=20))
        last = kept.push(None)
    assert last.view.since == 1 and not last.view.fit.enough
    early = last.table.filter(pl.col("trip") // 10**9 == 1)
    assert len(early) > 0 and set(last.table["trip"]) == set(early["trip"])
    assert set(early["trip"]) <= set(before.table["trip"])


def test_a_journey_that_was_left_out_is_not_tried_again():
    with Stream(stream(epsilon=80), noise=Noise.insecure(1)) as made:
        releases = [made.push(day(step)) for step in range(1, 4)]
    first = [
        release.table.filter(pl.col("trip") // 10**9 == 1)["trip"].n_unique()
        for release in releases
    ]
    assert 0 < first[0] < 190, "some cost more than they are worth"
    assert len(set(first)) == 1


def test_a_retention_lets_journeys_leave():
    with Stream(stream(retention=2), noise=Noise.insecure(1)) as made:
        for step in range(1, 6):
            release = made.push(day(step))
    assert set((release.table["trip"] // 10**9).to_list()) == {4, 5}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_routes_that_change_are_followed_and_others_are_averaged(seed):
    same = [*played(stream(), [day(step) for step in range(1, 13)], seed)][-1]
    assert same.since == 0 and len(same.closes) == 3
    days = [day(step, power=1 if step < 7 else 3) for step in range(1, 13)]
    changed = [*played(stream(), days, seed)][-1]
    assert changed.since >= 4
    view = stream().view(changed)
    corner, all_ = (view.count(low=(0, 0), high=(end, 1)).value for end in (0.125, 1))
    assert corner / all_ > 0.4  # half of those that are cubed, an eighth of the others


@pytest.mark.parametrize("seed", [1, 2])
def test_the_watch_ends_an_epoch_when_journeys_begin_and_end_elsewhere(seed):
    """By growth it would last until step 60; the routes change after step 24."""
    made = stream(epsilon=100, horizon=60)
    same = [*played(made, [day(step) for step in range(1, 61)], seed)][-1]
    assert same.closes.tolist() == [1, 4, 16, 60] and same.since == same.base == 0
    days = [day(step, power=1 if step < 25 else 3) for step in range(1, 61)]
    publics = [*played(made, days, seed)]
    closes = publics[-1].closes.tolist()
    assert closes[:3] == [1, 4, 16] and 25 <= closes[3] <= 31
    # The next one ends as soon as journeys can be drawn of it, and tells of the new routes.
    assert int(publics[closes[3] - 1].base) == closes[3] and closes[4] == closes[3] + 1
    view = made.view(publics[closes[4] - 1])
    corner, all_ = (view.count(low=(0, 0), high=(end, 1)).value for end in (0.125, 1))
    assert corner / all_ > 0.4 and publics[-1].since >= 16


def test_the_watch_is_measured_at_every_step_also_on_quiet_ones():
    made = stream(epsilon=100, horizon=9)
    for step, public in enumerate(played(made, [day(1, many=30), None, None, day(4, many=20)]), 1):
        assert len(public.clock) == step and len(public.watched) == step
        assert public.watched.any(axis=1).all(), "noise is drawn for empty steps, too"
    assert public.watched.sum(axis=1) == pytest.approx([30, 0, 0, 20], abs=15)


def test_epochs_that_look_alike_tell_more_than_the_last():
    made = stream()
    publics = [*played(made, [day(step) for step in range(1, 13)])]
    last = publics[-1]
    told = last.track.journeys(made.setting(float(last.signal)))
    epochs = np.diff(last.clock[last.closes - 1], prepend=0)
    assert told == pytest.approx((epochs**2).sum() ** 0.5, rel=0.02)


def test_with_too_few_journeys_none_are_drawn():
    made = stream(epsilon=1)
    for public in played(made, [day(1), *[None] * 11]):
        view = made.view(public)
        assert view is None or (not view.born.any() and "No journeys are drawn" in view.advice)


def test_a_person_counts_within_the_bound_however_rows_are_split():
    for unit, most in (
        (User(column="id", events=3), 150),
        (Window(steps=2, column="id", events=1), 100),
    ):
        numbers = []
        for split in (False, True):
            with Stream(stream(epsilon=10**4, unit=unit), noise=Noise.insecure(1)) as made:
                for step in range(1, 5):
                    rows = day(step)
                    if split:
                        made.add(rows[::2])
                        made.push(rows[1::2])
                    else:
                        made.push(rows)
                numbers.append(made._standing.state.public.clock)
        assert np.array_equal(*numbers)
        assert numbers[0][-1] == pytest.approx(most, abs=3)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"unit": User(column="id")}, "unit is not bounded"),
        ({"timing": 7}, "timing must be DayClock"),
        ({"walks": 7}, "walks must be TurningWalks"),
        ({"order": "trip"}, "must be different columns"),
        ({"retention": 0}, "retention"),
    ],
)
def test_what_cannot_be_promised_is_refused(more, said):
    with pytest.raises(ConfigError, match=said):
        stream(**more)
