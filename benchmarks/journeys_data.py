"""Generated trips on Oldenburg's streets, day by day.

From one of 150 homes to a place near one of twelve centres, or back, by the quickest way of the
week, on which every street is slower or faster by chance; a point every 150 metres or so. "same"
goes on so; "changing" has other homes, centres and speeds from the middle day on.
"""

import functools

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from runner import data
from tailrace.metrics import Tracks

HOMES, CENTRES, APART, WEEK = 150, 12, 150.0, 7


@functools.lru_cache(maxsize=1)
def streets() -> tuple[np.ndarray, np.ndarray]:
    """(nodes, 2) places and (edges, 2) nodes."""
    nodes, edges = (
        pl.read_parquet(data("roads", f"oldenburg_{part}.parquet")) for part in ("nodes", "edges")
    )
    row = {node: at for at, node in enumerate(nodes["node"].to_list())}
    ends = np.array([[row[node] for node in edges[name]] for name in ("u", "v")]).T
    return nodes[["x", "y"]].to_numpy().astype(float), ends


@functools.lru_cache(maxsize=4)
def generated(kind: str, days: int, trips: int, seed: int) -> tuple[Tracks, ...]:
    """The trips of each day."""
    (places, edges), found = streets(), []
    rng = np.random.default_rng((23, seed))
    length = np.hypot(*(places[edges[:, 0]] - places[edges[:, 1]]).T) + 1e-6
    homes, centres, weight, usual = town(rng, len(places), len(edges))
    before = np.zeros((0, 0))
    for day in range(days):
        turn = kind == "changing" and day == days // 2
        if turn:
            homes, centres, weight, usual = town(rng, len(places), len(edges))
        if day % WEEK == 0 or turn:
            cost = length * usual * rng.lognormal(0, 0.2, len(edges))
            graph = coo_array((np.tile(cost, 2), (np.append(*edges.T), np.append(*edges.T[::-1]))))
            _, before = dijkstra(graph.tocsr(), indices=homes, return_predecessors=True)
        start = rng.integers(0, HOMES, trips)
        at = places[centres[rng.choice(CENTRES, trips, p=weight)]]
        at = at + rng.normal(0, 1, (trips, 2)) * rng.exponential(600, trips)[:, None]
        ends = [np.argmin(((places - one) ** 2).sum(axis=1)) for one in at]
        found.append(driven(places, homes, before, start, ends, rng))
    return tuple(found)


def town(rng: np.random.Generator, nodes: int, edges: int) -> tuple[np.ndarray, ...]:
    """Homes, centres, how many go to each, and how slow streets are."""
    homes, centres = rng.choice(nodes, HOMES, replace=False), rng.choice(nodes, CENTRES)
    weight = rng.gamma(0.8, 1.0, CENTRES)
    return homes, centres, weight / weight.sum(), rng.lognormal(0, 0.5, edges)


def driven(places, homes, before, start, ends, rng) -> Tracks:
    """Trips along the quickest ways, with points in between."""
    tracks = []
    for home, end in zip(start, ends, strict=True):
        path = [end]
        while path[-1] != homes[home] and before[home, path[-1]] >= 0:
            path.append(before[home, path[-1]])
        way = places[path if rng.random() < 0.5 else path[::-1]]
        along = np.append(0.0, np.cumsum(np.hypot(*np.diff(way, axis=0).T)))
        when = np.append(np.arange(0, along[-1], APART), along[-1])
        tracks.append([np.interp(when, along, way[:, axis]) for axis in range(2)])
    x, y = (np.concatenate([track[axis] for track in tracks]) for axis in range(2))
    return Tracks(np.append(0, np.cumsum([len(track[0]) for track in tracks])), x, y)


def joined(parts: list[Tracks]) -> Tracks:
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    x, y = (np.concatenate([getattr(part, axis) for part in parts]) for axis in "xy")
    return Tracks(np.append(0, np.cumsum(sizes)), x, y)
