"""Running sums over a binary tree of intervals.

Privacy: the declared loss per event over the horizon T, neighbours add/remove of one insertion or
deletion. Element 1 lies in the atoms [1,1], [1,2], [1,4], ...: bit_length(T) of them, and no
element lies in more. Noise Lap(bit_length(T)/epsilon) or N(0, bit_length(T)/(2 rho)). Inputs may
depend on past outputs.
Accuracy: variance popcount(t) bit_length(T)^2 2/epsilon^2, or popcount(t) bit_length(T)/(2 rho):
O(log^1.5 T) error.
Source: Chan-Shi-Song 2011, "Binary Counting Mechanism"; PrivStream, Algorithm 10.
Departs: the published scale log2(T)/epsilon is too small by one level and loses
bit_length(T)/log2(T) times epsilon (2 at T = 2; no noise at all at T = 1); here it is
bit_length(T)/epsilon. `audit.gallery` holds the published one, and the audit that catches it.
Integer noise; Gaussian noise under ZCDP and ApproxDP.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.calls import told
from tailrace.counters.feed import bounded
from tailrace.counters.ladder import LadderCounter, Sizes


@told
@dataclass(frozen=True, kw_only=True)
class BinaryTree(LadderCounter):
    """A binary tree over the horizon.

    >>> BinaryTree(horizon=12).sizes
    (1, 2, 4, 8)
    """

    @property
    def sizes(self) -> Sizes:
        return tuple(
            1 << level for level in range(bounded(self.horizon, "BinaryTree").bit_length())
        )
