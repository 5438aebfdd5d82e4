"""The same rows give the same release on every engine and under any partitioning, in the kind of
frame that came in.
"""

import numpy as np
import polars as pl
import pytest

from tailrace import (
    Categorical,
    Event,
    HistogramStream,
    Integer,
    Noise,
    PureDP,
    Real,
    Schema,
    Stream,
    User,
)

WARD = Schema(
    sex=Categorical(["f", "m"], outside="other"),
    age=Integer(0, 9, outside="clip"),
    weight=Real(edges=[0, 40, 80, 160]),
)
DAYS = 4


def day(number):
    rng = np.random.default_rng(number)
    count = 200
    return {
        "id": rng.integers(0, 60, count).tolist(),
        "sex": [
            None if value == "-" else str(value)
            for value in rng.choice(["f", "m", "?", "-"], count)
        ],
        "age": rng.integers(-3, 14, count).tolist(),
        "weight": [
            float(value)
            for value in np.where(rng.random(count) < 0.1, np.nan, rng.normal(70, 40, count))
        ],
    }


def of_polars(rows):
    return pl.DataFrame(rows)


def of_polars_lazy(rows):
    return pl.DataFrame(rows).lazy()


def of_pandas(rows):
    return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(rows)


def of_pyarrow(rows):
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed").table(rows)


def of_duckdb(rows):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    return duckdb.from_arrow(of_pyarrow(rows))


UNITS = {"event": Event(), "user": User(column="id", events=2)}
ENGINES = {
    "polars": of_polars,
    "lazy": of_polars_lazy,
    "pandas": of_pandas,
    "pyarrow": of_pyarrow,
    "duckdb": of_duckdb,
}


def releases(unit, frame_of, days=DAYS):
    mechanism = HistogramStream(domain=WARD, privacy=PureDP(epsilon=1), unit=unit, horizon=DAYS)
    with Stream(mechanism, noise=Noise.insecure(1)) as stream:
        for number in range(1, days + 1):
            yield stream.push(
                frame_of(day(number)),
                deletes=frame_of(day(number - 1)) if number % 2 == 0 else None,
            )


def content(release):
    return (
        release.view.estimates.tobytes(),
        release.rows.cells.tolist(),
        [list(map(str, c)) for c in release.rows.columns.values()],
    )


def reference(unit, days=DAYS):
    return [content(release) for release in releases(unit, of_polars, days)]


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_every_engine_releases_the_same(unit, engine):
    assert [content(release) for release in releases(unit, engine)] == reference(unit)


@pytest.mark.parametrize(
    ("whose", "days"),
    [("user", 2), *(pytest.param(one, DAYS, marks=pytest.mark.slow) for one in UNITS)],
)
def test_spark_releases_the_same(whose, days, spark):
    import pandas as pd

    unit = UNITS[whose]

    def of_spark(rows):
        frame = pd.DataFrame(
            {**rows, "weight": [None if np.isnan(w) else w for w in rows["weight"]]}
        )
        return (
            spark()
            .createDataFrame(frame.astype({"sex": object}).where(frame.notna(), None))
            .repartition(3)
        )

    made = list(releases(unit, of_spark, days))
    assert [content(release) for release in made] == reference(unit, days)
    table = made[-1].table
    assert type(table).__module__.startswith("pyspark") and table.count() == len(
        made[-1].rows.cells
    )


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_the_order_of_rows_does_not_matter(unit):
    def shuffled(rows):
        return of_polars(rows).sample(fraction=1, shuffle=True, seed=5)

    assert [content(release) for release in releases(unit, shuffled)] == reference(unit)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_the_kind_of_frame_that_came_in_goes_out(engine):
    release = next(releases(Event(), engine))
    came, table = engine(day(1)), release.table
    assert type(table).__module__.split(".")[0] == type(came).__module__.split(".")[0]
    if engine is of_duckdb:
        names, count = table.columns, len(table.fetchall())
    else:
        names, count = (
            list(getattr(table, "column_names", getattr(table, "columns", None))),
            len(table),
        )
    assert names == ["sex", "age", "weight"] and count == len(release.rows.cells)
    assert type(release.changes.added) is type(table)
