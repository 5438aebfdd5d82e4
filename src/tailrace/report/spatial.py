"""The report of a spatial stream: a map with a slider over the steps, the partition, and the error over time.

The public report shows releases only. With the true points it becomes the curator's: it shows them beside, measures the error, and says
PRIVATE wherever it is read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from tailrace.ledger import Entry
from tailrace.report import page
from tailrace.report.chart import Line, line_chart
from tailrace.report.lives import Lives, layer, lives, on_map, packed
from tailrace.report.maps import WIDTH, canvases
from tailrace.stream import Stream

PRIVATE = "PRIVATE: it shows the true data. For the curator only; never publish it."
_RECTANGLES = 60
_MEAN_OF_ABSOLUTE = 0.8  # of a normal variable, in standard deviations


@dataclass(frozen=True)
class Followed:
    """What is told of a stream, step by step."""

    synthetic: Lives
    partitions: list[dict[str, Any]]
    predicted: np.ndarray  # (steps,) mean absolute error of the rectangles, as the releases state it
    measured: np.ndarray | None  # the same against the true points


def spatial_report(stream: Stream, entries: Sequence[Entry], truth: Lives | None = None) -> str:
    """The page; with `truth` the private one."""
    followed = follow(stream, truth)
    domain: Any = stream.mechanism.domain
    steps = np.arange(1, stream.step + 1)
    layers = [layer("synthetic", "synthetic", "rgba(27, 108, 168, 0.55)", followed.synthetic, domain.low, domain.high)]
    if truth is not None:
        layers.append(layer("true", "true: PRIVATE", "rgba(209, 73, 91, 0.55)", truth, domain.low, domain.high))
    lines = [Line("stated", steps, followed.predicted, dashed=truth is not None)]
    if followed.measured is not None:
        lines.insert(0, Line("measured", steps, followed.measured))
    error = line_chart(lines, title="Error of a count in a rectangle", x_label="step", y_label="points")
    sections = [
        ("The promise", page.quote(str(stream.guarantee))),
        ("Step by step", _maps(layers, domain, followed.partitions, _labels(stream))),
        ("How far off a count is", page.figure(error, _caption(truth is not None))),
        ("The ledger", page.table(("population", "stream", "charged", "step"), [charged(entry) for entry in entries])),
    ]
    if truth is None:
        return page.page("Synthetic points, released step by step", "Public: made of noisy counts only.", sections)
    return page.page("PRIVATE: synthetic points beside the true ones", PRIVATE, sections)


def follow(stream: Stream, truth: Lives | None) -> Followed:
    """Read every release once."""
    domain: Any = stream.mechanism.domain
    rectangles = _rectangles(domain)
    changes, partitions, stated, measured = [], [], [], []
    last = None
    for step in range(1, stream.step + 1):
        release = stream.release(step)
        changes.append(tuple(_points(table.columns, domain.columns) for table in (release.added, release.removed)))
        if release.view is None:
            stated.append(np.nan)
            measured.append(np.nan)
            continue
        leaves = release.view.leaves
        boxes = np.concatenate([leaves.low, leaves.high], axis=1)
        if last is None or boxes.shape != last.shape or (boxes != last).any():
            corners = (on_map(part, domain.low, domain.high) for part in (leaves.low, leaves.high))
            partitions.append({"since": step, "boxes": packed(np.concatenate(list(corners), axis=1).ravel())})
            last = boxes
        answers = [release.view.count(low=low, high=high) for low, high in rectangles]
        stated.append(_MEAN_OF_ABSOLUTE * float(np.mean([answer.error for answer in answers])))
        if truth is not None:
            there = truth.at(step)
            true = [((there >= low) & (there <= high)).all(axis=1).sum() for low, high in rectangles]
            measured.append(float(np.mean([abs(a.value - t) for a, t in zip(answers, true, strict=True)])))
    return Followed(lives(changes), partitions, np.array(stated), None if truth is None else np.array(measured))


def _points(columns: dict[str, np.ndarray], names: Sequence[str]) -> np.ndarray:
    return np.stack([columns[name] for name in names], axis=1)


def _rectangles(domain: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rectangles of 1 to 10 % of the area, the same for every report."""
    rng = np.random.default_rng(0)
    low, span = np.array(domain.low), np.array(domain.high) - np.array(domain.low)
    found = []
    for _ in range(_RECTANGLES):
        side = np.sqrt(rng.uniform(0.01, 0.1))
        corner = rng.uniform(0, 1 - side, len(span))
        found.append((low + corner * span, low + (corner + side) * span))
    return found


def _maps(layers: list[dict[str, Any]], domain: Any, partitions: list[dict[str, Any]], labels: list[str]) -> str:
    data = json.dumps({"layers": layers, "partitions": partitions, "labels": labels}).replace("</", "<\\/")
    last = len(labels)
    controls = (
        '<p class="controls"><button id="play" type="button">Play</button> '
        f'<input id="step" type="range" min="1" max="{last}" value="{last}" aria-label="step"> '
        '<output id="step-label" for="step"></output> '
        '<label><input id="partition" type="checkbox" checked> partition</label></p>'
    )
    script = files("tailrace.report").joinpath("map.js").read_text(encoding="utf-8")
    return (
        f"{controls}\n{canvases(layers, domain, width=WIDTH // len(layers), of='points')}\n"
        f'<script id="map-data" type="application/json">{data}</script>\n<script>{script}</script>'
    )


def _labels(stream: Stream) -> list[str]:
    steps = range(1, stream.step + 1)
    return [f"step {step}" + (f", {stream.calendar.label(step)}" if stream.calendar else "") for step in steps]


def _caption(private: bool) -> str:
    what = f"Mean absolute error over {_RECTANGLES} rectangles of 1 to 10 % of the area, as the releases state it"
    return (
        f"{what}, and as measured on the true points." if private else f"{what}: no true count was looked at for this."
    )


def charged(entry: Entry) -> tuple[str, str, str, str]:
    """A row of the ledger's table."""
    return entry.population, entry.path.rsplit("/", 1)[-1], entry.guarantee.short, str(entry.mark.step)
