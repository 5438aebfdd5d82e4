"""Points that leave by the calendar.

The parts of the tree are epochs; one that has run out still says where points tend to be.

Row 0 of the parts is the past: epochs that have run out, added up, and halved once in a retention
so that old ones fade.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tailrace.domain.geometry.partition import Layout, Space
from tailrace.mechanisms.shared.events import Clock, net
from tailrace.mechanisms.spatial.public import AdaTree, SpatialPublic
from tailrace.mechanisms.spatial.tree import Found, Standing, Tree, counted, regrown
from tailrace.mechanisms.spatial.view import SpatialView

_TINY = 1e-9
# Nodes at a depth: fewer do not say how far the past is off.
# Chosen by trial while building; no committed result.
_FEW = 16


# Times the noise: the error that inheritance and empty halves add.
# Measured on generated streams while building.
_MODEL_ERROR = 2.0
# Deviations of the difference of two halves above which a count says how uneven they are.
# Chosen by trial while building; no committed result.
_CLEAR = 4.0


@dataclass(frozen=True)
class Parts:
    """The estimate of a stream with a retention."""

    domain: Space
    structure: AdaTree
    clock: Clock
    noise: float  # variance of one draw
    retention: int

    def close(
        self,
        public: SpatialPublic,
        found: Found,
        since: int,  # noqa: ARG002
    ) -> tuple[SpatialPublic, Standing]:
        """Keep what was found as a part; grow the next tree."""
        standing, step = found.standing, int(public.step)
        start = int(public.spans[:, 1].max(initial=0))
        spans = np.vstack([public.spans, [[start, step]]])
        fade = int(public.epoch) % self.structure.parts == 0
        tree, spans = with_part(
            measured(found, self.noise), spans, step=step, retention=self.retention, fade=fade
        )
        standing, public = Standing(tree, standing.layout), replace(public, spans=spans)
        public = replace(public, total=np.asarray(self._total(public, standing)[0]))
        weights = self._weights(public)
        full = estimated(tree, standing.layout, weights, self.noise)[2]
        limit = self.structure.split * math.sqrt(full)
        grown, _ = regrown(
            standing,
            self.domain,
            self._counts(public, standing, whole_tree=True)[0],
            epoch=int(public.epoch),
            limits=(limit, limit),
            least=self.structure.least(0.0, self.noise, self.domain),
            keep=self.structure.keep,
        )
        return public, grown

    def view(self, public: SpatialPublic, standing: Standing) -> SpatialView:
        """What is shown: as much of each part as is still there."""
        counts, variance = self._counts(public, standing)
        total, spread = self._total(public, standing)
        pending = max(float((public.clock - public.at_close).sum()), 0.0) / max(total, 1.0)

        def doubted() -> tuple[np.ndarray, float]:
            parents, doubt, uneven = np.flatnonzero(standing.tree.inner), np.zeros(len(counts)), 1.0
            a, b = parents + 1, standing.layout.second[parents]
            apart = variance[a] * variance[b] / np.maximum(variance[a] + variance[b], _TINY)
            fair = pending * counts[a] * counts[b] / np.maximum(counts[parents], _TINY)
            doubt[parents] = _MODEL_ERROR * apart + fair
            above = standing.shown[a] & (counts[parents] > _CLEAR * np.sqrt(4 * apart))
            if above.any():
                squares = ((counts[a] - counts[b]) ** 2 - 4 * apart)[above].sum()
                uneven = float(np.clip(squares / (counts[parents][above] ** 2).sum(), 0.0, 1.0))
            return doubt, uneven

        return SpatialView.of(self.domain, standing, counts, spread, doubted)

    def _weights(self, public: SpatialPublic) -> np.ndarray:
        return weights(public.spans, step=int(public.step), retention=self.retention)

    def _counts(
        self, public: SpatialPublic, standing: Standing, *, whole_tree: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Counts of nodes down to the leaves, or of the whole tree, and variances."""
        from tailrace.mechanisms.spatial import kernel

        tree, layout = standing.tree, standing.layout
        estimate, variance, _ = estimated(tree, layout, self._weights(public), self.noise)
        leaf = np.zeros_like(tree.leaf) if whole_tree else tree.leaf
        where = (tree.inner, leaf, layout.second, layout.area)
        rule = (float(self.structure.unsure), float(self.structure.far))
        total = self._total(public, standing)[0]
        return kernel.released(total, estimate, variance, *where, *rule), variance

    def _total(self, public: SpatialPublic, standing: Standing) -> tuple[float, float]:
        """The number of points and its variance, from clock and leaves.

        The clock gives one estimate, the leaves with the clock's later events another; they are
        weighed by their variances.
        """
        live, step, closed = self._weights(public), int(public.step), int(public.closed)
        counts, draws = standing.tree.counts.sum(axis=1), standing.tree.draws.sum(axis=1)
        leaves = float(live @ counts) + net(public.clock - public.at_close)
        spread = self.noise * float(live**2 @ draws) + self.clock.variance(step, closed)
        clock, since = net(public.clock), 0
        if len(public.recent) > self.retention:
            clock, since = clock - float(public.recent[0]), step - self.retention
        other = self.clock.variance(step, since)
        both = spread + other
        return (clock * spread + leaves * other) / both, spread * other / both


def measured(found: Found, noise: float) -> Tree:
    """The tree with one more part: what was found in its leaves.

    Of several rounds, the estimates in whole numbers, and the draws that have their variance.
    """
    tree, layout = found.standing.tree, found.standing.layout
    counts, draws = np.zeros((2, len(tree.inner)), np.int64)
    rounded = np.rint(found.divided), np.maximum(np.rint(found.changes[1] / noise), 1)
    where = counted(tree.leaf, layout)
    counts[where], draws[where] = rounded[0][where], rounded[1][where]
    return replace(
        tree, counts=np.vstack([tree.counts, counts]), draws=np.vstack([tree.draws, draws])
    )


def with_part(
    tree: Tree, spans: np.ndarray, *, step: int, retention: int, fade: bool
) -> tuple[Tree, np.ndarray]:
    """Keep live parts apart; add expired ones to the past.

    The past may fade by half.
    """
    gone = spans[:, 1] <= step - retention
    if not len(spans) or spans[0, 1]:  # no past yet
        spans, gone = np.vstack([[[0, 0]], spans]), np.append(True, gone)
        none = np.zeros((1, len(tree.inner)), np.int64)
        tree = replace(
            tree, counts=np.vstack([none, tree.counts]), draws=np.vstack([none, tree.draws])
        )
    counts, draws = tree.counts[gone].sum(axis=0), tree.draws[gone].sum(axis=0)
    if fade:
        # half the counts have a quarter of the variance
        counts, draws = counts // 2, -(-draws // 4)
    live = ~gone
    tree = replace(
        tree,
        counts=np.vstack([counts, tree.counts[live]]),
        draws=np.vstack([draws, tree.draws[live]]),
    )
    return tree, np.vstack([[[0, 0]], spans[live]])


def weights(spans: np.ndarray, *, step: int, retention: int) -> np.ndarray:
    """The share of each part that is still live."""
    start, end = spans.T
    return np.clip(
        (end - np.maximum(start, step - retention)) / np.maximum(end - start, 1), 0.0, 1.0
    )


def estimated(
    tree: Tree, layout: Layout, weights: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Estimate every node, shrunk towards the past.

    Returns estimates, variances, and the variance of a leaf that was never divided.

    At each depth the past, scaled to the present total, gets the weight (noise of the present) /
    (mean square of the difference): what James and Stein would give it. Where points move, the
    difference is large and the past says nothing.
    """
    from tailrace.mechanisms.spatial import kernel

    def of(parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own, drawn = parts @ tree.counts, noise * (parts**2 @ tree.draws)
        return kernel.inherited(own, drawn, tree.inner, layout.second, layout.area)

    past = np.zeros(len(weights))
    past[0] = 1.0
    (now, spread), (before, old_spread) = of(weights), of(past)
    draws = float((weights**2).sum())
    if before[0] <= 0 or now[0] <= 0:
        return now, spread, noise * draws
    scale = now[0] / before[0]
    share = _trust(now - scale * before, spread, tree, layout)
    leaves = counted(tree.leaf, layout)
    path = (layout.first <= layout.first[leaves[0]]) & (layout.last > layout.first[leaves[0]])
    trust = float(share[leaves].mean())
    full = (1 - trust) ** 2 * draws + (trust * scale) ** 2 * float(tree.draws[0][path].sum())
    estimate = (1 - share) * now + share * scale * before
    return estimate, (1 - share) ** 2 * spread + (share * scale) ** 2 * old_spread, noise * full


def _trust(difference: np.ndarray, spread: np.ndarray, tree: Tree, layout: Layout) -> np.ndarray:
    """The weight of the past at each node."""
    covered = np.maximum.accumulate(np.where(tree.leaf, layout.last, 0))
    shown = (layout.first >= np.concatenate([[0], covered[:-1]])) & (layout.area > 0)
    depth, deepest = layout.depth[shown], int(layout.depth.max()) + 1
    nodes = np.bincount(depth, minlength=deepest)
    noise = np.bincount(depth, weights=spread[shown], minlength=deepest)
    squares = np.bincount(depth, weights=difference[shown] ** 2, minlength=deepest)
    trust = np.where(nodes >= _FEW, np.minimum(noise / np.maximum(squares, _TINY), 1.0), 0.0)
    return trust[layout.depth]
