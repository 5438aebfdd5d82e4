"""A paper's tables and figures: how each is measured, drawn and shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tailrace.experiments import runner
from tailrace.experiments.runner import STAMP, Done, Measurement
from tailrace.report import chart, page

Row = Mapping[str, str]
# Charts of an exhibit that a page shows at once.
_FIRST = 3
_DOTS = 'stroke-width="1.6" stroke-linecap="round"'


class Drawing(Protocol):
    """Charts of saved rows: titles, each with an <svg> element."""

    def __call__(self, rows: Sequence[Row]) -> Iterable[tuple[str, str]]: ...


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of a paper.

    Parameters
    title: which one it is.
    text: what the paper shows there, and where ours differs.
    of: how it is measured.
    table: columns to set as a table; no table where empty.
    charts: how its rows are drawn.
    few: the cases of a quick run.
    quick: the settings of a quick run.
    """

    title: str
    text: str
    of: Measurement
    table: Pivot | None
    charts: Drawing | None
    few: Sequence[tuple]
    quick: Mapping[str, Any]

    def run(self, *, quick: bool, processes: int) -> Iterator[Done]:
        """Measure what is not saved yet, case by case."""
        settings, cases = (self.quick, self.few) if quick else ({}, self.of.cases)
        return runner.run(self.of, settings=settings, cases=cases, resume=True, processes=processes)

    def body(self) -> str:
        """What a page shows of the saved rows; drawings are saved beside them."""
        rows, figures = runner.read(self.of.file), []
        if not rows:
            return page.note(self.text) + page.note("Not measured yet.")
        for number, (caption, svg) in enumerate(self.charts(rows) if self.charts else (), start=1):
            runner.draw(f"{self.of.file}_{number}", svg)
            figures.append(page.figure(svg, caption))
        parts = [page.note(self.text), self.table(rows) if self.table else "", *figures[:_FIRST]]
        if more := figures[_FIRST:]:
            word = "chart" if len(more) == 1 else "charts"
            folded = "\n".join(more)
            parts.append(
                f"<details><summary>{len(more)} more {word}</summary>\n{folded}\n</details>"
            )
        made = sorted({"; ".join(filter(None, (row[name] for name in STAMP))) for row in rows})
        link = f'<a href="{escape(self.of.file)}.csv">{escape(self.of.file)}.csv</a>'
        told = "".join(f"<li>{escape(one)}</li>" for one in made)
        return "\n".join(
            [*parts, f"<p>{len(rows):,} rows: {link}, measured with</p><ul>{told}</ul>"]
        )


@dataclass(frozen=True)
class Paper:
    """A paper, and what of it is repeated."""

    name: str
    title: str
    source: str
    exhibits: list[Exhibit] = field(default_factory=list)

    def exhibit(
        self,
        title: str,
        text: str,
        file: str,
        *,
        table: Pivot | None = None,
        charts: Drawing | None = None,
        few: Sequence[tuple] | None = None,
        quick: Mapping[str, Any] | None = None,
        **about: Any,
    ) -> Callable[[Callable], Callable]:
        """Declare the decorated generator of rows as an exhibit (`Measurement.of`)."""

        def declare(work: Callable) -> Callable:
            of = Measurement.of(work, file, **about)
            cases = of.cases if few is None else few
            self.exhibits.append(Exhibit(title, text, of, table, charts, cases, quick or {}))
            return work

        return declare

    def page(self, *, quick: bool) -> Path:
        """Write the page of all that is saved."""
        folder = runner.folder()
        lead = f"{self.source}. Ours beside the published method, which is corrected where its "
        lead += "guarantee does not hold."
        if quick:
            lead += " A QUICK run: fewer repetitions and shorter streams, as the settings say."
        sections = [(one.title, one.body()) for one in self.exhibits]
        path = folder / f"{self.name}.html"
        path.write_text(page.html(self.title, lead, sections), encoding="utf-8")
        return path


# Drawing


def number(cell: str) -> float:
    """The number of a cell, without its error; nan where there is none."""
    try:
        return float(cell.split("+-")[0].split(" ±")[0].replace(",", ""))
    except ValueError:
        return float("nan")


def grouped(rows: Iterable[Row], names: Sequence[str]) -> dict[tuple[str, ...], list[Row]]:
    """Rows by their cells in some columns: ours first, then by number and by name."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return dict(sorted(found.items(), key=lambda pair: [*map(_rank, pair[0])]))


def _rank(cell: str) -> tuple[bool, float, str]:
    value = number(cell)
    return not cell.startswith("ours"), value if np.isfinite(value) else np.inf, cell


def named(names: Sequence[str], values: Sequence[str]) -> str:
    """Say which values columns have."""
    pairs = zip(names, values, strict=True)
    words = (
        value if name in ("data", "panel", "stream") else f"{name} {value}" for name, value in pairs
    )
    return ", ".join(words)


@dataclass(frozen=True)
class Curves:
    """A chart for each of `per`, with a line for each of `line`."""

    x: str
    y: str
    line: str
    per: tuple[str, ...] = ()
    unit: str = "mean relative error"
    without: tuple[str, ...] = ()
    caption: str = ""

    def __call__(self, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
        for values, some in grouped(rows, self.per).items():
            # One value makes no line: the table has it.
            if len({row[self.x] for row in some}) < 2:
                continue
            lines = [
                chart.Line(name, *points, dashed="bound" in name)
                for (name,), found in grouped(some, (self.line,)).items()
                if name not in self.without and len((points := self._points(found))[0])
            ]
            title = named(self.per, values) or f"Error by {self.x}"
            svg = chart.line_chart(lines, title=title, x_label=self.x, y_label=self.unit)
            yield self.caption or f"{self.y.capitalize()} by {self.x}.", svg

    def _points(self, rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
        pairs = sorted((number(row[self.x]), number(row[self.y])) for row in rows)
        x, y = np.array([pair for pair in pairs if np.isfinite(pair[0])]).reshape(-1, 2).T
        return x, y


@dataclass(frozen=True)
class Densities:
    """A chart for each of `per`: densities of answers by group and line, and the truth.

    The cell `answers` holds evenly spaced quantiles.
    """

    group: str
    line: str
    per: tuple[str, ...] = ()
    unit: str = "share"
    only: str = ""  # a value that a chart's rows have

    def __call__(self, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
        for values, some in grouped(rows, self.per).items():
            if self.only and self.only not in values:
                continue
            spreads = [
                chart.Spread(
                    name,
                    number(found[0]["truth"]),
                    {row[self.line]: np.array(row["answers"].split(), float) for row in found},
                )
                for (name,), found in grouped(some, (self.group,)).items()
            ]
            title = named(self.per, values)
            caption = f"Answers over repetitions by {self.group}; a cross is the truth."
            yield caption, chart.density_chart(spreads, title=title, y_label=self.unit)


@dataclass(frozen=True)
class Scatters:
    """A chart for each of `per`: points, a row of squares for each of `line`, a column for each x.

    The cell `points` holds six digits for each: thousandths of the box, across and up.
    """

    x: str
    line: str
    per: tuple[str, ...]

    def __call__(self, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
        side, gap, top = 150, 8, 52
        for values, some in grouped(rows, self.per).items():
            lines, steps = (grouped(some, (name,)) for name in (self.line, self.x))
            height, title = top + len(lines) * (side + gap + 16), named(self.per, values)
            parts = chart._opened(title, height, left=8)
            parts += [
                chart._text(8 + column * (side + gap) + side / 2, top - 8, f"{self.x} {step}")
                for column, (step,) in enumerate(steps)
            ]
            for down, ((name,), found) in enumerate(lines.items()):
                y = top + down * (side + gap + 16)
                parts.append(chart._text(8, y + side + 14, name, "start"))
                for column, row in enumerate(grouped(found, (self.x,)).values()):
                    x = 8 + column * (side + gap)
                    path = "".join(
                        f"M{x + int(one[:3]) * side / 1000:.1f} "
                        f"{y + side - int(one[3:]) * side / 1000:.1f}h.01"
                        for one in row[0]["points"].split()
                    )
                    square = f"M{x} {y}h{side}v{side}h-{side}z"
                    parts.append(chart._path("grid", square, "#e5e5e5", 'fill="none"'))
                    dots = chart._path("dots", path, "currentColor", _DOTS)
                    parts.append(f"{chart._group(down)}{dots}</g>")
            yield f"Points by {self.x}.", "\n".join([*parts, "</svg>"])


def thousandths(places: np.ndarray, low: Sequence[float], high: Sequence[float]) -> str:
    """A cell of points, for `Scatters`."""
    shares = (places - np.array(low)) / np.subtract(high, low)
    return " ".join(f"{x:03d}{y:03d}" for x, y in np.clip(1000 * shares, 0, 999).astype(int))


def quantiles(answers: np.ndarray) -> str:
    """A cell of 41 evenly spaced quantiles."""
    return " ".join(f"{one:.5g}" for one in np.quantile(answers, np.linspace(0, 1, 41)))


@dataclass(frozen=True)
class Pivot:
    """A table: a row for each of `rows`, a column for each of `across`, means of `value`.

    Without `across`, columns as they are; `ratio` names two of its values to divide; `where` keeps
    the rows with that value in that column.
    """

    rows: tuple[str, ...]
    value: tuple[str, ...]
    across: str = ""
    ratio: tuple[str, str] | None = None
    where: tuple[str, str] | None = None

    def __call__(self, rows: Sequence[Row]) -> str:
        if self.where:
            rows = [row for row in rows if row[self.where[0]] == self.where[1]]
        heads = [head for (head,) in grouped(rows, (self.across,))] if self.across else [""]
        columns = [(head, name) for head in heads for name in self.value]
        names = [*self.rows, *([" / ".join(self.ratio)] if self.ratio else [])]
        names += [self._head(*column) for column in columns]
        cells = []
        for values, some in grouped(rows, self.rows).items():
            by = grouped(some, (self.across,)) if self.across else {("",): some}
            found = {
                (head, name): self._cell([row[name] for row in by.get((head,), ())])
                for head, name in columns
            }
            ratio = []
            if self.ratio:
                one, other = (number(found.get((head, self.value[0]), "")) for head in self.ratio)
                ratio = [f"{one / other:.2f}" if one / other > 0 else ""]
            cells.append([*values, *ratio, *found.values()])
        return page.table(names, cells)

    def _head(self, head: str, name: str) -> str:
        return head if len(self.value) == 1 and head else f"{head}, {name}" if head else name

    def _cell(self, cells: list[str]) -> str:
        if len(set(cells)) == 1 and cells[0] != "nan":
            # One repetition has no error.
            return re.sub(r"\+-0\.?0*$", "", cells[0]).replace("+-", " ± ")
        found = [number(cell) for cell in cells]
        return f"{np.nanmean(found):.3g}" if np.isfinite(found).any() else ""
