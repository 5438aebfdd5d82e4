"""The strongest pairs of columns of a table, now and over time."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrace.domain import Attribute, Categorical, Integer, Real
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.tabular.view import TabularView
from tailrace.report import page
from tailrace.report.chart import Line
from tailrace.stream.stream import Stream

_VALUES, _PAIRS = 8, 6  # of a column, and pairs that are read at a glance
_LARGEST = 10_000  # cells of a pair of columns that is looked at
# Mean of the absolute value of a normal variable, in standard deviations, and half of it for a
# total variation.
_HALF_OF_ABSOLUTE = 0.4
# A pair is shown from this many times its noise on. By reasoning: over a dozen cells or more, sums
# of absolute noise stay below it nearly always.
_CLEAR = 1.5


def pairs(stream: Stream, view: TabularView, over: Sequence[tuple[int, TabularView]]) -> str:
    """Write the pairs farthest from independence, beyond their noise.

    `over` has the views of the steps that are shown.
    """
    shape, cliques = view.domain.shape, view.marginals.cliques
    held = {pair for clique in cliques for pair in itertools.combinations(clique, 2)}
    found = {
        (a, b): _pair(view, a, b)
        for a, b in sorted(held)
        if min(shape[a], shape[b]) > 1 and shape[a] * shape[b] <= _LARGEST
    }
    clear = [axes for axes, one in found.items() if one.apart > _CLEAR * one.noise]
    clear.sort(key=lambda axes: found[axes].noise - found[axes].apart)
    if not clear:
        return page.note("No pair of columns stands out from its noise.")
    told = (
        "The percentage is the share of records that would have to move for the two columns to be "
        "independent; noise alone would give about the one in brackets. Below: the combinations "
        "that depart most, the counts if the columns were independent, and those of the first "
        "release."
    )
    parts, drawn = [page.note(told)], []
    steps = np.array([step for step, _ in over])
    for axes in clear[:_PAIRS]:
        one = found[axes]
        before = [_pair(other, *axes, like=one) for _, other in over]
        apart = [Estimate(other.apart, other.doubt) for other in before]
        drawn.append(Line.of(one.name, steps, apart))
        heading = f"{one.name}: {100 * one.apart:.1f} % (noise: {100 * one.noise:.1f} %)"
        parts.append(page.heading(heading))
        header = (one.name, "records", "if independent", f"at step {steps[0]}")
        parts.append(page.table(header, one.departures(before[0])))
    caption = "How far pairs are from independent; bands reach about two standard errors."
    title = "Records that would have to move"
    chart = page.lines(stream, drawn, title, "share of records", caption, percent=True)
    return "\n".join([parts[0], chart, *parts[1:]])


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two columns, in few groups of values each."""

    name: str
    groups: tuple[list[list[int]], list[list[int]]]  # codes, by column
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

    @property
    def doubt(self) -> float:
        """About the standard error of `apart`: signs fixed, cells independent."""
        return math.sqrt(float((self.errors**2).sum())) / 2 / max(float(self.values.sum()), 1.0)

    def departures(self, first: _Pair) -> list[tuple[str, str, str, str]]:
        """The five cells farthest from independence, in standard errors; and as they were."""
        apart = np.abs(self.values - self.independent) / np.maximum(self.errors, 1e-9)
        rows = []
        for cell in np.argsort(-apart, axis=None, kind="stable")[:5]:
            a, b = (int(code) for code in np.unravel_index(cell, apart.shape))
            now, then = (
                page.told(Estimate(float(one.values[a, b]), float(one.errors[a, b])))
                for one in (self, first)
            )
            name = f"{self.labels[0][a]} and {self.labels[1][b]}"
            rows.append((name, now, f"{self.independent[a, b]:,.0f}", then))
        return rows


def _pair(view: TabularView, *axes: int, like: _Pair | None = None) -> _Pair:
    """Two columns of a view, in the groups of `like`."""
    names = [view.domain.columns[axis] for axis in axes]
    joint = view.marginal(*names)
    values, squares, labels, held = joint.values, joint.errors**2, [], []
    for place, axis in enumerate(axes):
        attribute = view.domain.attributes[axis]
        chosen = (
            groups(attribute, joint.values.sum(axis=1 - place), _VALUES)
            if like is None
            else like.groups[place]
        )
        rest = sorted(set(range(attribute.size)).difference(*chosen))
        labels.append([label(attribute, codes) for codes in chosen] + ["(others)"] * bool(rest))
        held.append(chosen)
        values, squares = (
            np.stack(
                [part.take(codes, place).sum(place) for codes in [*chosen, *([rest] * bool(rest))]],
                place,
            )
            for part in (values, squares)
        )
    named = " and ".join(names)
    return _Pair(named, (held[0], held[1]), (labels[0], labels[1]), values, np.sqrt(squares))


def groups(attribute: Attribute, counts: np.ndarray, most: int) -> list[list[int]]:
    """Choose the largest categories, or ranges of numbers."""
    if isinstance(attribute, Categorical):
        order = np.argsort(-counts[: len(attribute.values)], kind="stable")
        return [[int(code)] for code in order[:most]]
    known = attribute.size - (attribute.outside == "other")
    width = -(-known // most)
    return [list(range(first, min(first + width, known))) for first in range(0, known, width)]


def asked(attribute: Attribute, codes: Sequence[int]) -> Sequence[str | float | bool]:
    """Return the condition that asks for the codes."""
    if isinstance(attribute, Categorical):
        return [attribute.values[code] for code in codes]
    if isinstance(attribute, Integer):
        return attribute.low + codes[0], attribute.low + codes[-1]
    assert isinstance(attribute, Real), "amounts are no columns of a view"
    return attribute.edges[codes[0]], attribute.edges[codes[-1] + 1]


def label(attribute: Attribute, codes: Sequence[int]) -> str:
    """Name the values of adjacent codes, or of one."""
    if attribute.outside == "other" and codes[-1] == attribute.size - 1:
        return "(outside)"
    first, *rest = asked(attribute, codes)
    if rest and (isinstance(attribute, Real) or rest[0] != first):
        return f"{first:g} to {rest[0]:g}"
    return str(first)
