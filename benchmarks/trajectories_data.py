"""Trajectories for benchmarks, and trivial releases that a good one must beat.

The real ones (Geolife in Beijing) and the simulated ones (traffic on Oldenburg's roads) are read
from a folder outside of the project, named by TAILRACE_DATA or found as ../shared/data beside the
checkout, and are None where it is absent.

Geolife is the dissertation's: the trajectories that have only points inside of the box, with two
points at least. What a trajectory has outside is not cut off: one that leaves the box is left out
as a whole.
"""

import os
from pathlib import Path

import numpy as np
from numba import njit

from tailrace import Box, Roads
from tailrace.metrics import Tracks

BEIJING = Box(low=(116.15, 39.75), high=(116.60, 40.10), columns=("lon", "lat"))
OLDENBURG = Box(low=(0, 0), high=(10_000, 10_000), columns=("x", "y"))
WALK_SIDE = 40  # of the random walk's grid


def geolife() -> Tracks | None:
    """14,936 journeys of 170 people in Beijing, a point a minute: 821,317 points."""
    path = _found("geolife", "points.parquet")
    if path is None:
        return None
    import polars as pl

    rows = pl.read_parquet(path).select(
        "traj", "ts", lon=pl.col("lon_e5") / 1e5, lat=pl.col("lat_e5") / 1e5
    )
    inside = pl.all_horizontal(
        pl.col(name).is_between(low, high)
        for name, low, high in zip(("lon", "lat"), BEIJING.low, BEIJING.high, strict=True)
    )
    rows = rows.filter(inside.all().over("traj") & (pl.len().over("traj") >= 2))
    return Tracks.of_rows(*(rows[name].to_numpy() for name in ("traj", "ts", "lon", "lat")))


def oldenburg() -> Tracks | None:
    """19,997 simulated journeys, a point a step: 684,522 points."""
    path = _found("oldenburg_traffic", "points.parquet")
    if path is None:
        return None
    import polars as pl

    rows = pl.read_parquet(path).select("obj", "t", pl.col("x_dm") / 10, pl.col("y_dm") / 10)
    return Tracks.of_rows(*(rows[name].to_numpy() for name in ("obj", "t", "x_dm", "y_dm")))


def oldenburg_roads(*, cells: int = 1024) -> Roads | None:
    """The network that the traffic of Oldenburg was simulated on."""
    edges, nodes = (
        _found("roads", "oldenburg_edges.parquet"),
        _found("roads", "oldenburg_nodes.parquet"),
    )
    if edges is None or nodes is None:
        return None
    return Roads.read(
        edges, nodes=nodes, columns=("x", "y"), cells=cells, box=(*OLDENBURG.low, *OLDENBURG.high)
    )


def halves(tracks: Tracks, rng: np.random.Generator) -> tuple[Tracks, Tracks]:
    """Two random halves of the trajectories, of one size: what fresh data of the same kind would
    score.
    """
    order, half = rng.permutation(len(tracks)), len(tracks) // 2
    return tracks.pick(order[:half]), tracks.pick(order[half : 2 * half])


def nothing() -> Tracks:
    """The empty release."""
    return Tracks(np.zeros(1, np.int64), np.empty(0), np.empty(0))


def random_walks(tracks: Tracks, box: Box, rng: np.random.Generator) -> Tracks:
    """As many trajectories of as many points, that begin anywhere and then stay or go to one of the
    cells around, all as likely.

    The grid is that of the patterns, 40 x 40.
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


def _found(*names: str) -> Path | None:
    folder = os.environ.get("TAILRACE_DATA") or Path(__file__).parents[2] / "shared" / "data"
    path = Path(folder, *names)
    return path if path.exists() else None
