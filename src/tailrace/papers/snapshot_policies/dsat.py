"""DSAT: the same with a threshold that a controller moves, so that the releases last to the end.

Privacy: `sampling.py` and `comparing.py`. The controller sees the step and how many releases there
were, both public; it clamps the public part of the threshold only.
Accuracy: as DSFT with a threshold that it finds itself.
Source: Algorithms 2 and 3 of Li et al. 2015, with all three terms of its PID controller.
Departs: what is said of DSFT; the noise on the threshold is never clamped (clamped noise is public
noise); with a window, releases are counted in integers over the last w - 1 steps, and the rate is
releases / min(step, w). The feedback error is relative to the wanted rate, |rate / wanted - 1|, and
counts beyond the tolerance only: an error of 5 % of all steps, as printed, is never met where a
hundredth of the steps is released.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError
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
)
from tailrace.noise import Draws
from tailrace.papers.snapshot_policies.sampling import Sampling, checked_share, checked_threshold
from tailrace.privacy.budget import Drawn
from tailrace.privacy.loss import Number, whole

_REMEMBERED = 5  # errors that the integral term adds up


@told
@dataclass(frozen=True, kw_only=True)
class DSAT:
    """Distance-based sampling with an adaptive threshold: at most `releases` releases, meant to be
    spread over all steps.

    `gains` are those of the proportional, integral and derivative terms; `threshold` is where it
    starts; `burn_in` steps are not compared.
    """

    releases: int | None = None
    gains: tuple[float, float, float] = (0.5, 0.0, 0.0)
    burn_in: int = 5
    threshold: float = 1.0
    tolerance: float = 0.05
    share: Number | None = None

    def __post_init__(self) -> None:
        checked_releases(self.releases)
        whole("burn_in", self.burn_in, least=0)
        numbers = [*self.gains, self.tolerance]
        if (
            len(numbers) != 4
            or not all(isinstance(x, int | float) and 0 <= x < 1e6 for x in numbers)
            or self.tolerance <= 0
        ):
            raise ConfigError(
                "gains of DSAT are three numbers of at least 0, and its tolerance is one above 0."
            )
        object.__setattr__(self, "gains", tuple(map(float, self.gains)))
        object.__setattr__(self, "threshold", checked_threshold(self.threshold))
        object.__setattr__(self, "share", checked_share(self.share))

    @property
    def tracks(self) -> bool:
        return False

    def _sampling(self, series: Series) -> Sampling:
        bounded(series, "DSAT")
        return Sampling(series, cutoff(series, self.releases, "DSAT"), checked_share(self.share))

    def split(self, series: Series) -> Split:
        return self._sampling(series).split()

    def proved(self, series: Series) -> Drawn | None:
        return self._sampling(series).proved()

    def begin(self, series: Series) -> Pace:
        return beginning(series, threshold=self.threshold, remembered=_REMEMBERED)

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:
        sampling = self._sampling(series)
        if int(pace.step) == 1:
            return sampling.first(pace, hidden, noise)
        if int(pace.step) > self.burn_in and int(pace.releases.sum()) < sampling.releases:
            pace = self.controlled(series, pace, sampling.releases)
        made = sampling.decide(pace, hidden, snapshot, noise, burn_in=self.burn_in)
        if not made.units:
            return made
        errors = made.pace.errors.copy()
        errors[0] = errors[-1]  # the error at the latest release, for the derivative
        return replace(made, pace=replace(made.pace, errors=errors))

    def controlled(self, series: Series, pace: Pace, releases: int) -> Pace:
        """The threshold after one turn of the controller: up where there were too many releases so
        far, down where too few.
        """
        steps, step = bounded(series, "DSAT"), int(pace.step)
        ahead = int(pace.releases.sum()) / min(step, steps) * steps / releases - 1
        error = max(0.0, abs(ahead) - self.tolerance) / self.tolerance
        errors = np.concatenate([pace.errors[:1], pace.errors[2:], [error]])
        proportional, integral, derivative = self.gains
        move = (
            proportional * error
            + integral * errors[1:].sum()
            + derivative * (error - errors[0]) / max(1, step - int(pace.last))
        )
        threshold = float(np.clip(float(pace.threshold) + (move if ahead > 0 else -move), 0.0, 2.0))
        return replace(pace, threshold=np.asarray(threshold), errors=errors)
