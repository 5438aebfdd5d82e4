"""Tables of points as GeoJSON and GeoParquet, for maps."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

_NORTHWARDS = ("lat", "latitude", "y", "northing")


def coordinates(domain: Any) -> tuple[str, str]:
    """The columns of x and y: longitude first, in whatever order they are declared."""
    box = getattr(domain, "box", domain)
    columns: list[str] = list(box.columns)
    if not hasattr(box, "low") or len(columns) != 2:
        raise ConfigError("Only points in two dimensions make a map: export .csv or .parquet.")
    first, second = columns
    return (second, first) if first.lower() in _NORTHWARDS else (first, second)


def on_globe(domain: Any) -> bool:
    """Whether coordinates can be degrees of longitude and latitude."""
    box = getattr(domain, "box", domain)
    bounds = dict(zip(box.columns, zip(box.low, box.high, strict=True), strict=True))
    x, y = (bounds[name] for name in coordinates(domain))
    return x[0] >= -180 and x[1] <= 180 and y[0] >= -90 and y[1] <= 90


def geojson(frame: pl.DataFrame, domain: Any) -> bytes:
    """A collection of points, the other columns as their properties."""
    x, y = coordinates(domain)
    if not on_globe(domain):
        raise ConfigError(
            "GeoJSON holds degrees of longitude and latitude, and this area is larger: export "
            ".geoparquet, whose coordinates may be metres."
        )
    others = frame.drop(x, y).fill_nan(None)
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [lon, lat]},
            "properties": properties,
        }
        for lon, lat, properties in zip(
            frame[x].to_list(),
            frame[y].to_list(),
            others.to_dicts() if others.width else ({} for _ in range(len(frame))),
            strict=True,
        )
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()


def geoparquet(frame: pl.DataFrame, domain: Any) -> bytes:
    """The table with a column `geometry` of points (GeoParquet 1.1, WKB)."""
    import polars as pl

    x, y = coordinates(domain)
    name = "geometry"
    while name in frame.columns:
        name += "_"
    column: dict[str, Any] = {"encoding": "WKB", "geometry_types": ["Point"]}
    if len(frame):
        column["bbox"] = [frame[x].min(), frame[y].min(), frame[x].max(), frame[y].max()]
    if not on_globe(domain):
        # Without this key coordinates are degrees (OGC:CRS84).
        column["crs"] = None
    about = {"version": "1.1.0", "primary_column": name, "columns": {name: column}}
    made = frame.with_columns(pl.Series(name, _points(frame[x], frame[y]), pl.Binary))
    buffer = io.BytesIO()
    made.write_parquet(buffer, metadata={"geo": json.dumps(about)})
    return buffer.getvalue()


def _points(x: pl.Series, y: pl.Series) -> list[bytes]:
    """Points in well-known binary: little endian, kind 1, two doubles."""
    made = np.zeros(len(x), [("order", "u1"), ("kind", "<u4"), ("x", "<f8"), ("y", "<f8")])
    made["order"], made["kind"], made["x"], made["y"] = 1, 1, x.to_numpy(), y.to_numpy()
    data, size = made.tobytes(), made.dtype.itemsize
    return [data[at : at + size] for at in range(0, len(data), size)]
