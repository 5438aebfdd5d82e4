"""A release that is made once: with one call, or kept and charged; from every engine the same."""

import json

import numpy as np
import polars as pl
import pytest

from tailrace import (
    BudgetExceeded,
    Categorical,
    ConfigError,
    Event,
    HistogramStream,
    HorizonReached,
    Ledger,
    Noise,
    PureDP,
    Schema,
    Stream,
    Trajectories,
    User,
    papers,
    release_once,
)
from tailrace.domain import Box
from tailrace.storage.codec import pack
from tailrace.storage.store import peek

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)
MAKES = {"default": Trajectories, "paper": papers.trajectories}
UNITS = {"trajectory": Event(), "person": User(column="id")}


def made(make="default", unit=UNITS["trajectory"], epsilon=3, **options):
    common = {
        "domain": SQUARE,
        "privacy": PureDP(epsilon=epsilon),
        "unit": unit,
        "trajectory": "trip",
        "order": "at",
    }
    return MAKES[make](**common, **options)


def columns(seed=0, count=60):
    rng = np.random.default_rng(seed)
    trip = np.repeat(np.arange(count), rng.integers(1, 30, count))
    walk = rng.normal(0, 0.04, (len(trip), 2)).cumsum(axis=0) % 1
    at = rng.permutation(len(trip))
    return {
        "trip": [f"journey {number}" for number in trip],
        "at": at.tolist(),
        "x": walk[:, 0].tolist(),
        "y": walk[:, 1].tolist(),
        "id": (trip % 20).tolist(),
    }


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("make", MAKES)
def test_one_call_makes_the_release(make, unit):
    release = release_once(made(make, unit), pl.DataFrame(columns()), noise=Noise.insecure(1))
    table = release.table
    assert release.step == 1 and table.columns == ["trip", "at", "x", "y"]
    assert (
        table.schema["trip"] == table.schema["at"] == pl.Int64 and table.schema["x"] == pl.Float64
    )
    assert table["x"].is_between(0, 1).all() and table["y"].is_between(0, 1).all()
    firsts = table.group_by("trip", maintain_order=True).agg(pl.col("at"))
    assert firsts["trip"].to_list() == list(range(1, len(firsts) + 1)), (
        "counted from 1; no real id is seen"
    )
    assert all(at == list(range(1, len(at) + 1)) for at in firsts["at"].to_list())
    who = (
        "any one trajectory is"
        if unit == Event()
        else "everything that one person (column 'id') contributes"
    )
    assert who in str(release.guarantee) and "NO privacy" in str(release.guarantee)
    assert "not charged to any ledger" in str(release.guarantee)


def test_other_mechanisms_have_steps():
    ward = HistogramStream(
        domain=Schema(sex=Categorical(["f"])), privacy=PureDP(epsilon=1), unit=Event(), horizon=1
    )
    with pytest.raises(ConfigError, match="fed everything at once"):
        release_once(ward, None)
    with pytest.raises(ConfigError, match="made of a mechanism, for example"):
        release_once(Trajectories, None)


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("make", MAKES)
def test_kept_and_charged_it_is_the_same_release(tmp_path, make, unit):
    mechanism, rows = made(make, unit), pl.DataFrame(columns())
    with Stream.create(
        tmp_path / "c", mechanism, population="city", noise=Noise.insecure(1)
    ) as stream:
        kept = stream.push(rows)
        assert (
            stream._store.find("intent/adds") is None
            and stream._store.find("intent/counts") is None
        )
        with pytest.raises(HorizonReached):
            stream.push(rows)
    assert kept.table.equals(release_once(mechanism, rows, noise=Noise.insecure(1)).table)
    with Stream.open(tmp_path / "c") as stream:
        again = stream.release(1)
        assert stream.mechanism == mechanism and again.table.equals(kept.table)
        assert str(again.view.total) == str(kept.view.total)
        assert stream.push(None, step=1).table.equals(kept.table), (
            "the stored release, whatever is pushed"
        )
    (entry,) = Ledger(tmp_path / "tailrace.ledger").entries()
    assert entry.guarantee.loss == PureDP(epsilon=3) and entry.mark.step == 1
    assert entry.guarantee.short.startswith(
        "epsilon = 3 for one " + ("traj" if unit == Event() else "person")
    )
    said = json.loads((tmp_path / "c" / "releases" / "guarantee.json").read_text())
    assert said["horizon"] == 1 and "charged" not in said["sentence"]


def test_a_second_release_of_the_same_people_is_a_second_charge(tmp_path):
    # One costs 6 in rows: changing one row of a trajectory is two changes of it.
    Ledger(tmp_path / "tailrace.ledger").cap("city", PureDP(epsilon=7), Event())
    Stream.create(tmp_path / "a", made(), population="city").close()
    with pytest.raises(BudgetExceeded):
        Stream.create(tmp_path / "b", made(), population="city")


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("make", MAKES)
def test_cut_off_between_the_rounds_it_is_finished_from_what_was_sealed(
    tmp_path, monkeypatch, make, unit
):
    """The sealed batch holds no id and no coordinate: only cells, in order; and it is erased when
    the step is done.
    """
    mechanism, rows = made(make, unit), pl.DataFrame(columns())
    whole = release_once(mechanism, rows, noise=Noise.insecure(1))
    kind, calls = type(mechanism), []
    real = kind.measure

    def dies(self, state, counts, noise):
        calls.append(pack(counts))
        if len(calls) == mechanism.rounds:
            raise KeyboardInterrupt
        return real(self, state, counts, noise)

    monkeypatch.setattr(kind, "measure", dies)
    stream = Stream.create(tmp_path / "c", mechanism, population="city", noise=Noise.insecure(1))
    with stream, pytest.raises(KeyboardInterrupt):
        stream.push(rows)
    monkeypatch.setattr(kind, "measure", real)
    with Stream.open(tmp_path / "c") as stream:
        assert stream.step == 1 and stream.release(1).table.equals(whole.table)
        assert stream._store.find("intent/adds") is None


def test_nothing_is_deleted_from_what_is_released_once():
    with pytest.raises(ConfigError, match="without deletes"):
        Stream(made()).push(pl.DataFrame(columns()), deletes=pl.DataFrame(columns()))


def test_an_empty_frame_is_released_like_any_other():
    for nothing in (None, pl.DataFrame(columns()).clear()):
        release = release_once(made(epsilon=1), nothing, noise=Noise.insecure(2))
        assert release.view is not None and release.table.columns == ["trip", "at", "x", "y"]


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("engine", ["lazy", "pandas", "pyarrow", "duckdb", "shuffled"])
def test_every_engine_releases_the_same(engine, unit):
    rows = pl.DataFrame(columns())
    wanted = release_once(made(unit=unit), rows, noise=Noise.insecure(3)).rows
    if engine == "lazy":
        frame = rows.lazy()
    elif engine == "shuffled":
        frame = rows.sample(fraction=1, shuffle=True, seed=4)
    elif engine == "pandas":
        frame = pytest.importorskip("pandas").DataFrame(columns())
    else:
        frame = pytest.importorskip("pyarrow").table(columns())
        if engine == "duckdb":
            frame = pytest.importorskip("duckdb").from_arrow(frame)
    release = release_once(made(unit=unit), frame, noise=Noise.insecure(3))
    for name, values in wanted.columns.items():
        assert np.array_equal(release.rows.columns[name], values), name
    came, goes = (type(one).__module__.split(".")[0] for one in (frame, release.table))
    assert came.lstrip("_") == goes.lstrip("_")


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_spark_releases_the_same(unit, spark):
    pandas = pytest.importorskip("pandas")
    wanted = release_once(made(unit=unit), pl.DataFrame(columns()), noise=Noise.insecure(3)).rows
    frame = spark().createDataFrame(pandas.DataFrame(columns())).repartition(3)
    found = release_once(made(unit=unit), frame, noise=Noise.insecure(3)).rows
    assert all(
        np.array_equal(found.columns[name], values) for name, values in wanted.columns.items()
    )


def test_what_is_sealed_is_cells_in_order(tmp_path, monkeypatch):
    stream = Stream.create(
        tmp_path / "c", made("paper"), population="city", noise=Noise.insecure(1)
    )
    monkeypatch.setattr(stream, "_finish", lambda intent: (_ for _ in ()).throw(KeyboardInterrupt))
    with stream, pytest.raises(KeyboardInterrupt):
        stream.push(pl.DataFrame(columns()))
    private = tmp_path / "c" / "private"
    sealed = b"".join(file.read_bytes() for file in private.iterdir() if file.is_file())
    assert b"intent/adds" in sealed and b"journey" not in sealed, "no id of a trajectory is kept"
    assert peek(private, "about")[0]["mechanism"]["trajectory"] == "trip"
