"""Entropic descent to the potentials nearest to the measurements.

The loss is half the sum of squared deviations over their variance, plus `smoothing` times the
relative entropy of the whole table to an even one. The second term keeps the model from following
noise into corners where cells stay empty for good, and makes the best table unique.

A step of mirror descent moves the potentials against the loss's gradient in the marginals. Here
several such steps are combined into the best one for a quadratic model of the loss, by conjugate
gradients in the geometry of the model's own covariance. A penalty on the distance moved (relative
entropy again) holds the step where the quadratic model is true. With a large penalty this is mirror
descent, with a small one Newton's method.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tailrace.models.tables.tree import Tree
from tailrace.models.tables.triangulation import Clique

# All four were chosen by trial while building; no committed result.
# Conjugate directions in a step.
DIRECTIONS = 20
# The most that a potential grows in one step: the quadratic model knows nothing of powers.
LONGEST = 2.0
# Factors of the penalty, after a step that kept its promise and after one that did not.
WEAKER, STRONGER = 8.0, 4.0


@dataclass(frozen=True, eq=False)
class Target:
    """Measured counts and their weights, for each tree part.

    The weight is one over the variance, and 0 where nothing was measured.
    """

    counts: np.ndarray
    weights: np.ndarray
    smoothing: float
    total: float
    origin: np.ndarray | float = (
        0.0  # the potentials that smoothing pulls towards: 0 is an even table
    )


@dataclass(frozen=True, eq=False)
class Point:
    """Potentials, and what follows from them."""

    potentials: np.ndarray
    tables: np.ndarray
    marginals: np.ndarray
    loss: float
    gradient: np.ndarray


def descend(
    tree: Tree, target: Target, potentials: np.ndarray, rounds: int, tolerance: float
) -> np.ndarray:
    """Descend from `potentials`; the loss never grows.

    It ends after `rounds`, or when a round promises less than `tolerance` for each measured cell.
    """
    from tailrace.models.tables.kernel import conjugate_step

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


def calibrated(
    tree: Tree, potentials: np.ndarray, total: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """(tables, marginals, log partition function) of potentials.

    Tables hold the expected counts of the tree's cliques, marginals those of their parts.
    """
    from tailrace.models.tables.kernel import calibrate

    tables, marginals = np.empty(tree.arrays.first[-1]), np.empty(len(potentials))
    return tables, marginals, calibrate(tree.arrays, potentials, total, tables, marginals)


def point_at(tree: Tree, target: Target, potentials: np.ndarray) -> Point:
    """The loss and its gradient at these potentials."""
    from tailrace.models.tables.kernel import loss_and_gradient

    tables, marginals, partition = calibrated(tree, potentials, target.total)
    away = potentials - target.origin
    loss, gradient = loss_and_gradient(
        away, marginals, target.counts, target.weights, target.smoothing
    )
    return Point(
        potentials, tables, marginals, loss - target.smoothing * target.total * partition, gradient
    )


# All four were chosen by trial while building; no committed result.
# A nearly vanished cell starts again from this part of a deviation,
FLOOR = 1e-3
# or from this part of an even share, where deviations are large.
RARE = 1e-2
# A cell has nearly vanished below this part of its floor.
VANISHED = 0.1
# Passes over the attributes, until hardly anything is left that one has alone.
SWEEPS = 3


def views(tree: Tree, values: np.ndarray) -> list[np.ndarray]:
    """Views of the potentials in `values`, in clique shape."""
    pairs = zip(tree.potentials, tree.slices, strict=True)
    return [values[part].reshape(tree.sizes(clique)) for clique, part in pairs]


def absorbed(tree: Tree, earlier: Iterable[tuple[Clique, np.ndarray]]) -> np.ndarray:
    """Earlier potentials in the layout of a new tree.

    Each is added to the tree's first potential that holds all of its attributes. Where none does,
    the mean effect of each attribute alone is kept, and the rest dropped.
    """
    values = np.zeros(tree.arrays.part_first[-1])
    own = list(zip(tree.potentials, views(tree, values), strict=True))

    def add(clique: Clique, potential: np.ndarray) -> bool:
        for other, table in own:
            if set(clique) <= set(other):
                aligned = potential.transpose(np.argsort([other.index(one) for one in clique]))
                table += aligned.reshape([tree.shape[one] if one in clique else 1 for one in other])
                return True
        return False

    for clique, potential in earlier:
        if not add(clique, potential):
            for axis, one in enumerate(clique):
                add(
                    (one,),
                    potential.mean(
                        axis=tuple(other for other in range(len(clique)) if other != axis)
                    ),
                )
    return values


def tie(potential: np.ndarray, counts: np.ndarray) -> float:
    """Variance of a potential beyond that of its single attributes.

    Half of it approximates the relative entropy that a model without the potential would lose.
    """
    rest, total = potential - potential.max(), max(float(counts.sum()), 1e-300)
    for _ in range(SWEEPS):
        for axis in range(rest.ndim):
            others = tuple(other for other in range(rest.ndim) if other != axis)
            mass = np.maximum(counts.sum(axis=others, keepdims=True), 1e-300)
            rest = rest - (counts * rest).sum(axis=others, keepdims=True) / mass
    return float((counts * rest**2).sum()) / total


def lifted(tree: Tree, target: Target, values: np.ndarray) -> np.ndarray:
    """Potentials under which no measured cell has nearly vanished.

    A count that is nearly 0 would grow too slowly by factors.
    """
    values = values.copy()
    marginals = calibrated(tree, values, target.total)[1]
    for part in tree.slices:
        weights = target.weights[part]
        if not weights.any():
            continue  # not measured now: it stays as it is
        floor = np.minimum(FLOOR / np.sqrt(weights), RARE * target.total / len(weights))
        low = marginals[part] < VANISHED * floor
        if low.any():
            values[part][low] += np.log(
                floor[low] / np.maximum(marginals[part][low], np.finfo(float).tiny)
            )
            marginals = calibrated(tree, values, target.total)[1]
    return values
