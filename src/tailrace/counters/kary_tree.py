"""Running sums over a k-ary tree, with subtraction.

Privacy: the declared epsilon per event over the horizon, neighbours add/remove of one insertion or
deletion; pure DP with subtraction. An element lies in at most one atom per level, so with L levels
in use the noise is Lap(L/epsilon). With subtraction an estimate uses noise of atoms whose interval
has not ended yet. For a fixed stream all estimates together are a function of the noisy atoms, so
they are epsilon-DP; each depends only on the past of the stream; and pure DP of every fixed stream
carries over to inputs that depend on past outputs: for a fixed output the inputs are fixed
neighbours. That last step fails for Renyi losses and the noise is not rotation invariant, so
Gaussian noise is taken only without subtraction (where each atom is complete when it is drawn).
Accuracy: variance (sum over levels of abs(digit)) L^2 2/epsilon^2 with digits from -(k-1)/2 to
(k-1)/2: about k/4 atoms a level where the plain tree has k/2.
Source: Andersson-Pagh-Steiner-Torkamani, "Count on Your Elders: Laplace vs Gaussian Noise" (k-ary
trees with subtraction, Laplace); without subtraction and with three levels of arity T^(1/3).
Departs: the number of levels is fixed first and the top level has as many atoms as the horizon
needs; integer noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.calls import told
from tailrace.counters.feed import bounded, configured
from tailrace.counters.ladder import LadderCounter, Sizes
from tailrace.errors import ConfigError
from tailrace.privacy.loss import PureDP


@told
@dataclass(frozen=True, kw_only=True)
class KaryTree(LadderCounter):
    """A tree of `levels` levels of `arity`.

    None: about the root of order `levels` of the horizon; with subtraction of twice the horizon,
    and odd.

    >>> KaryTree(horizon=1000).sizes, KaryTree(horizon=1000, subtract=False).sizes
    ((1, 13, 169), (1, 10, 100))
    """

    arity: int | None = None
    levels: int = 3
    subtract: bool = True

    def __post_init__(self) -> None:
        configured(self, "arity", "levels")
        if self.levels > 60:
            raise ConfigError("levels must be at most 60: no stream is long enough for more.")
        if self.arity is not None and (self.arity < 2 or (self.subtract and self.arity % 2 == 0)):
            raise ConfigError(
                "arity must be at least 2, and odd with subtraction (the digits then run from "
                "-(k-1)/2 to (k-1)/2)."
            )
        if self.subtract and self.privacy is not None and not isinstance(self.privacy, PureDP):
            raise ConfigError(
                "KaryTree with subtraction takes PureDP only (Gaussian noise is not proved for "
                "it): "
                "use privacy=PureDP(epsilon=...), or subtract=False."
            )
        self._check()

    @property
    def sizes(self) -> Sizes:
        arity = self.arity
        if arity is None:
            root = ((2 if self.subtract else 1) * bounded(self.horizon, "KaryTree")) ** (
                1 / self.levels
            )
            arity = max(3, 2 * round((root - 1) / 2) + 1) if self.subtract else max(2, round(root))
        return tuple(arity**level for level in range(self.levels))

    @property
    def ahead(self) -> int:
        return (self.sizes[1] - 1) // 2 if self.subtract and self.levels > 1 else 0
