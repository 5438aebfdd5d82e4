"""A row of places with attributes moves one cell, its own, whatever stands in it."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tailrace import Box, Categorical, Event, Integer, Places, PureDP, Real, Schema, SpatialStream
from tailrace.counting.plan import Plan

PLACES = Places(
    Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=4),
    Schema(
        kind=Categorical(["a", "b", "c"]),
        level=Integer(1, 5, outside="clip"),
        size=Real(edges=[0, 1, 2], outside="other"),
    ),
)
TYPES = {
    "x": pl.Float64,
    "y": pl.Float64,
    "kind": pl.String,
    "level": pl.Float64,
    "size": pl.String,
}
numbers = st.none() | st.floats(-0.5, 1.5) | st.sampled_from([0.0, 1.0, float("nan"), float("inf")])
rows = st.fixed_dictionaries(
    {
        "x": numbers,
        "y": numbers,
        "kind": st.sampled_from(["a", "b", " c", "d", "", None]),
        "level": st.none() | st.sampled_from([0.0, 1.0, 2.5, 5.0, 9.0]),
        "size": st.sampled_from(["0.5", "1", "2.0", "9", "big", None]),
    }
)
tables = st.lists(rows, max_size=8)


def frame(table):
    return pl.DataFrame(table, schema=TYPES)


@given(tables, rows, st.integers(0, 8))
def test_one_row_moves_one_count_by_one(table, row, place):
    """Of cells, and of the places that events are told apart by, in memory and on an engine."""
    more = [*table[:place], row, *table[place:]]
    mechanism = SpatialStream(domain=PLACES, privacy=PureDP(epsilon=1), unit=Event(), horizon=2)
    for plan in (Plan(PLACES), mechanism.plan(mechanism.init().public)):
        before, after = (plan.count(frame(one)) for one in (table, more))
        moved = after - before
        assert moved.min(initial=0) == 0 and moved.sum() <= 1
        assert moved.tolist() == plan.count(frame([row])).tolist()
        assert plan.count(frame(more).lazy()).tolist() == after.tolist()


@given(tables, st.integers(0, 2**32 - 1))
def test_what_is_counted_can_be_drawn_and_is_counted_again(table, seed):
    counts = Plan(PLACES).count(frame(table))
    cells = np.repeat(np.arange(len(counts)), counts)
    drawn = PLACES.decode(cells, np.random.default_rng(seed))
    again = Plan(PLACES).count(pl.DataFrame(drawn, strict=False))
    assert again.tolist() == counts.tolist()
