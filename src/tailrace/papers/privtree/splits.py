"""Exact coins that split nodes, and their proved loss.

A node of depth k with the public count G and I insertions in the batch splits with probability
P(b + Lap(lambda) > theta), where b = max(G + I - k delta, theta - delta), delta >= lambda ln(beta),
and beta is the fan-out. Public counts are rounded down and delta up, to multiples of 1 / `grid`.

**Privacy.** If G falls from parent to child (I always does), one insertion changes the
log-probability of any tree by no less than -1 / lambda and no more than kappa / lambda,

    kappa = 2 + sum over j >= 1 of 1 / (2 beta^j - 1)        (2.6067 for 2, 2.1856 for 4).

1. The values y = G + I - k delta of the nodes above the insertion fall by at least delta from level
   to level; other nodes cancel.
2. The derivative of the log-probability of a split is 0 below theta - delta; 1 / lambda up to
   theta, where at most one node lies; and above it 1 / (lambda (2 exp(u) - 1)), u = (y - theta) /
   lambda, where the j-th node has u >= j ln(beta).
3. The leaf's term falls by at most 1 / lambda.
4. So m insertions lose m kappa / lambda, or, since a log-ratio within an interval of length eta is
   eta^2 / 8-zCDP, (m (kappa + 1) / lambda)^2 / 8: insertion by insertion within a step, and over
   steps by composition.
5. The slopes along one path add up to at most kappa / lambda for any amount, so counts need not be
   whole: a mass c that a unit spreads over any paths is added path by path, and moves the
   log-probability by no less than -c / lambda and no more than c kappa / lambda. A unit of mass 1
   loses what one insertion does.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.noise import Draws, check_drawable
from tailrace.privacy.loss import ZCDP, Loss, Number, PureDP, exact, whole

# Parts of a count: by reasoning, far finer than the noise.
GRID = 1024
# Public counts beyond are taken as this much, so that no integer overflows.
_MOST = 2.0**50
# Above ln 2.
_LOG_2 = Fraction(6931471805599454, 10**16)


@told
@dataclass(frozen=True, kw_only=True)
class PrivTree:
    """A tree drawn at every step, within a budget's `share`.

    A node splits, by a coin, where its count less a penalty for its depth exceeds `threshold`;
    `fan_out` is 2, or two to the number of dimensions; no node is deeper than `max_depth` splits
    (None: the finest cells).

    >>> PrivTree(share=0.25)
    PrivTree(share=Fraction(1, 4), threshold=0, fan_out=2, max_depth=None)
    """

    share: Number = Fraction(1, 2)
    threshold: int = 0
    fan_out: int = 2
    max_depth: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", exact("share", self.share, below=1))
        object.__setattr__(self, "threshold", whole("threshold", self.threshold, least=0))
        if self.threshold > 10**12:
            raise ConfigError("threshold must be a count of at most 10**12.")
        if self.fan_out not in (2, 4, 8, 16):
            raise ConfigError(
                "fan_out must be 2, or two to the number of dimensions of the domain."
            )
        if self.max_depth is not None:
            object.__setattr__(self, "max_depth", whole("max_depth", self.max_depth))


@dataclass(frozen=True)
class SplitCoin:
    """The coins of a tree: `inserts` insertions lose `budget`."""

    fan_out: int
    threshold: int
    budget: PureDP | ZCDP
    inserts: int
    grid: int = GRID

    def __post_init__(self) -> None:
        check_drawable(self.scale * self.grid)

    @functools.cached_property
    def scale(self) -> Fraction:
        """lambda, in counts."""
        if isinstance(self.budget, PureDP):
            return self.inserts * kappa(self.fan_out) / self.budget.epsilon
        # Twice epsilon is sqrt(8 rho), rounded down.
        return self.inserts * (kappa(self.fan_out) + 1) / (2 * self.budget.pure_within().epsilon)

    @functools.cached_property
    def penalty(self) -> int:
        """delta, in parts of a count."""
        return math.ceil(self.scale * _LOG_2 * (self.fan_out.bit_length() - 1) * self.grid)

    def loss(self, inserts: int) -> Loss:
        """The loss of a unit of `inserts` insertions."""
        if isinstance(self.budget, PureDP):
            return PureDP(epsilon=inserts * kappa(self.fan_out) / self.scale)
        return ZCDP(rho=(inserts * (kappa(self.fan_out) + 1) / self.scale) ** 2 / 8)

    def draw(
        self, noise: Draws, public: np.ndarray, inserted: np.ndarray, depth: int
    ) -> np.ndarray:
        """Whether each node of a depth splits.

        `public` counts are not negative, and must fall from parent to child.
        """
        known = np.floor(np.minimum(public, _MOST) * self.grid).astype(np.int64)
        return self.draw_parts(noise, known + inserted * self.grid, depth)

    def draw_parts(self, noise: Draws, parts: np.ndarray, depth: int) -> np.ndarray:
        """Draw for parts, which fall from parent to child."""
        theta = self.threshold * self.grid
        return noise.coin(
            np.maximum(parts - depth * self.penalty, theta - self.penalty) - theta,
            self.scale * self.grid,
        )


@functools.cache
def kappa(fan_out: int) -> Fraction:
    """2 + sum over j >= 1 of 1 / (2 fan_out^j - 1), rounded up to 1e-9.

    >>> float(kappa(2)), float(kappa(4))
    (2.606695153, 2.185597467)
    """
    terms = 64
    head = 2 + sum(Fraction(1, 2 * fan_out**j - 1) for j in range(1, terms + 1))
    tail = Fraction(1, fan_out**terms * (fan_out - 1))
    return Fraction(math.ceil((head + tail) * 10**9), 10**9)
