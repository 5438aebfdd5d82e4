"""The page of places: a map step by step, and errors.

Without the true points it shows releases only. With them it is the curator's: it shows them
beside, measures the error, and says PRIVATE wherever it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import polars as pl

from tailrace.domain import Attribute, Schema, attributes_of
from tailrace.mechanisms.spatial.view import SpatialView
from tailrace.metrics import relative_error, standard_queries
from tailrace.papers.privtree.stream import PrivTreeView
from tailrace.report import page
from tailrace.report.chart import Line
from tailrace.report.maps import Ground, Sheet, is_flat, maps, packed
from tailrace.report.page import Page, page_of, rows_chart
from tailrace.report.pairs import asked, label
from tailrace.report.truth import opened
from tailrace.stream.log import History
from tailrace.stream.stream import Stream

_RECTANGLES = 60
# Steps at which errors are found: a view of a million points takes a tenth of a second.
_STEPS = 8
_BOXES = 60_000  # of partitions on a page at most: half a megabyte
_STATED = ": no true count was read for this."
_MEASURED = ", and as measured on the true points."
_MEAN_OF_ABSOLUTE = 0.8  # of a normal variable, in standard deviations
_LEGEND = (
    '1 <span class="ramp"></span> <span class="most"></span> in a square of '
    '<span class="square"></span>'
)


@dataclass(frozen=True)
class Followed:
    """A stream's partitions and errors, at some steps."""

    steps: np.ndarray  # (steps,)
    partitions: list[dict[str, Any]]
    # (steps,) mean absolute error of the rectangles, as the releases state it
    stated: np.ndarray
    measured: np.ndarray | None  # the same against the true points


@page_of.register(SpatialView)
@page_of.register(PrivTreeView)
def spatial_page(
    view: SpatialView | PrivTreeView, stream: Stream, truth: History | None = None
) -> Page:
    """Show points on a map, or their number elsewhere."""
    domain = ground_of(stream)
    flat = is_flat(domain)
    followed = follow(stream, truth)
    lines = [Line("stated", followed.steps, followed.stated, dashed=truth is not None)]
    if followed.measured is not None:
        lines.insert(0, Line("measured", followed.steps, followed.measured))
    caption = (
        f"Mean absolute error over {_RECTANGLES} rectangles of 1 to 10 % of the area, as the "
        f"releases state it{_STATED if truth is None else _MEASURED}"
    )
    error = page.lines(stream, lines, "Error of a count in a rectangle", "points", caption)
    history = page.history_of(stream)
    shown = _map(followed, history, truth, stream) if flat else rows_chart(stream)
    sections = [("Step by step", shown)]
    if flat:
        sections.append((f"By area, at step {stream.step}", _areas(view, domain, truth, stream)))
    if isinstance(view, SpatialView):
        sections += _values(view, truth, stream.step)
    sections.append(("How far off a count is", error))
    if truth is not None:
        sections.append(
            ("How far they are from the true points", _measures(history, truth, stream))
        )
    title = "synthetic points, step by step"
    return Page(title=title, sections=sections, private=truth is not None)


def ground_of(stream: Stream) -> Any:
    """Where points lie, attributes left apart."""
    domain = stream.mechanism.domain
    return getattr(domain, "ground", domain)


def points_at(history: History, columns: Sequence[str], step: int) -> np.ndarray:
    """Return the points that exist at a step."""
    there = (history.born <= step) & (step < history.gone)
    return np.stack([history.columns[name][there] for name in columns], axis=1).astype(float)


def follow(stream: Stream, truth: History | None) -> Followed:
    """Read views at some steps; compare with the true points."""
    domain = ground_of(stream)
    sheet = Sheet.of(domain) if is_flat(domain) else None
    rectangles, chosen = _rectangles(domain), page.steps_of(stream, most=_STEPS)
    partitions, stated, measured = [], [], []
    for step in chosen:
        view = stream.view(int(step))
        if view is None:
            stated.append(np.nan)
            measured.append(np.nan)
            continue
        if sheet is not None:
            leaves = view.leaves
            corners = [sheet.placed(part) for part in (leaves.low, leaves.high)]
            # Of other views there are no attributes.
            codes = [getattr(leaves, name, corners[0][:, :0]) for name in ("first", "last")]
            partitions.append((int(step), np.concatenate([*corners, *codes], axis=1)))
        answers = [view.count(low=low, high=high) for low, high in rectangles]
        stated.append(_MEAN_OF_ABSOLUTE * float(np.mean([answer.error for answer in answers])))
        if truth is not None:
            there = points_at(truth, domain.columns, int(step))
            inside = ((there >= low) & (there <= high) for low, high in rectangles)
            true = [found.all(axis=1).sum() for found in inside]
            off = [abs(one.value - truly) for one, truly in zip(answers, true, strict=True)]
            measured.append(float(np.mean(off)))
    errors = None if truth is None else np.array(measured)
    return Followed(chosen, _kept(partitions), np.array(stated), errors)


def _kept(partitions: list[tuple[int, np.ndarray]]) -> list[dict[str, Any]]:
    """The latest partitions that a page can hold, from the first step each is for."""
    found, room = [], _BOXES
    for step, boxes in reversed(partitions):
        if len(boxes) > room:
            break
        room -= len(boxes)
        parts = {"boxes": packed(boxes[:, :4].ravel()), "codes": packed(boxes[:, 4:].ravel())}
        found.insert(0, {"since": step, **parts})
    return found


def _rectangles(domain: Ground) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw rectangles of 1 to 10 % of the area."""
    rng = np.random.default_rng(0)
    low, span = np.array(domain.low), np.array(domain.high) - np.array(domain.low)
    found = []
    for _ in range(_RECTANGLES):
        side = rng.uniform(0.01, 0.1) ** (1 / len(span))
        corner = rng.uniform(0, 1 - side, len(span))
        found.append((low + corner * span, low + (corner + side) * span))
    return found


def _map(followed: Followed, history: History, truth: History | None, stream: Stream) -> str:
    domain, labels = ground_of(stream), page.labels(stream)
    sheet, steps = Sheet.of(domain), np.arange(1, stream.step + 1)
    layers, points, attributes = [], {}, attributes_of(stream.mechanism.domain)
    for name, title, colour, found in (
        ("synthetic", "synthetic", 0, history),
        ("true", "true: PRIVATE", 1, truth),
    ):
        if found is None:
            continue
        born = np.searchsorted(found.born, steps, "right").tolist()
        layers.append({"name": name, "title": title, "colour": colour, "born": born})
        columns = [found.columns[column] for column in domain.columns]
        x, y = sheet.placed(np.stack(columns, axis=1)).T
        codes = [_codes(found, column, one) for column, one in attributes.items()]
        points[name] = packed(x, y, found.gone, *codes)
    last = stream.step
    controls = (
        '<button id="play" type="button">Play</button> '
        f'<input id="step" type="range" min="1" max="{last}" value="{last}" aria-label="step"> '
        '<output id="step-label" for="step"></output> '
        '<label><input id="partition" type="checkbox"> partition</label>'
    )
    controls += "".join(_choice(*one) for one in enumerate(attributes.items()))
    data = {"partitions": followed.partitions, "labels": labels, "attributes": len(attributes)}
    words = "Colours say how many points lie in each small square; the partition is the one that "
    by = " Choose a value for its own map." if attributes else ""
    return page.note(f"{words}the mechanism counts in.{by}") + maps(
        "points", layers, data, controls, domain, of="points", legend=_LEGEND, points=points
    )


def _codes(found: History, column: str, attribute: Attribute) -> np.ndarray:
    """The code of each row's value."""
    frame = pl.DataFrame({column: found.columns[column]}, strict=False)
    return Schema(**{column: attribute}).cells(opened(frame, column))


def _choice(axis: int, of: tuple[str, Attribute]) -> str:
    """A list to choose a value of an attribute from."""
    column, attribute = of
    options = "".join(
        f'<option value="{code}">{escape(label(attribute, [code]))}</option>'
        for code in range(attribute.size)
    )
    return (
        f' <label>{escape(column)} <select id="value-{axis}"><option value="">all</option>'
        f"{options}</select></label>"
    )


def _values(view: SpatialView, truth: History | None, step: int) -> list[tuple[str, str]]:
    """A section for each attribute: the points with each value, with errors."""
    found = []
    for column, attribute in attributes_of(view.domain).items():
        true = None
        if truth is not None:
            there = (truth.born <= step) & (step < truth.gone)
            true = np.bincount(_codes(truth, column, attribute)[there], minlength=attribute.size)
        rows = []
        for code in range(attribute.size - (attribute.outside == "other")):
            where: dict[str, Any] = {column: asked(attribute, [code])}
            number = view.count(**where)
            words = page.told(number) + ("" if true is None else f" (true: {true[code]:,})")
            rows.append((label(attribute, [code]), [(number.value, words)]))
        title = f"By {column}, at step {step}"
        note = page.note("Estimates of the last release; ± is one standard error.")
        found.append((title, note + page.shaded((column, "points"), rows)))
    return found


def _areas(view: Any, domain: Ground, truth: History | None, stream: Stream) -> str:
    """Write the number of points in sixteen parts of the map, with errors."""
    there = None if truth is None else points_at(truth, domain.columns, stream.step)

    def found(low: np.ndarray, high: np.ndarray) -> tuple[float, str]:
        number = view.count(low=low, high=high)
        words = page.told(number)
        if there is not None:
            words += f" (true: {((there >= low) & (there < high)).all(axis=1).sum():,})"
        return number.value, words

    words = "Sixteen parts of the map, as they lie on it: estimates of the last release; ± is one "
    return page.note(f"{words}standard error.") + Sheet.of(domain).by_area(found)


def _measures(history: History, truth: History, stream: Stream) -> str:
    """Tabulate the relative errors of PrivStream's queries."""
    domain = ground_of(stream)
    made, true = (points_at(one, domain.columns, stream.step) for one in (history, truth))
    if not len(true):
        return page.note("There are no true points at the last step.")
    queries = standard_queries(np.random.default_rng(0), low=domain.low, high=domain.high)
    found = {name: relative_error(true, made, one) for name, one in queries.items()}
    rows = [
        (f"{name} rectangles", f"{one.every:.3f}", f"{one.held:.3f}", f"{100 * one.share:.0f} %")
        for name, one in found.items()
    ]
    counts = f"{len(made):,} synthetic points stand for {len(true):,} true ones. "
    words = (
        "Mean relative error of counts of synthetic points: over all rectangles, and over those "
        "that hold enough true points; the last column says how many of them do. Small ones are "
        "0.01 to 0.1 % of the area, medium ones 0.1 to 1 %, large ones 1 to 10 %."
    )
    header = ("queries", "all", "with enough points", "of them")
    return page.note(counts + words) + page.table(header, rows)
