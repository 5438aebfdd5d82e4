"""Charts as SVG: lines, heat maps, densities and bars.

A chart stands by itself, in light colours; a page restyles it by the classes `paper`, `grid` and
`c0`, `c1`, ... (`page.py`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from tailrace.mechanisms.base import Estimate

WIDTH, HEIGHT = 640, 320
COLOURS = ("#1b6ca8", "#c23b4f", "#9a6500", "#00798c", "#6a4c93", "#5c677d", "#4d7f3f")
_TOP, _BOTTOM = 42, 46
# Units of width for each letter of a label: enough for the larger letters of a narrow screen.
_LETTER = 9.8
_LABEL = 20  # letters at most
# Points of a line and of a density, dots on a line: more cannot be told apart at this width.
_POINTS, _DENSITY, _DOTS = 400, 60, 40


@dataclass(frozen=True)
class Line:
    """One line, with its name at its end."""

    name: str
    x: np.ndarray
    y: np.ndarray
    dashed: bool = False
    dots: np.ndarray | None = None  # measured values, drawn as dots on the same x
    error: np.ndarray | None = None  # standard errors: a band of two to each side
    colour: int | None = None  # that of another line, beside which it needs no name

    @classmethod
    def of(cls, name: str, x: np.ndarray, found: Iterable[Estimate]) -> Line:
        """A line of estimates, with their errors as its band."""
        values, errors = np.array([(one.value, one.error) for one in found]).T
        return cls(name, x, values, error=errors)


@dataclass(frozen=True, eq=False)
class Spread:
    """A group's truth, and each method's answers, run by run."""

    name: str
    truth: float
    answers: Mapping[str, np.ndarray]


def line_chart(
    lines: Sequence[Line], *, title: str, x_label: str, y_label: str, percent: bool = False
) -> str:
    """Draw lines over a common x as an <svg> element."""
    tops = [line.y if line.error is None else line.y + 2 * line.error for line in lines]
    low = min(0.0, *(_finite(line.y).min(initial=0.0) for line in lines))
    high = 1.05 * max(_finite(top).max(initial=0.0) for top in tops) or 1.0
    first, last = (end(float(end(line.x)) for line in lines) for end in (min, max))
    named = [line for line in lines if line.colour is None]
    room = _LETTER * max(len(_short(line.name)) for line in named) + 8
    ends = (min(first, 1.0), max(last, first + 1), low, high)
    plot = _Plot(*ends, right=WIDTH - room, percent=percent)
    parts = [*plot.opened(title, y_label), *plot.x_axis(x_label)]
    colours = dict(zip(map(id, named), range(len(COLOURS)), strict=False))
    drawn = [
        (line, colours[id(line)] if line.colour is None else line.colour)
        for line in lines
        if line.colour is not None or id(line) in colours
    ]
    parts += [plot.band(line, colour) for line, colour in drawn if line.error is not None]
    for line, colour in drawn:
        parts.append(_group(colour))
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        path = plot.path(line.x, line.y)
        # The end is drawn twice, with a round cap: so a line of one point is a dot.
        thick = 2 if " " in path else 8
        path = f"{path} {path.rpartition(' ')[2]}"
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="currentColor" '
            f'stroke-width="{thick}" stroke-linecap="round"{dash}/>'
        )
        if line.dots is not None:
            for i in _some(np.arange(len(line.x)), _DOTS):
                x, y = plot.x(float(line.x[i])), plot.y(float(line.dots[i]))
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="currentColor"/>')
        parts.append("</g>")
    labelled = [(line, colour) for line, colour in drawn if line.colour is None]
    heights = [plot.y(float(np.nan_to_num(line.y[-1]))) for line, _ in labelled]
    heights = _apart(heights, gap=19, low=_TOP, high=plot.bottom)
    for (line, colour), y in zip(labelled, heights, strict=True):
        name = _text(plot.right + 8, y + 4, _short(line.name), "start", fill="currentColor")
        parts.append(f"{_group(colour)}{name}</g>")
    return "\n".join([*parts, "</svg>"])


def heat_map(
    rows: Sequence[str],
    steps: np.ndarray,
    values: np.ndarray,
    *,
    title: str,
    marks: np.ndarray,
    x_label: str = "step",
) -> str:
    """Draw values (rows, steps) as cells: the larger, the stronger.

    `marks` (steps,) says which steps have a dot below.
    """
    left = _LETTER * max(len(_short(name)) for name in rows) + 20
    height, width = 22, (WIDTH - left - 8) / len(steps)
    bottom, high = _TOP + height * len(rows), max(float(values.max(initial=0.0)), 1e-12)
    parts = _opened(title, round(bottom + _BOTTOM + 12), left=8)
    for row, name in enumerate(rows):
        y = _TOP + height * row
        parts.append(_text(left - 8, y + 16, _short(name), "end") + _group(0))
        # Equal neighbours are one rectangle: a histogram stands until it is measured again.
        for value, run in itertools.groupby(range(len(steps)), key=values[row].__getitem__):
            first, *rest = run
            strength = 0.04 + 0.96 * max(float(value), 0.0) / high
            parts.append(
                f'<rect x="{left + width * first:.2f}" y="{y + 1}" height="{height - 2}" '
                f'width="{width * (1 + len(rest)):.2f}" fill="currentColor" '
                f'fill-opacity="{strength:.2f}" shape-rendering="crispEdges"/>'
            )
        parts.append("</g>")
    parts.append(_group(1))
    for column in np.flatnonzero(marks):
        x = left + width * (column + 0.5)
        parts.append(f'<circle cx="{x:.1f}" cy="{bottom + 7}" r="2.2" fill="currentColor"/>')
    parts.append("</g>")
    for column in _some(np.arange(len(steps)), 6):
        parts.append(_text(left + width * (column + 0.5), bottom + 28, f"{steps[column]:,}"))
    parts.append(_text((left + WIDTH) / 2, bottom + 50, x_label))
    return "\n".join([*parts, "</svg>"])


def column_chart(
    names: Sequence[str],
    series: Mapping[str, np.ndarray],
    *,
    title: str,
    x_label: str,
    y_label: str,
) -> str:
    """Draw columns side by side, one of each series for each name."""
    high = 1.05 * max(float(one.max(initial=0.0)) for one in series.values()) or 1.0
    plot = _Plot(0, len(names), 0.0, high, right=WIDTH - 12, top=64 if len(series) > 1 else _TOP)
    parts = plot.opened(title, y_label)
    parts += _legend(list(series), plot.left, truth=False) if len(series) > 1 else []
    lane = (plot.x(1) - plot.x(0)) * 0.84 / len(series)
    for number, values in enumerate(series.values()):
        parts.append(_group(number))
        for place, value in enumerate(values):
            x, y = plot.x(place + 0.08) + lane * number, plot.y(max(float(value), 0.0))
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{lane:.1f}" '
                f'height="{plot.bottom - y:.1f}" fill="currentColor"/>'
            )
        parts.append("</g>")
    for place in _some(np.arange(len(names)), 8):
        parts.append(_text(plot.x(place + 0.5), plot.bottom + 20, names[int(place)]))
    parts.append(_path("axis", f"M{plot.left:.1f} {plot.bottom}H{plot.right:.1f}", "#999"))
    return "\n".join([*parts, _text((plot.left + plot.right) / 2, HEIGHT - 6, x_label), "</svg>"])


def bar(value: float, error: float, high: float, true: float | None = None) -> str:
    """Draw a value up to `high`, two standard errors, and the truth."""
    ends = np.array([value, value - 2 * error, value + 2 * error]) / high if high > 0 else [0.0] * 3
    length, first, last = (100 * min(max(float(end), 0.0), 1.0) for end in ends)
    whisker = _path("whisker", f"M{first:.1f} 5H{last:.1f}", "#333", 'stroke-width="2"')
    mark = ""
    if true is not None and high > 0:
        at = f"M{100 * min(max(true / high, 0.0), 1.0):.1f} 0V10"
        mark = f'{_group(1)}<path d="{at}" stroke="currentColor" stroke-width="1.6"/></g>'
    return (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'{_group(0)}<rect y="1" width="{length:.1f}" height="8" fill="currentColor" '
        'fill-opacity="0.6"/></g>'
        f"{whisker if math.isfinite(error) else ''}{mark}</svg>"
    )


def density_chart(spreads: Sequence[Spread], *, title: str, y_label: str) -> str:
    """Draw densities by group and method, and the truth."""
    methods = list(spreads[0].answers)
    shapes = [{method: density(spread.answers[method]) for method in methods} for spread in spreads]
    ends = [float(at[end]) for shape in shapes for at, _ in shape.values() for end in (0, -1)]
    marks = [*ends, *(spread.truth for spread in spreads)]
    plot = _Plot(0, len(spreads), min(marks), max(marks), right=WIDTH - 12, top=64)
    parts = [*plot.opened(title, y_label), *_legend(methods, plot.left)]
    for place, spread in enumerate(spreads):
        start, end = plot.x(place), plot.x(place + 1)
        middle, y = (start + end) / 2, plot.y(spread.truth)
        parts.append(_text(middle, plot.bottom + 20, spread.name))
        lane = (end - start) * 0.9 / len(methods)
        peak = max(float(dense.max()) for _, dense in shapes[place].values())
        for number, method in enumerate(methods[: len(COLOURS)]):
            base = start + (end - start) * 0.05 + lane * number
            at, dense = shapes[place][method]
            edge = " ".join(
                f"{base + lane * 0.92 * share:.1f},{plot.y(value):.1f}"
                for value, share in zip(at, dense / peak, strict=True)
            )
            closed = f"{base:.1f},{plot.y(at[0]):.1f} {edge} {base:.1f},{plot.y(at[-1]):.1f}"
            parts.append(
                f'{_group(number)}<polygon points="{closed}" fill="currentColor" '
                'fill-opacity="0.35" stroke="currentColor"/></g>'
            )
        truth = f"M{start + 3:.1f} {y:.1f}H{end - 3:.1f}"
        parts += [_path("axis", truth, "#333", 'stroke-dasharray="2 3"'), _cross(middle, y)]
    return "\n".join([*parts, "</svg>"])


def density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return points and a Gaussian kernel density at them.

    The width is Silverman's.

    >>> at, dense = density(np.array([0.0, 1.0, 2.0]))
    >>> round(float(((dense[1:] + dense[:-1]) / 2 * np.diff(at)).sum()), 1)
    1.0
    """
    width = max(1.06 * float(np.std(values)) * len(values) ** -0.2, 1e-12)
    at = np.linspace(values.min() - 3 * width, values.max() + 3 * width, _DENSITY)
    bumps = np.exp(-(((at[:, None] - values) / width) ** 2) / 2)
    return at, bumps.sum(axis=1) / (len(values) * width * math.sqrt(2 * math.pi))


@dataclass(frozen=True)
class _Plot:
    """The area inside the axes, in the data's units."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    right: float
    top: float = _TOP
    bottom: float = HEIGHT - _BOTTOM
    percent: bool = False

    @functools.cached_property
    def left(self) -> float:
        """Room for the values and the name of the axis."""
        return 28 + _LETTER * max(len(self._tick(tick)) for tick in _ticks(self.y_low, self.y_high))

    def _tick(self, value: float) -> str:
        return f"{_number(100 * value)} %" if self.percent else _number(value)

    def x(self, value: float) -> float:
        share = (value - self.x_low) / (self.x_high - self.x_low)
        return self.left + (self.right - self.left) * share

    def y(self, value: float) -> float:
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return self.bottom - (self.bottom - self.top) * share

    def path(self, x: np.ndarray, y: np.ndarray) -> str:
        """Write the points of a polyline, without missing values."""
        keep = _some(np.flatnonzero(np.isfinite(y)), _POINTS)
        return " ".join(f"{self.x(float(x[i])):.1f},{self.y(float(y[i])):.1f}" for i in keep)

    def band(self, line: Line, colour: int) -> str:
        """Draw two standard errors around a line, inside the axes."""
        assert line.error is not None
        keep = np.isfinite(line.y) & np.isfinite(line.error)
        x, y, error = line.x[keep], line.y[keep], 2 * line.error[keep]
        above, below = (np.clip(side, self.y_low, self.y_high) for side in (y + error, y - error))
        around = f"{self.path(x, above)} {self.path(x[::-1], below[::-1])}"
        return (
            f'{_group(colour)}<polygon points="{around}" fill="currentColor" '
            'fill-opacity="0.18" stroke="currentColor" stroke-opacity="0.25"/></g>'
        )

    def opened(self, title: str, y_label: str) -> list[str]:
        """Begin the chart: title, horizontal lines and their values."""
        parts = _opened(title, HEIGHT, left=self.left)
        for tick in _ticks(self.y_low, self.y_high):
            y = self.y(tick)
            parts.append(_path("grid", f"M{self.left:.1f} {y:.1f}H{self.right:.1f}", "#e5e5e5"))
            parts.append(_text(self.left - 8, y + 4, self._tick(tick), "end"))
        middle = (self.top + self.bottom) / 2
        return [*parts, _text(14, middle, y_label, transform=f"rotate(-90 14 {middle})")]

    def x_axis(self, label: str) -> list[str]:
        """Draw the axis below, with round numbers."""
        parts = [_path("axis", f"M{self.left:.1f} {self.bottom}H{self.right:.1f}", "#999")]
        # The first value is told even where it is no round number: a stream begins with step 1.
        round_ones = _ticks(self.x_low, self.x_high)
        near = (self.x_high - self.x_low) / 12
        ticks = [self.x_low, *(tick for tick in round_ones if tick > self.x_low + near)]
        for tick in ticks:
            if tick == int(tick) or self.x_high - self.x_low < 5:
                parts.append(_path("axis", f"M{self.x(tick):.1f} {self.bottom}v5", "#999"))
                parts.append(_text(self.x(tick), self.bottom + 20, _number(tick)))
        return [*parts, _text((self.left + self.right) / 2, HEIGHT - 6, label)]


def _opened(title: str, height: int, *, left: float) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#333">',
        f"<title>{escape(title)}</title>",
        f'<rect class="paper" width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="24" font-weight="600">{escape(title)}</text>',
    ]


def _group(colour: int) -> str:
    return f'<g class="c{colour}" color="{COLOURS[colour]}">'


def _cross(x: float, y: float) -> str:
    path = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
    return _path("whisker", path, "#333", 'stroke-width="1.8"')


def _path(kind: str, path: str, stroke: str, more: str = "") -> str:
    return f'<path class="{kind}" d="{path}" stroke="{stroke}" {more}/>'


def _text(x: float, y: float, words: str, anchor: str = "middle", **more: str) -> str:
    others = "".join(f' {name}="{value}"' for name, value in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{others}>{escape(words)}</text>'


def _legend(methods: Sequence[str], left: float, *, truth: bool = True) -> list[str]:
    parts, x = [], left
    for number, method in enumerate(methods[: len(COLOURS)]):
        parts.append(
            f'{_group(number)}<rect x="{x:.0f}" y="36" width="12" height="12" fill="currentColor" '
            f'fill-opacity="0.35" stroke="currentColor"/></g>{_text(x + 17, 46, method, "start")}'
        )
        x += 30 + _LETTER * len(method)
    return [*parts, _cross(x + 4, 42), _text(x + 14, 46, "truth", "start")] if truth else parts


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between the two, about five.

    >>> _ticks(0, 23)
    [0, 5, 10, 15, 20]
    """
    step = 10 ** math.floor(math.log10((high - low) / 5))
    step *= next((factor for factor in (1, 2, 5) if (high - low) / (step * factor) <= 6), 10)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def _some(places: np.ndarray, most: int) -> np.ndarray:
    """Choose at most `most` of them, evenly, with both ends."""
    if len(places) <= most:
        return places
    return places[np.unique(np.linspace(0, len(places) - 1, most).astype(int))]


def _short(name: str) -> str:
    return name if len(name) <= _LABEL else f"{name[: _LABEL - 1]}…"


def _apart(heights: Iterable[float], *, gap: float, low: float, high: float) -> list[float]:
    """Move label heights apart to `gap`, in their order."""
    asked = list(heights)
    order = sorted(range(len(asked)), key=lambda i: asked[i])
    placed = dict.fromkeys(order, 0.0)
    last = low - gap
    for i in order:
        last = placed[i] = max(asked[i], last + gap)
    ceiling = high
    for i in reversed(order):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    return [placed[i] for i in range(len(order))]
