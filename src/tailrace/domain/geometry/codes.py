"""Domains of points as mechanisms see them, and as stored."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tailrace import domain
from tailrace.domain import Box, Schema
from tailrace.domain.geometry import shapes
from tailrace.domain.geometry.region import Region
from tailrace.domain.geometry.roads import Roads
from tailrace.errors import ConfigError


def measure_of_cells(points: Box | Region | Roads) -> np.ndarray:
    """The volume, area or length in each cell: public.

    It is zero where a cell holds nothing of the domain.

    >>> measure_of_cells(Box(low=(0, 0), high=(1, 4), columns=("x", "y"), cells=2))
    array([[1., 1.],
           [1., 1.]])
    """
    if not isinstance(points, Box):
        return points.measure_of_cells()
    volume = math.prod(
        (high - low) / points.side for low, high in zip(points.low, points.high, strict=True)
    )
    # One number in memory, however many cells there are.
    return np.broadcast_to(volume, points.shape)


def from_dict(plain: dict[str, Any]) -> Schema | Box | Region | Roads:
    """Build the domain that `to_dict` wrote.

    >>> import shapely
    >>> triangle = Region(shapely.Polygon([(0, 0), (1, 0), (0, 1)]))
    >>> from_dict(triangle.to_dict()) == triangle
    True
    """
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if kind not in ("Region", "Roads"):
        return domain.from_dict(plain)
    values = {name: value for name, value in plain.items() if name != "kind"}
    try:
        if kind == "Region":
            return Region(shapes.from_text(values.pop("polygons")), **values)
        return Roads(shapes.from_text(values.pop("lines")), **values)
    except ConfigError as error:
        raise ConfigError(f"A stored {kind} cannot be used: {error}") from None
    except (TypeError, KeyError):
        raise ConfigError(f"A stored {kind} must be as to_dict() writes it.") from None
