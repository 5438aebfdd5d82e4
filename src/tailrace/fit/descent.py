"""Entropic descent: the potentials whose marginals are nearest, in squares over variance, to what was measured.

The loss is half the sum of squared deviations, plus `smoothing` times the relative entropy of the whole table to an even one.
That keeps the model from following noise into corners where cells are empty for good, and makes the best table unique.

A step of mirror descent moves the potentials against the loss's gradient in the marginals. Here several such steps are
combined into the best one for a quadratic model of the loss, by conjugate gradients in the geometry of the model's own
covariance; a penalty on the distance moved (relative entropy again) holds the step where the quadratic model is true. With a
large penalty this is mirror descent, with a small one Newton's method.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.fit.tree import Tree

DIRECTIONS = 20  # conjugate directions in a step
LONGEST = 2.0  # a potential grows by no more in one step: the quadratic model knows nothing of powers
WEAKER, STRONGER = (
    8.0,
    4.0,
)  # factors of the penalty, after a step that did as the model said and after one that did not


@dataclass(frozen=True, eq=False)
class Target:
    """Counts, and one over their variance, for each cell of every part of a tree; weight 0 where nothing was measured."""

    counts: np.ndarray
    weights: np.ndarray
    smoothing: float
    total: float
    origin: np.ndarray | float = 0.0  # the potentials that smoothing pulls towards: 0 is an even table


@dataclass(frozen=True, eq=False)
class Point:
    """Potentials, and the tables, the marginals, the loss and its gradient in the marginals that follow from them."""

    potentials: np.ndarray
    tables: np.ndarray
    marginals: np.ndarray
    loss: float
    gradient: np.ndarray


def descend(tree: Tree, target: Target, potentials: np.ndarray, rounds: int, tolerance: float) -> np.ndarray:
    """From `potentials` down, until a round promises less than `tolerance` for each measured cell; the loss never grows."""
    from tailrace.fit.kernel import conjugate_step

    point = point_at(tree, target, potentials)
    enough = tolerance * np.count_nonzero(target.weights)
    penalty = float(np.abs(point.gradient).max(initial=0.0))
    for _ in range(rounds):
        step, promised = conjugate_step(
            *(tree.arrays, target.weights, target.smoothing, penalty),
            *(point.gradient, point.tables, point.marginals, DIRECTIONS, LONGEST),
        )
        if not promised > enough:
            break
        for part in (1.0, 0.25, 0.0625):
            new = point_at(tree, target, point.potentials + part * step)
            if point.loss - new.loss > 0.05 * part * promised:
                break
        gained = point.loss - new.loss
        if part == 1.0 and gained > 0.5 * promised:
            penalty /= WEAKER
        elif part < 1.0:
            penalty *= STRONGER
        point = new if gained > 0 else point
    return point.potentials


def calibrated(tree: Tree, potentials: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray, float]:
    """(tables, marginals, partition): expected counts of the tree's cliques and of their parts, and the log of the partition function."""
    from tailrace.fit.kernel import calibrate

    tables, marginals = np.empty(tree.arrays.first[-1]), np.empty(len(potentials))
    return tables, marginals, calibrate(tree.arrays, potentials, total, tables, marginals)


def point_at(tree: Tree, target: Target, potentials: np.ndarray) -> Point:
    """The loss at these potentials, and what it takes to lower it."""
    from tailrace.fit.kernel import loss_and_gradient

    tables, marginals, partition = calibrated(tree, potentials, target.total)
    away = potentials - target.origin
    loss, gradient = loss_and_gradient(away, marginals, target.counts, target.weights, target.smoothing)
    return Point(potentials, tables, marginals, loss - target.smoothing * target.total * partition, gradient)
