"""Routes along streets: by price, as often as released, with points where density is high."""

import itertools

import numpy as np
import polars as pl
import pytest

from tailrace import Event, Noise, PureDP, Roads, Trajectories, release_once
from tailrace.mechanisms.trajectories import streets_kernel as kernel
from tailrace.mechanisms.trajectories.layout import even_layout
from tailrace.mechanisms.trajectories.streets import along_streets, shortest_visits, streets_of
from tailrace.mechanisms.trajectories.walks import FEWEST, MORE, long_moves

shapely = pytest.importorskip("shapely")
# Streets every eighth of a square, each crossing a vertex.
LINES = [
    shapely.LineString([(a, i / 8 + 0.01) for a in np.arange(9) / 8 + 0.01]) for i in range(9)
] + [shapely.LineString([(i / 8 + 0.01, a) for a in np.arange(9) / 8 + 0.01]) for i in range(9)]
TOWN = Roads(shapely.MultiLineString(LINES), columns=("x", "y"), cells=64, box=(0, 0, 1.02, 1.02))


def graph_of(streets):
    many = len(streets.starts) - 1
    return {
        node: [
            (int(streets.targets[k]), float(streets.lengths[k]))
            for k in range(streets.starts[node], streets.starts[node + 1])
        ]
        for node in range(many)
    }


def plain_distances(graph, root):
    """Distances by plain relaxation, until nothing changes."""
    found = dict.fromkeys(graph, np.inf) | {root: 0.0}
    changed = True
    while changed:
        changed = False
        for node, edges in graph.items():
            for other, length in edges:
                if found[node] + length < found[other] - 1e-12:
                    found[other], changed = found[node] + length, True
    return found


def test_streets_are_cut_along_cells_and_keep_their_length():
    layout = even_layout(TOWN, 16)
    streets, near = streets_of(layout)
    assert streets.lengths.sum() / 2 == pytest.approx(TOWN.lines.length)
    assert (streets.cells < layout.cells).all(), "every piece lies in a cell of the layout"
    sources = np.repeat(np.arange(len(streets.x)), np.diff(streets.starts))
    middle = [(axis[sources] + axis[streets.targets]) / 2 for axis in (streets.x, streets.y)]
    for axis, place in enumerate(middle):
        assert (place >= layout.low[streets.cells, axis] - 1e-12).all()
        assert (place <= layout.high[streets.cells, axis] + 1e-12).all()
    assert near.min() >= 0 and near.max() < len(streets.x)


def test_without_a_spread_a_route_is_the_shortest_there_is():
    streets, _ = streets_of(even_layout(TOWN, 16))
    marks = kernel.landmarks(streets, streets.lengths, 4)
    rng, many = np.random.default_rng(0), len(streets.x)
    first, last = rng.integers(0, many, (2, 12))
    offsets, pieces = kernel.routes(
        streets, streets.lengths, marks, first, last, np.arange(12), 0.0
    )
    graph = graph_of(streets)
    for trip, (a, b) in enumerate(itertools.pairwise(offsets)):
        expected = plain_distances(graph, int(first[trip]))[int(last[trip])]
        assert streets.lengths[pieces[a:b]].sum() == pytest.approx(expected)
        assert a == b or streets.targets[pieces[b - 1]] == last[trip]


def test_where_no_route_leads_a_trip_has_its_ends():
    apart = shapely.MultiLineString([[(0.1, 0.1), (0.4, 0.1)], [(0.1, 0.9), (0.4, 0.9)]])
    roads = Roads(apart, columns=("x", "y"), cells=32, box=(0, 0, 1, 1))
    layout, side = even_layout(roads, 16), 32
    ends = np.array([[6 * side + 3], [6 * side + 28]])
    about = {"visits": np.ones(layout.cells), "most": 6}
    rng = np.random.default_rng(0)
    lines = along_streets(layout, ends, np.array([0]), **about, rounds=6, rng=rng)
    offsets, places = lines.points(layout, ends, np.full(layout.cells, 5.0), rng)
    assert offsets.tolist() == [0, 2] and places.tolist() == ends[:, 0].tolist()


def test_shortest_ways_pass_the_cells_between_their_ends():
    layout = even_layout(TOWN, 16)
    # Along the lowest street, where y is 0, from one side to the other.
    passed = shortest_visits(layout, np.array([[0], [63 * 64]]).repeat(7, axis=1), 32)
    assert np.array_equal(passed, np.where(layout.middle[:, 1] < 4, 7 / 32, 0.0)), (
        "of 16 cells each"
    )


def test_trips_take_the_streets_that_are_visited():
    """From corner to corner all ways are as short; the released visits are along two sides."""
    layout = even_layout(TOWN, 16)
    ends = np.array([[65], [63 * 64 + 63]]).repeat(400, axis=1)
    along = (layout.middle[:, 0] < 6) | (layout.middle[:, 1] > 58)
    about = {"visits": np.where(along, 400.0, 0.0), "most": 6}
    rng = np.random.default_rng(0)
    lines = along_streets(layout, ends, np.zeros(400, np.int64), **about, rounds=6, rng=rng)
    offsets, places = lines.points(layout, ends, np.full(layout.cells, 40.0), rng)
    inside = along[layout.homes[places]]
    assert inside.mean() > 0.9, "evenly spread trips would have about half"
    assert np.diff(offsets).sum() == pytest.approx(40 * layout.cells, rel=0.15)


def test_only_sure_detours_are_believed():
    fewest, moves = np.full(100, 2), np.full(100, 60)
    nothing = np.zeros(len(FEWEST) * len(MORE))
    assert not long_moves(moves, fewest, nothing, 1.0).any()
    far = nothing.reshape(len(FEWEST), len(MORE)).copy()
    far[2, -2] = 1000.0
    assert (long_moves(moves, fewest, far.ravel(), 1.0) == 60).mean() > 0.9
    assert not long_moves(moves, fewest, far.ravel(), 1000.0).any()
    assert not long_moves(moves, fewest, far.ravel(), 1.0, unit=8).any(), "56 are 7 cells of eight"


def test_released_trips_go_along_the_streets():
    rng, rows = np.random.default_rng(1), []
    for trip in range(400):
        x, y = rng.integers(0, 9, 2) / 8 + 0.01
        stops = np.array([(0.01, 0.01), (x, 0.01), (x, y)])
        steps = np.concatenate([np.linspace(a, b, 8) for a, b in itertools.pairwise(stops)])
        rows += [(trip, at, *place) for at, place in enumerate(steps)]
    frame = pl.DataFrame(rows, schema=["trip", "at", "x", "y"], orient="row")
    own = {"trajectory": "trip", "order": "at"}
    mechanism = Trajectories(domain=TOWN, privacy=PureDP(epsilon=100), unit=Event(), **own)
    table = release_once(mechanism, frame, noise=Noise.insecure(1)).table
    near = shapely.distance(TOWN.lines, shapely.points(table["x"], table["y"]))
    assert near.max() < 1e-9
    steps = table.select(pl.col("x", "y").diff().over("trip").abs()).drop_nulls()
    # Between points of one street one coordinate stays; corners are cut.
    assert (steps.min_horizontal() < 0.03).mean() > 0.8
