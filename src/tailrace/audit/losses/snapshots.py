"""Snapshots: thresholds, scales and ledgers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tailrace.audit import gallery
from tailrace.audit.losses.replaying import Points, metered
from tailrace.checks.spy import Spy
from tailrace.counting.plan import Counts
from tailrace.domain import Integer, Schema
from tailrace.mechanisms.snapshot.histogram import SnapshotHistogram
from tailrace.noise import Noise
from tailrace.papers.snapshot_policies import DSAT, DSFT
from tailrace.papers.snapshot_policies.static import LaplaceBins
from tailrace.privacy.loss import PureDP
from tailrace.privacy.unit import User, Window

_LINE = Schema(place=Integer(0, 7))


def _answers(distances: Any, answers: Any, threshold_scale: float, distance_scale: float) -> float:
    return gallery.answers_log_probability(
        np.asarray(distances),
        np.asarray(answers),
        threshold=0,
        threshold_scale=threshold_scale,
        distance_scale=distance_scale,
    )


def _scales(policy: Any, unit: Any = None, epsilon: int = 2) -> tuple[float, float]:
    """The scales of threshold and distance that a policy draws."""
    unit = unit or User(column="id", records=1)
    made = SnapshotHistogram(
        domain=_LINE,
        privacy=PureDP(epsilon=epsilon),
        unit=unit,
        horizon=100,
        policy=policy,
        histogram=LaplaceBins(),
        population=1000,
    )
    spy, state = Spy(Noise.insecure(1)), made.init()
    for t in range(6):
        far = np.zeros(8, np.int64)
        far[t] = 10**6
        state = made.measure(state, Counts(far, 0 * far), spy.at(t + 1)).state
    found = {
        name: next(float(d.parameter) for d in spy.record if d.path[-1] == name)
        for name in ("threshold", "distance")
    }
    return found["threshold"], found["distance"]


def _moved(threshold: float, distance: float, positives: int, negatives: int = 10**5) -> float:
    """Negatives at 0 and positives at 1, against the other way round."""
    answers = np.repeat([False, True], [negatives, positives])
    logs = [
        _answers(np.repeat([low, high], [negatives, positives]), answers, threshold, distance)
        for low, high in ((0, 1), (1, 0))
    ]
    return logs[0] - logs[1]


def threshold_noise() -> Points:
    points: Points = []
    for releases in (2, 5, 10, 20):
        ours = _scales(DSFT(threshold=0.1, releases=releases, share="1/2"))
        points.append(
            (releases, _moved(2, 2 * releases, releases - 1), _moved(*ours, releases - 1))
        )
    return points


def threshold_scales() -> Iterator[tuple[str, float, float]]:
    for releases in (5, 20):
        ours = _scales(DSFT(threshold=0.1, releases=releases, share="1/2"))
        yield f"C = {releases}, noise of a distance", 2.0 * releases, ours[1]
        yield f"C = {releases}, noise of the threshold", 2.0, ours[0]


def clamped_threshold() -> Points:
    ours, points = _scales(DSAT(releases=5, share="1/2", burn_in=1, threshold=0.3)), []
    for many in (10, 50, 100, 200):
        lost = []
        for scales in ((1e-3, 10.0), ours):
            logs = [_answers(np.full(many, d), np.zeros(many, bool), *scales) for d in (0, 1)]
            lost.append(logs[0] - logs[1])
        points.append((many, *lost))
    return points


def private_scale() -> Points:
    """What the scale alone loses comes on top of epsilon_1; a public one loses nothing."""
    ours = _moved(*_scales(DSFT(threshold=0.1, releases=2, share="1/2")), 1)
    points: Points = []
    for people in (10, 100, 1000, 10_000):
        scales = [
            gallery.published_distance_scale(n, releases=1, epsilon=1) for n in (people, people + 1)
        ]
        points.append((people, 1 + 2 / scales[1] - 2 / scales[0], ours))
    return points


def shared_threshold() -> Points:
    window = Window(steps=20, column="id", records=1)
    ours = _scales(DSAT(releases=2, share="1/2", burn_in=0), window)
    points: Points = []
    for outside in (0, 10, 30, 100):
        answers = np.concatenate([np.repeat([True, False], outside), np.zeros(40, bool)])
        before = np.zeros(2 * outside, np.int64)
        logs = [
            _answers(np.concatenate([before, np.full(40, 20 + moved)]), answers, 4.0, 4.0)
            for moved in (0, 1)
        ]
        # an epoch of ours costs a third, and a window meets three
        points.append((outside, abs(logs[0] - logs[1]), 3 * _moved(*ours, 1)))
    return points


def float_ledger() -> Points:
    """Releases within one window, of those that are paid for."""
    points: Points = []
    for releases in (3, 6, 10):
        window = Window(steps=20, column="id", records=1)
        made = SnapshotHistogram(
            domain=_LINE,
            privacy=PureDP(epsilon=100),
            unit=window,
            horizon=40,
            policy=DSFT(threshold=0, releases=releases),
            histogram=LaplaceBins(),
        )
        state, noise, at = made.init(), Noise.insecure(2), []
        for t in range(1, 41):
            far = np.zeros(8, np.int64)
            far[t % 8] = 10**6
            state = made.measure(state, Counts(far, 0 * far), noise.at(t)).state
            at.append(int(state.public.pace.last) == t)
        most = max(sum(at[first : first + 20]) for first in range(20))
        printed = gallery.float_ledger_releases(releases, 1.0)
        points.append((releases, printed / releases, most / releases))
    return points


def true_snapshot() -> Points:
    """Lines 5 and 13 print the true snapshot."""
    shown_ = [
        gallery.published_window(
            np.full((3, 2), people),
            window=2,
            releases=1,
            epsilon=1,
            far=np.array([True, False, False]),
            noise=np.full((3, 2), 5.0),
        )[1]
        for people in (10, 11)
    ]
    lost = math.inf if not np.array_equal(*shown_) else 0.0
    unit = User(column="id", records=1)
    made = SnapshotHistogram(
        domain=Schema(a=Integer(0, 1)),
        privacy=PureDP(epsilon=2),
        unit=unit,
        horizon=4,
        policy=DSFT(threshold=0.1, releases=2),
        histogram=LaplaceBins(),
    )
    return [("a step without a release", lost, metered(made))]
