"""Arrow streams as frames: read once, batch by batch, and counted as any other frame."""

import sys

import polars as pl
import pytest

from samples import WARD, rows, ward
from tailrace import (
    ZCDP,
    AddRemove,
    Box,
    DataError,
    Event,
    Noise,
    PanelWindow,
    PureDP,
    Schema,
    Stream,
    Trajectories,
    User,
)
from tailrace.counting import arrow
from tailrace.counting.plan import Plan

pa = pytest.importorskip("pyarrow")
DAY = rows(1, 300)
SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
MECHANISMS = {
    "events": ward(),
    "people": ward(unit=User(column="id", events=2)),
    "panel": PanelWindow(
        domain=Schema(sex=WARD.attributes[0]),
        unit=User(column="id"),
        privacy=ZCDP(rho=1),
        horizon=2,
        window=2,
        neighbours=AddRemove,
    ),
    "trips": Trajectories(
        domain=SQUARE, privacy=PureDP(epsilon=1), unit=Event(), trajectory="trip", order="time"
    ),
}


class Capsule:
    """A stream of another library: nothing but the method, and only once."""

    def __init__(self, frame, size=7):
        self._reader = reader(frame, size)

    def __arrow_c_stream__(self, requested_schema=None):
        held, self._reader = self._reader, None
        return held.__arrow_c_stream__(requested_schema)


def reader(frame, size=7):
    table = frame.to_arrow()
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=size))


STREAMS = {
    "reader": reader,
    "capsule": Capsule,
    "no batches": lambda frame: reader(frame.clear()),
    "batch": lambda frame: frame.to_arrow().combine_chunks().to_batches()[0],
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_stream_is_released_as_its_rows(name, stream):
    columns = ["id", "sex"] if name == "panel" else DAY.columns
    frame = (DAY.clear() if stream == "no batches" else DAY).select(columns)
    found = []
    for give in (lambda: frame.to_arrow(), lambda: STREAMS[stream](frame)):
        with Stream(MECHANISMS[name], noise=Noise.insecure(1)) as kept:
            found.append(kept.push(give()))
    assert isinstance(found[1].table, pa.Table) and found[1].table.equals(found[0].table)
    with Stream(MECHANISMS[name], noise=Noise.insecure(1)) as kept:
        kept.add(STREAMS[stream](frame))
        assert kept.publish().table.equals(found[0].table)


def test_few_rows_of_a_stream_are_counted_at_a_time(monkeypatch):
    monkeypatch.setattr(arrow, "_FEW", 20)
    seen, counted = [], Plan._counted
    monkeypatch.setattr(
        Plan, "_counted", lambda self, rows: (seen.append(len(rows)), counted(self, rows))[1]
    )
    counts = Plan(WARD).count(reader(DAY, 10))
    assert counts.tolist() == Plan(WARD).count(DAY).tolist()
    assert seen[0] == 0 and max(seen[:-1]) == 20 and sum(seen[:-1]) == 300


def test_a_stream_that_breaks_off_is_told_and_nothing_is_added(tmp_path):
    def broken():
        yield DAY.to_arrow().to_batches()[0]
        raise OSError("row 7 of anna is damaged")

    schema = DAY.to_arrow().schema
    made = {"population": "ward", "noise": Noise.insecure(1)}
    with Stream.create(tmp_path / "ward.tail", ward(), **made) as stream:
        with pytest.raises(DataError, match="broke off") as told:
            stream.add(pa.RecordBatchReader.from_batches(schema, broken()), key="k")
        assert "anna" not in str(told.value)
        assert stream.add(DAY, key="k")


@pytest.mark.parametrize("wrong", [pa.chunked_array([[1, 2]]), pl.Series([1, 2])])
def test_a_column_is_no_frame(wrong):
    with Stream(ward()) as stream, pytest.raises(DataError, match="record batches"):
        stream.push(wrong)


def test_a_stream_of_several_steps_of_a_panel_is_refused_unread():
    wrong = DAY.select("id", "sex", "time")
    given = reader(wrong)
    with Stream(MECHANISMS["panel"]) as stream, pytest.raises(DataError, match="'time'"):
        stream.push(given)
    assert given.read_all().num_rows == 300


def test_without_pyarrow_it_is_read_by_polars(monkeypatch):
    given = Capsule(DAY)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert arrow.readable(given).equals(DAY)
