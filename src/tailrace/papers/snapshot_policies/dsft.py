"""DSFT: a release where the snapshot differs from the last release by more than a fixed threshold.

Privacy: `sampling.py` and `comparing.py`.
Accuracy: noise as for `releases` releases; in between the distance to the snapshot stays near the
threshold.
Source: Algorithm 1 of Li et al. 2015.
Departs: scales and their division as in `comparing.py`; distances are integers, relative to a
public number of people; the share of the decisions is made of public numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

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
)
from tailrace.noise import Draws
from tailrace.papers.snapshot_policies.sampling import Sampling, checked_share, checked_threshold
from tailrace.privacy.budget import Drawn
from tailrace.privacy.loss import Number


@told
@dataclass(frozen=True, kw_only=True)
class DSFT:
    """Distance-based sampling with a fixed threshold: at most `releases` releases; `threshold` is a
    share of all people, from 0 to 2.

    `share` of the budget goes to decisions; None: theorem 5.4 of the paper, from public numbers.
    """

    threshold: float
    releases: int | None = None
    share: Number | None = None

    def __post_init__(self) -> None:
        checked_releases(self.releases)
        object.__setattr__(self, "threshold", checked_threshold(self.threshold))
        object.__setattr__(self, "share", checked_share(self.share))

    @property
    def tracks(self) -> bool:
        return False

    def _sampling(self, series: Series) -> Sampling:
        return Sampling(series, cutoff(series, self.releases, "DSFT"), checked_share(self.share))

    def split(self, series: Series) -> Split:
        return self._sampling(series).split()

    def proved(self, series: Series) -> Drawn | None:
        return self._sampling(series).proved()

    def begin(self, series: Series) -> Pace:
        return beginning(series, threshold=self.threshold)

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:
        sampling = self._sampling(series)
        if int(pace.step) == 1:
            return sampling.first(pace, hidden, noise)
        return sampling.decide(pace, hidden, snapshot, noise)
