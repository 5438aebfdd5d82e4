"""Delta tables: what every sink keeps, and what readers make of them."""

import polars as pl
import pytest

from samples import ward
from tailrace import ConfigError, Noise, StateError, Stream
from tailrace.checks import check_sink
from tailrace.sinks import DeltaTables
from tailrace.storage import durable

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")


def releases(seed=1):
    with Stream(ward(), noise=Noise.insecure(seed)) as stream:
        for many in (30, 5, 20):
            frame = pl.DataFrame({"sex": ["f", "m"] * many, "age": [1, 2] * many})
            yield stream.push(frame.select(*stream.mechanism.domain.columns))


def test_it_keeps_what_every_sink_does(tmp_path):
    check_sink(lambda: DeltaTables(str(tmp_path / "delta")))


def test_the_table_of_a_step_is_what_was_added_and_not_removed(tmp_path):
    sink = DeltaTables(str(tmp_path))
    for release in releases():
        sink.put(release)
        added, gone = (pl.read_delta(str(tmp_path / name)) for name in ("added", "removed"))
        live = added.join(gone, on="row", how="anti").sort("row").drop("step", "row")
        assert live.equals(pl.DataFrame(release.table))


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_a_delivery_that_was_cut_off_goes_in_once(cut, tmp_path, monkeypatch):
    sink, (one, two, *_) = DeltaTables(str(tmp_path)), releases()
    sink.put(one)
    left = [cut]

    def hook(name):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(durable, "hook", hook)
    with pytest.raises(KeyboardInterrupt):
        sink.put(two)
    monkeypatch.undo()
    assert sink.holds() == {1}
    if cut > 1:
        other = list(releases(seed=2))[1]
        with pytest.raises(StateError, match="different release"):
            sink.put(other)
    sink.put(two)
    assert sink.holds() == {1, 2}
    added = pl.read_delta(str(tmp_path / "added"))
    assert added["row"].is_unique().all() and len(added.filter(step=2)) == len(two.added)


def test_what_cannot_be_a_place_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="path must be"):
        DeltaTables(" ")
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot be read or written"):
        DeltaTables(str(tmp_path / "file")).put(next(releases()))
