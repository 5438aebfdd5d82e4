"""Sampling: release at fixed steps, or after changes.

EveryStep and FixedSampling follow a public schedule. DSFT and DSAT compare the snapshot's distance
from the last release with a threshold, which DSAT's controller moves so that the releases last to
the end.

Privacy of a schedule: releases of an even part of the budget, at most `releases` in any `steps`
consecutive steps; nothing is looked at to decide.
Privacy of comparisons (m = `records`, c = `positives`):
1. An epoch of comparisons, of which at most c are positive, is pure; its proof and its scales stand
   in `mechanisms/snapshot/comparing.py`.
2. Finite, pure: one epoch of c = C - 1 positives after the first release, then no comparisons.
   Sliding: c = 1. Comparisons are made only while fewer than C releases lie in the window, so w
   consecutive steps meet at most C epochs that end in them and one that does not: C + 1.
   zCDP: c = 1. A pure epsilon is epsilon^2 / 2 zCDP; epochs and releases follow each other, never
   at the same time, so they compose one after the other.
3. Releases: the first, then one for each positive comparison, C in all (in any window), counted in
   integers; each gets 1 / C of the budget that decisions leave. The last step of a finite series
   spends the rest: that step and that number are public. With C = 1 and no window, nothing is
   compared.
4. The public part of the threshold may move and be clamped at will, by the public step and number
   of releases; nu is never clamped and never shown.

Accuracy: releases have the noise of C releases; in between, the last one grows old (a schedule) or
its distance to the snapshot stays near the threshold. EveryStep's noise grows with the number of
steps (pure), or with its square root (zCDP).
Source: Li, Xiong, Jiang, Liu 2015: section 3.4 (schedules), Algorithm 1 and Theorem 4.1 (DSFT),
Algorithms 2 and 3 (DSAT, with all three terms of its PID controller).
Departs (docs/explanation/corrections.md): Theorem 4.1's scales, 2 m / epsilon for the threshold and
2 C m / epsilon for the distance, lose up to 1.5 epsilon. Distances there are divided by the private
number of people; here they are integers, relative to a public one, and the share of decisions is
made of public numbers. The noise on the threshold is not clamped, since clamped noise is public.
With a window, releases are counted in integers over the last w - 1 steps, and the rate is
releases / min(step, w). The feedback error is relative to the target rate, |rate / target - 1|, and
counts beyond the tolerance only: the printed error, 5 % of all steps, is never reached where a
hundredth of the steps is released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import get_args

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.mechanisms.snapshot.comparing import Comparing
from tailrace.mechanisms.snapshot.policy import (
    Decision,
    Distance,
    Hidden,
    Pace,
    Policy,
    Scheduled,
    Series,
    Snapshot,
    Split,
    beginning,
    bounded,
    checked_releases,
    cutoff,
    decided,
    due,
)
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn, part
from tailrace.privacy.loss import ZCDP, Number, PureDP, exact, whole

# Errors that the integral term adds up: chosen while building, no committed result.
_REMEMBERED = 5


@told
@dataclass(frozen=True, kw_only=True)
class EveryStep(Scheduled):
    """Release every step: the baseline."""

    def split(self, series: Series) -> Split:
        steps = bounded(series, "EveryStep")
        return Split(part(series.privacy, Fraction(1, steps)), steps)

    def units(self, series: Series, step: int) -> int:
        del series, step
        return 1


@told
@dataclass(frozen=True, kw_only=True)
class FixedSampling(Scheduled):
    """Release at evenly spaced steps.

    Parameters
    releases: in the series, or in any window; None: a hundredth of the steps, at least 5.
    """

    releases: int | None = None

    def __post_init__(self) -> None:
        checked_releases(self.releases)

    def split(self, series: Series) -> Split:
        releases = cutoff(series, self.releases, "FixedSampling")
        # Refuses a series without an end.
        due(series, 1, releases, "FixedSampling")
        return Split(part(series.privacy, Fraction(1, releases)), releases)

    def units(self, series: Series, step: int) -> int:
        releases = cutoff(series, self.releases, "FixedSampling")
        return int(due(series, step, releases, "FixedSampling"))


def comparing(series: Series, releases: int, share: Fraction) -> Comparing:
    """The comparisons that decide all releases but the first."""
    loss = part(series.privacy, share)
    if series.sliding:
        return Comparing(loss, series.records, 1, releases + 1)
    if isinstance(loss, PureDP):
        return Comparing(loss, series.records, releases - 1, 1)
    return Comparing(loss, series.records, 1, releases - 1)


def public_share(series: Series, releases: int) -> Fraction:
    """Theorem 5.4's share of decisions, from public numbers alone.

    The variance of a distance is A / epsilon_1^2 by the noise of the comparison, and U C^2 /
    epsilon_2^2 by that of U bins of C releases; with epsilon_1 = k / (1 + k) of the budget the sum
    is least at k = (A / (U C^2))^(1/3). Records cancel, and so does the number of people, which the
    published k takes from the data. Under zCDP the two are A' / rho_1 and B' / rho_2, least at
    rho_1 : rho_2 as the roots of A' and B' (the absolute value of a Gaussian variable has 1 - 2 /
    pi of its variance). A release never gets less than the baseline's.
    """
    one = PureDP(epsilon=1) if isinstance(series.privacy, PureDP) else ZCDP(rho=1)
    scales = comparing(replace(series, privacy=one, records=1), releases, Fraction(1))
    spread = 2 * float(scales.threshold_scale) ** 2 + 2 * float(scales.distance_scale) ** 2
    if isinstance(one, PureDP):
        k = (spread / (series.bins * releases**2)) ** (1 / 3)
    else:
        k = math.sqrt(spread / (series.bins * releases / 2 * (1 - 2 / math.pi)))
    most = 1.0 if series.steps is None else 1 - releases / series.steps
    return Fraction(min(max(1, round(1000 * min(k / (1 + k), most))), 999), 1000)


@dataclass(frozen=True)
class Sampling:
    """Releases decided by comparisons."""

    series: Series
    releases: int
    share: Fraction | None  # of the budget, for decisions; None: Theorem 5.4's

    @property
    def _share(self) -> Fraction:
        return public_share(self.series, self.releases) if self.share is None else self.share

    @property
    def _comparing(self) -> Comparing | None:
        if self.releases == 1 and not self.series.sliding:
            return None
        return comparing(self.series, self.releases, self._share)

    def split(self) -> Split:
        if self._comparing is None:
            return Split(self.series.privacy, 1)
        self._comparing.check()
        unit = part(self.series.privacy, (1 - self._share) / self.releases)
        return Split(unit, self.releases, self._comparing.loss)

    def proved(self) -> Drawn | None:
        return None if self._comparing is None else self._comparing.proved()

    def first(self, pace: Pace, hidden: Hidden, noise: Draws) -> Decision:
        """Release the first step."""
        if self._comparing is not None:
            hidden = Hidden(self._comparing.fresh_threshold(noise))
        return decided(1, pace, hidden)

    def decide(
        self,
        pace: Pace,
        hidden: Hidden,
        snapshot: Snapshot,
        noise: Draws,
        *,
        distance: Distance,
        burn_in: int = 0,
    ) -> Decision:
        """Decide about a later step by the public threshold.

        The first `burn_in` steps are not compared.
        """
        made, scales = int(pace.releases.sum()), self._comparing
        if scales is None:
            return Decision(0, pace, hidden)
        # Drawn at every step, compared or not: the time of a step tells nothing.
        drawn = scales.distance_noise(noise)
        if made >= self.releases:
            return Decision(0, pace, hidden)
        if not self.series.sliding and int(pace.step) == self.series.steps:
            rest = self.releases - int(pace.spent.sum())
            return decided(rest, pace, hidden)
        wanted = math.ceil(float(pace.threshold) * snapshot.population)
        if int(pace.step) <= burn_in or not scales.positive(
            snapshot.distance(distance), wanted, drawn=drawn, threshold=hidden.threshold
        ):
            return Decision(0, pace, hidden)
        if scales.positives == 1 and scales.epochs > 1:
            hidden = replace(hidden, threshold=scales.fresh_threshold(noise))
        return decided(1, pace, hidden)


class _ByDistance(Policy):
    """The shared part of DSFT and DSAT."""

    threshold: float
    releases: int | None
    share: Number | None
    distance: Distance

    def __post_init__(self) -> None:
        checked_releases(self.releases)
        if self.distance not in get_args(Distance):
            raise ConfigError("distance must be 'l1', 'kl' or 'max'.")
        object.__setattr__(self, "threshold", _checked_threshold(self.threshold))
        object.__setattr__(self, "share", _checked_share(self.share))

    def _sampling(self, series: Series) -> Sampling:
        releases = cutoff(series, self.releases, type(self).__name__)
        return Sampling(series, releases, _checked_share(self.share))

    def split(self, series: Series) -> Split:
        return self._sampling(series).split()

    def proved(self, series: Series) -> Drawn | None:
        return self._sampling(series).proved()


@told
@dataclass(frozen=True, kw_only=True)
class DSFT(_ByDistance):
    """Distance-based sampling with a fixed threshold.

    Parameters
    threshold: the distance that is released, as a share of all people, from 0 to 2.
    releases: the most in the series, or in any window; None: a hundredth of the steps, at least 5.
    share: of the budget, for decisions; None: the paper's Theorem 5.4, from public numbers.
    distance: 'l1', the 1-norm; 'kl', the Kullback-Leibler divergence, its slope cut to one; 'max',
        the largest difference of a bin. One person moves each by at most `records`.
    """

    threshold: float
    releases: int | None = None
    share: Number | None = None
    distance: Distance = "l1"

    def begin(self, series: Series) -> Pace:
        return beginning(series, threshold=self.threshold)

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:
        sampling = self._sampling(series)
        if int(pace.step) == 1:
            return sampling.first(pace, hidden, noise)
        return sampling.decide(pace, hidden, snapshot, noise, distance=self.distance)


@told
@dataclass(frozen=True, kw_only=True)
class DSAT(_ByDistance):
    """Distance-based sampling with an adaptive threshold.

    Parameters
    releases: the most in the series, or in any window; None: a hundredth of the steps, at least 5.
    gains: of the controller's proportional, integral and derivative terms.
    burn_in: first steps that are not compared.
    threshold: where it starts, as a share of all people, from 0 to 2.
    tolerance: the relative error of the rate that the controller leaves alone.
    share: of the budget, for decisions; None: the paper's Theorem 5.4, from public numbers.
    distance: 'l1', the 1-norm; 'kl', the Kullback-Leibler divergence, its slope cut to one; 'max',
        the largest difference of a bin. One person moves each by at most `records`.
    """

    releases: int | None = None
    gains: tuple[float, float, float] = (0.5, 0.0, 0.0)
    burn_in: int = 5
    threshold: float = 1.0
    tolerance: float = 0.05
    share: Number | None = None
    distance: Distance = "l1"

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def _sampling(self, series: Series) -> Sampling:
        bounded(series, "DSAT")
        return super()._sampling(series)

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
        made = sampling.decide(
            pace, hidden, snapshot, noise, distance=self.distance, burn_in=self.burn_in
        )
        if not made.units:
            return made
        errors = made.pace.errors.copy()
        # The error at the latest release, for the derivative.
        errors[0] = errors[-1]
        return replace(made, pace=replace(made.pace, errors=errors))

    def controlled(self, series: Series, pace: Pace, releases: int) -> Pace:
        """Move the threshold: up after too many releases, else down."""
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


def _checked_share(share: Number | None) -> Fraction | None:
    """A share of the budget, or None."""
    return None if share is None else exact("share", share, below=1)


def _checked_threshold(threshold: float) -> float:
    """A relative distance, from 0 to 2."""
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not number or not 0 <= threshold <= 2:
        raise ConfigError(
            "threshold must be a relative distance from 0 to 2, for example threshold=0.2."
        )
    return float(threshold)
