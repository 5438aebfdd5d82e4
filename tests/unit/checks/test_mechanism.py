"""The conformance suite over every mechanism, and mutants that its checks must catch."""

import dataclasses
import inspect

import numpy as np
import polars as pl
import pytest

import tailrace
from samples import LOSSES, UNITS
from tailrace import (
    ZCDP,
    AddRemove,
    ApproxDP,
    Box,
    Categorical,
    Event,
    Guarantee,
    HistogramStream,
    Integer,
    JourneyStream,
    Missing,
    Noise,
    Null,
    PanelColumns,
    PanelCumulative,
    PanelWindow,
    PureDP,
    Real,
    Replace,
    Schema,
    SnapshotHistogram,
    SpatialStream,
    TabularStream,
    Trajectories,
    User,
    Window,
    counters,
    papers,
)
from tailrace.checks import check_mechanism
from tailrace.counting.plan import Plan
from tailrace.mechanisms.base import State, Step, Table
from tailrace.papers import PrivTreeStream, TabularSteps

WARD = Schema(
    sex=Categorical(["f", "m"], outside="other"),
    age=Integer(0, 4),
    weight=Real(edges=[0, 50, 100], outside="clip"),
)


def batch(seed, count=40):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "sex": rng.choice(["f", "m", "x"], count),
            "age": rng.integers(-1, 6, count),
            "weight": rng.normal(50, 40, count),
            "id": rng.integers(0, 25, count),
        }
    )


BATCHES = [
    (batch(0), None),
    (batch(1), batch(0, 10)),
    (batch(2, 0), batch(1, 5)),
    (None, None),
    (batch(3), None),
]


def histograms():
    for privacy in LOSSES:
        for unit in UNITS:
            yield HistogramStream(domain=WARD, privacy=privacy, unit=unit, horizon=12)
            yield HistogramStream(
                domain=WARD, privacy=privacy, unit=unit, horizon=None, deletes=False
            )
    yield HistogramStream(
        domain=WARD,
        privacy=PureDP(epsilon=1),
        unit=Event(),
        horizon=12,
        counter=counters.Block(size=4),
    )


def reports(step, count=60):
    """People who report once, twice, differently, out of the domain, without an id, or not at all;
    some join late.
    """
    rng = np.random.default_rng(100 + step)
    people = rng.permutation(20 + 10 * step)[:count].tolist()
    ids = [*people, *people[:5], None]
    status = rng.choice(["no", "yes", "?"], len(ids), p=[0.6, 0.35, 0.05])
    return pl.DataFrame({"id": ids, "status": status, "ill": rng.integers(0, 2, len(ids))})


REPORTS = [(reports(step), None) for step in range(3)] + [
    (None, None),
    (reports(4), None),
    (reports(5), None),
]


def panels():
    two, three = (
        Schema(status=Categorical(["no", "yes"], outside=outside)) for outside in ("drop", "other")
    )
    approx = ApproxDP(epsilon=1, delta=1e-6)
    for privacy, neighbours in (
        (ZCDP(rho=0.1), Null),
        (ZCDP(rho=0.1), Replace),
        (approx, AddRemove),
    ):
        common = {
            "unit": User(column="id"),
            "horizon": 6,
            "privacy": privacy,
            "neighbours": neighbours,
            "people": None if neighbours is AddRemove else 100,
        }
        yield PanelWindow(domain=two, window=3, **common)
        yield PanelWindow(domain=two, window=3, complete=True, **common)
        yield PanelCumulative(domain=two, missing=Missing.Drop, **common)
    several = {name: value for name, value in common.items() if name != "people"}
    columns = Schema(status=two.attributes[0], ill=Integer(0, 1))
    yield PanelColumns(domain=columns, window=2, **several)
    yield PanelWindow(domain=three, window=2, missing=Missing.Category, **common)
    yield papers.panel_window(domain=two, window=1, missing=Missing.Drop, **common)
    yield papers.panel_cumulative(domain=three, missing=Missing.Category, **common)


@pytest.mark.parametrize(
    "mechanism",
    list(panels()),
    ids=lambda m: f"{type(m).__name__}-{type(m.privacy).__name__}-{m.neighbours}-{m.missing.name}",
)
def test_conformance_of_panels(mechanism):
    check_mechanism(mechanism, REPORTS)


SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)


def points(seed, count=40):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {"id": rng.integers(0, 20, count), "x": rng.beta(2, 5, count), "y": rng.random(count)}
    )


POINTS = [
    (points(0), None),
    (points(1), points(0).head(9)),
    (None, None),
    (points(2), None),
    (points(3), points(2)),
]


def spatials():
    common = {"domain": SQUARE, "privacy": PureDP(epsilon=1), "unit": Event(), "horizon": 5}
    yield SpatialStream(**common)
    yield PrivTreeStream(**common)


@pytest.mark.parametrize("mechanism", list(spatials()), ids=lambda m: type(m).__name__)
def test_conformance_of_spatial_streams(mechanism):
    check_mechanism(mechanism, POINTS)


def journeys(seed, count=30):
    """Trips of one point and of many, by people with one and with many, some rows without an id, a
    time or a place.
    """
    rng = np.random.default_rng(seed)
    trip = np.repeat(np.arange(count), rng.integers(1, 20, count))
    rows = len(trip)
    walk = rng.normal(0, 0.05, (rows, 2)).cumsum(axis=0) % 1
    missing = rng.random((3, rows)) < 0.03
    frame = {
        "trip": [
            None if gone else int(number) for number, gone in zip(trip, missing[0], strict=True)
        ],
        "time": [
            None if gone else int(at)
            for at, gone in zip(rng.permutation(rows), missing[1], strict=True)
        ],
        "x": np.where(missing[2], np.nan, walk[:, 0]),
        "y": walk[:, 1],
        "id": [f"p{number % 7}" for number in trip],
    }
    return pl.DataFrame(frame).sample(fraction=1, shuffle=True, seed=seed)


def trajectories():
    for privacy in (PureDP(epsilon=2), ZCDP(rho=0.5), ApproxDP(epsilon=2, delta=1e-6)):
        for unit in (Event(), User(column="id")):
            common = {
                "domain": SQUARE,
                "privacy": privacy,
                "unit": unit,
                "trajectory": "trip",
                "order": "time",
            }
            yield Trajectories(**common)
            yield papers.trajectories(**common)


def trips():
    """Streams of journeys, a unit and a loss each; with times, and with a retention."""
    losses = (PureDP(epsilon=200), ZCDP(rho=9), ApproxDP(epsilon=2, delta=1e-6))
    units = (
        Event(),
        User(column="id", events=2),
        Window(steps=2, column="id", events=1),
    )
    day = tailrace.trajectories.DayClock(start=0, end=60)
    for privacy, unit, more in zip(
        losses, units, ({"timing": day}, {}, {"retention": 2}), strict=True
    ):
        parts = {"domain": SQUARE, "privacy": privacy, "unit": unit, "horizon": 5, **more}
        yield JourneyStream(trajectory="trip", order="time", **parts)


@pytest.mark.parametrize("mechanism", list(trips()), ids=lambda m: type(m.unit).__name__)
def test_conformance_of_streams_of_journeys(mechanism):
    check_mechanism(mechanism, [(journeys(0), None), (None, None), (journeys(1), None)])


@pytest.mark.parametrize(
    "mechanism",
    list(trajectories()),
    ids=lambda m: f"{type(m.privacy).__name__}-{type(m.unit).__name__}-{type(m).__name__}",
)
def test_conformance_of_trajectories(mechanism):
    check_mechanism(mechanism, [(journeys(0), None)])


@pytest.mark.parametrize(
    "mechanism",
    list(histograms()),
    ids=lambda m: f"{type(m.privacy).__name__}-{type(m.unit).__name__}-{m.horizon}",
)
def test_conformance(mechanism):
    check_mechanism(mechanism, BATCHES)


def tabulars():
    common = {"domain": WARD, "privacy": PureDP(epsilon=1), "unit": Event(), "horizon": 12}
    yield TabularStream(**common)
    yield TabularSteps(**common)


@pytest.mark.parametrize("mechanism", list(tabulars()), ids=lambda m: type(m).__name__)
def test_conformance_of_tabular_streams(mechanism):
    check_mechanism(mechanism, BATCHES)


def test_every_mechanism_of_the_package_is_in_the_suite():
    public = (*(getattr(tailrace, name) for name in tailrace.__all__), *vars(papers).values())
    known = {cls for cls in public if inspect.isclass(cls) and hasattr(cls, "measure")}
    elsewhere = {SnapshotHistogram}  # in test_snapshot.py
    here = (*histograms(), *panels(), *spatials(), *tabulars(), *trajectories(), *trips())
    assert known == elsewhere | {type(mechanism) for mechanism in here}


SOUND = {"domain": WARD, "privacy": PureDP(epsilon=1), "unit": Event(), "horizon": 12}


def mutant(**methods):
    return dataclasses.dataclass(frozen=True, kw_only=True)(
        type("Mutant", (HistogramStream,), methods)
    )(**SOUND)


def tampered(change):
    def measure(self, state, counts, noise):
        step = HistogramStream.measure(self, state, counts, noise)
        return change(self, state, counts, noise, step) or step

    return mutant(measure=measure)


def changes_counts(self, state, counts, noise, step):
    counts.adds[...] += 1


def draws_elsewhere(self, state, counts, noise, step):
    Noise.insecure(0).laplace(1, 1)
    public = dataclasses.replace(
        step.state.public, estimates=step.state.public.estimates + np.random.default_rng().normal()
    )
    return Step(State(public, step.state.private))


def draws_nothing(self, state, counts, noise):
    public = dataclasses.replace(
        state.public, step=np.asarray(state.public.step + 1), estimates=counts.net.astype(float)
    )
    return Step(State(public, state.private))


def forgets_quiet_days(self, state, counts, noise):
    if not counts.adds.any() and not counts.deletes.any():
        return Step(state)
    return HistogramStream.measure(self, state, counts, noise)


def shuffles(self, view, previous, rng):
    sample = HistogramStream.sample(self, view, previous, rng)
    order = rng.permutation(len(sample.table.cells))
    made = sample.table
    table = Table(made.cells[order], made.columns, made.numbers, made.born)
    return dataclasses.replace(sample, table=table)


class CountsLazyFramesTwice(Plan):
    def count(self, frame):
        return Plan.count(self, frame) * (2 if isinstance(frame, pl.LazyFrame) else 1)


class CountsOddly(Plan):
    def count(self, frame):
        return Plan.count(self, frame) // 2


def for_somebody_else(self):
    return Guarantee(PureDP(epsilon=1), User(column="id"), self.neighbours, self.horizon)


def ninety_nine(self):
    return Guarantee(PureDP(epsilon=99), self.unit, self.neighbours, self.horizon)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (tampered(changes_counts), "measure does not change its state or counts"),
        (tampered(draws_elsewhere), "a replay gives the same states"),
        (mutant(measure=draws_nothing), "other noise gives other releases"),
        (mutant(measure=forgets_quiet_days), "an empty batch draws noise too"),
        (
            mutant(plan=lambda self, public: CountsOddly(codes=self.domain)),
            "counts of parts add up",
        ),
        (
            mutant(plan=lambda self, public: CountsLazyFramesTwice(codes=self.domain)),
            "the same on lazy Polars",
        ),
        (mutant(sample=shuffles), "rows that stay come first"),
        (mutant(guarantee=property(for_somebody_else)), "the guarantee is for the declared unit"),
        (mutant(guarantee=property(lambda self: ninety_nine(self))), "within the declared loss"),
        (mutant(guarantee=property(lambda self: "trust me")), "states its guarantee"),
    ],
)
def test_a_broken_mechanism_is_caught_by_the_promise_it_breaks(broken, promise):
    with pytest.raises(AssertionError, match=promise):
        check_mechanism(broken, BATCHES)
