"""A table of a database as a source: which rows a step has, whatever they hold."""

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tailrace import Categorical, ConfigError, DataError, Integer, Real, Schema, StateError
from tailrace.calendar import Calendar
from tailrace.sources import sql
from tailrace.sources.database import _Sqlite
from tailrace.sources.reading import Reader
from tailrace.sources.sql import SqlTable

START = datetime(2026, 3, 27, tzinfo=UTC)
DAYS = Calendar(start="2026-03-27", period="1 day", grace="6 hours")
NUMBERED = Schema(number=Integer(0, 999))


def read(source, step):
    """The rows inserted and deleted at a step, in order."""
    batch = source.batch(step)
    return [
        None if frame is None else sorted(frame.rows(), key=repr)
        for frame in (batch.adds, batch.deletes)
    ]


@pytest.fixture
def database(tmp_path):
    with sqlite3.connect(tmp_path / "in.db", isolation_level=None) as connection:
        yield connection


@pytest.fixture
def source(tmp_path):
    def make(domain=NUMBERED, table="visits", late="drop", calendar=DAYS, **columns):
        reader = Reader(domain=domain, **{"time": "seen", **columns})
        return SqlTable(
            f"sqlite:///{tmp_path}/in.db", table, reader=reader, calendar=calendar, late=late
        )

    return make


def visits(count=300):
    """Rows with a number, a time around the first ten days, and the time at which they came; some
    are missing.
    """
    rng = np.random.default_rng(5)
    for number in range(count):
        seen = START + timedelta(hours=float(rng.uniform(-48, 240)))
        came = seen + timedelta(hours=float(rng.choice([0, 5, 30, 100])))
        yield number, None if number % 50 == 7 else seen, None if number % 40 == 9 else came


def expected(late, step):
    """The same, row by row, in the words of the calendar."""

    def period(instant):
        return (instant - START).days + 1

    def opened(instant):
        return max(1, period(instant - timedelta(hours=6)))

    for number, seen, came in visits():
        if seen is None or seen < START:
            continue
        own, at = period(seen), 0 if came is None else opened(came)
        if (max(own, at) if late == "next" else own if at <= own else 0) == step:
            yield (float(number),)


@pytest.mark.parametrize("late", ["next", "drop"])
def test_every_row_goes_where_its_own_cells_say(database, source, late):
    database.execute("CREATE TABLE visits (number INTEGER, seen TEXT, came TEXT)")
    cells = [
        (number, seen and seen.isoformat(), came and came.isoformat(" "))
        for number, seen, came in visits()
    ]
    database.executemany("INSERT INTO visits VALUES (?, ?, ?)", cells)
    found = [read(source(late=late, arrived="came"), step) for step in range(1, 20)]
    assert found == [[sorted(expected(late, step), key=repr), None] for step in range(1, 20)]
    assert sum(len(adds) for adds, _ in found) > 100
    database.execute(
        "DELETE FROM visits WHERE number % 3 > 0"
    )  # the others' steps do not depend on them
    fewer = [read(source(late=late, arrived="came"), step)[0] for step in range(1, 12)]
    assert fewer == [[row for row in adds if row[0] % 3 == 0] for adds, _ in found[:11]]


@pytest.mark.parametrize("late", ["next", "drop"])
@pytest.mark.parametrize("limit", [1, 50, 10**6])
def test_one_reading_serves_all_steps_that_are_ready(database, source, monkeypatch, late, limit):
    """And those that cannot be held are read again when it is their turn."""
    monkeypatch.setattr(sql, "_HELD", limit)
    database.execute("CREATE TABLE visits (number INTEGER, seen TEXT, came TEXT)")
    odd = (" {:%Y-%m-%dT%H:%M:%S%z} ", "{:%Y%m%dT%H%M%S%z}", "{:%Y-%m-%d %H:%M:%S.000%z}")
    cells = [
        (number, seen and odd[number % 3].format(seen), came and odd[number % 2].format(came))
        for number, seen, came in visits()
    ]
    database.executemany("INSERT INTO visits VALUES (?, ?, ?)", cells)
    one = source(late=late, arrived="came")
    whole = [read(source(late=late, arrived="came"), step) for step in range(1, 14)]
    assert [read(one, step) for step in range(1, 14)] == whole
    assert read(one, 13) == whole[-1], "asked again"
    assert sum(len(adds) for adds, _ in whole) > 100


def test_a_step_that_is_not_closed_is_read_again(database, source):
    database.execute("CREATE TABLE visits (number INTEGER, seen TEXT)")
    one = replace(source(), clock=lambda: START)
    assert read(one, 1)[0] == []
    database.execute("INSERT INTO visits VALUES (1, '2026-03-27')")
    assert read(one, 1)[0] == [(1.0,)]


def test_only_rows_near_the_steps_come_out_of_the_database(database, source, monkeypatch):
    database.execute("CREATE TABLE visits (number INTEGER, seen TEXT)")
    rows = [(n, (START + timedelta(days=n)).isoformat()) for n in range(300)]
    database.executemany("INSERT INTO visits VALUES (?, ?)", [*rows, (7, b"2020-01-01"), (8, 3)])
    read_all, came = _Sqlite.read, []

    def noted(*given):
        for chunk in read_all(*given):
            came.extend(chunk)
            yield chunk

    monkeypatch.setattr(_Sqlite, "read", noted)
    near = replace(source(), clock=lambda: START + timedelta(days=2))
    assert read(near, 1)[0] == [(0.0,)] and len(came) < 12


def test_a_step_is_ready_when_its_grace_is_over():
    moments = iter([timedelta(hours=29, minutes=59), timedelta(hours=30), timedelta(hours=30)])
    source = SqlTable(
        "sqlite:///none.db",
        "visits",
        reader=Reader(domain=NUMBERED, time="seen"),
        calendar=DAYS,
        late="drop",
        clock=lambda: START + next(moments),
    )
    assert [source.ready(1), source.ready(1), source.ready(2), source.over] == [
        False,
        True,
        False,
        False,
    ]


def test_deletes_are_told_by_a_column(database, source):
    database.execute("CREATE TABLE visits (number, seen, what)")
    cells = [
        (1, "insert"),
        (2, " Delete "),
        (3, None),
        (4, "drop table"),
        (5, "INSERT"),
        (6, b"insert"),
    ]
    database.executemany("INSERT INTO visits VALUES (?, '2026-03-27', ?)", cells)
    assert read(source(op="what"), 1) == [[(1.0,), (5.0,), (6.0,)], [(2.0,)]]
    assert read(source(op="what"), 2) == [[], []]


def test_cells_of_every_kind_are_read_by_the_schema(database, source):
    domain = Schema(
        number=Integer(0, 9),
        size=Real(edges=[0, 1]),
        sex=Categorical(["f"]),
        well=Categorical([True]),
    )
    database.execute("CREATE TABLE visits (number, size, sex, well, seen)")
    cells = [
        (1, 0.1, "f", 1),
        ("2", "0.25", " f ", "true"),
        (3.0, 1, b"f", "yes"),
        (None, None, None, None),
        ("x", "y", 7, 2.5),
        (float("inf"), float("-inf"), "", 0),
        (2**62, 1e308, "\0", b"\xff"),
    ]
    database.executemany(
        "INSERT INTO visits VALUES (?, ?, ?, ?, '2026-03-27T12:00:00+02:00')", cells
    )
    database.execute(
        "INSERT INTO visits VALUES (4, 0.5, CAST(x'fffe66' AS TEXT), 1, CAST(x'ff' AS TEXT))"
    )
    frame = source(domain=domain).batch(1).adds
    assert frame.columns == ["number", "size", "sex", "well"] and len(frame) == 7
    assert frame.rows()[:2] == [(1.0, 0.1, "f", True), (2.0, 0.25, " f ", True)]
    assert frame.rows()[2][:2] == (3.0, 1.0) and frame["sex"][2] == "f" and frame["well"][2]
    assert frame["number"].to_list()[3:5] == [None, None]


def test_odd_names_and_only_the_columns_that_are_wanted(database, source):
    names = ["select", 'a "b"', "100%s", "semi;colon", "né ☃"]
    table, *columns = ['"' + name.replace('"', '""') + '"' for name in ('order by; "x', *names)]
    database.execute(f"CREATE TABLE {table} ({', '.join(columns)}, seen, secret)")
    database.execute(f"INSERT INTO {table} VALUES (1, 2, 3, 4, 5, '2026-03-28', x'00')")
    domain = Schema(**dict.fromkeys(names, Integer(0, 9)))
    frame = source(domain=domain, table='order by; "x').batch(2).adds
    assert frame.columns == names and frame.rows() == [(1.0, 2.0, 3.0, 4.0, 5.0)]


def test_the_unit_goes_along(database, source):
    database.execute("CREATE TABLE visits (number, person, seen)")
    database.execute("INSERT INTO visits VALUES (1, 77, '2026-03-27')")
    assert source(key="person").batch(1).adds.rows() == [(1.0, "77")]


def test_local_times_around_the_hour_that_is_missing(database, source):
    database.execute("CREATE TABLE visits (number, seen)")
    local = Calendar(start="2026-03-28", period="1 day", timezone="Europe/Berlin")
    cells = [
        (1, "2026-03-28T23:59:59"),
        (2, "2026-03-29 00:00"),
        (3, "2026-03-29T02:30:00"),  # does not exist
        (4, "2026-03-29T23:59:59"),
        (5, "2026-03-29T21:59:59Z"),
        (6, "2026-03-29T22:00:00Z"),
        (7, "2026-03-27T22:59:59Z"),  # before the start
        (8, "29.03.2026"),
    ]
    database.executemany("INSERT INTO visits VALUES (?, ?)", cells)
    steps = [read(source(calendar=local, timezone="Europe/Berlin"), step)[0] for step in (1, 2, 3)]
    assert steps == [[(1.0,)], [(2.0,), (3.0,), (4.0,), (5.0,)], [(6.0,)]]
    assert read(source(calendar=local, timezone="Europe/Berlin", format="%d.%m.%Y"), 2)[0] == [
        (8.0,)
    ]


def test_a_table_without_rows_has_empty_batches(database, source):
    database.execute("CREATE TABLE visits (number, seen, what)")
    batch = source(op="what").batch(5)
    assert batch.adds.columns == batch.deletes.columns == ["number"]
    assert len(batch.adds) == len(batch.deletes) == 0


def test_chunks_make_one_batch(database, source, monkeypatch):
    database.execute("CREATE TABLE visits (number, seen)")
    database.executemany(
        "INSERT INTO visits VALUES (?, '2026-03-27')", [(number,) for number in range(25)]
    )
    monkeypatch.setattr("tailrace.sources.database._CHUNK", 10)
    assert read(source(), 1)[0] == sorted([(float(number),) for number in range(25)], key=repr)


def test_a_view_is_a_table_too(database, source):
    database.execute("CREATE TABLE raw (number INTEGER, epoch INTEGER)")
    database.execute("INSERT INTO raw VALUES (1, ?)", (int(START.timestamp()) + 3600,))
    database.execute(
        "CREATE VIEW visits AS SELECT number, datetime(epoch, 'unixepoch') AS seen FROM raw"
    )
    assert read(source(), 1)[0] == [(1.0,)]
    with pytest.raises(DataError, match="Column 'epoch' of table 'raw' holds numbers, not times"):
        source(table="raw", time="epoch").batch(1)


def test_a_missing_table_or_column_is_named(database, source, tmp_path):
    with pytest.raises(DataError, match="no table 'visits'"):
        source().batch(1)
    database.execute("CREATE TABLE visits (Number, seen)")
    with pytest.raises(DataError, match="Table 'visits' has no column 'number'"):
        source().batch(1)
    (tmp_path / "in.db").unlink()
    with pytest.raises(StateError, match="cannot be opened"):
        source().batch(1)
    assert not (tmp_path / "in.db").exists()


def test_a_source_never_writes(database, source):
    database.execute("CREATE TABLE visits (number, seen)")
    database.execute("INSERT INTO visits VALUES (1, '2026-03-27')")
    before = database.execute("PRAGMA data_version").fetchone()
    read(source(), 1)
    assert database.execute("PRAGMA data_version").fetchone() == before


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"late": "next"}, "arrived="),
        ({"late": "soon"}, '"next" or "drop"'),
        ({"time": None}, "time="),
        ({"table": ""}, "table"),
    ],
)
def test_what_a_source_needs(source, columns, message):
    with pytest.raises(ConfigError, match=message):
        source(**columns)


def test_a_source_never_shows_its_password():
    source = SqlTable(
        "postgresql://me:secret@somewhere/x",
        "t",
        reader=Reader(domain=NUMBERED, time="seen"),
        calendar=DAYS,
        late="drop",
    )
    assert "secret" not in repr(source)
