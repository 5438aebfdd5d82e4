"""Line charts as SVG: axes with round numbers, a label at the end of each line, colours that tell apart in grey too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

WIDTH, HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 140, 44, 48
COLOURS = ("#1b6ca8", "#d1495b", "#edae49", "#00798c", "#6a4c93", "#5c677d", "#8ab17d")
_POINTS = 400  # at most, per line


@dataclass(frozen=True)
class Line:
    """One line, with its name at its end."""

    name: str
    x: np.ndarray
    y: np.ndarray
    dashed: bool = False
    dots: np.ndarray | None = None  # measured values, drawn as dots on the same x


def line_chart(lines: Sequence[Line], *, title: str, x_label: str, y_label: str) -> str:
    """A chart of `lines` as an <svg> element."""
    x_high = max(float(line.x.max()) for line in lines)
    y_high = 1.05 * max(float(line.y[np.isfinite(line.y)].max(initial=0.0)) for line in lines) or 1.0
    x_ticks, y_ticks = _ticks(x_high), _ticks(y_high)
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + (right - _LEFT) * x / x_high, bottom - (bottom - _TOP) * y / y_high

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="#333">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
    ]
    for tick in y_ticks:
        _, y = place(0, tick)
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e5e5"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:,g}</text>')
    for tick in x_ticks:
        x, _ = place(tick, 0)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}" stroke="#999"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:,g}</text>')
    parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}" stroke="#999"/>')
    parts.append(f'<text x="{(_LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">{escape(y_label)}</text>'
    )
    for line, colour in zip(lines, COLOURS, strict=False):
        there = np.flatnonzero(np.isfinite(line.y))
        keep = there[np.unique(np.linspace(0, len(there) - 1, min(_POINTS, len(there))).astype(int))]
        path = " ".join("{:.1f},{:.1f}".format(*place(float(line.x[i]), float(line.y[i]))) for i in keep)
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')
        if line.dots is not None:
            some = np.unique(np.linspace(0, len(line.x) - 1, min(40, len(line.x))).astype(int))
            for x, y in (place(float(line.x[i]), float(line.dots[i])) for i in some):
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{colour}"/>')
    lasts = [float(np.nan_to_num(line.y[-1])) for line in lines]
    ends = _spread([place(0, last)[1] for last in lasts], gap=15, low=_TOP, high=bottom)
    for line, colour, y in zip(lines, COLOURS, ends, strict=False):
        parts.append(f'<text x="{right + 8}" y="{y + 4:.1f}" fill="{colour}">{escape(line.name)}</text>')
    parts.append("</svg>")
    return "\n".join(parts)


def _ticks(high: float) -> list[float]:
    """Round numbers from 0 to `high`, about five."""
    step = 10 ** math.floor(math.log10(high / 5))
    step *= next((factor for factor in (1, 2, 5) if high / (step * factor) <= 6), 10)
    return [step * i for i in range(math.floor(high / step) + 1)]


def _spread(heights: Iterable[float], *, gap: float, low: float, high: float) -> list[float]:
    """Label heights moved apart to `gap`, in their order, inside the chart."""
    wanted = list(heights)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = dict.fromkeys(order, 0.0)
    last = low - gap
    for i in order:
        last = placed[i] = max(wanted[i], last + gap)
    ceiling = high
    for i in reversed(order):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    return [placed[i] for i in range(len(order))]
