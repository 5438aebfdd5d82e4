"""Streams of tables: errors of all pairs of columns, seconds, intervals, and a classifier.

Ours is compared with the published method by AvgWE over the last ten steps: its best k of 3, 10 and
16, the same fit, the same pure guarantee (or delta = 1e-9 for ours); and with what the paper
prints. Nothing is deleted in these streams, and all methods know it. Errors are those of the
synthetic rows. They are drawn at every 50th step and at the last ten; the baseline's, which are
only ever added to, at every step.

The relative errors that the paper prints are 30 to 50 times the absolute ones on every stream.
Means of cells' own ratios, as its text has them, are not: a cell of one row that is missed by five
weighs 5 there. Errors relative to the mean of a workload would be; the nearest kin of these here is
AvgTV, the mean total variation (twice it is the sum of a workload's errors).

Runs of the published methods, which fit at every step and take most of the time, and of ours are
measurements of their own; `errors` joins them. With --trial N a stream has N steps, and results are
called trial_*.
"""

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from runner import Lap, NotHereError, alone, main, measurement, read
from tables_data import Steps
from tailrace import ApproxDP, Event, Noise, PureDP, Stream, TabularStream, papers
from tailrace.counting.marginals import all_ways
from tailrace.counting.plan import Counts
from tailrace.experiments import tabular_data
from tailrace.experiments.tabular_data import METRICS, TableStream
from tailrace.mechanisms.base import Table
from tailrace.metrics import workload_error
from tailrace.models import JunctionTree
from tailrace.stream.state import no_rows

CHOSEN = (3, 10, 16)
PURE, APPROXIMATE = "ours", "ours (delta 1e-9)"
OURS = (PURE, APPROXIMATE)
PUBLISHED = ("baseline", *(f"paper k={k}" for k in CHOSEN))
METHODS = (*PUBLISHED, *OURS)
DELTA, LAST, EVERY = "1e-9", 10, 50
EPSILONS = (0.5, 1.0, 2.0, 4.0)


def mechanism(method: str, of: TableStream, epsilon: float) -> Any:
    privacy: Any = PureDP(epsilon=str(epsilon))
    if method == APPROXIMATE:
        privacy = ApproxDP(epsilon=str(epsilon), delta=DELTA)
    parts = {"domain": of.domain, "privacy": privacy, "unit": Event(), "horizon": len(of)}
    fit = JunctionTree(limit=of.limit)
    if method == "baseline":
        return papers.streaming_mwem(**parts, fit=fit)
    if method.startswith("paper"):
        chosen = int(method.split("=")[1])
        return papers.tabular_stream(**parts, fit=fit, chosen=chosen, deletes=False)
    return TabularStream(**parts, fit=fit, deletes=False)


def run(
    made: Any,
    of: TableStream | Steps,
    seed: int,
    wanted: Callable[[int], bool],
    spent: Callable[[float], object] = lambda _: None,
) -> Iterator[tuple[int, Any, Table]]:
    """(step, view, table) of some steps: a stream without the frames and files around it.

    `spent` hears the processor seconds of each step's `measure`.
    """
    state, table, noise = made.init(), no_rows(made), Noise.insecure(seed)
    none = np.zeros(made.marginals.size, np.int64)
    for step in range(1, len(of) + 1):
        counts = Counts(made.marginals.tally(of.digits[of.batch(step)]), none)
        with Lap() as lap:
            state = made.measure(state, counts, noise.at("step", step)).state
        spent(lap.processor)
        if wanted(step):
            view = made.view(state.public)
            table = made.sample(view, table, noise.at("sample", step).generator()).table
            yield step, view, table


# Errors


def runs(name: str, method: str, epsilon: float, seeds: int, trial: int):
    """The errors of each run, means over the last ten steps, and its seconds."""
    of = tabular_data.stream(name).first(trial)
    pairs, end = all_ways(of.domain.shape, 2), len(of) - LAST
    for seed in range(1, seeds + 1):
        found, made = [], mechanism(method, of, epsilon)
        with Lap() as lap:
            for step, _, table in run(
                made, of, seed, lambda step: method == "baseline" or step > end or step % EVERY == 0
            ):
                if step > end:
                    true = pairs.tally(of.digits[: of.cuts[step]])
                    e = workload_error(true, pairs.tally(table.cells), pairs)
                    relative, largest = e.average_relative, e.largest_relative
                    found.append([relative, e.average, largest, e.largest, e.average_variation])
        yield [name, method, epsilon, seed, *np.mean(found, axis=0).tolist(), lap.seconds]


RUN_KEYS, RUN_COLUMNS = "stream | method | epsilon | seed", " | ".join([*METRICS, "seconds"])


def cases(methods) -> list[tuple[str, str, float]]:
    names = tabular_data.NAMES
    return [(name, one, epsilon) for name in names for one in methods for epsilon in EPSILONS]


@measurement(
    "tabular_published", keys=RUN_KEYS, columns=RUN_COLUMNS, cases=cases(PUBLISHED), processes=2
)
def published(name, method, epsilon, seeds=1, trial=0):
    """The baseline's and the paper's errors."""
    return runs(name, method, epsilon, seeds, trial)


@measurement("tabular_ours", keys=RUN_KEYS, columns=RUN_COLUMNS, cases=cases(OURS), processes=2)
def ours(name, method, epsilon, seeds=3, trial=0):
    return runs(name, method, epsilon, seeds, trial)


@measurement(
    "tabular",
    keys="stream | epsilon | error",
    columns=" | ".join([*(f"{method} .5f" for method in METHODS), "spread of ours .5f"])
    + " | printed baseline | printed paper | ours / best k .3f | delta 1e-9 / best k .3f | goals"
    " | goals met ? | below printed ? | noise with delta",
    cases=[(name, epsilon) for name in tabular_data.NAMES for epsilon in EPSILONS],
    goal="AvgWE at most .35 (epsilon .5) and .30 of the best k on Adult in random order, .25 with"
    " delta; .8 on the other streams; below what the paper prints",
)
def errors(name, epsilon, trial=0):
    """The paper's tables: saved runs of all methods, and what the paper prints."""
    kind = "trial_tabular" if trial else "tabular"
    saved = [row for part in ("published", "ours") for row in read(f"{kind}_{part}")]
    saved = [row for row in saved if (row["stream"], row["epsilon"]) == (name, str(epsilon))]
    if {row["method"] for row in saved}.isdisjoint(OURS):
        raise NotHereError(f"runs of ours on {name} (measurement `ours`)")
    # Published methods that were not run on this stream are nan.
    each = {
        method: np.array(
            [
                [float(row[one]) for one in (*METRICS, "seconds")]
                for row in saved
                if row["method"] == method
            ]
            or [[np.nan] * (len(METRICS) + 1)]
        )
        for method in METHODS
    }
    for metric in METRICS:
        yield error_row(name, epsilon, metric, each)
    seconds = [f"{each[method][:, -1].mean():.1f}" for method in METHODS]
    yield [name, epsilon, "seconds", *seconds, *[""] * 9]


UNKNOWN = (np.nan,) * len(METRICS)


def goals(name: str, epsilon: float) -> tuple[float, float]:
    """Of the published method's error: pure, and with delta."""
    if name.startswith("adult-randomized"):
        return 0.35 if epsilon < 1 else 0.30, 0.25
    return 0.8, 0.8


def error_row(name: str, epsilon: float, metric: str, each: dict[str, np.ndarray]) -> list:
    """Means over seeds, beside the best k for this very error, and the spread of ours.

    Where a k was not run, the ratio is to the best of the others, and no goal is said to be met.
    """
    place = METRICS.index(metric)
    mean = {method: float(values[:, place].mean()) for method, values in each.items()}
    tried = [mean[f"paper k={k}"] for k in CHOSEN]
    best = min((one for one in tried if not np.isnan(one)), default=np.nan)
    spread = each[PURE][:, place].std(ddof=1) if len(each[PURE]) > 1 else 0.0
    baseline, proposed = tabular_data.PRINTED[name].get(epsilon, (UNKNOWN,) * 2)
    printed = [""] * 2 if metric == "AvgTV" else [baseline[place], proposed[place]]
    ratios = [mean[method] / best for method in OURS]
    row = [name, epsilon, metric, *mean.values(), spread, *printed, *ratios]
    if metric != "AvgWE":
        return [*row, "", "", "", ""]
    limits = goals(name, epsilon)
    met = [
        "?" if np.isnan(tried).any() else "yes" if ratio <= limit else "NO"
        for ratio, limit in zip(ratios, limits, strict=True)
    ]
    below = mean[PURE] < proposed[place]
    return [*row, "{} {}".format(*limits), " ".join(met), below, drawn(name, epsilon)]


def drawn(name: str, epsilon: float) -> str:
    """Which noise ours draws with a delta: pure noise where that is quieter."""
    atoms = mechanism(APPROXIMATE, tabular_data.stream(name), epsilon).budget.singles[0]
    return "pure" if isinstance(atoms.privacy, PureDP) else "Gaussian"


# Speed


def timed(made: Any, of: TableStream, steps: int) -> tuple[np.ndarray, float]:
    """Seconds of each step of a kept stream with its table, and mean processor seconds."""
    taken = []
    with (
        Lap() as whole,
        tempfile.TemporaryDirectory() as folder,
        Stream.create(Path(folder, "adult.tail"), made, population="adult") as stream,
    ):
        for step in range(1, steps + 1):
            with Lap() as lap:
                _ = stream.push(of.frame[of.batch(step)]).table
            taken.append(lap.seconds)
    return np.array(taken), whole.processor / steps


def fsync() -> float:
    """Median seconds of keeping a small file on this disk; a step waits for about ten."""
    taken = []
    with tempfile.TemporaryFile() as file:
        for _ in range(21):
            file.write(b"step")
            file.flush()
            with Lap() as lap:
                os.fsync(file.fileno())
            taken.append(lap.seconds)
    return float(np.median(taken))


def speed_of(trial: int) -> tuple[np.ndarray, float]:
    """The same of all steps, by the defaults and with real noise."""
    of = tabular_data.stream("adult-randomized-50").first(trial)
    made = TabularStream(
        domain=of.domain, privacy=PureDP(epsilon=1), unit=Event(), horizon=len(of), deletes=False
    )
    # The first run compiles.
    timed(made, of, min(len(of), 30))
    return timed(made, of, len(of))


@measurement(
    "tabular_speed",
    keys="stream | steps",
    columns="median s a step .4f | mean .4f | worst .3f | steps above 0.1 s | all steps .1f"
    " | mean processor s .4f | peak GB .2f | s of one fsync .4f | goal met (processor s) ?",
    goal="a step of 50 rows with its table in 0.1 processor seconds, in 1 GB",
)
def speed(trial=0):
    """Adult, 50 rows a step, in a process of its own."""
    (taken, work), megabytes = alone(speed_of, trial)
    numbers = [np.median(taken), taken.mean(), taken.max(), (taken > 0.1).sum(), taken.sum()]
    gigabytes = megabytes * 1e6 / 2**30
    met = work <= 0.1 and gigabytes < 1
    yield ["adult-randomized-50", len(taken), *numbers, work, gigabytes, fsync(), met]


# Coverage


def coverage_of(of: TableStream, method: str, epsilon: float, seed: int) -> list[list[int]]:
    """At four steps: cells above the noise, and how many of them are covered.

    Both of columns, of pairs ever measured, and of pairs never measured.
    """
    quarters = {len(of) * quarter // 4 for quarter in (1, 2, 3, 4)}
    made, found = mechanism(method, of, epsilon), []
    for step, view, _ in run(made, of, seed, lambda step: step in quarters):
        true = made.marginals.tally(of.digits[: of.cuts[step]])
        above, covered = [0, 0, 0], [0, 0, 0]
        for j, clique in enumerate(made.marginals.cliques):
            if view is None:
                break
            shown = view.marginal(*(of.domain.columns[a] for a in clique))
            exact = made.marginals.part(true, j)
            held = exact > 2 * shown.errors
            kind = 0 if len(clique) == 1 else 1 if np.isfinite(view.variance[j]) else 2
            above[kind] += int(held.sum())
            covered[kind] += int((np.abs(shown.values - exact) <= 1.96 * shown.errors)[held].sum())
        found.append([step, *above, *covered])
    return found


@measurement(
    "tabular_coverage",
    keys="stream | epsilon | method | step",
    columns="cells of columns .0f | of columns covered .3f | cells of pairs ever measured .0f"
    " | of pairs ever measured covered .3f | cells of pairs never measured .0f"
    " | of pairs never measured covered .3f | all covered .3f | goal met ?",
    cases=[
        (name, epsilon, method)
        for name in tabular_data.NAMES
        for epsilon in (0.5, 1.0, 4.0)
        for method in OURS
    ],
    goal="95 % intervals cover 90 to 99 % of the cells above two standard errors",
    processes=2,
)
def coverage(name, epsilon, method, seeds=3, trial=0):
    of = tabular_data.stream(name).first(trial)
    found = [coverage_of(of, method, epsilon, seed) for seed in range(1, seeds + 1)]
    for step, *counts in np.mean(found, axis=0):
        above, covered = np.array(counts[:3]), np.array(counts[3:])
        with np.errstate(invalid="ignore"):
            shares, every = covered / above, covered.sum() / above.sum()
        cells = np.stack([above, shares], axis=1).ravel()
        yield [name, epsilon, method, int(step), *cells, every, 0.9 <= every <= 0.99]


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


def downstream_of(method: str, epsilon: float, seed: int, trial: int) -> list[float]:
    """A fifth of the rows is held out; the others are streamed, 50 a step, or released at once."""
    whole = tabular_data.stream("adult-randomized-50")
    kept = len(whole.frame) * 4 // 5
    size = kept if method == "one release" else 50
    of = tabular_data.batched("adult", whole.domain, whole.frame[:kept], size).first(trial)
    held_out = whole.digits[kept:]
    if method == "real rows":
        return judged(of, of.digits[: of.cuts[-1]], held_out)
    if method == "majority":
        return [float((one_hot(of, held_out)[1] == 0).mean()), 0.5]
    made = mechanism(PURE, of, epsilon)
    steps = run(made, of, seed, lambda step: step == len(of) or step % EVERY == 0)
    _, _, table = deque(steps, maxlen=1).pop()
    return judged(of, table.cells, held_out)


@measurement(
    "tabular_downstream",
    keys="taught by | epsilon",
    columns="accuracy .4f | AUC .4f | spread of AUC .4f",
    cases=[
        ("real rows", ""),
        ("majority", ""),
        *((method, epsilon) for epsilon in (0.5, 1.0, 4.0) for method in ("stream", "one release")),
    ],
    processes=2,
)
def downstream(method, epsilon, seeds=3, trial=0):
    """Who earns more than 50,000, taught by the last table, one release, or real rows."""
    if not epsilon:
        yield [method, epsilon, *downstream_of(method, 0.0, 0, trial), ""]
        return
    found = [downstream_of(method, epsilon, seed, trial) for seed in range(1, seeds + 1)]
    spread = np.std([area for _, area in found], ddof=1) if seeds > 1 else 0.0
    yield [method, epsilon, *np.mean(found, axis=0), spread]


if __name__ == "__main__":
    main(__doc__)
