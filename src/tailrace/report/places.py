"""The page of places: maps step by step, and errors.

Without the true points it shows releases only. With them it is the curator's: it shows them
beside, measures the error, and says PRIVATE wherever it is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tailrace.mechanisms.spatial.view import SpatialView
from tailrace.papers.privtree.stream import PrivTreeView
from tailrace.report.chart import Line, line_chart
from tailrace.report.maps import FULL, WIDTH, Ground, is_flat, maps, on_map, packed
from tailrace.report.page import Page, figure, page_of, rows_chart
from tailrace.stream.stream import Stream

_RECTANGLES = 60
_STATED = ": no true count was read for this."
_MEASURED = ", and as measured on the true points."
_MEAN_OF_ABSOLUTE = 0.8  # of a normal variable, in standard deviations


@dataclass(frozen=True)
class Lives:
    """Points with their first step and their end.

    `gone` is the first step without the point.
    """

    points: np.ndarray  # (points, 2)
    born: np.ndarray  # (points,) steps
    gone: np.ndarray

    def at(self, step: int) -> np.ndarray:
        """Return the points that exist at a step."""
        return self.points[(self.born <= step) & (step < self.gone)]


def lives(changes: Iterable[tuple[np.ndarray, np.ndarray]]) -> Lives:
    """Follow points through the changes of steps 1, 2, ...

    Each step gives the points added and the points removed.

    A removal ends the oldest life of a point at that place; of a point never added, none.

    >>> place = np.array([[0.5, 0.5]])
    >>> lives([(place, place[:0]), (place[:0], place)]).gone
    array([2])
    """
    points: list[np.ndarray] = []
    born: list[int] = []
    gone: list[int] = []
    alive: dict[bytes, list[int]] = defaultdict(list)
    for step, (added, removed) in enumerate(changes, 1):
        for place in removed:
            held = alive.get(place.tobytes())
            if held:
                gone[held.pop(0)] = step
        for place in added:
            alive[place.tobytes()].append(len(points))
            points.append(place)
            born.append(step)
            gone.append(FULL)
    placed = np.array(points) if points else np.zeros((0, 2))
    return Lives(placed, np.array(born, np.int64), np.array(gone, np.int64))


@dataclass(frozen=True)
class Followed:
    """A stream's points, partitions and errors, step by step."""

    synthetic: Lives
    partitions: list[dict[str, Any]]
    # (steps,) mean absolute error of the rectangles, as the releases state it
    predicted: np.ndarray
    measured: np.ndarray | None  # the same against the true points


@page_of.register(SpatialView)
@page_of.register(PrivTreeView)
def spatial_page(
    _view: SpatialView | PrivTreeView, stream: Stream, truth: Lives | None = None
) -> Page:
    """Show points on a map, or their number elsewhere."""
    flat, domain = is_flat(stream.mechanism.domain), cast("Ground", stream.mechanism.domain)
    if not flat:
        truth = None
    followed = follow(stream, truth)
    steps = np.arange(1, stream.step + 1)
    lines = [Line("stated", steps, followed.predicted, dashed=truth is not None)]
    if followed.measured is not None:
        lines.insert(0, Line("measured", steps, followed.measured))
    title = "Error of a count in a rectangle"
    error = line_chart(lines, title=title, x_label="step", y_label="points")
    shown = _maps(followed, truth, domain, _labels(stream)) if flat else rows_chart(stream)
    private = truth is not None
    caption = (
        f"Mean absolute error over {_RECTANGLES} rectangles of 1 to 10 % of the area, as the "
        f"releases state it{_MEASURED if private else _STATED}"
    )
    sections = [("Step by step", shown), ("How far off a count is", figure(error, caption))]
    public = "Synthetic points, released step by step"
    title = "synthetic points beside the true ones" if private else public
    return Page(title=title, sections=sections, private=private)


def follow(stream: Stream, truth: Lives | None) -> Followed:
    """Read every release once; compare with the true points."""
    flat, domain = is_flat(stream.mechanism.domain), cast("Ground", stream.mechanism.domain)
    rectangles = _rectangles(domain)
    changes, partitions, stated, measured = [], [], [], []
    last = None
    for step in range(1, stream.step + 1):
        release = stream.release(step)
        tables = (release.added.columns, release.removed.columns)
        changes.append(tuple(_points(columns, domain.columns) for columns in tables))
        if release.view is None:
            stated.append(np.nan)
            measured.append(np.nan)
            continue
        leaves = release.view.leaves
        boxes = np.concatenate([leaves.low, leaves.high], axis=1)
        if last is None or boxes.shape != last.shape or (boxes != last).any():
            corners = [on_map(part, domain.low, domain.high) for part in (leaves.low, leaves.high)]
            packing = packed(np.concatenate(corners, axis=1).ravel())
            partitions.append({"since": step, "boxes": packing})
            last = boxes
        answers = [release.view.count(low=low, high=high) for low, high in rectangles]
        stated.append(_MEAN_OF_ABSOLUTE * float(np.mean([answer.error for answer in answers])))
        if truth is not None:
            there = truth.at(step)
            inside = ((there >= low) & (there <= high) for low, high in rectangles)
            true = [found.all(axis=1).sum() for found in inside]
            off = [abs(one.value - truly) for one, truly in zip(answers, true, strict=True)]
            measured.append(float(np.mean(off)))
    found = lives(changes if flat else ())
    errors = None if truth is None else np.array(measured)
    return Followed(found, partitions, np.array(stated), errors)


def _points(columns: dict[str, np.ndarray], names: Sequence[str]) -> np.ndarray:
    return np.stack([columns[name] for name in names], axis=1)


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


def _layer(name: str, title: str, colour: int, found: Lives, domain: Ground) -> dict[str, Any]:
    x, y = on_map(found.points, domain.low, domain.high).T
    steps = {"born": packed(found.born), "gone": packed(found.gone)}
    return {"name": name, "title": title, "colour": colour, "x": packed(x), "y": packed(y), **steps}


def _maps(followed: Followed, truth: Lives | None, domain: Ground, labels: list[str]) -> str:
    layers = [_layer("synthetic", "synthetic", 0, followed.synthetic, domain)]
    if truth is not None:
        layers.append(_layer("true", "true: PRIVATE", 1, truth, domain))
    last = len(labels)
    controls = (
        '<button id="play" type="button">Play</button> '
        f'<input id="step" type="range" min="1" max="{last}" value="{last}" aria-label="step"> '
        '<output id="step-label" for="step"></output> '
        '<label><input id="partition" type="checkbox" checked> partition</label>'
    )
    data = {"layers": layers, "partitions": followed.partitions, "labels": labels}
    return maps("map", data, controls, domain, width=WIDTH // len(layers), of="points")


def _labels(stream: Stream) -> list[str]:
    steps = range(1, stream.step + 1)
    return [
        f"step {step}" + (f", {stream.calendar.label(step)}" if stream.calendar else "")
        for step in steps
    ]
