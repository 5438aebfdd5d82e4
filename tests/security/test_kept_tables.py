"""Tabular streams of the last version open, and go on by the new rounds."""

import tarfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tailrace import Selection, Stream

KEPT = Path(__file__).with_name("kept_tables.tar.gz")


def batch(step):
    """As in make_kept_tables.py."""
    rng = np.random.default_rng(step)
    first = rng.integers(0, 4, 400)
    others = {name: (first + rng.integers(0, 2, 400)) % 4 for name in "bcd"}
    return pl.DataFrame({"a": first, **others})


@pytest.mark.parametrize("name", ["pure", "approximate"])
def test_tables_of_the_last_version_open_and_go_on(tmp_path, name):
    with tarfile.open(KEPT) as archive:
        archive.extractall(tmp_path, filter="tar")
    path = tmp_path / f"{name}.tail"
    with Stream.open(path) as stream:
        assert stream.step == 5
        assert stream.mechanism.selection.singles == Selection(singles="3/5").singles, "its own"
        before = [stream.release(step).table.rows() for step in range(1, 6)]
        for step in range(5, 9):
            stream.push(batch(step))
    with Stream.open(path) as stream:
        assert [stream.release(step).table.rows() for step in range(1, 6)] == before
        for step in range(9, 12):
            last = stream.push(batch(step))
    view = last.view
    assert abs(view.total.value - 4800) < 5 * view.total.error + 50
    pair = view.marginal("a", "b").values / view.total.value
    assert np.trace(pair) + np.trace(np.roll(pair, -1, axis=1)) > 0.8, "two values of b for each a"
