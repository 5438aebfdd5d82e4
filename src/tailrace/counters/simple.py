"""Running sums with one noise per step.

Privacy: the declared loss per event over any horizon (none is needed), neighbours add/remove of one
insertion or deletion. An element lies in exactly one atom, its own step; noise Lap(1/epsilon) or
N(0, 1/(2 rho)). Inputs may depend on past outputs.
Accuracy: variance t times that of one draw. Best of all pure counters over short horizons:
up to 33 steps at epsilon = 0.5.
Source: Chan-Shi-Song 2011, "Simple Counting Mechanism II"; PrivStream, Algorithm 8.
Departs: integer noise instead of continuous noise; Gaussian noise under ZCDP and ApproxDP.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.calls import told
from tailrace.counters.ladder import LadderCounter, Sizes


@told
@dataclass(frozen=True, kw_only=True)
class Simple(LadderCounter):
    """One noise per step; the horizon is optional.

    >>> from tailrace import PureDP
    >>> Simple(privacy=PureDP(epsilon=0.5)).loss(events=1, deletes=1)
    PureDP(epsilon='1')
    """

    @property
    def sizes(self) -> Sizes:
        return (1,)
