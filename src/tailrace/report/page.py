"""The frame of every page, and the choice between them.

A page is one HTML file: it loads nothing from elsewhere, follows the reader's light or dark
setting, fits a phone, and every figure has a sentence and a table beside it. The type of a
stream's view chooses it, so a mechanism brings its own by registering one function::

    @page_of.register(MyView)
    def my_page(view, stream, truth=None):
        return Page(title="my data", sections=[("My heading", "<p>My numbers</p>")])
"""

from __future__ import annotations

import functools
import importlib
import math
import os
import pkgutil
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate
from tailrace.report.chart import COLOURS, Line, bar, line_chart
from tailrace.stream.log import History

if TYPE_CHECKING:
    from tailrace.ledger import Entry
    from tailrace.privacy.guarantee import Guarantee
    from tailrace.stream.stream import Stream

OURS = '<meta name="generator" content="tailrace">'  # by which a page of ours is known
_PUBLIC = "Public: made of noisy counts only."
_PRIVATE = "PRIVATE: it shows the true data. For the curator only; never publish it."
_LEDGER = ("population", "stream", "charged", "step")
BARS = "± is one standard error; the line over a bar reaches two to each side."
# Steps of a line over time: more cannot be told apart on a page.
_STEPS = 60
TONES = ("paper", "back", "ink", "quiet", "line", "soft", "head")
LIGHT = ("#fff", "#fafafa", "#222", "#565b63", "#e0e0e0", "#eef4f9", "#f0f0f0", *COLOURS)
DARK = (
    *("#1c1f24", "#14161a", "#e8e8e8", "#a9b0ba", "#3a3f48", "#1b2936", "#262a31"),
    *("#6db3e8", "#f0808f", "#edae49", "#4cc4d6", "#b79ae0", "#a9b4c4", "#a3cf95"),
)


@dataclass(frozen=True, kw_only=True)
class Page:
    """The part of a page between promise and ledger.

    Parameters:
        title: the heading, after the stream's name.
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
        title="synthetic data, step by step", sections=[("Step by step", rows_chart(stream))]
    )


def stream_report(stream: Stream, entries: Sequence[Entry], truth: Any = None) -> str:
    """Write a stream's page; with the truth, the curator's.

    Parameters:
        stream: an open stream.
        entries: its charges in the ledger.
        truth: the true rows (`truth.true_history`), for a page that can show them.
    """
    if not stream.step:
        raise ConfigError(
            "There is nothing to report yet: release a step first, with tailrace run."
        )
    # Every module of this folder registers its pages.
    for module in pkgutil.iter_modules([os.path.dirname(__file__)]):
        importlib.import_module(f"tailrace.report.{module.name}")
    page = page_of(stream.view(stream.step), stream, truth)
    if truth is not None and not page.private:
        raise ConfigError(
            "There is no private report of this stream: its page does not show the true data."
        )
    name = "" if stream.name == "in memory" else stream.name
    lead = "".join([span(stream), *(f" {note}" for note in stream.notes)])
    return rendered(page, stream.guarantee, entries, name=name, lead=lead)


def rendered(
    page: Page, guarantee: Guarantee, entries: Sequence[Entry], *, name: str = "", lead: str = ""
) -> str:
    """Set a page between the promise and the ledger."""
    charges = [
        (one.population, one.path.rsplit("/", 1)[-1], one.guarantee.short, str(one.mark.step))
        for one in entries
    ]
    sections = [
        ("The promise", quote(str(guarantee))),
        *page.sections,
        ("The ledger", table(_LEDGER, charges, "words")),
    ]
    title = f"{name}: {page.title}" if name else page.title[:1].upper() + page.title[1:]
    title = f"PRIVATE: {title}" if page.private else title
    return html(title, f"{_PRIVATE if page.private else _PUBLIC}{lead}", sections)


def html(title: str, lead: str, sections: Sequence[tuple[str, str]]) -> str:
    """Write titled sections, whose bodies are HTML, as one file."""
    body = "\n".join(
        f'<section id="{anchor(heading)}">\n<h2>{escape(heading)}</h2>\n{content}\n</section>'
        for heading, content in sections
    )
    series = [f"c{number}" for number in range(len(COLOURS))]
    light, dark = (
        "".join(f"--{name}: {tone}; " for name, tone in zip((*TONES, *series), tones, strict=True))
        for tones in (LIGHT, DARK)
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
        f"<body>\n<main>\n{top}\n{body}\n</main>\n</body>\n</html>\n"
    )


def anchor(heading: str) -> str:
    """Name a section in links: `report.html#the-promise`.

    >>> anchor("At least once, in the last 3 steps")
    'at-least-once-in-the-last-3-steps'
    """
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-") or "section"


def figure(svg: str, caption: str, numbers: str = "") -> str:
    """Set a caption below a chart, and its numbers to be unfolded."""
    folded = f"<details><summary>The numbers</summary>\n{numbers}</details>\n" if numbers else ""
    return f"<figure>\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n{folded}</figure>"


def lines(
    stream: Stream,
    drawn: Sequence[Line],
    title: str,
    y_label: str,
    caption: str,
    *,
    percent: bool = False,
) -> str:
    """Draw lines over steps, with a caption and a table of them."""
    label = x_label(stream)
    chart = line_chart(drawn, title=title, x_label=label, y_label=y_label, percent=percent)
    if any(line.name.startswith("true") for line in drawn):
        caption += " Dashed lines are the true numbers."
    steps = sorted({int(step) for line in drawn for step in line.x}, reverse=True)
    held = [{int(step): i for i, step in enumerate(line.x)} for line in drawn]
    named = dict(zip(range(1, stream.step + 1), labels(stream), strict=True))
    rows = [
        (
            named[step],
            *(
                _at(line, places.get(step), percent)
                for line, places in zip(drawn, held, strict=True)
            ),
        )
        for step in steps
    ]
    return figure(chart, caption, table(("step", *(line.name for line in drawn)), rows))


def _at(line: Line, place: int | None, percent: bool) -> str:
    """A line's value at one of its places, in words."""
    if place is None or not np.isfinite(line.y[place]):
        return ""
    value = float(line.y[place])
    if line.error is not None:
        return told(Estimate(value, float(line.error[place])), percent=percent)
    return (
        f"{100 * value:.1f} %"
        if percent
        else f"{value:,.0f}"
        if abs(value) >= 100
        else f"{value:.3g}"
    )


def note(text: str) -> str:
    """Write a paragraph."""
    return f"<p>{escape(text)}</p>"


def heading(text: str) -> str:
    """Write a heading inside a section."""
    return f"<h3>{escape(text)}</h3>"


def quote(text: str) -> str:
    """Set a sentence apart."""
    return f"<blockquote>{escape(text)}</blockquote>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "plain") -> str:
    """Write a table, first column to the left; all but the last where it holds "words"."""
    return _table(header, (tuple(map(escape, row)) for row in rows), kind)


def shaded(header: Sequence[str], rows: Sequence[tuple[str, Sequence[tuple[float, str]]]]) -> str:
    """Write numbers in words, each cell the darker the larger its number."""
    high = max((value for _, cells in rows for value, _ in cells), default=0.0)
    lines = []
    for name, cells in rows:
        parts = "".join(
            f'<td style="--part: {round(30 * max(value, 0.0) / max(high, 1e-12))}%">'
            f"{escape(words)}</td>"
            for value, words in cells
        )
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{parts}</tr>')
    return _framed(header, "\n".join(lines), "shaded")


def bars(header: Sequence[str], rows: Sequence[tuple[Any, ...]], *, percent: bool = False) -> str:
    """Write estimates with standard errors, and a bar each.

    Parameters:
        header: of the name, of the estimate, and of further texts.
        rows: a name, an estimate, then perhaps the true number or None, and further texts.
        percent: whether they are shares.
    """
    trues = [row[2] if len(row) > 2 else None for row in rows]
    tops = [row[1].value + 2 * row[1].error for row in rows if np.isfinite(row[1].error)]
    high = max([*tops, *(one for one in trues if one is not None)], default=0.0)
    shown = any(one is not None for one in trues)
    cells = []
    for (name, found, *more), true in zip(rows, trues, strict=True):
        told_of = [_exact(true, percent)] if shown else []
        drawn = bar(found.value, found.error, high, true)
        cells.append(
            (escape(name), told(found, percent=percent), *told_of, drawn, *map(escape, more[1:]))
        )
    first, second, *others = header
    return _table(
        (first, second, *(["true (mark)"] if shown else []), "", *others),
        cells,
        "many" if others else "few",
    )


def _exact(true: float | None, percent: bool) -> str:
    if true is None:
        return ""
    return f"{100 * true:.1f} %" if percent else f"{true:,.0f}"


def told(found: Estimate, *, percent: bool = False, sign: bool = False) -> str:
    """Print an estimate with its error, or as a percentage."""
    if percent:
        text = f"{100 * found.value:.1f} ± {100 * found.error:.1f} %"
    elif math.isfinite(found.error) and max(abs(found.value), found.error) >= 100:
        text = f"{found.value:,.0f} ± {found.error:,.0f}"
    else:
        text = str(found).replace("+-", "±")
    return f"+{text}" if sign and found.value >= 0 else text.replace("-", "\N{MINUS SIGN}")


def change(now: Estimate, before: Estimate) -> str:
    """Print how far an estimate moved.

    The errors add up, which holds however the two depend on each other.
    """
    if math.isnan(before.value):
        return "new"
    moved = Estimate(now.value - before.value, now.error + before.error)
    return told(moved, sign=True)


def steps_of(stream: Stream, first: int = 1, *, most: int = _STEPS) -> np.ndarray:
    """Choose evenly spaced steps to show, with both ends."""
    many = min(most, stream.step - first + 1)
    return np.unique(np.linspace(first, stream.step, many).astype(int))


def labels(stream: Stream) -> list[str]:
    """Name every step, with its period where there is a calendar."""
    calendar = stream.calendar
    return [
        f"step {step}" + ("" if calendar is None else f", {calendar.label(step)}")
        for step in range(1, stream.step + 1)
    ]


def x_label(stream: Stream) -> str:
    """Name the axis of steps, with the periods of its ends where there is a calendar."""
    if stream.calendar is None or stream.step == 1:
        return "step"
    first, last = (stream.calendar.label(step) for step in (1, stream.step))
    return f"step (1: {first}, {stream.step}: {last})"


def span(stream: Stream) -> str:
    """Say how many steps there are, and the calendar's periods."""
    if stream.step == 1:
        return "" if stream.calendar is None else f" Step 1: {stream.calendar.label(1)}."
    if stream.calendar is None:
        return f" Steps 1 to {stream.step}."
    ends = (stream.calendar.label(step) for step in (1, stream.step))
    return f" Steps 1 to {stream.step}: {' to '.join(ends)}."


def history_of(stream: Stream) -> History:
    """All synthetic rows; of a stream without tables, some drawn for the last step."""
    history, last = stream.history(), stream.step
    if len(history.born) or getattr(stream.view(last), "strata", None) is None:
        return history
    frame = stream.release(last).drawn()
    born = np.full(len(frame), last)
    return History({name: frame[name].to_numpy() for name in frame.columns}, born, born + 1)


def rows_chart(stream: Stream) -> str:
    """Draw how many synthetic rows each step released."""
    steps = steps_of(stream)
    line = Line("synthetic rows", steps, history_of(stream).rows_at(steps))
    words = "The number of synthetic rows at each step, itself a noisy count."
    return lines(stream, [line], "Rows released", "rows", words)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "plain") -> str:
    cells = ("".join(f"<td{_bar(cell)}>{cell}</td>" for cell in row) for row in rows)
    return _framed(header, "\n".join(f"<tr>{row}</tr>" for row in cells), kind)


def _framed(header: Sequence[str], body: str, kind: str) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    table = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return f'<div class="wide"><table class="{kind}">\n{table}\n</table></div>'


def _bar(cell: str) -> str:
    return ' class="bar"' if cell.startswith("<svg") else ""
