"""Budget distribution: a release takes half of what is left in the window.

Privacy: `dissimilarity.py`.
Accuracy: the first releases of a window are good, later ones exponentially worse. Source: BD of
Kellaris et al. 2014.
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
    released,
)
from tailrace.noise import Draws
from tailrace.papers.snapshot_policies.dissimilarity import HALF, Dissimilarity
from tailrace.privacy.budget import Drawn, part

_UNITS = 1 << 12  # so that a budget can be halved twelve times


@told
@dataclass(frozen=True, kw_only=True)
class BudgetDistribution:
    """A release where the noisy distance exceeds the error of one made with half of the budget that
    is left.
    """

    @property
    def tracks(self) -> bool:
        return False

    def split(self, series: Series) -> Split:
        looks = Dissimilarity(series, "BudgetDistribution")
        looks.check()
        return Split(part(series.privacy, HALF * Fraction(1, _UNITS)), _UNITS, looks.loss)

    def proved(self, series: Series) -> Drawn | None:
        return Dissimilarity(series, "BudgetDistribution").proved()

    def begin(self, series: Series) -> Pace:
        return beginning(series)

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:
        units = (_UNITS - int(pace.spent.sum())) // 2
        looks = Dissimilarity(series, "BudgetDistribution")
        drawn = looks.noise(noise)  # at every step, compared or not
        if int(pace.step) == 1 or looks.exceeds(snapshot, units, drawn):
            return Decision(units, released(pace, units), hidden)
        return Decision(0, pace, hidden)
