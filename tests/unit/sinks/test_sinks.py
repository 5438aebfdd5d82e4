"""One suite for every sink: once, whole, exactly, and never another release of the same step."""

import itertools
import json
import sqlite3
import sys
from csv import reader
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from tailrace import (
    Categorical,
    ConfigError,
    Event,
    HistogramStream,
    Integer,
    Noise,
    PureDP,
    Real,
    Schema,
    StateError,
    Stream,
)
from tailrace.mechanisms.base import Table
from tailrace.privacy.guarantee import Guarantee
from tailrace.sinks import CsvFolder, Memory, ParquetFolder, SqlTable, digest
from tailrace.sources import database
from tailrace.storage import durable
from tailrace.stream.release import Kind

TEXTS = ["f", 'a "quoted", text', "", "née\n☃ ", "NULL", "100%s"]
CLINIC = Schema(
    sex=Categorical(TEXTS, outside="other"),
    age=Integer(-1, 2, outside="other"),
    height=Real(edges=[-1e-300, 0.1, 1 / 3, 1e300], outside="other"),
    smokes=Categorical([True, False]),
    ward=Categorical([7, 2**53 - 1]),
    **{'select "a", %s': Categorical(["x"], outside="other")},
)
POLARS = {nw.String: pl.String, nw.Int64: pl.Int64, nw.Float64: pl.Float64, nw.Boolean: pl.Boolean}
TYPES = {name: POLARS[type(kind)] for name, kind in CLINIC.types.items()}
NUMBERS = itertools.count()


def releases(seed=1, steps=3, domain=CLINIC):
    mechanism = HistogramStream(domain=domain, privacy=PureDP(epsilon=1), unit=Event(), horizon=5)
    stream, rng = Stream(mechanism, noise=Noise.insecure(seed)), np.random.default_rng(seed)
    made = []
    for _ in range(steps):
        rows = domain.decode(rng.integers(0, domain.size, 500), rng)
        made.append(
            stream.push(
                pl.DataFrame({name: pl.Series(values.tolist()) for name, values in rows.items()})
            )
        )
    return made


@pytest.fixture(scope="module")
def three():
    return releases()


@pytest.fixture(scope="module")
def others():
    return releases(seed=2)


@dataclass
class Place:
    """Where a kind of sink keeps its releases: `sink()` is the sink of a new process, `read` gives
    a table back.
    """

    sink: Any
    read: Any


def parquet(folder, name="table"):
    return Place(
        lambda: ParquetFolder(folder),
        lambda step: pl.read_parquet(folder / f"{step:06d}" / f"{name}.parquet").fill_nan(None),
    )


def csv(folder, name="table"):
    return Place(
        lambda: CsvFolder(folder),
        lambda step: pl.read_csv(
            folder / f"{step:06d}" / f"{name}.csv", has_header=False, skip_rows=1, schema=TYPES
        ),
    )


def memory():
    sink = Memory()
    return Place(
        lambda: sink,
        lambda step: Kind().frame(sink.releases[step].rows, CLINIC.types).fill_nan(None),
    )


def sqlite(path):
    def read(step):
        with sqlite3.connect(path) as connection:
            rows = connection.execute('SELECT * FROM "releases" WHERE step = ?', (step,)).fetchall()
        booleans = [
            tuple(bool(cell) if at == 4 else cell for at, cell in enumerate(row)) for row in rows
        ]
        return pl.DataFrame(booleans, {"step": pl.Int64, **TYPES}, orient="row").drop("step")

    return Place(lambda: SqlTable(f"sqlite:///{path}", "releases"), read)


def postgresql(url):
    import psycopg

    table = f"releases{next(NUMBERS)}"

    def read(step):
        with psycopg.connect(url) as connection:
            rows = connection.execute(f"SELECT * FROM {table} WHERE step = %s", (step,)).fetchall()
        return pl.DataFrame(rows, {"step": pl.Int64, **TYPES}, orient="row").drop("step")

    return Place(lambda: SqlTable(url, table), read)


@pytest.fixture(params=["memory", "parquet", "csv", "sqlite", "postgresql"])
def places(request, tmp_path):
    """Makes a new place of each kind."""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres")
        return lambda: postgresql(url)
    if request.param == "memory":
        return memory
    kind = {"parquet": parquet, "csv": csv, "sqlite": sqlite}[request.param]
    return lambda: kind(tmp_path / f"place {next(NUMBERS)}")


@pytest.fixture
def place(places):
    return places()


def held(place, release):
    """Whether the release comes back exactly: values, types, missing ones, none twice."""
    found, wanted = (
        place.read(release.step),
        Kind().frame(release.rows, release.types).fill_nan(None),
    )
    assert found.schema == wanted.schema
    return sorted(map(repr, found.rows())) == sorted(map(repr, wanted.rows()))


def test_releases_come_back_exactly(place, three):
    for release in three:
        place.sink().put(release)
    assert place.sink().holds() == {1, 2, 3}
    assert all(held(place, release) for release in three)
    everything = Kind().frame(three[-1].rows, CLINIC.types)
    assert set(everything["sex"]) == {*TEXTS, None}
    assert everything["age"].null_count() and everything["height"].is_nan().any()
    assert everything["ward"].max() == 2**53 - 1 and set(everything["smokes"]) == {True, False}


def test_a_new_place_holds_nothing(place):
    assert place.sink().holds() == set()


def test_a_release_may_be_put_again(place, three):
    sink = place.sink()
    for release in (three[0], three[0], three[1], three[0]):
        sink.put(release)
    place.sink().put(three[1])
    assert sink.holds() == {1, 2}
    assert held(place, three[0]) and held(place, three[1])


def test_steps_may_come_in_any_order(place, three):
    for at in (1, 2, 0):
        place.sink().put(three[at])
    assert place.sink().holds() == {1, 2, 3}
    assert all(held(place, release) for release in three)


def test_another_release_of_a_held_step_is_refused(place, three, others):
    place.sink().put(three[0])
    with pytest.raises(StateError, match="different release of step 1"):
        place.sink().put(others[0])
    assert place.sink().holds() == {1} and held(place, three[0])
    place.sink().put(three[0])


def test_a_release_without_rows_is_held_too(place, three):
    nothing = three[0].rows.at(slice(0))
    empty = replace(three[0], rows=nothing, added=nothing, removed=nothing)
    place.sink().put(empty)
    assert place.sink().holds() == {1} and held(place, empty)
    with pytest.raises(StateError):
        place.sink().put(three[0])


def test_the_frames_of_the_user_do_not_matter(place, three):
    place.sink().put(replace(three[0], kind=Kind("pandas")))
    place.sink().put(replace(three[0], kind=Kind("pyarrow")))
    assert held(place, three[0])


class Stopped(BaseException):
    pass


@pytest.fixture
def stop_at(monkeypatch):
    """Stops the next write at its point of this number; `passed` are the points that were
    passed.
    """
    passed = []

    def hook(number):
        def reached(name):
            passed.append(name)
            if len(passed) == number:
                raise Stopped

        passed.clear()
        monkeypatch.setattr(durable, "hook", reached if number is not None else None)
        return passed

    return hook


def test_a_sink_that_is_stopped_anywhere_holds_all_of_a_step_or_nothing(places, three, stop_at):
    place = places()
    passed = stop_at(0)
    place.sink().put(three[0])
    points = list(passed)
    for number in range(1, len(points) + 1):
        place = places()
        stop_at(number)
        with pytest.raises(Stopped):
            place.sink().put(three[0])
        stop_at(None)
        steps = place.sink().holds()
        assert steps == ({1} if points[number - 1] == "sink, after" else set())
        assert not steps or held(place, three[0])
        place.sink().put(three[0])
        place.sink().put(three[1])
        assert place.sink().holds() == {1, 2} and held(place, three[0]) and held(place, three[1])
    assert points[-2:] == ["sink, before", "sink, after"] or isinstance(place.sink(), Memory)


def test_digests_name_the_step_and_its_rows(three, others, tmp_path):
    first = three[0]
    changed = {name: values.copy() for name, values in first.rows.columns.items()}
    changed["height"][0] = 0.25
    renamed = {name.replace("age", "years"): values for name, values in first.rows.columns.items()}
    turned = {name: values[::-1] for name, values in first.rows.columns.items()}
    different = [
        replace(first, rows=Table.of(first.rows.cells, columns))
        for columns in (changed, renamed, turned)
    ]
    names = {
        digest(release)
        for release in (first, three[1], others[0], replace(first, step=2), *different)
    }
    assert len(names) == 7
    assert digest(first) == digest(releases(steps=1)[0])
    with Stream.create(
        tmp_path / "s.tail",
        HistogramStream(domain=CLINIC, privacy=PureDP(epsilon=1), unit=Event(), horizon=5),
        population="all",
    ) as stream:
        assert digest(stream.push(None)) == digest(stream.release(1))


@pytest.mark.parametrize("kind", [parquet, csv])
def test_a_folder_explains_itself(kind, tmp_path, three):
    kind(tmp_path / "out").sink().put(three[0])
    kind(tmp_path / "out").sink().put(three[1])
    ending = kind.__name__
    inside = {path.name for path in (tmp_path / "out" / "000002").iterdir()}
    assert inside == {f"table.{ending}", f"added.{ending}", f"removed.{ending}", "release.json"}
    about = json.loads((tmp_path / "out" / "000002" / "release.json").read_text())
    sentence = about["guarantee"].pop("sentence")
    assert sentence == str(three[1].guarantee)
    assert Guarantee.from_dict(about["guarantee"]) == three[1].guarantee
    assert (
        about["provenance"] == three[1].provenance
        and about["step"] == 2
        and about["digest"] == digest(three[1])
    )
    promise = json.loads((tmp_path / "out" / "guarantee.json").read_text())
    assert promise.pop("sentence") == sentence and promise == about["guarantee"]
    readme = (tmp_path / "out" / "README.md").read_text()
    assert sentence in readme and f"`table.{ending}`" in readme
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.parametrize("kind", [parquet, csv])
def test_the_changes_in_a_folder_make_the_next_table(kind, tmp_path, three):
    parts = {name: kind(tmp_path / "out", name) for name in ("table", "added", "removed")}
    for release in three:
        parts["table"].sink().put(release)

    def rows(name, step):
        return sorted(map(repr, parts[name].read(step).rows()))

    for step in (2, 3):
        gone, after = rows("removed", step), rows("table", step - 1)
        for row in gone:
            after.remove(row)
        assert sorted(after + rows("added", step)) == rows("table", step)


def test_the_first_line_of_a_csv_file_names_its_columns(tmp_path, three):
    CsvFolder(tmp_path).put(three[0])
    with (tmp_path / "000001" / "table.csv").open(newline="", encoding="utf-8") as file:
        assert next(reader(file)) == list(TYPES)


def test_a_missing_value_alone_in_its_row_is_not_an_empty_line(tmp_path):
    release = releases(steps=1, domain=Schema(sex=Categorical(["f", "m"], outside="other")))[0]
    CsvFolder(tmp_path).put(release)
    lines = (tmp_path / "000001" / "table.csv").read_text().splitlines()
    assert len(lines) == 1 + len(release.rows.cells)
    assert lines.count('""') == sum(value is None for value in release.rows.columns["sex"]) > 0


def test_a_folder_with_something_else_in_it(tmp_path, three):
    (tmp_path / "000001").mkdir()
    (tmp_path / "000001" / "mine").write_text("")
    (tmp_path / "notes").mkdir()
    sink = CsvFolder(tmp_path)
    assert sink.holds() == set()
    with pytest.raises(StateError, match="000001 holds a different release"):
        sink.put(three[0])
    sink.put(three[1])
    assert sink.holds() == {2}


def test_a_folder_that_cannot_be_one(tmp_path, three):
    (tmp_path / "file").write_text("")
    for call in (
        lambda: ParquetFolder(tmp_path / "file").put(three[0]),
        ParquetFolder(tmp_path / "file").holds,
    ):
        with pytest.raises(StateError, match="file cannot be"):
            call()
    with pytest.raises(ConfigError):
        CsvFolder(7)  # pyright: ignore


def test_folders_of_folders_are_made(tmp_path, three):
    ParquetFolder(tmp_path / "a" / "b").put(three[0])
    assert ParquetFolder(str(tmp_path / "a" / "b")).holds() == {1}


def test_one_database_holds_many_sinks(tmp_path, three, others):
    url = f"sqlite:///{tmp_path}/all.db"
    SqlTable(url, "one").put(three[0])
    SqlTable(url, 'the "other" %').put(others[0])
    assert SqlTable(url, "one").holds() == SqlTable(url, 'the "other" %').holds() == {1}
    with sqlite3.connect(tmp_path / "all.db") as connection:
        step, name, promise, provenance = connection.execute(
            "SELECT * FROM one_releases"
        ).fetchone()
    assert (step, name, promise) == (1, digest(three[0]), str(three[0].guarantee))
    assert json.loads(provenance) == three[0].provenance


def test_a_url_relative_to_where_one_stands(tmp_path, three, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SqlTable("sqlite:///beside #1?.db", "one").put(three[0])
    assert (tmp_path / "beside #1?.db").is_file()


def test_names_that_a_database_cannot_hold(tmp_path, postgres):
    url = f"sqlite:///{tmp_path}/names.db"
    for columns, fix in (
        (("step", "x"), "rename"),
        (("Step", "x"), "rename one"),
        (("x", "X"), "rename one"),
    ):
        release = releases(steps=1, domain=Schema(**dict.fromkeys(columns, Integer(0, 1))))[0]
        with pytest.raises(ConfigError, match=fix):
            SqlTable(url, "one").put(release)
    long = "a" * 64
    release = releases(steps=1, domain=Schema(**{long: Integer(0, 1)}))[0]
    SqlTable(url, "long").put(release)
    with pytest.raises(ConfigError, match="63 bytes"):
        SqlTable(postgres, "long").put(release)
    assert SqlTable(url, "one").holds() == SqlTable(postgres, "long").holds() == set()


def test_a_value_that_a_database_cannot_hold(postgres, tmp_path):
    release = releases(steps=1, domain=Schema(odd=Categorical(["a\0b", "c"])))[0]
    SqlTable(f"sqlite:///{tmp_path}/zero.db", "zero").put(release)
    with pytest.raises(StateError, match="does not fit") as caught:
        SqlTable(postgres, "zero").put(release)
    assert caught.value.__suppress_context__
    assert SqlTable(postgres, "zero").holds() == set()


def test_a_table_of_somebody_else_is_left_alone(tmp_path, three):
    path = tmp_path / "mine.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE clinic (step INTEGER, sex TEXT)")
        connection.execute("INSERT INTO clinic VALUES (1, 'mine')")
    with pytest.raises(StateError, match="Table clinic is there already and has no column 'age'"):
        SqlTable(f"sqlite:///{path}", "clinic").put(three[0])
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT * FROM clinic").fetchall() == [(1, "mine")]
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)


@pytest.mark.parametrize(
    "url", ["mysql://x", "sqlite://", "sqlite:///", "postgresql:", "", None, 7]
)
def test_a_url_that_is_none(url):
    with pytest.raises(ConfigError, match="url must"):
        SqlTable(url, "one")


@pytest.mark.parametrize("table", ["", "a\0b", "\ud800", None, 7])
def test_a_table_that_has_no_name(table):
    with pytest.raises(ConfigError, match="table"):
        SqlTable("sqlite:///x.db", table)


def test_sqlite_files_that_cannot_be_used(tmp_path, three, monkeypatch):
    (tmp_path / "text.db").write_bytes(
        b"this is not a database, but it is long enough to be one" * 99
    )
    with sqlite3.connect(tmp_path / "locked.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(database, "_LOCKED", 0.0)
        cases = {
            "text.db": "not a SQLite database",
            "none/x.db": "cannot be opened",
            "locked.db": "busy",
            "\0": "opened",
        }
        for name, sentence in cases.items():
            sink = SqlTable(f"sqlite:///{tmp_path}/{name}", "one")
            for call in (sink.holds, lambda sink=sink: sink.put(three[0])):
                with pytest.raises(StateError, match=sentence):
                    call()


def test_postgresql_without_its_driver(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"pip install 'tailrace\[postgres\]'"):
        SqlTable("postgresql://somewhere", "one").holds()


def test_a_sink_never_shows_its_password():
    assert "secret" not in repr(SqlTable("postgresql://me:secret@somewhere/x", "one"))
