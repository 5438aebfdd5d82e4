"""Rows of units fetched in batches: as many pieces as an engine gives, and the same counts."""

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from samples import but_spark
from tailrace import DataError, Integer, Schema, User
from tailrace.counting import batches as module
from tailrace.counting import plan as plan_module
from tailrace.counting.memory import counted
from tailrace.counting.plan import Plan

# DuckDB gives 2,048 rows at least.
MANY = 10_000
FRAME = pl.DataFrame({"id": np.arange(MANY) % 3_000, "v": np.arange(MANY) % 7})
PLAN = Plan(Schema(v=Integer(0, 5)), key="id")


def spark():
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[1]").getOrCreate()
    return session.createDataFrame(FRAME.to_pandas()).repartition(3)


ENGINES = {
    "polars": lambda: FRAME,
    "polars lazy": lambda: FRAME.lazy().filter(pl.col("id") >= 0),
    "pandas": lambda: FRAME.to_pandas(),
    "pyarrow": lambda: FRAME.to_arrow(),
    "duckdb": lambda: duckdb.from_arrow(FRAME.to_arrow()),
    "reader": lambda: pa.RecordBatchReader.from_batches(
        FRAME.to_arrow().schema, FRAME.to_arrow().to_batches(max_chunksize=2_000)
    ),
    "pyspark": spark,
}


@pytest.mark.parametrize("engine", but_spark(ENGINES))
def test_users_are_counted_from_pieces_as_from_the_whole(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 2_048)
    monkeypatch.setattr(plan_module, "_PIECE", 2_048)
    monkeypatch.setattr(module.arrow, "_FEW", 2_048)
    sizes = [len(cells) for _, cells in PLAN.rows(ENGINES[engine]())]
    assert sum(sizes) == MANY and len([size for size in sizes if size]) >= 3
    assert max(sizes) <= MANY / 2
    monkeypatch.undo()
    ids, cells = FRAME["id"].to_list(), np.where(FRAME["v"] < 6, FRAME["v"], -1)
    unit, found = User(column="id", events=3), []
    for name, frame in (("here", FRAME), ("there", ENGINES[engine]())):
        new = tmp_path / name
        found.append(counted(PLAN, unit, frame, None, old=None, new=new, key=bytes(16)))
    assert found[0].adds.tolist() == found[1].adds.tolist()
    assert found[0].adds.sum() == sum(
        min(3, len([c for c in mine if c >= 0]))
        for mine in np.split(
            cells[np.argsort(ids, kind="stable")], np.cumsum(np.bincount(ids))[:-1]
        )
    )


def test_a_query_that_fails_halfway_is_not_quoted_and_leaves_nothing(tmp_path):
    def fails(cells: pl.Series) -> pl.Series:
        raise ValueError("row 7 of anna")

    frame = FRAME.lazy().with_columns(pl.col("v").map_batches(fails, return_dtype=pl.Int64))
    with pytest.raises(DataError, match="could not be computed") as told:
        counted(
            PLAN,
            User(column="id", events=1),
            frame,
            None,
            old=None,
            new=tmp_path / "a",
            key=bytes(16),
        )
    assert "anna" not in str(told.value) and not list(tmp_path.iterdir())
