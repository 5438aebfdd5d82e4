"""Trips across a map without roads: by cells that are passed, around those that are not."""

import numpy as np
import polars as pl
import pytest

from tailrace import Box, Event, Noise, PureDP, Region, Trajectories, release_once
from tailrace.mechanisms.trajectories.lattice import across, lattice_of
from tailrace.mechanisms.trajectories.layout import even_layout
from tailrace.mechanisms.trajectories.points import stays
from tailrace.mechanisms.trajectories.walks import Walks

SQUARE = Box(low=(0, 0), high=(2, 1), columns=("x", "y"), cells=32)


def walked(layout, ends, visits, seed=0):
    ends = np.asarray(ends)
    moves = np.zeros(ends.shape[1], np.int64)
    rng = np.random.default_rng(seed)
    return across(layout, ends, moves, visits=visits, used=visits > 0, most=6, rounds=6, rng=rng)


def test_pieces_lie_in_their_cells_and_meet_on_their_rims():
    layout = even_layout(SQUARE, 8)
    streets, middle = lattice_of(layout)
    assert len(streets.cells) == 2 * 8 * layout.cells
    sources = np.repeat(np.arange(len(streets.x)), np.diff(streets.starts))
    for axis, place in enumerate((streets.x, streets.y)):
        for node in (sources, streets.targets):
            assert (place[node] >= layout.low[streets.cells, axis] - 1e-12).all()
            assert (place[node] <= layout.high[streets.cells, axis] + 1e-12).all()
    assert np.allclose(streets.x[middle], (layout.low + layout.high)[:, 0] / 2)
    # A middle of each cell, and of each side, which two cells share.
    assert len(streets.x) == 64 + 2 * 8 * 9
    apart = np.hypot(*(at[sources] - at[streets.targets] for at in (streets.x, streets.y)))
    assert np.allclose(apart, streets.lengths)


def test_walks_go_from_cell_to_touching_cell_between_their_ends():
    layout = even_layout(SQUARE, 16)
    ends = np.random.default_rng(1).integers(0, SQUARE.size, (2, 200))
    walks = walked(layout, ends, np.ones(layout.cells))
    homes = layout.homes[ends]
    assert (walks.cells[walks.offsets[:-1]] == homes[0]).all()
    assert (walks.cells[walks.offsets[1:] - 1] == homes[1]).all()
    for trip in range(200):
        cells = walks.cells[walks.offsets[trip] : walks.offsets[trip + 1]]
        assert (layout.apart(cells[:-1], cells[1:]) == 1).all()


def test_trips_go_around_what_nobody_passes():
    """A wall with a gate at its end: the straight way leads through the wall."""
    layout = even_layout(SQUARE, 16)
    x, y = (layout.middle // 2).astype(int).T
    wall = (x == 8) & (y > 1)
    ends = np.array([[2 * 32 + 30], [29 * 32 + 30]]).repeat(300, axis=1)
    walks = walked(layout, ends, np.where(wall, 0.0, 50.0))
    assert wall[walks.cells].sum() < 0.02 * 300
    free = walked(layout, ends, np.full(layout.cells, 50.0))
    assert wall[free.cells].sum() > 0.9 * 300


def test_where_no_way_leads_a_walk_has_its_ends():
    shapely = pytest.importorskip("shapely")
    islands = shapely.MultiPolygon([shapely.box(0, 0, 0.2, 0.2), shapely.box(0.8, 0.8, 1, 1)])
    domain = Region(islands, columns=("x", "y"), cells=32, box=(0, 0, 1, 1))
    layout = even_layout(domain, 16)
    ends = np.array([[33, 33], [30 * 32 + 30, 33]])
    walks = walked(layout, ends, np.ones(layout.cells))
    assert np.diff(walks.offsets).tolist() == [2, 1]
    assert walks.cells.tolist() == layout.homes[[33, 30 * 32 + 30, 33]].tolist()


def test_points_lie_evenly_along_walks_and_are_as_many_as_released():
    rng = np.random.default_rng(2)
    walks = Walks(np.arange(0, 4_001, 40), np.tile(np.arange(40), 100), np.ones(4_000, bool))
    each = stays(walks, np.full(40, 25.0), rng).reshape(100, 40)
    assert each.max() == 1 and (each[:, [0, -1]] == 1).all()
    assert each.sum() == pytest.approx(40 * 25 + 2 * 75, rel=0.02)
    for row in each[:, 1:-1]:
        assert set(np.diff(np.flatnonzero(row))) <= {4}, "a quarter of the visits, evenly"
    dense = stays(walks, np.full(40, 500.0), rng)
    assert dense.sum() == pytest.approx(40 * 500, rel=0.05) and dense.min() >= 1


def test_released_trips_keep_to_where_trips_go():
    """Two ways around a lake: hardly a line between points crosses it."""
    rng, rows = np.random.default_rng(3), []
    for trip in range(600):
        turn = np.linspace(0, np.pi, 25) * (1 if trip % 2 else -1)
        place = np.stack([1 - 0.8 * np.cos(turn), 0.5 + 0.4 * np.sin(turn)], axis=1)
        place += rng.normal(0, 0.01, place.shape)
        rows += [(trip, at, x, y) for at, (x, y) in enumerate(place)]
    frame = pl.DataFrame(rows, schema=["trip", "at", "x", "y"], orient="row")
    own = {"trajectory": "trip", "order": "at"}
    mechanism = Trajectories(domain=SQUARE, privacy=PureDP(epsilon=100), unit=Event(), **own)
    table = release_once(mechanism, frame, noise=Noise.insecure(1)).table
    middle = table.select((pl.col("x", "y") + pl.col("x", "y").shift(-1).over("trip")) / 2)
    lake = ((pl.col("x") - 1) / 0.8) ** 2 + ((pl.col("y") - 0.5) / 0.4) ** 2 < 0.4
    assert table["trip"].n_unique() > 200
    assert middle.drop_nulls().select(lake.mean()).item() < 0.02
