"""Every kind of data: from flags to releases, without editing the file."""

import contextlib
import json
import re
import sqlite3

import numpy as np
import polars as pl
import pytest

from processes import call
from tailrace.config import load
from tailrace.stream.verify import last_step, public_table

COMMON = {
    "--population": "city",
    "--path": "a.tail",
    "--epsilon": "1",
    "--folder": "incoming",
    "--like": "incoming/a.csv",
}
TIMED = {"--time": "day", "--start": "2026-01-01", "--period": "1 day", "--timezone": "UTC"}
STEPS = {**TIMED, "--horizon": "3"}
PLACE = {"--place": "lon lat", "--area": "0 0 4 4"}
SEX = {"--column": "sex=category f m"}
KINDS = {
    "places": {**STEPS, **PLACE, "--unit": "user who 3"},
    "table": {
        **STEPS,
        "--id": "who",
        "--unit": "event",
        "--column": ["sex=category f m", "age=integer 0 9"],
    },
    "panel": {**STEPS, **SEX, "--unit": "user who", "--window": "2", "--delta": "1e-6"},
    "snapshots": {**STEPS, **SEX, "--unit": "user who 1"},
    "journeys": {**PLACE, "--trajectory": "who", "--order": "age", "--unit": "journey"},
    "trips": {
        **STEPS,
        **PLACE,
        "--trajectory": "who",
        "--order": "age",
        "--unit": "user who 2",
    },
    "histogram": {**STEPS, **SEX, "--unit": "event", "--format": ["%d.%m.%Y", "ISO"]},
}
MECHANISMS = {
    "places": "SpatialStream",
    "table": "TabularStream",
    "panel": "PanelWindow",
    "snapshots": "SnapshotHistogram",
    "journeys": "Trajectories",
    "trips": "JourneyStream",
    "histogram": "HistogramStream",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "incoming").mkdir()
    rng = np.random.default_rng(0)
    rows = 300
    pl.DataFrame(
        {
            "who": np.arange(rows) % 100,
            "day": [f"2026-01-0{1 + row // 100}" for row in range(rows)],
            "sex": rng.choice(["f", "m"], rows),
            "age": rng.integers(0, 10, rows),
            "lon": rng.uniform(0, 4, rows),
            "lat": rng.uniform(0, 4, rows),
        }
    ).write_csv(tmp_path / "incoming" / "a.csv")
    return tmp_path


def words(flags):
    several = {key: [one] if isinstance(one, str) else one for key, one in flags.items()}
    pairs = ((key, one) for key, ones in several.items() for one in ones)
    return [word for pair in pairs for word in pair]


@pytest.mark.parametrize("kind", KINDS)
def test_flags_of_every_kind_lead_to_releases(here, kind):
    call("init", "--kind", kind, *words({**COMMON, **KINDS[kind]}))
    config = load("stream.toml")
    assert type(config.mechanism).__name__ == MECHANISMS[kind]
    shown = call("check", "stream.toml", "incoming/a.csv").output
    assert re.search(r"counted +300 \(100\.0%\)", shown)
    # Journeys take a second to fit: their walk is in tests/e2e/test_command_journeys.py.
    if kind not in ("journeys", "trips"):
        call("run", "stream.toml")
        assert last_step(here / "a.tail" / "releases") == 3
        columns = set(public_table(here / "a.tail" / "releases", 3).columns)
        assert columns >= set(config.mechanism.domain.columns)


DESCRIBED = {**KINDS["places"], "--column": ["sex=category f m", "age=integer 0 9"]}


def test_places_with_attributes_lead_to_a_map_of_each(here):
    call("init", "--kind", "places", *words({**COMMON, **DESCRIBED}))
    # Two values and ten need five halvings: that leaves a ground of 2**19 cells.
    assert load("stream.toml").mechanism.domain.ground.side == 512
    shown = call("check", "stream.toml", "incoming/a.csv").output
    assert re.search(r"counted +300 \(100\.0%\)", shown) and "age" in shown
    call("run", "stream.toml")
    table = public_table(here / "a.tail" / "releases", 3)
    assert table.columns == ["lon", "lat", "sex", "age"]
    assert "+-" in call("query", "a.tail", "count where sex = f and lon between 0 and 2").output
    call("export", "a.tail", "--to", "a.geojson")
    feature = json.loads((here / "a.geojson").read_text())["features"][0]
    assert set(feature["properties"]) == {"sex", "age"}
    call("export", "a.tail", "--to", "a.geoparquet")
    assert pl.read_parquet(here / "a.geoparquet").columns == [*table.columns, "geometry"]
    call("report", "a.tail", "--to", "a.html")
    assert 'id="value-1"' in (here / "a.html").read_text()
    call("plan", "stream.toml", "--rows", "50")


def test_values_that_are_not_declared_are_told_of_places_too(here):
    few = {**DESCRIBED, "--column": ["sex=category f"]}
    call("init", "--kind", "places", *words({**COMMON, **few}))
    shown = call("check", "stream.toml", "incoming/a.csv").output
    assert "lie outside the domain in column 'sex': declare what is missing" in shown


@pytest.fixture
def database(here):
    with contextlib.closing(sqlite3.connect(here / "ward.db")) as connection:
        connection.execute("create table cases (day text, sex text)")
        rows = [(f"2026-01-0{1 + row % 3}", "fm"[row % 2]) for row in range(300)]
        connection.executemany("insert into cases values (?, ?)", rows)
        connection.commit()
    flags = {**COMMON, **STEPS, **SEX, "--unit": "event", "--database": "sqlite:///ward.db"}
    return {key: one for key, one in flags.items() if key not in ("--like", "--folder")}


def test_a_table_of_a_database_leads_to_releases(here, database):
    call("init", "--kind", "histogram", *words({**database, "--table": "cases"}))
    shown = call("check", "stream.toml").output
    assert "table 'cases'" in shown and re.search(r"counted +300 \(100\.0%\)", shown)
    call("run", "stream.toml")
    assert last_step(here / "a.tail" / "releases") == 3


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({}, "--database needs the name of a table"),
        ({"--table": "none"}, "There is no such table in that database"),
        ({"--table": "cases", "--time": "when"}, "There is no such column"),
        ({"--table": "cases", "--database": "mysql://x"}, "url must begin with"),
    ],
)
def test_a_table_that_does_not_fit_is_said_in_one_sentence(here, database, flags, said):
    done = call("init", "--kind", "histogram", *words({**database, **flags}), code=3)
    assert said in done.output
    assert not (here / "stream.toml").exists()


def test_a_border_in_a_file_makes_a_region(here):
    pytest.importorskip("shapely", reason="shapely is not installed")
    corners = [[0, 0], [4, 0], [0, 4], [0, 0]]
    border = {"type": "Polygon", "coordinates": [corners]}
    feature = {"type": "Feature", "properties": {}, "geometry": border}
    (here / "land.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": [feature]})
    )
    flags = {**COMMON, **KINDS["places"], "--area": "land.geojson"}
    call("init", "--kind", "places", *words(flags))
    assert load("stream.toml").mechanism.domain.columns == ("lon", "lat")


@pytest.mark.parametrize(
    ("kind", "flags", "said"),
    [
        ("maps", {}, "There is no kind 'maps'; it is one of places, table, panel"),
        ("tables", {}, "did you mean table?"),
        ("places", {"--place": "lon"}, "--place names two columns"),
        ("places", {"--place": "x y"}, "There is no such column in that file: it has"),
        ("places", {"--area": "0 0 4"}, "--area is four numbers"),
        ("places", {"--area": "4 4 0 0"}, "low of a Box must lie below its high"),
        ("places", {"--area": None}, "Say it with --area, for example --area '13.0"),
        ("places", {"--area": "land.geojson"}, "land.geojson"),
        ("places", {"--column": "lon=integer 0 9"}, "'lon', which holds coordinates"),
        ("places", {"--column": "age=integer 0 999"}, "too many for a map of each"),
        ("panel", {"--unit": "event"}, "unit is 'user COLUMN'"),
        ("panel", {"--delta": None}, "Say it with --delta"),
        ("panel", {"--column": ["sex=category f m", "age=integer 0 9"]}, "A panel follows one column"),
        ("snapshots", {"--unit": "user who"}, "unit is 'user COLUMN RECORDS'"),
        ("journeys", {"--unit": "trip"}, "unit is 'journey', or 'user COLUMN'"),
        ("trips", {"--unit": "user who"}, "unit is 'journey', or 'user COLUMN JOURNEYS'"),
        ("journeys", {"--order": None}, "Say it with --order"),
        ("journeys", {"--start": "2026-01-01"}, "--start needs to know when"),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_kind_is_said_in_one_sentence(here, kind, flags, said):
    given = {**COMMON, **KINDS.get(kind, KINDS["places"]), **flags}
    given = {key: value for key, value in given.items() if value is not None}
    output = call("init", "--kind", kind, *words(given), code=3).output
    assert said in output and not (here / "stream.toml").exists()


# Rows as an old program of a country with decimal commas writes them: each id comes twice.
ODD = """\
Fall;Tag;Geschlecht;Länge;Breite;Person Nr
1;03.01.2026 09:30;weiblich;1,5;2,25;7
1;03.01.2026 09:30;weiblich;1,5;2,25;7
2;2026-01-03;w;3,5;0,5;8
3;02.01.2026 10:00;männlich;1.001,5;2,5;9
"""
SPELT = {
    "--column": "Geschlecht=category weiblich männlich",
    "--alias": "Geschlecht: w = weiblich, m = männlich",
}
WRITTEN = {
    "--decimal": ",",
    "--encoding": "windows-1252",
    "--format": ["%d.%m.%Y %H:%M", "ISO"],
    "--id": "Fall",
}
ODD_PLACE = {"--place": "Länge Breite", "--area": "0 0 4 4"}
ODD_KINDS = {
    "places": {**ODD_PLACE, "--unit": 'user "Person Nr" 3'},
    "table": {"--unit": "event", **SPELT},
    "panel": {**SPELT, "--unit": 'user "Person Nr"', "--window": "2", "--delta": "1e-6"},
    "snapshots": {**SPELT, "--unit": 'user "Person Nr" 1'},
    "histogram": {**SPELT, "--unit": "event"},
    "trips": {**ODD_PLACE, "--trajectory": "Fall", "--order": "Tag", "--unit": "journey"},
    "journeys": {**ODD_PLACE, "--trajectory": "Fall", "--order": "Tag", "--unit": "journey"},
}


@pytest.mark.parametrize("kind", ODD_KINDS)
def test_aliases_formats_ids_decimals_and_letters_of_every_kind_are_flags(here, kind):
    (here / "incoming" / "a.csv").write_text(ODD, encoding="windows-1252")
    times = {} if kind == "journeys" else {**STEPS, "--time": "Tag"}
    call("init", "--kind", kind, *words({**COMMON, **times, **WRITTEN, **ODD_KINDS[kind]}))
    done = call("check", "stream.toml", "--json")
    (found,) = json.loads(done.output)["files"].values()
    # The coordinate of the last row lies outside; no alias is missed.
    placed = "Länge Breite" in ODD_KINDS[kind].values()
    assert (found["counted"], found["duplicates"]) == ((2, 1) if placed else (3, 1))
    assert found["garbled"] == found["untimed"] == found["unordered"] == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"--alias": "Ort: B = Berlin"}, "An alias begins with its column"),
        ({"--alias": "sex: w = woman"}, "An alias stands for a value of sex"),
        ({"--alias": "sex: f = m"}, "An alias stands for a value of sex"),
        ({"--column": "age=integer 0 9", "--alias": "age: x = 1"}, "no column is one"),
        ({"--decimal": "dot"}, "Decimals are written with a point"),
        ({"--encoding": "utf-16"}, "must be utf-8, or have one byte a letter"),
        ({"--format": "%d.%m"}, "format needs a year and a month"),
        ({"--unit": "user nobody 3"}, "There is no such column in that file"),
        ({"--period": "fortnight"}, "period"),
    ],
)
def test_what_cannot_be_read_is_said_before_a_file_is_written(here, flags, said):
    given = {**COMMON, **KINDS["histogram"], **flags}
    assert said in call("init", "--kind", "histogram", *words(given), code=3).output
    assert not (here / "stream.toml").exists()


def test_too_few_journeys_are_told_of_before_and_after(here):
    shown = call("init", "--kind", "journeys", *words({**COMMON, **KINDS["journeys"]})).output
    assert "With less than about 14,000 journeys no journeys are drawn" in shown
    (warned,) = json.loads(call("check", "stream.toml", "--json").output)["warnings"]
    assert warned.startswith("100 journeys are too few")
    done = call("run", "stream.toml").output
    assert "No journeys are drawn: trajectories times epsilon are about" in done
