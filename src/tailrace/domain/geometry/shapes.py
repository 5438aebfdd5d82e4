"""Polygons and lines of shapely, kept as bytes.

They are checked once. Bytes compare, hash and are stored exactly.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from tailrace.errors import ConfigError

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry as Geometry


def library() -> ModuleType:
    """Import shapely, which only domains with a geometry need."""
    try:
        import shapely
    except ImportError:
        raise ConfigError("Region and Roads need shapely: pip install 'tailrace[geo]'.") from None
    return shapely


def polygons(given: Geometry) -> Geometry:
    """Check polygons: valid, of some area, in two dimensions."""
    flat = _flat(given, "Region", "Polygon")
    if not library().is_valid(flat):
        raise ConfigError(
            "polygons of a Region must be valid, without crossing borders; see shapely.make_valid."
        )
    if not flat.area > 0:
        raise ConfigError("polygons of a Region must have an area.")
    return flat


def lines(given: Geometry) -> Geometry:
    """Check lines: of some length, in two dimensions."""
    flat = _flat(given, "Roads", "LineString")
    if not flat.length > 0:
        raise ConfigError("lines of Roads must have a length.")
    return flat


def to_bytes(shape: Geometry) -> bytes:
    """The shape as well-known binary, the same on every machine."""
    return library().to_wkb(shape, output_dimension=2, byte_order=1, include_srid=False)


def from_bytes(wkb: bytes) -> Geometry:
    """The shape of well-known binary, prepared for many point queries."""
    shapely = library()
    shape = shapely.from_wkb(wkb)
    shapely.prepare(shape)
    return shape


def from_text(plain: str) -> Geometry:
    """The shape that `to_bytes(shape).hex()` wrote."""
    shapely = library()
    try:
        return shapely.from_wkb(bytes.fromhex(plain))
    except (TypeError, ValueError, shapely.errors.ShapelyError):
        raise ConfigError(
            "A stored geometry must be well-known binary in hexadecimal digits."
        ) from None


def segments(shape: Geometry) -> np.ndarray:
    """Every straight stretch of rings or lines.

    Each is x, y, x, y. Of polygons all borders, with the inside always on the same hand.
    """
    shapely = library()
    # To normalize orients rings.
    parts = shapely.get_parts(shapely.normalize(shape))
    if shapely.get_dimensions(shape) == 2:
        parts = shapely.get_rings(parts)
    points, owner = shapely.get_coordinates(parts, return_index=True)
    return np.hstack([points[:-1], points[1:]])[owner[:-1] == owner[1:]]


def within(shape: Geometry, outline: tuple[float, float, float, float]) -> Geometry:
    """The part inside a rectangle, of the same dimension."""
    shapely = library()
    rectangle = shapely.box(*outline)
    if shapely.covers(rectangle, shape):
        return shape
    parts = shapely.get_parts(shapely.intersection(shape, rectangle))
    kept = parts[shapely.get_dimensions(parts) == shapely.get_dimensions(shape)]
    return shapely.GeometryCollection(list(kept)) if len(kept) != 1 else kept[0]


def _flat(given: Geometry, name: str, kind: str) -> Geometry:
    shapely = library()
    if not isinstance(given, (getattr(shapely, kind), getattr(shapely, f"Multi{kind}"))):
        raise ConfigError(
            f"{name} takes a shapely {kind} or Multi{kind}; read one from a file with "
            f"{name}.read(path)."
        )
    flat = shapely.force_2d(given)
    if flat.is_empty or not np.isfinite(shapely.get_coordinates(flat)).all():
        raise ConfigError(f"{name} must have points, and all of them finite coordinates.")
    # -0.0 becomes 0.0, as everywhere in domains.
    return shapely.transform(flat, lambda points: points + 0.0)
