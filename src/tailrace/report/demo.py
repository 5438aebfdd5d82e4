"""The demonstration: a generated stream counted in private, and the error of every counter, predicted and measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailrace.counters import best
from tailrace.guarantee import AddRemove, Event, Guarantee
from tailrace.loss import PureDP
from tailrace.noise import Noise
from tailrace.report import page
from tailrace.report.chart import Line, line_chart
from tailrace.report.comparison import Compared, chart, compare, contestants

EPSILON, DELTA, HORIZON, COPIES = "0.5", "1e-6", 365, 1500


@dataclass(frozen=True)
class Demo:
    """What the demonstration made."""

    report: Path
    guarantee: Guarantee
    compared: list[Compared]


def steps() -> int:
    """How many steps of work `run` reports to its progress."""
    return HORIZON * (1 + len(contestants(epsilon=EPSILON, delta=DELTA, horizon=HORIZON)))


def run(folder: Path, *, progress: Callable[[], None]) -> Demo:
    """Count a year of generated admissions, compare the counters, and write the report into the existing `folder`."""
    noise = Noise.fresh()
    counter = best(privacy=PureDP(epsilon=EPSILON), horizon=HORIZON)
    guarantee = Guarantee(counter.loss(), Event(), AddRemove, HORIZON, life=counter.loss(events=1, deletes=1))
    truth, released = _hospital(counter, noise.at("hospital"), progress)
    compared = [
        compare(name, other, copies=COPIES, noise=noise.at("comparison"), progress=progress)
        for name, other in contestants(epsilon=EPSILON, delta=DELTA, horizon=HORIZON).items()
    ]
    report = folder / "report.html"
    report.write_text(_page(guarantee, truth, released, compared), encoding="utf-8")
    return Demo(report, guarantee, compared)


def table(compared: list[Compared]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: error over the horizon, predicted, measured, and against the simple counter."""
    simple = compared[0].rms[0]
    rows = [
        [c.name, type(c.counter).__name__, f"{c.rms[0]:.2f}", f"{c.rms[1]:.2f}", f"{c.rms[0] / simple:.3f}"]
        for c in compared
    ]
    return ["counter", "algorithm", "predicted", "measured", "ratio to Simple"], rows


def _hospital(counter, noise: Noise, progress: Callable[[], None]) -> tuple[np.ndarray, np.ndarray]:
    """Patients in a hospital over a year: admissions less discharges, generated; the true and the released number."""
    rng = np.random.default_rng(365)
    days = np.arange(HORIZON)
    arrivals = rng.poisson(14 + 10 * np.sin(2 * np.pi * days / HORIZON) ** 2)
    leaving, inside = np.zeros(HORIZON, np.int64), 0
    for day in days:
        leaving[day] = rng.binomial(inside, 0.08)
        inside += arrivals[day] - leaving[day]
    state, released = counter.init(1), np.empty(HORIZON)
    for day in days:
        state, estimate = counter.step(state, np.array([arrivals[day] - leaving[day]]), noise.at(int(day)))
        released[day] = estimate[0]
        progress()
    return np.cumsum(arrivals - leaving), np.maximum(released, 0)


def _page(guarantee: Guarantee, truth: np.ndarray, released: np.ndarray, compared: list[Compared]) -> str:
    days = np.arange(1, HORIZON + 1)
    hospital = line_chart(
        [Line("released", days, released), Line("true (generated)", days, truth, dashed=True)],
        title="Patients in a hospital over a year",
        x_label="day",
        y_label="patients",
    )
    errors = chart(compared, title=f"Error of a running sum, epsilon = {EPSILON}")
    return page.page(
        "Tailrace: a year counted in private",
        "A generated stream of admissions and discharges, released day by day under one guarantee over the whole year.",
        [
            ("The promise", page.quote(str(guarantee))),
            (
                "What is released",
                page.figure(
                    hospital,
                    "The true line is generated data and is shown only because nobody is in it; a report on real data would not show it.",
                ),
            ),
            (
                "How good it is",
                page.figure(
                    errors, f"Lines: the error each counter predicts of itself. Dots: measured over {COPIES:,} runs."
                )
                + page.table(*table(compared)),
            ),
        ],
    )
