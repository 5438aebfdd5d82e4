"""Streams of tables: errors of all pairs of columns beside the published methods, seconds of a step, intervals, and a classifier.

Goals, by AvgWE over the last ten steps: on Adult in random order at most .35 (epsilon .5) and .30 (from 1 on) of the published method
with its best k of 3, 10 and 16 and the same fit, at the same pure guarantee, and .25 with delta = 1e-9; .8 on the other streams;
and below what the paper prints, everywhere. A step of 50 rows takes 0.1 s at most with its table, in 1 GB. 95 % intervals cover 90
to 99 % of the cells above the noise. Nothing is deleted in these streams, and all methods know it. Errors are those of the synthetic
rows. They are drawn at every 50th step and at the last ten; the baseline's, which are only ever added to, at every step.

The relative errors that the paper prints are 30 to 50 times the absolute ones on every stream. Means of cells' own ratios, as its text
has them, are not: a cell of one row that is missed by five weighs 5 there. Errors relative to the mean of a workload would be; the
nearest kin of these here is AvgTV, the mean total variation (twice it is the sum of a workload's errors).

    python benchmarks/tabular.py [published | errors | speed | coverage | downstream] [--streams NAME ...] [--epsilons .5 1 ...]
        [--methods "paper k=3" ...] [--seeds 3] [--paper-seeds 1] [--processes 2] [--steps 20]

The published methods fit at every step, which takes most of the time: their errors are a part of their own, and `errors` reads them.
With --steps it is a trial on the first steps, and nothing is saved.
"""

import argparse
import csv
import multiprocessing
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

import tabular_data
from results import FOLDER, save
from tabular_data import METRICS, TableStream
from tailrace import ApproxDP, Event, JunctionTree, Noise, PureDP, Stream, TabularStream, papers
from tailrace.marginals import all_ways
from tailrace.mechanisms.base import Table
from tailrace.metrics import workload_error
from tailrace.plan import Counts

CHOSEN = (3, 10, 16)
PURE, APPROXIMATE = "ours", "ours (delta 1e-9)"
OURS = (PURE, APPROXIMATE)
PUBLISHED = ("baseline", *(f"paper k={k}" for k in CHOSEN))
METHODS = (*PUBLISHED, *OURS)
DELTA, LAST, EVERY = "1e-9", 10, 50


def mechanism(method: str, of: TableStream, epsilon: float) -> Any:
    privacy = ApproxDP(epsilon=str(epsilon), delta=DELTA) if method == APPROXIMATE else PureDP(epsilon=str(epsilon))
    parts = {"domain": of.domain, "privacy": privacy, "unit": Event(), "horizon": len(of)}
    fit = JunctionTree(limit=of.limit)
    if method == "baseline":
        return papers.streaming_mwem(**parts, fit=fit)
    if method.startswith("paper"):
        return papers.tabular_stream(**parts, fit=fit, chosen=int(method.split("=")[1]), deletes=False)
    return TabularStream(**parts, fit=fit, deletes=False)


def nothing(made: Any) -> Table:
    none = np.zeros((0, len(made.rows.columns)), np.int32)
    return Table(none, made.rows.decode(none, np.random.default_rng(0)))


def run(made: Any, of: TableStream, seed: int, wanted: Callable[[int], bool]) -> Iterator[tuple[int, Any, Table]]:
    """(step, view, table) of the wanted steps: what a stream does, without the frames and files around it."""
    state, table, noise = made.init(), nothing(made), Noise.insecure(seed)
    none = np.zeros(made.marginals.size, np.int64)
    for step in range(1, len(of) + 1):
        counts = Counts(made.marginals.tally(of.digits[of.batch(step)]), none)
        state = made.measure(state, counts, noise.at("step", step)).state
        if wanted(step):
            view = made.view(state.public)
            table = made.sample(view, table, noise.at("sample", step).generator()).table
            yield step, view, table


def known(name: str, steps: int | None) -> TableStream | None:
    of = tabular_data.stream(name)
    return None if of is None else of.first(steps)


# Errors


def errors_of(name: str, method: str, epsilon: float, seed: int, steps: int | None) -> tuple[list[float], float]:
    """The errors of one run, means over the last ten steps, and the seconds it took."""
    of = known(name, steps)
    assert of is not None
    pairs, found, start = all_ways(of.domain.shape, 2), [], time.perf_counter()
    made, end = mechanism(method, of, epsilon), len(of) - LAST
    for step, _, table in run(made, of, seed, lambda step: method == "baseline" or step > end or step % EVERY == 0):
        if step > end:
            true = pairs.tally(of.digits[: of.cuts[step]])
            error = workload_error(true, pairs.tally(table.cells), pairs)
            found.append([error.average_relative, error.average, error.largest_relative, error.largest])
            found[-1].append(error.average_variation)
    return np.mean(found, axis=0).tolist(), time.perf_counter() - start


def runs_of(methods: Sequence[str], asked: argparse.Namespace, seeds: int) -> list[tuple[str, str, float, int]]:
    """(stream, method, epsilon, seed) of every run of these methods, a stream after the other."""
    return [
        (name, method, epsilon, seed)
        for name in asked.streams
        for method in methods
        for epsilon in asked.epsilons
        for seed in range(1, 1 + seeds)
    ]


def published(asked: argparse.Namespace) -> None:
    """The baseline's and the paper's errors; saved after each run, beside those that are not asked for."""
    runs = runs_of(asked.methods, asked, asked.paper_seeds)
    done = {tuple(row[:4]): row for row in read_published()}

    def keep(run: tuple, found: tuple[list[float], float]) -> None:
        values, taken = found
        done[run[:4]] = [*run[:4], *values, taken]
        show(
            "tabular_published", ["stream", "method", "epsilon", "seed", *METRICS, "seconds"], [*done.values()], run[4]
        )

    together(errors_of, [(*one, asked.steps) for one in runs], asked.processes, keep)


def read_published() -> list[list]:
    path = FOLDER / "tabular_published.csv"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    rows = csv.reader(lines)
    return [[name, method, float(epsilon), int(seed), *map(float, rest)] for name, method, epsilon, seed, *rest in rows]


def errors(asked: argparse.Namespace) -> None:
    """The paper's tables: baseline, paper, ours, and what the paper prints."""
    by_method: dict[tuple[str, str, float], list[list[float]]] = {}
    runs = runs_of(OURS, asked, asked.seeds)
    found = together(errors_of, [(*one, asked.steps) for one in runs], asked.processes)
    ours = [[*one, *values, taken] for one, (values, taken) in zip(runs, found, strict=True)]
    for name, method, epsilon, _, *values in [*read_published(), *ours]:
        by_method.setdefault((name, method, epsilon), []).append(values)
    rows = []
    for name in asked.streams:
        for epsilon in asked.epsilons:
            unknown = [[np.nan] * (len(METRICS) + 1)]  # published methods that were not run on this stream
            each = {method: np.array(by_method.get((name, method, epsilon), unknown)) for method in METHODS}
            rows += [error_row(name, epsilon, metric, each) for metric in METRICS]
            rows.append([name, epsilon, "seconds", *(f"{each[method][:, -1].mean():.1f}" for method in METHODS)])
            rows[-1] += [""] * (len(HEADER) - len(rows[-1]))
    show("tabular", HEADER, rows, asked.steps)


UNKNOWN = (np.nan,) * len(METRICS)
HEADER = ["stream", "epsilon", "error", *METHODS, "spread of ours", "printed baseline", "printed paper"]
HEADER += ["ours / best k", "delta 1e-9 / best k", "goals", "goals met", "below printed", "noise with delta"]


def goals(name: str, epsilon: float) -> tuple[float, float]:
    """Of the published method's error: pure, and with delta."""
    return (0.35 if epsilon < 1 else 0.30, 0.25) if name.startswith("adult-randomized") else (0.8, 0.8)


def error_row(name: str, epsilon: float, metric: str, each: dict[str, np.ndarray]) -> list:
    """Means over seeds, beside the best k for this very error; `spread` is the standard deviation of ours over seeds.

    Where a k was not run, the ratio is to the best of the others, and no goal is said to be met.
    """
    place = METRICS.index(metric)
    mean = {method: float(values[:, place].mean()) for method, values in each.items()}
    tried = [mean[f"paper k={k}"] for k in CHOSEN]
    best = min((one for one in tried if not np.isnan(one)), default=np.nan)
    spread = each[PURE][:, place].std(ddof=1) if len(each[PURE]) > 1 else 0.0
    baseline, proposed = tabular_data.PRINTED[name].get(epsilon, (UNKNOWN,) * 2)
    ratios, row = [mean[PURE] / best, mean[APPROXIMATE] / best], [name, epsilon, metric]
    printed = [""] * 2 if metric == "AvgTV" else [baseline[place], proposed[place]]
    row += [*(f"{mean[method]:.5f}" for method in METHODS), f"{spread:.5f}", *printed]
    row += [f"{ratio:.3f}" for ratio in ratios]
    if metric != "AvgWE":
        return [*row, "", "", "", ""]
    limits = goals(name, epsilon)
    met = [
        "?" if np.isnan(tried).any() else "yes" if ratio <= limit else "NO"
        for ratio, limit in zip(ratios, limits, strict=True)
    ]
    below = "yes" if mean[PURE] < proposed[place] else "NO"
    noise = drawn(name, epsilon)
    return [*row, "{} {}".format(*limits), " ".join(met), below, noise]


def drawn(name: str, epsilon: float) -> str:
    """Which noise ours draws when a delta is granted: where pure noise is taken to be quieter, that column repeats the pure one."""
    of = known(name, None)
    assert of is not None
    atoms = mechanism(APPROXIMATE, of, epsilon).budget.singles
    return "pure" if isinstance(atoms.privacy, PureDP) else "Gaussian"


# Speed


def timed(made: Any, of: TableStream, steps: int) -> tuple[np.ndarray, float]:
    """Seconds of each step of a stream kept on disk, with its table, and the mean of processor seconds."""
    taken, work = [], time.process_time()
    with (
        tempfile.TemporaryDirectory() as folder,
        Stream.create(Path(folder, "adult.tail"), made, population="adult") as stream,
    ):
        for step in range(1, steps + 1):
            start = time.perf_counter()
            _ = stream.push(of.frame[of.batch(step)]).table
            taken.append(time.perf_counter() - start)
    return np.array(taken), (time.process_time() - work) / steps


def fsync() -> float:
    """Seconds that this disk takes to keep a small file, the median of several: a step waits for about ten."""
    taken = []
    with tempfile.TemporaryFile() as file:
        for _ in range(21):
            file.write(b"step")
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def speed_of(steps: int | None) -> tuple[np.ndarray, float, float]:
    """The same of all steps, by the defaults and with real noise, and this process's peak memory in GB."""
    of = known("adult-randomized-50", steps)
    assert of is not None
    made = TabularStream(domain=of.domain, privacy=PureDP(epsilon=1), unit=Event(), horizon=len(of), deletes=False)
    timed(made, of, min(len(of), 30))  # compiles
    taken, work = timed(made, of, len(of))
    status = dict(text.split(":", 1) for text in Path("/proc/self/status").read_text().splitlines())
    return taken, work, int(status["VmHWM"].split()[0]) / 2**20


def speed(asked: argparse.Namespace) -> None:
    """Adult, 50 rows a step, in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        taken, work, memory = pool.submit(speed_of, asked.steps).result()
    met = "yes" if work <= 0.1 and memory < 1 else "NO"
    header = ["stream", "steps", "median s a step", "mean", "worst", "steps above 0.1 s", "all steps"]
    header += ["mean processor s", "peak GB", "s of one fsync", "goal met (processor s)"]
    numbers = [f"{np.median(taken):.4f}", f"{taken.mean():.4f}", f"{taken.max():.3f}", int((taken > 0.1).sum())]
    numbers += [f"{taken.sum():.1f}", f"{work:.4f}", f"{memory:.2f}", f"{fsync():.4f}"]
    show("tabular_speed", header, [["adult-randomized-50", len(taken), *numbers, met]], asked.steps)


# Coverage


def coverage_of(name: str, method: str, epsilon: float, seed: int, steps: int | None) -> list[list[int]]:
    """At four steps: (cells above the noise, how many of them are covered) of columns, and of pairs ever measured and never."""
    of = known(name, steps)
    assert of is not None
    quarters, made = {len(of) * quarter // 4 for quarter in (1, 2, 3, 4)}, mechanism(method, of, epsilon)
    found = []
    for step, view, _ in run(made, of, seed, lambda step: step in quarters):
        true = made.marginals.tally(of.digits[: of.cuts[step]])
        above, covered = [0, 0, 0], [0, 0, 0]
        for j, clique in enumerate(made.marginals.cliques):
            if view is None:
                break
            shown, exact = view.marginal(*(of.domain.columns[a] for a in clique)), made.marginals.part(true, j)
            held = exact > 2 * shown.errors
            kind = 0 if len(clique) == 1 else 1 if np.isfinite(view.variance[j]) else 2
            above[kind] += int(held.sum())
            covered[kind] += int((np.abs(shown.values - exact) <= 1.96 * shown.errors)[held].sum())
        found.append([step, *above, *covered])
    return found


def coverage(asked: argparse.Namespace) -> None:
    """The share of cells, of those whose true count exceeds two standard errors, that lie in their 95 % interval."""
    settings = [
        (name, method, epsilon)
        for name in asked.streams
        for epsilon in asked.epsilons
        for method in (PURE, APPROXIMATE)
    ]
    runs = [(*one, seed, asked.steps) for one in settings for seed in range(1, asked.seeds + 1)]
    found = together(coverage_of, runs, asked.processes)
    rows = []
    for place, (name, method, epsilon) in enumerate(settings):
        seeds = np.array(found[place * asked.seeds : (place + 1) * asked.seeds])
        for step, *counts in seeds.mean(axis=0):
            above, covered = np.array(counts[:3]), np.array(counts[3:])
            shares = [hit / many if many else np.nan for many, hit in zip(above, covered, strict=True)]
            every = covered.sum() / above.sum() if above.any() else np.nan
            cells = [
                part for many, share in zip(above, shares, strict=True) for part in (f"{many:.0f}", f"{share:.3f}")
            ]
            met = "yes" if 0.9 <= every <= 0.99 else "NO"
            rows.append([name, epsilon, method, int(step), *cells, f"{every:.3f}", met])
    header = [
        "stream",
        "epsilon",
        "method",
        "step",
        "cells of columns",
        "covered",
        "cells of pairs ever measured",
        "covered",
    ]
    header += ["cells of pairs never measured", "covered", "all covered", "goal met"]
    show("tabular_coverage", header, rows, asked.steps)


# A classifier

INCOME = "income>50K"


def one_hot(of: TableStream, digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All columns but the income as zeros and ones, with a constant; and the income."""
    at = of.domain.columns.index(INCOME)
    others = [column for column in range(digits.shape[1]) if column != at]
    parts = [np.eye(of.domain.shape[column])[digits[:, column]] for column in others]
    return np.hstack([np.ones((len(digits), 1)), *parts]), digits[:, at]


def logistic(x: np.ndarray, y: np.ndarray, *, ridge: float = 1.0, rounds: int = 12) -> np.ndarray:
    """Newton's method; the ridge keeps values that no row has from doing harm."""
    weights, small = np.zeros(x.shape[1]), ridge * np.eye(x.shape[1])
    for _ in range(rounds):
        chance = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (chance - y) + ridge * weights
        weights -= np.linalg.solve((x * (chance * (1 - chance))[:, None]).T @ x + small, gradient)
    return weights


def judged(of: TableStream, rows: np.ndarray, held_out: np.ndarray) -> list[float]:
    """Accuracy and area under the curve, on real rows, of what these rows teach."""
    x, y = one_hot(of, held_out)
    score = x @ logistic(*one_hot(of, rows))
    _, rank, many = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(many) - (many - 1) / 2)[rank]
    rich = int(y.sum())
    area = (ranks[y == 1].sum() - rich * (rich + 1) / 2) / (rich * (len(y) - rich))
    return [float(((score > 0) == y).mean()), float(area)]


def downstream_of(method: str, epsilon: float, seed: int, steps: int | None) -> list[float]:
    """A fifth of the rows is held out; the others are streamed, 50 a step, or released at once."""
    whole = known("adult-randomized-50", None)
    assert whole is not None
    kept = len(whole.frame) * 4 // 5
    size = kept if method == "one release" else 50
    of = tabular_data.batched("adult", whole.domain, whole.frame[:kept], size).first(steps)
    held_out = whole.digits[kept:]
    if method == "real rows":
        return judged(of, of.digits[: of.cuts[-1]], held_out)
    if method == "majority":
        poor = float((one_hot(of, held_out)[1] == 0).mean())
        return [poor, 0.5]
    steps_of = run(mechanism(PURE, of, epsilon), of, seed, lambda step: step == len(of) or step % EVERY == 0)
    _, _, table = deque(steps_of, maxlen=1).pop()
    return judged(of, table.cells, held_out)


def downstream(asked: argparse.Namespace) -> None:
    """Who earns more than 50,000: taught by the last table of a stream, by one release of everything, and by the real rows."""
    taught = [
        (method, epsilon, seed, asked.steps)
        for epsilon in asked.epsilons
        for method in ("stream", "one release")
        for seed in range(1, asked.seeds + 1)
    ]
    runs = [("real rows", 0.0, 0, asked.steps), ("majority", 0.0, 0, asked.steps), *taught]
    found = dict(zip(runs, together(downstream_of, runs, asked.processes), strict=True))
    rows = [[run[0], "", *(f"{number:.4f}" for number in found[run]), ""] for run in runs[:2]]
    for method, epsilon in dict.fromkeys(run[:2] for run in taught):
        values = np.array([numbers for run, numbers in found.items() if run[:2] == (method, epsilon)])
        mean, spread = values.mean(axis=0), values[:, 1].std(ddof=1) if len(values) > 1 else 0.0
        rows.append([method, epsilon, *(f"{number:.4f}" for number in mean), f"{spread:.4f}"])
    show("tabular_downstream", ["taught by", "epsilon", "accuracy", "AUC", "spread of AUC"], rows, asked.steps)


# All of them


def together(
    work: Callable[..., Any], runs: list[tuple], processes: int, keep: Callable[[tuple, Any], None] | None = None
) -> list[Any]:
    """The results of all runs in their order, with progress printed; `keep` gets each as it comes."""
    found: list[Any] = [None] * len(runs)
    start = time.perf_counter()
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        places = {pool.submit(work, *one): place for place, one in enumerate(runs)}
        for done, future in enumerate(as_completed(places), start=1):
            place = places[future]
            found[place] = future.result()
            if keep is not None:
                keep(runs[place], found[place])
            print(f"{time.perf_counter() - start:6.0f} s  {done}/{len(runs)}  {runs[place]}", flush=True)
    return found


def show(name: str, header: list[str], rows: list[list], steps: int | None) -> None:
    """Save results; a trial's are only printed."""
    if steps is None:
        save(name, header, rows)
        return
    for row in [header, *rows]:
        print(*row, sep=", ")


PARTS = {"published": published, "errors": errors, "speed": speed, "coverage": coverage, "downstream": downstream}
EPSILONS = {part: [0.5, 1.0, 2.0, 4.0] for part in ("published", "errors")} | {
    "speed": [1.0],
    "coverage": [1.0],
    "downstream": [0.5, 1.0, 4.0],
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Streams of tables beside the published methods.")
    parser.add_argument("part", nargs="?", choices=PARTS)
    parser.add_argument("--streams", nargs="+", choices=tabular_data.NAMES, default=tabular_data.NAMES)
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--methods", nargs="+", choices=PUBLISHED, default=PUBLISHED, help="of `published`")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--paper-seeds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int)
    asked = parser.parse_args()
    missing = [name for name in asked.streams if tabular_data.stream(name) is None]
    asked.streams = [name for name in asked.streams if name not in missing]
    for name in missing:
        print(f"{name}: its data are not here, skipped")
    epsilons = asked.epsilons
    for part in [asked.part] if asked.part else PARTS:
        asked.epsilons = epsilons or EPSILONS[part]
        PARTS[part](asked)


if __name__ == "__main__":
    main()
