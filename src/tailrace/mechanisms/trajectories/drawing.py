"""Synthetic trajectories, drawn from a view of released counts."""

from __future__ import annotations

import numpy as np

from tailrace.domain.geometry import Roads
from tailrace.mechanisms.trajectories.judging import worthy
from tailrace.mechanisms.trajectories.lattice import across
from tailrace.mechanisms.trajectories.lines import Lines
from tailrace.mechanisms.trajectories.points import cells_at, placed, stays
from tailrace.mechanisms.trajectories.streets import along_streets
from tailrace.mechanisms.trajectories.view import TrajectoriesView
from tailrace.mechanisms.trajectories.walks import (
    BACK,
    Model,
    TurningWalks,
    Walks,
    long_moves,
    moves_of,
)

# Cells a side up to which walks may be drawn from a chain: on finer grids that is slow.
_WALKED = 64
# The share of turns back from which journeys wander. Below they are on their way, and take routes.
# Between Geolife's .09 and generated cars' .003 to .02 (Oldenburg; Manhattan, seeds 0, 3 and 4).
_WANDER = 0.04


def drawn(
    view: TrajectoriesView, many: int, walks: TurningWalks, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw `many` trajectories: offsets, and a cell of each point."""
    layout, detours, visits = view.layout, view.noisy["detours"], view.noisy["visits"]
    ends, unit = view.pairs.draw(many, rng), layout.unit(detours.of.edition)
    homes = layout.homes[ends].astype(np.int64)
    fewest, counts = layout.apart(*homes), (detours.levels[0], detours.scales[0])
    moves = moves_of(*counts, fewest, rng, unit)
    # Synthetic trajectories for each unit.
    more, most = many / max(view.units, 1.0), visits.of.part.most
    points = np.add.reduceat(view.density, layout.first) * more
    roads = isinstance(layout.domain, Roads)
    wander = view.signal is None or view.turns[BACK] > _WANDER
    if roads or view.sides[-1] > _WALKED or not wander:
        long = long_moves(moves, fewest, *counts, unit)
        about = {"most": most, "rounds": view.rounds, "rng": rng}
        if roads:
            trips = along_streets(layout, ends, long, visits=view.visits, **about)
        else:
            about |= {"visits": view.likely, "used": view.used}
            found = _both_ends(across(layout, ends, long, **about), ends)
            before = np.append(0.0, np.cumsum(view.density))
            trips = Lines.of(found, layout, placed(layout, found, ends, before, rng, routed=True))
    else:
        share = float(view.sizes[2])
        model = Model(layout, view.visits * more, view.turns, most, share, visits.of.between)
        trips = _both_ends(walks.draw(model, homes, moves, rng), ends)
    if view.signal is not None:
        kept = worthy(trips, layout, view.judged, most, view.patience, rng)
        trips, ends, points = trips.pick(kept), ends[:, kept], points * (len(kept) / many)
    if isinstance(trips, Lines):
        return trips.points(layout, ends, points, rng)
    before = np.append(0.0, np.cumsum(view.density))
    places = cells_at(layout.domain, placed(layout, trips, ends, before, rng))
    each = stays(trips, points, rng)
    sums = np.append(0, np.cumsum(each))
    return sums[trips.offsets], np.repeat(places, each)


def _both_ends(walks: Walks, ends: np.ndarray) -> Walks:
    """Visit a lone cell twice if its ends differ."""
    twice = (np.diff(walks.offsets) == 1) & (ends[0] != ends[1])
    again = np.ones(len(walks.cells), np.int64)
    again[walks.offsets[:-1][twice]] = 2
    offsets = walks.offsets + np.append(0, np.cumsum(twice))
    return Walks(offsets, np.repeat(walks.cells, again), np.repeat(walks.stops, again))
