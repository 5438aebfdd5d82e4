"""Trajectories, and trivial releases that a good one must beat.

Geolife is the dissertation's: the trajectories that have only points inside of the box, with two
points at least. What a trajectory has outside is not cut off: one that leaves the box is left out
as a whole.
"""

import numpy as np
import polars as pl
from numba import njit

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
