"""The pages of counts: histograms, snapshots and wide tables.

They share their total over time and the values of each column, against the last release and the
first; beyond these, a histogram shows its largest cells, a snapshot how its columns moved and when
it was measured, a table its strongest pairs of columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tailrace.domain import Attribute, Categorical, Schema
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.histogram import HistogramView
from tailrace.mechanisms.snapshot.histogram import SnapshotView
from tailrace.mechanisms.tabular.view import TabularView
from tailrace.report import page
from tailrace.report.amounts import amounts
from tailrace.report.chart import Line, heat_map
from tailrace.report.measures import measures
from tailrace.report.page import Page, page_of
from tailrace.report.pairs import asked, groups, label, pairs
from tailrace.report.shown import Shown, View
from tailrace.report.truth import opened
from tailrace.stream.log import History
from tailrace.stream.stream import Stream

# How much is read at a glance: columns, values of a column, rows of a heat map, cells.
_COLUMNS, _VALUES, _ROWS, _CELLS = 24, 8, 16, 12
_MAPS = 6  # columns with a heat map
_LINES = 5  # values of a column that are drawn over time
_BAND = "The band reaches two standard errors to each side."
_SINCE = (
    "The last columns say how far the estimates have moved since the step before and since the "
    "first release; their errors add up those of both, which holds however they depend."
)


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
    sections += [(f"Totals of {name}", amounts(shown, view, name)) for name in view.amounts]
    return _page(shown, "a histogram, step by step", sections)


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
            labels,
            shown.steps,
            counts,
            title=f"Records by {name}",
            marks=np.isin(shown.steps, list(measured)),
            x_label=page.x_label(shown.stream),
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
    return _page(shown, "snapshots, step by step", sections)


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
    return _page(shown, "a synthetic table, step by step", sections)


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
        frame = opened(shown.true_frame(shown.stream.step), *view.domain.columns)
        true = np.bincount(view.domain.cells(frame), minlength=view.domain.size)
    for cell in np.argsort(-view.estimates, kind="stable")[:_CELLS]:
        now = Estimate(float(view.estimates[cell]), error)
        since = (page.change(now, _of_cell(one, int(cell), view.domain)) for _, one in shown.since)
        rows.append((_cell(view, cell), now, None if true is None else int(true[cell]), *since))
    words = page.note(f"{page.BARS} {_since(shown)}")
    return words + page.bars((", ".join(view.domain.columns), "records", *_headers(shown)), rows)


def _columns(shown: Shown, *, drawn: bool = True) -> str:
    """Write each column's values, with lines over time."""
    domain, parts = shown.view.domain, []
    for axis, name in enumerate(domain.columns[:_COLUMNS]):
        attribute = domain.attributes[axis]
        chosen = groups(attribute, _along(shown.view, axis), _VALUES)
        now = _counts(shown.view, attribute, name, chosen)
        others = [_counts(one, attribute, name, chosen) for _, one in shown.since]
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
    attribute = shown.view.domain.attributes[axis]
    found = [_shares(one, attribute, name, some) for one in shown.views]
    drawn = [
        Line.of(labels[place], shown.steps, [one[row] for one in found])
        for row, place in enumerate(order)
    ]
    caption = f"Shares of records by {name}, the {len(some)} largest. {_BAND}"
    title = f"Share of records by {name}"
    return page.lines(shown.stream, drawn, title, "share of records", caption, percent=True)


def _shares(
    view: View | None, attribute: Attribute, name: str, chosen: list[list[int]]
) -> list[Estimate]:
    """The same as shares; the errors of part and total add up, however they depend."""
    total = Estimate(0.0, 0.0) if view is None else view.count()
    if view is None or total.value <= 0:
        return [Estimate(math.nan, math.nan)] * len(chosen)
    found = _counts(view, attribute, name, chosen)
    shares = [one.value / total.value for one in found]
    return [
        Estimate(share, (one.error + abs(share) * total.error) / total.value)
        for share, one in zip(shares, found, strict=True)
    ]


def _counts(view: View, attribute: Attribute, name: str, chosen: list[list[int]]) -> list[Estimate]:
    """Estimate the records of each group of codes; nan for values that came later."""
    own = view.domain.attributes[view.domain.columns.index(name)]
    if isinstance(view, TabularView):
        found = view.marginal(name)
        values, squares = found.values, found.errors**2
        return [
            Estimate(float(values[codes].sum()), math.sqrt(float(squares[codes].sum())))
            for codes in chosen
        ]
    known = [
        not isinstance(own, Categorical) or set(asked(attribute, codes)) <= set(own.values)
        for codes in chosen
    ]
    return [
        view.count(**{name: asked(attribute, codes)}) if there else Estimate(math.nan, math.nan)
        for codes, there in zip(chosen, known, strict=True)
    ]


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


def _of_cell(view: View, cell: int, domain: Schema) -> Estimate:
    """A cell of `domain` in an earlier view, whose list may be shorter."""
    assert isinstance(view, HistogramView)
    codes = []
    for attribute, own, code in zip(
        domain.attributes, view.domain.attributes, np.unravel_index(cell, domain.shape), strict=True
    ):
        outside = attribute.outside == "other" and code == attribute.size - 1
        if attribute == own or not isinstance(own, Categorical) or outside:
            codes.append(own.size - 1 if outside else int(code))
        elif label(attribute, [int(code)]) in own.values:
            codes.append(own.values.index(label(attribute, [int(code)])))
        else:
            return Estimate(math.nan, math.nan)
    place = int(np.ravel_multi_index(codes, view.domain.shape))
    return Estimate(float(view.estimates[place]), math.sqrt(view.variance))


def _page(shown: Shown, title: str, sections: Sequence[tuple[str, str]]) -> Page:
    """The page, with what only the curator sees."""
    if shown.truth is None:
        return Page(title=title, sections=sections)
    told = ("How far the release is from the true rows", measures(shown))
    return Page(title=title, sections=[*sections, told], private=True)
