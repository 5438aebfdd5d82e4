"""Maps of a page: true to the ground, with zoom and keys."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any, Protocol, TypedDict

import numpy as np

from tailrace.domain import Codes
from tailrace.domain.geometry import Region, Roads, shapes
from tailrace.report import page

FULL = 65535  # the side of a map in its own units
_SHAPES = (0.4, 1.6)  # height to width of a canvas; the map inside keeps its own
_FINEST = 1_500  # roads and borders are drawn to this part of a map's width
_AREAS = 4  # rows and columns of the table beside a map
_DEGREE = 111_320.0  # metres of a degree of latitude
_HELP = (
    "Drag the map, or choose it with Tab and use the arrow keys, + and -, and 0 for everything. "
    "The wheel zooms a map that is chosen."
)


class Ground(Protocol):
    """A domain with corners: a box, a region or roads."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def low(self) -> Sequence[float]: ...
    @property
    def high(self) -> Sequence[float]: ...


class Lines(TypedDict):
    """Lines of a map: packed coordinates, points of each, and whose it is."""

    x: str
    y: str
    sizes: list[int]
    owners: list[int]


@dataclass(frozen=True)
class Sheet:
    """The paper of a map: which column goes where, and how far.

    axes: of the domain, first the one that goes to the right.
    shape: height to width on the ground.
    metres: of the width, where the columns are degrees.

    >>> from tailrace import Box
    >>> sheet = Sheet.of(Box(low=(59.5, 10), high=(60.5, 12), columns=("lat", "lon")))
    >>> sheet.columns, sheet.shape, round(sheet.metres)
    (('lon', 'lat'), 1.0, 111320)
    """

    columns: tuple[str, str]
    axes: tuple[int, int]
    low: tuple[float, float]
    high: tuple[float, float]
    shape: float
    metres: float | None

    @classmethod
    def of(cls, domain: Ground) -> Sheet:
        """Degrees of longitude go to the right, and are shorter away from the equator."""
        kinds = [_degrees(name) for name in domain.columns]
        axes = (1, 0) if kinds == ["lat", "lon"] else (0, 1)
        low, high = (
            (float(one[axes[0]]), float(one[axes[1]])) for one in (domain.low, domain.high)
        )
        columns = (domain.columns[axes[0]], domain.columns[axes[1]])
        wide, tall = np.subtract(high, low)
        metres = None
        if sorted(kinds) == ["lat", "lon"]:
            wide *= math.cos(math.radians(min(abs((low[1] + high[1]) / 2), 89.0)))
            metres = wide * _DEGREE
        return cls(columns, axes, low, high, round(float(tall / wide), 6), metres)

    def placed(self, points: np.ndarray) -> np.ndarray:
        """Scale points (of the domain's columns) to whole numbers from 0 to FULL."""
        return self.scaled(points[:, self.axes])

    def scaled(self, points: np.ndarray) -> np.ndarray:
        """The same of points that lie as on the sheet."""
        parts = (points - np.asarray(self.low)) / np.subtract(self.high, self.low)
        return np.clip(np.rint(parts * FULL), 0, FULL).astype(np.int64)

    def by_area(self, found: Callable[[np.ndarray, np.ndarray], tuple[float, str]]) -> str:
        """Write a table of sixteen areas, laid out as the map.

        `found` gives a number and its words for two corners, of the domain's columns.
        """
        lows, highs = (np.asarray(part, float) for part in (self.low, self.high))
        width, order = (highs - lows) / _AREAS, np.argsort(self.axes)
        names = [
            [_range(low + by * i, low + by * (i + 1), by) for i in range(_AREAS)]
            for low, by in zip(lows, width, strict=True)
        ]
        rows = []
        for y in reversed(range(_AREAS)):
            corners = [lows + width * (x, y) for x in range(_AREAS)]
            cells = [found(low[order], (low + width)[order]) for low in corners]
            rows.append((names[1][y], cells))
        x, y = self.columns
        return page.shaded((f"{y} \\ {x}", *names[0]), rows)


def maps(
    name: str,
    layers: Sequence[Mapping[str, Any]],
    data: Mapping[str, Any],
    controls: str,
    domain: Ground,
    *,
    of: str,
    legend: str = "",
    points: Mapping[str, str] | None = None,
) -> str:
    """Write a canvas for each layer, and their script.

    Parameters:
        name: of the script that paints.
        layers: each has a name, a title and a colour, and what the script reads.
        data: what the script reads beside them.
        controls: HTML that stands above.
        domain: two dimensions, with corners `low` and `high`.
        of: plural of the things whose number stands below each map.
        legend: HTML below each map, with the layer's values in braces.
        points: by layer, packed numbers too many for JSON.
    """
    sheet = Sheet.of(domain)
    shape = min(max(sheet.shape, _SHAPES[0]), _SHAPES[1])
    canvases = "".join(
        f'<figure class="map"><canvas id="map-{one["name"]}" tabindex="0" role="img" '
        f'aria-label="Map" style="aspect-ratio: {1 / shape:.4f}"></canvas>'
        f'<figcaption><span>{one["title"]}: <span id="count-{one["name"]}"></span> {of}</span>'
        f'<span id="legend-{one["name"]}" class="legend">{legend.format(**one)}</span>'
        "</figcaption></figure>"
        for one in layers
    )
    ground, filled = _ground(domain, sheet)
    if ground["sizes"]:
        kind = "roads" if isinstance(domain, Roads) else "borders"
        controls += f' <label><input id="ground" type="checkbox" checked> {kind}</label>'
    whole = {
        **data,
        "layers": layers,
        "ground": ground,
        "filled": filled,
        **{key: getattr(sheet, key) for key in ("columns", "low", "high", "shape", "metres")},
    }
    plain = json.dumps(whole).replace("</", "<\\/")
    held = "".join(
        f'<script id="points-{layer}" type="text/plain">{text}</script>\n'
        for layer, text in (points or {}).items()
    )
    own = files("tailrace.report")
    script = "".join(own.joinpath(f"{one}.js").read_text("utf-8") for one in ("view", name))
    zoom = (
        '<span class="zoom"><button id="closer" type="button" aria-label="zoom in">+</button> '
        '<button id="farther" type="button" aria-label="zoom out">&minus;</button> '
        '<button id="all" type="button">All</button></span>'
    )
    return (
        f'<div class="controls">{controls} {zoom}</div>\n<div class="maps">{canvases}</div>\n'
        f'<p class="where"><output id="where"></output><br>{escape(_HELP)}</p>\n'
        f'<script id="map-data" type="application/json">{plain}</script>\n{held}'
        f'<script>"use strict";\n(() => {{\n{script}}})();</script>'
    )


def is_flat(domain: Codes) -> bool:
    """Whether a domain can be drawn as a map."""
    return hasattr(domain, "low") and len(domain.columns) == 2


def packed(*numbers: np.ndarray) -> str:
    """Write 16-bit numbers as text, one array after the other."""
    parts = (np.minimum(one, FULL).astype("<u2").tobytes() for one in numbers)
    return base64.b64encode(b"".join(parts)).decode()


def lines(placed: np.ndarray, begins: np.ndarray, owner: np.ndarray) -> Lines:
    """Write points as lines; another begins where `begins` says so."""
    starts, (x, y) = np.flatnonzero(begins), placed.T
    sizes, owners = np.diff(starts, append=len(placed)).tolist(), owner[starts].tolist()
    return {"x": packed(x), "y": packed(y), "sizes": sizes, "owners": owners}


def begin(numbers: np.ndarray) -> np.ndarray:
    """Where another number begins."""
    return np.diff(numbers, prepend=-1) != 0


def _ground(domain: Ground, sheet: Sheet) -> tuple[Lines, bool]:
    """Write roads or borders as lines of a map; borders are filled."""
    filled = isinstance(domain, Region)
    if not isinstance(domain, Roads | Region):
        nothing = np.zeros(0, np.int64)
        return lines(np.zeros((0, 2), np.int64), nothing > 0, nothing), filled
    shapely = shapes.library()
    (left, bottom), (right, top) = domain.low, domain.high
    shape = domain.polygons if isinstance(domain, Region) else domain.lines
    shape = shapes.within(shape, (left, bottom, right, top))
    finest = max(np.subtract(domain.high, domain.low)) / _FINEST
    shape = shapely.simplify(shape, finest, preserve_topology=filled)
    parts = shapely.get_parts(shape)
    parts = shapely.get_rings(parts) if filled else parts
    points, owner = shapely.get_coordinates(parts, return_index=True)
    return lines(sheet.placed(points), begin(owner), owner), filled


def _range(low: float, high: float, width: float) -> str:
    places = max(0, 1 - math.floor(math.log10(width)))
    return f"{low:.{places}f} to {high:.{places}f}"


def _degrees(column: str) -> str:
    """Tell longitudes and latitudes by a column's name."""
    words = re.split(r"[^a-z]+", column.lower())
    for kind, starts in (("lon", ("lon", "lng")), ("lat", ("lat",))):
        if any(word.startswith(starts) for word in words):
            return kind
    return ""
