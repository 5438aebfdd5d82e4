"""Published histograms of one snapshot.

Privacy: as `mechanisms/snapshot/levels.py`.
Accuracy: likewise.
Source: Hay et al. 2010 (even budgets and least squares on a tree); a fan-out of 16 as Qardaji et
al. 2013 found best on a line.
Departs: least squares weighed by variances, so that sides need not be powers of the fan-out;
several sides are halved in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tailrace.calls import told
from tailrace.domain.halving import Halving
from tailrace.errors import ConfigError


@told
@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """Equal noise on every level of a tree.

    Least squares makes the levels agree.

    Parameters
    fan_out: the children of a node, a power of 2.
    """

    fan_out: int = 16

    def __post_init__(self) -> None:
        if self.fan_out not in {1 << bits for bits in range(1, 17)}:
            raise ConfigError("fan_out of a Hierarchy must be a power of 2 from 2 to 65,536.")

    def levels(self, tree: Halving) -> dict[int, Fraction]:
        every = self.fan_out.bit_length() - 1
        # Counted from the cells.
        depths = sorted(set(range(tree.depth, 0, -every)) | {0})
        return dict.fromkeys(depths, Fraction(1, len(depths)))


@told
@dataclass(frozen=True, kw_only=True)
class LaplaceBins:
    """Independent noise on every bin.

    Laplace noise under PureDP, Gaussian under ZCDP.
    """

    def levels(self, tree: Halving) -> dict[int, Fraction]:
        return {tree.depth: Fraction(1)}
