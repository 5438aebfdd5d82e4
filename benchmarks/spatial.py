"""Spatial streams: error of `SpatialStream` beside PrivStream, coverage, and speed.

Mean relative errors on small, medium and large rectangles at 10 equally spaced steps, means over
noise seeds with standard errors. The defaults were chosen on other noise, other rectangles and
other generated streams (seeds 0 to 7) than the ones used here; Gowalla's points are the same, and
with a retention it is judged 19 steps apart, so that every place in an epoch is met. Gowalla is
released from step 100 on, as the paper has it, so its first batch holds 18,000 points: ours is also
run from the first step on.
"""

import functools

import numpy as np

from runner import Lap, best_of, main, mean_error, measurement
from tailrace import Event, Noise, PureDP, Stream
from tailrace.counting.plan import Counts
from tailrace.experiments import spatial_data
from tailrace.experiments.spatial import (
    CLASSES,
    FRESH,
    HALF,
    QUARTER,
    RERUN,
    Data,
    errors,
    judged,
    released,
)
from tailrace.experiments.spatial_data import frame, in_cells
from tailrace.mechanisms.spatial.stream import SpatialStream
from tailrace.metrics.ranges import Rectangles, count
from tailrace.storage.codec import pack

# Largest ratio to PrivStream on small, medium and large rectangles.
GOALS = {
    ("circles", 0.5): (0.45, 0.36, 0.30),
    ("circles", 1.0): (0.50, 0.41, 0.36),
    ("city", 0.5): (0.54, 0.42, 0.36),
    ("city", 1.0): (0.60, 0.48, 0.44),
    ("gowalla", 0.5): (0.66, 0.56, 0.50),
    ("gowalla", 1.0): (0.68, 0.62, 0.58),
    ("gowalla, retention 30", 0.5): (0.50, 0.42, 0.34),
    ("gowalla, retention 30", 1.0): (0.50, 0.42, 0.34),
}
OURS, METHODS = ("ours", "ours, from the first step"), (HALF, QUARTER, RERUN, "an empty table")
ABSOLUTE = {("circles", 0.5): (0.088, 0.24, 0.20), ("city", 0.5): (0.112, 0.28, 0.16)}


def ratios(rows, name, epsilon, method):
    """Compare ours with the others, as far as both are saved."""
    means = {
        row["method"]: np.array([float(row[kind].split("+-")[0]) for kind in CLASSES])
        for row in rows
        if (row["data"], row["epsilon"]) == (name, str(epsilon)) and "+-" in row["small"]
    }
    limits = {HALF: GOALS[name, epsilon], QUARTER: (0.75,) * 3, RERUN: (1.35, 1.35, np.inf)}
    for mine in OURS:
        for other, limit in limits.items():
            if method in (mine, other) and mine in means and other in means:
                ratio = means[mine] / means[other]
                verdict = bool((ratio <= limit).all())
                yield [name, epsilon, f"{mine} / {other}", *ratio, "", "", "", verdict]
    goal = ABSOLUTE.get((name, epsilon))
    if method == "ours" and goal:
        verdict = bool((means["ours"] <= goal).all())
        yield [name, epsilon, "ours, absolute goal", *map(str, goal), "", "", "", verdict]


@functools.lru_cache(maxsize=1)
def known(name: str) -> Data:
    """The named stream."""
    if name in ("circles", "city"):
        steps = getattr(spatial_data, name)(seed=FRESH)
        return judged(spatial_data.SQUARE, steps, 1)
    retention = 30 if "retention" in name else None
    return judged(spatial_data.NEW_YORK, spatial_data.gowalla(stay=retention), 100, retention)


@measurement(
    "spatial",
    keys="data | epsilon | method",
    columns=" | ".join(
        [
            *(f"{kind} .3f" for kind in CLASSES),
            *(f"{kind}, at or above the floor" for kind in CLASSES),
        ]
    )
    + " | goal met ?",
    cases=[
        (name, epsilon, method)
        for name, epsilon in GOALS
        for method in (*(OURS if "gowalla" in name else OURS[:1]), *METHODS)
    ],
    goal="ratios to PrivStream as in GOALS with half of epsilon for its tree, .75 with a quarter;"
    " 1.35 times Baseline 1 on small and medium; absolute errors as in ABSOLUTE",
    then=ratios,
)
def accuracy(name, epsilon, method, seeds=10):
    of, repeats = known(name), 1 if "empty" in method else seeds
    runs = (released(of, epsilon, method, FRESH + seed) for seed in range(1, repeats + 1))
    found = np.array([errors(of, points).mean(axis=0) for points in runs])
    pairs = zip(found.mean(axis=0), mean_error(found), strict=True)
    yield [name, epsilon, method, *(f"{mean:.4f}+-{error:.4f}" for mean, error in pairs), None]


@measurement(
    "spatial_growth",
    keys="events a step | method",
    columns=" | ".join(f"{kind} .4f" for kind in CLASSES),
    cases=[(events,) for events in (125, 500, 2000, 8000)],
)
def growth(events, seeds=3):
    """The city with more and more events: errors of a release that learns fall."""
    city = spatial_data.city(steps=100, events=events, seed=FRESH)
    of = judged(spatial_data.SQUARE, city, 1)
    for method in ("ours", HALF):
        runs = (released(of, 1.0, method, FRESH + seed) for seed in range(1, seeds + 1))
        yield [
            events,
            method,
            *np.mean([errors(of, points).mean(axis=0)[:3] for points in runs], axis=0),
        ]


@measurement(
    "spatial_coverage",
    keys="seed",
    columns="rectangles | share covered .3f | median error / true count .3f | goal met ?",
    goal="95 % intervals that cover 90 to 99 %",
)
def coverage(seeds=5):
    """How often a 95 % interval of `view.count` holds the truth.

    Rectangles hold at least 1 % of the points.
    """
    of, rectangles = known("city"), 1000
    for seed in range(FRESH + 1, FRESH + seeds + 1):
        held, widths = [], []
        ours = SpatialStream(
            domain=of.domain, privacy=PureDP(epsilon=0.5), unit=Event(), horizon=len(of.stream)
        )
        noise, state = Noise.insecure(seed), ours.init()
        rng = np.random.default_rng(seed)
        for step, (adds, deletes) in enumerate(of.cells, start=1):
            plan = ours.plan(state.public)
            counts = Counts(plan.tally(adds), plan.tally(deletes))
            state = ours.measure(state, counts, noise.at("step", step)).state
            if step in of.true:
                view = ours.view(state.public)
                assert view is not None
                there = spatial_data.present(of.stream, step)
                low, high = np.sort(rng.random((2, 20 * rectangles, 2)), axis=0)
                true = count(there, Rectangles(low, high))
                chosen = np.flatnonzero(true >= 0.01 * len(there))[: rectangles // 10]
                for i in chosen:
                    answer = view.count(low=low[i], high=high[i])
                    held.append(abs(answer.value - true[i]) <= 1.96 * answer.error)
                    widths.append(answer.error / true[i])
        share = np.mean(held)
        yield [seed, len(held), share, np.median(widths), 0.9 <= share <= 0.99]


@measurement(
    "spatial_speed",
    keys="what",
    columns="measured | goal | goal met ?",
    goal="a step of 500 events in 10 ms; counting 4 times np.histogram2d; 4.3 million pickups in 60 s",
)
def speed():
    yield from step_times()
    yield counting()
    yield pickups()


def step_times():
    """`measure` and the state after it, early and late in a stream of 500 events a step."""
    steps, box = spatial_data.city(steps=1200, stay=60), spatial_data.SQUARE
    cells = [(in_cells(box, adds), in_cells(box, deletes)) for adds, deletes in steps]
    ours = SpatialStream(domain=box, privacy=PureDP(epsilon=0.5), unit=Event(), horizon=len(steps))
    noise, state, took, sizes, leaves = Noise.insecure(1), ours.init(), [], [], []
    for step, (adds, deletes) in enumerate(cells, start=1):
        plan = ours.plan(state.public)
        counts = Counts(plan.tally(adds), plan.tally(deletes))
        with Lap() as lap:
            state = ours.measure(state, counts, noise.at("step", step)).state
        took.append(1000 * lap.seconds)
        sizes.append(len(pack(state)))
        leaves.append(plan.size)
    for first in (200, 1000):
        part = slice(first, first + 200)
        most, kilobytes = np.max(took[part]), np.mean(sizes[part]) / 1e3
        about = f"{np.mean(leaves[part]):.0f} leaves, {kilobytes:.0f} kB of state"
        text = f"median {np.median(took[part]):.2f} ms, most {most:.2f} ms ({about})"
        yield [f"measure, steps {first} to {first + 200}", text, "10 ms", most <= 10]


def counting():
    """Ten million points on the leaves of a tree, and by np.histogram2d on the same grid."""
    points, box = np.random.default_rng(0).random((10_000_000, 2)), spatial_data.SQUARE
    rows = frame(box, points)
    ours = SpatialStream(domain=box, privacy=PureDP(epsilon=1), unit=Event(), horizon=10)
    plan = ours.plan(ours.init().public)
    plan.count(rows[:1000])
    mine = best_of(1, lambda _: plan.count(rows))[0].seconds
    edges = [[0, 1], [0, 1]]
    theirs = best_of(1, lambda _: np.histogram2d(*points.T, bins=1024, range=edges))[0].seconds
    text = f"{mine:.2f} s, np.histogram2d {theirs:.2f} s: {theirs / mine:.1f} times"
    return ["counting 10 million points", text, "4 times", theirs >= 4 * mine]


def pickups():
    """All of a week's pickups through a stream."""
    steps, box = spatial_data.uber(), spatial_data.NEW_YORK
    frames = [frame(box, adds) for adds, _ in steps]
    ours = SpatialStream(
        domain=box, privacy=PureDP(epsilon=1), unit=Event(), horizon=len(steps), deletes=False
    )
    with Lap() as lap, Stream(ours, noise=Noise.insecure(1)) as stream:
        made = [len(stream.push(rows).rows.cells) for rows in frames][-1]
    points = sum(len(rows) for rows in frames)
    text = f"{lap.seconds:.1f} s for {points:,} points ({made:,} synthetic ones at the end)"
    return ["pickups, 168 steps end to end", text, "60 s", lap.seconds <= 60]


if __name__ == "__main__":
    main(__doc__)
