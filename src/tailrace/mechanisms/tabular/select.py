"""Choose workloads: the exponential mechanism on integer scores.

Privacy.
1. Fix all releases. A workload's score is the 1-norm of its exact net counts less public integers,
   less a public integer.
2. One event moves one cell of every workload by one, so every score by at most one, up or down; a
   unit's a events in the same counts move it by at most a.
3. A choice with probabilities proportional to exp(rate score) loses 2 rate a (pure). The logarithms
   of the ratios lie in an interval of that length, so it loses (2 rate a)^2 / 8 in zCDP.
4. Every event is counted once. A unit's m insertions and d deletions, spread over sets of counts in
   any way, lose at most rounds * 2 rate (m + d), or rounds * (2 rate (m + d))^2 / 8, because the
   squares of parts sum to at most the square of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.counting.marginals import Marginals
from tailrace.models.tables import Fit
from tailrace.noise import Draws
from tailrace.privacy.loss import ZCDP, Loss, PureDP


@dataclass(frozen=True)
class Choice:
    """`rounds` choices from the same counts, under one budget.

    `events` are the insertions and deletions of a unit.
    """

    privacy: PureDP | ZCDP
    rounds: int
    events: tuple[int, int]

    @property
    def rate(self) -> Fraction:
        """By how much one point of score raises the log-probability."""
        if isinstance(self.privacy, PureDP):
            return self.privacy.epsilon / (2 * self.rounds * sum(self.events))
        return ZCDP(rho=self.privacy.rho / self.rounds).pure_within().epsilon / sum(self.events)

    def draw(self, scores: np.ndarray, noise: Draws) -> int:
        """Choose among integer scores; returns an index."""
        return noise.choose(scores, self.rate)

    def loss(self, inserted: int, deleted: int) -> Loss:
        """The proved loss of all rounds for one unit."""
        each = 2 * self.rate * (inserted + deleted)
        if isinstance(self.privacy, PureDP):
            return PureDP(epsilon=self.rounds * each)
        return ZCDP(rho=self.rounds * each**2 / 8)


def scores(
    marginals: Marginals, exact: np.ndarray, expected: np.ndarray, noise: float
) -> np.ndarray:
    """Distance of each workload's exact counts from the expected ones.

    The 1-norm, less the part that noise and sampling explain: `noise` is the mean absolute noise of
    a cell, sampling draws records from the expected shares. `expected` is public and is rounded to
    integers here.
    """
    distances = np.abs(exact - np.rint(expected).astype(np.int64))
    sums = np.add.reduceat(distances, marginals.offsets[:-1])
    chance = np.add.reduceat(np.sqrt(2 / math.pi * np.abs(expected)), marginals.offsets[:-1])
    return sums - np.rint(noise * marginals.sizes + chance).astype(np.int64)


def spanning(marginals: Marginals, order: Sequence[int]) -> list[int]:
    """Reorder workloads: first a spanning forest of the columns.

    Those come first that connect columns which no earlier one connected.
    """
    # component of each column
    part = list(range(len(marginals.shape)))
    first: list[int] = []
    for j in order:
        parts = {part[column] for column in marginals.cliques[j]}
        if len(parts) > 1:
            first.append(j)
            part = [min(parts) if one in parts else one for one in part]
    return [*first, *(j for j in order if j not in first)]


def within(fit: Fit, marginals: Marginals, order: Iterable[int]) -> list[int]:
    """The workloads a model can hold, taken greedily in order."""
    held: list[int] = []
    for j in order:
        if fits(fit, marginals, [*held, j]):
            held.append(j)
    return held


def fits(fit: Fit, marginals: Marginals, workloads: Iterable[int]) -> bool:
    """Whether one model can hold all these workloads."""
    return fit.cells(marginals.shape, [marginals.cliques[j] for j in workloads]) <= fit.limit
