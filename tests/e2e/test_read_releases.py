"""The lines of docs/how-to/read-releases.md give the table of any step, without Tailrace."""

import contextlib
import os
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tailrace import Box, Event, Noise, PureDP, SpatialStream, Stream
from tailrace.errors import Corrupt
from tailrace.stream.verify import verify_public

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "read-releases.md").read_text()
SQL, AS_OF = re.findall(r"```sql\n(.*?)\n```", PAGE, re.DOTALL)
POLARS, PANDAS = re.findall(r"```py\n(.*?)\n```", PAGE, re.DOTALL)
STEPS = 12


@pytest.fixture(scope="module", params=["x", "Row"])
def stream(request, tmp_path_factory):
    """A stream with rows that come and go; the second has a column called `row`."""
    path = tmp_path_factory.mktemp("city") / "city.tail"
    square = Box(low=(0, 0), high=(1, 1), columns=(request.param, "y"), cells=32)
    city = SpatialStream(
        domain=square, privacy=PureDP(epsilon=2), unit=Event(), horizon=STEPS, deletes=True
    )
    made = Stream.create(path, city, population="city", noise=Noise.insecure(1), full="latest")
    with made as kept:
        for step in range(STEPS):
            many = int(np.random.default_rng(step).integers(0, 400))
            kept.push(points(step, many, square), deletes=points(step, many // 3, square))
    return path, {step: table_of(path, step) for step in range(1, STEPS + 1)}


def points(seed, many, square):
    rng = np.random.default_rng(seed)
    return pl.DataFrame({name: rng.random(many) ** 2 for name in square.columns})


def table_of(path, step):
    with Stream.open(path) as stream:
        return stream.release(step).table


def in_releases(path, line, **known):
    """The value of a line, from inside the releases; a column called `row` moves ours aside."""
    if "y" in known["expected"].columns and "Row" in known["expected"].columns:
        line = re.sub(r"\brow\b", "row_", line)
    before = Path.cwd()
    os.chdir(path / "releases")
    try:
        found = known["run"](line)
    finally:
        os.chdir(before)
    return found.select(known["expected"].columns)


def test_duckdb_reads_now_and_then(stream):
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    path, tables = stream
    run = lambda line: duckdb.sql(line).pl()  # noqa: E731
    assert in_releases(path, SQL, run=run, expected=tables[STEPS]).equals(tables[STEPS])
    for step in tables:
        line = AS_OF.replace("<= 7", f"<= {step}")
        assert in_releases(path, line, run=run, expected=tables[step]).equals(tables[step])


def test_polars_and_pandas_read_the_table_now(stream):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    path, tables = stream
    run = lambda line: eval(line, {"pl": pl})  # noqa: E731
    assert in_releases(path, POLARS, run=run, expected=tables[STEPS]).equals(tables[STEPS])
    run = lambda line: pl.from_pandas(eval(line, {"pd": pd}))  # noqa: E731
    assert in_releases(path, PANDAS, run=run, expected=tables[STEPS]).equals(tables[STEPS])


def test_the_latest_table_is_a_file(stream):
    path, tables = stream
    latest = pl.read_parquet(path / "releases" / "latest.parquet")
    assert latest.select(tables[STEPS].columns).equals(tables[STEPS])


def test_readers_notice_whatever_was_changed(stream, tmp_path):
    path, _ = stream
    whole = verify_public(path / "releases")
    assert whole.steps == STEPS
    files = [file for file in (path / "releases").rglob("*.*") if file.parent.name != "releases"]
    rng, noticed = np.random.default_rng(0), 0
    for number, file in enumerate(files):
        copy = tmp_path / str(number)
        shutil.copytree(path / "releases", copy)
        changed = copy / file.relative_to(path / "releases")
        data = bytearray(changed.read_bytes())
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        changed.chmod(0o644)
        changed.write_bytes(data)
        if changed.name == f"{STEPS:06d}.json":
            # Nothing follows the last entry: who kept its digest can tell.
            with contextlib.suppress(Corrupt):
                assert verify_public(copy).entry != whole.entry
            continue
        with pytest.raises(Corrupt, match=r"^releases/"):
            verify_public(copy)
        noticed += 1
    assert noticed >= 3 * STEPS - 1
