"""Releases at steps fixed beforehand, each combined with all before it: the default.

Privacy: as `FixedSampling`: units of an even part of the budget, at steps of a public schedule, at
most `units` of them in any `steps` consecutive steps; nothing is looked at to decide, and the
combination (`tracking_fold.py`) is a function of released numbers.
Accuracy: a release moves the estimate only as far as it is likely to be right, so that noise is
averaged out where the data stand still and changes are followed where they are large. The first
release gets `first` of the budget where nothing slides: under pure DP the information in a release
grows with the square of its budget, and all later ones are measured against the first.
Source: none of the papers; Kalman 1960 and James-Stein 1961 for the idea. benchmarks/snapshots.py
measures it beside DSAT.
Departs: from DSAT, in that nothing is spent on decisions.
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
    checked_releases,
    cutoff,
    due,
    released,
)
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn, part
from tailrace.privacy.loss import Number, PureDP, exact


@told
@dataclass(frozen=True, kw_only=True)
class Tracking:
    """`releases` releases over the series (or in any window of it), evenly spaced, combined by
    their variances.

    `releases=None`: a hundredth of the steps, at least 5, and three times as many under zCDP, where
    noise grows with their root only. `first` is the first one's share of the budget.
    """

    releases: int | None = None
    first: Number = "2/5"

    def __post_init__(self) -> None:
        checked_releases(self.releases)
        object.__setattr__(self, "first", exact("first", self.first, below=1))

    @property
    def tracks(self) -> bool:
        return True

    def split(self, series: Series) -> Split:
        releases = self._releases(series)
        due(series, 1, releases, "Tracking")  # refuses a series without an end
        units = releases if series.sliding else releases - 1 + self._opening(series)
        return Split(part(series.privacy, Fraction(1, units)), units)

    def proved(self, series: Series) -> Drawn | None:  # noqa: ARG002
        return None

    def begin(self, series: Series) -> Pace:
        return beginning(series)

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:  # noqa: ARG002
        releases = self._releases(series)
        if not due(series, int(pace.step), releases, "Tracking"):
            return Decision(0, pace, hidden)
        units = self._opening(series) if int(pace.step) == 1 and not series.sliding else 1
        return Decision(units, released(pace, units), hidden)

    def _releases(self, series: Series) -> int:
        usual = cutoff(series, self.releases, "Tracking")
        if self.releases is not None or isinstance(series.privacy, PureDP):
            return usual
        return min(3 * usual, bounded(series, "Tracking"))

    def _opening(self, series: Series) -> int:
        """The units of the first release: about `first` of all, at least one."""
        assert isinstance(self.first, Fraction)
        others = self._releases(series) - 1
        return max(1, round(others * self.first / (1 - self.first)))
