"""Points along walks: how many in each cell, and where.

The points of one visit stay together, at one place, drawn from the density of points inside its
cell. It is then moved repeatedly towards the middle of the places before and after it, inside the
cell. That ends near a string pulled tight through the cells; on routes over fine cells, which know
the way better, only a few moves are made.
"""

from __future__ import annotations

import functools

import numpy as np

from tailrace.domain import Box
from tailrace.domain.geometry import Region, Roads, measure_of_cells
from tailrace.domain.geometry.partition import partition_of
from tailrace.mechanisms.trajectories.layout import Layout, Map
from tailrace.mechanisms.trajectories.walks import Walks

# Chosen by trial on the data of benchmarks/trajectories.py; no committed result.
# The mean number of points of a visit, at most.
_MANY = 300.0
# How many times as many points as its own a cell gets from others, at most. By reasoning.
_MORE = 3.0
# The part of the way that a visit moves, the number of moves, and that on routes.
_PULL, _PASSES, _ON_ROUTES = 0.7, 80, 10


def stays(walks: Walks, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(visits,) the number of points of each visit, by chance.

    `points` of a cell are divided among its visits; cells that are only passed have none. In cells
    with fewer points than visits those that have one lie evenly along each walk. Both ends of a
    walk have at least one.
    """
    cells, starts = walks.cells, walks.offsets[:-1]
    end = np.zeros(len(cells), np.bool_)
    end[starts] = end[walks.offsets[1:] - 1] = True
    mean = points / np.maximum(np.bincount(cells[walks.stops], minlength=len(points)), 1)
    # What ends have beyond their share is taken off the others.
    taken = np.bincount(cells[end], minlength=len(points)) * np.maximum(mean, 1.0)
    inner = np.bincount(cells[walks.stops & ~end], minlength=len(points))
    usual = np.where(
        end, mean[cells], (np.maximum(points - taken, 0.0) / np.maximum(inner, 1))[cells]
    )
    # Points of cells that no walk stops in go to the others.
    expected = float(np.where(end, np.maximum(usual, 1.0), usual * walks.stops).sum())
    usual = usual * np.clip(points.sum() / max(expected, 1e-300), 1.0, _MORE)
    chance = np.where(walks.stops & ~end, np.minimum(usual, 1.0), 0.0)
    walk = np.repeat(np.arange(len(starts)), np.diff(walks.offsets))
    sums = np.append(0.0, np.cumsum(chance))
    phase = rng.random(len(starts))[walk]
    before = sums[:-1] - sums[starts][walk] + phase
    held = end | (np.floor(before + chance) > np.floor(before))
    return np.where(held, rng.geometric(1 / np.clip(usual, 1.0, _MANY)), 0)


def placed(
    layout: Layout,
    walks: Walks,
    ends: np.ndarray,
    before: np.ndarray,
    rng: np.random.Generator,
    *,
    routed: bool = False,
) -> np.ndarray:
    """(2, visits) a place for each visit, in cells of the domain.

    `ends` (2, walks) are given, `before` is the density of points before each place.
    """
    partition, side = partition_of(layout.domain), layout.domain.side
    offsets, cells = walks.offsets, walks.cells
    low, high = before[layout.first], before[layout.last]
    target = low[cells] + rng.random(len(cells)) * (high - low)[cells]
    target = np.minimum(target, np.nextafter(high[cells], 0.0))
    place = np.searchsorted(before, target, side="right") - 1
    chosen = partition.cells[np.clip(place, layout.first[cells], layout.last[cells] - 1)]
    chosen[offsets[:-1]] = ends[0]
    alone = np.diff(offsets) == 1
    chosen[offsets[1:][~alone] - 1] = ends[1][~alone]
    inner = np.ones(len(cells), np.bool_)
    inner[offsets[:-1]] = inner[offsets[1:] - 1] = False
    inner = np.flatnonzero(inner)
    # The lowest corner of each cell of the layout.
    corner = np.stack(np.divmod(partition.cells[layout.first], side))
    axes = []
    for axis, lowest in zip(np.divmod(chosen, side), corner[:, cells], strict=True):
        at = axis + rng.random(len(axis))
        for _ in range(_ON_ROUTES if routed else _PASSES):
            at[inner] += _PULL * ((at[inner - 1] + at[inner + 1]) / 2 - at[inner])
            at = np.clip(at, lowest, np.nextafter(lowest + layout.width, 0.0))
        axes.append(at)
    return np.stack(axes)


def cells_at(domain: Map, at: np.ndarray) -> np.ndarray:
    """The cells of places (2, n), or the nearest that hold some of the geometry."""
    x, y = np.clip(np.floor(at), 0, domain.side - 1).astype(np.int64)
    cells = x * domain.side + y
    return cells if isinstance(domain, Box) else nearest_cells(domain)[cells]


@functools.lru_cache(maxsize=4)
def nearest_cells(domain: Region | Roads) -> np.ndarray:
    """(cells,) the nearest cell that holds some of the geometry."""
    from tailrace.domain.geometry import kernel

    width, height = ((np.array(domain.high) - np.array(domain.low)) / domain.side).tolist()
    return kernel.nearest(measure_of_cells(domain) > 0, width, height, np.inf)
