"""Routes on a public graph, which pass cells as often as released.

Every trip takes a good route between two nodes. Lengths are the prior: without any counts trips
would take the shortest way. A length costs a factor of its cell, and the factors are moved, a few
times over, towards values that make the trips pass each cell as often as released. Each trip sees
all prices a little differently, so that trips between the same ends spread over alternatives. A
trip that is released as much longer than need be goes by way of a place between, drawn by released
visits.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.mechanisms.trajectories.streets_kernel import Streets

# Chosen by trial on trips on Manhattan's streets (benchmarks/trajectories_data.py, seeds 0 and 1,
# 5,000 trips at epsilon 1 and with true counts).
# Trips drawn in each round of calibration, or a part of all where they are many; the part of the
# way that the first round takes.
_SOME, _PART, _STEP = 2_000, 0.05, 0.5
# How much dearer a piece may be for one trip than for another. .2 to 2 are alike.
_SPREAD = 0.5
# Landmarks for bounds of routes: quality does not depend on them. By trial, with no committed
# result: 8 take half as long again, 32 a tenth less with 20,000 trips, and more with few.
_MARKS = 24
# Of so many places that are drawn, a long trip goes by way of the one of the most fitting distance.
_PLACES = 8
# By reasoning: as many as small machines have.
_THREADS = 4


@dataclass(frozen=True, eq=False)
class Wanted:
    """Released visits, and what a length costs at first.

    Costs stay between two limits.
    """

    visits: np.ndarray  # (cells,) of the layout, trips that pass each
    most: int  # trips through so many cells or more count alike
    rounds: int  # of calibration
    costs: np.ndarray  # (cells + 1,) behind the cells: elsewhere
    limits: tuple[float, float]


def legs_of(
    layout: Layout,
    ends: np.ndarray,
    moves: np.ndarray,
    visits: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """(2, legs) their ends, cells of the domain, and each one's trip."""
    homes = layout.homes[ends].astype(np.int64)
    long = (moves > 0) & visits.any()
    trip, chosen = np.repeat(np.arange(len(moves)), 1 + long), np.flatnonzero(long)
    legs = ends[:, trip]
    if len(chosen):
        by = rng.choice(layout.cells, (_PLACES, len(chosen)), p=visits / visits.sum())
        start, stop = homes[:, chosen]
        way = np.stack([layout.apart(start, one) + layout.apart(one, stop) for one in by])
        best = by[np.abs(way - moves[chosen]).argmin(axis=0), np.arange(len(chosen))]
        leg = np.searchsorted(trip, chosen)
        legs[1, leg] = legs[0, leg + 1] = layout.draw(best, rng)
    return legs, trip


def routes_of(
    streets: Streets,
    ends: np.ndarray,
    trips: np.ndarray,
    wanted: Wanted,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and pieces of the routes between nodes ends[0] and ends[1]."""
    from tailrace.mechanisms.trajectories import streets_kernel as kernel

    costs, visits, (least, most) = wanted.costs, np.append(wanted.visits, 0.0), wanted.limits
    part = max(_SOME / max(len(trips), 1), _PART)
    for turn in range(wanted.rounds):
        some = np.flatnonzero(rng.random(len(trips)) < part)
        offsets, pieces = _best(streets, costs, ends[:, some], some)
        found = kernel.passed(streets, offsets, pieces, wanted.most, len(costs) - 1)
        # A trip whose ends share a node passes their cell.
        alone = ends[0, some[np.diff(offsets) == 0]]
        np.add.at(found, streets.cells[streets.starts[alone]], 1 / wanted.most)
        level, room = found.sum() / max(visits.sum(), 1e-300), 0.0003 * len(some)
        ratio = (found + room) / (visits * level + room)
        costs = costs * (ratio ** (_STEP / (1 + 0.3 * turn)) if len(some) else 1.0)
        costs = np.clip(costs, least, most)
        costs[-1] = most
    return _best(streets, costs, ends, trips)


def shortest(streets: Streets, ends: np.ndarray, most: int, cells: int) -> np.ndarray:
    """(cells,) visits if all take the shortest way between nodes ends[0] and ends[1].

    A trip through n different cells gives each 1 / max(n, most).
    """
    from tailrace.mechanisms.trajectories import streets_kernel as kernel

    offsets, pieces = _best(streets, np.ones(cells + 1), ends, np.arange(ends.shape[1]))
    return kernel.passed(streets, offsets, pieces, most, cells)[:-1]


def _best(
    streets: Streets, costs: np.ndarray, ends: np.ndarray, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A good route of each trip; the same in however many threads."""
    from tailrace.mechanisms.trajectories import streets_kernel as kernel

    prices = streets.lengths * costs[streets.cells]
    marks = kernel.landmarks(streets, prices, _MARKS)

    def routes(some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, last = ends[:, some]
        return kernel.routes(streets, prices, marks, first, last, numbers[some], _SPREAD)

    threads = min(os.cpu_count() or 1, _THREADS)
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(routes, np.array_split(np.arange(len(numbers)), threads)))
    many = np.concatenate([np.diff(offsets) for offsets, _ in found])
    return np.append(0, np.cumsum(many)), np.concatenate([pieces for _, pieces in found])
