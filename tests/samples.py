"""Losses, units, data and runs that tests of several mechanisms share."""

import numpy as np
import polars as pl
import pytest
from hypothesis import settings

from tailrace import ZCDP, ApproxDP, Event, HistogramStream, Noise, PureDP, User
from tailrace.counting.plan import Counts
from tailrace.domain import Categorical, Schema

LOSSES = (PureDP(epsilon=1), ZCDP(rho=0.1), ApproxDP(epsilon=1, delta=1e-6))
UNITS = (Event(), User(column="id", events=2))
# the source of a configuration
FOLDER = 'kind = "Folder"\npath = "incoming"\nfiles = "*.csv"'
WARD = Schema(sex=Categorical(["f", "m"]))
DAY = pl.DataFrame({"id": [1, 2, 3], "sex": ["f", "m", "f"]})


# Every unit with every loss in the slow run; each of them at least once by default.
UNITS_AND_LOSSES = pytest.mark.parametrize(
    ("unit", "privacy"),
    [
        pytest.param(
            unit,
            loss,
            id=f"{type(unit).__name__}-{type(loss).__name__}",
            marks=[pytest.mark.slow] if i != j else [],
        )
        for i, unit in enumerate(UNITS)
        for j, loss in enumerate(LOSSES)
    ],
)


def but_spark(engines):
    """Engines as parameters. Spark takes seconds to start in each worker: by default one test of
    its releases does, in `e2e/test_engines.py`.
    """
    return [
        pytest.param(name, marks=pytest.mark.slow) if name == "pyspark" else name
        for name in engines
    ]


def unit_rows(plan, frame):
    """The ids and the cells of all rows of a small frame."""
    pieces = list(plan.rows(frame))
    if len(pieces) == 1:
        return pieces[0]
    ids = [part for piece, _ in pieces for part in (piece.tolist() if len(piece) else [])]
    cells = [cell for _, piece in pieces for cell in piece.tolist()]
    return np.array([*ids, None], object)[:-1], np.array(cells, np.int64)


def examples(many):
    """Try a property so many times in the slow run, and the profile's share of that by default."""
    return settings(max_examples=max(10, many * settings.default.max_examples // 100))


def ward(epsilon=1, unit=Event(), horizon=9):
    """A histogram of the ward."""
    privacy = PureDP(epsilon=epsilon)
    return HistogramStream(domain=WARD, privacy=privacy, unit=unit, horizon=horizon)


def rows(seed, many=30):
    """Rows of a ward in which some people come again, with places and trips."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": rng.integers(0, 12, many),
            "sex": rng.choice(["f", "m"], many, p=[0.8, 0.2]),
            "age": rng.integers(0, 4, many),
            "ward": rng.integers(0, 6, many),
            "x": rng.beta(2, 5, many),
            "y": rng.random(many),
            "trip": np.sort(rng.integers(0, 6, many)),
            "time": np.arange(many),
        }
    )


def changing(batch, many):
    """Steps of six kinds: added, changed twice, empty, many at once, changed a lot."""
    return [
        (batch(0), None),
        (batch(1), batch(0, 40)),
        (batch(2), batch(1, 20)),
        (None, None),
        (batch(3, many), None),
        (batch(4), batch(3, 300)),
    ]


def growing(batches):
    """The same, without deletes."""
    return [(adds, None) for adds, _ in batches]


def states(mechanism, batches, noise=None):
    """The states before the first step and after each."""
    noise, found = Noise.insecure(1) if noise is None else noise, [mechanism.init()]
    for step, (adds, deletes) in enumerate(batches, start=1):
        counts = mechanism.plan(found[-1].public).counts(adds, deletes)
        found.append(mechanism.measure(found[-1], counts, noise.at("step", step)).state)
    return found


def truth(mechanism, batches):
    """The exact counts of all marginals after these steps."""
    counts = [mechanism.plan(None).counts(*pair).net for pair in batches]
    return sum(counts, np.zeros(mechanism.marginals.size, np.int64))


def released(mechanism, counts, noise):
    """The public state after each step of these counts."""
    state = mechanism.init()
    for step, count in enumerate(counts):
        state = mechanism.measure(state, Counts(count, 0 * count), noise.at(step)).state
        yield state.public


def last_view(mechanism, counts, noise):
    *_, last = released(mechanism, counts, noise)
    return mechanism.view(last)


def paths(value, above=()):
    """Every path that can be followed in what TOML was read to."""
    inside = {dict: dict.items, list: enumerate}.get(type(value), lambda _: ())
    for key, part in inside(value):
        yield (*above, key)
        yield from paths(part, (*above, key))
