"""Comparisons of a private distance with a threshold: one person may move every distance by
`records`.

Privacy: the threshold gets noise nu of scale b_T, each distance noise of scale b_q; a comparison is
positive where distance + noise >= threshold + nu, all integers. Let `positives` c comparisons be
positive before nu is drawn again. Raise nu by m = `records`: negative comparisons stay negative
whatever the person does; each positive one stays positive when its own noise is raised by 2 m. So
every sequence of answers is at most e^(m / b_T + 2 c m / b_q) times likelier with the person than
without: pure, and true for distances that depend on answers and releases before. The public part of
the threshold may move and be clamped at will, nu is never clamped and never shown.
* Finite, pure: one nu, c = C - 1 positives after the first release, then no more comparisons.
* Sliding: nu is drawn again after each positive (c = 1). Comparisons are made only while fewer than
  C releases lie in the window, so w consecutive steps meet at most C epochs of one nu that end in
  them and one that does not: C + 1 of them.
* zCDP: nu is drawn again after each positive. An epoch is pure epsilon e, so e^2 / 2; epochs and
  releases follow each other, never at the same time, so they compose one after the other.

An epoch's epsilon is divided between b_T and b_q as 1 : (2 c)^(2/3) (Lyu, Su, Li 2017).
Source: Theorem 4.1 of Li et al. 2015.
Departs: that theorem's scales, 2 m / epsilon for the threshold and 2 C m / epsilon for the
distance, lose up to 1.5 epsilon, and its distances are divided by the private number of people
(docs/explanation/corrections.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tailrace.mechanisms.snapshot.policy import Series
from tailrace.noise import Draws, check_drawable
from tailrace.privacy.budget import Drawn, part
from tailrace.privacy.loss import ZCDP, PureDP


@dataclass(frozen=True)
class Comparing:
    """Scales of the comparisons, made for `loss` in all, with as many `epochs` of one threshold
    noise each.
    """

    loss: Drawn
    records: int
    positives: int  # in an epoch
    epochs: int  # in the steps that are protected

    @property
    def _each(self) -> Fraction:
        """The pure epsilon of an epoch."""
        if isinstance(self.loss, PureDP):
            return self.loss.epsilon / self.epochs
        return ZCDP(rho=self.loss.rho / self.epochs).pure_within().epsilon

    @property
    def _shares(self) -> tuple[Fraction, Fraction]:
        threshold = Fraction(max(1, round(1000 / (1 + (2 * self.positives) ** (2 / 3)))), 1000)
        return threshold, 1 - threshold

    @property
    def threshold_scale(self) -> Fraction:
        return self.records / (self._each * self._shares[0])

    @property
    def distance_scale(self) -> Fraction:
        return 2 * self.positives * self.records / (self._each * self._shares[1])

    def check(self) -> None:
        for scale in (self.threshold_scale, self.distance_scale):
            check_drawable(scale)

    def proved(self) -> Drawn:
        """The loss that the two scales prove."""
        epoch = (
            self.records / self.threshold_scale
            + 2 * self.positives * self.records / self.distance_scale
        )
        if isinstance(self.loss, PureDP):
            return PureDP(epsilon=self.epochs * epoch)
        return ZCDP(rho=self.epochs * epoch**2 / 2)

    def fresh_threshold(self, noise: Draws) -> np.ndarray:
        return noise.at("threshold").laplace(self.threshold_scale, ())

    def distance_noise(self, noise: Draws) -> np.ndarray:
        return noise.at("distance").laplace(self.distance_scale, ())

    def positive(
        self, distance: int, wanted: int, *, drawn: np.ndarray, threshold: np.ndarray
    ) -> bool:
        """Whether distance + noise >= wanted + threshold noise; only the two noises together meet
        the distance.
        """
        return bool(drawn - threshold >= wanted - distance)


def comparing(series: Series, releases: int, share: Fraction) -> Comparing:
    """For `releases` releases, of which the first is no comparison's doing, with a share of the
    budget.
    """
    loss = part(series.privacy, share)
    if series.sliding:
        return Comparing(loss, series.records, 1, releases + 1)
    if isinstance(loss, PureDP):
        return Comparing(loss, series.records, releases - 1, 1)
    return Comparing(loss, series.records, 1, releases - 1)


def public_share(series: Series, releases: int) -> Fraction:
    """Theorem 5.4's division between decisions and releases, from public numbers alone.

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
