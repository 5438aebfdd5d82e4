"""The pages of counts: histograms, snapshots and wide tables.

They share their total over time and the values of each column; beyond these, a histogram shows
its largest cells, a snapshot how its columns moved, a table its strongest pairs of columns.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrace.domain import Attribute, Categorical, Integer, Real
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.histogram import HistogramView
from tailrace.mechanisms.snapshot.histogram import SnapshotView
from tailrace.mechanisms.tabular.view import TabularView
from tailrace.report import page
from tailrace.report.chart import Line, heat_map, line_chart
from tailrace.report.page import Page, page_of
from tailrace.stream.stream import Stream

View = HistogramView | SnapshotView | TabularView
# How much is read at a glance: columns, values of a column, rows of a heat map, cells, pairs.
_COLUMNS, _VALUES, _ROWS, _CELLS, _PAIRS = 24, 8, 16, 12, 6
_MAPS = 6  # columns with a heat map
_BARS = "± is one standard error; the line over a bar reaches two to each side."
_LARGEST = 10_000  # cells of a pair of columns that is looked at
# Mean of the absolute value of a normal variable, in standard deviations, and half of it for a
# total variation.
_HALF_OF_ABSOLUTE = 0.4
# A pair is shown from this many times its noise on. By reasoning: over a dozen cells or more, sums
# of absolute noise stay below it nearly always.
_CLEAR = 1.5


@page_of.register(HistogramView)
def histogram_page(view: HistogramView, stream: Stream, _truth: None = None) -> Page:
    """Show total over time, largest cells and each column."""
    error = math.sqrt(view.variance)
    largest = np.argsort(-view.estimates, kind="stable")[:_CELLS]
    rows = [(_cell(view, cell), Estimate(float(view.estimates[cell]), error)) for cell in largest]
    sections = [
        ("Over time", _total(stream)),
        ("The largest cells", page.bars((", ".join(view.domain.columns), "records"), rows)),
    ]
    if len(view.domain.columns) > 1:
        sections.append(("Column by column", _columns(view)))
    return Page(title="A histogram, released step by step", sections=sections)


@page_of.register(SnapshotView)
def snapshot_page(view: SnapshotView, stream: Stream, _truth: None = None) -> Page:
    """Show each column over time, and now with errors."""
    shown = page.steps_of(stream)
    views = [stream.release(int(step)).view for step in shown]
    measured = {one.measured for one in views if one is not None}
    maps = []
    for axis, name in enumerate(view.domain.columns[:_MAPS]):
        attribute = view.domain.attributes[axis]
        groups = _groups(attribute, _along(view, axis), _ROWS)
        counts = np.zeros((len(groups), len(shown)))
        for column, one in enumerate(views):
            if one is not None:
                along = _along(one, axis)
                counts[:, column] = [along[codes].sum() for codes in groups]
        labels = [_label(attribute, codes) for codes in groups]
        caption = f"The strongest colour stands for {counts.max(initial=0.0):,.0f} records."
        maps.append(page.figure(heat_map(labels, shown, counts, title=name), caption))
    told = (
        f"The histogram of the last step was measured at step {view.measured}; the {len(shown)} "
        f"steps shown hold {len(measured)} measurements. Between them the last one stands."
        f"{page.span(stream)}"
    )
    return Page(
        title="Snapshots, released step by step",
        sections=[
            ("Histograms over time", page.note(told) + "".join(maps)),
            ("Records over time", _total(stream)),
            ("The last step, column by column", _columns(view)),
        ],
    )


@page_of.register(TabularView)
def table_page(view: TabularView, stream: Stream, _truth: None = None) -> Page:
    """Show total over time, each column and strongest pairs."""
    sections = [("Over time", _total(stream)), ("Column by column", _columns(view))]
    sections.append(("The strongest pairs of columns", _pairs(view)))
    return Page(title="A synthetic table, released step by step", sections=sections)


def _total(stream: Stream) -> str:
    """Draw the estimated number of records at each step."""
    steps = page.steps_of(stream)
    views = (stream.release(int(step)).view for step in steps)
    found = [Estimate(math.nan, math.nan) if one is None else one.count() for one in views]
    line = Line.of("records", steps, found)
    chart = line_chart([line], title="Records", x_label="step", y_label="records")
    caption = "A noisy count; the band reaches two standard errors to each side."
    return page.figure(chart, f"{caption}{page.span(stream)}")


def _columns(view: View) -> str:
    """Write bars for the values of each column."""
    domain, tables = view.domain, []
    for axis, name in enumerate(domain.columns[:_COLUMNS]):
        attribute = domain.attributes[axis]
        rows = [
            (_label(attribute, codes), view.count(**{name: _asked(attribute, codes)}))
            for codes in _groups(attribute, _along(view, axis), _VALUES)
        ]
        tables.append(f"<div>{page.bars((name, 'records'), rows)}<br></div>")
    notes = []
    if any(isinstance(one, Categorical) and len(one.values) > _VALUES for one in domain.attributes):
        notes.append(f"Of categories, the {_VALUES} largest are shown.")
    if any(one.outside == "other" for one in domain.attributes):
        notes.append("Values outside the declared sets are counted, and not shown.")
    if len(domain.columns) > _COLUMNS:
        notes.append(f"The first {_COLUMNS} of {len(domain.columns)} columns are shown.")
    told = page.note(" ".join([_BARS, *notes]))
    return f'{told}\n<div class="columns">{"".join(tables)}</div>'


def _pairs(view: TabularView) -> str:
    """Write the pairs farthest from independence, beyond their noise."""
    shape, cliques = view.domain.shape, view.marginals.cliques
    held = {pair for clique in cliques for pair in itertools.combinations(clique, 2)}
    found = [
        _pair(view, a, b)
        for a, b in sorted(held)
        if min(shape[a], shape[b]) > 1 and shape[a] * shape[b] <= _LARGEST
    ]
    clear = [one for one in found if one.apart > _CLEAR * one.noise]
    clear.sort(key=lambda one: one.noise - one.apart)
    if not clear:
        return page.note("No pair of columns stands out from its noise.")
    told = (
        "The percentage is the share of records that would have to move for the two columns to be "
        "independent; noise alone would give about the one in brackets. Below: the combinations "
        "that depart most, and the counts if the columns were independent."
    )
    parts = [page.note(told)]
    for one in clear[:_PAIRS]:
        heading = f"{one.name}: {100 * one.apart:.1f} % (noise: {100 * one.noise:.1f} %)"
        parts.append(page.heading(heading))
        parts.append(page.table((one.name, "records", "if independent"), one.departures()))
    return "\n".join(parts)


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two columns, in few groups of values each."""

    name: str
    labels: tuple[list[str], list[str]]
    values: np.ndarray  # (groups, groups)
    errors: np.ndarray

    @functools.cached_property
    def independent(self) -> np.ndarray:
        """The counts of independent columns with the same marginals."""
        total = max(float(self.values.sum()), 1.0)
        return np.outer(self.values.sum(axis=1), self.values.sum(axis=0)) / total

    @property
    def apart(self) -> float:
        """Total variation from independence."""
        return float(np.abs(self.values - self.independent).sum() / 2 / max(self.values.sum(), 1.0))

    @property
    def noise(self) -> float:
        """Total variation that noise alone would give."""
        return float(_HALF_OF_ABSOLUTE * self.errors.sum() / max(self.values.sum(), 1.0))

    def departures(self) -> list[tuple[str, str, str]]:
        """The five cells farthest from independence, in standard errors."""
        apart = np.abs(self.values - self.independent) / np.maximum(self.errors, 1e-9)
        rows = []
        for cell in np.argsort(-apart, axis=None, kind="stable")[:5]:
            a, b = (int(code) for code in np.unravel_index(cell, apart.shape))
            found = Estimate(float(self.values[a, b]), float(self.errors[a, b]))
            name = f"{self.labels[0][a]} and {self.labels[1][b]}"
            rows.append((name, page.told(found), f"{self.independent[a, b]:,.0f}"))
        return rows


def _pair(view: TabularView, *axes: int) -> _Pair:
    names = [view.domain.columns[axis] for axis in axes]
    joint = view.marginal(*names)
    values, squares, labels = joint.values, joint.errors**2, []
    for place, axis in enumerate(axes):
        attribute = view.domain.attributes[axis]
        groups = _groups(attribute, joint.values.sum(axis=1 - place), _VALUES)
        rest = sorted(set(range(attribute.size)).difference(*groups))
        labels.append([_label(attribute, codes) for codes in groups] + ["(others)"] * bool(rest))
        groups += [rest] * bool(rest)
        values, squares = (
            np.stack([part.take(codes, place).sum(place) for codes in groups], place)
            for part in (values, squares)
        )
    return _Pair(" and ".join(names), (labels[0], labels[1]), values, np.sqrt(squares))


def _along(view: View, axis: int) -> np.ndarray:
    """Return the estimates of one column's values."""
    if isinstance(view, TabularView):
        return view.marginal(view.domain.columns[axis]).values
    others = tuple(other for other in range(len(view.domain.shape)) if other != axis)
    return view.estimates.reshape(view.domain.shape).sum(axis=others)


def _groups(attribute: Attribute, counts: np.ndarray, most: int) -> list[list[int]]:
    """Choose the largest categories, or ranges of numbers."""
    if isinstance(attribute, Categorical):
        order = np.argsort(-counts[: len(attribute.values)], kind="stable")
        return [[int(code)] for code in order[:most]]
    known = attribute.size - (attribute.outside == "other")
    width = -(-known // most)
    return [list(range(first, min(first + width, known))) for first in range(0, known, width)]


def _asked(attribute: Attribute, codes: Sequence[int]) -> Sequence[str | float | bool]:
    """Return the condition that asks for the codes."""
    if isinstance(attribute, Categorical):
        return [attribute.values[code] for code in codes]
    if isinstance(attribute, Integer):
        return attribute.low + codes[0], attribute.low + codes[-1]
    assert isinstance(attribute, Real), "amounts are no columns of a view"
    return attribute.edges[codes[0]], attribute.edges[codes[-1] + 1]


def _label(attribute: Attribute, codes: Sequence[int]) -> str:
    """Name the values of adjacent codes, or of one."""
    if attribute.outside == "other" and codes[-1] == attribute.size - 1:
        return "(outside)"
    first, *rest = _asked(attribute, codes)
    if rest and (isinstance(attribute, Real) or rest[0] != first):
        return f"{first:g} to {rest[0]:g}"
    return str(first)


def _cell(view: HistogramView, cell: int) -> str:
    """Name a cell by its values."""
    codes = map(int, np.unravel_index(cell, view.domain.shape))
    pairs = zip(view.domain.attributes, codes, strict=True)
    return ", ".join(_label(attribute, [code]) for attribute, code in pairs)
