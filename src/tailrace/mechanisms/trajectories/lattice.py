"""Trips off roads, over cells that others pass.

The even cells of a layout are a public graph, too: from the middle of each, pieces lead to its four
corners and to the middles of its four sides, where they meet those of the cells around. On it trips
take routes as they do on roads (`routes.py`). What a length costs begins with how often its cell
was seen to be passed: cells where nothing was seen are gone around, not across.
"""

from __future__ import annotations

import functools

import numpy as np

from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.mechanisms.trajectories.routes import Wanted, legs_of, routes_of
from tailrace.mechanisms.trajectories.streets_kernel import Streets
from tailrace.mechanisms.trajectories.walks import Walks

# Chosen by trial on generated trips on Manhattan's streets (seeds 0 and 3 to 7).
# What a length costs falls with this power of the visits to its cell, within two limits.
_POWER, _LIMITS = 0.5, (0.3, 30.0)
# The middle of a cell and of its four sides, in half cells; and the pieces between them.
_NODES = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1)])
_PIECES = np.array([(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4), (4, 1)])


@functools.lru_cache(maxsize=4)
def lattice_of(layout: Layout) -> tuple[Streets, np.ndarray]:
    """Pieces inside cells, and each cell's node in the middle."""
    domain = layout.domain
    low, width = np.array(domain.low), (layout.high - layout.low)[0]
    place = np.rint((layout.low - low) / width).astype(np.int64)
    side = 2 * round(((np.array(domain.high) - low) / width)[0]) + 1
    codes = ((2 * place + 1)[:, None] + _NODES) @ [side, 1]
    names, node = np.unique(codes, return_inverse=True)
    node = node.reshape(codes.shape)
    one, other = node[:, _PIECES.T].transpose(1, 0, 2).reshape(2, -1)
    across = np.hypot(*((_NODES[_PIECES[:, 0]] - _NODES[_PIECES[:, 1]]) * width / 2).T)
    length = np.tile(across, len(place))
    cells = np.repeat(np.arange(layout.cells), len(_PIECES))
    order = np.argsort(np.append(one, other), kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(np.append(one, other), minlength=len(names))))
    both = np.tile(length, 2)[order], np.tile(cells, 2)[order]
    x, y = low[:, None] + np.stack(np.divmod(names, side)) * (width / 2)[:, None]
    return Streets(starts, np.append(other, one)[order], *both, x, y), node[:, 0]


def across(
    layout: Layout,
    ends: np.ndarray,
    moves: np.ndarray,
    *,
    visits: np.ndarray,
    used: np.ndarray,
    most: int,
    rounds: int,
    rng: np.random.Generator,
) -> Walks:
    """Draw walks between ends (2, trips), cells of the domain.

    Parameters as of `along_streets`; cells that are not `used` are gone around.
    """
    streets, nodes = lattice_of(layout)
    legs, trip = legs_of(layout, ends, moves, visits, rng)
    homes = layout.homes[legs].astype(np.int64)
    visits = np.where(used, visits, 0.0)
    usual = float(visits @ visits) / max(float(visits.sum()), 1e-300)
    costs = (usual / np.maximum(visits, 1e-3 * usual + 1e-300)) ** _POWER
    costs[~used] = np.inf
    costs = np.append(np.clip(costs, *_LIMITS), _LIMITS[1])
    wanted = Wanted(visits, most, rounds, costs, _LIMITS)
    offsets, pieces = routes_of(streets, nodes[homes], trip, wanted, rng)
    # Both ends belong to a walk; where no route leads, it jumps.
    at = np.stack([offsets[:-1], offsets[1:]], axis=1).reshape(-1)
    cells = np.insert(streets.cells[pieces], at, homes.T.reshape(-1))
    owner = np.repeat(trip, np.diff(offsets) + 2)
    kept = np.append(True, (np.diff(cells) != 0) | (np.diff(owner) != 0))[: len(cells)]
    cells, owner = cells[kept], owner[kept]
    sums = np.append(0, np.cumsum(np.bincount(owner, minlength=ends.shape[1])))
    return Walks(sums, cells, np.ones(len(cells), np.bool_))
