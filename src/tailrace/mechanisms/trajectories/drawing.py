"""Synthetic trajectories, drawn from a view of released counts."""

from __future__ import annotations

import numpy as np

from tailrace.domain.geometry import Roads
from tailrace.mechanisms.trajectories.points import placed, stays
from tailrace.mechanisms.trajectories.streets import along_streets
from tailrace.mechanisms.trajectories.view import TrajectoriesView
from tailrace.mechanisms.trajectories.walks import Model, TurningWalks, Walks, moves_of, usual_moves


def drawn(
    view: TrajectoriesView, many: int, walks: TurningWalks, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw `many` trajectories: offsets, and a cell of each point."""
    layout, detours, visits = view.layout, view.noisy["detours"], view.noisy["visits"].of
    ends = view.pairs.draw(many, rng)
    homes = layout.homes[ends].astype(np.int64)
    moves = moves_of(detours.levels[0], detours.scales[0], layout.apart(*homes), rng)
    # Synthetic trajectories for each unit.
    more, most = many / max(view.units, 1.0), visits.part.most
    points = np.add.reduceat(view.density, layout.first) * more
    if isinstance(layout.domain, Roads):
        moves = usual_moves(moves, layout.apart(*homes), detours.levels[0], detours.scales[0])
        about = {"visits": view.visits, "most": most, "points": points}
        return along_streets(layout, ends, moves, **about, rng=rng)
    model = Model(
        layout, view.visits * more, view.turns, most, float(view.sizes[2]), visits.between
    )
    found = _both_ends(walks.draw(model, homes, moves, rng), ends)
    if (kept := supported(found, view.visits, view.units)) is not None:
        found, ends = found.pick(kept), ends[:, kept]
    each = stays(found, points, rng)
    places = placed(layout, found, ends, np.append(0.0, np.cumsum(view.density)), rng)
    sums = np.append(0, np.cumsum(each))
    return sums[found.offsets], np.repeat(places, each)


# A trip is drawn if so much of its cells were seen to be visited, by more trips than the least, or
# this part of all; unless hardly any trip is: then none was seen. The review's prototype chose them
# on cabs (.6: twice the error along paths; .95: the same).
_SUPPORT, _LEAST, _PART, _HARDLY = 0.8, 1.5, 0.0002, 0.2


def supported(walks: Walks, visits: np.ndarray, units: float) -> np.ndarray | None:
    """The walks over cells that were seen to be visited; None: all."""
    seen = visits > max(_LEAST, _PART * units)
    share = np.add.reduceat(seen[walks.cells].astype(float), walks.offsets[:-1])
    kept = np.flatnonzero(share >= _SUPPORT * np.diff(walks.offsets))
    return kept if len(kept) >= _HARDLY * len(share) else None


def _both_ends(walks: Walks, ends: np.ndarray) -> Walks:
    """Visit a lone cell twice if its ends differ."""
    twice = (np.diff(walks.offsets) == 1) & (ends[0] != ends[1])
    again = np.ones(len(walks.cells), np.int64)
    again[walks.offsets[:-1][twice]] = 2
    offsets = walks.offsets + np.append(0, np.cumsum(twice))
    return Walks(offsets, np.repeat(walks.cells, again), np.repeat(walks.stops, again))
