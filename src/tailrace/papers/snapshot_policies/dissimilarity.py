"""What budget distribution and budget absorption share: a noisy distance at every step, held
against the error of a release.

Privacy: half of the budget is for distances, an even part of it for each step: a person moves a
distance by at most `records`, so Laplace noise of scale records / (that part), or Gaussian noise of
the same rule. The other half is for releases and counted in integer units: no more than all of them
are spent in any `steps` consecutive steps, whatever is decided.
Source: Kellaris et al. 2014.
Departs: the distance is an integer, the first step is always released, columns are not grouped.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.mechanisms.snapshot.policy import Series, Snapshot, bounded
from tailrace.noise import Draws, check_drawable
from tailrace.privacy.budget import Drawn, part
from tailrace.privacy.loss import ZCDP, PureDP

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Dissimilarity:
    """The noisy distance of one step."""

    series: Series
    name: str

    @property
    def loss(self) -> Drawn:
        """Of the distances of all steps."""
        return part(self.series.privacy, HALF)

    @property
    def scale(self) -> Fraction:
        """The Laplace scale, or the Gaussian variance."""
        each = part(self.loss, Fraction(1, bounded(self.series, self.name)))
        records = self.series.records
        return records / each.epsilon if isinstance(each, PureDP) else records**2 / (2 * each.rho)

    def check(self) -> None:
        check_drawable(self.scale, gaussian=not isinstance(self.loss, PureDP))

    def proved(self) -> Drawn:
        steps, records = bounded(self.series, self.name), self.series.records
        if isinstance(self.loss, PureDP):
            return PureDP(epsilon=steps * records / self.scale)
        return ZCDP(rho=steps * records**2 / (2 * self.scale))

    def noise(self, noise: Draws) -> np.ndarray:
        """The noise of this step's distance."""
        at = noise.at("distance")
        return (
            at.laplace(self.scale, ())
            if isinstance(self.loss, PureDP)
            else at.gaussian(self.scale, ())
        )

    def exceeds(self, snapshot: Snapshot, units: int, drawn: np.ndarray) -> bool:
        """Whether the snapshot is further from the last release than a release of so many units
        would be from the snapshot.
        """
        return units > 0 and bool(
            snapshot.distance() + drawn > self.series.bins * snapshot.error(units)
        )
