"""What `Trajectories` counts of journeys, each in its own share of the budget, and the noise it
gets.

| part       | of one trajectory                                                    | where                                       |
|------------|----------------------------------------------------------------------|---------------------------------------------|
| visits     | each different cell it has points in: 1 / max(cells, most)           | nested grids, the finest is walked on       |
| points     | each point: 1 / max(points, most)                                    | nested grids                                |
| ends       | first and last point: 1/2 each                                       | nested grids                                |
| pairs      | first and last cell together, in either order                        | pairs of cells of nested grids              |
| distances  | how far the last point lies from the first                           | 14 bins                                     |
| detours    | how many moves more than the fewest it makes, by how many these are  | 8 times 10 bins                             |
| turns      | each turn between two moves: 1 / max(turns, most)                    | eighths of a circle                         |
| sizes      | a third of each: cells / 60, points / 300 (at most 1), the share of  |                                             |
|            | cells passed without a point                                         | one each                                    |
| timing     | its first time, and the mean time between points: 1/2 each           | bins of a public clock                      |
| number     | itself                                                               | one number                                  |

Privacy: in each level of each part one unit adds at most its whole, by the table (WHOLE parts,
fewer where the budget is small: a public number). A part divides its budget among its levels, and
every cell, pair and bin of every level, which are public, gets noise of that sensitivity: it loses
the sum, its whole budget.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counting.journeys.masses import WHOLE, Masses
from tailrace.counting.journeys.moves import Routes, distinct, held, turns, visits
from tailrace.counting.journeys.reading import Journeys
from tailrace.domain.geometry.partition import partition_of
from tailrace.errors import ConfigError
from tailrace.mechanisms.trajectories.clock import DayClock
from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.mechanisms.trajectories.promise import atoms_of, whole_within
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.budget import Drawn, part
from tailrace.privacy.loss import Loss, Number, exact, whole

CELLS, POINTS = 60, 300  # of one trajectory, more of which are not counted in sizes
REACH = 64  # cells a side of the grid on which distances are counted
FAR = np.array(
    [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 46]
)  # where the bins of distances begin, in its cells, after the three of one cell
FEWEST = np.array([0, 1, 2, 3, 5, 9, 17, 33])  # where the bins of the fewest moves begin
MORE = np.array([0, 1, 2, 3, 5, 9, 17, 33, 65, 129])  # and those of further moves


@told
@dataclass(frozen=True, kw_only=True)
class Grids:
    """Counts on nested grids of so many cells a side, from coarse to fine, in a `share` of the
    budget, relative to other parts.

    A trajectory with fewer than `most` points (cells, turns) gives each a part of that many: then
    short ones do not weigh more. The grids share evenly, or by `weights`.
    """

    share: Number
    sides: tuple[int, ...]
    most: int = 1
    weights: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", exact("share", self.share))
        object.__setattr__(self, "most", whole("most", self.most))
        sides = tuple(self.sides)
        if self.weights is not None:
            object.__setattr__(
                self, "weights", tuple(whole("weights", weight) for weight in self.weights)
            )
            if len(self.weights) != len(sides):
                raise ConfigError(
                    "weights must be as many as sides: how much of the share each of them gets."
                )
        if (
            not sides
            or any(whole("sides", side) & (side - 1) for side in sides)
            or list(sides) != sorted(set(sides))
        ):
            raise ConfigError(
                "sides must be powers of two that rise, for example sides=(4, 16, 64)."
            )
        object.__setattr__(self, "sides", sides)

    def within(self, side: int) -> tuple[int, ...]:
        """The sides that a domain of so many cells a side can have."""
        return tuple(own for own in self.sides if own <= side) or (side,)

    def parts(self, side: int) -> tuple[Fraction, ...]:
        """What part of the share each of these gets."""
        weights = (self.weights or (1,) * len(self.sides))[: len(self.within(side))]
        return tuple(Fraction(weight, sum(weights)) for weight in weights)


@told
@dataclass(frozen=True, kw_only=True)
class Bins:
    """Counts in a few bins, in a `share` of the budget, relative to other parts; `most` as in
    Grids.

    Of `number` under User: how many trajectories of one person are counted at most.
    """

    share: Number
    most: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", exact("share", self.share))
        object.__setattr__(self, "most", whole("most", self.most))


Part = Grids | Bins | DayClock


@dataclass(frozen=True)
class Query:
    """One part, on a domain: how its counts are made, and measured."""

    name: str
    part: Any  # Grids, Bins or DayClock, by the name
    domain: Any
    between: bool = False  # whether a cell that is passed between two points is visited
    whole: int = WHOLE  # parts of one unit

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many counts each level has."""
        if isinstance(self.part, Grids):
            cells = [side * side for side in self.part.within(self.domain.side)]
            return (
                tuple(many * (many + 1) // 2 for many in cells)
                if self.name == "pairs"
                else tuple(cells)
            )
        if isinstance(self.part, DayClock):
            return (self.part.size,)
        bins = {
            "distances": len(FAR) + 3,
            "detours": len(FEWEST) * len(MORE),
            "turns": 8,
            "sizes": 3,
            "number": 1,
        }
        return (bins[self.name],)

    @property
    def sides(self) -> tuple[int, ...]:
        """Cells a side of each level, of a part on grids."""
        assert isinstance(self.part, Grids)
        return self.part.within(self.domain.side)

    def budgets(self, budget: Drawn) -> tuple[Drawn, ...]:
        """Of each level."""
        shares = (
            self.part.parts(self.domain.side) if isinstance(self.part, Grids) else (Fraction(1),)
        )
        return tuple(part(budget, share) for share in shares)

    def noise(self, budget: Drawn) -> tuple[Atoms, ...]:
        """Of one count of each level."""
        return tuple(atoms_of(level, self.whole) for level in self.budgets(budget))

    def loss(self, budget: Drawn) -> Loss:
        """Of all levels together."""
        return functools.reduce(
            lambda one, other: one & other, (atoms.loss(1, 0) for atoms in self.noise(budget))
        )

    def count(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses:
        """Of the finest level."""
        return getattr(self, f"_{self.name}")(journeys, routes, layout)

    def measured(self, masses: Masses, *, budget: Drawn, noise: Draws) -> np.ndarray:
        """The noisy parts of all levels, one after another."""
        found = []
        for level, (size, atoms) in enumerate(zip(self.sizes, self.noise(budget), strict=True)):
            found.append(self._at(masses, level).dense(size) + atoms.draw(noise.at(level), size))
        return np.concatenate(found)

    def _at(self, masses: Masses, level: int) -> Masses:
        """The counts of a level, from those of the finest."""
        if level == len(self.sizes) - 1:
            return masses
        shift = 2 * (self.sides[-1].bit_length() - self.sides[level].bit_length())
        if self.name != "pairs":
            return Masses.of(masses.codes >> shift, masses.parts)
        low, high = unpaired(masses.codes, self.sides[-1] ** 2)
        return Masses.of(paired(low >> shift, high >> shift, self.sides[level] ** 2), masses.parts)

    def _nodes(self, cells: np.ndarray, side: int) -> np.ndarray:
        """The cells of a grid, in the order of the halving, that cells of the domain lie in."""
        partition = partition_of(self.domain)
        return partition.places[cells] >> (partition.depth - 2 * (side.bit_length() - 1))

    def _visits(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses:  # noqa: ARG002
        return held(
            routes, layout.index, most=self.part.most, between=self.between, whole=self.whole
        )

    def _points(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses:  # noqa: ARG002
        places = self._nodes(np.arange(self.domain.size), self.sides[-1])
        return visits(journeys, places, self.sizes[-1], most=self.part.most, whole=self.whole)

    def _ends(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses:  # noqa: ARG002
        share = self.whole // journeys.among
        nodes = [self._nodes(cells, self.sides[-1]) for cells in (journeys.first, journeys.last)]
        return Masses.of(np.concatenate(nodes), np.concatenate([share // 2, share - share // 2]))

    def _pairs(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses:  # noqa: ARG002
        one, other = (
            self._nodes(cells, self.sides[-1]) for cells in (journeys.first, journeys.last)
        )
        codes = paired(np.minimum(one, other), np.maximum(one, other), self.sides[-1] ** 2)
        return Masses.of(codes, self.whole // journeys.among)

    def _distances(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses:  # noqa: ARG002
        return Masses.of(self.far(journeys.first, journeys.last), self.whole // journeys.among)

    def _detours(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses:  # noqa: ARG002
        fewest = layout.apart(routes.first, routes.last)
        more = np.maximum(np.diff(routes.offsets) - 1 - fewest, 0)
        bins = (
            np.searchsorted(start, values, side="right") - 1
            for start, values in ((FEWEST, fewest), (MORE, more))
        )
        return Masses.of(next(bins) * len(MORE) + next(bins), routes.share(self.whole))

    def _turns(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses:  # noqa: ARG002
        return turns(routes, layout.graph, layout.directions, most=self.part.most, whole=self.whole)

    def _sizes(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses:
        share = routes.share(self.whole)
        cells, points = (
            distinct(routes, layout.cells, between=self.between),
            np.diff(journeys.offsets),
        )
        runs = np.diff(routes.offsets)
        passed = np.add.reduceat(routes.points == 0, routes.offsets[:-1]) if len(runs) else runs
        limits = ((cells, CELLS), (points, POINTS), (passed, runs))
        parts = [share * np.minimum(many, limit) // (limit * len(limits)) for many, limit in limits]
        return Masses(np.arange(len(limits)), np.array([part.sum() for part in parts]))

    def _timing(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses:  # noqa: ARG002
        assert isinstance(self.part, DayClock)
        return self.part.count(journeys, self.whole)

    def _number(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses:  # noqa: ARG002
        """A person's m trajectories give min(m, most) parts of `most` together."""
        among, most = journeys.among, self.part.most
        return Masses.of(
            np.zeros(len(among), np.int64), self.whole * np.minimum(among, most) // (most * among)
        )

    def far(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The bin of the distance of cells of the domain: the same cell of a grid four and two
        times as fine, the same cell, further.
        """
        side = min(REACH, self.domain.side)
        step = self.domain.side // side
        ends = [np.stack(np.divmod(cells, self.domain.side)) for cells in (first, last)]
        gap = ends[0] // step - ends[1] // step
        bins = np.searchsorted(FAR, np.sqrt((gap**2).sum(axis=0)), side="right") + 2
        for finer, code in ((2, 1), (4, 0)):
            fine = max(step // finer, 1)
            bins = np.where((ends[0] // fine == ends[1] // fine).all(axis=0), code, bins)
        return bins


def paired(low: np.ndarray, high: np.ndarray, cells: int) -> np.ndarray:
    """One number for each pair low <= high of so many cells.

    >>> paired(np.array([0, 0, 1]), np.array([0, 2, 1]), 3)
    array([0, 2, 3])
    """
    return low * cells - low * (low - 1) // 2 + high - low


def unpaired(codes: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs that these numbers stand for."""
    start = paired(np.arange(cells), np.arange(cells), cells)
    low = np.searchsorted(start, codes, side="right") - 1
    return low, codes - start[low] + low


def queries(
    domain: Any, parts: Mapping[str, Part], budgets: Mapping[str, Drawn], *, between: bool
) -> tuple[Query, ...]:
    """The parts, in order, all in the same parts of a unit."""
    found = [Query(name, part, domain, between) for name, part in parts.items()]
    whole = whole_within(level for query in found for level in query.budgets(budgets[query.name]))
    return tuple(replace(query, whole=whole) for query in found)
