"""Draw one release, for a notebook or a file.

Drawn are public numbers only: the noisy measurements with two standard errors, or the synthetic
points and journeys themselves. `tailrace report` makes the page of a whole stream.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.ask import answers
from tailrace.calls import told
from tailrace.domain import Schema
from tailrace.errors import ConfigError, DataError
from tailrace.stream.release import Release

# Columns, values of a column, points and journeys that are drawn at most.
_COLUMNS, _VALUES, _POINTS, _JOURNEYS = 12, 30, 5000, 300
_WIDTH, _BAR, _ROW = 640, 260, 22
_BLUE, _INK = "#2b7bba", "#333"


@dataclass(frozen=True)
class Figure:
    """A picture of a release: shown by notebooks, saved as SVG."""

    svg: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture into a file, in place of one that is there."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<figure of {len(self.svg):,} bytes: show it in a notebook, or save it as .svg>"


@told
def plot(release: Release) -> Figure:
    """Draw a release: columns with error bars, or points and journeys on a plane."""
    if not isinstance(release, Release):
        raise DataError("release must be a release of a stream: plot(stream.release(3)).")
    view = release.view
    if view is None:
        raise ConfigError(
            f"Nothing is measured yet at step {release.step} of this release: draw a later one."
        )
    domain = view.domain if hasattr(view, "domain") else view.layout.domain
    drawn = _columns(view, domain) if isinstance(domain, Schema) else _plane(release, domain)
    period = release.provenance.get("period")
    title = f"Step {release.step}" + (f" ({period})" if period else "")
    height = 34 + drawn.height
    return Figure(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'width="{_WIDTH}" font-family="system-ui, sans-serif" font-size="12" fill="{_INK}">'
        f"<title>{escape(f'{title}: {drawn.words}')}</title>"
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="8" y="20" font-weight="600">{escape(title)}</text>'
        f'<text x="8" y="36" fill="#565b63">{escape(drawn.words)}</text>'
        f'<g transform="translate(0 34)">{drawn.body}</g></svg>\n'
    )


@dataclass(frozen=True)
class _Drawn:
    words: str
    body: str
    height: int


def _columns(view: Any, domain: Schema) -> _Drawn:
    """Bars of the values of each column, one column below the other."""
    shown, parts, y = domain.columns[:_COLUMNS], [], 14
    for column, labels, values, errors in _marginals(view, domain, shown):
        y += _ROW
        parts.append(f'<text x="8" y="{y}" font-weight="600">{escape(column)}</text>')
        high = max(float(np.max(values + 2 * errors, initial=0.0)), 1e-12)
        for label, value, error in zip(labels, values, errors, strict=True):
            y += _ROW
            parts.append(_bar(y, str(label), answers.Estimate(float(value), float(error)), high))
    words = f"estimated counts by {', '.join(shown)}, with two standard errors"
    return _Drawn(words, "".join(parts), y + 16)


def _marginals(
    view: Any, domain: Schema, columns: Sequence[str]
) -> Iterator[tuple[str, list[str], np.ndarray, np.ndarray]]:
    """Each column with its values; beyond the first thirty, only these."""
    if hasattr(view, "estimate"):
        ((names, cells, values, errors),) = answers.measured(view, domain)
        yield names[0], [cell[0] for cell in cells][:_VALUES], values[:_VALUES], errors[:_VALUES]
        return
    for column in columns:
        found = answers.marginal(view, domain, [column])
        labels = ["outside" if label is None else str(label) for label in found.labels[0]]
        yield column, labels[:_VALUES], found.values[:_VALUES], found.errors[:_VALUES]


def _bar(y: float, label: str, found: answers.Estimate, high: float) -> str:
    def at(value: float) -> float:
        return 180 + _BAR * min(max(value / high, 0.0), 1.0)

    first, last = at(found.value - 2 * found.error), at(found.value + 2 * found.error)
    short = label if len(label) <= 24 else f"{label[:23]}…"
    return (
        f'<text x="172" y="{y}" text-anchor="end">{escape(short)}</text>'
        f'<rect x="180" y="{y - 11}" width="{at(found.value) - 180:.1f}" height="12" '
        f'fill="{_BLUE}"/><path d="M{first:.1f} {y - 5}H{last:.1f}" stroke="{_INK}" '
        f'stroke-width="1.5"/><text x="452" y="{y}">{escape(str(found))}</text>'
    )


def _plane(release: Release, domain: Any) -> _Drawn:
    """Synthetic points, or journeys as lines, in the shape of the area."""
    box = getattr(domain, "box", domain)
    if len(box.columns) != 2:
        raise ConfigError("plot draws points in two dimensions: ask this release by count.")
    (left, bottom), (right, top) = box.low, box.high
    # Degrees of longitude are shorter away from the equator.
    degrees = left >= -180 and right <= 180 and bottom >= -90 and top <= 90
    stretch = 1 / np.cos(np.radians((bottom + top) / 2)) if degrees else 1.0
    wide = _WIDTH - 16
    high = round(min(max(wide * (top - bottom) / (right - left) * stretch, 120), 900))
    table = release.rows.columns
    x = 8 + (table[box.columns[0]] - left) / (right - left) * wide
    y = 16 + (top - table[box.columns[1]]) / (top - bottom) * high
    frame = f'<rect x="8" y="16" width="{wide}" height="{high}" fill="none" stroke="#bbb"/>'
    if hasattr(release.view, "noisy"):
        trips = table[next(name for name in table if name not in box.columns)]
        starts = np.flatnonzero(np.r_[True, trips[1:] != trips[:-1]]) if len(trips) else []
        ends = np.r_[starts[1:], len(trips)] if len(starts) else []
        lines = [
            "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x[i:j], y[i:j], strict=True))
            for i, j in list(zip(starts, ends, strict=True))[:_JOURNEYS]
        ]
        body = f'<path d="{"".join(lines)}" fill="none" stroke="{_BLUE}" stroke-opacity="0.35"/>'
        return _Drawn(
            f"{len(lines):,} of {len(starts):,} synthetic journeys", frame + body, high + 30
        )
    # Rows are in the order of their birth: some from everywhere.
    chosen = np.unique(np.linspace(0, max(len(x) - 1, 0), min(len(x), _POINTS)).astype(int))
    dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(x[chosen], y[chosen], strict=True))
    body = (
        f'<path d="{dots}" stroke="{_BLUE}" stroke-width="2.4" stroke-linecap="round" '
        'stroke-opacity="0.5"/>'
    )
    return _Drawn(f"{len(chosen):,} of {len(x):,} synthetic points", frame + body, high + 30)
