"""Potentials carried over to a new tree, and lifted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tailrace.fit.descent import Target, calibrated
from tailrace.fit.tree import Tree
from tailrace.fit.triangulation import Clique

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
    """How much a potential ties its attributes: its variance, less what each attribute has alone.

    Half of it is about what a model without the potential would lose, as relative entropy.
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
