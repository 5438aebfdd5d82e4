"""Commands in this process: what they find, and what they leave out."""

import base64
import json
import re

import numpy as np
import pytest

from processes import call

STREAM = '[stream]\npath = "ward.tail"\npopulation = "ward"\n'
POINTS = """
[mechanism]
kind = "SpatialStream"
horizon = 3
privacy = { kind = "PureDP", epsilon = 100 }
unit = { kind = "Event" }
deletes = false
"""
SOURCE = '[source]\nkind = "Folder"\npath = "incoming"\nfiles = "*.csv"\n'
SPACES = {
    "box": '[box]\ncolumns = ["lon", "lat"]\nlow = [0, 0]\nhigh = [4, 4]\ncells = 4\n',
    "region": '[region]\npath = "land.geojson"\ncells = 4\n',
    "roads": '[roads]\npath = "land.geojson"\ncells = 4\n',
}
SHAPES = {
    "region": {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 4], [0, 0]]]},
    "roads": {"type": "LineString", "coordinates": [[0, 0], [4, 0], [4, 4]]},
}
# x and y: inside all three; inside the box only; outside all of them
INSIDE, BETWEEN, OUTSIDE = (0.5, 0.5), (2.5, 2.5), (9.0, 9.0)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "incoming").mkdir()
    return tmp_path


@pytest.mark.parametrize(("kind", "outside"), [("box", 2), ("region", 3), ("roads", 3)])
def test_points_outside_the_domain_are_no_true_points(here, kind, outside):
    pytest.importorskip("shapely", reason="shapely is not installed")
    if kind in SHAPES:
        feature = {"type": "Feature", "properties": {}, "geometry": SHAPES[kind]}
        (here / "land.geojson").write_text(
            json.dumps({"type": "FeatureCollection", "features": [feature]})
        )
    (here / "stream.toml").write_text(STREAM + POINTS + SPACES[kind] + SOURCE)
    rows = [INSIDE] * 4 + [BETWEEN] + [OUTSIDE] * 2
    (here / "incoming" / "a.csv").write_text(
        "lon,lat\n" + "".join(f"{x},{y}\n" for x, y in rows) + ",1\n"
    )
    found = json.loads(call("check", "stream.toml", "incoming/a.csv", "--json").output)["files"][
        "incoming/a.csv"
    ]
    assert (found["rows"], found["outside"], found["counted"]) == (8, outside, 7 - outside)
    assert re.search(
        rf"outside the domain +{outside} \(", call("check", "stream.toml", "incoming/a.csv").output
    )
    call("run", "stream.toml")
    call("report", "stream.toml", "--private")
    page = (here / "ward.tail" / "private" / "PRIVATE-report.html").read_text()
    held = re.search(r'<script id="points-true"[^>]*>(.*?)</script>', page)[1]
    # Right, up, and gone: three numbers a point.
    assert len(np.frombuffer(base64.b64decode(held), "<u2")) == 3 * (7 - outside)


def test_a_ledger_is_found_by_its_stream(here):
    (here / "books").mkdir()
    text = STREAM + 'ledger = "books/all.ledger"\n' + POINTS + SPACES["box"] + SOURCE
    (here / "stream.toml").write_text(text)
    assert "has no ledger at all.ledger" in call("ledger", "show", "stream.toml", code=5).output
    (here / "incoming" / "a.csv").write_text("lon,lat\n1,1\n")
    call("run", "stream.toml")
    shown = json.loads(call("ledger", "show", "stream.toml", "--json").output)
    assert [one["stream"] for one in shown["streams"]] == ["ward.tail"]
    assert shown == json.loads(
        call("ledger", "show", "--ledger", "books/all.ledger", "--json").output
    )
    (here / "books" / "all.ledger").rename(here / "tailrace.ledger")
    assert shown == json.loads(call("ledger", "show", "ward.tail", "--json").output)


def test_none_is_an_answer_to_the_column_of_times(here):
    flags = {
        "kind": "histogram",
        "population": "ward",
        "path": "ward.tail",
        "unit": "event",
        "epsilon": "1",
        "horizon": "5",
        "folder": "in",
    }
    given = [part for name, value in flags.items() for part in (f"--{name}", value)]
    (here / "like.csv").write_text("sex,day\nf,1\n")
    call("init", "--like", "like.csv", "--time", "none", "--column", "sex=category f m", *given)
    assert (
        "\n# time =" in (here / "stream.toml").read_text()
        and "\n# [calendar]" in (here / "stream.toml").read_text()
    )
    said = call(
        "init",
        "--to",
        "b.toml",
        "--time",
        "none",
        "--start",
        "2026-01-01",
        *given,
        "--column",
        "a=boolean",
        code=3,
    )
    assert "--start needs to know when a row happened" in said.output
