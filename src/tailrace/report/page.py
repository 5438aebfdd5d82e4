"""The frame of every page, and the choice between them.

A page is one HTML file: it loads nothing from elsewhere, follows the reader's light or dark
setting, and fits a phone. The type of a stream's view chooses it, so a mechanism brings its own
by registering one function::

    @page_of.register(MyView)
    def my_page(view, stream, truth=None):
        return Page(title="My data", sections=[("My heading", "<p>My numbers</p>")])
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.errors import ConfigError
from tailrace.report.chart import COLOURS, Line, bar, line_chart

if TYPE_CHECKING:
    from tailrace.ledger import Entry
    from tailrace.mechanisms.base import Estimate
    from tailrace.privacy.guarantee import Guarantee
    from tailrace.stream.stream import Stream

OURS = '<meta name="generator" content="tailrace">'  # by which a page of ours is known
_PUBLIC = "Public: made of noisy counts only."
_PRIVATE = "PRIVATE: it shows the true data. For the curator only; never publish it."
# Steps of a line over time: reading a release takes its whole table from the disk.
_STEPS = 60
_TONES = ("paper", "back", "ink", "quiet", "line", "soft", "head")
_LIGHT = ("#fff", "#fafafa", "#222", "#565b63", "#e0e0e0", "#eef4f9", "#f0f0f0")
_DARK = ("#1c1f24", "#14161a", "#e8e8e8", "#a9b0ba", "#3a3f48", "#1b2936", "#262a31")
_DARK_COLOURS = ("#6db3e8", "#f0808f", "#edae49", "#4cc4d6", "#b79ae0", "#a9b4c4", "#a3cf95")


@dataclass(frozen=True, kw_only=True)
class Page:
    """The part of a page between promise and ledger.

    Parameters:
        title: the heading.
        sections: headings, each with a body of HTML.
        private: whether the true data are shown.
    """

    title: str
    sections: Sequence[tuple[str, str]]
    private: bool = False


@functools.singledispatch
def page_of(view: Any, stream: Stream, truth: Any = None) -> Page:  # noqa: ARG001
    """Return a stream's page by the type of its view.

    Without a page of its own, a view (or None, before anything was measured) shows its rows.

    Parameters:
        view: the view of the last release.
        stream: the open stream; `stream.release(step).view` is the view of any step.
        truth: the true data for a curator's page; a page that shows them sets `private`.
    """
    return Page(
        title="Synthetic data, released step by step",
        sections=[("Step by step", rows_chart(stream))],
    )


def stream_report(stream: Stream, entries: Sequence[Entry], truth: Any = None) -> str:
    """Write a stream's page; with the truth, the curator's.

    Parameters:
        stream: an open stream.
        entries: its charges in the ledger.
        truth: the true points (`Lives`) or journeys (`Tracks`), for a page that can show them.
    """
    if not stream.step:
        raise ConfigError(
            "There is nothing to report yet: release a step first, with tailrace run."
        )
    # Every module of this folder registers its pages.
    for module in pkgutil.iter_modules([os.path.dirname(__file__)]):
        importlib.import_module(f"tailrace.report.{module.name}")
    page = page_of(stream.release(stream.step).view, stream, truth)
    if truth is not None and not page.private:
        raise ConfigError(
            "The private report is a map: it needs a release of points or journeys in two "
            "dimensions."
        )
    return rendered(page, stream.guarantee, entries)


def rendered(page: Page, guarantee: Guarantee, entries: Sequence[Entry]) -> str:
    """Set a page between the promise and the ledger."""
    charges = [
        (one.population, one.path.rsplit("/", 1)[-1], one.guarantee.short, str(one.mark.step))
        for one in entries
    ]
    sections = [
        ("The promise", quote(str(guarantee))),
        *page.sections,
        ("The ledger", table(("population", "stream", "charged", "step"), charges)),
    ]
    title, lead = (f"PRIVATE: {page.title}", _PRIVATE) if page.private else (page.title, _PUBLIC)
    return html(title, lead, sections)


def html(title: str, lead: str, sections: Sequence[tuple[str, str]]) -> str:
    """Write titled sections, whose bodies are HTML, as one file."""
    body = "\n".join(
        f"<section>\n<h2>{escape(heading)}</h2>\n{content}\n</section>"
        for heading, content in sections
    )
    series = [f"c{number}" for number in range(len(COLOURS))]
    light, dark = (
        "".join(f"--{name}: {tone}; " for name, tone in zip((*_TONES, *series), tones, strict=True))
        for tones in ((*_LIGHT, *COLOURS), (*_DARK, *_DARK_COLOURS))
    )
    classes = "\n".join(f".{name} {{ color: var(--{name}); }}" for name in series)
    own = files("tailrace.report").joinpath("page.css").read_text(encoding="utf-8")
    style = (
        f":root {{ color-scheme: light dark; {light}}}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n{classes}\n{own}"
    )
    head = (
        f'<meta charset="utf-8">\n{OURS}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>"
    )
    top = f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>'
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
        f"<body>\n{top}\n{body}\n</body>\n</html>\n"
    )


def figure(svg: str, caption: str) -> str:
    """Set a caption below a chart."""
    return f"<figure>\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def note(text: str) -> str:
    """Write a paragraph."""
    return f"<p>{escape(text)}</p>"


def heading(text: str) -> str:
    """Write a heading inside a section."""
    return f"<h3>{escape(text)}</h3>"


def quote(text: str) -> str:
    """Set a sentence apart."""
    return f"<blockquote>{escape(text)}</blockquote>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table, first column to the left."""
    return _table(header, (tuple(map(escape, row)) for row in rows))


def bars(
    header: tuple[str, str], rows: Sequence[tuple[str, Estimate]], *, percent: bool = False
) -> str:
    """Write estimates with standard errors, and a bar each."""
    tops = (found.value + 2 * found.error for _, found in rows if np.isfinite(found.error))
    high = max(tops, default=0.0)
    cells = (
        (escape(name), told(found, percent=percent), bar(found.value, found.error, high))
        for name, found in rows
    )
    return _table((*header, ""), cells)


def told(found: Estimate, *, percent: bool = False) -> str:
    """Print an estimate with its error, or as a percentage."""
    if not percent:
        return str(found).replace("+-", "±")
    return f"{100 * found.value:.1f} ± {100 * found.error:.1f} %"


def steps_of(stream: Stream, first: int = 1) -> np.ndarray:
    """Choose evenly spaced steps to show, with both ends."""
    most = min(_STEPS, stream.step - first + 1)
    return np.unique(np.linspace(first, stream.step, most).astype(int))


def span(stream: Stream) -> str:
    """Say which periods the calendar gives to the steps."""
    if stream.calendar is None:
        return ""
    ends = (stream.calendar.label(step) for step in (1, stream.step))
    return f" Steps 1 to {stream.step}: {' to '.join(ends)}."


def rows_chart(stream: Stream) -> str:
    """Draw how many synthetic rows each step released."""
    steps = steps_of(stream)
    rows = np.array([len(stream.release(int(step)).rows.cells) for step in steps])
    line = Line("synthetic rows", steps, rows)
    chart = line_chart([line], title="Rows released", x_label="step", y_label="rows")
    told = "The number of synthetic rows at each step, itself a noisy count."
    return figure(chart, f"{told}{span(stream)}")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    cells = ("".join(f"<td{_bar(cell)}>{cell}</td>" for cell in row) for row in rows)
    body = "\n".join(f"<tr>{row}</tr>" for row in cells)
    table = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return f'<div class="wide"><table>\n{table}\n</table></div>'


def _bar(cell: str) -> str:
    return ' class="bar"' if cell.startswith("<svg") else ""
