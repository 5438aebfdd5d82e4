"""A stream follows a query of Spark: each batch counts once, whatever breaks off."""

from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest

from e2e import killing_spark
from tailrace import (
    Box,
    Calendar,
    Categorical,
    Event,
    HistogramStream,
    Integer,
    JourneyStream,
    Noise,
    PureDP,
    Schema,
    StateError,
    Stream,
    User,
    sinks,
)
from tailrace import spark as tailrace_spark
from tailrace.checks import check_sink
from tailrace.pipeline import run
from tailrace.sources import Reader
from tailrace.sources.spark import SparkFeed

pytestmark = pytest.mark.slow
WARD = Schema(sex=Categorical(["f", "m"], outside="other"), age=Integer(0, 9, outside="clip"))
DAYS = 3
CALENDAR = Calendar(start="2026-01-01", period="1 day", grace="6 hours")
COLUMNS = "id long, sex string, age double, at timestamp, op string"


def mechanism(unit):
    parts = {"privacy": PureDP(epsilon=1), "horizon": DAYS}
    return HistogramStream(domain=WARD, unit=unit, **parts)


def made(path, unit):
    told = {"population": "ward", "calendar": CALENDAR, "noise": Noise.insecure(1)}
    return Stream.create(path, mechanism(unit), **told)


def rows(seed, days=(1, 2, 3)):
    """Rows of several days in one file; person 0 has half of them."""
    rng = np.random.default_rng(seed)
    many = 60
    days = rng.choice(days, many)
    times = np.datetime64("2025-12-31T00:00", "us") + days.astype("m8[D]")
    return pl.DataFrame(
        {
            "id": np.where(rng.random(many) < 0.5, 0, rng.integers(0, 20, many)),
            "sex": rng.choice(["f", "m", "?"], many),
            "age": rng.integers(-2, 12, many).astype(float),
            "at": pl.Series(
                times + rng.integers(0, 86_399, many).astype("m8[s]")
            ).dt.replace_time_zone("UTC"),
            "op": rng.choice(["insert", "insert", "delete", "?"], many),
        }
    )


def wanted(unit, files):
    """The releases of the same rows, pushed day by day."""
    every = pl.concat(files)
    with Stream(mechanism(unit), noise=Noise.insecure(1)) as stream:
        for day in range(1, DAYS + 1):
            own = every.filter(pl.col("at").dt.day() == day)
            adds, gone = (own.filter(op=op).drop("at", "op") for op in ("insert", "delete"))
            yield content(stream.push(adds, gone))


def content(release):
    return release.view.estimates.tobytes(), release.rows.cells.tolist()


@pytest.fixture
def place(tmp_path, spark):
    """A folder of files that Spark streams, one a batch."""
    (tmp_path / "in").mkdir()

    def frame():
        reads = spark().readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        return reads.parquet(str(tmp_path / "in"))

    def write(*files):
        for file in files:
            number = len(list((tmp_path / "in").iterdir()))
            file.write_parquet(tmp_path / "in" / f"{number}.parquet")

    return tmp_path, frame, write


def feed(place, frame, at, **more):
    """The rows up to a time of the clock."""
    reader = Reader(domain=WARD, key=more.pop("key", None), time="at", op="op")
    told = {"reader": reader, "calendar": CALENDAR, "late": "next", **more}
    return SparkFeed(frame(), str(place / "checkpoint"), clock=lambda: at, **told)


def at(day, hour=12):
    return datetime(2026, 1, day, hour, tzinfo=UTC)


@pytest.mark.parametrize("unit", [Event(), User(column="id", events=2)], ids=["event", "user"])
def test_a_query_releases_what_pushes_would(unit, place):
    folder, frame, write = place
    files = [rows(1), rows(2)]
    write(*files)
    kept = sinks.Memory()
    with made(folder / "ward", unit) as stream:
        told = {"time": "at", "op": "op", "checkpoint": folder / "checkpoint"}
        found = [content(one) for one in tailrace_spark.run(stream, frame(), [kept], **told)]
        assert list(tailrace_spark.run(stream, frame(), [kept], **told)) == []
    assert found == list(wanted(unit, files))
    assert sorted(kept.holds()) == [1, 2, 3]


def trips():
    """Journeys of three days, eight points each, in one file."""
    rng, trip = np.random.default_rng(1), np.repeat(np.arange(120), 8)
    ended = np.datetime64("2026-01-01T12:00", "us") + (trip % DAYS).astype("m8[D]")
    return pl.DataFrame(
        {
            "trip": trip.astype(str),
            "id": (trip % 40).astype(str),
            "order": np.tile(np.arange(8), 120).astype(float),
            "x": np.clip(trip / 120 + rng.normal(0, 0.05, len(trip)), 0, 1),
            "y": rng.random(len(trip)),
            "ended": pl.Series(ended).dt.replace_time_zone("UTC"),
        }
    )


def test_a_query_of_journeys_releases_what_pushes_would(tmp_path, spark):
    square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)
    own = {"horizon": DAYS, "trajectory": "trip", "order": "order"}
    unit, much = User(column="id", events=3), PureDP(epsilon=5000)
    made = JourneyStream(domain=square, privacy=much, unit=unit, **own)
    (tmp_path / "in").mkdir()
    trips().write_parquet(tmp_path / "in" / "0.parquet")
    columns = "trip string, id string, order double, x double, y double, ended timestamp"
    frame = spark().readStream.schema(columns).parquet(str(tmp_path / "in"))
    told = {"population": "city", "calendar": CALENDAR, "noise": Noise.insecure(1)}
    with Stream.create(tmp_path / "city", made, **told) as stream:
        run = tailrace_spark.run(stream, frame, time="ended", checkpoint=tmp_path / "checkpoint")
        found = [release.rows.cells.tolist() for release in run]
    with Stream(made, noise=Noise.insecure(1)) as stream:
        for day, cells in enumerate(found, 1):
            own = trips().filter(pl.col("ended").dt.day() == day).drop("ended")
            assert stream.push(own).rows.cells.tolist() == cells
    assert len(found) == DAYS and found[0]


def test_the_clock_closes_steps_and_broken_runs_count_once(place, monkeypatch):
    folder, frame, write = place
    files = [rows(3, days=(1, 2)), rows(4, days=(1, 2)), rows(5, days=(2, 3))]
    with made(folder / "ward", Event()) as stream:
        # Nothing is closed, and half of the rows come before their step.
        write(files[0])
        assert list(run(stream, feed(folder, frame, at(1)))) == []
        # Killed before the batch was added, and then right after it was.
        write(files[1])
        monkeypatch.setattr(
            stream, "add", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            list(run(stream, feed(folder, frame, at(1))))
        monkeypatch.undo()
        batches = feed(folder, frame, at(1)).more(1, stream.note)
        portion = next(batches)
        stream.add(portion.batches[1].adds, portion.batches[1].deletes, note=portion.note)
        batches.close()
        assert stream.note["batch"] == 1
        found = [content(one) for one in run(stream, feed(folder, frame, at(2)))]
        assert len(found) == 1 and stream.note["batch"] == 1, "step 1 closed without a new row"
        write(files[2])
        found += [content(one) for one in run(stream, feed(folder, frame, at(4)))]
    assert found == list(wanted(Event(), files))


def test_a_lost_checkpoint_is_refused_until_a_person_says_so(place):
    folder, frame, write = place
    files = [rows(6, days=(1,)), rows(7, days=(1, 2, 3))]
    with made(folder / "ward", Event()) as stream:
        write(files[0])
        assert list(run(stream, feed(folder, frame, at(1)))) == []
        query = stream.note["query"]
        (folder / "checkpoint").rename(folder / "elsewhere")
        (folder / "in" / "0.parquet").unlink()
        write(files[1])
        with pytest.raises(StateError, match=f'replaces="{query}"'):
            list(run(stream, feed(folder, frame, at(4))))
        with pytest.raises(StateError, match="replaces="):
            list(run(stream, feed(folder, frame, at(4), replaces="another")))
        found = [content(one) for one in run(stream, feed(folder, frame, at(4), replaces=query))]
    assert found == list(wanted(Event(), files))
    with made(folder / "other", Event()) as stream:
        write(rows(8))
        with pytest.raises(StateError, match="goes on with batch 1"):
            list(run(stream, feed(folder, frame, at(4))))


def test_the_command_runs_a_configuration(place, configure, tailrace, monkeypatch):
    folder, _, write = place
    write(rows(9), rows(10))
    monkeypatch.chdir(folder)
    (folder / "reader.txt").write_text("maxFilesPerTrigger=1\n")
    configure(
        folder,
        mechanism='kind = "HistogramStream"\nhorizon = 3\n'
        'privacy = { kind = "PureDP", epsilon = 500 }\nunit = { kind = "Event" }',
        source=f'kind = "Spark"\nloads = "parquet"\npath = "{folder}/in"\ncolumns = "{COLUMNS}"\n'
        f'options = "reader.txt"\ncheckpoint = "{folder}/checkpoint"\ntime = "at"',
    )
    tailrace("run", "stream.toml")
    with Stream.open(folder / "ward.tail") as stream:
        assert stream.step == 3 and stream.note["batch"] == 1
        counts = [round(one) for one in stream.release(3).view.estimates.sum(axis=-1).flat]
    known = pl.concat([rows(9), rows(10)]).filter(pl.col("sex").is_in(["f", "m"]))
    assert sum(counts) == len(known)
    tailrace("run", "stream.toml")


def test_executors_draw_and_write_tables(place, spark):
    folder, _, _ = place
    session = spark()
    check_sink(lambda: sinks.SparkTables(str(folder / "checked")))
    sink = sinks.SparkTables(str(folder / "tables"))
    told = {"population": "ward", "noise": Noise.insecure(1), "full": "none"}
    with Stream.create(folder / "ward", mechanism(Event()), **told) as stream:
        for seed in (11, 12):
            release = stream.push(session.createDataFrame(rows(seed).drop("at", "op").to_arrow()))
            for _ in range(2):
                sink.put(release)
    assert sink.holds() == {1, 2}
    there = session.read.parquet(str(folder / "tables")).where("step = 2").drop("step").toArrow()
    assert len(release.rows) == 0 and there.num_rows > 0
    assert pl.from_arrow(there).sort(pl.all()).equals(release.drawn().sort(pl.all()))


def test_a_driver_that_is_killed_counts_every_row_once(tmp_path):
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    left = killing_spark.lives(tmp_path, [("driver", "merge")], seed=3, master="local[2]")
    assert left == [], "killed in the middle of a merge"
    killing_spark.check(tmp_path)
