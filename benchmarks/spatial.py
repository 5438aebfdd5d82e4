"""Spatial streams: error of `SpatialStream` beside PrivStream, coverage of its intervals, and
speed.

Goals: ratio of the mean relative error to `papers.privstream` (half of epsilon for the tree) on
small, medium and large rectangles as in GOALS, below .75 of it with a quarter for the tree, at most
1.35 times Baseline 1 on small and medium; absolute errors as in ABSOLUTE; 95 % intervals that cover
90 to 99 %; a step of 500 events in 10 ms; counting 4 times as fast as np.histogram2d; 4.3 million
pickups in 60 s. Means over noise seeds, with standard errors, at 10 equally spaced steps. The
defaults were chosen on other noise, other rectangles and other generated streams (seeds 0 to 7)
than the ones used here; Gowalla's points are the same, and with a retention it is judged 19 steps
apart, so that every place in an epoch is met. Gowalla is released from step 100 on, as the paper
has it, so its first batch holds 18,000 points: ours is also run from the first step on.

    python benchmarks/spatial.py accuracy [seeds]
    python benchmarks/spatial.py growth
    python benchmarks/spatial.py coverage
    python benchmarks/spatial.py speed
"""

import functools
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import narwhals as nw
import numpy as np
import polars as pl

import spatial_baselines
import spatial_data
from results import save
from tailrace import Box, Event, Noise, PureDP, papers
from tailrace.counting.plan import Counts
from tailrace.mechanisms.spatial.stream import SpatialStream
from tailrace.metrics.ranges import Rectangles, count, error_of_counts, standard_queries
from tailrace.storage.codec import pack
from tailrace.stream.state import beginning

FRESH = 2026  # of generated streams and rectangles; noise seeds follow it
CLASSES = ("small", "medium", "large")
GOALS = {  # largest ratio to PrivStream
    ("circles", 0.5): (0.45, 0.36, 0.30),
    ("circles", 1.0): (0.50, 0.41, 0.36),
    ("city", 0.5): (0.54, 0.42, 0.36),
    ("city", 1.0): (0.60, 0.48, 0.44),
    ("gowalla", 0.5): (0.66, 0.56, 0.50),
    ("gowalla", 1.0): (0.68, 0.62, 0.58),
    ("gowalla, retention 30", 0.5): (0.50, 0.42, 0.34),
    ("gowalla, retention 30", 1.0): (0.50, 0.42, 0.34),
}
ABSOLUTE = {("circles", 0.5): (0.088, 0.24, 0.20), ("city", 0.5): (0.112, 0.28, 0.16)}


@dataclass(frozen=True)
class Data:
    """A stream with the steps it is judged at, and the true answers there."""

    box: Box
    stream: spatial_data.Steps
    begin: int
    retention: int | None
    queries: dict[str, Rectangles]
    true: dict[int, tuple[int, dict[str, np.ndarray]]]  # step -> points, counts of the rectangles
    cells: list[tuple[np.ndarray, np.ndarray]]


@functools.lru_cache(maxsize=1)
def data(name: str) -> Data | None:
    """The named stream, or None where its file is absent."""
    retention = 30 if "retention" in name else None
    box, made, begin = {
        "circles": (spatial_data.SQUARE, lambda: spatial_data.circles(seed=FRESH), 1),
        "city": (spatial_data.SQUARE, lambda: spatial_data.city(seed=FRESH), 1),
        "gowalla": (spatial_data.NEW_YORK, spatial_data.gowalla, 100),
        "gowalla, retention 30": (
            spatial_data.NEW_YORK,
            lambda: spatial_data.gowalla(stay=30),
            100,
        ),
    }[name]
    stream = made()
    return None if stream is None else judged(box, stream, begin, retention)


def judged(box: Box, stream: spatial_data.Steps, begin: int, retention: int | None) -> Data:
    """A stream with the rectangles and steps it is judged by."""
    queries = standard_queries(np.random.default_rng(FRESH), low=box.low, high=box.high)
    start = begin if begin > 1 else 0
    apart = (len(stream) - start) // 10 - bool(
        retention
    )  # 19 steps fall on every place in an epoch, 20 would be its end
    steps = [start + apart * k for k in range(1, 11)]
    there = {step: spatial_data.present(stream, step) for step in steps}
    true = {
        step: (len(p), {kind: count(p, q) for kind, q in queries.items()})
        for step, p in there.items()
    }
    cells = [(in_cells(box, adds), in_cells(box, deletes)) for adds, deletes in stream]
    return Data(box, stream, begin, retention, queries, true, cells)


def frame(box: Box, points: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({name: points[:, i] for i, name in enumerate(box.columns)})


def in_cells(box: Box, points: np.ndarray) -> np.ndarray:
    return box.cells(nw.from_native(frame(box, points))) if len(points) else np.zeros(0, np.int64)


def synthetic(
    mechanism, of: Data, seed: int, *, deletes: bool = True
) -> Iterator[tuple[int, np.ndarray]]:
    """Points at the steps that count, by straight calls of a mechanism."""
    noise, rng = Noise.insecure(seed), np.random.default_rng(seed)
    state, table = mechanism.init(), beginning(mechanism).table
    for step, (adds, gone) in enumerate(of.cells, start=1):
        plan = mechanism.plan(state.public)
        counts = Counts(plan.tally(adds), plan.tally(gone if deletes else gone[:0]))
        state = mechanism.measure(state, counts, noise.at("step", step)).state
        if step in of.true:
            table = mechanism.sample(mechanism.view(state.public), table, rng).table
            yield step, np.stack([table.columns[name] for name in of.box.columns], axis=1)


def methods(of: Data, epsilon: float):
    """name -> seed -> points at the steps that count."""
    about = {
        "domain": of.box,
        "privacy": PureDP(epsilon=epsilon),
        "unit": Event(),
        "horizon": len(of.stream),
    }
    deleting = any(len(deletes) for _, deletes in of.stream)
    ours = SpatialStream(
        **about, begin=of.begin, retention=of.retention, deletes=deleting and of.retention is None
    )
    theirs = {
        f"PrivStream, {share} for the tree": papers.privstream(
            **about, share=share, begin=of.begin, deletes=deleting
        )
        for share in ("1/2", "1/4")
    }
    steps = list(of.true)
    yield "ours", lambda seed: synthetic(ours, of, seed, deletes=of.retention is None)
    if of.begin > 1:
        early = replace(ours, begin=1)
        yield (
            "ours, from the first step",
            lambda seed: synthetic(early, of, seed, deletes=of.retention is None),
        )
    for name, mechanism in theirs.items():
        yield name, lambda seed, mechanism=mechanism: synthetic(mechanism, of, seed)
    yield (
        "Baseline 1, not private",
        lambda seed: spatial_baselines.rerun(
            of.stream, of.box, epsilon=epsilon, steps=steps, seed=seed
        ),
    )
    yield (
        "an empty table",
        lambda seed: ((step, np.zeros((0, len(of.box.columns)))) for step in steps),
    )


def errors(of: Data, points: Iterator[tuple[int, np.ndarray]]) -> np.ndarray:
    """(6,) means over the steps: all rectangles, and those at or above the floor, of each class."""
    found = []
    for step, there in points:
        total, true = of.true[step]
        each = [
            error_of_counts(true[kind], count(there, of.queries[kind]), total) for kind in CLASSES
        ]
        found.append([error.every for error in each] + [error.held for error in each])
    return np.mean(found, axis=0)


def accuracy(seeds: int = 10) -> None:
    rows = []
    for name, epsilon in GOALS:
        of = data(name)
        if of is None:
            print(f"{name}: its data are not here, skipped")
            continue
        means: dict[str, np.ndarray] = {}
        for method, run in methods(of, epsilon):
            repeats = 1 if "empty" in method else seeds
            found = np.array([errors(of, run(FRESH + seed)) for seed in range(1, repeats + 1)])
            means[method] = found.mean(axis=0)
            spread = found.std(axis=0, ddof=1) / np.sqrt(repeats) if repeats > 1 else np.zeros(6)
            numbers = [
                f"{mean:.4f}+-{error:.4f}"
                for mean, error in zip(means[method], spread, strict=True)
            ]
            rows.append([name, epsilon, method, *numbers])
            print(*rows[-1], flush=True)
        ours = means["ours"][:3]
        for mine in [method for method in means if method.startswith("ours")]:
            for other, goal in {
                "PrivStream, 1/2 for the tree": GOALS[name, epsilon],
                "PrivStream, 1/4 for the tree": (0.75,) * 3,
                "Baseline 1, not private": (1.35, 1.35, np.inf),
            }.items():
                ratio = means[mine][:3] / means[other][:3]
                met = "met" if (ratio <= goal).all() else "NOT met"
                rows.append(
                    [name, epsilon, f"{mine} / {other}", *(f"{r:.3f}" for r in ratio), met, "", ""]
                )
        if (name, epsilon) in ABSOLUTE:
            met = "met" if (ours <= ABSOLUTE[name, epsilon]).all() else "NOT met"
            rows.append(
                [name, epsilon, "ours, absolute goal", *ABSOLUTE[name, epsilon], met, "", ""]
            )
    header = [
        "data",
        "epsilon",
        "method",
        *CLASSES,
        *(f"{kind}, at or above the floor" for kind in CLASSES),
    ]
    save("spatial", header, rows)


def growth(seeds: int = 3) -> None:
    """The city with more and more events a step: the error of a release that learns from its data
    falls.
    """
    rows = []
    for events in (125, 500, 2000, 8000):
        of = judged(
            spatial_data.SQUARE, spatial_data.city(steps=100, events=events, seed=FRESH), 1, None
        )
        for method, run in methods(of, 1.0):
            if method in ("ours", "PrivStream, 1/2 for the tree"):
                found = np.array(
                    [errors(of, run(FRESH + seed))[:3] for seed in range(1, seeds + 1)]
                )
                rows.append([events, method, *(f"{mean:.4f}" for mean in found.mean(axis=0))])
                print(*rows[-1], flush=True)
    save("spatial_growth", ["events a step", "method", *CLASSES], rows)


def coverage(seeds: int = 5, rectangles: int = 1000) -> None:
    """How often a 95 % interval of `view.count` holds the truth, for rectangles that hold at least
    1 % of the points.
    """
    of, rows = data("city"), []
    assert of is not None
    for seed in range(FRESH + 1, FRESH + seeds + 1):
        held, widths = [], []
        ours = SpatialStream(
            domain=of.box, privacy=PureDP(epsilon=0.5), unit=Event(), horizon=len(of.stream)
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
        rows.append([seed, len(held), f"{np.mean(held):.3f}", f"{np.median(widths):.3f}"])
    save(
        "spatial_coverage",
        ["seed", "rectangles", "share covered", "median error / true count"],
        rows,
    )


def speed() -> None:
    rows = [*step_times(), *counting(), *pickups()]
    save("spatial_speed", ["what", "measured", "goal", "goal met"], rows)


def step_times():
    """`measure` and the state after it, early and late in a stream of 500 events a step."""
    steps = spatial_data.city(steps=1200, stay=60)
    box = spatial_data.SQUARE
    cells = [(in_cells(box, adds), in_cells(box, deletes)) for adds, deletes in steps]
    ours = SpatialStream(domain=box, privacy=PureDP(epsilon=0.5), unit=Event(), horizon=len(steps))
    noise, state, took, sizes, leaves = Noise.insecure(1), ours.init(), [], [], []
    for step, (adds, deletes) in enumerate(cells, start=1):
        plan = ours.plan(state.public)
        counts = Counts(plan.tally(adds), plan.tally(deletes))
        begin = time.perf_counter()
        state = ours.measure(state, counts, noise.at("step", step)).state
        took.append(1000 * (time.perf_counter() - begin))
        sizes.append(len(pack(state)))
        leaves.append(plan.size)
    for name, part in {
        "steps 200 to 400": slice(200, 400),
        "steps 1000 to 1200": slice(1000, 1200),
    }.items():
        median, most = np.median(took[part]), np.max(took[part])
        about = f"{np.mean(leaves[part]):.0f} leaves, {np.mean(sizes[part]) / 1e3:.0f} kB of state"
        text = f"median {median:.2f} ms, most {most:.2f} ms ({about})"
        yield [f"measure, {name}", text, "10 ms", "yes" if most <= 10 else "NO"]


def counting():
    """Ten million points on the leaves of a tree, and by np.histogram2d on the same grid."""
    rng = np.random.default_rng(0)
    points = rng.random((10_000_000, 2))
    rows = frame(spatial_data.SQUARE, points)
    ours = SpatialStream(
        domain=spatial_data.SQUARE, privacy=PureDP(epsilon=1), unit=Event(), horizon=10
    )
    plan = ours.plan(ours.init().public)
    plan.count(rows[:1000])
    begin = time.perf_counter()
    plan.count(rows)
    mine = time.perf_counter() - begin
    begin = time.perf_counter()
    np.histogram2d(points[:, 0], points[:, 1], bins=1024, range=[[0, 1], [0, 1]])
    theirs = time.perf_counter() - begin
    text = f"{mine:.2f} s, np.histogram2d {theirs:.2f} s: {theirs / mine:.1f} times"
    yield ["counting 10 million points", text, "4 times", "yes" if theirs >= 4 * mine else "NO"]


def pickups():
    """All of a week's pickups through a stream."""
    from tailrace import Stream

    steps = spatial_data.uber()
    if steps is None:
        print("uber: its data are not here, skipped")
        return
    box = spatial_data.NEW_YORK
    frames = [frame(box, adds) for adds, _ in steps]
    ours = SpatialStream(
        domain=box, privacy=PureDP(epsilon=1), unit=Event(), horizon=len(steps), deletes=False
    )
    begin = time.perf_counter()
    with Stream(ours, noise=Noise.insecure(1)) as stream:
        made = [len(stream.push(rows).rows.cells) for rows in frames][-1]
    took = time.perf_counter() - begin
    points = sum(len(rows) for rows in frames)
    text = f"{took:.1f} s for {points:,} points ({made:,} synthetic ones at the end)"
    yield ["pickups, 168 steps end to end", text, "60 s", "yes" if took <= 60 else "NO"]


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else "all"
    if wanted in ("accuracy", "all"):
        accuracy(*(int(number) for number in sys.argv[2:3]))
    if wanted in ("growth", "all"):
        growth()
    if wanted in ("coverage", "all"):
        coverage()
    if wanted in ("speed", "all"):
        speed()
