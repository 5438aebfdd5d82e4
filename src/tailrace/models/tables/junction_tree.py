"""A graphical model on a junction tree, by entropic descent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.models.tables.base import Conditional, Measured, Model, checked, mismatch
from tailrace.models.tables.descent import Target, absorbed, calibrated, descend, lifted, tie, views
from tailrace.models.tables.tree import Answers, Tree, stored, tree_of
from tailrace.models.tables.triangulation import Clique, Shape, tree_cells, tree_cliques


@dataclass(frozen=True, eq=False)
class TreeModel:
    """The distribution proportional to exp of summed potentials."""

    tree: Tree
    # The potentials, in the layout of the tree's parts.
    values: np.ndarray
    total: float

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

    def fit(
        self,
        shape: Shape,
        measured: Sequence[Measured],
        *,
        total: float,
        start: Model | None = None,
        keep: bool = False,
    ) -> TreeModel:
        """The model nearest to the measurements, with `keep` also `start`."""
        tree, values = warm_tree(shape, measured, start, self.limit, keep=keep)
        total = max(float(total), 0.0)
        if total > 0 and measured:
            target = _target(tree, measured, self.smoothing, total)
            values = lifted(tree, target, values) if values.any() else values
            target = replace(target, origin=values) if keep else target
            values = descend(tree, target, values, self.rounds, self.tolerance)
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
    held = list(cliques)
    for clique in sorted(ties, key=lambda clique: -ties[clique]):
        if tree_cells(shape, [*held, clique]) <= limit:
            held.append(clique)
    return tuple(held)


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
