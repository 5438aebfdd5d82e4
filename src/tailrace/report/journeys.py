"""The page of trajectories: lines over roads or borders.

Without the true journeys it shows releases only. With them it is the curator's: it shows them
beside, measures how far the two are from each other, and says PRIVATE wherever it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import polars as pl

from tailrace.domain import Codes
from tailrace.domain.geometry import Region, Roads, shapes
from tailrace.errors import ConfigError
from tailrace.mechanisms.trajectories.view import TrajectoriesView
from tailrace.metrics import Tracks, small_rectangles, trajectory_error
from tailrace.papers.privtree_trajectories.mechanism import PrivTreeTrajectoriesView
from tailrace.report.maps import WIDTH, Ground, is_flat, maps, on_map, packed
from tailrace.report.page import Page, note, page_of, table
from tailrace.stream.stream import Stream

JOURNEYS = 1_000  # drawn on a map at most
POINTS = 150_000  # of all of them together at most: a page of about a megabyte
_FINEST = 1_500  # roads and borders are drawn to this part of a map's width
_MEASURES = {
    "ends_jsd": "Pairs of first and last cell, of 1,600 (SE_JSD)",
    "ends_are": "the same as a relative error (SE_ARE)",
    "patterns_jsd": "The 200 patterns of 2 to 5 cells that occur most (FP_JSD)",
    "patterns_are": "the same as a relative error (FP_ARE)",
    "moves_jsd": "Patterns with repeated cells taken once (moves, JSD)",
    "moves_are": "the same as a relative error (moves, ARE)",
    "queries": "Journeys through 500 small rectangles, relative error (QE)",
    "trip": "Pairs of first and last cell, of 36 (trip error)",
    "diameter": "How far apart the points of a journey are (diameter error)",
    "length": "How long journeys are (length error)",
    "places": "Which of 36 cells most journeys visit (Kendall's tau)",
}
_SCALES = (
    "0 is best, but for the tau, where 1 is. The last column compares two halves of the true "
    "journeys with each other."
)


@page_of.register(TrajectoriesView)
@page_of.register(PrivTreeTrajectoriesView)
def _(_view: object, stream: Stream, truth: Tracks | None = None) -> Page:
    synthetic = tracks_in(stream.release(stream.step).table, stream.mechanism)
    return journeys_page(stream.mechanism.domain, synthetic, truth)


def journeys_page(domain: Codes, synthetic: Tracks, truth: Tracks | None = None) -> Page:
    """Show journeys in two dimensions; with `truth` the curator's page."""
    if not is_flat(domain):
        raise ConfigError("The report of journeys is a map: it needs points in two dimensions.")
    ground = cast("Ground", domain)
    layers = [_layer("synthetic", "synthetic", 0, synthetic, ground)]
    if truth is None:
        return Page(title="Synthetic journeys", sections=[("On the map", _maps(layers, ground))])
    layers.append(_layer("true", "true: PRIVATE", 1, truth, ground))
    errors = ("How far they are from the true ones", _errors(truth, synthetic, ground))
    sections = [("On the map", _maps(layers, ground)), errors]
    return Page(title="synthetic journeys beside the true ones", sections=sections, private=True)


def tracks_in(frame: pl.DataFrame, mechanism: Any) -> Tracks:
    """Read journeys from a Polars frame, without incomplete rows."""
    names = [mechanism.trajectory, mechanism.order, *mechanism.domain.columns]
    trajectory, order, x, y = (one.to_numpy() for one in frame[names].drop_nulls().get_columns())
    _, codes = np.unique(trajectory, return_inverse=True)
    return Tracks.of_rows(codes, order, x, y)


def some(tracks: Tracks) -> Tracks:
    """Choose journeys to draw, always the same ones."""
    order = np.random.default_rng(0).permutation(len(tracks))[:JOURNEYS]
    total = np.cumsum(np.diff(tracks.offsets)[order])
    return tracks.pick(order[: max(1, int((total <= POINTS).sum()))])


def drawn(tracks: Tracks, low: Sequence[float], high: Sequence[float]) -> dict[str, Any]:
    """Write journeys as lines of a map.

    `owners` says whose each line is. A journey that leaves the map goes on as another line.

    >>> drawn(Tracks([0, 4], [0.0, 0.5, 7.0, 1.0], [0.0, 0.5, 7.0, 1.0]), (0, 0), (1, 1))["sizes"]
    [2, 1]
    """
    points = np.stack([tracks.x, tracks.y], axis=1)
    inside = ((points >= low) & (points <= high)).all(axis=1)
    owner = np.repeat(np.arange(len(tracks)), np.diff(tracks.offsets))
    # Another number after every point outside, and for every owner.
    line = owner + np.cumsum(~inside)
    placed, owner, line = on_map(points[inside], low, high), owner[inside], line[inside]
    begins = _begins(line)
    same = np.zeros(len(line), bool)
    same[1:] = (placed[1:] == placed[:-1]).all(axis=1) & ~begins[1:]
    return _lines(placed[~same], begins[~same], owner[~same])


def _layer(name: str, title: str, colour: int, tracks: Tracks, domain: Ground) -> dict[str, Any]:
    chosen = some(tracks)
    lines = drawn(chosen, domain.low, domain.high)
    return {"name": name, "title": title, "colour": colour, "drawn": len(chosen), "lines": lines}


def _ground(domain: Ground) -> dict[str, Any]:
    """Write roads or borders as lines of a map."""
    if isinstance(domain, Roads):
        shape = domain.lines
    elif isinstance(domain, Region):
        shape = shapes.library().boundary(domain.polygons)
    else:
        return _lines(np.zeros((0, 2), np.int64), np.zeros(0, bool), np.zeros(0, np.int64))
    shapely = shapes.library()
    (left, bottom), (right, top) = domain.low, domain.high
    shape = shapes.within(shape, (left, bottom, right, top))
    finest = max(np.subtract(domain.high, domain.low)) / _FINEST
    shape = shapely.simplify(shape, finest, preserve_topology=False)
    points, owner = shapely.get_coordinates(shapely.get_parts(shape), return_index=True)
    return _lines(on_map(points, domain.low, domain.high), _begins(owner), owner)


def _begins(numbers: np.ndarray) -> np.ndarray:
    """Where another number begins."""
    return np.diff(numbers, prepend=-1) != 0


def _lines(placed: np.ndarray, begins: np.ndarray, owner: np.ndarray) -> dict[str, Any]:
    starts, (x, y) = np.flatnonzero(begins), placed.T
    sizes, owners = np.diff(starts, append=len(placed)).tolist(), owner[starts].tolist()
    return {"x": packed(x), "y": packed(y), "sizes": sizes, "owners": owners}


def _maps(layers: list[dict[str, Any]], domain: Ground) -> str:
    # Twice the pixels that are shown, for sharp lines.
    width = WIDTH if len(layers) > 1 else 2 * WIDTH
    most = max(1, *(one["drawn"] for one in layers))
    below = "roads" if isinstance(domain, Roads) else "borders"
    hidden = "" if isinstance(domain, Roads | Region) else " hidden"
    controls = (
        f'<input id="many" type="range" min="1" max="{most}" value="{most}" aria-label="journeys"> '
        '<output id="many-label" for="many"></output> '
        f'<label{hidden}><input id="ground" type="checkbox" checked> {below}</label> '
        '<label><input id="ends" type="checkbox"> ends (from the rings to the squares)</label>'
    )
    told = note(f"At most {JOURNEYS:,} are drawn, chosen at random; common ways are stronger.")
    data = {"layers": layers, "ground": _ground(domain)}
    return f"{told}\n{maps('journeys', data, controls, domain, width=width, of='journeys')}"


def _errors(truth: Tracks, synthetic: Tracks, domain: Ground) -> str:
    """Tabulate the measures, beside those of two true halves."""
    rng = np.random.default_rng(0)
    rectangles = small_rectangles(rng, low=domain.low, high=domain.high)
    order, half = rng.permutation(len(truth)), len(truth) // 2

    area = {"low": domain.low, "high": domain.high, "rectangles": rectangles}
    found = trajectory_error(truth, synthetic, **area)
    first, second = truth.pick(order[:half]), truth.pick(order[half : 2 * half])
    halves = trajectory_error(first, second, **area)
    rows = [
        (words, f"{getattr(found, name):.3f}", f"{getattr(halves, name):.3f}")
        for name, words in _MEASURES.items()
    ]
    return f"{note(_SCALES)}\n" + table(("measure", "synthetic", "halves of the true ones"), rows)
