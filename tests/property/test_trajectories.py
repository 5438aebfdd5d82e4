"""Whatever trajectories are like, one unit changes every level of counts by one whole at most,
upwards only, and by no longer a vector than Gaussian noise is made for.
"""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from samples import examples
from tailrace import Box, Event, Noise, PureDP, Trajectories, User, papers
from tailrace.counting.journeys.masses import WHOLE
from tailrace.counting.journeys.moves import Ends, Even
from tailrace.mechanisms.trajectories import Bins, DayClock

SQUARE = Box(low=(0, 0), high=(16, 16), columns=("x", "y"), cells=16)
UNITS = {"trip": Event(), "id": User(column="id")}

rows = st.lists(
    st.tuples(
        st.integers(0, 2),  # person
        st.integers(0, 3),  # trajectory
        st.one_of(st.none(), st.integers(-3, 40)),
        st.one_of(st.integers(0, 16), st.sampled_from([-1.0, float("nan"), 3.7])),
        st.integers(-1, 17),
    ),
    max_size=60,
)


def frame(found):
    columns = (
        dict(zip(("id", "trip", "at", "x", "y"), zip(*found, strict=True), strict=True))
        if found
        else {}
    )
    types = {"id": pl.Int64, "trip": pl.Int64, "at": pl.Int64, "x": pl.Float64, "y": pl.Float64}
    return pl.DataFrame(
        {name: list(columns.get(name, [])) for name in types}, schema=types, strict=False
    )


def mechanisms(unit):
    common = {
        "domain": SQUARE,
        "privacy": PureDP(epsilon=5),
        "unit": unit,
        "trajectory": "trip",
        "order": "at",
    }
    yield Trajectories(**common, number=Bins(share="0.1", most=3))
    # A unit in fewer parts; with times.
    day = DayClock(start=0, end=24)
    yield Trajectories(**{**common, "privacy": PureDP(epsilon="0.001")}, timing=day)
    yield papers.trajectories(**common, weighting=Even())
    yield papers.trajectories(**common, weighting=Ends())


def every_level(mechanism, plan, data):
    """The dense counts of every level of every part of a round."""
    tally = plan.counts(frame(data))
    if isinstance(mechanism, Trajectories):
        for count, masses in zip(plan.parts, tally.parts, strict=True):
            for level, (size, square) in enumerate(zip(count.sizes, count.squares, strict=True)):
                yield f"{count.name} {level}", count.at(masses, level).dense(size), square
        return
    size = 1 + max([int(masses.codes.max(initial=0)) for masses in tally.parts])
    for number, masses in enumerate(tally.parts):
        yield f"part {number}", masses.dense(max(size, SQUARE.size, 4 * 10**5)), 1


@given(data=rows, who=st.integers(0, 3), key=st.sampled_from(list(UNITS)))
@examples(60)
def test_one_unit_adds_one_whole_at_most(data, who, key):
    without = [row for row in data if row[0 if key == "id" else 1] != who]
    for mechanism in mechanisms(UNITS[key]):
        state = mechanism.init()
        for turn in range(mechanism.rounds):
            plan = mechanism.plan(state.public)
            whole = plan.parts[0].whole if isinstance(mechanism, Trajectories) else WHOLE
            levels = zip(
                every_level(mechanism, plan, data),
                every_level(mechanism, plan, without),
                strict=True,
            )
            for (name, one, square), (_, other, _) in levels:
                change = one - other
                assert (change >= 0).all() and change.sum() <= whole, name
                assert int((change**2).sum()) <= square * whole**2, name
            counts = plan.counts(frame(data))
            state = mechanism.measure(state, counts, Noise.insecure(1).at(turn)).state


@given(data=rows, key=st.sampled_from(list(UNITS)))
@examples(20)
def test_whatever_comes_in_a_table_goes_out(data, key):
    """CONTENT never raises; synthetic trajectories lie in the domain, each from 1 on."""
    for mechanism in mechanisms(UNITS[key]):
        state = mechanism.init()
        for turn in range(mechanism.rounds):
            counts = mechanism.plan(state.public).counts(frame(data))
            state = mechanism.measure(state, counts, Noise.insecure(2).at(turn)).state
        from tailrace.stream.state import no_rows

        table = mechanism.sample(
            mechanism.view(state.public), no_rows(mechanism), np.random.default_rng(1)
        ).table
        x, y = table.columns["x"], table.columns["y"]
        assert ((x >= 0) & (x <= 16) & (y >= 0) & (y <= 16)).all()
        trip, at = table.columns["trip"], table.columns["at"]
        assert np.array_equal(np.unique(trip), np.arange(1, len(np.unique(trip)) + 1))
        assert (np.diff(at)[np.diff(trip) == 0] == 1).all() and (
            at[np.diff(trip, prepend=0) == 1] == 1
        ).all()
