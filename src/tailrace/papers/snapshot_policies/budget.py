"""Budget distribution and absorption: measure what changed, pay later.

Both look at a noisy distance at every step and release where it exceeds the error of a release.

Privacy:
1. A person moves the distance of a step by at most `records`. Half of the budget is for distances,
   an even part of it for each step: Laplace noise of scale records / part, or Gaussian noise of
   variance records^2 / (2 part).
2. The other half is for releases, counted in integer units. Any `steps` consecutive steps spend at
   most all of them, whatever is decided.
3. Each draw uses the past only, so the losses add up (adaptive composition).

Accuracy: distribution spends half of the rest on each release, so the first releases of a window
are good and later ones exponentially worse. Absorption makes a good release after steps that
released nothing. The noise of the release that stands is part of the distance, so with many bins
hardly a step releases nothing, and little is absorbed.
Source: BD and BA of Kellaris et al. 2014.
Departs: the distance is an integer, the first step is always released; absorption counts the units
of a window, so that no release takes more than are left. Columns are not grouped: with a ledger for
each group, a person who moves among groups meets the releases of all, and loses more than one
ledger's budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.calls import told
from tailrace.mechanisms.snapshot.policy import (
    Decision,
    Hidden,
    Pace,
    Policy,
    Series,
    Snapshot,
    Split,
    bounded,
    decided,
)
from tailrace.noise import Draws, check_drawable
from tailrace.privacy.budget import Drawn, part
from tailrace.privacy.loss import ZCDP, PureDP

_HALF = Fraction(1, 2)
# A power of two: the budget of a window can be halved twelve times.
_UNITS = 1 << 12


@dataclass(frozen=True)
class Dissimilarity:
    """The noisy distance of one step."""

    series: Series
    name: str

    @property
    def loss(self) -> Drawn:
        """The loss of the distances of all steps."""
        return part(self.series.privacy, _HALF)

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
        """Draw the noise of this step's distance."""
        at = noise.at("distance")
        draw = at.laplace if isinstance(self.loss, PureDP) else at.gaussian
        return draw(self.scale, ())

    def exceeds(self, snapshot: Snapshot, units: int, drawn: np.ndarray) -> bool:
        """Whether the noisy distance exceeds a release's error."""
        return units > 0 and bool(
            snapshot.distance("l1") + drawn > self.series.bins * snapshot.error(units)
        )


@told
@dataclass(frozen=True, kw_only=True)
class BudgetDistribution(Policy):
    """Spend half of the window's remaining budget on each release."""

    def split(self, series: Series) -> Split:
        looks = Dissimilarity(series, "BudgetDistribution")
        looks.check()
        return Split(part(series.privacy, _HALF * Fraction(1, _UNITS)), _UNITS, looks.loss)

    def proved(self, series: Series) -> Drawn | None:
        return Dissimilarity(series, "BudgetDistribution").proved()

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:
        units = (_UNITS - int(pace.spent.sum())) // 2
        looks = Dissimilarity(series, "BudgetDistribution")
        # Drawn at every step, compared or not: the time of a step tells nothing.
        drawn = looks.noise(noise)
        goes = int(pace.step) == 1 or looks.exceeds(snapshot, units, drawn)
        return decided(units if goes else 0, pace, hidden)


@told
@dataclass(frozen=True, kw_only=True)
class BudgetAbsorption(Policy):
    """Spend the budgets of all steps skipped before a release.

    The steps that follow a release pay for it.
    """

    def split(self, series: Series) -> Split:
        looks, steps = _absorbing(series)
        looks.check()
        return Split(part(series.privacy, _HALF * Fraction(1, steps)), steps, looks.loss)

    def proved(self, series: Series) -> Drawn | None:
        return _absorbing(series)[0].proved()

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:
        looks, steps = _absorbing(series)
        # Steps that pay for the last release.
        nullified = max(0, int(pace.paid) - 1)
        absorbed = int(pace.step) - int(pace.last) - nullified
        units = min(absorbed, steps, steps - int(pace.spent.sum()))
        # Drawn at every step, compared or not: the time of a step tells nothing.
        drawn = looks.noise(noise)
        worth = absorbed > 0 and looks.exceeds(snapshot, units, drawn)
        return decided(units if worth or int(pace.step) == 1 else 0, pace, hidden)


def _absorbing(series: Series) -> tuple[Dissimilarity, int]:
    name = "BudgetAbsorption"
    return Dissimilarity(series, name), bounded(series, name)
