"""Draw lengths of trajectories from released chances, at no cost.

Source: Kumar's dissertation, section 5.5.5 and Algorithm 20.
Departs: an exponential distribution with the median m has the rate ln 2 / m, which as printed is
its scale; m is that of the most probable path by the noisy chances, not by the true ones; a length
is a whole number, and no less than the way needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tailrace.calls import told
from tailrace.mechanisms.trajectories.layout import Layout
from tailrace.models.walks.paths import hops, most_probable
from tailrace.papers.privtree_trajectories.transitions import Chances
from tailrace.privacy.loss import whole


@told
@dataclass(frozen=True, kw_only=True)
class ProbableLengths:
    """Exponential lengths; the median is the most probable path's.

    Trajectories have `longest` cells at most, unless their ends need more.
    """

    longest: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "longest", whole("longest", self.longest))

    def draw(
        self, chances: Chances, layout: Layout, ends: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """The moves of each trajectory between ends[0] and ends[1]."""
        pairs, which = np.unique(ends, axis=1, return_inverse=True)
        # In cells, both ends included.
        probable = most_probable(layout.graph, chances.moving, *pairs) + 1
        fewest = hops(layout.graph, *pairs) + 1
        drawn = np.ceil(rng.exponential(1.0, ends.shape[1]) * probable[which] / math.log(2))
        drawn = drawn.astype(np.int64)
        return np.maximum(np.minimum(drawn, self.longest), fewest[which]) - 1
