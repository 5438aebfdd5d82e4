"""The public state of a spatial stream, and its tree's rules."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tailrace.calls import told
from tailrace.domain.geometry.partition import Space, partition_of
from tailrace.mechanisms.spatial.tree import Tree, finest
from tailrace.privacy.loss import exact, real, whole

# The number of points at epsilon 1, as a power of two, in a node of the least depth.
# From ../shared/accuracy2.md, part 1, section 4: 5 within noise, 7 is worse on moving circles.
_POINTS = 6


@told
@dataclass(frozen=True, kw_only=True)
class AdaTree:
    """How the tree adapts to released numbers.

    Only `clock` moves noise, and nothing here moves the guarantee.

    Parameters
    clock: share of the budget for the number of events.
    churn: end an epoch when this share of the points has come or gone.
    split: divide a node where more than this many deviations of its noise are expected; without a
        retention, three times as many of one draw's.
    least_depth: divide every node above this depth.
    unsure, far: prune a half if its count is below `unsure` deviations and half of its parent's
        count exceeds it by more than `far` deviations.
    parts: epochs in a retention.
    keep: forget halves that were not needed for this many epochs.
    """

    clock: Fraction = Fraction(1, 20)
    churn: float = 0.5
    split: float = 2.0
    least_depth: int = 6
    unsure: float = 2.0
    far: float = 4.0
    parts: int = 5
    keep: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "clock", exact("clock", self.clock, below=1))
        for name, least in (("least_depth", 0), ("parts", 1), ("keep", 1)):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=least))
        for name in ("churn", "split"):
            exact(name, getattr(self, name))
        for name in ("unsure", "far"):
            object.__setattr__(self, name, real(name, getattr(self, name)))

    def least(self, points: float, noise: float, domain: Space) -> int:
        """The depth above which every node is divided, where so many points are expected.

        So many that its nodes hold a fixed number of deviations of the noise.
        """
        many = max(points, 1.0) * math.sqrt(2 / noise)
        depth = math.floor(math.log2(max(many, 1.0))) - _POINTS
        most = min(max(depth, self.least_depth), 2 * self.least_depth)
        # Half of the halvings that attributes take: benchmarks/places.py.
        return min(most + partition_of(domain).coded // 2, finest(domain))


@dataclass(frozen=True)
class SpatialPublic:
    """Everything a spatial stream has released up to this step."""

    step: np.ndarray  # ()
    epoch: np.ndarray  # () epochs closed
    closed: np.ndarray  # () the step that closed the last
    clock: np.ndarray  # (rows,) noisy sums of adds (and deletes)
    at_close: np.ndarray  # (rows,) the same when the last epoch closed
    events: np.ndarray  # () adds and deletes of the last epoch, by the clock
    total: np.ndarray  # () estimated number of points when the last epoch closed
    recent: np.ndarray  # (steps,) the clock at the last steps, as far back as a retention reaches
    spans: np.ndarray  # (parts, 2) steps of each part: after the first, up to the second
    tree: Tree
    # (rows + 1,) the clock when what is shown last followed it, and the step; none: at the close
    heard: np.ndarray = field(default_factory=lambda: np.zeros(0))
    # (3,) sum of all that leaves have counted and its variance, and the last epoch's change
    summed: np.ndarray = field(default_factory=lambda: np.zeros(0))
    # (depths,) how far events stray from the shares, in parts of a fair coin's variance
    unrest: np.ndarray = field(default_factory=lambda: np.zeros(0))
