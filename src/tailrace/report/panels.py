"""The page of a panel: shares over time, with errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.panel.columns_view import ColumnsView
from tailrace.mechanisms.panel.cumulative_view import CumulativeView
from tailrace.mechanisms.panel.queries import AtLeast, Pattern
from tailrace.mechanisms.panel.view import OpenView, PanelView, WindowView
from tailrace.report.chart import Line, line_chart
from tailrace.report.page import Page, bars, figure, page_of, quote, span, steps_of
from tailrace.stream.stream import Stream

Value = str | int | bool | None
# Lines that can be told apart, and rows that are read at a glance.
_LINES, _ROWS = 6, 12


@page_of.register(WindowView)
def window_page(view: WindowView, stream: Stream, _truth: None = None) -> Page:
    """Show each value's share over time and lately."""

    def share(value: Value) -> Callable[[int], Estimate]:
        return lambda step: view.proportion(Pattern(value), step=step)

    def now(value: Value) -> float:
        return share(value)(view.step).value

    among = [value for value in view.values if value is not None or view.counts_missing]
    order = sorted(among, key=now, reverse=True)
    lines = [_line(_named(view, value), share(value), steps_of(stream)) for value in order[:_LINES]]
    sections = [_over_time(view, stream, lines, "Share of people by value")]
    if isinstance(view, OpenView):
        steps = steps_of(stream)
        present = Line.of("present", steps, [view.present(step=int(step)) for step in steps])
        chart = line_chart([present], title="People who report", x_label="step", y_label="people")
        words = "Shares are among those who report; the others are absent, and have no value."
        sections.append(("Who is there", figure(chart, words)))
    length = min(view.window, view.step)
    if length > 1:
        rows = [
            (_named(view, value), view.proportion(AtLeast(times=1, of=length, value=value)))
            for value in order[:_ROWS]
            if value is not None
        ]
        table = bars(("value", "share of people"), rows, percent=True)
        sections.append((f"At least once in the last {length} steps", table))
    return _page(view, sections)


@page_of.register(ColumnsView)
def columns_page(view: ColumnsView, stream: Stream, _truth: None = None) -> Page:
    """Show each column, and combinations of values lately."""
    sections = [
        (f"{name}: {title}", body)
        for name in view.domain.columns
        for title, body in window_page(view[name], stream).sections
    ]
    rows = sorted(view.combinations().rows(), key=lambda row: -row[-2])[:_ROWS]
    shown = [
        (", ".join("missing" if one is None else str(one) for one in row), Estimate(many, error))
        for *row, many, error in rows
    ]
    table = bars((", ".join(view.domain.columns), "people"), shown)
    return _page(view, [*sections, (f"Together at step {view.step}", table)])


@page_of.register(CumulativeView)
def cumulative_page(view: CumulativeView, stream: Stream, _truth: None = None) -> Page:
    """Show the shares with 1, 2, ... occurrences so far."""

    def share(times: int) -> Callable[[int], Estimate]:
        return lambda step: view.proportion(AtLeast(times=times, of=step), step=step)

    most = range(1, view.step + 1)
    lines = [
        _line(f"{times} or more", share(times), steps_of(stream, times)) for times in most[:_LINES]
    ]
    value = _named(view, view.values[view.counted])
    rows = [(f"{times} or more", share(times)(view.step)) for times in most[:_ROWS]]
    table = bars((value, "share of people"), rows, percent=True)
    return _page(
        view,
        [
            _over_time(view, stream, lines, f"Share of people with {value}, by how often so far"),
            (f"How often in the first {view.step} steps", table),
        ],
    )


def _page(view: PanelView, sections: list[tuple[str, str]]) -> Page:
    notes = [("A word of warning", quote(note)) for note in view.notes]
    return Page(title="Synthetic people, followed step by step", sections=[*notes, *sections])


def _line(name: str, share: Callable[[int], Estimate], steps: np.ndarray) -> Line:
    return Line.of(name, steps, [share(int(step)) for step in steps])


def _over_time(view: PanelView, stream: Stream, lines: list[Line], title: str) -> tuple[str, str]:
    chart = line_chart(lines, title=title, x_label="step", y_label="share of people")
    people = int(view.alive.sum())
    caption = (
        "Unbiased estimates; a band reaches two standard errors to each side. The release holds "
        f"{people:,} synthetic people with their whole histories.{span(stream)}"
    )
    return "Over time", figure(chart, caption)


def _named(view: PanelView, value: Value) -> str:
    return f"{view.domain.columns[0]} = {'missing' if value is None else value}"
