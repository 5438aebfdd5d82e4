"""A graphical model on a junction tree, by entropic descent.

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

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.models.tables.base import (
    Clique,
    Conditional,
    Measured,
    Model,
    Shape,
    checked,
    mismatch,
)
from tailrace.models.tables.tree import (
    Answers,
    Tree,
    room,
    stored,
    tree_cells,
    tree_cliques,
    tree_of,
)

# All were chosen by trial while building; no committed result.
# Conjugate directions in a step; with 20, fits of the tables of benchmarks/tables_data.py took a
# third more products to come as near.
DIRECTIONS = 10
# The most that a potential grows in one step: the quadratic model knows nothing of powers.
LONGEST = 2.0
# Factors of the penalty, after a step that kept its promise and after one that did not.
WEAKER, STRONGER = 8.0, 4.0
# A nearly vanished cell starts again from this part of a deviation,
FLOOR = 1e-3
# or from this part of an even share, where deviations are large.
RARE = 1e-2
# A cell has nearly vanished below this part of its floor.
VANISHED = 0.1
# Passes over the attributes, until hardly anything is left that one has alone.
SWEEPS = 3


@dataclass(frozen=True, eq=False)
class TreeModel:
    """The distribution proportional to exp of summed potentials."""

    tree: Tree
    # The potentials, in the layout of the tree's parts.
    values: np.ndarray
    total: float
    settled: bool = True

    @property
    def shape(self) -> Shape:
        return self.tree.shape

    @property
    def potentials(self) -> list[tuple[Clique, np.ndarray]]:
        """Each potential's clique, and its logarithms."""
        return list(zip(self.tree.potentials, views(self.tree, self.values), strict=True))

    @cached_property
    def answers(self) -> Answers:
        """The calibrated tree, ready for questions."""
        return Answers(self.tree, calibrated(self.tree, self.values, self.total)[0])

    def marginals(self, cliques: Sequence[Clique]) -> list[np.ndarray]:
        """Expected counts: nonnegative, each marginal sums to the total."""
        return [self.answers.marginal(clique) for clique in cliques]

    def conditionals(self) -> list[Conditional]:
        """Every attribute once, from the root down.

        Each is given its clique's separator, and the attributes before it.
        """
        result = []
        for place, (clique, given) in enumerate(
            zip(self.tree.cliques, self.tree.separators, strict=True)
        ):
            for one in clique:
                if one not in given:
                    result.append(Conditional(one, given, self.answers.shares(place, one, given)))
                    given = (*given, one)
        return result

    def pack(self) -> tuple[np.ndarray, np.ndarray]:
        """(structure, values): cliques of tree and potentials, and the potentials."""
        structure = [len(self.tree.cliques), len(self.tree.potentials)]
        for clique in (*self.tree.cliques, *self.tree.potentials):
            structure += [len(clique), *clique]
        values = np.concatenate([self.values[part] for part in self.tree.slices] or [[]])
        return np.array(structure, np.int64), values


@told
@dataclass(frozen=True, kw_only=True)
class JunctionTree:
    """Fits by belief propagation on a junction tree.

    A fit with `keep` pulls towards its start instead of an even table: potentials that are not
    measured now stay as they were, as far as `limit` has room for them.

    Parameters
    limit: the most cells of the tree.
    rounds: the most rounds of descent.
    smoothing: the pull towards an even table, as a part of a typical deviation: how far a cell's
        count gives way for one unit of the logarithm of its share.
    tolerance: fitting ends when a round promises to lower the loss (half the sum of squared
        deviations) by less for each measured cell; noise alone makes about a half.

    >>> measured = [
    ...     Measured((0, 1), np.array([[5.0, 1.0], [1.0, 3.0]]), 1.0),
    ...     Measured((1, 2), np.array([[4.0, 2.0], [0.0, 4.0]]), 1.0),
    ... ]
    >>> model = JunctionTree(smoothing=1e-6, tolerance=1e-9).fit((2, 2, 2), measured, total=10)
    >>> model.marginals([(0, 2)])[0].round(2)
    array([[3.33, 2.67],
           [0.67, 3.33]])
    """

    limit: int = 2**20
    rounds: int = 60
    smoothing: float = 0.03
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if self.limit < 1 or self.rounds < 1:
            raise ConfigError("A junction tree has a `limit` and `rounds` of at least 1.")
        if not (self.smoothing > 0 and self.tolerance > 0):
            raise ConfigError(
                "The `smoothing` and the `tolerance` of a junction tree are positive."
            )

    def cells(self, shape: Shape, cliques: Sequence[Clique]) -> int:
        """The number of cells in these cliques' junction tree."""
        return tree_cells(shape, cliques)

    def room(
        self,
        shape: Shape,
        held: Sequence[Clique],
        more: Sequence[Clique],
        *,
        together: bool = False,
    ) -> list[bool]:
        """Whether a junction tree has room for each of `more` beside `held`."""
        return room(shape, held, more, self.limit, together=together)

    def fit(
        self,
        shape: Shape,
        measured: Sequence[Measured],
        *,
        total: float,
        start: Model | None = None,
        keep: bool = False,
        work: int | None = None,
    ) -> TreeModel:
        """The model nearest to the measurements, with `keep` also `start`.

        `work` bounds rounds * directions * visits of cells; there is at least one round.
        """
        tree, values = warm_tree(shape, measured, start, self.limit, keep=keep)
        total = max(float(total), 0.0)
        if total > 0 and measured:
            target = _target(tree, measured, self.smoothing, total)
            values = lifted(tree, target, values) if values.any() else values
            target = replace(target, origin=values) if keep else target
            rounds = self.rounds
            if work is not None:
                rounds = min(rounds, max(work // (DIRECTIONS * tree.visits), 1))
            values, settled = descend(tree, target, values, rounds, self.tolerance)
            return TreeModel(tree, values, total, settled)
        return TreeModel(tree, values, total)

    def unpack(
        self, shape: Shape, structure: np.ndarray, values: np.ndarray, total: float
    ) -> TreeModel:
        """The model that `pack` took apart."""
        cliques, potentials = _read(structure, len(shape))
        tree = tree_of(shape, cliques, potentials)
        flat, places = np.zeros(tree.arrays.part_first[-1]), np.arange(tree.arrays.part_first[-1])
        places = np.concatenate([places[part] for part in tree.slices] or [places[:0]])
        if len(places) != len(values):
            raise mismatch()
        flat[places] = values
        return TreeModel(tree, flat, total)


def warm_tree(
    shape: Shape, measured: Sequence[Measured], start: Model | None, limit: int, *, keep: bool
) -> tuple[Tree, np.ndarray]:
    """The tree of the measurements, and potentials from `start`.

    With `keep` it also holds the cliques of the start.
    """
    checked(shape, measured, start)
    cliques = tuple(dict.fromkeys(stored(shape, one.clique) for one in measured))
    if tree_cells(shape, cliques) > limit:
        raise ConfigError(
            f"The junction tree would have over {limit} cells: measure fewer marginals, or raise "
            f"`limit`."
        )
    held = _with_start(shape, cliques, start, limit) if keep else cliques
    tree = tree_of(shape, tree_cliques(shape, held), held)
    return tree, absorbed(tree, start.potentials if isinstance(start, TreeModel) else [])


def _with_start(
    shape: Shape, cliques: tuple[Clique, ...], start: Model | None, limit: int
) -> tuple[Clique, ...]:
    """Add the start's cliques, strongest ties first, within the limit."""
    if not isinstance(start, TreeModel):
        return cliques
    earlier = {clique: potential for clique, potential in start.potentials if clique not in cliques}
    if tree_cells(shape, [*cliques, *earlier]) <= limit:
        return (*cliques, *earlier)
    shares = start.marginals(list(earlier))
    ties = {
        clique: tie(earlier[clique], share) for clique, share in zip(earlier, shares, strict=True)
    }
    order = sorted(ties, key=lambda clique: -ties[clique])
    fit = room(shape, cliques, order, limit, together=True)
    return (*cliques, *itertools.compress(order, fit))


def _target(tree: Tree, measured: Sequence[Measured], smoothing: float, total: float) -> Target:
    """Combine measurements of one clique, weighted by precision."""
    places = dict(zip(tree.potentials, tree.slices, strict=True))
    counts, weights = np.zeros(tree.arrays.part_first[-1]), np.zeros(tree.arrays.part_first[-1])
    for one in measured:
        clique = stored(tree.shape, one.clique)
        axes = [one.clique.index(attribute) for attribute in clique]
        weight = np.broadcast_to(1.0 / np.asarray(one.variance, float), one.counts.shape)
        weight = weight.transpose(axes).ravel()
        counts[places[clique]] += weight * one.counts.transpose(axes).ravel()
        weights[places[clique]] += weight
    np.divide(counts, weights, out=counts, where=weights > 0)
    # One over a typical deviation.
    scale = float(np.sqrt(weights[weights > 0]).mean())
    return Target(counts, weights, smoothing * scale, total)


def _read(structure: np.ndarray, attributes: int) -> tuple[list[Clique], list[Clique]]:
    """(cliques, potentials) from the numbers that `pack` wrote."""
    numbers = iter(structure.tolist())
    try:
        count, more = next(numbers), next(numbers)
        cliques = [tuple(next(numbers) for _ in range(next(numbers))) for _ in range(count + more)]
    except (StopIteration, RuntimeError):
        raise mismatch() from None
    if next(numbers, None) is not None or not all(
        0 <= one < attributes for clique in cliques for one in clique
    ):
        raise mismatch()
    held, potentials = cliques[:count], cliques[count:]
    if not held or not all(any(set(one) <= set(clique) for clique in held) for one in potentials):
        raise mismatch()
    return held, potentials


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
) -> tuple[np.ndarray, bool]:
    """(potentials, settled): descend from `potentials`; the loss never grows.

    It ends after `rounds`, or when a round promises less than `tolerance` for each measured cell:
    then it has settled.
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
            return point.potentials, True
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
    return point.potentials, False


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
