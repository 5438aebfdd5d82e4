"""Errors that follow from the mechanism alone, without any data.

The errors of counters, histograms and panels do not depend on what is counted: their noise has a
known variance, and their estimates have no bias. A histogram's is that of its counter; a panel's is
what its view states after a run on nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tailrace.counting.plan import Counts, Plan
from tailrace.mechanisms.base import Mechanism
from tailrace.mechanisms.histogram import HistogramStream
from tailrace.mechanisms.panel.columns import PanelColumns
from tailrace.mechanisms.panel.cumulative import PanelCumulative
from tailrace.mechanisms.panel.queries import Pattern
from tailrace.mechanisms.panel.window import PanelWindow
from tailrace.noise import Noise
from tailrace.planning.course import Course
from tailrace.planning.questions import cliques_of
from tailrace.planning.trials import steps_shown

# Of a normal variable, in standard deviations: nine in ten are nearer.
_NINE_IN_TEN = 1.645
# Steps looked at: all of most histograms, whose variances jump; of panels each is asked for.
_TIMES, _PANEL = 4096, 24
# Histories of a panel that are asked for.
_HISTORIES = 64


def is_exact(mechanism: Mechanism) -> bool:
    """Whether errors are known without a run on data."""
    return isinstance(mechanism, HistogramStream | PanelWindow | PanelColumns | PanelCumulative)


def known(mechanism: Mechanism, *, steps: int) -> tuple[Course, ...]:
    """The exact errors of a mechanism over time."""
    if isinstance(mechanism, HistogramStream):
        found = _histogram(mechanism, steps)
    else:
        view = _viewed(mechanism, steps)
        found = _panel(mechanism, view, steps)
    return tuple(
        Course(name, at, np.sqrt(variance), _NINE_IN_TEN * np.sqrt(variance))
        for name, at, variance in found
    )


Found = Iterator[tuple[str, np.ndarray, np.ndarray]]


def _histogram(mechanism: HistogramStream, steps: int) -> Found:
    """The variance of a sum of bins: bins are independent."""
    domain, at = mechanism.rows, steps_shown(steps, most=_TIMES)
    variance = mechanism.counting.variance(at)
    for name, cliques in cliques_of(domain).items():
        cells = sum(int(np.prod([domain.shape[axis] for axis in clique])) for clique in cliques)
        # Every clique sums up all bins; the mean is over the cells of all cliques.
        yield name, at, variance * len(cliques) * domain.size / cells
    if len(domain.columns) > 2:
        yield "one combination of all columns", at, variance
    yield "all records", at, variance * domain.size
    for (column, amount), adding in zip(
        mechanism.domain.amounts.items(), mechanism.adding, strict=True
    ):
        many = np.prod([mechanism.rows.size, *(1 / size for size in mechanism.groups)])
        total = amount.unit**2 * adding.variance(at) + amount.low**2 * many * variance
        yield f"the total of {column} in one group", at, total


def _viewed(mechanism: Any, steps: int) -> Any:
    """The view of a panel in which nobody ever was."""
    state, noise = mechanism.init(), Noise.insecure(0)
    for step in range(steps):
        plan = mechanism.plan(state.public)
        assert isinstance(plan, Plan)
        none = np.zeros(plan.size, np.int64)
        state = mechanism.measure(state, Counts(none, none), noise.at(step)).state
    return mechanism.view(state.public)


def _panel(mechanism: Any, view: Any, steps: int) -> Found:
    if isinstance(mechanism, PanelCumulative):
        yield from _cumulative(view, steps)
        return
    at = steps_shown(steps, mechanism.window, most=_PANEL)
    if isinstance(mechanism, PanelColumns):
        for column in mechanism.domain.columns:
            yield f"the people with one value of {column}", at, _values(view[column], at)
        yield "the people with one combination of values", at, np.full(len(at), view.variance)
        return
    yield "the people with one value at a step", at, _values(view, at)
    if mechanism.window > 1:
        values, steps_ = mechanism.domain.size, mechanism.window
        places = np.unique(np.linspace(0, values**steps_ - 1, _HISTORIES).astype(int))
        codes = np.stack(np.unravel_index(places, (values,) * steps_), axis=1)
        histories = [Pattern(*(view.values[code] for code in one)) for one in codes]
        yield f"the people with one history of {steps_} steps", at, _mean(view, histories, at)


def _values(view: Any, at: np.ndarray) -> np.ndarray:
    return _mean(view, [Pattern(one) for one in view.values if one is not None], at)


def _mean(view: Any, asked: list[Pattern], at: np.ndarray) -> np.ndarray:
    """(steps,) the mean variance of some questions."""
    return np.array(
        [np.mean([view.estimate(one, step=int(step)).error ** 2 for one in asked]) for step in at]
    )


def _cumulative(view: Any, steps: int) -> Found:
    at = steps_shown(steps, most=_TIMES)
    for name, times in (("once", np.ones_like(at)), ("in half of the steps", (at + 1) // 2)):
        yield f"the people with the value at least {name} so far", at, view.variances[at - 1, times]
