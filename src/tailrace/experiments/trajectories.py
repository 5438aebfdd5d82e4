"""Kumar's dissertation, chapter 5: synthetic journeys.

Geolife is the dissertation's, in the same box: the trajectories that have only points inside, two
at least; one that leaves the box is left out as a whole. The dissertation has every point (15,583
trajectories, 13,151,175 points), ours a point a minute.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import polars as pl

from tailrace.counting.journeys.moves import Ends, Even
from tailrace.domain import Box
from tailrace.experiments.paper import Paper, Pivot
from tailrace.experiments.runner import NotHereError, data, mean_error
from tailrace.experiments.spatial_data import city
from tailrace.mechanisms.trajectories.mechanism import Trajectories
from tailrace.metrics.trajectories import Tracks, small_rectangles, trajectory_error
from tailrace.noise import Noise
from tailrace.papers import trajectories
from tailrace.pipeline import release_once
from tailrace.privacy.loss import PureDP
from tailrace.privacy.unit import Event

BEIJING = Box(low=(116.15, 39.75), high=(116.60, 40.10), columns=("lon", "lat"))
FRESH = 2026  # noise seeds follow it
PARTS = {"trajectory": "trip", "order": "point"}
# The table's columns, as `TrajectoryError` calls them.
MEASURES = {
    "SE_ARE": "ends_are",
    "SE_JSD": "ends_jsd",
    "FP_ARE": "patterns_are",
    "FP_JSD": "patterns_jsd",
    "QE": "queries",
}
PRINTED = {
    (1, "AdaTrace"): (1.12, 0.80, 1.00, 0.73, 0.19),
    (1, "dissertation, Ends"): (1.18, 0.63, 0.96, 0.39, 0.23),
    (1, "dissertation, Even"): (1.19, 0.64, 0.98, 0.26, 0.27),
    (2, "AdaTrace"): (1.17, 0.80, 1.00, 0.73, 0.18),
    (2, "dissertation, Ends"): (1.14, 0.60, 0.97, 0.32, 0.21),
    (2, "dissertation, Even"): (1.17, 0.60, 0.96, 0.27, 0.26),
}
METHODS: dict[str, Callable[..., Any]] = {
    "dissertation, Even": functools.partial(trajectories, weighting=Even()),
    "dissertation, Ends": functools.partial(trajectories, weighting=Ends()),
    "ours": Trajectories,
}
EMPTY = "an empty release"
PAPER = Paper(
    "trajectories",
    "Journeys: Kumar's dissertation, repeated",
    "Differentially Private Synthetic Trajectories, chapter 5 of Kumar's dissertation (2024)",
)


def geolife() -> Tracks:
    """14,936 journeys of 170 people in Beijing, a point a minute: 821,317 points."""
    rows = pl.read_parquet(data("geolife", "points.parquet")).select(
        "traj", "ts", lon=pl.col("lon_e5") / 1e5, lat=pl.col("lat_e5") / 1e5
    )
    inside = pl.all_horizontal(
        pl.col(name).is_between(low, high)
        for name, low, high in zip(("lon", "lat"), BEIJING.low, BEIJING.high, strict=True)
    )
    rows = rows.filter(inside.all().over("traj") & (pl.len().over("traj") >= 2))
    return Tracks.of_rows(*(rows[name].to_numpy() for name in ("traj", "ts", "lon", "lat")))


def generated(*, many: int = 5000, seed: int = 0) -> Tracks:
    """Straight journeys between places of a generated city, laid over Beijing."""
    rng = np.random.default_rng(seed)
    places = np.concatenate([adds for adds, _ in city(steps=20, stay=None, seed=seed)])
    start, end = places[rng.integers(0, len(places), (2, many))]
    sizes = 5 + (100 * np.linalg.norm(end - start, axis=1)).astype(int)
    along = np.concatenate([np.linspace(0, 1, size) for size in sizes])[:, None]
    points = np.repeat(start, sizes, axis=0) * (1 - along) + np.repeat(end, sizes, axis=0) * along
    points = np.clip(points + rng.normal(0, 0.003, points.shape), 0, 1)
    x, y = (np.array(BEIJING.low) + points * np.subtract(BEIJING.high, BEIJING.low)).T
    return Tracks(np.concatenate([[0], np.cumsum(sizes)]), x, y)


def nothing() -> Tracks:
    """The empty release."""
    return Tracks(np.zeros(1, np.int64), np.empty(0), np.empty(0))


def frame(tracks: Tracks, columns: Iterable[str], people: np.ndarray | None = None) -> pl.DataFrame:
    """A row for each point: trip, place among its points, coordinates; and the person."""
    many = np.diff(tracks.offsets)
    rows = {
        "trip": np.repeat(np.arange(len(many)), many),
        "point": np.arange(len(tracks.x)) - np.repeat(tracks.offsets[:-1], many),
        **dict(zip(columns, (tracks.x, tracks.y), strict=True)),
    }
    return pl.DataFrame(rows if people is None else {**rows, "person": np.repeat(people, many)})


def tracks_in(table: pl.DataFrame, columns: Iterable[str]) -> Tracks:
    """The journeys of a synthetic table."""
    return Tracks.of_rows(*(table[name].to_numpy() for name in ("trip", "point", *columns)))


@functools.lru_cache(maxsize=1)
def known(many: int) -> Tracks:
    """Geolife, or generated journeys where it is not here; some of them at random."""
    try:
        tracks = geolife()
    except NotHereError:
        tracks = generated()
    chosen = np.random.default_rng(FRESH).permutation(len(tracks))
    return tracks.pick(chosen[:many]) if many else tracks


@PAPER.exhibit(
    "Table 5.1: Geolife",
    "Errors of ends (SE), frequent patterns (FP) and small rectangles (QE): relative, and by"
    " Jensen-Shannon; the smaller the better. Exponential weights of the dissertation are Ends,"
    " uniform ones Even. Printed numbers are of 16 times as many points, so QE compares least. Our"
    " defaults were chosen on these same journeys.",
    "papers_trajectories",
    keys="epsilon | method",
    columns=" | ".join(MEASURES),
    cases=[
        (epsilon, method)
        for epsilon in (1, 2)
        for method in (
            *METHODS,
            EMPTY,
            *(f"{one}, printed" for of, one in PRINTED if of == epsilon),
        )
    ],
    table=Pivot(("epsilon", "method"), tuple(MEASURES)),
    # fewer journeys would be too few: ours releases none then
    quick={"seeds": 1, "journeys": 9000},
    needs=("geolife",),
)
def table(epsilon, method, seeds=3, journeys=0):
    if method.endswith(", printed"):
        yield [epsilon, method, *map(str, PRINTED[epsilon, method.removesuffix(", printed")])]
        return
    found = np.array([measured(epsilon, method, seed, journeys) for seed in range(1, seeds + 1)])
    pairs = zip(found.mean(axis=0), mean_error(found), strict=True)
    yield [epsilon, method, *(f"{mean:.3f}+-{error:.3f}" for mean, error in pairs)]


def measured(epsilon: int, method: str, seed: int, journeys: int) -> list[float]:
    """The table's measures of one release."""
    true, rng = known(journeys), np.random.default_rng((FRESH, seed))
    rectangles = small_rectangles(rng, low=BEIJING.low, high=BEIJING.high)
    made = nothing()
    if method in METHODS:
        mechanism = METHODS[method](
            domain=BEIJING, privacy=PureDP(epsilon=epsilon), unit=Event(), **PARTS
        )
        rows, noise = frame(true, BEIJING.columns), Noise.insecure(FRESH + seed)
        made = tracks_in(release_once(mechanism, rows, noise=noise).table, BEIJING.columns)
    error = trajectory_error(true, made, low=BEIJING.low, high=BEIJING.high, rectangles=rectangles)
    return [getattr(error, field) for field in MEASURES.values()]
