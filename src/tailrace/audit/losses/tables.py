"""Tables: choices and totals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tailrace import papers
from tailrace.audit import gallery
from tailrace.audit.losses.replaying import Points, metered
from tailrace.domain import Integer, Schema
from tailrace.privacy.loss import PureDP
from tailrace.privacy.unit import Event


def _errors(queries: int, a: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """One row more: the first query's error rises, all others fall."""
    world, other = np.full(queries, a), np.full(queries, a - 1)
    other[0] = a + 1
    return world, other


def _chosen(queries: int, rate: float) -> float:
    """The loss of a choice with exp(rate score) among integer scores."""
    logs = []
    for scores in _errors(queries):
        exponents = rate * scores
        logs.append(exponents - np.logaddexp.reduce(exponents))
    return float(np.abs(logs[1] - logs[0]).max())


def _tables(**options: Any) -> Any:
    """Ours on three columns of two values, of which one pair is chosen."""
    columns = {name: Integer(0, 1) for name in "abc"}
    about: dict[str, Any] = {"domain": Schema(**columns), "unit": Event(), "chosen": 1}
    return papers.streaming_mwem(**about, **options)


def selection() -> Points:
    """The choice and its measurement, epsilon = 1 and one round."""
    made = _tables(privacy=PureDP(epsilon=1), horizon=10)
    rest = float(made.counting.loss(1, 0).epsilon) + float(made.totals.loss(1, 0).epsilon)
    points: Points = []
    for queries in (2, 10, 100, 1000):
        logs = [
            gallery.published_mwem_selection(each, epsilon=1, rounds=1) for each in _errors(queries)
        ]
        lost = float((logs[1] - logs[0]).max()) + 0.5
        points.append((queries, lost, _chosen(queries, float(made.choice.rate)) + rest))
    return points


def single_values() -> Points:
    """Pairs with a single cell, of a budget of 1/2 for the choice."""
    made = _tables(privacy=PureDP(epsilon=1), horizon=10)
    budget = float(made.choice.loss(1, 0).epsilon)
    points: Points = []
    for queries in (2, 10, 100, 1000):
        logs = [
            gallery.published_workload_selection(
                [np.array([float(e)]) for e in each], epsilon=1, rounds=1
            )
            for each in _errors(queries, 5)
        ]
        ours = _chosen(queries, float(made.choice.rate)) / budget
        points.append((queries, float((logs[1] - logs[0]).max()) / 0.5, ours))
    return points


def worst_first() -> Points:
    """How likely the best of two is chosen, ten apart; not a loss."""
    printed = gallery.published_exponential_mechanism(
        np.array([10.0, 0.0]), epsilon=1, sensitivity=1
    )
    right = math.exp(-np.logaddexp(0.0, -5.0))
    return [("two candidates", float(np.exp(printed[0])), right)]


def true_total() -> Points:
    batch, model = np.array([20, 10, 10, 10]), np.ones(4)
    totals = [
        gallery.published_mwem_step(model, 0, 20.0, batch + extra).sum()
        for extra in (0, np.array([1, 0, 0, 0]))
    ]
    made = _tables(privacy=PureDP(epsilon=2), horizon=3)
    lost = math.inf if abs(totals[0] - totals[1]) > 0.5 else 0.0
    return [("50 rows or 51", lost, metered(made))]
