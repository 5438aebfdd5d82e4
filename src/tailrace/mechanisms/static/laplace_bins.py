"""Noise on every bin.

Privacy: as `levels.py`, one level.
Accuracy: a range of k bins has k times the variance of one.
Source: Dwork et al. 2006; "LPA" in Li et al. 2015.
Departs: noise on integers; Gaussian where the budget is zCDP.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tailrace.calls import told
from tailrace.mechanisms.halving import Halving


@told
@dataclass(frozen=True, kw_only=True)
class LaplaceBins:
    """Independent noise on every bin: Laplace under PureDP, Gaussian under ZCDP."""

    def levels(self, tree: Halving) -> dict[int, Fraction]:
        return {tree.depth: Fraction(1)}
