"""Releases at steps fixed beforehand.

Privacy: at most `releases` releases of an even part of the budget in any `steps` consecutive steps;
nothing is looked at to decide.
Accuracy: noise as for so few releases; in between, a release grows old.
Source: section 3.4 of Li et al. 2015.
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
    checked_releases,
    cutoff,
    due,
    released,
)
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn, part


@told
@dataclass(frozen=True, kw_only=True)
class FixedSampling:
    """`releases` releases over the series (or in any window of it), evenly spaced; None: a
    hundredth of the steps, at least 5.
    """

    releases: int | None = None

    def __post_init__(self) -> None:
        checked_releases(self.releases)

    @property
    def tracks(self) -> bool:
        return False

    def split(self, series: Series) -> Split:
        releases = cutoff(series, self.releases, "FixedSampling")
        due(series, 1, releases, "FixedSampling")  # refuses a series without an end
        return Split(part(series.privacy, Fraction(1, releases)), releases)

    def proved(self, series: Series) -> Drawn | None:  # noqa: ARG002
        return None

    def begin(self, series: Series) -> Pace:
        return beginning(series)

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:  # noqa: ARG002
        releases = cutoff(series, self.releases, "FixedSampling")
        if not due(series, int(pace.step), releases, "FixedSampling"):
            return Decision(0, pace, hidden)
        return Decision(1, released(pace, 1), hidden)
