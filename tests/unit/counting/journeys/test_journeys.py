"""Journeys out of frames, and what is counted of them, against plain Python."""

import itertools
import math
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import polars as pl
import pytest

from tailrace import Box, DataError
from tailrace.counting.journeys.masses import WHOLE, Masses
from tailrace.counting.journeys.moves import Ends, Even, ends, routes, transitions, visits
from tailrace.counting.journeys.reading import Journeys, Reading
from tailrace.domain.geometry.graph import adjacency
from tailrace.domain.geometry.partition import Partition

SQUARE = Box(low=(0, 0), high=(8, 8), columns=("x", "y"), cells=8)
BY_TRIP, BY_USER = Reading(SQUARE, "trip", "at"), Reading(SQUARE, "trip", "at", user="id")


def frame(rows):
    return pl.DataFrame(rows, schema=["id", "trip", "at", "x", "y"], orient="row", strict=False)


def as_lists(journeys):
    parts = zip(journeys.offsets[:-1], journeys.offsets[1:], strict=True)
    return sorted(journeys.cells[a:b].tolist() for a, b in parts)


def test_rows_are_put_together_and_in_order():
    rows = frame(
        [
            (1, "b", 3, 2, 0),
            (1, "a", 1, 0, 0),
            (1, "b", 1, 0, 1),
            (2, "a", 0, 0, 2),
            (1, "b", 2, 0, 5),
        ]
    )
    assert as_lists(BY_TRIP.journeys(rows)) == [[1, 5, 16], [2, 0]]


def test_with_people_a_trajectory_has_one_owner_and_counts_for_its_part():
    rows = frame(
        [(1, 7, 0, 0, 0), (2, 7, 1, 0, 1), (1, 8, 0, 0, 2), (1, 9, 0, 0, 3), (None, 7, 0, 0, 4)]
    )
    found = BY_USER.journeys(rows)
    assert as_lists(found) == [[0], [1], [2], [3]]
    assert dict(zip(found.cells.tolist(), found.among.tolist(), strict=True)) == {
        0: 3,
        2: 3,
        3: 3,
        1: 1,
    }


def test_of_rows_with_the_same_order_the_lower_cell_comes_first():
    rows = [(1, 1, 5, 0, y) for y in (3, 1, 2)] + [(1, 1, 4, 7, 7)]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]):
        assert as_lists(BY_TRIP.journeys(frame([rows[i] for i in order]))) == [[63, 1, 2, 3]]


@pytest.mark.parametrize(
    "row",
    [
        (1, None, 1, 0, 0),
        (1, 1, None, 0, 0),
        (1, 1, 1, None, 0),
        (1, 1, 1, 9, 0),
        (1, 1, 1, 0, math.nan),
    ],
    ids=["trip", "order", "missing", "outside", "nan"],
)
def test_a_row_without_an_id_an_order_or_a_place_is_left_out(row):
    whole = frame([(1, 1, 0, 0, 3), row, (1, 1, 2, 0, 5)])
    assert as_lists(BY_TRIP.journeys(whole)) == [[3, 5]]
    assert as_lists(BY_TRIP.journeys(frame([row]))) == []


def test_nothing_in_gives_nothing_out():
    for nothing in (None, pl.DataFrame(), frame([])):
        found = BY_TRIP.journeys(nothing)
        assert len(found) == 0 and found.offsets.tolist() == [0]
        assert len(visits(found, Partition(SQUARE).places, SQUARE.size).codes) == 0


TIMES = [datetime(2024, 3, 10, hour, 5, tzinfo=UTC) for hour in (3, 1, 2)]


@pytest.mark.parametrize(
    "order",
    [
        TIMES,
        [time.replace(tzinfo=None) for time in TIMES],
        [time.astimezone(timezone(timedelta(hours=9 * (i - 1)))) for i, time in enumerate(TIMES)],
        [date(2024, 1, day) for day in (3, 1, 2)],
        [3, 1, 2],
        [0.3, -1e300, 0.2],
        [math.inf, -math.inf, 0],
        [2**63 - 1, -(2**63), 0],
    ],
    ids=["utc", "naive", "zones", "dates", "integers", "floats", "infinite", "wide"],
)
@pytest.mark.parametrize("engine", ["polars", "pandas", "pyarrow", "objects"])
def test_an_order_is_a_number_or_a_time(order, engine):
    columns = {"trip": [1, 1, 1], "at": order, "x": [0, 1, 2], "y": [0, 0, 0]}
    if engine == "polars" and len({getattr(time, "tzinfo", None) for time in order}) > 1:
        pytest.skip("Polars has one zone for a column")
    if engine == "polars":
        rows = pl.DataFrame(columns)
    elif engine == "pyarrow":
        rows = pytest.importorskip("pyarrow").table(columns)
    else:
        pandas = pytest.importorskip("pandas")
        rows = pandas.DataFrame(columns)
        if engine == "objects":
            rows["at"] = pandas.Series(order, dtype=object)
    assert as_lists(BY_TRIP.journeys(rows)) == [[8, 16, 0]]


def test_a_missing_time_is_no_time():
    for order in ([TIMES[0], None, TIMES[2]], [3, None, 2], [3.0, math.nan, 2.0]):
        columns = {"trip": [1, 1, 1], "at": order, "x": [0, 1, 2], "y": [0, 0, 0]}
        assert as_lists(BY_TRIP.journeys(pl.DataFrame(columns))) == [[16, 0]]
        pandas = pytest.importorskip("pandas")
        assert as_lists(BY_TRIP.journeys(pandas.DataFrame(columns))) == [[16, 0]]
    mixed = pandas.DataFrame(
        {**columns, "at": pandas.Series([5, "later", pandas.NaT], dtype=object)}
    )
    assert as_lists(BY_TRIP.journeys(mixed)) == [[0]], (
        "what is no number in a column of objects is no order"
    )


def test_a_column_of_the_wrong_shape_is_refused_by_name():
    good = {"trip": [1], "at": [1], "x": [0.5], "y": [0.5]}
    for name, bad in (("at", [["soon"]]), ("x", [["west"]]), ("trip", [[1]]), ("trip", [1.0])):
        with pytest.raises(DataError, match=f"Column '{name}'") as caught:
            BY_TRIP.journeys(pl.DataFrame({**good, name: bad}))
        assert "soon" not in str(caught.value) and "west" not in str(caught.value)
    with pytest.raises(DataError, match="no column 'id'"):
        BY_USER.journeys(pl.DataFrame(good))


def test_text_is_put_in_order_and_together_cell_by_cell():
    values = frame([(1, 7, 3, 0.5, 1), (1, 7, 2, 0.5, 2), (1, 8, 1, 0.5, 3)])
    texts = values.with_columns(pl.all().cast(pl.String))
    spoilt = frame([("?", "a", "soon", "west", "?")])
    assert as_lists(BY_TRIP.journeys(texts)) == as_lists(BY_TRIP.journeys(values)) == [[2, 1], [3]]
    for reading in (BY_TRIP, BY_USER):
        assert as_lists(reading.journeys(pl.concat([texts, spoilt]))) == [[2, 1], [3]]
    times = texts.with_columns(at=pl.lit("2026-01-0") + pl.col("at") + "T06:00Z")
    assert as_lists(BY_TRIP.journeys(times)) == [[2, 1], [3]]


def of(*trajectories, among=None):
    cells = np.concatenate([np.asarray(one, np.int64) for one in trajectories])
    many = np.ones(len(trajectories), np.int64) if among is None else np.asarray(among)
    return Journeys(
        cells, np.cumsum([len(one) for one in trajectories]), many, np.zeros((2, len(many)))
    )


def test_each_point_gets_its_part_and_a_trajectory_its_whole():
    places = np.arange(64)
    found = visits(of([0, 0, 1], [5]), places, 64).dense(64)
    assert found[5] == WHOLE and found.sum() == 2 * WHOLE
    assert found[0] == 2 * WHOLE // 3 and found[1] == WHOLE - 2 * WHOLE // 3
    assert visits(of([0, 1], [2], among=[3, 3]), places, 64).parts.tolist() == [
        174762,
        174763,
        349525,
    ]
    long = of(np.zeros(5 * WHOLE // 2, np.int64))
    assert visits(long, places, 64).parts.tolist() == [WHOLE], "however long it is"


def fine(depth=6):
    partition = Partition(SQUARE)
    graph = adjacency(partition, np.full(1 << depth, depth), np.arange(1 << depth))
    return graph, (partition.places >> (partition.depth - depth)).astype(np.int32)


def expected_route(cells, homes, graph):
    """Between cells that do not touch: those on the straight line from middle to middle, by
    rounding.
    """
    route = []
    for one, other in zip([None, *cells[:-1]], cells, strict=True):
        if (
            one is not None
            and homes[one] != homes[other]
            and graph.edge([homes[one]], [homes[other]])[0] < 0
        ):
            (x, y), (u, v) = divmod(one, 8), divmod(other, 8)
            steps = max(abs(u - x), abs(v - y))
            for step in range(1, steps):
                at = (
                    math.floor(x + step * (u - x) / steps + 0.5),
                    math.floor(y + step * (v - y) / steps + 0.5),
                )
                route.append(homes[at[0] * 8 + at[1]])
        route.append(homes[other])
    return [cell for i, cell in enumerate(route) if i == 0 or cell != route[i - 1]]


@pytest.mark.parametrize("depth", [2, 4, 5, 6])
def test_jumps_are_filled_in_along_the_straight_line(depth):
    graph, homes = fine(depth)
    rng = np.random.default_rng(depth)
    trajectories = [rng.integers(0, 64, rng.integers(1, 9)) for _ in range(50)]
    found = routes(of(*trajectories), homes, 8, graph)
    for i, cells in enumerate(trajectories):
        runs = found.cells[found.offsets[i] : found.offsets[i + 1]].tolist()
        assert runs == expected_route(cells.tolist(), homes, graph)
        assert found.points[found.offsets[i] : found.offsets[i + 1]].sum() == len(cells)
        assert (graph.edge(np.array(runs[:-1]), np.array(runs[1:])) >= 0).all()
    assert np.array_equal(found.first, homes[[one[0] for one in trajectories]])
    assert np.array_equal(found.last, homes[[one[-1] for one in trajectories]])


def alpha(many, weighting):
    if isinstance(weighting, Even):
        return [1 / max(many, 1)] * many
    weights = [2.0 ** -min(i, many - 1 - i) for i in range(many)]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("weighting", [Even(), Ends()])
def test_transitions_share_the_whole_of_a_trajectory(weighting, stays):
    graph, homes = fine(4)
    rng = np.random.default_rng(1)
    trajectories = [
        rng.integers(0, 64, n).repeat(rng.integers(1, 4, n)) for n in (1, 2, 3, 10, 60, 200)
    ]
    for cells in trajectories:
        on_graph = routes(of(cells, among=[2]), homes, 8, graph)
        found = transitions(on_graph, graph, weighting=weighting, stays=stays).dense(
            len(graph.targets) + graph.cells
        )
        sequence = [
            c
            for c, p in zip(on_graph.cells, on_graph.points, strict=True)
            for _ in range(max(p, 1))
        ]
        moves = [(a, b) for a, b in itertools.pairwise(sequence) if stays or a != b]
        wanted = np.zeros_like(found, float)
        for (a, b), weight in zip(moves, alpha(len(moves), weighting), strict=True):
            wanted[len(graph.targets) + a if a == b else graph.edge([a], [b])[0]] += (
                weight * WHOLE / 2
            )
        assert np.abs(found - wanted).max(initial=0) <= 64, "by rounding"
        assert found.sum() <= WHOLE // 2
        assert found.sum() >= (WHOLE // 2 - 64 if moves else 0)


def test_alpha_is_largest_at_the_ends():
    """As printed (5.10) is largest in the middle: .364 at the fourth of seven."""
    graph, homes = fine(6)
    line = routes(of([8 * i for i in range(8)]), homes, 8, graph)
    found = transitions(line, graph, weighting=Ends(), stays=True)
    shares = found.dense(len(graph.targets))[graph.edge(line.cells[:-1], line.cells[1:])] / WHOLE
    assert shares.round(3).tolist() == [0.276, 0.138, 0.069, 0.034, 0.069, 0.138, 0.276]


def test_where_even_the_line_leaves_the_graph_the_others_share_the_part():
    graph, homes = fine(6)
    broken = homes.copy()
    broken[8 * 3 : 8 * 4] = -1  # a wall: no home in the fourth column
    found = routes(of([0, 8, 8 * 5, 8 * 6]), broken, 8, graph)
    moved = transitions(found, graph, weighting=Even(), stays=False)
    assert moved.parts.sum() == WHOLE and len(moved.codes) == 4, (
        "0-1, 1-2, 4-5, 5-6; and 2-4 is no edge"
    )


def test_ends_are_pairs_of_cells():
    graph, homes = fine(6)
    on_graph = routes(of([0, 9, 3], [5], among=[1, 4]), homes, 8, graph)
    found = ends(on_graph, 64)
    pairs = {(int(homes[0]), int(homes[3])): WHOLE, (int(homes[5]), int(homes[5])): WHOLE // 4}
    assert {
        divmod(code, 64): part
        for code, part in zip(found.codes.tolist(), found.parts.tolist(), strict=True)
    } == pairs


def test_masses_add_up_and_refuse_what_they_cannot_hold():
    one, two = (
        Masses.of(np.array([5, 1, 5]), np.array([1, 2, 3])),
        Masses(np.array([0, 5]), np.array([7, 1])),
    )
    assert (one + two).codes.tolist() == [0, 1, 5] and (one + two).parts.tolist() == [7, 2, 5]
    assert (one + Masses.none()).dense(6).tolist() == [0, 2, 0, 0, 0, 4]
    with pytest.raises(DataError, match="whole numbers"):
        Masses(np.array([1]), np.array([0.5]))
    with pytest.raises(DataError, match="as many"):
        Masses(np.array([1]), np.array([1, 2]))
