"""Trajectories, and trivial releases that a good one must beat.

Geolife is the dissertation's: the trajectories that have only points inside of the box, with two
points at least. What a trajectory has outside is not cut off: one that leaves the box is left out
as a whole.
"""

import functools
from typing import Any

import numpy as np
import polars as pl
import shapely
from numba import njit
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import KDTree

from runner import data
from tailrace import Box, Roads
from tailrace.experiments.trajectories import BEIJING, geolife, nothing
from tailrace.metrics import Tracks

__all__ = ["BEIJING", "geolife", "nothing"]

OLDENBURG = Box(low=(0, 0), high=(10_000, 10_000), columns=("x", "y"))
WALK_SIDE = 40  # of the random walk's grid


def oldenburg() -> Tracks:
    """19,997 simulated journeys, a point a step: 684,522 points."""
    rows = pl.read_parquet(data("oldenburg_traffic", "points.parquet"))
    rows = rows.select("obj", "t", pl.col("x_dm") / 10, pl.col("y_dm") / 10)
    return Tracks.of_rows(*(rows[name].to_numpy() for name in ("obj", "t", "x_dm", "y_dm")))


def oldenburg_roads(*, cells: int = 1024) -> Roads:
    """The network that the traffic of Oldenburg was simulated on."""
    edges, nodes = (data("roads", f"oldenburg_{part}.parquet") for part in ("edges", "nodes"))
    box = (*OLDENBURG.low, *OLDENBURG.high)
    return Roads.read(edges, nodes=nodes, columns=("x", "y"), cells=cells, box=box)


def halves(tracks: Tracks, rng: np.random.Generator) -> tuple[Tracks, Tracks]:
    """Two random halves of one size: what fresh data of the same kind would score."""
    order, half = rng.permutation(len(tracks)), len(tracks) // 2
    return tracks.pick(order[:half]), tracks.pick(order[half : 2 * half])


def random_walks(tracks: Tracks, box: Box, rng: np.random.Generator) -> Tracks:
    """As many trajectories of as many points, that begin anywhere and wander.

    Each step stays or goes to one of the cells around, all as likely; the grid is that of the
    patterns, 40 x 40.
    """
    column, row = _walk(np.diff(tracks.offsets), WALK_SIDE, rng)
    places = (np.stack([column, row]) + rng.random((2, len(column)))) / WALK_SIDE
    low, width = np.array(box.low), np.subtract(box.high, box.low)
    return Tracks(tracks.offsets, low[0] + width[0] * places[0], low[1] + width[1] * places[1])


@njit(cache=True)
def _walk(sizes, side, rng):
    columns, rows, at = np.empty(sizes.sum(), np.int64), np.empty(sizes.sum(), np.int64), 0
    for size in sizes:
        column, row = rng.integers(0, side), rng.integers(0, side)
        for step in range(size):
            while step:
                across, along = column + rng.integers(-1, 2), row + rng.integers(-1, 2)
                if 0 <= across < side and 0 <= along < side:
                    column, row = across, along
                    break
            columns[at], rows[at] = column, row
            at += 1
    return columns, rows


MANHATTAN = Box(low=(-74.022, 40.681), high=(-73.925, 40.852), columns=("lon", "lat"))
# Metres of a degree, at the latitude of Manhattan.
METRES = (84_300.0, 111_000.0)
# Metres a second on streets of a class; other classes are for those on foot.
SPEEDS = {
    "motorway": 20,
    "trunk": 15,
    "primary": 11,
    "secondary": 9,
    "tertiary": 8,
    "residential": 6,
}
# Seconds between two points, and metres of a receiver's error.
EVERY, BLUR = 20.0, 8.0


def manhattan_roads(*, cells: int = 1024) -> Roads:
    """Streets that are driven on, with a reach of about 50 metres."""
    nodes, edges = _manhattan()
    lines = nodes[edges[["u", "v"]].to_numpy()]
    box = (*MANHATTAN.low, *MANHATTAN.high)
    about: dict[str, Any] = {"columns": MANHATTAN.columns, "cells": cells, "box": box}
    return Roads(shapely.MultiLineString(list(lines)), outside="nearest", reach=0.0006, **about)


@functools.cache
def _manhattan() -> tuple[np.ndarray, pl.DataFrame]:
    """(nodes, 2) places, and the edges of the largest driven component."""
    nodes = pl.read_parquet(data("roads", "manhattan_nodes.parquet"))
    edges = pl.read_parquet(data("roads", "manhattan_edges.parquet"))
    kind = edges["class"].cast(pl.String).str.replace("_link", "")
    edges = edges.with_columns(speed=kind.replace_strict(SPEEDS, default=0.0)).filter(
        pl.col("speed") > 0
    )
    row = {node: at for at, node in enumerate(nodes["node"].to_list())}
    ends = {name: pl.Series([row[node] for node in edges[name]]) for name in ("u", "v")}
    edges = edges.with_columns(**ends)
    size = len(nodes)
    graph = coo_array((np.ones(len(edges)), (edges["u"], edges["v"])), (size, size))
    part = connected_components(graph, directed=False)[1]
    largest = np.bincount(part[edges["u"].to_numpy()]).argmax()
    return nodes[["lon", "lat"]].to_numpy(), edges.filter(pl.Series(part)[edges["u"]] == largest)


def manhattan(many: int, seed: int) -> tuple[Tracks, np.ndarray]:
    """Generated trips by car on Manhattan's streets, and the hour of each.

    Ends gather around 40 places that change with the hour; routes are the quickest of 1 + many //
    250 days, on each of which every street is up to twice as slow or as fast (lognormal, .3); a
    point every 20 seconds with a receiver's error.
    """
    rng, (places, edges) = np.random.default_rng((4, seed)), _manhattan()
    metres = places * METRES
    u, v = (edges[name].to_numpy() for name in ("u", "v"))
    used = np.unique(np.concatenate([u, v]))
    length = np.hypot(*(metres[u] - metres[v]).T)
    # The gathering places are the same for all seeds.
    common = np.random.default_rng(4)
    centres, pull = metres[common.choice(used, 40)], common.gamma(0.7, 1.0, (24, 2, 40))
    hours = rng.choice(24, many, p=(h := 1.2 + np.sin((np.arange(24) - 9) * np.pi / 12)) / h.sum())
    ends = np.empty((2, many), np.int64)
    tree = KDTree(metres[used])
    for side in range(2):
        weights = pull[hours, side]
        sums = np.cumsum(weights, axis=1)
        which = (sums < rng.random(many)[:, None] * sums[:, -1:]).sum(axis=1)
        at = centres[which] + rng.normal(0, 1, (many, 2)) * rng.exponential(700, many)[:, None]
        ends[side] = used[tree.query(at)[1]]
    tracks, days = [], np.array_split(np.arange(many), 1 + many // 250)
    for day in days:
        seconds = length / edges["speed"].to_numpy() * rng.lognormal(0, 0.3, len(length))
        both = coo_array((np.tile(seconds, 2), (np.append(u, v), np.append(v, u))))
        starts, row = np.unique(ends[0, day], return_inverse=True)
        graph = csr_array(both.tocsr())
        _, before = dijkstra(graph, indices=starts, return_predecessors=True)
        for trip, source in zip(day, row, strict=True):
            path = [ends[1, trip]]
            while path[-1] != ends[0, trip]:
                path.append(before[source, path[-1]])
            path = np.array(path[::-1])
            taken = np.append(0, np.cumsum(graph[path[:-1], path[1:]])) if len(path) > 1 else [0.0]
            when = np.append(np.arange(0, taken[-1], EVERY), taken[-1])
            tracks.append([np.interp(when, taken, metres[path, axis]) for axis in range(2)])
    x, y = (np.concatenate([track[axis] for track in tracks]) for axis in range(2))
    blur = rng.normal(0, BLUR, (2, len(x)))
    offsets = np.append(0, np.cumsum([len(track[0]) for track in tracks]))
    return Tracks(offsets, (x + blur[0]) / METRES[0], (y + blur[1]) / METRES[1]), hours
