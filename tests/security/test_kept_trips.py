"""Streams of journeys of earlier versions open, and go on: see make_kept_trips.py."""

import tarfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tailrace import Stream

# Of the first version with such streams, and of the one that landed last.
KEPT = {"kept_trips.tar.gz": "drop", "kept_trips2.tar.gz": "nearest"}


def trips(step, many=60):
    """As in make_kept_trips.py."""
    at = np.linspace(0.1, 0.9, 12)
    rng = np.random.default_rng(step)
    x, y = np.clip(at + rng.normal(0, 0.02, (2, many, len(at))), 0, 1)
    trip, order = np.divmod(np.arange(many * len(at)), len(at))
    places = {"x": x.ravel(), "y": y.ravel()}
    return pl.DataFrame({"trip": trip, "at": order, "id": trip % 30, **places})


@pytest.mark.parametrize("name", ["added", "cut", "people", "roads"])
@pytest.mark.parametrize("kept", KEPT)
def test_journeys_of_earlier_versions_open_and_go_on(tmp_path, kept, name):
    with tarfile.open(Path(__file__).with_name(kept)) as archive:
        archive.extractall(tmp_path, filter="tar")
    path = tmp_path / f"{name}.tail"
    with Stream.open(path) as stream:
        assert stream.step == (5 if name == "cut" else 4)
        outside = KEPT[kept] if name == "roads" else "drop"
        assert stream.mechanism.domain.outside == outside, "its own"
        before = [stream.release(step).table.rows() for step in range(1, 5)]
        for step in range(stream.step + 1, 9):
            stream.push(None if (step, name) == (5, "added") else trips(step))
    with Stream.open(path) as stream:
        assert [stream.release(step).table.rows() for step in range(1, 5)] == before
        for step in range(9, 13):
            last = stream.push(trips(step))
    total = last.view.total
    # A person has two journeys at most.
    wanted = 60 if name == "people" else 12 * 60
    assert abs(total.value - wanted) < 5 * total.error + 50
    if name in ("added", "cut"):
        middle = last.table.select("x", "y").to_numpy()
        assert np.median(np.abs(middle[:, 0] - middle[:, 1])) < 0.2, "from corner to corner"
