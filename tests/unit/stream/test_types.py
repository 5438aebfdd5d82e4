"""What type checkers and editors know of a release: `make types` reads these lines, too."""

from typing import assert_type

import polars as pl

import tailrace as tr
from tailrace.mechanisms.histogram import HistogramView
from tailrace.mechanisms.tabular.view import TabularView

WARD = tr.Schema(sex=tr.Categorical(["f", "m"]))
PARTS = {"privacy": tr.PureDP(epsilon=1), "unit": tr.Event(), "horizon": 7}


def test_the_view_of_a_stream_has_the_type_of_its_mechanism(tmp_path):
    counts = tr.HistogramStream(domain=WARD, **PARTS)
    rows = pl.DataFrame({"sex": ["f", "m"]})
    with tr.Stream.create(tmp_path / "ward.tail", counts, population="ward") as stream:
        assert_type(stream, tr.Stream[HistogramView | None])
        assert_type(stream.push(rows).view, HistogramView | None)
        assert_type(stream.view(1), HistogramView | None)
    with tr.Stream(counts) as stream:
        found = assert_type(stream.push(rows).view, HistogramView | None)
    assert isinstance(found, HistogramView)


def test_a_table_has_a_view_of_its_own():
    records = tr.TabularStream(domain=WARD, **PARTS)
    found = tr.Stream(records).push(pl.DataFrame({"sex": ["f", "m"]})).view
    assert found is None or isinstance(found, TabularView)
