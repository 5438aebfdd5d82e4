"""The rules of spatial epochs: functions of public numbers only.

They say when an epoch ends, which leaves the next one has, and which counts are shown.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counters.base import Counter
from tailrace.domain.geometry.partition import lay_out, partition_of
from tailrace.mechanisms.shared.events import Clock, net
from tailrace.mechanisms.spatial import retention
from tailrace.mechanisms.spatial.tree import Places, Standing, Tree, measured, regrown, seed
from tailrace.privacy.loss import exact, real, whole

# Times the last epoch's change that the next tree is prepared for.
# Chosen by trial while building; no committed result.
_FAR_AHEAD = 4.0


@told
@dataclass(frozen=True, kw_only=True)
class AdaTree:
    """How the tree adapts to released numbers.

    Only `clock` moves noise, and nothing here moves the guarantee.

    Parameters
    clock: share of the budget for the number of events.
    churn: end an epoch when this share of the points has come or gone.
    split: divide a node where more than this many deviations of its noise are expected.
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


@dataclass(frozen=True)
class Epochs:
    """The rules of one stream."""

    domain: Places
    structure: AdaTree
    counter: Counter[Any]  # of the clock
    rows: int  # of the clock: adds, and deletes where there are any
    noise: float  # variance of the noise of one leaf's count
    horizon: int | None
    begin: int  # the first step with a release
    retention: int | None

    @property
    def origin(self) -> int:
        """The first step at which noise is drawn.

        That of the first release; with a retention the very first, which costs nothing then.
        """
        return self.begin if self.retention is None else 1

    @functools.cached_property
    def clock(self) -> Clock:
        return Clock(self.counter, self.rows, self.horizon, self.origin, self.structure.churn)

    def tree(self, public: SpatialPublic) -> Tree:
        """The tree of the open epoch."""
        return public.tree if len(public.tree.inner) else seed(self._least)

    @property
    def _least(self) -> int:
        return min(self.structure.least_depth, partition_of(self.domain).depth)

    def standing(self, tree: Tree) -> Standing:
        """What stays the same about a tree; that of the last one is kept."""
        if not self._last or self._last[0].tree is not tree:
            self._last[:] = [Standing(tree, lay_out(tree.inner, self.domain))]
        return self._last[0]

    @functools.cached_property
    def _last(self) -> list[Standing]:
        return []

    def ends(self, public: SpatialPublic) -> bool:
        """Whether the open epoch ends with the current step."""
        step, closed = int(public.step), int(public.closed)
        if step == self.horizon or (step == self.begin and self.begin > 1):
            return True
        if self.retention is not None:
            return (step - self.begin) % math.ceil(self.retention / self.structure.parts) == 0
        return self.clock.ends(
            step=step, closed=closed, pending=self.pending(public), total=float(public.total)
        )

    def pending(self, public: SpatialPublic) -> float:
        """Events of the open epoch, by the clock."""
        return float((public.clock - public.at_close).sum())

    def close(self, public: SpatialPublic, noisy: np.ndarray) -> SpatialPublic:
        """Add the leaves' noisy counts; choose the next leaves."""
        tree = self.tree(public)
        layout = self.standing(tree).layout
        tree, spans = self._with_part(measured(tree, layout, noisy), public)
        self._last[:] = [Standing(tree, layout)]
        public = replace(
            public,
            epoch=np.asarray(public.epoch + 1),
            closed=public.step,
            at_close=public.clock,
            events=np.asarray(self.pending(public)),
            spans=spans,
            tree=tree,
        )
        public = replace(public, total=np.asarray(self._both(public)[0]))
        expected, deviation = self._expected(public, self.standing(tree))
        limit = self.structure.split * deviation
        grown = regrown(
            tree,
            layout,
            self.domain,
            expected,
            epoch=int(public.epoch),
            limit=limit,
            least=self._least,
            keep=self.structure.keep,
        )
        return replace(public, tree=grown)

    def _with_part(self, tree: Tree, public: SpatialPublic) -> tuple[Tree, np.ndarray]:
        """Keep the newest part apart and add up older ones.

        With a retention, parts that have run out are dropped.
        """
        spans = np.vstack(
            [public.spans, [[max(int(public.closed), self.origin - 1), int(public.step)]]]
        )
        if self.retention is not None:
            fade = (int(public.epoch) + 1) % self.structure.parts == 0
            return retention.with_part(
                tree, spans, step=int(public.step), retention=self.retention, fade=fade
            )
        if len(spans) < 3:
            return tree, spans
        counts, draws = ([values[0] + values[1], values[2]] for values in (tree.counts, tree.draws))
        spans = np.array([[spans[0, 0], spans[1, 1]], spans[2]])
        return replace(tree, counts=np.stack(counts), draws=np.stack(draws)), spans

    def _expected(self, public: SpatialPublic, standing: Standing) -> tuple[np.ndarray, float]:
        """The expected count of each node, and a leaf's deviation.

        The larger of the count now and the count at the next epoch's end, if the last change goes
        on.
        """
        now = self.counts(public, standing, whole_tree=True)[0]
        if self.retention is not None:
            full = retention.estimated(
                public.tree, standing.layout, self.weights(public), self.noise
            )[2]
            return now, math.sqrt(full)
        deviation = math.sqrt(self.noise * int(public.epoch))
        if len(public.spans) < 2:
            return now, deviation
        pace = self.structure.churn * float(public.total) / max(float(public.events), 1.0)
        ahead = np.array([1.0, 1.0 + min(max(pace, 0.0), _FAR_AHEAD)])
        return np.maximum(
            now, self.counts(public, standing, whole_tree=True, weights=ahead)[0]
        ), deviation

    def weights(self, public: SpatialPublic) -> np.ndarray:
        """How much each part counts at this step.

        With a retention, as much of it as is still there. Else all of it, and the newest more the
        longer the open epoch lasts: what changed in the last epoch is taken to go on in this one,
        event by event.
        """
        if self.retention is not None:
            return retention.weights(public.spans, step=int(public.step), retention=self.retention)
        weights = np.ones(len(public.spans))
        if len(weights) > 1:
            weights[-1] += min(max(self.pending(public) / max(float(public.events), 1.0), 0.0), 2.0)
        return weights

    def counts(
        self,
        public: SpatialPublic,
        standing: Standing,
        *,
        whole_tree: bool = False,
        weights: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Released counts of nodes, and the variances of their estimates.

        Down to the leaves, or of the whole tree.
        """
        from tailrace.mechanisms.spatial import kernel

        tree, layout = standing.tree, standing.layout
        weights = self.weights(public) if weights is None else weights
        rule = (float(self.structure.unsure), float(self.structure.far))
        if self.retention is None:
            parents = standing.parents(whole_tree)
            return kernel.counted(
                self.total(public), weights, self.noise, standing.sums, *parents, *rule
            )
        estimate, variance = retention.estimated(tree, layout, weights, self.noise)[:2]
        leaf = np.zeros_like(tree.leaf) if whole_tree else tree.leaf
        where = (tree.inner, leaf, layout.second, layout.area)
        counts = kernel.released(self.total(public), estimate, variance, *where, *rule)
        return counts, variance

    def total(self, public: SpatialPublic) -> float:
        """The estimated number of points now."""
        if self.retention is not None:
            return self._both(public)[0]
        return float(public.total) + net(public.clock - public.at_close)

    def total_variance(self, public: SpatialPublic) -> float:
        """Of that estimate."""
        if self.retention is not None:
            return self._both(public)[1]
        at_close = replace(public, step=public.closed, clock=public.at_close)
        return self._both(at_close)[1] + self.clock.variance(int(public.step), int(public.closed))

    def _both(self, public: SpatialPublic) -> tuple[float, float]:
        """The total and its variance, from clock and leaves.

        The clock gives one estimate, the leaves with the clock's later events another; they are
        weighed by their variances.
        """
        weights, step, closed = self.weights(public), int(public.step), int(public.closed)
        counts, draws = self.standing(public.tree).sums[0].reshape(2, -1)
        leaves = float(weights @ counts) + net(public.clock - public.at_close)
        leaves_variance = self.noise * float(weights**2 @ draws)
        leaves_variance += self.clock.variance(step, closed)
        clock, since = net(public.clock), 0
        if self.retention is not None and len(public.recent) > self.retention:
            clock, since = clock - float(public.recent[0]), step - self.retention
        clock_variance = self.clock.variance(step, since)
        both = leaves_variance + clock_variance
        return (
            clock * leaves_variance + leaves * clock_variance
        ) / both, leaves_variance * clock_variance / both
