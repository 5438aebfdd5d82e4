"""Distance-based sampling: a release where the snapshot is far from the last one. What DSFT and
DSAT share.

Privacy: the first release, then one for each positive comparison (`comparing.py`), C in all (in any
window, where it slides), counted in integers; each gets 1 / C of what is left after the decisions.
At the horizon what is left of a finite series' budget is spent on its last snapshot: that step and
that number are public. With C = 1 and no window there is the first release, and nothing is
compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tailrace.errors import ConfigError
from tailrace.mechanisms.snapshot.policy import (
    Decision,
    Hidden,
    Pace,
    Series,
    Snapshot,
    Split,
    released,
)
from tailrace.noise import Draws
from tailrace.papers.snapshot_policies.comparing import Comparing, comparing, public_share
from tailrace.privacy.budget import Drawn, part
from tailrace.privacy.loss import exact


@dataclass(frozen=True)
class Sampling:
    """C releases, and the share of the budget that decides when they happen (None: theorem 5.4,
    from public numbers).
    """

    series: Series
    releases: int
    share: Fraction | None

    @property
    def _share(self) -> Fraction:
        return public_share(self.series, self.releases) if self.share is None else self.share

    @property
    def _comparing(self) -> Comparing | None:
        return (
            None
            if self.releases == 1 and not self.series.sliding
            else comparing(self.series, self.releases, self._share)
        )

    def split(self) -> Split:
        if self._comparing is None:
            return Split(self.series.privacy, 1)
        self._comparing.check()
        unit = part(self.series.privacy, (1 - self._share) / self.releases)
        return Split(unit, self.releases, self._comparing.loss)

    def proved(self) -> Drawn | None:
        return None if self._comparing is None else self._comparing.proved()

    def first(self, pace: Pace, hidden: Hidden, noise: Draws) -> Decision:
        """The first step is always released."""
        if self._comparing is not None:
            hidden = Hidden(self._comparing.fresh_threshold(noise))
        return Decision(1, released(pace, 1), hidden)

    def decide(
        self, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws, *, burn_in: int = 0
    ) -> Decision:
        """Any later step, by the public threshold in `pace`; the first `burn_in` steps are not
        compared.
        """
        made, scales = int(pace.releases.sum()), self._comparing
        if scales is None:
            return Decision(0, pace, hidden)
        drawn = scales.distance_noise(
            noise
        )  # at every step, compared or not: which steps take long says nothing
        if made >= self.releases:
            return Decision(0, pace, hidden)
        if not self.series.sliding and int(pace.step) == self.series.steps:
            rest = self.releases - int(pace.spent.sum())
            return Decision(rest, released(pace, rest), hidden)
        wanted = math.ceil(float(pace.threshold) * snapshot.population)
        if int(pace.step) <= burn_in or not scales.positive(
            snapshot.distance(), wanted, drawn=drawn, threshold=hidden.threshold
        ):
            return Decision(0, pace, hidden)
        if scales.positives == 1 and scales.epochs > 1:
            hidden = replace(hidden, threshold=scales.fresh_threshold(noise))
        return Decision(1, released(pace, 1), hidden)


def checked_share(share: Any) -> Fraction | None:
    """A share of the budget, or None."""
    return None if share is None else exact("share", share, below=1)


def checked_threshold(threshold: Any) -> float:
    """A relative distance, from 0 to 2."""
    if (
        isinstance(threshold, bool)
        or not isinstance(threshold, int | float)
        or not 0 <= threshold <= 2
    ):
        raise ConfigError(
            "threshold must be a relative distance from 0 to 2, for example threshold=0.2."
        )
    return float(threshold)
