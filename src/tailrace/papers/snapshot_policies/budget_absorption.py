"""Budget absorption: a release takes the even parts of the steps skipped before it, and later steps
pay for it.

Privacy: `dissimilarity.py`.
Accuracy: releases after long quiet are good.
Source: BA of Kellaris et al. 2014. Departs: the units of a window are counted, so that a release
never takes more than are left, whatever was absorbed.
Departs: nothing but exact integer noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tailrace.calls import told
from tailrace.mechanisms.snapshot.policy import (
    Decision,
    Hidden,
    Pace,
    Series,
    Snapshot,
    Split,
    beginning,
    bounded,
    released,
)
from tailrace.noise import Draws
from tailrace.papers.snapshot_policies.dissimilarity import HALF, Dissimilarity
from tailrace.privacy.budget import Drawn, part


@told
@dataclass(frozen=True, kw_only=True)
class BudgetAbsorption:
    """A release where the noisy distance exceeds the error of one made with the parts of all steps
    skipped since the last.
    """

    @property
    def tracks(self) -> bool:
        return False

    def split(self, series: Series) -> Split:
        looks, steps = (
            Dissimilarity(series, "BudgetAbsorption"),
            bounded(series, "BudgetAbsorption"),
        )
        looks.check()
        return Split(part(series.privacy, HALF * Fraction(1, steps)), steps, looks.loss)

    def proved(self, series: Series) -> Drawn | None:
        return Dissimilarity(series, "BudgetAbsorption").proved()

    def begin(self, series: Series) -> Pace:
        return beginning(series)

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:
        steps, looks = (
            bounded(series, "BudgetAbsorption"),
            Dissimilarity(series, "BudgetAbsorption"),
        )
        nullified = max(0, int(pace.paid) - 1)  # steps that pay for the last release
        absorbed = int(pace.step) - int(pace.last) - nullified
        units = min(absorbed, steps, steps - int(pace.spent.sum()))
        drawn = looks.noise(noise)  # at every step, compared or not
        if int(pace.step) == 1 or (absorbed > 0 and looks.exceeds(snapshot, units, drawn)):
            return Decision(units, released(pace, units), hidden)
        return Decision(0, pace, hidden)
