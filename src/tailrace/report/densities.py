"""Densities of repeated runs against the truth, as SVG: where a method's answers fall, group by group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from tailrace.report.chart import COLOURS

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 62, 40
_POINTS = 60  # of a density


@dataclass(frozen=True, eq=False)
class Spread:
    """A group: what is true, and what each method said, run after run."""

    name: str
    truth: float
    answers: Mapping[str, np.ndarray]


def density_chart(spreads: Sequence[Spread], *, title: str, y_label: str) -> str:
    """A density per group and method, a cross at the truth; as an <svg> element."""
    methods = list(spreads[0].answers)
    shapes = [{method: density(spread.answers[method]) for method in methods} for spread in spreads]
    ends = [float(at[end]) for shape in shapes for at, _ in shape.values() for end in (0, -1)]
    low, high = min(*ends, *(s.truth for s in spreads)), max(*ends, *(s.truth for s in spreads))
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def height(value: float) -> float:
        return bottom - (bottom - _TOP) * (value - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="#333">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="22" font-size="15" font-weight="600">{escape(title)}</text>',
        *_legend(methods),
    ]
    for tick in _ticks(low, high):
        y = height(tick)
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e5e5"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{escape(y_label)}</text>'
    )
    each = (right - _LEFT) / len(spreads)
    for place, spread in enumerate(spreads):
        start = _LEFT + each * place
        parts.append(
            f'<text x="{start + each / 2:.1f}" y="{bottom + 20}" text-anchor="middle">{escape(spread.name)}</text>'
        )
        lane, peak = each * 0.9 / len(methods), max(float(dense.max()) for _, dense in shapes[place].values())
        for number, (method, colour) in enumerate(zip(methods, COLOURS, strict=False)):
            base = start + each * 0.05 + lane * number
            at, dense = shapes[place][method]
            edge = " ".join(
                f"{base + lane * 0.92 * share:.1f},{height(value):.1f}"
                for value, share in zip(at, dense / peak, strict=True)
            )
            closed = f"{base:.1f},{height(at[0]):.1f} {edge} {base:.1f},{height(at[-1]):.1f}"
            parts.append(
                f'<polygon points="{closed}" fill="{colour}" fill-opacity="0.35" stroke="{colour}" stroke-width="1"/>'
            )
        y = height(spread.truth)
        parts.append(
            f'<line x1="{start + 3:.1f}" x2="{start + each - 3:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#333" stroke-dasharray="2 3"/>'
        )
        x = start + each / 2
        parts.append(
            f'<path d="M{x - 4:.1f} {y - 4:.1f} l8 8 m0 -8 l-8 8" stroke="#111" stroke-width="1.8" fill="none"/>'
        )
    parts.append("</svg>")
    return "\n".join(parts)


def density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points and a Gaussian kernel density at them (Silverman's width).

    >>> at, dense = density(np.array([0.0, 1.0, 2.0]))
    >>> round(float(((dense[1:] + dense[:-1]) / 2 * np.diff(at)).sum()), 1)
    1.0
    """
    width = max(1.06 * float(np.std(values)) * len(values) ** -0.2, 1e-12)
    at = np.linspace(values.min() - 3 * width, values.max() + 3 * width, _POINTS)
    bumps = np.exp(-(((at[:, None] - values) / width) ** 2) / 2)
    return at, bumps.sum(axis=1) / (len(values) * width * math.sqrt(2 * math.pi))


def _legend(methods: Sequence[str]) -> list[str]:
    parts, x = [], _LEFT
    for method, colour in zip(methods, COLOURS, strict=False):
        parts.append(
            f'<rect x="{x}" y="36" width="12" height="12" fill="{colour}" fill-opacity="0.35" stroke="{colour}"/>'
        )
        parts.append(f'<text x="{x + 17}" y="46">{escape(method)}</text>')
        x += 36 + 6.6 * len(method)
    parts.append(f'<path d="M{x} 38 l8 8 m0 -8 l-8 8" stroke="#111" stroke-width="1.8" fill="none"/>')
    return [*parts, f'<text x="{x + 14}" y="46">truth</text>']


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between the two, about five."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next((factor for factor in (1, 2, 5) if (high - low) / (step * factor) <= 6), 10)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
