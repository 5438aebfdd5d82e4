"""Bun et al.: panels of people, by window and by weight.

The paper's panel, monthly poverty of 23,374 households (SIPP 2021), cannot be had here. Its shape
is generated; CDNOW's buyers, of the same size, are real.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from tailrace.counting.plan import Counts
from tailrace.domain import Integer, Schema
from tailrace.experiments.paper import Curves, Densities, Paper, Pivot, quantiles
from tailrace.experiments.runner import data
from tailrace.mechanisms.panel.cumulative import PanelCumulative
from tailrace.mechanisms.panel.queries import AtLeast, Spell
from tailrace.mechanisms.panel.window import PanelWindow
from tailrace.metrics.panels import cumulative_bound, weight_counts, window_bound, window_counts
from tailrace.noise import Noise
from tailrace.papers import panel_cumulative, panel_window
from tailrace.privacy.loss import ZCDP
from tailrace.privacy.unit import AddRemove, Null, User

N, STEPS, WINDOW, RHO = 23_374, 12, 3, "0.005"
ONES = 25_000
QUESTIONS = {
    "one month or more": AtLeast(times=1, of=3),
    "two months or more": AtLeast(times=2, of=3),
    "two months in a row": Spell(times=2, of=3),
    "all three months": AtLeast(times=3, of=3),
}
RAW, DEBIASED, OURS = "padded", "published", "ours"
PAPER = Paper(
    "panels",
    "Panels: Bun, Gaboardi, Neunhoeffer and Zhang, repeated",
    "Continual Release of Differentially Private Synthetic Data from Longitudinal Data Collections"
    " (2024)",
)


def about(rho: str) -> dict[str, Any]:
    """What all methods are given."""
    poor = Schema(poor=Integer(0, 1))
    return {"domain": poor, "unit": User(column="id"), "privacy": ZCDP(rho=rho)}


def known(name: str) -> np.ndarray:
    """(steps, people): a panel of zeros and ones."""
    if name == "generated":
        return generated()
    frame = pl.read_parquet(data("panels", f"{name}.parquet"))
    steps = sorted(one for one in frame.columns if one[0] == "t" and one[1:].isdigit())[:STEPS]
    return frame.select(steps).to_numpy().T.astype(np.int64)


def generated(share: float = 0.11, leave: float = 0.07) -> np.ndarray:
    """11 % are poor; 7 % of them leave poverty each month, and as many enter it."""
    rng = np.random.default_rng(0)
    panel = np.zeros((STEPS, N), np.int64)
    panel[0] = rng.random(N) < share
    for t in range(1, STEPS):
        draw = rng.random(N)
        panel[t] = np.where(panel[t - 1] == 1, draw >= leave, draw < leave * share / (1 - share))
    return panel


def repeated(mechanism: Any, counts: list[np.ndarray], repetitions: int) -> list[Any]:
    """What is released in each repetition."""
    released = []
    for repetition in range(repetitions):
        state, noise = mechanism.init(), Noise.insecure(repetition)
        for step, count in enumerate(counts):
            state = mechanism.measure(state, Counts(count, 0 * count), noise.at(step)).state
        released.append(state.public)
    return released


def reached_by(panel: np.ndarray) -> list[np.ndarray]:
    """How many people reach each weight at each step; all have weight 0 at first."""
    steps, people = panel.shape
    totals = np.hstack([np.full((steps, 1), people), weight_counts(panel)])
    return list(np.diff(totals, axis=0, prepend=0))


def windows(panel: np.ndarray, rho: str, seeds: int) -> Iterator[tuple[str, Any, list[Any]]]:
    """Releases of both methods, under AddRemove."""
    truth = window_counts(panel, window=WINDOW)
    counts = [*np.zeros((WINDOW - 1, truth.shape[1]), np.int64), *truth]
    parts = {**about(rho), "window": WINDOW, "horizon": len(panel), "neighbours": AddRemove}
    for name, mechanism in (
        (DEBIASED, panel_window(**parts)),
        (OURS, PanelWindow(**parts, complete=True)),
    ):
        yield name, mechanism, repeated(mechanism, counts, seeds)


def shown(name: str, mechanism: Any, released: list[Any], people: int):
    """(repetitions, releases, windows) shares of the people; the published ones also padded."""
    counts = np.array([public.histograms for public in released])
    if name == DEBIASED:
        yield RAW, counts / counts.sum(axis=2, keepdims=True)
    yield name, (counts - mechanism.padding) / people


@PAPER.exhibit(
    "Figures 1, 5, 6 and 7: who was poor in a quarter",
    "Four questions about each quarter at rho = .001, .005 and .05 (figures 5, 6 with 1, and 7)."
    " The paper shows that padding biases answers (padded), and that taking it off mends them"
    " (published); it prints no numbers here. Root mean squares of the errors, as shares of the"
    " people. Real data: whether CDNOW's customers bought in a month.",
    "papers_panel_quarters",
    keys="panel | rho | question | quarter | method",
    columns="truth .5f | mean .5f | RMS .6f | answers",
    cases=[(name, rho) for name in ("generated", "cdnow_bought") for rho in ("0.001", RHO, "0.05")],
    charts=Densities("quarter", "method", per=("panel", "rho", "question"), only="generated"),
    table=Pivot(("panel", "rho", "question"), ("RMS",), across="method", ratio=(OURS, DEBIASED)),
    quick={"seeds": 60},
)
def quarters(name, rho, seeds=1000):
    panel = known(name)
    truth = window_counts(panel, window=WINDOW) / panel.shape[1]
    for method, mechanism, released in windows(panel, rho, seeds):
        for kind, shares in shown(method, mechanism, released, panel.shape[1]):
            for question, query in QUESTIONS.items():
                weights = query.weights([0, 1]).ravel()
                for quarter in range(1, STEPS // 3 + 1):
                    release = 3 * quarter - WINDOW
                    true, found = truth[release] @ weights, shares[:, release] @ weights
                    rms = np.sqrt(((found - true) ** 2).mean())
                    key = [name, rho, question, quarter, kind]
                    yield [*key, true, found.mean(), rms, quantiles(found)]


@PAPER.exhibit(
    "Figures 2 and 8: poor for at least three months so far",
    "Cumulative counts at rho = .005: the paper shows densities around the truth and prints no"
    " numbers. The bound is that of Corollary B.1, for all weights and steps at once.",
    "papers_panel_cumulative",
    keys="panel | step | method",
    columns="truth .5f | mean .5f | RMS .6f | bound (95 %) .5f | answers",
    cases=[(name,) for name in ("generated", "cdnow_bought")],
    charts=Densities("step", "method", per=("panel",)),
    table=Pivot(("panel", "step"), ("RMS",), across="method", ratio=(OURS, "published")),
    quick={"seeds": 60},
)
def cumulative(name, seeds=1000):
    panel, least = known(name), 3
    steps, people = panel.shape
    parts = {**about(RHO), "horizon": steps, "neighbours": Null, "people": people}
    truth = weight_counts(panel)[:, least - 1] / people
    bound = cumulative_bound(people=people, horizon=steps, rho=float(RHO), beta=0.05)
    for method, mechanism in (
        ("published", panel_cumulative(**parts)),
        (OURS, PanelCumulative(**parts, complete=True)),
    ):
        released = repeated(mechanism, reached_by(panel), seeds)
        found = np.array([public.totals[:, least] for public in released]) / people
        for step in range(least, steps + 1, 3):
            at, true = found[:, step - 1], truth[step - 1]
            rms = np.sqrt(((at - true) ** 2).mean())
            yield [name, step, method, true, at.mean(), rms, bound, quantiles(at)]


@PAPER.exhibit(
    "Figures 3 and 4: a panel of ones, and queries of another width",
    "25,000 people who are all poor for 12 months, window 3, rho = .005: the largest error over all"
    " windows of a width, its median over repetitions. The paper shows that it stays flat below"
    " the bound of Theorem 3.2 at widths up to 3, is far above at wider ones, and that the padding"
    " must be taken off (figure 4); it prints no numbers. Windows wider than 3 are those of the"
    " synthetic people; padding is taken off evenly.",
    "papers_panel_ones",
    keys="width | step | method",
    columns="median .6f | 2.5 % .6f | 97.5 % .6f",
    cases=[(width,) for width in (2, 3, 5)],
    charts=Curves("step", "median", "method", per=("width",), unit="share of the people"),
    table=Pivot(("width",), ("median", "97.5 %"), across="method"),
    quick={"seeds": 20},
)
def ones(width, seeds=1000):
    panel = np.ones((STEPS, ONES), np.int64)
    truth, first = window_counts(panel, window=width) / ONES, max(WINDOW, width)
    for method, mechanism, released in windows(panel, RHO, seeds):
        spare = mechanism.padding * 2.0 ** (WINDOW - width)
        each = np.array([of_width(mechanism, public, width) for public in released])
        kinds = {method: (each - spare) / ONES}
        if method == DEBIASED:
            kinds[RAW] = each / each.sum(axis=2, keepdims=True)
        for kind, shares in kinds.items():
            worst = np.abs(shares - truth[first - width :]).max(axis=2)
            for step in range(first, STEPS + 1):
                low, middle, high = np.quantile(worst[:, step - first], (0.025, 0.5, 0.975))
                yield [width, step, kind, middle, low, high]
    bound = window_bound(people=ONES, horizon=STEPS, window=WINDOW, rho=float(RHO), beta=0.05)
    for step in range(first, STEPS + 1):
        # A narrower window is a sum of 2^(3 - width) wider ones.
        most = bound * 2 ** max(WINDOW - width, 0)
        yield [width, step, "bound, Theorem 3.2", most, "", ""]


def of_width(mechanism: Any, public: Any, width: int) -> np.ndarray:
    """(releases, windows) counts of windows of another width among the synthetic people."""
    if width > WINDOW:
        return window_counts(mechanism.view(public).codes, window=width)
    return np.asarray(public.histograms).reshape(len(public.histograms), -1, 2**width).sum(axis=1)
