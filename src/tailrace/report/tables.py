"""The pages of counts: histograms, snapshots and wide tables.

They share their total over time and the values of each column, against the last release and the
first; beyond these, a histogram shows its largest cells, a snapshot how its columns moved and when
it was measured, a table its strongest pairs of columns.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import narwhals as nw
import numpy as np
import polars as pl

from tailrace.domain import Categorical, Schema
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.histogram import HistogramView
from tailrace.mechanisms.snapshot.histogram import SnapshotView
from tailrace.mechanisms.tabular.view import TabularView
from tailrace.metrics import (
    Ranges,
    answers,
    compare,
    random_ranges,
    snapshot_error,
    workload_error,
)
from tailrace.report import page
from tailrace.report.chart import Line, heat_map
from tailrace.report.page import Page, page_of
from tailrace.report.pairs import asked, groups, label, pairs
from tailrace.report.truth import frame_at
from tailrace.stream.log import History
from tailrace.stream.stream import Stream

View = HistogramView | SnapshotView | TabularView
# How much is read at a glance: columns, values of a column, rows of a heat map, cells.
_COLUMNS, _VALUES, _ROWS, _CELLS = 24, 8, 16, 12
_MAPS = 6  # columns with a heat map
_LINES = 5  # values of a column that are drawn over time
# Steps at which columns are looked at: a table of 24 columns takes a second.
_STEPS = 24
_QUERIES = 500  # random ranges that a curator's page asks of snapshots
_BAND = "The band reaches two standard errors to each side."
_SINCE = (
    "The last columns say how far the estimates have moved since the step before and since the "
    "first release; their errors add up those of both, which holds however they depend."
)


@dataclass(frozen=True, eq=False)
class Shown:
    """A stream's views over time, and perhaps the true rows."""

    stream: Stream
    view: View
    steps: np.ndarray  # (steps,) that are shown
    views: list[View | None]
    truth: History | None

    @classmethod
    def of(cls, stream: Stream, view: View, truth: History | None, most: int = _STEPS) -> Shown:
        steps = page.steps_of(stream, most=most)
        return cls(stream, view, steps, [stream.view(int(step)) for step in steps], truth)

    @functools.cached_property
    def since(self) -> list[tuple[int, View]]:
        """The views to compare with: of the step before, and the first there is."""
        found = [] if self.stream.step == 1 else [self.stream.step - 1]
        found += [
            int(step)
            for step, one in zip(self.steps, self.views, strict=True)
            if one is not None and step < self.stream.step - 1
        ][:1]
        views = [(step, self.stream.view(step)) for step in found]
        return [(step, one) for step, one in views if one is not None]

    def true_frame(self, step: int) -> pl.DataFrame:
        """The true rows of a step."""
        assert self.truth is not None
        return frame_at(self.truth, step)

    @functools.cached_property
    def true_counts(self) -> list[np.ndarray] | None:
        """By column, the true number of rows with each code now."""
        if self.truth is None:
            return None
        domain, frame = self.view.domain, self.true_frame(self.stream.step)
        return [
            np.bincount(_codes(domain, name, frame), minlength=attribute.size)
            for name, attribute in zip(domain.columns, domain.attributes, strict=True)
        ]

    def page(self, title: str, sections: Sequence[tuple[str, str]]) -> Page:
        """The page, with what only the curator sees."""
        if self.truth is None:
            return Page(title=title, sections=sections)
        measures = ("How far the release is from the true rows", _measures(self))
        return Page(title=title, sections=[*sections, measures], private=True)


@page_of.register(HistogramView)
def histogram_page(view: HistogramView, stream: Stream, truth: History | None = None) -> Page:
    """Show total over time, largest cells and each column."""
    shown = Shown.of(stream, view, truth)
    sections = [
        ("Over time", _total(shown)),
        ("The largest cells", _cells(shown, view)),
    ]
    if len(view.domain.columns) > 1:
        sections.append(("Column by column", _columns(shown)))
    return shown.page("a histogram, step by step", sections)


@page_of.register(SnapshotView)
def snapshot_page(view: SnapshotView, stream: Stream, truth: History | None = None) -> Page:
    """Show each column over time, and now with errors."""
    shown = Shown.of(stream, view, truth, most=60)
    found = [one for one in shown.views if isinstance(one, SnapshotView)]
    measured = {one.measured for one in found}
    maps = []
    for axis, name in enumerate(view.domain.columns[:_MAPS]):
        attribute = view.domain.attributes[axis]
        rows = groups(attribute, _along(view, axis), _ROWS)
        counts = np.zeros((len(rows), len(shown.steps)))
        for column, one in enumerate(shown.views):
            if isinstance(one, SnapshotView):
                along = _along(one, axis)
                counts[:, column] = [along[codes].sum() for codes in rows]
        labels = [label(attribute, codes) for codes in rows]
        chart = heat_map(
            labels, shown.steps, counts, title=name, marks=np.isin(shown.steps, list(measured))
        )
        # The latest steps first, as in every table of steps.
        header = ("step", *labels)
        told = [
            (f"{step:,}", *(f"{value:,.0f}" for value in counts[:, column]))
            for column, step in reversed(list(enumerate(shown.steps)))
        ]
        caption = (
            f"Records by {name}: the stronger the colour, the more, up to "
            f"{counts.max(initial=0.0):,.0f}. "
            "Dots below mark the steps that were measured."
        )
        maps.append(page.figure(chart, caption, page.table(header, told)))
    told = (
        f"The histogram of the last step was measured at step {view.measured}; the "
        f"{len(shown.steps)} steps shown hold {len(measured)} measurements. Between them the last "
        "one stands, or what is expected from it."
    )
    sections = [
        ("Histograms over time", page.note(told) + "".join(maps)),
        ("Records over time", _total(shown)),
        ("The last step, column by column", _columns(shown, drawn=False)),
    ]
    return shown.page("snapshots, step by step", sections)


@page_of.register(TabularView)
def table_page(view: TabularView, stream: Stream, truth: History | None = None) -> Page:
    """Show total over time, each column and strongest pairs."""
    shown = Shown.of(stream, view, truth)
    tables = [(int(step), one) for step, one in zip(shown.steps, shown.views, strict=True)]
    over = [(step, one) for step, one in tables if isinstance(one, TabularView)]
    sections = [
        ("Over time", _total(shown)),
        ("Column by column", _columns(shown)),
        ("The strongest pairs of columns", pairs(stream, view, over)),
    ]
    return shown.page("a synthetic table, step by step", sections)


def _total(shown: Shown) -> str:
    """Draw the estimated number of records at each step."""
    missing = Estimate(math.nan, math.nan)
    found = [missing if one is None else one.count() for one in shown.views]
    drawn = [Line.of("records", shown.steps, found)]
    if shown.truth is not None:
        drawn.append(Line("true", shown.steps, shown.truth.rows_at(shown.steps), dashed=True))
    caption = f"A noisy count of all records. {_BAND}"
    return page.lines(shown.stream, drawn, "Records", "records", caption)


def _cells(shown: Shown, view: HistogramView) -> str:
    """Write the cells that hold most."""
    error, rows, true = math.sqrt(view.variance), [], None
    if shown.truth is not None:
        frame = nw.from_native(shown.true_frame(shown.stream.step), eager_only=True)
        true = np.bincount(view.domain.cells(frame), minlength=view.domain.size)
    for cell in np.argsort(-view.estimates, kind="stable")[:_CELLS]:
        now = Estimate(float(view.estimates[cell]), error)
        since = (page.change(now, _of_cell(one, int(cell))) for _, one in shown.since)
        rows.append((_cell(view, cell), now, None if true is None else int(true[cell]), *since))
    words = page.note(f"{page.BARS} {_since(shown)}")
    return words + page.bars((", ".join(view.domain.columns), "records", *_headers(shown)), rows)


def _columns(shown: Shown, *, drawn: bool = True) -> str:
    """Write each column's values, with lines over time."""
    domain, parts = shown.view.domain, []
    for axis, name in enumerate(domain.columns[:_COLUMNS]):
        attribute = domain.attributes[axis]
        chosen = groups(attribute, _along(shown.view, axis), _VALUES)
        now = _counts(shown.view, name, chosen)
        others = [_counts(one, name, chosen) for _, one in shown.since]
        labels, true = [label(attribute, codes) for codes in chosen], shown.true_counts
        rows = [
            (
                labels[place],
                now[place],
                None if true is None else int(true[axis][codes].sum()),
                *(page.change(now[place], other[place]) for other in others),
            )
            for place, codes in enumerate(chosen)
        ]
        table = page.bars((name, "records", *_headers(shown)), rows)
        chart = _over_time(shown, axis, chosen, labels) if drawn and len(shown.steps) > 1 else ""
        two = f'<div class="beside">{chart}<div>{table}</div></div>' if chart else table
        parts.append(page.heading(name) + two)
    notes = []
    if any(isinstance(one, Categorical) and len(one.values) > _VALUES for one in domain.attributes):
        notes.append(f"Of categories, the {_VALUES} largest are shown.")
    if any(one.outside == "other" for one in domain.attributes):
        notes.append("Values outside the declared sets are counted, and not shown.")
    if len(domain.columns) > _COLUMNS:
        notes.append(f"The first {_COLUMNS} of {len(domain.columns)} columns are shown.")
    return page.note(" ".join([page.BARS, _since(shown), *notes])) + "\n".join(parts)


def _headers(shown: Shown) -> list[str]:
    return [f"since step {step}" for step, _ in shown.since]


def _since(shown: Shown) -> str:
    return _SINCE if shown.since else ""


def _over_time(shown: Shown, axis: int, chosen: list[list[int]], labels: list[str]) -> str:
    """Draw the shares of a column's largest values over time."""
    name, most = shown.view.domain.columns[axis], _along(shown.view, axis)
    order = sorted(range(len(chosen)), key=lambda place: -most[chosen[place]].sum())[:_LINES]
    some = [chosen[place] for place in order]
    found = [_shares(one, name, some) for one in shown.views]
    drawn = [
        Line.of(labels[place], shown.steps, [one[row] for one in found])
        for row, place in enumerate(order)
    ]
    caption = f"Shares of records by {name}, the {len(some)} largest. {_BAND}"
    title = f"Share of records by {name}"
    return page.lines(shown.stream, drawn, title, "share of records", caption, percent=True)


def _shares(view: View | None, name: str, chosen: list[list[int]]) -> list[Estimate]:
    """The same as shares; the errors of part and total add up, however they depend."""
    total = Estimate(0.0, 0.0) if view is None else view.count()
    if view is None or total.value <= 0:
        return [Estimate(math.nan, math.nan)] * len(chosen)
    found = _counts(view, name, chosen)
    shares = [one.value / total.value for one in found]
    return [
        Estimate(share, (one.error + abs(share) * total.error) / total.value)
        for share, one in zip(shares, found, strict=True)
    ]


def _counts(view: View, name: str, chosen: list[list[int]]) -> list[Estimate]:
    """Estimate the records of each group of codes."""
    attribute = view.domain.attributes[view.domain.columns.index(name)]
    if isinstance(view, TabularView):
        found = view.marginal(name)
        values, squares = found.values, found.errors**2
        return [
            Estimate(float(values[codes].sum()), math.sqrt(float(squares[codes].sum())))
            for codes in chosen
        ]
    return [view.count(**{name: asked(attribute, codes)}) for codes in chosen]


def _along(view: View, axis: int) -> np.ndarray:
    """Return the estimates of one column's values."""
    if isinstance(view, TabularView):
        return view.marginal(view.domain.columns[axis]).values
    others = tuple(other for other in range(len(view.domain.shape)) if other != axis)
    return view.estimates.reshape(view.domain.shape).sum(axis=others)


def _cell(view: HistogramView, cell: int) -> str:
    """Name a cell by its values."""
    codes = map(int, np.unravel_index(cell, view.domain.shape))
    parts = zip(view.domain.attributes, codes, strict=True)
    return ", ".join(label(attribute, [code]) for attribute, code in parts)


def _of_cell(view: View, cell: int) -> Estimate:
    assert isinstance(view, HistogramView)
    return Estimate(float(view.estimates[cell]), math.sqrt(view.variance))


def _codes(domain: Schema, name: str, frame: pl.DataFrame) -> np.ndarray:
    """Code one column of true rows; all of them are counted."""
    attribute = domain.attributes[domain.columns.index(name)]
    return Schema(**{name: attribute}).cells(nw.from_native(frame[[name]], eager_only=True))


def _measures(shown: Shown) -> str:
    """Tabulate how far the synthetic rows are from the true ones."""
    true = shown.true_frame(shown.stream.step)
    made = shown.stream.release(shown.stream.step).table
    if not len(true) or not len(made):
        return page.note("There are no rows to compare at the last step.")
    names = list(shown.view.domain.columns)
    parts = [
        page.note(
            "Total variation: the share of synthetic rows that would have to move for a column, or "
            "two together, to be as in the true rows; then the largest difference of a cell's "
            "share. Numbers of many values are compared in 20 bins. The farthest are shown."
        ),
        page.table(
            ("columns", "cells", "total variation", "largest"),
            [
                (columns, f"{cells:,}", f"{100 * far:.1f} %", f"{100 * largest:.2f} %")
                for columns, cells, far, largest in compare(true[names], made[names])
                .head(20)
                .rows()
            ],
        ),
    ]
    if isinstance(shown.view, SnapshotView):
        parts.append(_snapshots(shown))
    if isinstance(shown.view, TabularView):
        parts.append(_workloads(shown.view, true, made))
    return "".join(parts)


def _snapshots(shown: Shown) -> str:
    """The errors of ranges over the steps shown."""
    domain = shown.view.domain
    ranges: Ranges = random_ranges(np.random.default_rng(0), domain.shape, _QUERIES)
    asked_of: dict[int, np.ndarray] = {}

    def true(step: int) -> np.ndarray:
        if step not in asked_of:
            rows = nw.from_native(shown.true_frame(step), eager_only=True)
            counts = np.bincount(domain.cells(rows), minlength=domain.size)
            asked_of[step] = answers(counts, ranges, domain.shape)
        return asked_of[step]

    pairs = [
        (int(step), one)
        for step, one in zip(shown.steps, shown.views, strict=True)
        if isinstance(one, SnapshotView)
    ]
    found = snapshot_error(
        np.stack([true(step) for step, _ in pairs]),
        np.stack([answers(one.estimates, ranges, domain.shape) for _, one in pairs]),
        np.stack([true(one.measured) for _, one in pairs]),
    )
    words = page.note(
        f"Mean error of {_QUERIES} random ranges over the {len(pairs)} steps shown, and its two "
        "parts: the changes since the last measurement, and the noise in it."
    )
    names = ("records", "relative", "by changes", "by noise")
    values = (found.absolute, found.relative, found.update, found.perturbation)
    shown_values = [
        f"{one:,.3g}" if name == "relative" else f"{one:,.0f}"
        for name, one in zip(names, values, strict=True)
    ]
    return words + page.table(("error in", *names), [("ranges", *shown_values)])


def _workloads(view: TabularView, true: pl.DataFrame, made: pl.DataFrame) -> str:
    """The paper's errors over all workloads."""
    names = view.domain.columns
    true_counts, made_counts = (
        view.marginals.tally(np.stack([_codes(view.domain, one, rows) for one in names], axis=1))
        for rows in (true, made)
    )
    found = workload_error(true_counts, made_counts, view.marginals)
    rows = [
        ("mean absolute error of a cell (AvgWE)", f"{found.average:.5f}"),
        ("of the worst workload (MaxWE)", f"{found.largest:.5f}"),
        ("mean relative error of a cell (AvgRelWE)", f"{found.average_relative:.3f}"),
        ("of the worst workload (MaxRelWE)", f"{found.largest_relative:.3f}"),
        ("mean total variation", f"{found.average_variation:.4f}"),
    ]
    words = page.note(f"Errors of proportions over all {len(view.marginals.cliques)} workloads.")
    return words + page.table(("measure", "synthetic rows"), rows)
