"""Maps of a page, in the shape of the ground."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Protocol

import numpy as np

from tailrace.domain import Codes

WIDTH = 860  # of a page
FULL = 65535  # the side of a map in its own units
_SHAPES = (0.4, 1.6)  # height to width: within what a page can show


class Ground(Protocol):
    """A domain with corners: a box, a region or roads."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def low(self) -> Sequence[float]: ...
    @property
    def high(self) -> Sequence[float]: ...


def maps(
    name: str, data: dict[str, Any], controls: str, domain: Ground, *, width: int, of: str
) -> str:
    """Write a canvas for each layer, and their script.

    Parameters:
        name: of the script, and of the element that holds its data.
        data: as the script reads it; a layer in `data["layers"]` has a name, a title and a colour.
        controls: HTML that stands above.
        domain: two dimensions, with corners `low` and `high`.
        width: of a canvas, in pixels.
        of: plural of the things whose number stands below each map.
    """
    height = round(width * shape(domain))
    canvases = "".join(
        f'<figure class="map"><canvas id="map-{one["name"]}" width="{width}" height="{height}">'
        f'</canvas><figcaption>{one["title"]}: <span id="count-{one["name"]}"></span> {of}'
        "</figcaption></figure>"
        for one in data["layers"]
    )
    script = files("tailrace.report").joinpath(f"{name}.js").read_text(encoding="utf-8")
    plain = json.dumps(data).replace("</", "<\\/")
    return (
        f'<p class="controls">{controls}</p>\n<div class="maps">{canvases}</div>\n'
        f'<script id="{name}-data" type="application/json">{plain}</script>\n'
        f"<script>{script}</script>"
    )


def is_flat(domain: Codes) -> bool:
    """Whether a domain can be drawn as a map."""
    return hasattr(domain, "low") and len(domain.columns) == 2


def on_map(points: np.ndarray, low: Sequence[float], high: Sequence[float]) -> np.ndarray:
    """Scale coordinates to whole numbers from 0 to FULL."""
    span = np.asarray(high, float) - np.asarray(low, float)
    return np.clip(np.rint((points - np.asarray(low)) / span * FULL), 0, FULL).astype(np.int64)


def packed(numbers: np.ndarray) -> str:
    """Write 16-bit numbers as text."""
    return base64.b64encode(np.minimum(numbers, FULL).astype("<u2").tobytes()).decode()


def shape(domain: Ground) -> float:
    """Return height to width on the ground.

    A degree of longitude is shorter than one of latitude, by the cosine of the latitude.

    >>> from tailrace import Box
    >>> shape(Box(low=(10, 59.5), high=(12, 60.5), columns=("lon", "lat")))
    1.0
    """
    spans = np.subtract(domain.high, domain.low)
    kinds = [_degrees(name) for name in domain.columns]
    if sorted(kinds) == ["lat", "lon"]:
        latitude = kinds.index("lat")
        middle = (domain.low[latitude] + domain.high[latitude]) / 2
        spans[1 - latitude] *= math.cos(math.radians(min(abs(middle), 89.0)))
    return round(float(np.clip(spans[1] / spans[0], *_SHAPES)), 6)


def _degrees(column: str) -> str:
    """Tell longitudes and latitudes by a column's name."""
    words = re.split(r"[^a-z]+", column.lower())
    for kind, starts in (("lon", ("lon", "lng")), ("lat", ("lat",))):
        if any(word.startswith(starts) for word in words):
            return kind
    return ""
