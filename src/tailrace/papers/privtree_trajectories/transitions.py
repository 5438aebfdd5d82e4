"""Noisy transitions along the public graph, as chances.

**Privacy.**
1. The transitions of a unit share its whole: it adds at most WHOLE parts to the counts in the
   1-norm, and so in the 2-norm.
2. Every edge of the public graph gets noise, used or not: scale WHOLE / epsilon, or variance
   WHOLE^2 / (2 rho). What follows is post-processing.

Source: Kumar's dissertation, Algorithm 17 and equation 5.10.
Departs: as printed the algorithm forgets the noise and releases exact shares; the noisy counts are
normalised here, evenly where none is positive. As printed (5.10) weighs the middle most; `Ends`
weighs the ends, as its text says. A trajectory's jumps between cells that do not touch are filled
in before its transitions are weighed. The chance to stay in a cell is drawn to that of all cells by
as much as the cell's counts are noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tailrace.calls import told
from tailrace.counting.journeys.masses import WHOLE, Masses
from tailrace.counting.journeys.moves import Ends, Even, Weighting, transitions
from tailrace.errors import ConfigError
from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.mechanisms.trajectories.plan import Followed
from tailrace.mechanisms.trajectories.promise import atoms_of
from tailrace.models.walks.paths import hops, most_probable
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn
from tailrace.privacy.loss import Loss, Number, exact, whole

# Limits by reasoning. Points of one visit of a cell, at most.
MOST_POINTS = 10_000
# The chance to stay once more, at most: a thousand points in one cell on average.
_MOST_STAYS = 1 - 2.0**-10
# Standard errors by which all transitions together must stand out for their share of stays to be
# believed; otherwise nobody stays.
_SURE = 3.0


@dataclass(frozen=True, eq=False)
class Chances:
    """The chances of where a trajectory goes from each cell."""

    moving: np.ndarray  # (edges,) the chance of each edge, if it moves on
    staying: np.ndarray  # (cells,) the chance of another point in the same cell


@dataclass(frozen=True)
class Moves:
    """Noisy transitions along each edge, then inside each cell."""

    parts: np.ndarray  # (edges + cells,)


@told
@dataclass(frozen=True, kw_only=True)
class Transitions:
    """Transitions weighted Even() or Ends(), within a relative `share`.

    >>> Transitions(share=0.4)
    Transitions(share=Fraction(2, 5), weighting=Even())
    """

    share: Number = Fraction(4, 10)
    weighting: Weighting = field(default_factory=Even)

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", exact("share", self.share))
        if not isinstance(self.weighting, Even | Ends):
            raise ConfigError("weighting must be Even() or Ends().")

    def loss(self, budget: Drawn) -> Loss:
        return atoms_of(budget).loss(1, 0)

    def of(self, found: Followed) -> Masses:
        return transitions(found.routes, found.layout.graph, weighting=self.weighting, stays=True)

    def most_of(self, layout: Layout) -> int:
        """An edge or a stay each."""
        return len(layout.graph.targets) + layout.graph.cells

    def none(self) -> Moves:
        return Moves(np.zeros(0, np.int64))

    def measured(self, masses: Masses, *, layout: Layout, budget: Drawn, noise: Draws) -> Moves:
        """Noisy counts of every edge, and of every stay."""
        size = self.most_of(layout)
        return Moves(masses.dense(size) + atoms_of(budget).draw(noise, size))

    def chances(self, noisy: Moves, layout: Layout, budget: Drawn) -> Chances:
        """Positive noisy counts as chances; even without any.

        Cells stay as all do together, as far as their own counts are noise: otherwise a cell whose
        moves are hidden by noise would keep its visitors, with a thousand points each.
        """
        graph, counts = layout.graph, np.maximum(noisy.parts, 0) / WHOLE
        moves, stays = counts[: len(graph.targets)], counts[len(graph.targets) :]
        leaving = np.bincount(graph.sources, moves, minlength=graph.cells)
        degree = np.maximum(np.diff(graph.starts), 1)
        sums, even = leaving[graph.sources], (1 / degree)[graph.sources]
        moving = np.divide(moves, sums, out=even, where=sums > 0)
        # Sums before the negative ones are cut off: noise cancels out.
        sums = noisy.parts / WHOLE
        error = float(np.sqrt(atoms_of(budget).variance())) / WHOLE
        whole, held = float(sums.sum()), float(sums[len(graph.targets) :].sum())
        seen = whole > _SURE * error * len(sums) ** 0.5
        usual = min(max(held / whole, 0.0), 1.0) if seen else 0.0
        # Noise that is cut off at 0 has a mean of .35 of its error for each of a cell's edges.
        unsure = error * (1.0 + degree)
        staying = (stays + unsure * usual) / (leaving + stays + unsure)
        return Chances(moving, np.minimum(staying, _MOST_STAYS))


def repeated(
    offsets: np.ndarray, cells: np.ndarray, chances: Chances, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Repeat the cells of walks by the chance of staying."""
    points = np.minimum(rng.geometric(1 - chances.staying[cells]), MOST_POINTS)
    sums = np.concatenate([[0], np.cumsum(points)])
    return sums[offsets], np.repeat(cells, points)


@told
@dataclass(frozen=True, kw_only=True)
class ProbableLengths:
    """Exponential lengths; the median is the most probable path's.

    Trajectories have `longest` cells at most, unless their ends need more. Drawn from released
    chances, at no cost.

    Source: Kumar's dissertation, section 5.5.5 and Algorithm 20.
    Departs: an exponential distribution with the median m has the rate ln 2 / m, which as printed
    is its scale; m is that of the most probable path by the noisy chances, not by the true ones; a
    length is a whole number, and no less than the way needs.
    """

    longest: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "longest", whole("longest", self.longest))

    def draw(
        self, chances: Chances, layout: Layout, ends: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """The moves of each trajectory between ends[0] and ends[1]."""
        pairs, which = np.unique(ends, axis=1, return_inverse=True)
        # In cells, both ends included.
        probable = most_probable(layout.graph, chances.moving, *pairs) + 1
        fewest = hops(layout.graph, *pairs) + 1
        drawn = np.ceil(rng.exponential(1.0, ends.shape[1]) * probable[which] / math.log(2))
        drawn = drawn.astype(np.int64)
        return np.maximum(np.minimum(drawn, self.longest), fewest[which]) - 1
