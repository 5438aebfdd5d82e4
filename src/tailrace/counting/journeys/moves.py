"""Counts of trajectories: visits, transitions, turns and ends.

All are in parts of a unit (`WHOLE`), so that no unit counts for more than one, however long its
trajectories are.

1. A unit's trajectories share it evenly.
2. Within a trajectory of t points each gets a t-th; of its transitions the i-th gets alpha(t, i),
   `Even` or more at the `Ends`.
3. Remainders of whole-number division are spread by rounding running sums, or left out: never given
   twice. They are left out where a 2-norm below the 1-norm is relied on (`held`, `ends` in halves).
4. A jump between cells that do not touch is filled in before anything is divided, by one public
   rule: the cells that the straight line from point to point passes, on the domain's own grid.
5. Where even these do not touch (the line leaves the geometry), the transition is not counted, and
   the others share its part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.calls import told
from tailrace.counting.journeys.masses import WHOLE, Masses
from tailrace.counting.journeys.reading import Journeys
from tailrace.domain.geometry.graph import Graph


@told
@dataclass(frozen=True)
class Even:
    """Transitions count the same: alpha(t, i) = 1/t."""


@told
@dataclass(frozen=True)
class Ends:
    """The first and last transitions count most.

    alpha(t, i) is proportional to 2^-min(i - 1, t - i).
    """


Weighting = Even | Ends


@dataclass(frozen=True, eq=False)
class Routes:
    """Trajectories as runs; a cell only passed has no points."""

    offsets: np.ndarray  # (trajectories + 1,)
    cells: np.ndarray  # (runs,)
    points: np.ndarray  # (runs,)
    among: np.ndarray  # (trajectories,) as in Journeys

    def __len__(self) -> int:
        return len(self.among)

    @property
    def first(self) -> np.ndarray:
        """The cell in which each begins."""
        return self.cells[self.offsets[:-1]]

    @property
    def last(self) -> np.ndarray:
        """The cell in which each ends."""
        return self.cells[self.offsets[1:] - 1]

    def share(self, whole: int = WHOLE) -> np.ndarray:
        """The parts of each trajectory."""
        return whole // self.among


def visits(
    found: Journeys | Routes, places: np.ndarray, size: int, *, most: int = 1, whole: int = WHOLE
) -> Masses:
    """The parts of points (of routes: visits) by place.

    `places` gives the place of each cell, below `size` or -1. A trajectory with fewer than `most`
    of them gives each one part of `most`, so that short ones do not weigh more.
    """
    from tailrace.counting.journeys import kernel

    runs = (found.offsets, found.cells, found.among)
    return Masses.held(kernel.visited(*runs, whole, most, places, size))


def distinct(found: Routes, cells: int, *, between: bool = False) -> np.ndarray:
    """(trajectories,) different cells with points, or also those passed."""
    from tailrace.counting.journeys import kernel

    return kernel.distinct(found.offsets, found.cells, found.points + between, cells)


def held(
    found: Routes, places: np.ndarray, *, most: int, between: bool = False, whole: int = WHOLE
) -> Masses:
    """The parts of the different cells with points, by place.

    `most` is as in visits, `between` as in distinct.
    """
    from tailrace.counting.journeys import kernel

    many, points = distinct(found, len(places), between=between), found.points + between
    runs = (found.offsets, found.cells, points, found.among)
    parts = kernel.held(*runs, whole, most, len(places), many)
    there = np.flatnonzero(parts)
    return Masses.of(places[there], parts[there])


def turns(
    found: Routes, graph: Graph, directions: np.ndarray, *, most: int, whole: int = WHOLE
) -> Masses:
    """Parts of turns between moves, in eighths of a circle."""
    from tailrace.counting.journeys import kernel

    runs, edges = (found.offsets, found.cells, found.among), (graph.starts, graph.targets)
    return Masses.held(kernel.turned(*runs, whole, most, *edges, directions))


def routes(journeys: Journeys, homes: np.ndarray, side: int, graph: Graph) -> Routes:
    """Put trajectories on a graph.

    `homes` gives for each cell of the domain (side, side) the graph's cell that it lies in, or -1.
    Points without a home are left out, and so are trajectories without any other.
    """
    from tailrace.counting.journeys import kernel

    room, ends = max(len(journeys.cells), 1), np.zeros(len(journeys) + 1, np.int64)
    arguments = (journeys.offsets, journeys.cells, homes, side, graph.starts, graph.targets)
    while True:
        cells, points = np.zeros((2, room), np.int64)
        many = kernel.walked(*arguments, cells, points, ends)
        if many <= room:
            break
        room = many
    there = np.diff(ends) > 0
    return Routes(np.append(0, ends[1:][there]), cells[:many], points[:many], journeys.among[there])


def transitions(routes: Routes, graph: Graph, *, weighting: Weighting, stays: bool) -> Masses:
    """Parts of transitions by edge; stays are coded behind them."""
    from tailrace.counting.journeys import kernel

    runs = (routes.offsets, routes.cells, routes.points, routes.among)
    edges, ends = (graph.starts, graph.targets), isinstance(weighting, Ends)
    return Masses.held(kernel.moved(*runs, WHOLE, *edges, stays, ends))


def ends(routes: Routes, cells: int) -> Masses:
    """Parts of trajectories, at code first * cells + last."""
    return Masses.of(routes.first * cells + routes.last, routes.share())
