"""What a step writes follows what changed, to the byte; nothing has a limit of size."""

import json
import sqlite3
import sys

import polars as pl
import pytest

from processes import python
from samples import DAY, ward
from tailrace import Categorical, Event, HistogramStream, PureDP, Schema, Stream

SCRIPT = """
import json, os, sys
from pathlib import Path
import numpy as np
import polars as pl
import tailrace as tr

path, kind, first, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
pure, rng = tr.PureDP(epsilon=1), np.random.default_rng(0)
parts = dict(privacy=pure, unit=tr.Event(), horizon=steps + 1)
pairs = tr.Schema(a=tr.Integer(0, 49), b=tr.Integer(0, 19))
panel = dict(
    domain=tr.Schema(a=tr.Integer(0, 1)), unit=tr.User(column="id"), window=2,
    privacy=tr.ZCDP(rho=1), neighbours=tr.AddRemove, horizon=steps + 1,
)
made = {
    "spatial": lambda: tr.SpatialStream(
        domain=tr.Box(low=(0, 0), high=(1, 1), columns=("a", "b"), cells=256), **parts
    ),
    "histogram": lambda: tr.HistogramStream(domain=pairs, **parts),
    "tabular": lambda: tr.TabularStream(domain=pairs, **parts),
    "snapshot": lambda: tr.SnapshotHistogram(
        domain=pairs, privacy=pure, unit=tr.User(column="id", records=1), horizon=steps + 1
    ),
    "panel": lambda: tr.PanelWindow(**panel),
    "panel that carries": lambda: tr.PanelWindow(missing=tr.Missing.Carry, **panel),
}[kind]()
poor = rng.integers(0, 2, first)

def rows(many):
    if kind == "spatial":
        return pl.DataFrame({"a": rng.random(many) ** 2, "b": rng.random(many)})
    if "panel" in kind:
        # A hundred of them report another value than before.
        poor[rng.integers(0, first, 100)] ^= 1
        return pl.DataFrame({"id": np.arange(first), "a": poor})
    table = {"id": np.arange(many), "a": rng.integers(0, 50, many), "b": rng.integers(0, 20, many)}
    return pl.DataFrame(table)

def written():
    return int(next(x for x in open("/proc/self/io") if x.startswith("wchar")).split()[1])

stream = tr.Stream.create(path, made, population="p", noise=tr.Noise.insecure(1))
stream.push(rows(first))
total = changed = 0
for step in range(2, steps + 2):
    frame, before = rows(first if kind == "snapshot" else 100), written()
    stream.push(frame)
    total += written() - before
    files = [path / "releases" / part / f"{step:06d}.parquet" for part in ("added", "removed")]
    changed += sum(map(os.path.getsize, files))
print(json.dumps([total / steps, changed / steps]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="bytes written are told by Linux")
@pytest.mark.parametrize(
    "kind",
    [
        "spatial",
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("histogram", "tabular", "snapshot")),
    ],
)
def test_a_step_writes_a_few_times_what_it_changed(tmp_path, kind):
    done = python("-c", SCRIPT, tmp_path / "a.tail", kind, "3000", "25", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    written, changed = json.loads(done.stdout)
    assert written <= 3 * changed + 50_000, (written, changed)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="bytes written are told by Linux")
@pytest.mark.parametrize(("kind", "reports"), [("panel that carries", 100), ("panel", 10_000)])
def test_a_panel_writes_who_reports_news(tmp_path, kind, reports):
    """A hundred of ten thousand change; where absence is a value, being there is news too."""
    done = python("-c", SCRIPT, tmp_path / "a.tail", kind, "10000", "25", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    written, changed = json.loads(done.stdout)
    # Somebody takes 28 bytes in the memory, and some in its index and filter.
    assert written <= 3 * changed + 50_000 + 40 * reports, (written, changed)


def test_a_step_larger_than_a_value_of_sqlite_may_be_is_stored(tmp_path):
    wide = HistogramStream(
        domain=Schema(name=Categorical([f"{number:06d}" for number in range(20_000)])),
        privacy=PureDP(epsilon=8),
        unit=Event(),
        horizon=3,
    )
    frame = pl.DataFrame({"name": [f"{number:06d}" for number in range(20_000)] * 3})
    with Stream.create(tmp_path / "a.tail", wide, population="p") as stream:
        stream._store._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
        table = stream.push(frame).table
        assert len(table) > 10_000
        stream.push(frame)
    with Stream.open(tmp_path / "a.tail") as stream:
        assert stream.step == 2 and stream.release(1).table.equals(table)


def test_full_says_when_whole_tables_are_published_and_may_change(tmp_path):
    def tables():
        return sorted(file.stem for file in (tmp_path / "a.tail/releases/table").iterdir())

    with Stream.create(tmp_path / "a.tail", ward(), population="p") as stream:
        stream.push(DAY)
        assert tables() == []
    with Stream.open(tmp_path / "a.tail", full="every") as stream:
        stream.push(DAY)
        stream.push(DAY)
        assert tables() == ["000002", "000003"]
    with Stream.open(tmp_path / "a.tail") as stream:
        stream.push(DAY)
        assert tables() == ["000002", "000003", "000004"], "kept until it is changed"
        table = pl.read_parquet(tmp_path / "a.tail/releases/table/000004.parquet")
        assert table.drop("row").equals(stream.release(4).table)
