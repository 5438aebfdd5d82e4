"""The counts of trajectories, each within its own budget.

`COUNTS` names them; each says what one trajectory adds, as parts of its unit.

**Privacy.**
1. In each level of each count a unit adds at most its whole: WHOLE parts or fewer, a public number.
2. Cells, pairs and bins are public, and every one gets noise of that sensitivity: under Laplace
   noise the whole (1-norm), under Gaussian noise the root of the level's `squares` of it (2-norm).
3. A count divides its budget among its levels; their losses add up to the whole budget.
4. A person's k trajectories add 1 / k of their vectors each, and the m of a bounded unit one each:
   by the triangle inequality the length of the sum is at most that of one, or m times that.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tailrace.calls import told
from tailrace.counting.journeys.masses import WHOLE, Masses
from tailrace.counting.journeys.moves import distinct, held, turns, visits
from tailrace.domain.geometry.partition import partition_of
from tailrace.errors import ConfigError
from tailrace.mechanisms.trajectories.clock import DayClock
from tailrace.mechanisms.trajectories.layout import Layout, Map
from tailrace.mechanisms.trajectories.plan import Followed
from tailrace.mechanisms.trajectories.promise import atoms_of, whole_within
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.budget import Drawn, part
from tailrace.privacy.loss import Loss, Number, exact, whole

# Lower edges of the bins of sizes, by reasoning: half octaves tell a mean to a few percent.
SIZES = np.unique(np.rint(2.0 ** np.arange(0, 12.5, 0.5)).astype(np.int64))
# The others were chosen by trial on the data of benchmarks/trajectories.py.
# Before edition 2: cells and points of one trajectory beyond these were not counted in sizes.
CELLS, POINTS = 60, 300
# Cells a side of the grid on which distances are counted.
REACH = 64
# Lower edges of the bins of distances, in its cells, behind three bins inside one cell.
FAR = np.array([1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 46])
# Lower edges of the bins of the fewest moves, and of further moves.
FEWEST = np.array([0, 1, 2, 3, 5, 9, 17, 33])
MORE = np.array([0, 1, 2, 3, 5, 9, 17, 33, 65, 129])


@told
@dataclass(frozen=True, kw_only=True)
class Grids:
    """Counts on nested grids, from coarse to fine.

    `share` of the budget is relative to other parts; `sides` are the cells a side of each grid,
    which divide the share by `weights`, or evenly. A trajectory with fewer than `most` points
    (cells, turns) gives each 1 / most, so that short ones do not weigh more.
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
            weights = tuple(whole("weights", weight) for weight in self.weights)
            object.__setattr__(self, "weights", weights)
            if len(weights) != len(sides):
                raise ConfigError(
                    "weights must be as many as sides: how much of the share each of them gets."
                )
        powers = all(not whole("sides", side) & (side - 1) for side in sides)
        if not sides or not powers or list(sides) != sorted(set(sides)):
            raise ConfigError(
                "sides must be powers of two that rise, for example sides=(4, 16, 64)."
            )
        object.__setattr__(self, "sides", sides)

    def within(self, side: int) -> tuple[int, ...]:
        """The sides that fit a domain of this side."""
        return tuple(own for own in self.sides if own <= side) or (side,)

    def parts(self, side: int) -> tuple[Fraction, ...]:
        """The part of the share that each of these gets."""
        weights = (self.weights or (1,) * len(self.sides))[: len(self.within(side))]
        return tuple(Fraction(weight, sum(weights)) for weight in weights)


@told
@dataclass(frozen=True, kw_only=True)
class Bins:
    """Counts in bins; `share` and `most` as in Grids.

    Of `number` under User, `most` is how many trajectories of one person count.
    """

    share: Number
    most: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", exact("share", self.share))
        object.__setattr__(self, "most", whole("most", self.most))


@told
@dataclass(frozen=True, kw_only=True)
class Octaves(Bins):
    """The number of trajectories, by how many a person has.

    Bin k is for people with more than 2^(k-1) and at most 2^k of them; each adds the part of 2^k
    that they have: 2^k times the bin is the number of its trajectories. A person with more than
    `most` counts as one with `most`; how high numbers go is read off the noisy bins, so a large
    `most` costs little.
    """

    most: int = 1024


@dataclass(frozen=True)
class Count(ABC):
    """One part on a domain: its counting and its noise."""

    name: str
    part: Any  # of this kind
    domain: Map
    between: bool = False  # whether cells passed between two points are visited
    whole: int = WHOLE  # parts of one unit
    edition: int = 1

    kind: ClassVar[type] = Bins
    size: ClassVar[int] = 1
    square: ClassVar[Fraction] = Fraction(1)

    @abstractmethod
    def of(self, found: Followed) -> Masses:
        """Count trajectories, on the finest level."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of counts of each level."""
        return (self.size,)

    def most_of(self, layout: Layout) -> int:  # noqa: ARG002
        """The number of counts of the finest level."""
        return self.sizes[-1]

    def at(self, masses: Masses, level: int) -> Masses:  # noqa: ARG002
        """The counts of a level, from those of the finest."""
        return masses

    def budgets(self, budget: Drawn) -> tuple[Drawn, ...]:
        """Of each level."""
        return (budget,)

    @property
    def squares(self) -> tuple[Fraction, ...]:
        """The squared 2-norm of what one unit adds to each level, in wholes, at most."""
        return (self.square,) * len(self.sizes)

    def noise(self, budget: Drawn) -> tuple[Atoms, ...]:
        """Of one count of each level."""
        squares = self.squares if self.edition else (Fraction(1),) * len(self.sizes)
        each = zip(self.budgets(budget), squares, strict=True)
        return tuple(atoms_of(level, self.whole, square) for level, square in each)

    def loss(self, budget: Drawn) -> Loss:
        """Of all levels together."""
        losses = (atoms.loss(1, 0) for atoms in self.noise(budget))
        return functools.reduce(lambda one, other: one & other, losses)

    def measured(self, masses: Masses, *, budget: Drawn, noise: Draws) -> np.ndarray:
        """The noisy parts of all levels, one after another."""
        found = []
        for level, (size, atoms) in enumerate(zip(self.sizes, self.noise(budget), strict=True)):
            found.append(self.at(masses, level).dense(size) + atoms.draw(noise.at(level), size))
        return np.concatenate(found)


class OnGrids(Count):
    """A count on nested grids, in halving order."""

    kind = Grids
    part: Grids

    @property
    def sides(self) -> tuple[int, ...]:
        """Cells a side of each level."""
        return self.part.within(self.domain.side)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(side * side for side in self.sides)

    def budgets(self, budget: Drawn) -> tuple[Drawn, ...]:
        return tuple(part(budget, share) for share in self.part.parts(self.domain.side))

    def at(self, masses: Masses, level: int) -> Masses:
        return Masses.of(masses.codes >> self._shift(level), masses.parts)

    def _shift(self, level: int) -> int:
        return 2 * (self.sides[-1].bit_length() - self.sides[level].bit_length())

    def _nodes(self, cells: np.ndarray) -> np.ndarray:
        """The finest grid's cells around cells of the domain."""
        partition = partition_of(self.domain)
        return partition.places[cells] >> (partition.depth - 2 * (self.sides[-1].bit_length() - 1))


class _Visits(OnGrids):
    """Each different cell with points: 1 / max(cells, most).

    Squares: let n fine cells lie in coarse ones that hold r each, k_i of them in the i-th. Since
    k_i <= min(r, n), the squares of k_i / max(n, most) add up to at most min(r, n) n / max(n,
    most)^2 <= min(1, r / most). On the finest grid r = 1. A fine cell never gets more than the
    whole-number part of its share (`held`), so this holds for parts, too, and for any unit.
    """

    @property
    def squares(self) -> tuple[Fraction, ...]:
        most, fine = self.part.most, self.sides[-1]
        return tuple(Fraction(min((fine // side) ** 2, most), most) for side in self.sides)

    def of(self, found: Followed) -> Masses:
        most, between, whole = self.part.most, self.between, self.whole
        return held(found.routes, found.layout.index, most=most, between=between, whole=whole)


class _Points(OnGrids):
    """Each point: 1 / max(points, most)."""

    def of(self, found: Followed) -> Masses:
        places, most = self._nodes(np.arange(self.domain.size)), self.part.most
        return visits(found.journeys, places, self.sizes[-1], most=most, whole=self.whole)


class _Ends(OnGrids):
    """The first and the last point: 1/2 each."""

    def of(self, found: Followed) -> Masses:
        journeys, share = found.journeys, self.whole // found.journeys.among
        nodes = [self._nodes(cells) for cells in (journeys.first, journeys.last)]
        return Masses.of(np.concatenate(nodes), np.concatenate([share // 2, share - share // 2]))


class _Pairs(OnGrids):
    """The first and last cell, in either order: 1."""

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(cells * (cells + 1) // 2 for cells in super().sizes)

    def of(self, found: Followed) -> Masses:
        journeys = found.journeys
        one, other = (self._nodes(cells) for cells in (journeys.first, journeys.last))
        codes = paired(np.minimum(one, other), np.maximum(one, other), self.sides[-1] ** 2)
        return Masses.of(codes, self.whole // journeys.among)

    def at(self, masses: Masses, level: int) -> Masses:
        low, high = (
            cells >> self._shift(level) for cells in unpaired(masses.codes, self.sides[-1] ** 2)
        )
        return Masses.of(paired(low, high, self.sides[level] ** 2), masses.parts)


class _Distances(Count):
    """The distance of the last point from the first: 1.

    Bins 0 to 2: in one cell of a grid four times as fine, twice as fine, of REACH cells a side.
    """

    size = len(FAR) + 3

    def of(self, found: Followed) -> Masses:
        journeys, side = found.journeys, self.domain.side
        step = side // min(REACH, side)
        ends = [np.stack(np.divmod(cells, side)) for cells in (journeys.first, journeys.last)]
        gap = ends[0] // step - ends[1] // step
        bins = np.searchsorted(FAR, np.sqrt((gap**2).sum(axis=0)), side="right") + 2
        for finer, code in ((2, 1), (4, 0)):
            fine = max(step // finer, 1)
            bins = np.where((ends[0] // fine == ends[1] // fine).all(axis=0), code, bins)
        return Masses.of(bins, self.whole // journeys.among)


class _Detours(Count):
    """The moves beyond the fewest, by the fewest: 1."""

    size = len(FEWEST) * len(MORE)

    def of(self, found: Followed) -> Masses:
        routes, layout = found.routes, found.layout
        fewest, unit = layout.apart(routes.first, routes.last), layout.unit(self.edition)
        more = np.maximum(np.diff(routes.offsets) - 1 - fewest, 0) // unit
        fewest = fewest // unit
        row = np.searchsorted(FEWEST, fewest, side="right") - 1
        column = np.searchsorted(MORE, more, side="right") - 1
        return Masses.of(row * len(MORE) + column, routes.share(self.whole))


class _Turns(Count):
    """Each turn, in eighths of a circle: 1 / max(turns, most)."""

    size = 8

    def of(self, found: Followed) -> Masses:
        edges = (found.layout.graph, found.layout.directions)
        return turns(found.routes, *edges, most=self.part.most, whole=self.whole)


class _Sizes(Count):
    """Cells and points in bins, and the share of cells without points: 1/3 each.

    So the squares add up to a third.
    """

    size = 2 * len(SIZES) + 1
    square = Fraction(1, 3)

    def of(self, found: Followed) -> Masses:
        routes, share = found.routes, found.routes.share(self.whole)
        cells = distinct(routes, found.layout.cells, between=self.between)
        points, runs = np.diff(found.journeys.offsets), np.diff(routes.offsets)
        passed = np.add.reduceat(routes.points == 0, routes.offsets[:-1]) if len(runs) else runs
        bins = [np.searchsorted(SIZES, many, side="right") - 1 for many in (cells, points)]
        codes = [bins[0], bins[1] + len(SIZES), np.full(len(runs), 2 * len(SIZES))]
        parts = [share // 3, share // 3, share * passed // (3 * runs)]
        return Masses.of(np.concatenate(codes), np.concatenate(parts))


class _Sums(Count):
    """Before edition 2: cells, points, and the share without points, 1/3 each.

    Cells counted as parts of CELLS, points of POINTS, at most 1. So each square is at most a ninth.
    """

    size = 3
    square = Fraction(1, 3)

    def of(self, found: Followed) -> Masses:
        routes, share = found.routes, found.routes.share(self.whole)
        cells = distinct(routes, found.layout.cells, between=self.between)
        points, runs = np.diff(found.journeys.offsets), np.diff(routes.offsets)
        passed = np.add.reduceat(routes.points == 0, routes.offsets[:-1]) if len(runs) else runs
        limits = ((cells, CELLS), (points, POINTS), (passed, runs))
        parts = [share * np.minimum(many, limit) // (limit * self.size) for many, limit in limits]
        return Masses(np.arange(self.size), np.array([part.sum() for part in parts]))


class _Timing(Count):
    """The first time and the mean gap: 1/2 each, in bins of their own."""

    kind = DayClock
    part: DayClock
    square = Fraction(1, 2)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.part.size,)

    def of(self, found: Followed) -> Masses:
        return self.part.count(found.journeys, self.whole)


class _Number(Count):
    """Itself: 1. A person's m together: min(m, most) / most; in octaves as `Octaves` says."""

    @property
    def sizes(self) -> tuple[int, ...]:
        octaves = isinstance(self.part, Octaves)
        return ((self.part.most - 1).bit_length() + 1 if octaves else 1,)

    def of(self, found: Followed) -> Masses:
        among, most = found.journeys.among, self.part.most
        if isinstance(self.part, Octaves):
            bins = np.searchsorted(1 << np.arange(self.sizes[0]), among)
            last = np.minimum(bins, self.sizes[0] - 1)
            # Beyond the last bin a person's trajectories share its whole.
            parts = self.whole // np.where(bins > last, among, 1 << last)
            return Masses.of(last, parts)
        parts = self.whole * np.minimum(among, most) // (most * among)
        return Masses.of(np.zeros(len(among), np.int64), parts)


# Which rules new releases count by; kept ones have those of their time. Before 1 (up to 017ef2f):
# Gaussian noise for a squared length of 1; off roads no cells between points, none finer than a
# 64th (`setting.py`); no watch over ends (`stream.py`). Before 2 (up to 2c27a5c): sizes as sums,
# detours in moves of any width; visits on coarse grids, too (`setting.py`).
EDITION = 2
# In the order of release.
COUNTS: dict[str, type[Count]] = {
    "visits": _Visits,
    "points": _Points,
    "ends": _Ends,
    "pairs": _Pairs,
    "distances": _Distances,
    "detours": _Detours,
    "turns": _Turns,
    "sizes": _Sizes,
    "timing": _Timing,
    "number": _Number,
}


def paired(low: np.ndarray, high: np.ndarray, cells: int) -> np.ndarray:
    """Number the pairs low <= high of `cells` cells.

    >>> paired(np.array([0, 0, 1]), np.array([0, 2, 1]), 3)
    array([0, 2, 3])
    """
    return low * cells - low * (low - 1) // 2 + high - low


def unpaired(codes: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs that these numbers stand for."""
    start = paired(np.arange(cells), np.arange(cells), cells)
    low = np.searchsorted(start, codes, side="right") - 1
    return low, codes - start[low] + low


def counts_of(
    domain: Map,
    parts: Mapping[str, Any],
    budgets: Mapping[str, Drawn],
    *,
    between: bool,
    edition: int,
) -> tuple[Count, ...]:
    """The counts of these parts, with one whole for all."""
    about = {"domain": domain, "between": between, "edition": edition}
    kinds = COUNTS if edition > 1 else {**COUNTS, "sizes": _Sums}
    found = [kinds[name](name, part, **about) for name, part in parts.items()]
    whole = whole_within(level for count in found for level in count.budgets(budgets[count.name]))
    return tuple(replace(count, whole=whole) for count in found)
