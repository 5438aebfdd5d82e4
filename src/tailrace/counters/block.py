"""Running sums in two levels: steps, and finished blocks.

Privacy: the declared loss per event over the horizon, neighbours add/remove of one insertion or
deletion. An element lies in at most two atoms, its step and its block (the last element of a block
only in the block's): noise Lap(2/epsilon) or N(0, 2/(2 rho)). Inputs may depend on past outputs.
Accuracy: variance (blocks finished + steps inside the block) times that of one draw; with blocks of
sqrt(T), O(sqrt(T)).
Source: Chan-Shi-Song 2011, "Two-Level Counting Mechanism"; PrivStream, Algorithm 9.
Departs: integer noise; a horizon below the block size gets the scale of one atom, since no block
ever ends; Gaussian noise under ZCDP and ApproxDP.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.calls import told
from tailrace.counters.feed import bounded, configured
from tailrace.counters.ladder import LadderCounter, Sizes
from tailrace.errors import ConfigError


@told
@dataclass(frozen=True, kw_only=True)
class Block(LadderCounter):
    """Blocks of `size` steps; None: the root of the horizon.

    The horizon is optional where size is given.

    >>> Block(horizon=100).sizes
    (1, 10)
    """

    size: int | None = None

    def __post_init__(self) -> None:
        configured(self, "size")
        if self.size == 1:
            raise ConfigError(
                "A block of 1 step is the Simple counter: use counters.Simple, or a size of at "
                "least 2."
            )
        self._check()

    @property
    def sizes(self) -> Sizes:
        return 1, self.size or max(2, round(bounded(self.horizon, "Block") ** 0.5))
