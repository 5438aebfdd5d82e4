"""Private-PGM's own estimator, from the optional package mbi: slower, and an independent check of JunctionTree."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.fit.base import Measured, Model, checked
from tailrace.fit.junction_tree import JunctionTree, TreeModel, with_start
from tailrace.fit.potentials import absorbed, views
from tailrace.fit.tree import stored, tree_of
from tailrace.fit.triangulation import Clique, tree_cells, tree_cliques


@told
@dataclass(frozen=True, kw_only=True)
class PGM:
    """Fits with mbi's mirror descent, `rounds` steps of it, on a junction tree of at most `limit` cells; needs `tailrace[pgm]`."""

    limit: int = 2**20
    rounds: int = 1000

    def __post_init__(self) -> None:
        if self.limit < 1 or self.rounds < 1:
            raise ConfigError("A PGM has a `limit` and `rounds` of at least 1.")

    def cells(self, shape: tuple[int, ...], cliques: Sequence[Clique]) -> int:
        """How many cells the junction tree of these cliques has."""
        return tree_cells(shape, cliques)

    def fit(
        self,
        shape: tuple[int, ...],
        measured: Sequence[Measured],
        *,
        total: float,
        start: Model | None = None,
        keep: bool = False,
    ) -> TreeModel:
        """The model of this total nearest to what was measured; with `keep`, moved on from `start`."""
        mbi, precise = _imported()
        checked(shape, measured, start)
        cliques = tuple(dict.fromkeys(stored(shape, one.clique) for one in measured))
        if self.cells(shape, cliques) > self.limit:
            raise ConfigError(
                f"The junction tree would have over {self.limit} cells: measure fewer marginals, or raise `limit`."
            )
        held = with_start(shape, cliques, start, self.limit) if keep else cliques
        tree, total = tree_of(shape, tree_cliques(shape, held), held), max(float(total), 0.0)
        values = absorbed(tree, start.potentials if isinstance(start, TreeModel) else [])
        if total == 0 or not cliques:
            return TreeModel(tree, values, total)
        unmeasured = [
            Measured(clique, np.zeros(tree.sizes(clique)), np.inf) for clique in held if clique not in cliques
        ]
        with precise():
            domain = mbi.Domain(range(len(shape)), shape)
            own = zip(tree.potentials, views(tree, values), strict=True)
            factors = {clique: mbi.Factor(domain.project(clique), table) for clique, table in own}
            found = mbi.estimation.MirrorDescent().estimate(
                domain,
                [_measurement(mbi, one) for one in (*measured, *unmeasured)],
                known_total=total,
                iters=self.rounds,
                warm_start=mbi.CliqueVector(domain, list(factors), factors),
            )
            fitted = [
                (tuple(clique), np.asarray(found.potentials[clique].values)) for clique in found.potentials.cliques
            ]
        return TreeModel(tree, absorbed(tree, fitted), total)

    def unpack(self, shape: tuple[int, ...], structure: np.ndarray, values: np.ndarray, total: float) -> TreeModel:
        """The model that `pack` took apart."""
        return JunctionTree().unpack(shape, structure, values, total)


def _measurement(mbi: Any, one: Measured) -> Any:
    deviation = np.sqrt(np.broadcast_to(one.variance, one.counts.shape).ravel())
    if np.all(deviation == deviation[0]):
        return mbi.LinearMeasurement(one.counts.ravel(), one.clique, stddev=float(deviation[0]))
    return mbi.LinearMeasurement(one.counts.ravel() / deviation, one.clique, query=mbi.WeightedQuery(1 / deviation))


def _imported() -> tuple[Any, Any]:
    """(mbi, a context in which jax counts in double precision)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mbi speaks of jax's settings, which are the caller's
        try:
            import mbi
        except ImportError:
            raise ConfigError("PGM needs the package mbi: install tailrace[pgm], or use JunctionTree.") from None
        import jax
    return mbi, lambda: jax.enable_x64(True)
