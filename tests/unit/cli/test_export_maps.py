"""Points for maps: GeoJSON, and GeoParquet that other tools read."""

import json

import polars as pl
import pytest

import tailrace as tr
from processes import call
from tailrace.sinks.places import coordinates, geojson, geoparquet
from tailrace.stream.verify import public_table

CITY = tr.Box(low=(13, 52), high=(14, 53), columns=("lon", "lat"), cells=64)
ROWS = pl.DataFrame({"lon": [13.25, 13.5], "lat": [52.5, 52.75], "trip": [1, None]})


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("city")
    parts = {"privacy": tr.PureDP(epsilon=50), "unit": tr.Event(), "horizon": 2}
    points = pl.DataFrame({"lon": [13.2] * 300, "lat": [52.3] * 300})
    with tr.Stream.create(
        folder / "c.tail", tr.SpatialStream(domain=CITY, **parts), population="c"
    ) as stream:
        stream.push(points)
        stream.push(points)
    return folder


def test_an_export_for_maps_holds_the_points_of_the_table(city, monkeypatch):
    monkeypatch.chdir(city)
    call("export", "c.tail", "--to", "c.geojson")
    call("export", "c.tail", "--to", "c.geoparquet")
    table = public_table(city / "c.tail" / "releases", 2)
    found = json.loads((city / "c.geojson").read_text())
    points = [tuple(one["geometry"]["coordinates"]) for one in found["features"]]
    assert points == table.rows() and len(points) > 100
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    read = pl.read_parquet(city / "c.geoparquet")
    made = shapely.from_wkb(read["geometry"].to_list())
    assert [(one.x, one.y) for one in made] == table.rows()
    about = json.loads(pl.read_parquet_metadata(city / "c.geoparquet")["geo"])
    assert about["version"] == "1.1.0" and about["primary_column"] == "geometry"
    assert about["columns"]["geometry"]["geometry_types"] == ["Point"]


def test_measurements_are_exported_as_one_table(city, monkeypatch):
    monkeypatch.chdir(city)
    call("export", "c.tail", "--to", "m.csv", "--measurements")
    found = pl.read_csv(city / "m.csv")
    assert found.columns == ["what", "cells", "value", "error"]
    assert found["what"].unique().to_list() == ["lon; lat"] and found["value"].sum() > 300
    call("export", "c.tail", "--to", "m.parquet", "--measurements")
    assert len(pl.read_parquet(city / "m.parquet")) == len(found)
    assert (
        "are no points"
        in call("export", "c.tail", "--to", "m.geojson", "--measurements", code=3).output
    )


def test_other_columns_are_properties_and_latitude_may_come_first():
    turned = tr.Box(low=(52, 13), high=(53, 14), columns=("lat", "lon"), cells=64)
    assert coordinates(turned) == coordinates(CITY) == ("lon", "lat")
    found = json.loads(geojson(ROWS, turned))["features"]
    assert found[0]["geometry"]["coordinates"] == [13.25, 52.5]
    assert [one["properties"] for one in found] == [{"trip": 1}, {"trip": None}]
    assert json.loads(geojson(ROWS[:0], CITY))["features"] == []


def test_metres_are_no_degrees(tmp_path):
    metres = tr.Box(low=(0, 0), high=(5000, 5000), columns=("x", "y"), cells=64)
    rows = pl.DataFrame({"x": [10.0], "y": [4000.0]})
    with pytest.raises(tr.ConfigError, match="GeoJSON holds degrees"):
        geojson(rows, metres)
    (tmp_path / "a.parquet").write_bytes(geoparquet(rows, metres))
    about = json.loads(pl.read_parquet_metadata(tmp_path / "a.parquet")["geo"])
    assert about["columns"]["geometry"]["crs"] is None
    for wrong in (tr.Schema(a=tr.Integer(0, 1)), tr.Box(low=[0], high=[1], columns=["x"], cells=4)):
        with pytest.raises(tr.ConfigError, match="Only points in two dimensions"):
            coordinates(wrong)
