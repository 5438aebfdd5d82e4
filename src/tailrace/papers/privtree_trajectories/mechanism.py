"""Trajectories by PrivTree, corrected.

The first round of counting finds where the points of all trajectories lie, and draws the cells of a
map from that, small ones where points are many. The second follows the trajectories from cell to
cell: from where to where they go, and along which edges of the public graph of cells that touch.
Synthetic trajectories are walks over that graph, drawn for given ends.

Privacy: the declared loss of the declared unit, neighbours add/remove.
1. A unit is one trajectory, whole, or one person with all of theirs. It adds nonnegative parts, at
   most WHOLE in all, to each vector of counts: its points, its transitions and its pairs of ends
   share one whole (`counting/journeys/moves.py`), in whole numbers never rounded up beyond it.
2. So every vector moves by at most WHOLE in the 1-norm, and in the 2-norm. Each part proves in its
   own file what its noise loses for that.
3. Fix the cells: edges and pairs follow from them, and every count gets noise, zeros too.
4. The losses add up. The second round's counts depend on the first round's release, which adaptive
   composition of pure and of zCDP losses allows. Under ApproxDP the parts share epsilon (pure) or
   the rho within it, whichever makes less noise.

Accuracy: a trajectory of t transitions shows each with 1 / t of its weight, so long ones are seen
through more noise. `view` has errors.
Source: Kumar's dissertation, chapter 5, Algorithm 21; PrivTree (Zhang, Xiao, Xie 2016).
Departs: the parts say where; sampled walks have exactly the law of the chain given both ends and
the length (`models/walks/walks.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.domain.geometry.shares import shares
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Looks, Nothing, Sample, State, Step, Table
from tailrace.mechanisms.trajectories.layout import Layout, Leaves, Map, layout_of
from tailrace.mechanisms.trajectories.plan import JourneyPlan, Points, Tally
from tailrace.mechanisms.trajectories.promise import OfTrajectories
from tailrace.models.walks.walks import walks
from tailrace.noise import Draws
from tailrace.papers.privtree_trajectories.cells import PrivTreeCells
from tailrace.papers.privtree_trajectories.transitions import (
    Chances,
    Moves,
    ProbableLengths,
    Transitions,
    repeated,
)
from tailrace.papers.privtree_trajectories.trips import PrivTreeTrips, Trips
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import Loss
from tailrace.privacy.unit import Unit

Corners = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class PrivTreeTrajectoriesPublic:
    """The cells of round one, noisy counts of round two."""

    round: np.ndarray  # ()
    leaves: Leaves
    moves: Moves
    trips: Trips


@dataclass(frozen=True, eq=False, repr=False)
class PrivTreeTrajectoriesView(Looks):
    """Cells, the trajectories between them, and chances of moves.

    Estimates are unbiased if trajectories begin and end evenly inside each group of cells.
    """

    layout: Layout
    chances: Chances
    trips: Trips
    error: float  # the standard error of the count of one group

    @property
    def facts(self) -> dict[str, str]:
        return {"journeys": str(self.total), "cells": f"{len(self.low):,}"}

    @property
    def low(self) -> np.ndarray:
        """(cells, 2) the lower corners of the cells."""
        return self.layout.low

    @property
    def high(self) -> np.ndarray:
        return self.layout.high

    @property
    def total(self) -> Estimate:
        """The number of trajectories (people, where one person is protected)."""
        return self.count()

    def count(self, *, start: Corners | None = None, end: Corners | None = None) -> Estimate:
        """Trajectories from between two corners to between two others.

        None: anywhere.
        """
        part = self._inside(self.trips.a, start) * self._inside(self.trips.b, end)
        return Estimate(float(part @ self.trips.counts), float(np.sqrt(part @ part)) * self.error)

    def _inside(self, groups: np.ndarray, corners: Corners | None) -> np.ndarray:
        """(groups,) the share of each group's cells between the corners."""
        if corners is None:
            return np.ones(len(groups))
        box = [np.asarray(corner, float) for corner in corners]
        if [corner.shape for corner in box] != [(2,), (2,)] or not (box[0] <= box[1]).all():
            raise ConfigError(
                "start and end are pairs of corners, ((lowest x, lowest y), (highest x, "
                "highest y))."
            )
        inside = shares(self.layout.domain, self.layout.low, self.layout.high, *box)
        sums = np.concatenate([[0.0], np.cumsum(inside)])
        return (sums[groups[:, 1]] - sums[groups[:, 0]]) / (groups[:, 1] - groups[:, 0])


@told
@dataclass(frozen=True, kw_only=True)
class PrivTreeTrajectories(OfTrajectories):
    """Trajectories by a chain on the cells of a PrivTree.

    Rows have the id of a `trajectory`, its `order` (a number or a time), and a place.
    `unit=Event()` protects one trajectory, `User(column=...)` one person with all of theirs.

    >>> from tailrace import Box, Event, PureDP
    >>> city = Box(low=(116.15, 39.75), high=(116.60, 40.10), columns=("lon", "lat"))
    >>> own = {"unit": Event(), "trajectory": "trip", "order": "time"}
    >>> PrivTreeTrajectories(domain=city, privacy=PureDP(epsilon=1), **own).guarantee.short
    'epsilon = 1 for one trajectory over 1 step'
    """

    rounds = 2

    domain: Map
    privacy: Loss
    unit: Unit
    trajectory: str
    order: str
    cells: PrivTreeCells = field(default_factory=PrivTreeCells)
    moves: Transitions = field(default_factory=Transitions)
    trips: PrivTreeTrips = field(default_factory=PrivTreeTrips)
    lengths: ProbableLengths = field(default_factory=ProbableLengths)

    def __post_init__(self) -> None:
        self._check()
        kinds = {
            "cells": PrivTreeCells,
            "moves": Transitions,
            "trips": PrivTreeTrips,
            "lengths": ProbableLengths,
        }
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} must be {kind.__name__}(...).")
        self.guarantee  # noqa: B018 - a budget beyond the range of the noise is refused now

    @property
    def rows(self) -> Points:
        """The rows of the synthetic table."""
        return Points(self.domain, self.trajectory, self.order)

    @property
    def _parts(self) -> dict[str, Any]:
        return {"cells": self.cells, "moves": self.moves, "trips": self.trips}

    @functools.cached_property
    def guarantee(self) -> Guarantee:
        losses = [part.loss(self.budgets[name]) for name, part in self._parts.items()]
        return self._guaranteed(losses)

    def init(self) -> State[PrivTreeTrajectoriesPublic, Nothing]:
        none = (Leaves.none(), self.moves.none(), self.trips.none())
        return State(PrivTreeTrajectoriesPublic(np.zeros((), np.int64), *none), Nothing())

    def plan(self, public: PrivTreeTrajectoriesPublic) -> JourneyPlan:
        if not public.round:
            return JourneyPlan(self._reading)
        return JourneyPlan(
            self._reading, layout_of(self.domain, public.leaves), (self.moves, self.trips)
        )

    def measure(
        self, state: State[PrivTreeTrajectoriesPublic, Nothing], counts: Tally, noise: Draws
    ) -> Step[PrivTreeTrajectoriesPublic, Nothing]:
        def drawn(name: str) -> dict[str, Any]:
            return {"budget": self.budgets[name], "noise": noise.at(name)}

        public = replace(state.public, round=np.asarray(state.public.round + 1))
        if public.round == 1:
            leaves = self.cells.measured(counts.parts[0], domain=self.domain, **drawn("cells"))
            return Step(State(replace(public, leaves=leaves), state.private), again=True)
        layout, moves, trips = layout_of(self.domain, public.leaves), *counts.parts
        released = replace(
            public,
            moves=self.moves.measured(moves, layout=layout, **drawn("moves")),
            trips=self.trips.measured(trips, layout=layout, **drawn("trips")),
        )
        return Step(State(released, state.private))

    def view(self, public: PrivTreeTrajectoriesPublic) -> PrivTreeTrajectoriesView | None:
        if public.round < self.rounds:
            return None
        layout = layout_of(self.domain, public.leaves)
        chances = self.moves.chances(public.moves, layout, self.budgets["moves"])
        error = self.trips.error(self.budgets["trips"])
        return PrivTreeTrajectoriesView(layout, chances, public.trips, error)

    def sample(
        self, view: PrivTreeTrajectoriesView | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        gone, none = np.ones(len(previous), np.bool_), np.zeros(0, np.int64)
        places = none if view is None else self.trips.draw(view.trips, view.layout, rng)
        if view is None or not places.size:
            return previous.after(gone, none, self.rows.decode(none, rng))
        ends = view.layout.homes[places]
        moves = self.lengths.draw(view.chances, view.layout, ends, rng)
        start, stop = ends
        offsets, visited = walks(view.layout.graph, view.chances.moving, start, stop, moves, rng)
        offsets, visited = repeated(offsets, visited, view.chances, rng)
        cells = view.layout.draw(visited, rng)
        cells[offsets[:-1]] = places[0]
        several = np.diff(offsets) > 1
        cells[offsets[1:][several] - 1] = places[1][several]
        return previous.after(gone, cells, self.rows.rows(offsets, cells, rng))
