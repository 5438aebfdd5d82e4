"""Counting on Spark's executors: the same counts, and nothing else on the driver."""

from types import SimpleNamespace

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from tailrace import ConfigError, DataError, StateError
from tailrace.counting import executors
from tailrace.counting.marginals import all_ways
from tailrace.counting.plan import Plan
from tailrace.domain import Box, Categorical, Integer, Real, Schema

BOX = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=64)
WARD = Schema(
    sex=Categorical(["f", "m"], outside="other"),
    age=Integer(0, 9, outside="clip"),
    weight=Real(edges=[0, 40, 80, 160]),
)
# An eighth of each side, and nothing beyond the middle.
GROUPS = np.where(np.arange(64**2) % 64 < 32, np.arange(64**2) // 64 // 8, -1)
PLANS = {
    "cells": Plan(BOX),
    "groups": Plan(BOX, groups=GROUPS),
    "marginals": Plan(WARD, marginals=all_ways(WARD.shape, 2)),
}


def rows(many=3_000):
    rng = np.random.default_rng(1)
    holes = rng.random((3, many)) < 0.1
    return pl.DataFrame(
        {
            "x": rng.random(many) * 1.2 - 0.1,
            "y": pl.Series(np.where(holes[0], np.nan, rng.random(many))).fill_nan(None),
            "sex": pl.Series(rng.choice(["f", " m ", "?"], many)).set(pl.Series(holes[1]), None),
            "age": pl.Series(rng.integers(-3, 14, many)).set(pl.Series(holes[2]), None),
            "weight": rng.normal(70, 40, many).round(1).astype(str),
        }
    )


@pytest.mark.slow
def test_every_plan_is_counted_as_in_memory(spark):
    frame = spark().createDataFrame(rows().to_arrow())
    for (name, plan), partitions in zip(PLANS.items(), (1, 5, 16), strict=True):
        there = plan.count(frame.repartition(partitions))
        assert there.tolist() == plan.count(rows()).tolist(), name


@pytest.mark.slow
def test_only_the_groups_of_a_plan_are_fetched(spark, monkeypatch):
    fetched, added_up = [], executors.added_up

    def watched(parts, size):
        summed = parts.groupBy("number").sum("rows")
        fetched.append(summed.count())
        return added_up(parts, size)

    monkeypatch.setattr(executors, "added_up", watched)
    frame = spark().createDataFrame(rows().to_arrow()).repartition(3)
    PLANS["groups"].count(frame)
    assert fetched == [8]


@pytest.mark.slow
def test_errors_on_executors_quote_nothing(spark):
    frame = spark().sql("select raise_error('anna is 41') as x, 0.5 as y")
    with pytest.raises(DataError, match="could not be computed") as caught:
        PLANS["cells"].count(frame)
    assert "anna" not in str(caught.value) and caught.value.__cause__ is None
    with executors.explained(spark()), pytest.raises(DataError, match="no column 'y'"):
        PLANS["cells"].count(spark().range(1).withColumnRenamed("id", "x"))


def test_a_spark_that_ended_is_told_of_in_a_sentence():
    # As after a kill of its JVM: nothing can be asked.
    gone = SimpleNamespace(_sc=SimpleNamespace(_jsc=None))
    with pytest.raises(StateError, match="Spark ended") as caught, executors.explained(gone):
        raise OSError("anna is 41")
    assert "anna" not in str(caught.value) and caught.value.__suppress_context__
    for ask in (executors.cores, lambda session: executors.check_size(session, 1)):
        with pytest.raises(StateError, match="Spark ended"):
            ask(gone)


@pytest.mark.slow
def test_executors_without_this_version_are_named(spark, monkeypatch):
    monkeypatch.setattr(executors, "_version", lambda: "0.0.0")
    with pytest.raises(ConfigError, match="install this version"):
        PLANS["cells"].count(spark().createDataFrame(rows(9).to_arrow()))


def limited(text):
    return SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: text or default))


@pytest.mark.parametrize(
    ("text", "most"), [("1g", 2**26), ("16k", 1024), ("1600", 100), ("", 2**26), ("2 MB", 2**17)]
)
def test_what_may_be_too_much_for_the_driver_is_refused(text, most):
    executors.check_size(limited(text), most)
    with pytest.raises(ConfigError, match=r"spark\.driver\.maxResultSize"):
        executors.check_size(limited(text), most + 1)
    executors.check_size(limited("0"), 2**40)


@pytest.mark.slow
def test_it_is_refused_before_anything_runs(spark):
    frame = spark().sql("select raise_error('ran') as x, raise_error('ran') as y")
    large = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=2**14)
    with pytest.raises(ConfigError, match="bytes to the driver"):
        Plan(large).count(frame)


def test_columns_go_to_executors_in_types_that_are_written_alike():
    assert not executors.on_spark(nw.from_native(rows()))
    assert not executors.on_spark(nw.from_native(rows().lazy()))
    assert executors.sparse(rows=np.array([0, 3, 0, 1])).to_pydict() == {
        "number": [1, 3],
        "rows": [3, 1],
    }
