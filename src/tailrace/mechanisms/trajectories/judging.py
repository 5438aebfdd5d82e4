"""Which synthetic trips are worth drawing, by released visits.

What a trip is worth is the error of visits that it removes, less the error that it adds: one trip
through a cell that hardly anybody passes costs more than one through a busy street gains. An error
is relative to max(visits, floor), as small rectangles are judged. Trips that cost more than they
are worth are left out, one after another, and may come back when others are gone. Where little was
seen, few trips or none are left.
"""

from __future__ import annotations

import numpy as np

from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.mechanisms.trajectories.lines import Lines
from tailrace.mechanisms.trajectories.walks import Walks

# Times that each trip is looked at. By reasoning: few change after the second.
_ROUNDS = 3
# Trips as many as which the usual ones weigh where it is told how many trips a visit stands for.
_FEW = 5.0


def worthy(
    trips: Walks | Lines,
    layout: Layout,
    judged: np.ndarray,
    most: int,
    patience: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """The numbers of the trips that are worth drawing.

    `judged` is the `posterior` (4, nodes) of visits to even cells, none finer than the layout's.
    Visits were counted with less weight for trips of more than `most` cells: they stand for as many
    trips as pass there with so much weight.
    """
    from tailrace.mechanisms.trajectories import judging_kernel as kernel

    mean, nearest, none, weight = np.ascontiguousarray(judged)
    size, many = len(mean), len(trips.offsets) - 1
    finer = layout.domain.size // layout.width**2 // size
    coarse = layout.index // finer
    offsets, nodes, inside = kernel.within(trips.offsets, trips.cells, layout.cells, coarse)
    trip = np.repeat(np.arange(many), np.diff(offsets))
    weight_of = 1 / np.maximum(np.bincount(trip, inside, minlength=many), most)
    # How many trips a visit stands for: of those drawn over each cell, and where few are, over all.
    told = np.bincount(nodes, inside * weight_of[trip], minlength=size)
    usual = len(nodes) / max(float(told.sum()), 1e-300)
    each = (np.bincount(nodes, minlength=size) + _FEW) / (told + _FEW / usual)
    visits = nearest * each * (told.sum() / max(float(mean.sum()), 1e-300))
    order = rng.permutation(many)
    told = (visits, none, weight)
    return np.flatnonzero(kernel.worth(offsets, nodes, order, *told, patience, _ROUNDS))
