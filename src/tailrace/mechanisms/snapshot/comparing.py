"""Comparisons with a private threshold: the sparse vector technique.

Privacy (m = `records`, c = `positives`):
1. One person moves every distance by at most m. The threshold gets noise nu of scale b_T, each
   distance noise of scale b_q; a comparison is positive where distance + noise >= threshold + nu,
   all integers. At most c comparisons are positive before nu is drawn again: an *epoch*.
2. Fix all answers and releases. Raise nu by m: negative comparisons stay negative whatever the
   person does. Raise the noise of each positive one by 2 m: it stays positive.
3. So an epoch's answers are at most e^(m / b_T + 2 c m / b_q) times likelier with the person than
   without: pure, also for distances and thresholds that depend on earlier answers and releases, and
   however many comparisons are negative.

Accuracy: an epoch's epsilon is divided between b_T and b_q as 1 : (2 c)^(2/3).
Source: Dwork, Roth 2014 (AboveThreshold); Lyu, Su, Li 2017 (scales and their ratio).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.noise import Draws, check_drawable
from tailrace.privacy.budget import Drawn
from tailrace.privacy.loss import ZCDP, PureDP


@dataclass(frozen=True)
class Comparing:
    """The noise of comparisons with a private threshold."""

    loss: Drawn  # of all comparisons
    records: int
    positives: int  # in an epoch
    epochs: int  # in the steps that are protected

    @property
    def each(self) -> Fraction:
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
        return self.records / (self.each * self._shares[0])

    @property
    def distance_scale(self) -> Fraction:
        return 2 * self.positives * self.records / (self.each * self._shares[1])

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
        """Whether distance + noise >= wanted + threshold noise.

        The two noises meet the distance together.
        """
        return bool(drawn - threshold >= wanted - distance)
