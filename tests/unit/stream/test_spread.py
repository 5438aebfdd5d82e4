"""Rows of people that executors wrote to files belong to the stream until they are counted."""

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from executing import Session
from samples import ward
from tailrace import Stream, User
from tailrace.counting import executors, jobs, parts


@pytest.fixture
def there(monkeypatch):
    """Let frames with a column `there` lie in Spark."""
    session = Session()

    def lazy(frame):
        return (
            None if frame is None or "there" not in frame.columns else nw.from_native(frame.lazy())
        )

    monkeypatch.setattr(jobs, "session", lambda: session)
    monkeypatch.setattr(parts, "_there", lazy)
    monkeypatch.setattr(
        executors, "chosen", lambda rows, columns: session.frame(rows.collect().to_arrow())
    )


def rows(seed, *, there):
    rng, many = np.random.default_rng(seed), 80
    columns = {"id": rng.integers(0, 20, many), "there": [1] * many}
    domain = ward().domain
    columns |= {name: ["f"] * many if name == "sex" else [1] * many for name in domain.columns}
    frame = pl.DataFrame(columns)
    return frame if there else frame.drop("there")


def made(path):
    mechanism = ward(epsilon=900, unit=User(column="id", events=2))
    return Stream.create(path, mechanism, population="ward")


def counts(release):
    return np.rint(release.view.estimates).tolist()


def test_files_last_until_they_are_counted_and_a_fork_has_them(tmp_path, there):
    with made(tmp_path / "here") as stream:
        stream.add(rows(1, there=False))
        wanted = [counts(stream.push(rows(2, there=False)))]
        wanted.append(counts(stream.push(rows(3, there=False))))
    memory = tmp_path / "there" / "private" / "memory"
    with made(tmp_path / "there") as stream:
        stream.add(rows(1, there=True), key="one")
    (memory / "add-left").mkdir()
    with Stream.open(tmp_path / "there") as stream:
        assert len(list(memory.iterdir())) == 1, "what no part names is removed"
        assert not stream.add(rows(1, there=True), key="one")
    with Stream.fork(tmp_path / "there", tmp_path / "fork") as fork:
        found = [counts(fork.push(rows(2, there=False))), counts(fork.push(rows(3, there=True)))]
    assert found == wanted
    with Stream.open(tmp_path / "there") as stream:
        found = [
            counts(stream.push(rows(2, there=True))),
            counts(stream.push(rows(3, there=False))),
        ]
        assert not [path for path in memory.iterdir() if path.name.startswith("add-")]
    assert found == wanted
