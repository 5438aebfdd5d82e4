"""Columns named like patterns of Polars: each is the column of that name, and no other."""

import polars as pl
import pytest

import tailrace as tr
from tailrace.calendar import Calendar
from tailrace.checks import check_mechanism
from tailrace.counting.plan import Plan
from tailrace.sources import files
from tailrace.sources.examine import examine
from tailrace.sources.reading import Reader

# The second finds "other", the fourth every column.
NAMES = ("^sex$", "^o.*$", "^$", "*")
ENGINES = {
    "polars": lambda frame: frame,
    "lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "pyarrow": lambda frame: frame.to_arrow(),
}


def sexes(name):
    return tr.Schema(
        **{
            name: tr.Categorical(["f", "m"]),
            "other": tr.Categorical(["m", "f"]),
            f"{name}2": tr.Real(edges=[0, 1, 2]),
        }
    )


def day(name):
    return pl.DataFrame(
        {
            name: ["f", "m", " m", None],
            "other": ["m", "f", "m", "f"],
            "sex": ["x"] * 4,
            f"{name}2": [0.5, 1.5, 1.5, 0.5],
        }
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", ENGINES)
def test_counted_on_every_engine_as_under_a_plain_name(name, engine):
    plain = Plan(sexes("plain")).count(day("plain"))
    assert plain.sum() == 3
    assert Plan(sexes(name)).count(ENGINES[engine](day(name))).tolist() == plain.tolist()
    numbers = tr.Schema(**{name: tr.Integer(0, 3)})
    frame = pl.DataFrame({name: [1, 1, 3], "other": [0, 0, 0]})
    assert Plan(numbers).count(ENGINES[engine](frame)).tolist() == [0, 2, 0, 1]
    whose = Plan(numbers, key=f"{name}")
    (ids, cells), *_ = whose.rows(ENGINES[engine](frame))
    assert ([int(one) for one in ids], cells.tolist()) == ([1, 1, 3], [1, 1, 3])


@pytest.mark.parametrize("name", NAMES)
def test_streamed_kept_and_read_again(tmp_path, name):
    whose = {"privacy": tr.PureDP(epsilon=1), "unit": tr.User(column=name, events=1), "horizon": 3}
    mechanism = tr.HistogramStream(domain=tr.Schema(**{name: tr.Integer(0, 3)}), **whose)
    frame = pl.DataFrame({name: [1, 1, 3], "other": [0, 0, 0]})
    with tr.Stream.create(tmp_path / "w", mechanism, population="p") as stream:
        stream.add(frame, later={3: (frame, None)})
        table = stream.publish().table
    with tr.Stream.open(tmp_path / "w") as stream:
        assert stream.release(1).table.equals(table) and table.columns == [name]
        stream.push(frame.lazy(), frame)
        stream.publish()


def test_journeys_and_the_conformance_suite():
    rows = {
        "^trip$": [1, 1, 2, 2],
        "^at$": [1, 2, 1, 2],
        "^x$": [0.1, 0.9] * 2,
        "^y$": [0.2, 0.3] * 2,
    }
    square = tr.Box(low=(0, 0), high=(1, 1), columns=("^x$", "^y$"), cells=8)
    trips = {"trajectory": "^trip$", "order": "^at$", "privacy": tr.PureDP(epsilon=1)}
    mechanism = tr.Trajectories(domain=square, unit=tr.Event(), **trips)
    check_mechanism(mechanism, [(pl.DataFrame(rows), None)])
    unit = tr.User(column="^id$", events=1)
    places = tr.SpatialStream(domain=square, privacy=trips["privacy"], unit=unit, horizon=3)
    people = pl.DataFrame({**rows, "^id$": ["a", "b", "c", "d"], "id": ["a"] * 4})
    check_mechanism(places, [(people, None), (None, people[:2])])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_read_from_files_in_every_role(tmp_path, name, ending):
    roles = {"key": "k", "time": "t", "op": "o", "arrived": "a", "order": "n", "id": "i"}
    columns = {role: f"{name[:-1]}{letter}{name[-1]}" for role, letter in roles.items()}
    made = Reader(domain=sexes(name), aliases={name: {"female": "f"}}, **columns)
    frame = pl.DataFrame(
        {
            name: ["female", "f", "m", "m"],
            "other": ["f"] * 4,
            f"{name}2": ["0.5"] * 4,
            columns["key"]: ["7", "7", "8", "8"],
            columns["time"]: ["2026-01-01"] * 4,
            columns["arrived"]: ["2026-01-01"] * 4,
            columns["op"]: ["insert", "insert", "delete", "no"],
            columns["order"]: ["1", "1", "2", "x"],
            columns["id"]: ["1", "1", None, "3"],
        }
    )
    path = tmp_path / f"day.{ending}"
    frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)
    there = files.read(path, path.read_bytes(), made.columns)
    read = made.read(there)
    assert read.frame[name].to_list() == ["f", "f", "m", "m"]
    assert read.deletes.tolist() == [False, False, True, False]
    assert made.once(read.frame).tolist() == [True, False, True, True]
    calendar = Calendar(start="2026-01-01", period="1 day", timezone="UTC")
    told = examine(made, calendar, there)
    assert (told.counted, told.duplicates, told.unknown_op) == (2, 1, 1)
