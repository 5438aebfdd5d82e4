"""The page of a panel: shares and spells over time, with errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tailrace.domain import Schema
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.panel.columns_view import ColumnsView
from tailrace.mechanisms.panel.cumulative_view import CumulativeView
from tailrace.mechanisms.panel.queries import AtLeast, Pattern, Query, Spell
from tailrace.mechanisms.panel.view import ClosedView, OpenView, PanelView, WindowView
from tailrace.metrics.panels import weight_counts, window_counts
from tailrace.report import page
from tailrace.report.chart import Line
from tailrace.report.page import Page, page_of, quote, steps_of
from tailrace.report.truth import opened
from tailrace.stream.log import History
from tailrace.stream.stream import Stream

Value = str | int | bool | None
# Lines that can be told apart, rows that are read at a glance, values with a chart of spells.
_LINES, _ROWS, _SPELLS = 6, 12, 3
_BAND = "Unbiased estimates; a band reaches two standard errors to each side."
# A question at the steps from a first one on.
Asked = tuple[str, Callable[[int], Query], int]


@page_of.register(WindowView)
def window_page(view: WindowView, stream: Stream, truth: History | None = None) -> Page:
    """Show each value's share over time, and how long it lasts."""
    sections, errors = _window(view, stream, truth)
    return _page(view, sections, errors if truth is not None else None)


@page_of.register(ColumnsView)
def columns_page(view: ColumnsView, stream: Stream, truth: History | None = None) -> Page:
    """Show each column, and combinations of values lately."""
    sections, errors = [], []
    for name in view.domain.columns:
        found, off = _window(view[name], stream, truth)
        sections += [(f"{name}: {title}", body) for title, body in found]
        errors += off
    rows = sorted(view.combinations().rows(), key=lambda row: -row[-2])[:_ROWS]
    shown = [
        (", ".join("missing" if one is None else str(one) for one in row), Estimate(many, error))
        for *row, many, error in rows
    ]
    table = page.note(page.BARS) + page.bars((", ".join(view.domain.columns), "people"), shown)
    together = (f"Together at step {view.step}", table)
    return _page(view, [*sections, together], errors if truth is not None else None)


@page_of.register(CumulativeView)
def cumulative_page(view: CumulativeView, stream: Stream, truth: History | None = None) -> Page:
    """Show the shares with 1, 2, ... occurrences so far."""
    most = range(1, view.step + 1)
    asked: list[Asked] = [
        (f"{times} or more", lambda step, times=times: AtLeast(times=times, of=step), times)
        for times in most[:_ROWS]
    ]
    true = None if truth is None else _true_weights(view, truth)
    value = _named(view, view.values[view.counted])
    title = f"Share of people with {value}, by how often so far"
    drawn = _lines(view, true, stream, asked[:_LINES])
    sections = [
        ("Over time", _over_time(view, stream, drawn, title)),
        (f"How often in the first {view.step} steps", _now(view, true, value, asked)),
    ]
    return _page(view, sections, None if true is None else _off(view, true, stream, asked))


def _window(
    view: WindowView, stream: Stream, truth: History | None
) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]]]:
    """The sections of one column's panel, and its errors."""
    true = None if truth is None else _true_windows(view, truth)
    among = [value for value in view.values if value is not None or view.counts_missing]
    order = sorted(among, key=lambda value: -view.proportion(Pattern(value)).value)
    asked: list[Asked] = [
        (_named(view, value), lambda _, value=value: Pattern(value), 1) for value in order
    ]
    drawn = _lines(view, true, stream, asked[:_LINES])
    sections = [("Over time", _over_time(view, stream, drawn, "Share of people by value"))]
    if isinstance(view, OpenView):
        sections.append(("Who is there", _present(view, true, stream)))
    length = min(view.window, view.step)
    if length > 1:
        once: list[Asked] = [
            (_named(view, value), lambda _, value=value: _once(length, value), length)
            for value in order[:_ROWS]
            if value is not None
        ]
        title = f"At least once in the last {length} steps"
        sections.append((title, _now(view, true, "value", once)))
        spells = [value for value in order[:_SPELLS] if value is not None]
        sections.append(("How long it lasts", _spells(view, true, stream, spells, length)))
    return sections, [] if true is None else _off(view, true, stream, asked)


def _once(length: int, value: Value) -> Query:
    return AtLeast(times=1, of=length, value=value)


def _spells(
    view: WindowView, true: Any, stream: Stream, values: Sequence[Value], length: int
) -> str:
    """Draw the shares with a value for 1, 2, ... steps in a row."""
    parts = []
    for value in values:
        asked: list[Asked] = [
            (
                f"{times} in a row" if times > 1 else "at least once",
                lambda _, times=times, value=value: Spell(times=times, of=length, value=value),
                length,
            )
            for times in range(1, length + 1)
        ]
        drawn = _lines(view, true, stream, asked[:_LINES])
        title = f"{_named(view, value)}: steps in a row, of the last {length}"
        caption = f"Shares of people by their longest spell in the last {length} steps. {_BAND}"
        parts.append(page.lines(stream, drawn, title, "share of people", caption, percent=True))
    return f'<div class="two">{"".join(parts)}</div>'


def _present(view: OpenView, true: Any, stream: Stream) -> str:
    steps = steps_of(stream)
    drawn = [Line.of("present", steps, [view.present(step=int(step)) for step in steps])]
    if true is not None:
        there = [true.present(step=int(step)).value for step in steps]
        drawn.append(Line("true", steps, np.array(there), dashed=True, colour=0))
    words = "Shares are among those who report; the others are absent, and have no value."
    return page.lines(stream, drawn, "People who report", "people", words)


def _lines(view: Any, true: Any, stream: Stream, asked: Sequence[Asked]) -> list[Line]:
    """Lines of shares, and the true ones dashed in the same colours."""
    found, beside = [], []
    for colour, (name, query, first) in enumerate(asked):
        steps = steps_of(stream, first)
        queries = [(query(int(step)), int(step)) for step in steps]
        found.append(Line.of(name, steps, [view.proportion(one, step=at) for one, at in queries]))
        if true is not None:
            shares = np.array([true.proportion(one, step=at).value for one, at in queries])
            beside.append(Line(f"true: {name}", steps, shares, dashed=True, colour=colour))
    return found + beside


def _now(view: Any, true: Any, header: str, asked: Sequence[Asked]) -> str:
    """Write the shares of the last step."""
    rows = []
    for name, query, _ in asked:
        one = query(view.step)
        rows.append(
            (name, view.proportion(one), None if true is None else true.proportion(one).value)
        )
    return page.note(page.BARS) + page.bars((header, "share of people"), rows, percent=True)


def _off(
    view: Any, true: Any, stream: Stream, asked: Sequence[Asked]
) -> list[tuple[str, str, str]]:
    """Mean and largest error of each share over the steps shown."""
    rows = []
    for name, query, first in asked:
        steps = [int(step) for step in steps_of(stream, first)]
        found, truly = (
            np.array([one.proportion(query(step), step=step).value for step in steps])
            for one in (view, true)
        )
        off = 100 * np.abs(found - truly)
        rows.append((name, f"{off.mean():.2f}", f"{off.max():.2f}"))
    return rows


def _page(
    view: PanelView, sections: list[tuple[str, str]], errors: list[tuple[str, str, str]] | None
) -> Page:
    notes = [("A word of warning", quote(note)) for note in view.notes]
    if errors is not None:
        words = page.note(
            "Errors of the estimated shares over the steps shown, in percentage points."
        )
        table = page.table(("share of", "mean", "largest"), errors)
        sections = [*sections, ("How far the estimates are from the true shares", words + table)]
    title = "synthetic people, step by step"
    return Page(title=title, sections=[*notes, *sections], private=errors is not None)


def _over_time(view: PanelView, stream: Stream, drawn: list[Line], title: str) -> str:
    people = int(view.alive.sum())
    caption = f"{_BAND} The release holds {people:,} synthetic people with their whole histories."
    return page.lines(stream, drawn, title, "share of people", caption, percent=True)


def _named(view: PanelView, value: Value) -> str:
    return f"{view.domain.columns[0]} = {'missing' if value is None else value}"


def _codes(view: PanelView, truth: History) -> np.ndarray:
    """(steps, people): the codes of true people; absent ones have the next one."""
    name, attribute = view.domain.columns[0], view.domain.attributes[0]
    frame = pl.DataFrame({column: truth.columns[column] for column in (view.id, name)})
    codes = Schema(**{name: attribute}).cells(opened(frame, name))
    ids = frame[view.id].rank("dense").fill_null(0).to_numpy().astype(np.int64)
    found = np.full((view.step, int(ids.max(initial=0)) + 1), attribute.size)
    counted = (codes >= 0) & (ids > 0)
    found[truth.born[counted] - 1, ids[counted]] = codes[counted]
    return found[:, 1:]


def _true_windows(view: WindowView, truth: History) -> WindowView:
    """The same view of the true counts: it answers what is true."""
    codes, size = _codes(view, truth), view.domain.size
    if isinstance(view, ClosedView):
        # Its people neither come nor go: who is missing has that value, or no place.
        there = codes < size
        codes = (
            np.where(there, codes, size - 1) if view.counts_missing else codes[:, there.all(axis=0)]
        )
    symbols = size + isinstance(view, OpenView)
    counts = window_counts(codes, window=view.window, values=symbols)
    people = (
        codes.shape[1] if isinstance(view, ClosedView) and view.people is not None else view.people
    )
    return replace(view, estimates=counts.astype(float), people=people)


def _true_weights(view: CumulativeView, truth: History) -> CumulativeView:
    """The same of how often people had the value so far."""
    codes = _codes(view, truth)
    seen = np.maximum.accumulate(codes < view.domain.size, axis=0).sum(axis=1)
    counts = np.column_stack([seen, weight_counts((codes == view.counted).astype(np.int64))])
    true = np.zeros_like(view.estimates)
    both = min(true.shape[1], counts.shape[1])
    true[:, :both] = counts[:, :both]
    return replace(view, estimates=true)
