"""Trips along streets, which pass cells as often as released.

Every trip takes a route on the public graph of the roads (`routes.py`), between the nodes nearest
to its ends.
"""

from __future__ import annotations

import functools

import numpy as np

from tailrace.domain import Box
from tailrace.domain.geometry import Roads, shapes
from tailrace.domain.geometry.grid import crossings, of_box
from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.mechanisms.trajectories.lines import Lines
from tailrace.mechanisms.trajectories.routes import Wanted, legs_of, routes_of, shortest
from tailrace.mechanisms.trajectories.streets_kernel import Streets

# Chosen by trial on trips on Manhattan's streets (benchmarks/trajectories_data.py, seeds 0 and 1,
# 5,000 trips at epsilon 1 and with true counts).
# A cell's factor, at most, and at least its inverse. 8 is as good with true counts, worse with few.
_LIMIT = 3.0


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
    rounds: int,
    rng: np.random.Generator,
) -> Lines:
    """Draw trips.

    Parameters
    ends: (2, trips) cells of the domain, the first and last point of every trip.
    moves: (trips,) about how many cells of the layout each passes, as `long_moves` says.
    visits: (cells,) of the layout, trips that pass each, of `most` cells or more counted alike.
    rounds: of calibration.
    """
    (streets, near), (legs, trip) = streets_of(layout), legs_of(layout, ends, moves, visits, rng)
    nodes = near[legs]
    wanted = Wanted(visits, most, rounds, np.ones(layout.cells + 1), (1 / _LIMIT, _LIMIT))
    offsets, pieces = routes_of(streets, nodes, trip, wanted, rng)
    # A leg begins at a node, and each piece leads to the next one.
    start, many = offsets[:-1], np.diff(offsets) + 1
    at = np.insert(streets.targets[pieces], start, nodes[0])
    cells = np.insert(streets.cells[pieces], start, layout.homes[legs[0]])
    lengths = np.insert(streets.lengths[pieces], start, 0.0)
    sums = np.append(0, np.cumsum(np.bincount(trip, many, minlength=ends.shape[1])))
    return Lines(sums.astype(np.int64), streets.x[at], streets.y[at], cells, lengths)


def shortest_visits(layout: Layout, ends: np.ndarray, most: int) -> np.ndarray:
    """(cells,) visits if all trips take the shortest way between their ends."""
    streets, near = streets_of(layout)
    return shortest(streets, near[ends], most, layout.cells)
