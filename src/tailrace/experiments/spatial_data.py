"""Streams of places, generated and real.

A stream is a list of (adds, deletes), two arrays (points, 2) a step.
"""

from datetime import datetime

import narwhals as nw
import numpy as np
import polars as pl

from tailrace import Region, Roads
from tailrace.domain import Box
from tailrace.domain.geometry.partition import Ground
from tailrace.experiments.runner import data

Steps = list[tuple[np.ndarray, np.ndarray]]

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
# Where PrivStream's authors begin: the months before hold 333 check-ins.
OCTOBER = datetime(2009, 10, 1)
NEW_YORK = Box(low=(-74.26, 40.48), high=(-73.70, 40.92), columns=("lon", "lat"))


def circles(*, steps: int = 100, events: int = 500, seed: int = 0) -> Steps:
    """Points come on a ring of radius .2; from half time on they move to one of .4.

    Then half of a step's events delete and half add. The distance from the centre has a standard
    deviation of .01.
    """
    rng, half = np.random.default_rng(seed), steps // 2

    def ring(radius: float, number: int) -> np.ndarray:
        angle, distance = rng.uniform(0, 2 * np.pi, number), rng.normal(radius, 0.01, number)
        return 0.5 + np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1)

    inner = ring(0.2, half * events)
    moves = rng.permutation(inner)
    moved = events // 2
    found = [(inner[t * events : (t + 1) * events], moves[:0]) for t in range(half)]
    return found + [
        (ring(0.4, moved), moves[t * moved : (t + 1) * moved]) for t in range(steps - half)
    ]


def both_circles(*, steps: int = 100, events: int = 500, seed: int = 0) -> Steps:
    """Points come on two rings, of radius .2 and .4, and stay."""
    rng, adds = np.random.default_rng(seed), []
    for _ in range(steps):
        angle, inner = rng.uniform(0, 2 * np.pi, events), rng.random(events) < 0.5
        distance = rng.normal(np.where(inner, 0.2, 0.4), 0.01)
        adds.append(0.5 + np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1))
    return deleted_after(adds, None)


def rings(*, steps: int = 100, events: int = 500, stay: int = 20, seed: int = 0) -> Steps:
    """Points come on a ring whose radius grows from .1 to .45, and leave `stay` steps later."""
    rng, adds = np.random.default_rng(seed), []
    for t in range(steps):
        angle = rng.uniform(0, 2 * np.pi, events)
        distance = rng.normal(0.1 + 0.35 * t / steps, 0.01, events)
        adds.append(0.5 + np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1))
    return deleted_after(adds, stay)


def city(*, steps: int = 200, events: int = 500, stay: int | None = 60, seed: int = 0) -> Steps:
    """60 drifting clusters, the k-th of weight 1 / k, and 3 % anywhere.

    A point is deleted `stay` steps after it came.
    """
    rng, clusters = np.random.default_rng(seed), 60
    centre = np.clip(rng.normal(0.5, 0.15, (clusters, 2)), 0.05, 0.95)
    drift = rng.normal(0, 0.0005, (clusters, 2))
    width = rng.uniform(0.005, 0.03, clusters)
    weight = 1 / np.arange(1, clusters + 1)
    weight /= weight.sum()
    adds = []
    for t in range(steps):
        which = rng.choice(clusters, events, p=weight)
        points = (
            centre[which] + t * drift[which] + rng.normal(0, 1, (events, 2)) * width[which, None]
        )
        anywhere = rng.random(events) < 0.03
        points[anywhere] = rng.random((int(anywhere.sum()), 2))
        # A point that would leave the square is reflected.
        adds.append(1 - np.abs(1 - np.abs(points)))
    return deleted_after(adds, stay)


def gowalla(*, steps: int = 300, stay: int | None = None) -> Steps:
    """Check-ins in New York since October 2009, in equal slices of time."""
    path = data("gowalla_nyc", "checkins.parquet")
    rows = pl.read_parquet(path, columns=["ts", "lon", "lat"]).filter(pl.col("ts") >= OCTOBER)
    when = rows["ts"].cast(pl.Datetime("us")).cast(pl.Int64).to_numpy()
    step = np.minimum(
        (when - when.min()) * steps // max(int(when.max() - when.min()), 1), steps - 1
    )
    return deleted_after(_by_step(rows.select("lon", "lat").to_numpy(), step, steps), stay)


def world(*, steps: int = 300, points: int = 200_000) -> tuple[Ground, Steps]:
    """Points of all check-ins on the world's land, coming as New York's do.

    Drawn from a histogram of 256 x 256 cells over all longitudes and latitudes, evenly in a cell.
    """
    land = Region.read(data("land", "world_no_antarctica_110m.geojson"))
    rows = pl.read_parquet(data("dpcomp_hist", "histograms.parquet"))
    rows = rows.filter(pl.col("dataset") == "checkin_256_256")
    rng, weight = np.random.default_rng(0), rows["count"].to_numpy()
    which = rng.choice(len(rows), points, p=weight / weight.sum())
    cell = rows.select("j", "i").to_numpy()[which]
    places = (cell + rng.random(cell.shape)) / 256 * (360, 180) - (180, 90)
    pace = np.cumsum([len(adds) for adds, _ in gowalla(steps=steps)])
    cuts = (pace / pace[-1] * points).astype(int)[:-1]
    return land, deleted_after([inside(land, part) for part in np.split(places, cuts)], None)


def pickups(*, where: str, points: int = 100_000) -> tuple[Ground, Steps]:
    """Some of a week's pickups, on the state's land or on Manhattan's roads."""
    if where == "manhattan":
        edges, nodes = (data("roads", f"manhattan_{part}.parquet") for part in ("edges", "nodes"))
        domain: Ground = Roads.read(edges, nodes=nodes)
    else:
        domain = Region.read(data("land", f"{where}.geojson"))
    found = [inside(domain, adds) for adds, _ in uber()]
    rng, share = np.random.default_rng(0), points / sum(map(len, found))
    return domain, deleted_after([one[rng.random(len(one)) < share] for one in found], None)


def inside(domain: Ground, points: np.ndarray) -> np.ndarray:
    """The points that count in a domain."""
    return points[in_cells(domain, points) >= 0]


def uber() -> Steps:
    """4.3 million pickups in New York by hour of the week: 168 steps, no deletions."""
    rows = pl.read_parquet(data("uber_nyc_2014", "pickups.parquet"))
    points = rows.select(pl.col("lon_e4") / 1e4, pl.col("lat_e4") / 1e4).to_numpy()
    return deleted_after(_by_step(points, rows["hour_of_week"].to_numpy(), 168), None)


def deleted_after(adds: list[np.ndarray], stay: int | None) -> Steps:
    """Each step's points with those deleted that came `stay` steps before."""
    empty = np.empty((0, 2))
    return [
        (new, adds[t - stay] if stay is not None and t >= stay else empty)
        for t, new in enumerate(adds)
    ]


def frame(box: Ground, points: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({name: points[:, i] for i, name in enumerate(box.columns)})


def in_cells(box: Ground, points: np.ndarray) -> np.ndarray:
    """The cell of each point."""
    return box.cells(nw.from_native(frame(box, points))) if len(points) else np.zeros(0, np.int64)


def present(stream: Steps, step: int) -> np.ndarray:
    """The points that are there after so many steps."""
    added = np.concatenate([adds for adds, _ in stream[:step]])
    deleted = np.concatenate([deletes for _, deletes in stream[:step]])
    if not len(deleted):
        return added
    both = np.concatenate([added, deleted])
    places, which = np.unique(both, axis=0, return_inverse=True)
    left = np.bincount(which[: len(added)], minlength=len(places)) - np.bincount(
        which[len(added) :], minlength=len(places)
    )
    return np.repeat(places, left, axis=0)


def _by_step(points: np.ndarray, step: np.ndarray, steps: int) -> list[np.ndarray]:
    order = np.argsort(step, kind="stable")
    ends = np.cumsum(np.bincount(step, minlength=steps))[:-1]
    return np.split(points[order], ends)
