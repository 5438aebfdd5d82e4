"""The meter over a grid of configurations and of noise: every mechanism, unit, neighbour and kind
of noise.
"""

import pytest

from samples import LOSSES, growing, rows
from tailrace import (
    ZCDP,
    AddRemove,
    ApproxDP,
    Box,
    Categorical,
    Event,
    HistogramStream,
    Integer,
    JourneyStream,
    Null,
    PanelColumns,
    PanelCumulative,
    PanelWindow,
    PureDP,
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
from tailrace.checks.mechanism import metered
from tailrace.checks.neighbours import neighbours
from tailrace.mechanisms.snapshot.adaptive import Adaptive
from tailrace.mechanisms.snapshot.levels import Quadtree
from tailrace.mechanisms.snapshot.tracking import Tracking
from tailrace.mechanisms.tabular.epochs import Selection
from tailrace.papers import PrivTreeStream, TabularSteps
from tailrace.papers.privtree.splits import PrivTree
from tailrace.papers.snapshot_policies import (
    DSAT,
    DSFT,
    BudgetAbsorption,
    BudgetDistribution,
    EveryStep,
    FixedSampling,
)
from tailrace.papers.snapshot_policies.static import Hierarchy, LaplaceBins

WARD = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 3), ward=Integer(0, 5))
SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
PURE, ZERO, APPROX = LOSSES
EVENTS = (Event(), User(column="id", events=1), User(column="id", events=3))


STREAM = [
    (rows(0), None),
    (rows(1), rows(0, 5)),
    (None, None),
    (rows(2, 5), rows(1, 9)),
    (rows(3), None),
]
GROWING = growing(STREAM)
# Enough for an epoch of several rounds, under little noise.
LOUD = {PureDP: PureDP(epsilon=30), ZCDP: ZCDP(rho=300), ApproxDP: ApproxDP(epsilon=60, delta=1e-6)}
ROUNDS = [(rows(5, 90), None), (rows(6, 300), rows(5, 9)), *STREAM[2:4]]
COLUMNS = [(adds if adds is None else adds.select("id", "sex", "ward"), None) for adds, _ in STREAM]
REPORTS = [(adds if adds is None else adds.select("id", "sex"), None) for adds, _ in STREAM]


def histograms():
    pure = (
        counters.Simple(),
        counters.Block(size=3),
        counters.BinaryTree(),
        counters.KaryTree(arity=3, levels=3),
    )
    gaussian = (counters.SqrtToeplitz(), counters.SqrtEven(), counters.KaryTree(subtract=False))
    for unit in EVENTS:
        for privacy, counter in [(PURE, one) for one in pure] + [(ZERO, one) for one in gaussian]:
            yield (
                HistogramStream(
                    domain=WARD, privacy=privacy, unit=unit, horizon=14, counter=counter
                ),
                STREAM,
            )
        endless = counters.Unbounded(counter=counters.KaryTree(arity=3, levels=2))
        for counter in (endless, counters.UnboundedBlock(squares=True), counters.Hybrid()):
            yield (
                HistogramStream(
                    domain=WARD, privacy=PURE, unit=unit, horizon=None, counter=counter
                ),
                STREAM,
            )


def places():
    for privacy in (PURE, ZERO, APPROX):
        for unit in EVENTS:
            common = {"domain": SQUARE, "privacy": privacy, "unit": unit}
            yield SpatialStream(horizon=6, **common), STREAM
            loud = {"privacy": LOUD[type(privacy)], "domain": SQUARE, "unit": unit}
            yield SpatialStream(horizon=6, **loud), ROUNDS
            yield SpatialStream(horizon=6, begin=2, **loud), ROUNDS
            yield SpatialStream(horizon=6, retention=3, **loud), growing(ROUNDS)
            yield SpatialStream(horizon=8, begin=3, deletes=False, **common), GROWING
            yield SpatialStream(horizon=None, retention=2, **common), GROWING
            yield PrivTreeStream(horizon=6, **common), STREAM
            deep = PrivTree(share=0.9, threshold=3, fan_out=4)
            yield PrivTreeStream(horizon=6, begin=2, structure=deep, **common), STREAM


def tables():
    for privacy in (PURE, ZERO, APPROX):
        for unit in EVENTS[::2]:
            common = {"domain": WARD, "privacy": privacy, "unit": unit, "horizon": 6}
            yield TabularStream(**common), STREAM
            yield TabularStream(selection=Selection(chosen=1), **common), STREAM
            yield TabularSteps(chosen=1, **common), STREAM


def windows():
    sizes = ((3, 2), (2, 1), (1, 2))
    for privacy, (steps, most) in zip((PURE, ZERO, APPROX), sizes, strict=True):
        unit = Window(steps=steps, column="id", events=most)
        common = {"domain": SQUARE, "privacy": privacy, "unit": unit}
        yield SpatialStream(horizon=9, **common), STREAM
        yield SpatialStream(horizon=8, begin=5, deletes=False, **common), GROWING
        yield SpatialStream(horizon=None, retention=2, **common), GROWING
        common = {"domain": WARD, "privacy": privacy, "unit": unit}
        yield TabularStream(horizon=9, **common), STREAM
        chosen = Selection(chosen=1)
        yield TabularStream(horizon=9, deletes=False, selection=chosen, **common), GROWING
        yield TabularSteps(horizon=9, chosen=1, **common), STREAM
        yield HistogramStream(horizon=9, **common), STREAM


def panels():
    for neighbours_ in (AddRemove, Replace, Null):
        for outside in ("drop", "other"):
            domain, people = Schema(sex=Categorical(["f", "m"], outside=outside)), None
            if neighbours_ is not AddRemove:
                people = 30
            common = {
                "unit": User(column="id"),
                "horizon": 7,
                "privacy": ZERO,
                "neighbours": neighbours_,
            }
            for complete in (False, True):
                common |= {"domain": domain, "people": people, "complete": complete}
                for window in (1, 2, 3) if outside == "drop" else (2,):
                    yield PanelWindow(window=window, **common), REPORTS
                for counter in (None, counters.BinaryTree()) if complete else (None,):
                    yield PanelCumulative(counter=counter, value="f", **common), REPORTS
            yield PanelWindow(window=2, **{**common, "horizon": None, "complete": False}), REPORTS
        columns = Schema(sex=Categorical(["f", "m"]), ward=Integer(0, 2))
        parts = {"unit": User(column="id"), "horizon": 7, "neighbours": neighbours_}
        yield PanelColumns(domain=columns, window=2, privacy=ZERO, **parts), COLUMNS


def snapshots():
    policies = (
        Adaptive(),
        Adaptive(season=3),
        Tracking(releases=3),
        EveryStep(),
        FixedSampling(releases=3),
        DSFT(threshold=0.1, releases=4),
        DSFT(threshold=0.01, releases=4, distance="kl"),
        DSAT(releases=4, burn_in=1, threshold=0.1),
        BudgetDistribution(),
        BudgetAbsorption(),
    )
    for policy in policies:
        for privacy in (PURE, ZERO):
            for unit in (User(column="id", records=2), Window(steps=3, column="id", records=2)):
                for static in (LaplaceBins(), Quadtree(), Hierarchy(fan_out=4)):
                    common = {
                        "privacy": privacy,
                        "unit": unit,
                        "horizon": 9,
                        "policy": policy,
                        "histogram": static,
                    }
                    yield (
                        SnapshotHistogram(
                            domain=Schema(age=Integer(0, 3), ward=Integer(0, 5)), **common
                        ),
                        GROWING,
                    )


def journeys():
    for privacy in (PURE, ZERO, APPROX):
        for unit in (Event(), User(column="id")):
            common = {
                "domain": SQUARE,
                "privacy": privacy,
                "unit": unit,
                "trajectory": "trip",
                "order": "time",
            }
            yield Trajectories(**common), [(rows(4, 80), None)]
            yield papers.trajectories(**common), [(rows(4, 80), None)]


def trips():
    batches = [(adds, None) for adds, _ in STREAM]
    people = (User(column="id", events=2), Window(steps=2, column="id", events=1))
    for privacy in (PURE, ZERO, APPROX):
        for unit in (Event(), *people):
            common = {"domain": SQUARE, "unit": unit, "trajectory": "trip", "order": "time"}
            yield JourneyStream(privacy=privacy, horizon=6, **common), batches
            loud = {"privacy": LOUD[type(privacy)], "retention": 2, **common}
            yield JourneyStream(horizon=None, **loud), batches


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [histograms, places, tables, windows, panels, snapshots, journeys, trips]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_neighbour_costs_more_than_is_claimed(family, seed):
    """And the claim is met by some, but where noise decides how much of it is spent."""
    largest = 0
    for mechanism, batches in family():
        for pair in neighbours(mechanism, batches):
            for (words, _, claim), measured in zip(
                pair.others, metered(mechanism, pair, seed=seed), strict=True
            ):
                assert measured.within(claim), (mechanism, words)
                largest = max(largest, measured.share(claim) or 0)
    # No journey has a whole in every count.
    assert largest > 0.85 if family in (journeys, trips) else largest == 1
