"""When an epoch ends: by the clock, and by public schedule whatever the clock says."""

import numpy as np
import pytest

from tailrace import PureDP
from tailrace.counters import Simple
from tailrace.mechanisms.shared.events import Clock, net


def clock(horizon=80, rows=1, origin=1, churn=0.5, epsilon=1000):
    return Clock(Simple(privacy=PureDP(epsilon=epsilon)), rows, horizon, origin, churn)


def ends(made, step, closed=0, pending=0.0, total=0.0):
    return made.ends(step=step, closed=closed, pending=pending, total=total)


def test_an_epoch_ends_when_enough_has_happened():
    assert ends(clock(), 7, 5, pending=50.0, total=100.0)
    assert not ends(clock(), 7, 5, pending=49.0, total=100.0)


def test_not_before_the_clock_is_sure():
    noisy = clock(epsilon=1)
    deviation = np.sqrt(noisy.variance(7, 5))
    assert deviation == pytest.approx(np.sqrt(2 * Simple(privacy=PureDP(epsilon=1)).variance(1)))
    assert not ends(noisy, 7, 5, pending=2.9 * deviation)
    assert ends(noisy, 7, 5, pending=3.1 * deviation)


def test_by_schedule_an_eighth_of_the_horizon_is_the_longest():
    assert not ends(clock(80), 14, 5, pending=-5.0)
    assert ends(clock(80), 15, 5, pending=-5.0)
    assert ends(clock(80), 80, 79, pending=-5.0), "the last step ends an epoch"
    assert ends(clock(3), 1, 0, pending=-5.0), "never less than a step"


def test_without_a_horizon_epochs_may_last_longer_as_time_goes_on():
    assert [ends(clock(None), 8, 0, pending=-5.0), ends(clock(None), 7, 0, pending=-5.0)] == [
        True,
        False,
    ]
    assert [
        ends(clock(None), 1125, 1000, pending=-5.0),
        ends(clock(None), 1124, 1000, pending=-5.0),
    ] == [True, False]


def test_what_comes_before_the_origin_is_not_counted():
    late = clock(80, origin=11, epsilon=1)
    assert late.variance(10, 0) == 0
    assert late.variance(12, 0) == pytest.approx(clock(epsilon=1).variance(2, 0))
    assert not ends(late, 19, 0, pending=-5.0) and ends(late, 20, 0, pending=-5.0)


def test_two_rows_have_twice_the_noise():
    assert clock(rows=2, epsilon=1).variance(9, 3) == pytest.approx(
        2 * clock(epsilon=1).variance(9, 3)
    )
    assert net(np.array([7.0, 2.0])) == 5.0 and net(np.array([7.0])) == 7.0
