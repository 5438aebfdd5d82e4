"""Trajectories: errors of synthetic journeys beside the dissertation's method, other methods and
trivial releases; and speed.

Goals, with one configuration at epsilon 1: GOALS below; to be better than an empty release and than
a uniform random walk by every measure; 15,000 journeys over 10,000 cells in 60 s and 2 GB on two
cores. A goal holds for the mean over the seeds, not rounded. Noise and rectangles are drawn anew
for each seed, from 2027 on. Data are read from TAILRACE_DATA or from ../shared/data.

What is printed elsewhere stands beside: Table 5.1 of the dissertation is of Geolife in the same box
with every point (15,583 trajectories, 13,151,175 points; ours have a point a minute); the numbers
of AdaTrace's and PrivTrace's own code are of the same data as ours, but of rectangles that we do
not have: an empty release has a QE of .459 and .493 by those, so their QE does not stand beside
ours. Our box is public and our number of trajectories noisy. The defaults of `Trajectories` were
chosen on these same two data sets.

    python benchmarks/trajectories.py errors [--seeds 5] [--only N]
    python benchmarks/trajectories.py speed [--only N]
    python benchmarks/trajectories.py user [--seeds 3] [--only N]

With `--only` so many random trajectories of each data set are used, to try the script: results are
then called trial_*.
"""

import argparse
import functools
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import astuple
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import trajectories_data as data
from results import save
from tailrace import Box, Event, Noise, PureDP, Trajectories, User, papers, release_once
from tailrace.counting.journeys.moves import Ends, Even
from tailrace.mechanisms.trajectories.counts import Bins, Grids
from tailrace.mechanisms.trajectories.plan import JourneyPlan
from tailrace.metrics import Tracks, small_rectangles, trajectory_error

FRESH = 2026  # noise seeds follow it
MEASURES = (
    "SE_ARE",
    "SE_JSD",
    "FP_ARE",
    "FP_JSD",
    "moves_ARE",
    "moves_JSD",
    "QE",
    "trip",
    "diameter",
    "length",
    "tau",
)
GOALS = {
    "Geolife": {
        "SE_JSD": 0.60, "FP_JSD": 0.26, "moves_JSD": 0.20, "moves_ARE": 0.60, "QE": 0.30, "trip": 0.09, "diameter": 0.08, "tau": 0.85,
    },
    "Oldenburg": {"SE_JSD": 0.78, "moves_JSD": 0.25, "QE": 0.30, "trip": 0.03},
}  # fmt: skip
PEERS = ("SE_JSD", "FP_JSD", "moves_JSD", "QE", "trip", "diameter", "tau")
TABLE = ("SE_ARE", "SE_JSD", "FP_ARE", "FP_JSD", "QE")
OURS_HALVES = ("SE_JSD", "FP_JSD", "moves_JSD", "moves_ARE", "QE", "trip", "diameter", "tau")
PRINTED = [  # data, epsilon, method, where, which measures, values
    ("Geolife", 1, "AdaTrace", "issue 9", PEERS, (0.805, 0.704, 0.573, 0.581, 0.088, 0.079, 0.87)),
    ("Geolife", 1, "PrivTrace", "issue 9", PEERS, (0.667, 0.575, 0.446, 0.455, 0.162, 0.141, 0.78)),
    ("Geolife", "", "halves of the real data", "issue 9", OURS_HALVES, (0.416, 0.091, 0.049, 0.102, 0.149, 0.016, 0.001, 0.97)),
    ("Geolife", "", "empty release", "issue 9", ("QE",), (0.459,)),
    ("Geolife", "", "uniform walk", "issue 9", ("FP_JSD", "moves_JSD"), (0.540, 0.314)),
    ("Geolife", 1, "AdaTrace", "Table 5.1", TABLE, (1.12, 0.80, 1.00, 0.73, 0.19)),
    ("Geolife", 1, "dissertation, Ends", "Table 5.1", TABLE, (1.18, 0.63, 0.96, 0.39, 0.23)),
    ("Geolife", 1, "dissertation, Even", "Table 5.1", TABLE, (1.19, 0.64, 0.98, 0.26, 0.27)),
    ("Geolife", 2, "AdaTrace", "Table 5.1", TABLE, (1.17, 0.80, 1.00, 0.73, 0.18)),
    ("Geolife", 2, "dissertation, Ends", "Table 5.1", TABLE, (1.14, 0.60, 0.97, 0.32, 0.21)),
    ("Geolife", 2, "dissertation, Even", "Table 5.1", TABLE, (1.17, 0.60, 0.96, 0.27, 0.26)),
    ("Oldenburg", 1, "AdaTrace", "issue 9", PEERS, (0.814, 0.723, 0.703, 0.702, 0.020, 0.022, 0.92)),
    ("Oldenburg", "", "empty release", "issue 9", ("QE",), (0.493,)),
    ("Oldenburg", "", "uniform walk", "issue 9", ("FP_JSD", "moves_JSD"), (0.240, 0.350)),
]  # fmt: skip
TRIVIAL = ("empty release", "uniform walk")
PARTS = {"trajectory": "trip", "order": "point"}
ROADS_CELLS = 1024  # as many a side as the boxes have
JOURNEYS = 15_500  # so that hardly ever fewer than 15,000 are synthesised: their number is noisy


class Task(NamedTuple):
    """One synthetic data set to be judged."""

    data: str
    domain: str
    epsilon: int | str
    method: str
    seed: int
    only: int | None
    user: bool = False


@functools.lru_cache(maxsize=2)
def tracks_of(name: str, only: int | None) -> Tracks | None:
    """The named data, or None where the file is absent."""
    tracks = data.geolife() if name == "Geolife" else data.oldenburg()
    return tracks if tracks is None or only is None else tracks.pick(chosen(len(tracks), only))


def chosen(many: int, only: int) -> np.ndarray:
    return np.random.default_rng(FRESH).permutation(many)[:only]


def box_of(name: str) -> Box:
    return data.BEIJING if name == "Geolife" else data.OLDENBURG


@functools.lru_cache(maxsize=2)
def domain_of(name: str, kind: str) -> Any:
    return box_of(name) if kind == "Box" else data.oldenburg_roads(cells=ROADS_CELLS)


def frame(tracks: Tracks, columns: Iterable[str], people: np.ndarray | None = None) -> pl.DataFrame:
    many = np.diff(tracks.offsets)
    rows = {
        "trip": np.repeat(np.arange(len(many)), many),
        "point": np.arange(len(tracks.x)) - np.repeat(tracks.offsets[:-1], many),
        **dict(zip(columns, (tracks.x, tracks.y), strict=True)),
    }
    return pl.DataFrame(rows if people is None else {**rows, "person": np.repeat(people, many)})


def tracks_in(table: pl.DataFrame, columns: Iterable[str]) -> Tracks:
    return Tracks.of_rows(*(table[name].to_numpy() for name in ("trip", "point", *columns)))


METHODS: dict[str, Callable[..., Any]] = {
    "ours": Trajectories,
    "dissertation, Even": functools.partial(papers.trajectories, weighting=Even()),
    "dissertation, Ends": functools.partial(papers.trajectories, weighting=Ends()),
    "ours, 64 journeys a person": functools.partial(
        Trajectories, number=Bins(share="0.01", most=64)
    ),
}


def judged(task: Task) -> tuple[tuple[float, ...], int, float]:
    """Every measure of a synthetic data set, how many trajectories it has, and the seconds of
    making it.
    """
    true, box = tracks_of(task.data, task.only), box_of(task.data)
    assert true is not None
    rng, start = np.random.default_rng((FRESH, task.seed)), time.perf_counter()
    rectangles = small_rectangles(rng, low=box.low, high=box.high)
    if task.method in METHODS:
        domain = domain_of(task.data, task.domain)
        unit = User(column="person") if task.user else Event()
        mechanism = METHODS[task.method](
            domain=domain, privacy=PureDP(epsilon=task.epsilon), unit=unit, **PARTS
        )
        rows = frame(true, domain.columns, people_of(task.only) if task.user else None)
        start = time.perf_counter()
        made = tracks_in(
            release_once(mechanism, rows, noise=Noise.insecure(FRESH + task.seed)).table,
            domain.columns,
        )
    elif task.method == "empty release":
        made = data.nothing()
    elif task.method == "uniform walk":
        made = data.random_walks(true, box, rng)
    else:
        true, made = data.halves(true, rng)
    seconds = time.perf_counter() - start
    error = trajectory_error(true, made, low=box.low, high=box.high, rectangles=rectangles)
    return astuple(error), len(made), seconds


def people_of(only: int | None) -> np.ndarray:
    """The person of each trajectory of Geolife, in the order of `geolife()`."""
    path = data._found("geolife", "points.parquet")
    assert path is not None
    low, high = (
        [round(1e5 * end) for end in ends] for ends in (data.BEIJING.low, data.BEIJING.high)
    )
    rows = pl.read_parquet(path).group_by("traj").agg(
        pl.col("user").first(),
        pl.len(),
        (pl.col("lon_e5").is_between(low[0], high[0]) & pl.col("lat_e5").is_between(low[1], high[1])).all().alias("in"),
    )  # fmt: skip
    people = rows.filter(pl.col("in") & (pl.col("len") >= 2)).sort("traj")["user"].to_numpy()
    whole = tracks_of("Geolife", None)
    assert whole is not None and len(people) == len(whole)
    return people if only is None else people[chosen(len(people), only)]


def run(tasks: list[Task]) -> dict[tuple, list]:
    """(data, domain, epsilon, method) -> what was found for its seeds; two processes at a time."""
    found, start = defaultdict(list), time.perf_counter()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(judged, task): task for task in tasks}
        for done, future in enumerate(as_completed(waiting), start=1):
            task = waiting[future]
            found[task[:4]].append(future.result())
            print(
                f"{done} of {len(tasks)}, {time.perf_counter() - start:.0f} s: {task[:5]}",
                flush=True,
            )
    return found


def summary(key: tuple, results: list) -> tuple[list[object], np.ndarray]:
    """The row of one method, and its means."""
    values = np.array([measures for measures, _, _ in results])
    means = values.mean(axis=0)
    errors = (
        values.std(axis=0, ddof=1) / len(values) ** 0.5
        if len(values) > 1
        else np.full(len(means), np.nan)
    )
    numbers = [f"{one:.4f}" for pair in zip(means, errors, strict=True) for one in pair]
    many, seconds = (np.mean([result[i] for result in results]) for i in (1, 2))
    return [*key, "measured", len(results), *numbers, f"{many:.0f}", f"{seconds:.1f}"], means


def beyond(measure: str, value: float, limit: float) -> bool:
    return bool(value < limit) if measure == "tau" else bool(value > limit)


def verdict(failed: list[str], of: int) -> str:
    return f"NO: {', '.join(failed)}" if failed else f"yes, all {of}"


def beaten(means: np.ndarray, trivial: Iterable[np.ndarray]) -> str:
    """Whether every measure is better than that of both trivial releases; what such a one does not
    have (nan) is no rival.
    """
    failed = [
        measure
        for i, measure in enumerate(MEASURES)
        if any(other[i] == means[i] or beyond(measure, means[i], other[i]) for other in trivial)
    ]
    return verdict(failed, len(MEASURES))


def printed_row(
    name: str, epsilon: object, method: str, where: str, given: dict[str, object]
) -> list[object]:
    numbers = [part for measure in MEASURES for part in (given.get(measure, ""), "")]
    return [name, "", epsilon, method, where, "", *numbers, "", "", "", ""]


HEADER = ["data", "domain", "epsilon", "method", "source", "seeds"]
HEADER += [column for measure in MEASURES for column in (measure, "se")]
HEADER += ["trajectories", "seconds"]


def errors(seeds: int, only: int | None) -> None:
    settings = [("Geolife", "Box"), ("Oldenburg", "Box"), ("Oldenburg", "Roads")]
    settings = [
        pair
        for pair in settings
        if tracks_of(pair[0], only) is not None and domain_of(*pair) is not None
    ]
    keys: list[tuple[str, str, int | str, str]] = []
    for name, kind in settings:
        if kind == "Box":
            keys += [(name, "", "", method) for method in ("halves of the real data", *TRIVIAL)]
        keys += [
            (name, kind, epsilon, method) for epsilon in (1, 2) for method in list(METHODS)[:3]
        ]
    found = run([Task(*key, seed, only) for key in keys for seed in range(1, seeds + 1)])
    rows, means = [], {}
    for key in keys:
        row, means[key] = summary(key, found[key])
        goals, met, better = GOALS[key[0]], "", ""
        if key[3] in METHODS:
            better = beaten(means[key], [means[key[0], "", "", method] for method in TRIVIAL])
            if key[2] == 1:
                failed = [
                    m
                    for m, limit in goals.items()
                    if beyond(m, means[key][MEASURES.index(m)], limit)
                ]
                met = verdict(failed, len(goals))
        rows.append([*row, met, better])
    for name in dict.fromkeys(name for name, _ in settings):
        signs = {m: f"{'>=' if m == 'tau' else '<='} {limit}" for m, limit in GOALS[name].items()}
        rows.append(printed_row(name, 1, "goal", "issue 9", dict(signs)))
        for of, epsilon, method, where, which, values in PRINTED:
            if of == name:
                rows.append(
                    printed_row(
                        name,
                        epsilon,
                        method,
                        f"printed, {where}",
                        dict(zip(which, values, strict=True)),
                    )
                )
    rows.sort(key=lambda row: row[0])  # stable: what was measured first, then what is printed
    save(named("trajectories", only), [*HEADER, "goals met", "better than empty and walk"], rows)


def user(seeds: int, only: int | None) -> None:
    """Geolife with one person protected, all of whose journeys together weigh no more than one: for
    the record.
    """
    if tracks_of("Geolife", only) is None:
        print("Geolife: its data are not here, skipped")
        return
    keys = [("Geolife", "Box", 1, method) for method in METHODS]
    found = run([Task(*key, seed, only, user=True) for key in keys for seed in range(1, seeds + 1)])
    save(named("trajectories_user", only), HEADER, [summary(key, found[key])[0] for key in keys])


def named(name: str, only: int | None) -> str:
    return name if only is None else f"trial_{name}"


FINE = Grids(share="0.36", sides=(16, 64, 128), most=6, weights=(1, 3, 3))
SPEED: dict[str, tuple[str, int, Callable[..., Any]]] = {  # data, epsilon, mechanism
    "ours, as it is": ("Oldenburg", 1, Trajectories),
    "ours, walks on 128 x 128": ("Oldenburg", 1, functools.partial(Trajectories, visits=FINE)),
    "ours, walks on 128 x 128, Geolife": (
        "Geolife",
        1,
        functools.partial(Trajectories, visits=FINE),
    ),
    "dissertation, PrivTree's leaves": ("Oldenburg", 1, papers.trajectories),
    "dissertation, leaves of a large epsilon": ("Oldenburg", 25, papers.trajectories),
}


def speed(only: int | None) -> None:
    """One case after another, each in a process of its own, loops compiled before."""
    rows = []
    for name, (where, epsilon, _) in SPEED.items():
        if tracks_of(where, only) is None:
            print(f"{where}: its data are not here, skipped")
            continue
        command = [
            sys.executable,
            __file__,
            "once",
            "--case",
            name,
            *([] if only is None else ["--only", str(only)]),
        ]
        found = json.loads(
            subprocess.run(
                command, check=True, stdout=subprocess.PIPE, text=True
            ).stdout.splitlines()[-1]
        )
        enough = (
            found["cells"] >= 10_000 and found["journeys"] >= 15_000
        )  # Geolife has fewer: for the record
        goal = (
            ("yes" if found["seconds"] < 60 and found["megabytes"] < 2000 else "NO")
            if enough
            else ""
        )
        parts = [f"{found[part]:.1f}" for part in ("seconds", "processor", *STAGES)]
        rows.append(
            [
                name,
                where,
                epsilon,
                *(found[part] for part in ("cells", "journeys", "points")),
                *parts,
            ]
        )
        rows[-1] += [f"{found['megabytes']:.0f}", goal]
        print(*rows[-1], flush=True)
    header = [
        "method",
        "data",
        "epsilon",
        "cells",
        "synthetic journeys",
        "synthetic points",
        "seconds",
        "processor s",
    ]
    header += [f"{stage} s" for stage in STAGES]
    save(named("trajectories_speed", only), [*header, "peak MB", "goal met"], rows)


STAGES = ("reading", "counting", "measuring", "fitting and sampling")


def once(name: str, only: int | None) -> None:
    """One release in this process; methods are wrapped by clocks."""
    where, epsilon, made = SPEED[name]
    tracks = tracks_of(where, None)
    assert tracks is not None
    tracks = tracks.pick(chosen(len(tracks), JOURNEYS if only is None else only))
    box = box_of(where)
    rows = frame(tracks, box.columns)
    small = Box(
        low=box.low, high=box.high, columns=box.columns, cells=64
    )  # another domain: no layout of it is of use later
    parts: dict[str, Any] = {"privacy": PureDP(epsilon=epsilon), "unit": Event(), **PARTS}
    release_once(made(domain=small, **parts), frame(tracks.pick(np.arange(100)), box.columns))
    mechanism = made(domain=box, **parts)
    taken: dict[str, float] = dict.fromkeys(map(str, STAGES), 0.0)
    for owner, method, stage in (
        (JourneyPlan, "read", "reading"),
        (JourneyPlan, "counts", "counting"),
        (type(mechanism), "measure", "measuring"),
        (type(mechanism), "sample", "fitting and sampling"),
    ):
        setattr(owner, method, clocked(getattr(owner, method), taken, stage))
    start, work = time.perf_counter(), time.process_time()
    release = release_once(mechanism, rows, noise=Noise.insecure(FRESH))
    table = release.table
    taken |= {"seconds": time.perf_counter() - start, "processor": time.process_time() - work}
    status = dict(text.split(":", 1) for text in Path("/proc/self/status").read_text().splitlines())
    sizes = {
        "cells": release.view.layout.cells,
        "journeys": table["trip"].n_unique(),
        "points": len(table),
    }
    print(json.dumps({**taken, **sizes, "megabytes": int(status["VmHWM"].split()[0]) / 1000}))


def clocked(method: Callable[..., Any], taken: dict[str, float], stage: str) -> Callable[..., Any]:
    def timed(*given: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            return method(*given, **named)
        finally:
            taken[stage] += time.perf_counter() - start

    return timed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("errors", "speed", "user", "once"))
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", type=int)
    parser.add_argument("--case", choices=SPEED)
    given = parser.parse_args()
    if given.part == "errors":
        errors(given.seeds or 5, given.only)
    elif given.part == "user":
        user(given.seeds or 3, given.only)
    elif given.part == "speed":
        speed(given.only)
    else:
        once(given.case, given.only)
