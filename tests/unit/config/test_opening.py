"""From a configuration to the things it names."""

import sqlite3
import sys
from dataclasses import replace
from datetime import date

import polars as pl
import pytest

import tailrace as tr
from tailrace import DataError, Mismatch, StateError, Stream
from tailrace.config import load
from tailrace.config.opening import goes_on, open_source, open_stream, reader, used
from tailrace.pipeline import run
from tailrace.sinks import CsvFolder, ParquetFolder
from tailrace.sources import Lines, NamedFiles, OrderedFiles, SqlTable, TimedFiles, Topic, files
from tailrace.sources.database import _Sqlite

BASIS = """
[stream]
path = "ward.tail"
population = "{population}"
[mechanism]
kind = "HistogramStream"
horizon = {horizon}
privacy = {{ kind = "PureDP", epsilon = 100 }}
unit = {unit}
deletes = {deletes}
[schema]
sex = {{ kind = "Categorical", values = ["f", "m"] }}
{calendar}
[source]
{source}
{sinks}
"""
EVENT, USER = '{ kind = "Event" }', '{ kind = "User", column = "id", events = 3 }'
DAYS = '[calendar]\nstart = 2026-01-01\nperiod = "1 day"\ntimezone = "Europe/Berlin"'
TIMED = 'kind = "Folder"\npath = "in"\nfiles = "*.csv"\ntime = "day"'
FILES = 'kind = "Folder"\npath = "in"\nfiles = "*.csv"'
NAMED = 'kind = "Folder"\npath = "in"\nname = "%Y-%m-%d.csv"'


@pytest.fixture
def config(tmp_path):
    def config(
        source=TIMED,
        calendar=DAYS,
        population="ward",
        horizon=2,
        unit=EVENT,
        deletes="false",
        sinks="",
    ):
        parts = {
            "source": source,
            "calendar": calendar,
            "population": population,
            "horizon": horizon,
        }
        text = BASIS.format(**parts, unit=unit, deletes=deletes, sinks=sinks)
        (tmp_path / "stream.toml").write_text(text)
        return load(tmp_path / "stream.toml")

    (tmp_path / "in").mkdir()
    return config


@pytest.mark.parametrize(
    ("source", "calendar", "kind"),
    [
        (TIMED, DAYS, TimedFiles),
        (NAMED, DAYS, NamedFiles),
        (FILES, "", OrderedFiles),
        (
            'kind = "SqlTable"\nurl = "sqlite:///w.db"\ntable = "cases"\ntime = "day"',
            DAYS,
            SqlTable,
        ),
        ('kind = "Lines"\ntime = "day"', DAYS, Lines),
        ('kind = "Topic"\nservers = "one:9092"\ntopic = "cases"\ntime = "day"', DAYS, Topic),
        ('kind = "Lines"', "", Lines),
    ],
)
def test_each_source_is_made_of_its_table(config, source, calendar, kind):
    made = open_source(config(source, calendar))
    assert type(made) is kind
    assert made.reader.timezone == ("Europe/Berlin" if calendar else "UTC")
    assert made.reader.columns == (["sex", "day"] if "time" in source else ["sex"])


def test_the_unit_is_a_column_to_read(config):
    assert (reader(config()).key, reader(config(unit=USER)).key) == (None, "id")


@pytest.mark.parametrize(
    ("late", "expected"), [("", "next"), ('late = "drop"', "drop"), ('late = "next"', "next")]
)
def test_late_events_go_to_the_next_step_unless_it_is_said_otherwise(config, late, expected):
    source = open_source(config(calendar=f"{DAYS}\n{late}"))
    assert isinstance(source, TimedFiles) and source.late == expected


def test_a_table_that_does_not_say_when_rows_came_drops_late_ones(config):
    table = 'kind = "SqlTable"\nurl = "sqlite:///w.db"\ntable = "cases"\ntime = "day"'
    assert open_source(config(table)).late == "drop"
    assert open_source(config(f'{table}\narrived = "came"')).late == "next"


def test_standard_input_that_is_closed_is_refused(config, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match=r"^Standard input is closed: pipe rows into it"):
        open_source(config('kind = "Lines"', ""))


def test_the_shelf_shows_the_files_that_are_read(config, tmp_path):
    for name in ("2026-01-01.csv", "notes.csv", "gone-2026-01-01.csv"):
        (tmp_path / "in" / name).touch()
    patterns = config(f'{NAMED}\ndeletes = "gone-%Y-%m-%d.csv"', deletes="true").source
    found = [(file.name, file.deletes) for file in patterns.shelf.found()]
    assert ("2026-01-01.csv", False) in found and ("gone-2026-01-01.csv", True) in found
    assert "notes.csv" not in dict(found)


def test_sinks_are_made_of_their_tables(config, tmp_path):
    kinds = ("CsvFolder", "ParquetFolder")
    made = config(
        sinks="".join(f'\n[[sink]]\nkind = "{kind}"\npath = "{kind}"' for kind in kinds)
    ).sinks
    assert [type(sink) for sink in made] == [CsvFolder, ParquetFolder]
    assert [sink.path for sink in made] == [tmp_path / kind for kind in kinds]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"population": "another ward"}, "population"),
        ({"horizon": 3}, "mechanism"),
        ({"calendar": DAYS.replace("Berlin", "Paris")}, "calendar"),
    ],
)
def test_a_stream_never_changes(config, change, part):
    open_stream(config()).close()
    with pytest.raises(
        Mismatch,
        match=f"^stream.toml asks for another {part} than the one that ward.tail was made with",
    ):
        open_stream(config(**change))
    open_stream(config()).close()  # and nothing holds it


ROADS = """
[stream]
path = "ward.tail"
population = "ward"
[mechanism]
kind = "{kind}"
horizon = 4
privacy = {{ kind = "PureDP", epsilon = 1 }}
unit = {{ kind = "Event" }}
{more}
[roads]
path = "streets.geojson"
columns = ["x", "y"]
cells = 32
{outside}
[source]
kind = "Folder"
path = "in"
files = "*.csv"
"""
JOURNEYS = 'trajectory = "trip"\norder = "at"'


@pytest.mark.parametrize(
    ("kind", "more"), [("JourneyStream", JOURNEYS), ("SpatialStream", "deletes = false")]
)
def test_roads_mean_what_they_meant_when_the_stream_was_made(tmp_path, kind, more):
    """Before points near roads belonged to journeys, they were dropped where nothing was said."""
    pytest.importorskip("shapely")
    (tmp_path / "in").mkdir()
    (tmp_path / "streets.geojson").write_text(
        '{"type": "MultiLineString", "coordinates": [[[0, 0], [0, 9], [9, 9], [9, 0], [0, 0]]]}'
    )

    def config(outside=""):
        (tmp_path / "stream.toml").write_text(ROADS.format(kind=kind, more=more, outside=outside))
        return load(tmp_path / "stream.toml")

    usual = config().mechanism.domain
    assert usual.outside == ("nearest" if kind == "JourneyStream" else "drop")
    with open_stream(config('outside = "drop"')) as stream:
        kept = stream.mechanism
        assert kept.domain.outside == "drop"
    with open_stream(config()) as stream:
        assert stream.mechanism == kept
    with pytest.raises(Mismatch, match="asks for another mechanism"):
        open_stream(config('outside = "nearest"'))


def test_a_stream_whose_first_rows_cannot_be_read_is_neither_made_nor_charged(config, tmp_path):
    (tmp_path / "in" / "a.csv").write_text("age,day\n1,2026-01-01\n")
    with pytest.raises(DataError, match=r"^a.csv has no column 'sex'"):
        open_stream(config())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "stream.toml"]


def test_files_are_remembered_in_the_streams_private_folder(config, tmp_path):
    (tmp_path / "in" / "a.csv").write_text("sex,day\nf,2026-01-01\nm,2026-01-02\n")
    with open_stream(config()) as stream:
        sizes = [len(release.table) for release in run(stream, open_source(config()))]
    assert sizes == [1, 2]
    assert used(config()).files["a.csv"].until == 2
    kept = tmp_path / "ward.tail" / "private" / "files.json"
    assert kept.stat().st_mode & 0o077 == 0, "for nobody else's eyes"


def test_a_stream_that_lost_its_memory_of_files_does_not_count_them_again(config, tmp_path):
    (tmp_path / "in" / "a.csv").write_text("sex,day\nf,2026-01-01\n")
    with open_stream(config()) as stream:
        assert next(run(stream, open_source(config()))).step == 1
    (tmp_path / "ward.tail" / "private" / "files.json").unlink()
    with (
        open_stream(config()) as stream,
        pytest.raises(StateError, match=r"^private/files.json is missing"),
    ):
        list(run(stream, open_source(config())))


def test_a_table_of_a_database_through_a_whole_run(config, tmp_path):
    with sqlite3.connect(tmp_path / "w.db") as database:
        database.execute("CREATE TABLE cases (sex TEXT, day TEXT)")
        rows = [
            ("f", "2026-01-01"),
            ("m", "2026-01-02"),
            ("m", str(date(2026, 1, 2))),
            ("x", "2026-01-01"),
        ]
        database.executemany("INSERT INTO cases VALUES (?, ?)", rows)
    made = config('kind = "SqlTable"\nurl = "sqlite:///w.db"\ntable = "cases"\ntime = "day"')
    with open_stream(made) as stream:
        tables = [release.table for release in run(stream, open_source(made))]
    assert [table["sex"].to_list() for table in tables] == [["f"], ["f", "m", "m"]]
    assert tables[0].schema == {"sex": pl.String}


@pytest.mark.parametrize(
    ("source", "calendar", "name"),
    [(TIMED, DAYS, "a.csv"), (FILES, "", "a.csv"), (NAMED, DAYS, "2026-01-01.csv")],
)
def test_a_file_is_read_once_in_the_first_run(
    config, tmp_path, monkeypatch, source, calendar, name
):
    (tmp_path / "in" / name).write_text("sex,day\nf,2026-01-01\nm,2026-01-02\n")
    read, reads, held = files.read, [], {}

    def noting(*given, **options):
        reads.append(given[0])
        return read(*given, **options)

    monkeypatch.setattr(files, "read", noting)
    made = config(source, calendar)
    with open_stream(made, held) as stream:
        assert len(list(run(stream, open_source(made, held=held)))) >= 1
    assert len(reads) == 1


def test_a_table_is_read_once_in_the_first_run(config, tmp_path, monkeypatch):
    with sqlite3.connect(tmp_path / "w.db") as database:
        database.execute("CREATE TABLE cases (sex TEXT, day TEXT)")
        rows = [("f", f"2026-01-{day:02d}") for day in range(1, 10)]
        database.executemany("INSERT INTO cases VALUES (?, ?)", rows)
    read, reads, held = _Sqlite.read, [], {}
    monkeypatch.setattr(_Sqlite, "read", lambda *given: (reads.append(1), read(*given))[1])
    table = 'kind = "SqlTable"\nurl = "sqlite:///w.db"\ntable = "cases"\ntime = "day"'
    made = config(table, horizon=9)
    with open_stream(made, held) as stream:
        sizes = [len(release.table) for release in run(stream, open_source(made, held=held))]
    assert sizes == [*range(1, 10)] and len(reads) == 1


def test_a_fork_remembers_the_files_of_the_first_stream(config, tmp_path):
    """Otherwise every file would be new to it, and its rows late."""
    made = config(source=FILES, calendar="", horizon=3)
    (tmp_path / "in" / "1.csv").write_text("sex\nf\n")
    with open_stream(made) as stream:
        assert len(list(run(stream, open_source(made)))) == 1
    Stream.fork(tmp_path / "ward.tail", tmp_path / "fork.tail").close()
    (tmp_path / "in" / "2.csv").write_text("sex\nm\n")
    forked = replace(made, path=tmp_path / "fork.tail")
    with open_stream(forked) as stream:
        [release] = run(stream, open_source(forked))
    assert release.step == 2 and release.table["sex"].to_list() == ["f", "m"]


def test_streams_of_single_events_go_on_from_another_table():
    """With everything else there is no table that could be added as rows."""
    parts = {"privacy": tr.PureDP(epsilon=1), "unit": tr.Event(), "horizon": 7}
    ward = tr.Schema(sex=tr.Categorical(["f", "m"]))
    square = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
    person = {**parts, "unit": tr.User(column="id", events=3)}
    once = {"privacy": parts["privacy"], "unit": tr.Event()}
    priced = tr.Schema(sex=tr.Categorical(["f", "m"]), price=tr.Amount(0, 9))
    for made in (
        tr.HistogramStream(domain=ward, **parts),
        tr.TabularStream(domain=ward, **parts),
        tr.SpatialStream(domain=square, **parts),
    ):
        assert goes_on(made, "checkpoints") and not goes_on(made, "none")
    for made in (
        tr.HistogramStream(domain=ward, **person),
        tr.HistogramStream(domain=priced, **parts),
        tr.SpatialStream(domain=square, **parts, retention=3),
        tr.JourneyStream(domain=square, trajectory="trip", order="minute", **parts),
        tr.Trajectories(domain=square, trajectory="trip", order="minute", **once),
    ):
        assert not goes_on(made, "checkpoints")
