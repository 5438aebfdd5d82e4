"""Planted faults: any part, with noise that is too small.

An audit that cannot find a planted fault has no power, so every verdict says which it would find.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.noise import Draws, Shape
from tailrace.noise.words import Part
from tailrace.privacy.loss import Number


class Weaker:
    """Noise at `rest` times its size: every loss grows by 1 / rest."""

    def __init__(self, noise: Draws, rest: Fraction) -> None:
        self._noise, self._rest = noise, rest

    def at(self, *path: Part) -> Weaker:
        return Weaker(self._noise.at(*path), self._rest)

    def laplace(self, scale: Number, shape: Shape) -> np.ndarray:
        return self._noise.laplace(Fraction(scale) * self._rest, shape)

    def gaussian(self, variance: Number, shape: Shape) -> np.ndarray:
        return self._noise.gaussian(Fraction(variance) * self._rest**2, shape)

    def survive(self, n: np.ndarray, rate: Number) -> np.ndarray:
        return self._noise.survive(n, Fraction(rate) / self._rest)

    def coin(self, excess: np.ndarray, scale: Number) -> np.ndarray:
        return self._noise.coin(excess, Fraction(scale) * self._rest)

    def choose(self, scores: np.ndarray, rate: Number) -> int:
        return self._noise.choose(scores, Fraction(rate) / self._rest)


class Planted:
    """A mechanism or counter whose noise is too small by a fault.

    >>> from tailrace import PureDP, counters
    >>> broken = Planted(counters.Simple(privacy=PureDP(epsilon=1), horizon=1), Fraction(1, 5))
    >>> print(broken.loss())  # it claims what it claimed before
    epsilon = 1
    """

    def __init__(self, part: Any, fault: Fraction) -> None:
        self._part, self._rest = part, 1 - fault

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if name not in ("measure", "step"):
            return found
        # of a mechanism and of a counter: (state, counts or inputs, noise, ...)
        return lambda state, given, noise, *more: found(
            state, given, Weaker(noise, self._rest), *more
        )
