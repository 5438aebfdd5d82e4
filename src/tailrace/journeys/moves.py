"""What is counted of journeys: where their points lie, along which edges of a graph they go, where they begin and end.

All of it in parts of a unit (`WHOLE`), so that no unit counts for more than one, however long its journeys are. A unit's trajectories
share it evenly. Within a trajectory of t points each gets a t-th; of its transitions the i-th gets alpha(t, i), `Even` or more
at the `Ends`. What whole numbers cannot divide is spread by rounding running sums, or left out: never given twice.

A jump between cells that do not touch is filled in before anything is divided, by one public rule: the cells that the
straight line from point to point passes, on the domain's own grid. Where even these do not touch (the line leaves the
geometry), the transition is not counted, and the others share its part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.calls import told
from tailrace.journeys.graph import Graph
from tailrace.journeys.masses import WHOLE, Masses
from tailrace.journeys.reading import Journeys


@told
@dataclass(frozen=True)
class Even:
    """All transitions of a trajectory count the same: alpha(t, i) = 1 / t."""


@told
@dataclass(frozen=True)
class Ends:
    """The first and last transitions count most: alpha(t, i) is proportional to 2^-min(i - 1, t - i)."""


Weighting = Even | Ends


@dataclass(frozen=True, eq=False)
class Routes:
    """Journeys on the cells of a graph: runs of points in one cell; a cell that was only passed has a run without points."""

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
        """The parts of each trajectory in all."""
        return whole // self.among


def visits(found: Journeys | Routes, places: np.ndarray, size: int, *, most: int = 1, whole: int = WHOLE) -> Masses:
    """The parts of the points (of routes: of the visits), by the place (below `size`, or -1) of their cell.

    A trajectory with fewer than `most` of them gives each a part of that many, so that short ones do not weigh more.
    """
    from tailrace.journeys import moves_kernel as kernel

    return Masses.held(kernel.visited(found.offsets, found.cells, found.among, whole, most, places, size))


def distinct(found: Routes, cells: int, *, between: bool = False) -> np.ndarray:
    """(trajectories,) in how many different ones of so many cells each has points; with `between`, how many it passes."""
    from tailrace.journeys import moves_kernel as kernel

    return kernel.distinct(found.offsets, found.cells, found.points + between, cells)


def held(found: Routes, places: np.ndarray, *, most: int, between: bool = False, whole: int = WHOLE) -> Masses:
    """The parts of the different cells in which trajectories have points, by the places of the cells; `most` as in visits."""
    from tailrace.journeys import moves_kernel as kernel

    many, points = distinct(found, len(places), between=between), found.points + between
    parts = kernel.held(found.offsets, found.cells, points, found.among, whole, most, len(places), many)
    there = np.flatnonzero(parts)
    return Masses.of(places[there], parts[there])


def turns(found: Routes, graph: Graph, directions: np.ndarray, *, most: int, whole: int = WHOLE) -> Masses:
    """The parts of the turns from one move to the next, in eighths of a circle, of edges with these directions."""
    from tailrace.journeys import moves_kernel as kernel

    return Masses.held(
        kernel.turned(found.offsets, found.cells, found.among, whole, most, graph.starts, graph.targets, directions)
    )


def routes(journeys: Journeys, homes: np.ndarray, side: int, graph: Graph) -> Routes:
    """Journeys on a graph: `homes` says which of its cells each cell of the domain (side, side) lies in, or -1.

    Points without a home are left out, and so are trajectories without any other.
    """
    from tailrace.journeys import moves_kernel as kernel

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
    """The parts of the transitions along each edge; with `stays` also from a cell to itself, coded behind the edges."""
    from tailrace.journeys import moves_kernel as kernel

    return Masses.held(
        kernel.moved(
            routes.offsets,
            routes.cells,
            routes.points,
            routes.among,
            WHOLE,
            graph.starts,
            graph.targets,
            stays,
            isinstance(weighting, Ends),
        )
    )


def ends(routes: Routes, cells: int) -> Masses:
    """The parts of the trajectories by first and last of so many cells: first * cells + last."""
    return Masses.of(routes.first * cells + routes.last, routes.share())
