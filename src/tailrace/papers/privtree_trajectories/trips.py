"""Noisy counts of trajectories between parts of the map.

Pairs of cells are too many to count each, and nearly all are empty. They are counted in groups, the
leaves of a tree whose nodes are pairs of places: halves of the one times halves of the other.

**Privacy.**
1. A trajectory lies in one pair of cells, with its part of its unit. So one unit adds at most its
   whole to the pairs.
2. A node holds the sum of its children, and nothing negative. So the coins (`privtree/splits.py`,
   with the penalty of fan-out 4, more than nodes of 2 children need) lose what they prove for a
   mass of 1.
3. The leaves are disjoint, so a unit moves their counts by at most WHOLE parts in the 1-norm, and
   so in the 2-norm. Each gets noise once: scale WHOLE / epsilon, or variance WHOLE^2 / (2 rho).
4. The two losses add up.

Source: Kumar's dissertation, Algorithms 18 and 19.
Departs: the count of the node itself is measured (J(w), not J(v)), on whole parts; counts are
rounded by chance, not down, which would lose units that share their whole among several.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.calls import told
from tailrace.counting.journeys.masses import WHOLE, Masses
from tailrace.counting.journeys.moves import ends
from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.mechanisms.trajectories.plan import Followed
from tailrace.mechanisms.trajectories.promise import atoms_of
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.papers.privtree.splits import SplitCoin
from tailrace.papers.privtree_trajectories.cells import threshold_of
from tailrace.privacy.budget import Drawn, part
from tailrace.privacy.loss import Loss, Number, exact

_FAN_OUT = 4


@dataclass(frozen=True)
class Trips:
    """Disjoint groups of pairs of cells, with noisy counts."""

    a: np.ndarray  # (groups, 2) from the cells a[0] up to a[1]
    b: np.ndarray  # (groups, 2) to the cells b[0] up to b[1]
    parts: np.ndarray  # (groups,) noisy

    @property
    def counts(self) -> np.ndarray:
        """Trajectories of each group: unbiased, so some are negative."""
        return self.parts / WHOLE

    @property
    def pairs(self) -> np.ndarray:
        """The number of pairs of cells of each group."""
        return np.diff(self.a)[:, 0] * np.diff(self.b)[:, 0]


@told
@dataclass(frozen=True, kw_only=True)
class PrivTreeTrips:
    """Pairs by PrivTree, within a relative `share` of the budget.

    `structure` is the part of that share that draws the groups.

    >>> PrivTreeTrips(share=0.3)
    PrivTreeTrips(share=Fraction(3, 10), structure=Fraction(1, 2), threshold=0)
    """

    share: Number = Fraction(3, 10)
    structure: Number = Fraction(1, 2)
    threshold: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", exact("share", self.share))
        object.__setattr__(self, "structure", exact("structure", self.structure, below=1))
        object.__setattr__(self, "threshold", threshold_of(self.threshold))

    def coin(self, budget: Drawn) -> SplitCoin:
        return SplitCoin(_FAN_OUT, self.threshold, part(budget, self.structure), 1, grid=WHOLE)

    def atoms(self, budget: Drawn) -> Atoms:
        return atoms_of(part(budget, 1 - self.structure))  # pyright: ignore[reportOperatorIssue] - a Fraction by now

    def loss(self, budget: Drawn) -> Loss:
        return self.coin(budget).loss(1) & self.atoms(budget).loss(1, 0)

    def error(self, budget: Drawn) -> float:
        """The standard error of a group's count, in trajectories."""
        return float(np.sqrt(self.atoms(budget).variance())) / WHOLE

    def of(self, found: Followed) -> Masses:
        return ends(found.routes, found.layout.cells)

    def most_of(self, layout: Layout) -> int:
        """A pair of cells each."""
        return layout.cells**2

    def none(self) -> Trips:
        return Trips(np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64), np.zeros(0, np.int64))

    def measured(self, masses: Masses, *, layout: Layout, budget: Drawn, noise: Draws) -> Trips:
        """Draw groups from the pair of everywhere, and count each."""
        coin, atoms = self.coin(budget), self.atoms(budget)
        level = _Level.root(masses, layout.cells)
        a, b, parts = [], [], []
        for depth in itertools.count():
            mass, split = level.mass(), level.wide()
            if split.any():
                split[split] = coin.draw_parts(noise.at("split", depth), mass[split], depth)
            a.append(level.a[~split])
            b.append(level.b[~split])
            parts.append(mass[~split])
            if not split.any():
                break
            level = level.halved(split, layout.first)
        true = np.concatenate(parts)
        noisy = true + atoms.draw(noise.at("counts"), len(true))
        return Trips(np.concatenate(a), np.concatenate(b), noisy)

    def draw(self, trips: Trips, layout: Layout, rng: np.random.Generator) -> np.ndarray:
        """(2, trajectories) cells of the domain, even over pairs.

        Counts are rounded by chance.
        """
        many = np.floor(np.maximum(trips.counts, 0) + rng.random(len(trips.parts))).astype(np.int64)
        group = np.repeat(np.arange(len(trips.parts)), many)
        return np.stack(
            [layout.draw(rng.integers(*ends[group].T), rng) for ends in (trips.a, trips.b)]
        )


@dataclass(frozen=True)
class _Level:
    """The nodes of one depth, and the pairs inside."""

    a: np.ndarray  # (nodes, 2) cells from, up to
    b: np.ndarray  # (nodes, 2)
    node: np.ndarray  # (pairs,) that each pair lies in
    pairs: np.ndarray  # (2, pairs) its cells
    parts: np.ndarray  # (pairs,)

    @classmethod
    def root(cls, pairs: Masses, cells: int) -> _Level:
        everywhere = np.array([[0, cells]])
        ends = np.stack(np.divmod(pairs.codes, max(cells, 1)))
        return cls(everywhere, everywhere, np.zeros(len(pairs.codes), np.int64), ends, pairs.parts)

    def mass(self) -> np.ndarray:
        """(nodes,) parts, below 2^53: doubles of bincount are exact."""
        return np.bincount(self.node, self.parts, minlength=len(self.a)).astype(np.int64)

    def wide(self) -> np.ndarray:
        """Which nodes have more than one pair."""
        return (np.diff(self.a)[:, 0] > 1) | (np.diff(self.b)[:, 0] > 1)

    def halved(self, split: np.ndarray, first: np.ndarray) -> _Level:
        """The children of nodes that split: halves times halves."""
        a, b = self.a[split], self.b[split]
        middles = [_middle(ends, first) for ends in (a, b)]
        halves = [
            [np.stack(ends, axis=1) for ends in ((own[:, 0], middle), (middle, own[:, 1]))]
            for own, middle in zip((a, b), middles, strict=True)
        ]
        children = [(one, other) for one in halves[0] for other in halves[1]]
        full = [(np.diff(one) > 0) & (np.diff(other) > 0) for one, other in children]
        there = np.concatenate(full, axis=1)
        numbers = np.cumsum(there).reshape(there.shape) - 1
        parent = np.cumsum(split) - 1
        inside = split[self.node]
        node, pairs = parent[self.node[inside]], self.pairs[:, inside]
        side = 2 * (pairs[0] >= middles[0][node]) + (pairs[1] >= middles[1][node])
        a, b = (np.stack([child[i] for child in children], axis=1)[there] for i in range(2))
        return _Level(a, b, numbers[node, side], pairs, self.parts[inside])


def _middle(ends: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The first cell of the second half, or the end.

    Halves are parted by the first halving of places that parts any two of the cells.
    """
    start, stop = first[ends[:, 0]], first[ends[:, 1] - 1]
    # The highest bit in which they differ.
    bit = np.frexp((start ^ stop).astype(float))[1] - 1
    edge = (stop >> np.maximum(bit, 0)) << np.maximum(bit, 0)
    return np.where(start == stop, ends[:, 1], np.searchsorted(first, edge))
