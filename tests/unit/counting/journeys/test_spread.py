"""Journeys in Spark: the same releases, no point on the driver, whatever breaks off."""

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from executing import Session
from tailrace import (
    Box,
    ConfigError,
    Corrupt,
    Event,
    JourneyStream,
    Noise,
    PureDP,
    Stream,
    Trajectories,
    User,
    Window,
    papers,
    trajectories,
)
from tailrace.counting import executors, jobs, parts
from tailrace.counting.journeys.reading import Reading

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)
CLOCK = trajectories.DayClock(start="2026-01-01T00:00:00", end="2026-01-02T00:00:00")
# So that some of few journeys are drawn.
PARTS = {"domain": SQUARE, "privacy": PureDP(epsilon=5000), "trajectory": "trip"}
ONCE = {
    "event": lambda: Trajectories(unit=Event(), order="at", **PARTS),
    "person": lambda: Trajectories(unit=User(column="id"), order="text", **PARTS),
    "times": lambda: Trajectories(unit=Event(), order="when", timing=CLOCK, **PARTS),
    "papers": lambda: papers.trajectories(unit=Event(), order="at", **PARTS),
}
EACH_STEP = {
    "event": Event(),
    "user": User(column="id", events=3),
    "window": Window(steps=2, column="id", events=2),
}
TOLD = {"population": "city", "noise": Noise.insecure(1)}


def rows(seed, many=1500):
    """Points of some 200 journeys; person 0 has half of them."""
    rng = np.random.default_rng(seed)
    trip = rng.integers(0, 200, many)
    seconds = rng.integers(0, 86_400, many)
    when = np.datetime64("2026-01-01", "us") + seconds.astype("m8[s]")
    return pl.DataFrame(
        {
            "trip": pl.Series(trip).set(pl.Series(rng.random(many) < 0.02), None),
            "id": np.where(trip < 100, 0, trip // 4),
            "at": pl.Series(seconds).set(pl.Series(rng.random(many) < 0.02), None),
            "when": pl.Series(when).dt.replace_time_zone("UTC"),
            "text": np.datetime_as_string(when),
            "x": (trip / 200 + rng.random(many) * 0.3) % 1.1,
            "y": rng.random(many),
        }
    )


def content(release):
    columns = [one.tolist() for one in release.rows.columns.values()]
    return release.rows.cells.tolist(), columns, str(release.view)


def once(name, frame):
    with Stream(ONCE[name](), noise=Noise.insecure(1)) as stream:
        return content(stream.push(frame))


def stream_of(unit, horizon=4):
    return JourneyStream(unit=unit, order="at", horizon=horizon, **PARTS)


def steps(path, unit, there):
    """Releases of four steps; `there` puts a frame in Spark, at some of them."""
    with Stream.create(path, stream_of(unit), **TOLD) as stream:
        for step in range(1, 5):
            frame = rows(step)
            if step == 3:
                # A journey's points come in two parts, of two engines.
                stream.add(there(frame[:700]))
                frame = frame[700:]
            yield content(stream.push(there(frame) if step == 2 else frame))


@pytest.fixture
def elsewhere(monkeypatch):
    """Put frames where a session's tasks count them."""

    def put(session):
        def lazy(frame):
            lies = frame is not None and "there" in frame.columns
            return nw.from_native(frame.lazy()) if lies else None

        def chosen(found, columns, time):
            return session.frame(found.select(*columns).collect().to_arrow())

        monkeypatch.setattr(jobs, "session", lambda: session)
        monkeypatch.setattr(parts, "_there", lazy)
        monkeypatch.setattr(executors, "chosen", chosen)
        monkeypatch.setattr("tailrace.mechanisms.trajectories.plan.check_size", lambda *_: None)
        monkeypatch.setattr(nw.LazyFrame, "to_native", lambda self: self)
        monkeypatch.setattr(nw.LazyFrame, "sparkSession", session, raising=False)
        return lambda frame: frame.with_columns(there=1)

    return put


@pytest.mark.parametrize("name", ONCE)
def test_tasks_count_what_one_machine_does_also_where_they_run_twice(name, elsewhere):
    wanted = once(name, rows(1))
    assert len(wanted[0]), "no journeys are drawn"
    there = elsewhere(Session(partitions=5, twice=True))
    assert once(name, there(rows(1))) == wanted


@pytest.mark.parametrize("unit", EACH_STEP.values(), ids=EACH_STEP)
def test_a_stream_may_move_to_tasks_and_back(unit, elsewhere, tmp_path):
    wanted = list(steps(tmp_path / "here", unit, lambda frame: frame))
    assert len(wanted[-1][0]), "no journeys are drawn"
    there = elsewhere(Session(twice=True))
    assert list(steps(tmp_path / "there", unit, there)) == wanted


def test_a_step_cut_off_is_finished_without_tasks(elsewhere, tmp_path, monkeypatch):
    wanted = once("event", rows(1))
    there = elsewhere(Session())
    # Its second round is never counted.
    measure = Trajectories.measure

    def cut_off(self, state, counts, noise):
        if int(state.public.round):
            raise KeyboardInterrupt
        return measure(self, state, counts, noise)

    monkeypatch.setattr(Trajectories, "measure", cut_off)
    with (
        Stream.create(tmp_path / "city", ONCE["event"](), **TOLD) as stream,
        pytest.raises(KeyboardInterrupt),
    ):
        stream.push(there(rows(1)))
    monkeypatch.setattr(Trajectories, "measure", measure)
    monkeypatch.setattr(jobs, "session", lambda: None)
    with Stream.open(tmp_path / "city") as stream:
        assert stream.step == 1 and content(stream.release(1)) == wanted
    left = (tmp_path / "city" / "private" / "memory").iterdir()
    assert not [path for path in left if path.name.startswith("add-")], "points are left"


def test_files_last_until_their_step_and_damage_is_told(elsewhere, tmp_path, monkeypatch):
    there = elsewhere(Session())
    with Stream.create(tmp_path / "city", stream_of(EACH_STEP["user"]), **TOLD) as stream:
        assert stream.add(there(rows(1)), key="morning")
    with Stream.open(tmp_path / "city") as stream:
        assert not stream.add(there(rows(1)), key="morning")
        file = next((tmp_path / "city" / "private" / "memory").glob("add-*/000-*"))
        file.write_bytes(b"anna")
        monkeypatch.setattr(jobs, "session", lambda: None)
        with pytest.raises(Corrupt) as caught:
            stream.publish()
        assert "anna" not in str(caught.value)


@pytest.fixture
def no_point_is_fetched(monkeypatch):
    """Reading rows of Spark on the driver fails."""
    read = Reading.rows

    def refused(self, frame, key=bytes(16)):
        assert not hasattr(frame, "sparkSession"), "points were read on the driver"
        return read(self, frame, key)

    monkeypatch.setattr(Reading, "rows", refused)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "partitions"), [("event", 1), ("person", 5), ("times", 16)])
def test_a_release_is_that_of_one_machine(name, partitions, spark, no_point_is_fetched):
    frame = spark().createDataFrame(rows(1).to_arrow()).repartition(partitions)
    assert once(name, frame) == once(name, rows(1))


@pytest.mark.slow
def test_a_stream_may_move_to_spark_and_back(spark, tmp_path, no_point_is_fetched):
    def there(frame):
        return spark().createDataFrame(frame.to_arrow()).repartition(3)

    found = list(steps(tmp_path / "there", EACH_STEP["user"], there))
    assert found == list(steps(tmp_path / "here", EACH_STEP["user"], lambda frame: frame))


@pytest.mark.slow
def test_what_is_too_much_for_the_driver_is_refused_before_anything_runs(spark, monkeypatch):
    frame = spark().sql("select raise_error('ran') trip, 1 at, raise_error('ran') x, 0.5 y")
    monkeypatch.setattr(executors, "_BYTES", 1 << 40)
    with Stream(ONCE["event"]()) as stream, pytest.raises(ConfigError, match="to the driver"):
        stream.push(frame)
