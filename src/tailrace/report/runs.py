"""Many runs of panel methods against the truth.

Each run is a release with a charge of its own: on real people, a hundred runs spend a hundred
budgets. So this is for generated data, and for a curator who shows the page to nobody.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrace import papers
from tailrace.counting.plan import Counts
from tailrace.domain import Integer, Schema
from tailrace.mechanisms.panel.cumulative import PanelCumulative
from tailrace.mechanisms.panel.queries import AtLeast, Query, Spell
from tailrace.mechanisms.panel.window import PanelWindow
from tailrace.metrics.panels import weight_counts, window_counts
from tailrace.noise import Noise
from tailrace.privacy.loss import Loss
from tailrace.privacy.unit import Neighbours, Null, User
from tailrace.report import page
from tailrace.report.chart import Spread, density_chart

PRIVATE = (
    "PRIVATE: it shows the true data, and was made by spending the budget many times. "
    "For the curator only; never publish it."
)
GENERATED = "Made of generated data: nobody is in it."
QUESTIONS: dict[str, Query] = {
    "In poverty in at least one month of the quarter": AtLeast(times=1, of=3),
    "In poverty in at least two months of the quarter": AtLeast(times=2, of=3),
    "In poverty in at least two months in a row": Spell(times=2, of=3),
    "In poverty in all three months": AtLeast(times=3, of=3),
}
_METHODS = ("published, padding taken off", "ours: people", "ours: estimate")


def panel_report(
    panel: np.ndarray,
    *,
    privacy: Loss,
    neighbours: Neighbours,
    repetitions: int,
    noise: Noise,
    generated: bool,
) -> str:
    """Write the page of many runs on one panel.

    The panel holds zeros and ones (steps, people). The page asks four questions of each
    quarter, and "at least three so far" of each step.
    """
    steps, people = panel.shape
    parts: dict[str, Any] = {
        "domain": Schema(poor=Integer(0, 1)),
        "unit": User(column="id"),
        "horizon": steps,
        "privacy": privacy,
    }
    windows: dict[str, Any] = {**parts, "neighbours": neighbours}
    sums: dict[str, Any] = {**parts, "neighbours": Null, "people": people}
    questions = _quarters(panel, windows, repetitions, noise.at("windows"))
    weights = _at_least(panel, 3, sums, repetitions, noise.at("weights"))
    questions["In poverty for at least three months, up to each month"] = weights
    promises = (
        PanelWindow(window=3, complete=True, **windows),
        PanelCumulative(complete=True, **sums),
    )
    caption = (
        f"Where {repetitions:,} runs fall. People are clipped and rounded counts; the estimate is "
        "the measurement itself, unbiased."
    )
    promised = "".join(page.quote(str(made.guarantee)) for made in promises)
    sections = [("The promise of one run", promised)]
    for title, found in questions.items():
        chart = density_chart(found, title=title, y_label="share of people")
        sections.append((title, page.figure(chart, caption)))
    title = f"Quarterly poverty from a panel of {people:,} people"
    if generated:
        return page.html(title, GENERATED, sections)
    return page.html(f"PRIVATE: {title}", PRIVATE, sections)


def _quarters(
    panel: np.ndarray, parts: dict[str, Any], repetitions: int, noise: Noise
) -> dict[str, list[Spread]]:
    """Answer each question by both window methods."""
    truth = window_counts(panel, window=3)
    counts = [*np.zeros((2, 8), np.int64), *truth]
    people = panel.shape[1]
    published = papers.panel_window(window=3, **parts)
    ours = PanelWindow(window=3, complete=True, **parts)
    before = [
        public.histograms - published.padding
        for public in _repeated(published, counts, repetitions, noise.at(0))
    ]
    after = _repeated(ours, counts, repetitions, noise.at(1))
    shown = (
        np.array(before),
        np.array([made.histograms for made in after]),
        np.array([made.estimates for made in after]),
    )
    found = {}
    for title, query in QUESTIONS.items():
        weights = query.weights([0, 1]).ravel()
        found[title] = [
            Spread(
                f"quarter {number}",
                float(truth[release] @ weights) / people,
                {
                    name: part[:, release] @ weights / people
                    for name, part in zip(_METHODS, shown, strict=True)
                },
            )
            for number, release in enumerate(range(0, len(truth), 3), 1)
        ]
    return found


def _at_least(
    panel: np.ndarray, times: int, parts: dict[str, Any], repetitions: int, noise: Noise
) -> list[Spread]:
    """Find the share with `times` ones by both methods."""
    steps, people = panel.shape
    truth = weight_counts(panel)
    reached = list(np.diff(np.hstack([np.full((steps, 1), people), truth]), axis=0, prepend=0))
    runs = {
        name: _repeated(method, reached, repetitions, noise.at(place))
        for place, (name, method) in enumerate(
            {
                "published": papers.panel_cumulative(**parts),
                "ours: people": PanelCumulative(complete=True, **parts),
            }.items()
        )
    }
    totals = {name: np.array([made.totals for made in run]) / people for name, run in runs.items()}
    return [
        Spread(
            f"month {step}",
            float(truth[step - 1, times - 1]) / people,
            {name: part[:, step - 1, times] for name, part in totals.items()},
        )
        for step in range(times, steps + 1)
    ]


def _repeated(
    mechanism: Any, counts: list[np.ndarray], repetitions: int, noise: Noise
) -> list[Any]:
    """Run a mechanism again and again; return public states."""
    released = []
    for repetition in range(repetitions):
        state = mechanism.init()
        for step, count in enumerate(counts):
            counted = Counts(count, np.zeros_like(count))
            state = mechanism.measure(state, counted, noise.at(repetition, step)).state
        released.append(state.public)
    return released
