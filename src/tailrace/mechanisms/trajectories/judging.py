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
from tailrace.mechanisms.trajectories.walks import Walks

# Times that each trip is looked at. By reasoning: few change after the second.
_ROUNDS = 3


def worthy(
    walks: Walks, layout: Layout, judged: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The numbers of the walks that are worth drawing.

    `judged` is the `posterior` (4, nodes) of visits to even cells, none finer than the layout's.
    """
    from tailrace.mechanisms.trajectories import judging_kernel as kernel

    mean, nearest, none, weight = np.ascontiguousarray(judged)
    size, many = len(mean), len(walks.offsets) - 1
    finer = layout.domain.size // int(layout.last[0] - layout.first[0]) // size
    walk = np.repeat(np.arange(many), np.diff(walks.offsets))
    nodes = layout.index[walks.cells] // finer
    walk, nodes = np.divmod(np.unique(walk * size + nodes), size)
    offsets = np.append(0, np.cumsum(np.bincount(walk, minlength=many)))
    visits = nearest * (len(nodes) / max(float(mean.sum()), 1e-300))
    order = rng.permutation(many)
    return np.flatnonzero(kernel.worth(offsets, nodes, order, visits, none, weight, _ROUNDS))
