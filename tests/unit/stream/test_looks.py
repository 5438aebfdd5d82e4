"""What a stream and its releases look like: kinds of frames, and short texts."""

import pandas as pd
import polars as pl

import tailrace as tr
from samples import ward
from tailrace import Noise, Stream
from tailrace.stream.release import Kind

ROWS = {"sex": ["f"] * 40, "age": [3] * 40}


def test_the_frame_that_was_pushed_comes_out_of_every_release():
    stream = Stream(ward())
    stream.push(pd.DataFrame(ROWS))
    assert isinstance(stream.push(None).table, pd.DataFrame)
    assert isinstance(stream.release(1).table, pd.DataFrame)
    stream.push(pl.DataFrame(ROWS))
    assert isinstance(stream.release(1).table, pl.DataFrame)


def test_a_stream_that_is_opened_again_gives_frames_of_the_kind_that_it_was_fed(tmp_path):
    with Stream.create(tmp_path / "w.tail", ward(), population="w") as stream:
        stream.push(pd.DataFrame(ROWS))
    with Stream.open(tmp_path / "w.tail") as stream:
        assert isinstance(stream.release(1).table, pd.DataFrame)
        assert isinstance(stream.push(None).changes.added, pd.DataFrame)
    with Stream.open(tmp_path / "w.tail") as stream:
        assert isinstance(stream.push(pl.DataFrame(ROWS)).table, pl.DataFrame)
    with Stream.open(tmp_path / "w.tail") as stream:
        assert isinstance(stream.release(2).table, pl.DataFrame)
    assert Kind.kept(["pandas"]) == Kind.kept("pyspark") == Kind("polars")


def test_streams_and_releases_are_short_to_look_at(tmp_path):
    promise = "epsilon = 1 for one event over 9 steps"
    noise = Noise.insecure(1)
    with Stream.create(tmp_path / "w.tail", ward(), population="w", noise=noise) as stream:
        release = stream.push(pl.DataFrame(ROWS))
        assert repr(stream) == f"<stream w.tail at step 1 of 9: HistogramStream; {promise}>"
        assert "<th>promise</th>" in stream._repr_html_()
    columns = ", ".join(release.table.columns)
    rows = f"{len(release.table)} rows of {columns}"
    assert repr(release) == f"<release of step 1: {rows}; {promise}>"
    assert f"{len(release.table)} of {columns}" in release._repr_html_()
    assert "in memory" in repr(tr.Stream(ward()))


def test_a_view_is_short_to_look_at():
    view = Stream(ward(), noise=Noise.insecure(1)).push(pl.DataFrame(ROWS)).view
    assert repr(view) == f"<view: cells 2 of sex; records {view.count()}>"
    assert "<th>records</th>" in view._repr_html_()
