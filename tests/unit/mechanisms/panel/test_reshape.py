"""Whole panels are cut into steps, in frames of the kind that came in."""

import numpy as np
import polars as pl
import pytest

import tailrace as tr
from tailrace import DataError

LONG = pl.DataFrame(
    {
        "id": [1, 2, 3, 1, 2, 3, 9],
        "wave": [70, 70, 71, 71, 73, 73, None],
        "poor": [0, 1, 1, None, 0, 1, 1],
        "age": [1, 2, 3, 4, 5, 6, 7],
    }
)
STEPS = [[(1, 0), (2, 1)], [(3, 1), (1, None)], [(2, 0), (3, 1)]]


def native(kind):
    if kind == "duckdb":
        import duckdb

        return duckdb.from_arrow(LONG.to_arrow())
    return {
        "polars": LONG,
        "lazy": LONG.lazy(),
        "pandas": LONG.to_pandas(),
        "arrow": LONG.to_arrow(),
    }[kind]


def rows_of(frame):
    import narwhals as nw

    held = nw.from_native(frame).lazy().collect("polars").to_native()
    return [tuple(None if v is None or v != v else int(v) for v in row) for row in held.rows()]


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "arrow", "duckdb"])
def test_a_long_table_step_by_step(kind):
    frame = native(kind)
    found = list(tr.panel.from_long(frame, id="id", step="wave", value="poor"))
    assert type(found[0]) is type(frame)
    assert [sorted(rows_of(one), key=str) for one in found] == [sorted(s, key=str) for s in STEPS]
    asked = tr.panel.from_long(
        frame, id="id", step="wave", value=["poor", "age"], steps=range(70, 74)
    )
    assert [len(rows_of(one)) for one in asked] == [2, 2, 0, 2], "a step at which nobody reports"
    (last,) = tr.panel.from_long(frame, id="id", step="wave", value=["poor", "age"], steps=[73])
    assert sorted(rows_of(last)) == [(2, 0, 5), (3, 1, 6)]


@pytest.mark.parametrize("kind", ["polars", "pandas", "arrow"])
def test_a_wide_table_step_by_step(kind):
    wide = pl.DataFrame({"id": [1, 2], "t1": [0, 1], "t2": [1, None]})
    frame = {"polars": wide, "pandas": wide.to_pandas(), "arrow": wide.to_arrow()}[kind]
    found = list(tr.panel.from_wide(frame, id="id", value="poor"))
    assert [rows_of(one) for one in found] == [[(1, 0), (2, 1)], [(1, 1)]]
    (second,) = tr.panel.from_wide(frame, id="id", value="poor", steps=["t2"])
    assert rows_of(second) == [(1, 1)]


def test_the_steps_of_a_cut_table_are_pushed():
    rng = np.random.default_rng(0)
    people, waves = np.repeat(np.arange(400), 5), np.tile(np.arange(5), 400)
    long = pl.DataFrame({"id": people, "wave": waves, "poor": rng.integers(0, 2, 2000)})
    long = long.sample(1500, seed=1)
    panel = tr.PanelWindow(
        domain=tr.Schema(poor=tr.Integer(0, 1)),
        unit=tr.User(column="id"),
        window=2,
        horizon=5,
        privacy=tr.ZCDP(rho=10),
        neighbours=tr.AddRemove,
    )
    stream = tr.Stream(panel, noise=tr.Noise.insecure(1))
    with pytest.raises(DataError, match=r"panel.from_long\(frame, id='id', step='wave'"):
        stream.push(long)
    for rows in tr.panel.from_long(long, id="id", step="wave", value="poor", steps=range(5)):
        release = stream.push(rows)
    here = long.filter(pl.col("wave") == 4)
    assert release.view.present().value == pytest.approx(len(here), abs=12)


@pytest.mark.parametrize("column", ["id", "step", "value"])
def test_a_column_that_is_not_there_is_named(column):
    parts = {"id": "id", "step": "wave", "value": "poor", column: "nowhere"}
    with pytest.raises(DataError, match="no column 'nowhere'"):
        tr.panel.from_long(LONG, **parts)
    if column != "value":
        with pytest.raises(DataError, match="no column 'nowhere'"):
            tr.panel.from_wide(
                LONG, id=parts["id"], value="poor", steps=["age" if column == "id" else "nowhere"]
            )


def test_steps_of_several_types_are_named_by_hand():
    import pandas as pd

    mixed = pd.DataFrame({"id": [1, 2], "wave": [70, "71"], "poor": [0, 1]}, dtype=object)
    about = {"id": "id", "step": "wave", "value": "poor"}
    with pytest.raises(DataError, match="give steps"):
        list(tr.panel.from_long(mixed, **about))
    assert [len(rows) for rows in tr.panel.from_long(mixed, **about, steps=[70, "71"])] == [1, 1]
