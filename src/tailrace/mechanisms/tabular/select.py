"""Which workloads are measured: by the exponential mechanism on integer scores, within the size
that a model may have.

Privacy: `Choice` draws, and proves what it loses. Given all that was released, the score of a
workload is the 1-norm of its exact net counts less public integers, less a public integer. One
event moves one cell of every workload by one, so every score by at most one, either way; a unit's a
events of the same counts by at most a. A choice with probabilities proportional to exp(rate score)
then loses 2 rate a (pure), and, since the logarithms of the ratios lie in an interval of that
length, (2 rate a)^2 / 8 in zCDP. Events are counted once each, so a unit's m insertions and d
deletions, spread over sets of counts in any way, lose rounds 2 rate (m + d), or rounds (2 rate (m +
d))^2 / 8 at most, as squares of parts add up to less than the square of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.counting.marginals import Marginals
from tailrace.noise import Draws
from tailrace.privacy.loss import ZCDP, Loss, PureDP


@dataclass(frozen=True)
class Choice:
    """`rounds` choices from the same counts, under one budget of a unit of so many insertions and
    deletions.
    """

    privacy: PureDP | ZCDP
    rounds: int
    events: tuple[int, int]

    @property
    def rate(self) -> Fraction:
        """Of the probability's logarithm in a score."""
        if isinstance(self.privacy, PureDP):
            return self.privacy.epsilon / (2 * self.rounds * sum(self.events))
        return ZCDP(rho=self.privacy.rho / self.rounds).pure_within().epsilon / sum(self.events)

    def draw(self, scores: np.ndarray, noise: Draws) -> int:
        """The place of the chosen one among integer scores."""
        return noise.choose(scores, self.rate)

    def loss(self, inserted: int, deleted: int) -> Loss:
        """What all rounds prove together for so many events of one unit."""
        each = 2 * self.rate * (inserted + deleted)
        if isinstance(self.privacy, PureDP):
            return PureDP(epsilon=self.rounds * each)
        return ZCDP(rho=self.rounds * each**2 / 8)


def scores(
    marginals: Marginals, exact: np.ndarray, expected: np.ndarray, noise: float
) -> np.ndarray:
    """How far the exact net counts of each workload are from what is expected, less what noise and
    chance do to that.

    `expected` is public and becomes integers here, `noise` is the mean size of one cell's noise.
    Chance is that of records which are drawn from the expected shares.
    """
    apart = np.abs(exact - np.rint(expected).astype(np.int64))
    sums = np.add.reduceat(apart, marginals.offsets[:-1])
    chance = np.add.reduceat(np.sqrt(2 / math.pi * np.abs(expected)), marginals.offsets[:-1])
    return sums - np.rint(noise * marginals.sizes + chance).astype(np.int64)


def spanning(marginals: Marginals, order: Sequence[int]) -> list[int]:
    """The same workloads, but first those that connect columns that no earlier one did: a tree of
    the strongest ties.
    """
    part = list(
        range(len(marginals.shape))
    )  # by column, the number of the part it is connected with
    first: list[int] = []
    for j in order:
        parts = {part[column] for column in marginals.cliques[j]}
        if len(parts) > 1:
            first.append(j)
            part = [min(parts) if one in parts else one for one in part]
    return [*first, *(j for j in order if j not in first)]


def within(fit: Any, marginals: Marginals, order: Iterable[int]) -> list[int]:
    """The workloads, in this order, that a model can hold together; one for which there is no room
    left is passed over.
    """
    held: list[int] = []
    for j in order:
        if fits(fit, marginals, [*held, j]):
            held.append(j)
    return held


def fits(fit: Any, marginals: Marginals, workloads: Iterable[int]) -> bool:
    """Whether a model can hold these workloads together."""
    return fit.cells(marginals.shape, [marginals.cliques[j] for j in workloads]) <= fit.limit
