"""Noise for a counter's atoms, with the loss it proves.

`Atoms` is the one object of a counter that draws.

An atom is a sum to which noise is added once. Let one event move the atoms by a vector of
nonnegative integers v. Then

* Laplace noise of scale |v|_1 / epsilon on every atom is epsilon-DP per event; m insertions and d
  deletions move the atoms by at most (m + d) |v|_1 in the 1-norm: (m + d) epsilon. Pure DP stays
  true when inputs depend on past outputs.
* Gaussian noise of variance |v|_2^2 / (2 rho) is rho-zCDP per event. m insertions move the atoms by
  a nonnegative vector of length at most m |v|_2, d deletions likewise by one of at most d |v|_2,
  and the inner product of the two is not negative, so the difference has a squared length of at
  most (m^2 + d^2) |v|_2^2: the loss is (m^2 + d^2) rho. It stays true under adaptive inputs while
  each atom depends only on what came before its draw.

For atoms that an event moves by 0 or 1, |v|_1 = |v|_2^2 = the number of atoms it lies in: the
`weight`. The parameters are exact fractions, so the loss of one event equals the budget and no
rounding is involved.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.errors import ConfigError
from tailrace.noise import Draws, Shape, check_drawable, gaussian_variance, laplace_variance
from tailrace.privacy.budget import restate
from tailrace.privacy.loss import ZCDP, Loss, PureDP, whole


@dataclass(frozen=True)
class Atoms:
    """Atoms of which one event moves a `weight`.

    The 1-norm under Laplace noise (PureDP), the squared 2-norm under Gaussian noise.
    """

    privacy: Loss | None
    weight: int | Fraction

    @property
    def scale(self) -> Fraction:
        """The Laplace scale, or the Gaussian variance."""
        if self.privacy is None:
            raise ConfigError(
                "This counter has no budget yet: set privacy=PureDP(epsilon=...), ZCDP(rho=...) or "
                "ApproxDP(...)."
            )
        if isinstance(self.privacy, PureDP):
            return self.weight / self.privacy.epsilon
        return self.weight / (2 * self.privacy.zcdp_within().rho)

    def check(self) -> None:
        """Refuse a budget whose noise cannot be drawn."""
        if self.privacy is not None:
            check_drawable(self.scale, gaussian=not isinstance(self.privacy, PureDP))

    def draw(self, noise: Draws, shape: Shape) -> np.ndarray:
        """Integer noise, one per atom."""
        draw = noise.laplace if isinstance(self.privacy, PureDP) else noise.gaussian
        return draw(self.scale, shape)

    def variance(self) -> float:
        """Exact variance of one draw."""
        exact = laplace_variance if isinstance(self.privacy, PureDP) else gaussian_variance
        return exact(self.scale)

    def loss(self, events: int, deletes: int) -> Loss:
        """The loss proved for a unit's insertions and deletions."""
        events, deletes = whole("events", events, least=0), whole("deletes", deletes, least=0)
        if events + deletes == 0:
            raise ConfigError("loss(events=, deletes=) needs at least one of the two above 0.")
        if isinstance(self.privacy, PureDP):
            return PureDP(epsilon=(events + deletes) * self.weight / self.scale)
        proved = ZCDP(rho=(events**2 + deletes**2) * self.weight / (2 * self.scale))
        return proved if self.privacy is None else restate(proved, self.privacy)
