"""The canvases of a report: maps in the shape that the ground has."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

WIDTH = 860  # of a page
_SHAPES = (0.4, 1.6)  # height to width: within what a page can show


def canvases(layers: Sequence[dict[str, Any]], domain: Any, *, width: int, of: str) -> str:
    """A canvas for each layer, and below it how many `of` them it shows."""
    height = round(width * shape(domain))
    maps = "".join(
        f'<figure class="map"><canvas id="map-{one["name"]}" width="{width}" height="{height}"></canvas>'
        f'<figcaption>{one["title"]}: <span id="count-{one["name"]}"></span> {of}</figcaption></figure>'
        for one in layers
    )
    return f'<div class="maps">{maps}</div>'


def shape(domain: Any) -> float:
    """Height to width as on the ground: a degree of longitude is shorter than one of latitude.

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
    """Whether a column is one of longitudes or latitudes, by its name."""
    words = re.split(r"[^a-z]+", column.lower())
    for kind, starts in (("lon", ("lon", "lng")), ("lat", ("lat",))):
        if any(word.startswith(starts) for word in words):
            return kind
    return ""
