"""Read a geometry from GeoJSON, GeoParquet, or tables of edges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.domain.geometry import shapes
from tailrace.errors import ConfigError, StateError

if TYPE_CHECKING:
    import polars as pl
    from shapely.geometry.base import BaseGeometry as Geometry


def polygons(path: Path) -> Geometry:
    """Read all polygons of a file, merged where they meet."""
    shapely = shapes.library()
    found = _parts(path, "polygons", shapely.GeometryType.POLYGON)
    if not shapely.is_valid(found).all():
        why = "their borders cross; see shapely.make_valid"
        raise ConfigError(f"{path.name} holds polygons that are not valid: {why}.")
    return found[0] if len(found) == 1 else shapely.union_all(found)


def lines(path: Path) -> Geometry:
    """Read all lines of a file."""
    shapely = shapes.library()
    return shapely.MultiLineString(list(_parts(path, "lines", shapely.GeometryType.LINESTRING)))


def edges(path: Path, nodes: Path, columns: Sequence[str]) -> Geometry:
    """Read edges as straight lines between their nodes."""
    shapely = shapes.library()
    places, ends = _table(nodes), _table(path)
    if not set(columns) <= set(places.columns):
        columns = ("x", "y")
    if not set(columns) <= set(places.columns[1:]) or len(ends.columns) < 2:
        raise StateError(
            f"{nodes.name} must hold ids in its first column, and coordinates in the columns of "
            f"the domain or in x and y; {path.name} the ids of an edge's ends in its first two."
        )
    ids = {node: row for row, node in enumerate(places.to_series(0).to_list())}
    rows = [[ids.get(node, -1) for node in ends.to_series(end).to_list()] for end in range(2)]
    try:
        points = places[list(columns)].to_numpy().astype(float)
    except (TypeError, ValueError):
        raise StateError(f"The coordinates in {nodes.name} must be numbers.") from None
    start, end = np.array(rows, np.int64)
    if not len(start) or min(start.min(), end.min()) < 0 or len(ids) != len(places):
        wanted = f"must join two nodes of {nodes.name}, whose ids must be distinct"
        raise StateError(f"Every edge in {path.name} {wanted}.")
    apart = start != end
    lines = np.stack([points[start[apart]], points[end[apart]]], axis=1)
    return shapely.MultiLineString(list(lines))


def _parts(path: Path, kind: str, wanted: int) -> np.ndarray:
    """The simple shapes of one type in a file."""
    shapely = shapes.library()
    found = shapely.force_2d(shapely.get_parts(shapely.get_parts(np.array(_shapes(path), object))))
    found = found[(shapely.get_type_id(found) == wanted) & ~shapely.is_empty(found)]
    if not len(found):
        raise StateError(f"{path.name} holds no {kind}.")
    return found


def _shapes(path: Path) -> list[Geometry]:
    suffix, failed = path.suffix.lower(), shapes.library().errors.ShapelyError
    if suffix not in (".geojson", ".json", ".parquet", ".geoparquet"):
        raise ConfigError("A geometry is read from .geojson, .json, .parquet or .geoparquet files.")
    try:
        return _geoparquet(path) if suffix.endswith("parquet") else _geojson(path)
    except ConfigError:
        raise
    except OSError:
        why = "cannot be read: no such file, or not a readable one"
    except (KeyError, TypeError, ValueError, AttributeError, failed):
        why = "is damaged, or no GeoJSON or GeoParquet as its name says"
    raise StateError(f"{path.name} {why}.")


def _geojson(path: Path) -> list[Geometry]:
    from shapely.geometry import shape

    return [shape(geometry) for geometry in _geometries(json.loads(path.read_text("utf-8")))]


def _geometries(plain: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The geometries of a collection, feature or single geometry."""
    if plain["type"] == "FeatureCollection":
        for feature in plain["features"]:
            yield from _geometries(feature)
    elif plain["type"] == "Feature":
        if plain["geometry"] is not None:
            yield plain["geometry"]
    else:
        yield plain


def _geoparquet(path: Path) -> list[Geometry]:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ConfigError("GeoParquet files need pyarrow: pip install 'tailrace[geo]'.") from None
    described = json.loads((pq.read_schema(path).metadata or {}).get(b"geo", b"{}"))
    column = described.get("primary_column", "geometry")
    if described.get("columns", {}).get(column, {}).get("encoding", "WKB") != "WKB":
        raise ConfigError(f"{path.name} must hold its geometry as well-known binary (WKB).")
    found = pq.read_table(path, columns=[column]).column(column)
    storage = found.cast(found.type.storage_type) if hasattr(found.type, "storage_type") else found
    return [one for one in shapes.library().from_wkb(storage.to_pylist()) if one is not None]


def _table(path: Path) -> pl.DataFrame:
    import polars as pl

    readers = {".csv": pl.read_csv, ".parquet": pl.read_parquet}
    if path.suffix.lower() not in readers:
        raise ConfigError("Tables of nodes and edges are read from .csv or .parquet files.")
    try:
        return readers[path.suffix.lower()](path)
    except Exception:
        raise StateError(f"{path.name} cannot be read as a table.") from None
