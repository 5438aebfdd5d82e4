"""Multiplicative weights over the full table (MWEM's update)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

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

# The logarithm of a factor, at most. Chosen by reasoning: only noise larger than the table itself
# asks for more.
LARGEST = 1.0


@told
@dataclass(frozen=True, eq=False)
class TableModel:
    """A table of probabilities, one for each cell."""

    probabilities: np.ndarray
    total: float

    # Its rounds are all it is given.
    settled: ClassVar[bool] = True

    @property
    def shape(self) -> Shape:
        return self.probabilities.shape

    def marginals(self, cliques: Sequence[Clique]) -> list[np.ndarray]:
        """Expected counts: nonnegative, each marginal sums to the total."""
        return [self.total * _marginal(self.probabilities, tuple(clique)) for clique in cliques]

    def conditionals(self) -> list[Conditional]:
        """Every attribute once, each given all before it."""
        result = []
        for one, size in enumerate(self.shape):
            joint = self.probabilities.reshape(prod(self.shape[:one]), size, -1).sum(axis=2)
            mass = joint.sum(axis=1, keepdims=True)
            shares = np.divide(joint, mass, out=np.full(joint.shape, 1 / size), where=mass > 0)
            result.append(Conditional(one, tuple(range(one)), shares))
        return result

    def pack(self) -> tuple[np.ndarray, np.ndarray]:
        """(structure, values): the table's shape, and its probabilities."""
        return np.array(self.shape, np.int64), self.probabilities.ravel()


@told
@dataclass(frozen=True, kw_only=True)
class MultiplicativeWeights:
    """Fits a full table by multiplicative weights.

    A cell is multiplied by exp(missing / (2 total)), where `missing` is the measured count of its
    marginal less the model's; less where a measurement is less precise than the most precise.

    Parameters
    limit: the most cells of the table.
    rounds: how often it goes through all measurements.

    >>> measured = [Measured((0, 1), np.array([[6.0, 1.0], [1.0, 2.0]]), 1.0)]
    >>> model = MultiplicativeWeights().fit((2, 2), measured, total=10)
    >>> model.marginals([(1,)])[0].round()
    array([7., 3.])
    """

    limit: int = 2**22
    rounds: int = 50

    def __post_init__(self) -> None:
        if self.limit < 1 or self.rounds < 1:
            raise ConfigError("Multiplicative weights have a `limit` and `rounds` of at least 1.")

    def cells(self, shape: Shape, cliques: Sequence[Clique]) -> int:
        """The cells of the full table, whatever is measured."""
        del cliques
        return prod(shape)

    def room(
        self,
        shape: Shape,
        held: Sequence[Clique],
        more: Sequence[Clique],
        *,
        together: bool = False,
    ) -> list[bool]:
        """For all or for none: the table holds every marginal."""
        del held, together
        return [prod(shape) <= self.limit] * len(more)

    def fit(
        self,
        shape: Shape,
        measured: Sequence[Measured],
        *,
        total: float,
        start: Model | None = None,
        keep: bool = False,  # noqa: ARG002 - updates always move on from the start
        work: int | None = None,
    ) -> TableModel:
        """The updated table, from `start` or an even one."""
        checked(shape, measured, start)
        if prod(shape) > self.limit:
            raise ConfigError(
                f"The full table has over {self.limit} cells: use JunctionTree, or raise `limit`."
            )
        total = max(float(total), 0.0)
        table = np.full(shape, 1 / prod(shape))
        if isinstance(start, TableModel):
            table = start.probabilities.copy()
        if total == 0 or not measured:
            return TableModel(table, total)
        surest = min(float(np.min(one.variance)) for one in measured)
        most = self.rounds if work is None else min(self.rounds, work // table.size + 1)
        for _ in range(most):
            for one in measured:
                missing = one.counts - total * _marginal(table, one.clique)
                change = np.clip(
                    missing / (2 * total) * (surest / np.asarray(one.variance)), -LARGEST, LARGEST
                )
                table *= _spread(np.exp(change), one.clique, len(shape))
                table /= table.sum()
        return TableModel(table, total)

    def unpack(
        self, shape: Shape, structure: np.ndarray, values: np.ndarray, total: float
    ) -> TableModel:
        """The model that `pack` took apart."""
        if tuple(structure.tolist()) != tuple(shape) or values.size != prod(shape):
            raise mismatch()
        return TableModel(values.reshape(shape), total)


def _marginal(table: np.ndarray, clique: Clique) -> np.ndarray:
    kept = sorted(clique)
    summed = table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in clique))
    return summed.transpose([kept.index(one) for one in clique])


def _spread(values: np.ndarray, clique: Clique, axes: int) -> np.ndarray:
    """Values of a clique, broadcastable to the whole table."""
    aligned = values.transpose(np.argsort(clique))
    lengths = iter(aligned.shape)
    return aligned.reshape([next(lengths) if axis in clique else 1 for axis in range(axes)])
