"""Steps filled by several calls: keys, refusals, forks, and what stays of the rows."""

import sqlite3
from datetime import UTC, datetime

import polars as pl
import pytest

from samples import rows, ward
from tailrace import (
    Box,
    Categorical,
    ConfigError,
    DataError,
    Event,
    HistogramStream,
    HorizonReached,
    Noise,
    PureDP,
    Schema,
    SpatialStream,
    StateError,
    Stream,
    Trajectories,
    User,
)
from tailrace.ledger import Ledger
from tailrace.mechanisms.trajectories.plan import JourneyPlan
from tailrace.storage import durable

DAY = pl.DataFrame({"id": ["anna", "bert", "carl"], "sex": ["f", "m", "f"]})
PERSON = User(column="id", events=2)
MANY = pl.DataFrame({"id": range(3000), "sex": ["f"] * 3000})


def kept(folder, unit=Event(), horizon=9, **more):
    made = {"population": "ward", "noise": Noise.insecure(1)}
    return Stream.create(folder / "ward.tail", ward(unit=unit, horizon=horizon), **made, **more)


def test_what_was_added_is_there_when_the_stream_is_opened_again(tmp_path):
    whole = Stream(ward(), noise=Noise.insecure(1)).push(pl.concat([DAY, DAY]))
    with kept(tmp_path) as stream:
        assert stream.add(DAY, key="first")
    with Stream.open(tmp_path / "ward.tail") as stream:
        assert not stream.add(DAY, key="first") and stream.add(DAY, key="second")
        assert stream.publish().table.equals(whole.table)


def test_a_key_is_known_at_every_later_step_and_without_a_look_at_the_rows(tmp_path):
    with kept(tmp_path, horizon=2) as stream:
        stream.add(DAY, key="batch 7")
        stream.publish()
        assert not stream.add("no frame at all", key="batch 7")
        stream.publish()
        assert not stream.add(DAY, key="batch 7"), "also when the horizon is reached"
        with pytest.raises(HorizonReached, match="All 2 steps"):
            stream.add(DAY, key="batch 8")


@pytest.mark.parametrize("unit", [Event(), PERSON])
def test_nothing_of_the_rows_stays_once_they_are_released(tmp_path, unit):
    with kept(tmp_path, unit) as stream:
        before = set((tmp_path / "ward.tail/private/files").iterdir())
        stream.add(DAY, key="the secret name of this batch")
        stream.add(MANY)
        here = set((tmp_path / "ward.tail/private/files").iterdir()) - before
        assert bool(here) == (unit is PERSON), "a large part is a file"
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in here)
        stream.publish()
        assert not any(path.exists() for path in here) and not stream._store.names("open")
    database = (tmp_path / "ward.tail/private/state.db").read_bytes()
    assert b"secret name" not in database and b"anna" not in database


def test_a_refused_call_adds_nothing_and_leaves_the_stream_usable(tmp_path):
    wrong = pl.DataFrame({"id": [1.5] * 3000, "sex": ["f"] * 3000})
    with kept(tmp_path, PERSON) as stream:
        before = set((tmp_path / "ward.tail/private/files").iterdir())
        # The deletes are read once the inserts are written.
        with pytest.raises(DataError, match="floats"):
            stream.add(MANY, wrong, key="k")
        assert not stream._store.names("open")
        for key in ("", 7):
            with pytest.raises(ConfigError, match="key must be a text"):
                stream.add(DAY, key=key)
        with pytest.raises(DataError, match="data frame"):
            stream.add([1, 2])
        assert stream.add(DAY, key="k")
        assert stream.publish().step == 1
    with pytest.raises(StateError, match="closed"):
        stream.add(DAY)
    with Stream.open(tmp_path / "ward.tail") as stream:
        left = set((tmp_path / "ward.tail/private/files").iterdir()) - before
        assert all(path.stat().st_nlink > 1 for path in left), "all of it is published"


def test_deletes_need_a_mechanism_that_covers_them():
    places = SpatialStream(
        domain=Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8),
        privacy=PureDP(epsilon=1),
        unit=Event(),
        horizon=2,
        deletes=False,
    )
    with Stream(places) as stream:
        with pytest.raises(ConfigError, match="without deletes"):
            stream.add(None, rows(1))
        with pytest.raises(ConfigError, match="without deletes"):
            stream.add(None, later={2: (None, rows(1))})


def test_a_published_step_comes_back_and_a_later_one_is_refused():
    with Stream(ward(), noise=Noise.insecure(1)) as stream:
        stream.add(DAY)
        first = stream.publish(step=1)
        assert stream.publish(step=1).table.equals(first.table) and stream.step == 1
        with pytest.raises(StateError, match="next step is 2"):
            stream.publish(step=3)
        assert stream.publish().step == 2, "nothing was added: a step without rows"


def test_the_published_time_is_when_it_was_asked_for(tmp_path):
    asked = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
    with kept(tmp_path) as stream:
        stream.add(DAY)
        assert stream.publish(asked=asked).provenance["time"] == "2026-05-04T03:02:01+00:00"


def test_the_release_is_of_the_kind_of_the_last_frame():
    pandas = pytest.importorskip("pandas")
    with Stream(ward(), noise=Noise.insecure(1)) as stream:
        stream.add(DAY.to_pandas())
        stream.add(None)
        assert isinstance(stream.publish().table, pandas.DataFrame)
        assert isinstance(stream.publish().table, pandas.DataFrame), "one kind throughout"


@pytest.mark.parametrize("unit", [Event(), PERSON])
def test_a_fork_has_what_was_added_and_its_keys(tmp_path, unit):
    with kept(tmp_path, unit) as stream:
        stream.add(DAY, key="one")
        stream.publish()
        stream.add(MANY, key="two")
    with Stream.fork(tmp_path / "ward.tail", tmp_path / "fork.tail") as fork:
        assert not fork.add(DAY, key="one") and not fork.add(DAY, key="two")
        assert fork.publish().view.count(sex="f").value > 2000
    with Stream.open(tmp_path / "ward.tail") as stream:
        assert stream.publish().view.count(sex="f").value > 2000
    assert [entry.mark.step for entry in Ledger(tmp_path / "tailrace.ledger").entries()] == [2, 2]


def test_a_fork_of_a_step_cut_off_takes_its_rows_again(tmp_path):
    class Killed(BaseException):
        pass

    def dies(name):
        if name == "intent, after":
            raise Killed

    stream = kept(tmp_path)
    stream.add(DAY, key="one")
    durable.hook = dies
    try:
        with pytest.raises(Killed):
            stream.publish()
    finally:
        durable.hook = None
    stream.close()
    with Stream.fork(tmp_path / "ward.tail", tmp_path / "fork.tail") as fork:
        assert fork.add(DAY, key="one") and fork.publish().step == 1


def test_a_damaged_part_is_refused(tmp_path):
    with kept(tmp_path) as stream:
        stream.add(DAY)
    with sqlite3.connect(tmp_path / "ward.tail/private/state.db") as database:
        database.execute("UPDATE value SET data = x'00' WHERE name = 'open/00000001'")
    stream = Stream.open(tmp_path / "ward.tail")
    with stream, pytest.raises(StateError, match="damaged"):
        stream.publish()


def test_a_plan_that_cannot_read_parts_takes_one_push(monkeypatch):
    monkeypatch.delattr(JourneyPlan, "part")
    square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
    columns = {"trajectory": "trip", "order": "time"}
    trips = Trajectories(domain=square, privacy=PureDP(epsilon=1), unit=Event(), **columns)
    with Stream(trips) as stream, pytest.raises(ConfigError, match="in one call"):
        stream.add(rows(1))


def test_a_mechanism_of_several_rounds_takes_one_push():
    class Twice(HistogramStream):
        rounds = 2

    twice = Twice(
        domain=Schema(sex=Categorical(["f", "m"])),
        privacy=PureDP(epsilon=1),
        unit=Event(),
        horizon=3,
    )
    with Stream(twice) as stream, pytest.raises(ConfigError, match="in one call"):
        stream.add(DAY)


@pytest.mark.parametrize("unit", [Event(), PERSON])
@pytest.mark.parametrize("stored", [True, False])
def test_early_rows_are_counted_at_their_step_as_if_they_were_pushed_there(tmp_path, unit, stored):
    made = ward(unit=unit, horizon=3)
    gone, more = DAY[:1], MANY.with_columns(pl.col("id").cast(pl.String))
    with Stream(made, noise=Noise.insecure(1)) as whole:
        pushed = [whole.push(DAY), whole.push(pl.concat([DAY, more]), gone), whole.push(None)]
    parts = {"noise": Noise.insecure(1)}
    stream = (
        Stream.create(tmp_path / "ward.tail", made, population="ward", **parts)
        if stored
        else Stream(made, **parts)
    )
    with stream:
        stream.add(DAY, later={2: (DAY, None), 4: (DAY, DAY)}, note={"0": 1})
        stream.add(None, later={2: (None, gone)}, note={"0": 2})
        found = [stream.publish()]
        assert stream.note == {"0": 2}, "a release leaves the note"
        stream.add(more)
        found += [stream.publish(), stream.publish()]
        assert [one.table.rows() for one in found] == [one.table.rows() for one in pushed]
        assert not stored or not stream._store.names("later"), "beyond the horizon none is kept"


def test_early_rows_and_the_note_are_there_when_the_stream_is_opened_again(tmp_path):
    with kept(tmp_path, PERSON) as stream:
        assert stream.note is None
        stream.add(None, later={2: (DAY, None)}, note=["a", 1])
        stream.add(None, later={2: (MANY, None)})
        assert stream.publish().step == 1
    with Stream.fork(tmp_path / "ward.tail", tmp_path / "fork.tail") as fork:
        assert fork.note == ["a", 1] and fork.publish().view.count(sex="f").value > 2000
    with Stream.open(tmp_path / "ward.tail") as stream:
        assert stream.note == ["a", 1] and stream.publish().view.count(sex="f").value > 2000
        assert not stream._store.names("later")
    files = (tmp_path / "ward.tail/private/files").iterdir()
    database = (tmp_path / "ward.tail/private/state.db").read_bytes()
    assert b"anna" not in database + b"".join(path.read_bytes() for path in files)


def test_early_rows_of_the_wrong_shape_are_refused_when_they_come(tmp_path):
    with kept(tmp_path) as stream:
        for later, error, sentence in (
            ({2: (pl.DataFrame({"age": [1]}), None)}, DataError, "'sex'"),
            ({99: (pl.DataFrame({"age": [1]}), None)}, DataError, "'sex'"),
            ({1: (DAY, None)}, StateError, "after the next one, which is 1"),
            ({2.5: (DAY, None)}, ConfigError, "later must be"),
            ({2: DAY[:0]}, ConfigError, "pairs"),
            ([DAY], ConfigError, "pairs"),
        ):
            with pytest.raises(error, match=sentence):
                stream.add(DAY, later=later, note=1)
        for note in ({1: 2}, object(), float("nan"), (1, 2)):
            with pytest.raises(ConfigError, match="note must be made of plain values"):
                stream.add(DAY, note=note)
        assert stream.note is None and not stream._store.names("open")
        assert not stream._store.names("later")
