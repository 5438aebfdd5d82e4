"""Kumar, Strohmer and Vershynin: streams of places.

The whole world's Gowalla and New York's taxis cannot be had here. Gowalla is that of New York, and
the world's are drawn from a histogram of all of it, at New York's pace; Uber's pickups, 100,000 of
them by the hour of a week, stand in for taxis.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.counters import BinaryTree, Block, Simple, best
from tailrace.counting.plan import Counts
from tailrace.domain.geometry.partition import Ground
from tailrace.experiments import spatial_baselines, spatial_data
from tailrace.experiments.paper import Curves, Paper, Pivot, Scatters, thousandths
from tailrace.experiments.runner import NotHereError, mean_error
from tailrace.experiments.spatial_baselines import Points
from tailrace.experiments.spatial_data import Steps, in_cells
from tailrace.mechanisms.spatial.stream import SpatialStream
from tailrace.metrics.ranges import Rectangles, count, error_of_counts, standard_queries
from tailrace.noise import Noise
from tailrace.papers import privstream
from tailrace.privacy.loss import PureDP
from tailrace.privacy.unit import Event, Unit, User
from tailrace.stream.state import no_rows

FRESH = 2026  # of generated streams and rectangles; noise seeds follow it
CLASSES = ("small", "medium", "large")
HALF, QUARTER = "PrivStream, 1/2 for the tree", "PrivStream, 1/4 for the tree"
BLOCK, RERUN = "PrivStream, Block 8", "Baseline 1, not private"
DIFFERENTIAL, FIXED = "Baseline 2", "Baseline 3"
PAPER = Paper(
    "spatial",
    "Places: Kumar, Strohmer and Vershynin, repeated",
    "PrivStream: An Algorithm for Streaming Differentially Private Data (2024), and chapter 3 of"
    " Kumar's dissertation",
)


@dataclass(frozen=True)
class Data:
    """A stream with the steps it is judged at, and the true answers there."""

    domain: Ground
    stream: Steps
    begin: int
    retention: int | None
    queries: dict[str, Rectangles]
    true: dict[int, tuple[int, dict[str, np.ndarray]]]  # step -> points, counts of the rectangles
    cells: list[tuple[np.ndarray, np.ndarray]]


def judged(domain: Ground, stream: Steps, begin: int, retention: int | None = None) -> Data:
    """A stream with the rectangles and steps it is judged by."""
    queries = standard_queries(np.random.default_rng(FRESH), low=domain.low, high=domain.high)
    start = begin if begin > 1 else 0
    # 19 steps fall on every place in an epoch, 20 would be its end.
    apart = (len(stream) - start) // 10 - bool(retention)
    steps = [start + apart * k for k in range(1, 11)]
    there = {step: spatial_data.present(stream, step) for step in steps}
    true = {
        step: (len(p), {kind: count(p, q) for kind, q in queries.items()})
        for step, p in there.items()
    }
    cells = [(in_cells(domain, adds), in_cells(domain, deletes)) for adds, deletes in stream]
    return Data(domain, stream, begin, retention, queries, true, cells)


def synthetic(mechanism: Any, of: Data, seed: int, *, deletes: bool = True) -> Points:
    """Points at the steps that count, by straight calls of a mechanism."""
    noise, rng = Noise.insecure(seed), np.random.default_rng(seed)
    state, table = mechanism.init(), no_rows(mechanism)
    for step, (adds, gone) in enumerate(of.cells, start=1):
        plan = mechanism.plan(state.public)
        counts = Counts(plan.tally(adds), plan.tally(gone if deletes else gone[:0]))
        state = mechanism.measure(state, counts, noise.at("step", step)).state
        if step in of.true:
            table = mechanism.sample(mechanism.view(state.public), table, rng).table
            yield step, spatial_baselines.coordinates(table, of.domain)


def released(of: Data, epsilon: float, method: str, seed: int, unit: Unit | None = None) -> Points:
    """A method's points at the steps that count."""
    about: dict[str, Any] = {
        "domain": of.domain,
        "privacy": PureDP(epsilon=epsilon),
        "unit": unit or Event(),
        "horizon": len(of.stream),
    }
    deletes, kept = any(len(gone) for _, gone in of.stream), of.retention is None
    if method.startswith("ours"):
        begin = of.begin if method == "ours" else 1
        ours = SpatialStream(**about, begin=begin, retention=of.retention, deletes=deletes and kept)
        return synthetic(ours, of, seed, deletes=kept)
    if method.startswith("PrivStream"):
        share, counter = "1/4" if method == QUARTER else "1/2", None
        if method == BLOCK:
            counter = Block(size=8)
        theirs = privstream(**about, share=share, counter=counter, begin=of.begin, deletes=deletes)
        return synthetic(theirs, of, seed)
    given: dict[str, Any] = {"epsilon": epsilon, "steps": list(of.true), "seed": seed, "unit": unit}
    if method == RERUN:
        return spatial_baselines.rerun(of.stream, of.domain, **given)
    if method == DIFFERENTIAL:
        return spatial_baselines.differential(of.stream, of.domain, **given)
    if method == FIXED:
        return spatial_baselines.fixed(of.stream, of.domain, begin=of.begin, **given)
    return ((step, np.zeros((0, len(of.domain.columns)))) for step in of.true)


def errors(of: Data, points: Points) -> np.ndarray:
    """(steps, 6): all rectangles, and those at or above the floor, of each class."""
    found = []
    for step, there in points:
        total, true = of.true[step]
        each = [
            error_of_counts(true[kind], count(there, of.queries[kind]), total) for kind in CLASSES
        ]
        found.append([error.every for error in each] + [error.held for error in each])
    return np.array(found)


# The paper's streams: how they are made, and the steps that their first release waits for.
STREAMS = {
    "Gowalla": ("gowalla", {}, (100, 200)),
    "Gowalla, deleted after 30 steps": ("gowalla", {"stay": 30}, (150, 225)),
    "Gowalla, the world's land": ("world", {}, (100,)),
    "pickups, New York State": ("pickups", {"where": "new_york_state"}, (2, 40)),
    "pickups, Manhattan's roads": ("pickups", {"where": "manhattan"}, (2, 40)),
    "circles that grow": ("both_circles", {"seed": FRESH}, (10, 50)),
    "circles that move": ("circles", {"seed": FRESH}, (10, 50)),
}
# As charts name them.
METHODS = {
    "ours": "ours",
    "PrivStream": HALF,
    "PrivStream, Block 8": BLOCK,
    "Baseline 1, no DP": RERUN,
    "Baseline 2": DIFFERENTIAL,
    "Baseline 3": FIXED,
    "an empty table": "",
}
# Left out of charts, as in the paper: their errors distort the scale.
LARGE = ("PrivStream, Block 8", "Baseline 2")
PLACE = ("data", "epsilon", "t0")
NEEDS = ("gowalla_nyc", "dpcomp_hist", "land", "roads", "uber_nyc_2014")


@functools.lru_cache(maxsize=1)
def known(name: str, begin: int, most: int) -> Data:
    """A stream of the paper, or a generated city of its length where it is not here.

    `most`: only so many steps after the first release.
    """
    made, options, _ = STREAMS[name]
    try:
        found = getattr(spatial_data, made)(**options)
    except NotHereError:
        steps, made = 168 if made == "pickups" else 300, "city"
        found = spatial_data.city(steps=steps, stay=options.get("stay"), seed=FRESH)
    box = spatial_data.NEW_YORK if made == "gowalla" else spatial_data.SQUARE
    domain, stream = found if isinstance(found, tuple) else (box, found)
    return judged(domain, stream[: begin + most], begin)


@PAPER.exhibit(
    "Figures 1 and 10 to 15: error over time",
    "Mean relative error of range counts over time, by privacy budget and first release t0. The"
    " paper draws small rectangles and prints no numbers; it leaves Block 8 and Baseline 2 out for"
    " their large errors. It finds PrivStream close to Baseline 1, which is not private, better"
    " than Baseline 2, and better than Baseline 3 where the first release comes early. Ours"
    " protects an event with its deletion, the paper's sensitivity 2. Figure 10 is Gowalla, 11"
    " Gowalla with deletions, 12 New York State, 13 Manhattan, 14 and 15 circles; figure 1 is"
    " epsilon .5. Numbers in the table are means over time, of small rectangles.",
    "papers_spatial_time",
    keys="data | epsilon | t0 | method | step",
    columns="small .4f | medium .4f | large .4f",
    cases=[
        (name, epsilon, begin, method)
        for name, (_, _, begins) in STREAMS.items()
        for epsilon in (0.5, 1.0, 2.0)
        for begin in begins
        for method in METHODS
    ],
    few=[
        (name, 0.5, STREAMS[name][2][0], method)
        for name in ("Gowalla", "pickups, Manhattan's roads", "circles that move")
        for method in METHODS
    ],
    quick={"seeds": 1, "steps": 50},
    charts=Curves(
        "step",
        "small",
        "method",
        per=PLACE,
        without=LARGE,
        caption="Small rectangles over time.",
    ),
    table=Pivot(PLACE, ("small",), across="method", ratio=("ours", "PrivStream")),
    needs=NEEDS,
)
def over_time(name, epsilon, begin, method, seeds=1, steps=300):
    of = known(name, begin, steps)
    runs = [
        errors(of, released(of, epsilon, METHODS[method], FRESH + seed))
        for seed in range(1, seeds + 1)
    ]
    for step, means in zip(of.true, np.mean(runs, axis=0), strict=True):
        yield [name, epsilon, begin, method, step, *means[:3]]


@PAPER.exhibit(
    "Sensitivity and batch size",
    "The paper: low sensitivity and large batches help (it prints no numbers). Circles that move,"
    " epsilon .5, first release at a tenth; a person may add so many points, and a step has so many"
    " events.",
    "papers_spatial_sensitivity",
    keys="sensitivity | events a step | method",
    columns="small | medium | large",
    cases=[
        (events, batch, method)
        for events, batch in ((1, 500), (2, 500), (4, 500), (1, 250), (1, 1000))
        for method in ("ours", "PrivStream")
    ],
    few=[(events, 500, method) for events in (1, 4) for method in ("ours", "PrivStream")],
    quick={"seeds": 1, "steps": 50},
    table=Pivot(
        ("sensitivity", "events a step"), ("small",), across="method", ratio=("ours", "PrivStream")
    ),
)
def sensitivity(events, batch, method, seeds=3, steps=100):
    stream = spatial_data.circles(steps=steps, events=batch, seed=FRESH)
    of, unit = judged(spatial_data.SQUARE, stream, steps // 10), User(column="id", events=events)
    runs = (released(of, 0.5, METHODS[method], FRESH + seed, unit) for seed in range(1, seeds + 1))
    found = np.array([errors(of, points).mean(axis=0)[:3] for points in runs])
    pairs = zip(found.mean(axis=0), mean_error(found), strict=True)
    yield [events, batch, method, *(f"{mean:.4f}+-{error:.4f}" for mean, error in pairs)]


@PAPER.exhibit(
    "Figures 3 and 5 to 9: the points themselves",
    "True and synthetic points at four steps at epsilon .5, 500 of each chosen at random, and how"
    " many there are.",
    "papers_spatial_points",
    keys="data | method | step",
    columns="points there | points",
    cases=[
        (name, method)
        for name in ("Gowalla", "pickups, Manhattan's roads", "circles that move")
        for method in ("true", "PrivStream", "ours")
    ],
    quick={"steps": 50},
    charts=Scatters("step", "method", per=("data",)),
    table=Pivot(("data", "step"), ("points there",), across="method"),
    needs=NEEDS,
)
def scattered(name, method, steps=300):
    of, rng = known(name, STREAMS[name][2][0], steps), np.random.default_rng(FRESH)
    shown: Any = ((step, spatial_data.present(of.stream, step)) for step in of.true)
    if method != "true":
        shown = released(of, 0.5, METHODS[method], FRESH + 1)
    for step, places in [*shown][::3]:
        some = rng.permutation(places)[:500]
        cell = thousandths(some, of.domain.low, of.domain.high)
        yield [name, method, step, len(places), cell]


COUNTERS = {
    "Simple": Simple,
    "Block 8": functools.partial(Block, size=8),
    "Binary tree": BinaryTree,
    "ours, counters.best": best,
}


@PAPER.exhibit(
    "Figure 2: counters",
    "Absolute errors of running sums of random bits at epsilon .5, means over runs. The paper draws"
    " them up to a few hundred steps and finds the binary tree worst below 100; it prints no"
    " numbers. The binary tree has the scale that its guarantee needs.",
    "papers_spatial_counters",
    keys="counter | step",
    columns="error .3f",
    cases=[(name,) for name in COUNTERS],
    charts=Curves("step", "error", "counter", unit="mean absolute error"),
    table=Pivot(("counter",), ("error",)),
    quick={"seeds": 10},
)
def counters(name, seeds=100, steps=256):
    counter: Any = COUNTERS[name](privacy=PureDP(epsilon=0.5), horizon=steps)
    bits = np.random.default_rng(FRESH).integers(0, 2, (steps, seeds))
    state, noise, total = counter.init(seeds), Noise.insecure(FRESH), np.zeros(seeds)
    for step, bit in enumerate(bits, start=1):
        state, shown = counter.step(state, bit, noise.at(step))
        total += bit
        if step % 8 == 0:
            yield [name, step, np.abs(shown - total).mean()]
