"""Trips along streets, which pass cells as often as released.

Every trip takes a route on the public graph of the roads (`routes.py`), between the nodes nearest
to its ends. Points lie along the route, closer together where the released density has more of them
for each length that all trips travel.
"""

from __future__ import annotations

import functools

import numpy as np

from tailrace.domain import Box
from tailrace.domain.geometry import Roads, shapes
from tailrace.domain.geometry.grid import crossings, of_box
from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.mechanisms.trajectories.points import nearest_cells
from tailrace.mechanisms.trajectories.routes import Wanted, legs_of, routes_of
from tailrace.mechanisms.trajectories.streets_kernel import Streets

# Chosen by trial on trips on Manhattan's streets (benchmarks/trajectories_data.py, seeds 0 and 1,
# 5,000 trips at epsilon 1 and with true counts).
# A cell's factor, at most, and at least its inverse. 8 is as good with true counts, worse with few.
_LIMIT = 3.0
# How much closer together than usual points lie in a cell, at most, or farther apart.
_CLOSER = 5.0


@functools.lru_cache(maxsize=4)
def streets_of(layout: Layout) -> tuple[Streets, np.ndarray]:
    """Streets cut along a layout's cells; each cell's nearest node."""
    from tailrace.domain.geometry import kernel

    domain = layout.domain
    assert isinstance(domain, Roads)
    low, high = np.array(domain.low), np.array(domain.high)
    coarse = round(((high - low) / (layout.high - layout.low)[0])[0])
    grid = of_box(Box(low=domain.low, high=domain.high, columns=domain.columns, cells=coarse))
    fine = of_box(domain.box)
    segments = shapes.segments(shapes.within(domain.lines, fine.outline))
    owner, share, at = crossings(segments, grid)
    pieces = np.flatnonzero((owner[:-1] == owner[1:]) & (share[:-1] < share[1:]))
    # Streets join where they have a vertex in common, to the last digit.
    vertices, node = np.unique(segments.reshape(-1, 2), axis=0, return_inverse=True)
    node, inner = node.reshape(-1, 2), (share > 0) & (share < 1)
    names = np.where(share == 0, node[owner, 0], node[owner, 1])
    names[inner] = len(vertices) + np.arange(inner.sum())
    places = np.concatenate([vertices, low + at[inner] / grid.scale])
    one, other = names[pieces], names[pieces + 1]
    length = np.hypot(*(places[one] - places[other]).T)
    codes = np.clip(np.floor(fine.scaled((places[one] + places[other]) / 2)), 0, fine.side - 1)
    cells = layout.homes[(codes[:, 0] * fine.side + codes[:, 1]).astype(np.int64)]
    cells = np.where(cells < 0, layout.cells, cells)
    sources, targets = np.append(one, other), np.append(other, one)
    order = np.argsort(sources, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(sources, minlength=len(places))))
    both = np.tile(length, 2)[order], np.tile(cells, 2)[order].astype(np.int64)
    streets = Streets(starts, targets[order], *both, *np.ascontiguousarray(places.T))
    codes = np.clip(np.floor(fine.scaled(places)), 0, fine.side - 1).astype(np.int64)
    holder = np.full(fine.side**2, -1, np.int64)
    holder[codes[:, 0] * fine.side + codes[:, 1]] = np.arange(len(places))
    width, height = fine.width.tolist()
    near = kernel.nearest(holder.reshape(domain.shape) >= 0, width, height, np.inf)
    return streets, holder[near.reshape(-1)]


def along_streets(
    layout: Layout,
    ends: np.ndarray,
    moves: np.ndarray,
    *,
    visits: np.ndarray,
    most: int,
    points: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw points of trips: offsets, and cells of the domain.

    Parameters
    ends: (2, trips) cells of the domain, the first and last point of every trip.
    moves: (trips,) about how many cells of the layout each passes, as `usual_moves` says.
    visits: (cells,) of the layout, trips that pass each, of `most` cells or more counted alike.
    points: (cells,) of the layout, points in each.
    """
    from tailrace.mechanisms.trajectories import streets_kernel as kernel

    assert isinstance(layout.domain, Roads)
    (streets, near), (legs, trip) = streets_of(layout), legs_of(layout, ends, moves, visits, rng)
    nodes = near[legs]
    wanted = Wanted(visits, most, np.ones(layout.cells + 1), (1 / _LIMIT, _LIMIT))
    offsets, pieces = routes_of(streets, nodes, trip, wanted, rng)
    cells, lengths = streets.cells[pieces], streets.lengths[pieces]
    travelled = np.bincount(cells, lengths, minlength=layout.cells + 1)
    # Both ends are points already.
    ended = np.bincount(layout.homes[ends].ravel(), minlength=layout.cells)
    inner = np.append(np.maximum(points - ended, 0.0), 0.0)
    rates = _rates(inner, travelled)
    strides = rng.uniform(0.6, 1.4, ends.shape[1])
    strides = (strides * (1 / strides).mean())[trip]
    phases = rng.random(len(trip))
    sums, x, y = kernel.points(streets, nodes[0], offsets, pieces, rates, phases, strides)
    each = np.bincount(trip, np.diff(sums), minlength=ends.shape[1]).astype(np.int64) + 2
    found = np.append(0, np.cumsum(each))
    places, held = np.empty(found[-1], np.int64), np.ones(found[-1], np.bool_)
    places[found[:-1]], places[found[1:] - 1] = ends
    held[found[:-1]] = held[found[1:] - 1] = False
    places[held] = _cells(layout.domain, np.stack([x, y], axis=1))
    return found, places


def _rates(points: np.ndarray, travelled: np.ndarray) -> np.ndarray:
    """(cells + 1,) points of each length, as many as released in all."""
    if not travelled.any():
        return np.zeros(len(points))
    usual, some = points.sum() / travelled.sum(), 0.1 * travelled.mean()
    rates = (points + usual * some) / (travelled + some)
    rates = np.clip(rates, usual / _CLOSER, usual * _CLOSER)
    return rates * (points.sum() / max(float(rates @ travelled), 1e-300))


def _cells(domain: Roads, points: np.ndarray) -> np.ndarray:
    """The cells of points (n, 2), or the nearest that have a road."""
    grid = of_box(domain.box)
    codes = np.clip(np.floor(grid.scaled(points)), 0, grid.side - 1).astype(np.int64)
    return nearest_cells(domain)[codes[:, 0] * grid.side + codes[:, 1]]
