"""Streams of tables beyond the paper's: seconds, intervals, and a classifier.

`tailrace experiments tabular` repeats the paper's tables and figures. Nothing is deleted in these
streams, and all methods know it. With --trial N a stream has N steps, and results are called
trial_*.
"""

import os
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from runner import Lap, alone, main, measurement
from tailrace import Event, PureDP, Stream, TabularStream
from tailrace.experiments import tabular_data
from tailrace.experiments.tabular import EVERY, OURS, PURE, mechanism, run
from tailrace.experiments.tabular_data import TableStream

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
