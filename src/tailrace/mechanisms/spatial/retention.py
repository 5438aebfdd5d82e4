"""Points that leave by the calendar.

The parts of the tree are epochs; one that has run out still says where points tend to be.

Row 0 of the parts is the past: epochs that have run out, added up, and halved once in a retention
so that old ones fade.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrace.domain.geometry.partition import Layout
from tailrace.mechanisms.spatial.tree import Tree, counted

_TINY = 1e-9
# Nodes at a depth: fewer do not say how far the past is off.
# Chosen by trial while building; no committed result.
_FEW = 16


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
