"""Private-PGM's own estimator, from the optional package mbi.

It is slower than JunctionTree, and an independent check of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.models.tables.base import Clique, Measured, Model, Shape
from tailrace.models.tables.junction_tree import (
    JunctionTree,
    TreeModel,
    absorbed,
    views,
    warm_tree,
)
from tailrace.models.tables.tree import room, stored, tree_cells


@told
@dataclass(frozen=True, kw_only=True)
class PGM:
    """Fits with mbi's mirror descent; needs `tailrace[pgm]`.

    Parameters
    limit: the most cells of the junction tree.
    rounds: the steps of mirror descent.
    """

    limit: int = 2**20
    rounds: int = 1000

    def __post_init__(self) -> None:
        if self.limit < 1 or self.rounds < 1:
            raise ConfigError("A PGM has a `limit` and `rounds` of at least 1.")

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
        """The model nearest to the measurements, with `keep` from `start`."""
        mbi, precise = _imported()
        tree, values = warm_tree(shape, measured, start, self.limit, keep=keep)
        total = max(float(total), 0.0)
        if total == 0 or not measured:
            return TreeModel(tree, values, total)
        unmeasured = [
            Measured(clique, np.zeros(tree.sizes(clique)), np.inf)
            for clique in tree.potentials
            if clique not in {stored(shape, one.clique) for one in measured}
        ]
        with precise():
            domain = mbi.Domain(range(len(shape)), shape)
            own = zip(tree.potentials, views(tree, values), strict=True)
            factors = {clique: mbi.Factor(domain.project(clique), table) for clique, table in own}
            found = mbi.estimation.MirrorDescent().estimate(
                domain,
                [_measurement(mbi, one) for one in (*measured, *unmeasured)],
                known_total=total,
                iters=self.rounds if work is None else min(self.rounds, work // len(values) + 1),
                warm_start=mbi.CliqueVector(domain, list(factors), factors),
            )
            fitted = [
                (tuple(clique), np.asarray(found.potentials[clique].values))
                for clique in found.potentials.cliques
            ]
        return TreeModel(tree, absorbed(tree, fitted), total)

    def unpack(
        self, shape: Shape, structure: np.ndarray, values: np.ndarray, total: float
    ) -> TreeModel:
        """The model that `pack` took apart."""
        return JunctionTree().unpack(shape, structure, values, total)


def _measurement(mbi: Any, one: Measured) -> Any:
    deviation = np.sqrt(np.broadcast_to(one.variance, one.counts.shape).ravel())
    if np.all(deviation == deviation[0]):
        return mbi.LinearMeasurement(one.counts.ravel(), one.clique, stddev=float(deviation[0]))
    return mbi.LinearMeasurement(
        one.counts.ravel() / deviation, one.clique, query=mbi.WeightedQuery(1 / deviation)
    )


def _imported() -> tuple[Any, Any]:
    """(mbi, a context in which jax uses double precision)."""
    with warnings.catch_warnings():
        # mbi warns of jax's settings, which are the caller's.
        warnings.simplefilter("ignore")
        try:
            import mbi
        except ImportError:
            raise ConfigError(
                "PGM needs the package mbi: install tailrace[pgm], or use JunctionTree."
            ) from None
        import jax
    return mbi, lambda: jax.enable_x64(True)
