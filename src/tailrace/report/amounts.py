"""Totals and means of amounts, over time and by group."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.histogram import HistogramView
from tailrace.report import page
from tailrace.report.chart import Line
from tailrace.report.pairs import label
from tailrace.report.shown import Shown
from tailrace.report.truth import opened

_GROUPS = 12  # that are read at a glance


def amounts(shown: Shown, view: HistogramView, name: str) -> str:
    """Draw an amount's total over time, and write its largest groups."""
    missing = Estimate(math.nan, math.nan)
    totals = [one.total(name) if isinstance(one, HistogramView) else missing for one in shown.views]
    drawn = [Line.of("total", shown.steps, totals)]
    if shown.truth is not None:
        true = [_values(shown, view, name, int(step)).sum() for step in shown.steps]
        drawn.append(Line("true", shown.steps, np.array(true), dashed=True))
    caption = f"The total of {name}, clipped as declared; the band reaches two standard errors."
    return page.lines(shown.stream, drawn, f"Total of {name}", name, caption) + _groups(
        shown, view, name
    )


def _groups(shown: Shown, view: HistogramView, name: str) -> str:
    """Write totals and means of the largest groups."""
    found = view.totals(name)
    if found.groups is None:
        return ""
    true, groups = None, found.groups
    if shown.truth is not None:
        step = shown.stream.step
        codes = groups.cells(opened(shown.true_frame(step), *groups.columns))
        true = np.bincount(codes, _values(shown, view, name, step), groups.size)
    rows = []
    for group in np.argsort(-found.total, kind="stable")[:_GROUPS]:
        at = np.unravel_index(int(group), groups.shape)
        parts = zip(groups.attributes, at, strict=True)
        named = ", ".join(label(attribute, [int(code)]) for attribute, code in parts)
        total = Estimate(float(found.total[group]), float(found.total_error[group]))
        mean = Estimate(float(found.mean[group]), float(found.mean_error[group]))
        rows.append((named, total, None if true is None else float(true[group]), page.told(mean)))
    return page.note(page.BARS) + page.bars((", ".join(groups.columns), name, "mean"), rows)


def _values(shown: Shown, view: HistogramView, name: str, step: int) -> np.ndarray:
    """The true amounts at a step, clipped as declared."""
    amount = view.amounts[name].amount
    values = shown.true_frame(step)[name].cast(pl.Float64, strict=False).fill_null(amount.low)
    return values.to_numpy().clip(amount.low, amount.high)
