"""The ledger of `Adaptive` under the replay meter: on every path, what neighbours lose is within what
was paid; and planted faults are caught.
"""

from fractions import Fraction

import numpy as np
import pytest

from tailrace import ZCDP, Integer, Noise, PureDP, Schema, SnapshotHistogram, User, Window
from tailrace.checks.meter import Meter
from tailrace.counting.plan import Counts
from tailrace.mechanisms.snapshot import alarm, watching
from tailrace.mechanisms.snapshot.adaptive import Adaptive
from tailrace.mechanisms.snapshot.alarm import UNITS
from tailrace.mechanisms.snapshot.comparing import Comparing
from tailrace.storage.codec import pack

BINS, RECORDS, STEPS = 8, 2, 32
LINE = Schema(place=Integer(0, BINS - 1))
PURE, ZERO = PureDP(epsilon=40), ZCDP(rho=40)
PERSON = User(column="id", records=RECORDS)


def stream(privacy=PURE, unit=PERSON, horizon=STEPS, season=None):
    policy = Adaptive(season=season)
    return SnapshotHistogram(
        domain=LINE, privacy=privacy, unit=unit, horizon=horizon, policy=policy
    )


HERE, THERE = np.array([400, 300, 200, 100, 0, 0, 0, 0]), np.array([0, 0, 0, 0, 50, 90, 300, 600])


def bursts(steps):
    """Two places that people go between, so that alarms ring and levels are recalled."""
    return [THERE if t % 10 in (6, 7, 8) or t == steps - 1 else HERE for t in range(steps)]


def drift(steps):
    return [HERE + (THERE - HERE) * t // steps for t in range(steps)]


def measured(mechanism, counts, seed, moved=range(99)):
    """The loss of a person more, what was paid, and the last public state.

    Where the alarm rang the person is in a place that others left, which brings the snapshot nearer
    to what is shown; at other steps in one that is full.
    """
    meter, shown, rang = Meter(Noise.insecure(seed)), [], []
    none = np.zeros(BINS, np.int64)
    state = mechanism.init()
    for t, now in enumerate(counts):
        state = mechanism.measure(state, Counts(now, none), meter.at("step", t)).state
        shown.append(pack(state.public))
        rang.append(int(state.public.pace.rang[1]) == t + 1)
    meter.replay()
    state = mechanism.init()
    for t, now in enumerate(counts):
        with_one = now.copy()
        if t in moved:
            with_one[int(now.argmin() if rang[t] else now.argmax())] += RECORDS
        state = mechanism.measure(state, Counts(with_one, none), meter.at("step", t)).state
        assert pack(state.public) == shown[t]
    return meter.loss(), int(state.public.pace.spent.sum()), state.public.pace


def losses(privacy, series, seeds):
    """How much neighbours lose of what was paid, over paths."""
    for seed in seeds:
        loss, spent, course = measured(stream(privacy), series(STEPS), seed)
        assert 0 < spent <= UNITS
        part = Fraction(spent, UNITS)
        yield (
            (
                loss.epsilon / (part * privacy.epsilon)
                if isinstance(privacy, PureDP)
                else loss.rho / (part * privacy.rho)
            ),
            course,
        )


@pytest.mark.parametrize("series", [bursts, drift])
@pytest.mark.parametrize("privacy", [PURE, ZERO], ids=["pure", "zcdp"])
def test_what_is_lost_is_within_what_was_paid_on_every_path(privacy, series):
    found = list(losses(privacy, series, range(2)))
    assert max(share for share, _ in found) <= 1
    # Releases lose all that is paid for them; alarms that stayed silent lose less.
    assert min(share for share, _ in found) > Fraction(7, 10)
    assert max(int(course.alarms) for _, course in found) > 1
    if series is bursts:
        assert max(len(course.archive) for _, course in found) > 0, "levels were archived"


@pytest.mark.parametrize("start", [1, 9, 17])
def test_a_window_costs_the_alarms_that_looked_into_it(start):
    """An alarm that was open before the window, or stays open after it, is paid for inside."""
    unit = Window(steps=8, column="id", records=RECORDS)
    mechanism = stream(unit=unit, horizon=None)
    loss, _, course = measured(mechanism, bursts(STEPS), start, range(start, start + 8))
    assert loss.epsilon <= PURE.epsilon
    assert int(course.alarms) > 1


def overspent(patch):
    """The ledger forgets what was spent."""
    patch.setattr(watching.Watching, "rest", property(lambda self: UNITS))


def careless_alarm(patch):
    """The noise of a distance ignores that the threshold's noise moves too."""
    sound = Comparing.distance_scale.fget
    patch.setattr(Comparing, "distance_scale", property(lambda self: sound(self) / 2))


def quick_recall(patch):
    """The choice of a level is sharper than was paid for."""
    sound = alarm.recall_rate
    patch.setattr(alarm, "recall_rate", lambda *given: 20 * sound(*given))


def unpaid_alarm(patch):
    """An alarm is bought and not charged."""
    sound = watching.Watching.pay
    patch.setattr(watching.Watching, "pay", lambda self, units: sound(self, 1))


@pytest.mark.parametrize("fault", [careless_alarm, quick_recall, unpaid_alarm])
@pytest.mark.parametrize("privacy", [PURE, ZERO], ids=["pure", "zcdp"])
def test_a_planted_fault_is_caught(fault, privacy, monkeypatch):
    fault(monkeypatch)
    assert max(share for share, _ in losses(privacy, bursts, range(2))) > 1


def test_a_path_that_overspends_is_caught(monkeypatch):
    overspent(monkeypatch)
    loss, spent, _ = measured(stream(), drift(STEPS), 1)
    assert spent > UNITS
    assert loss.epsilon > PURE.epsilon
