"""Tables of single batches, added up: no model holds their sum, but its marginals and rows are
known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.counting.marginals import Marginals
from tailrace.domain.digits import Digits
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Sample, Table
from tailrace.mechanisms.tabular.workloads import changed
from tailrace.models.tables.rows import resampled


@dataclass(frozen=True, eq=False)
class Added:
    """What a view asks of a model."""

    workload: Marginals
    sums: np.ndarray  # (cells,) of the workloads, over all batches
    last: Any  # the model of the last batch
    total: float

    @property
    def shape(self) -> tuple[int, ...]:
        return self.workload.shape

    def marginals(self, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        """The expected counts of marginals that lie in one of the workloads."""
        return [self._marginal(clique) for clique in cliques]

    def _marginal(self, clique: tuple[int, ...]) -> np.ndarray:
        telling = {axis for axis in clique if self.shape[axis] > 1}
        for j, held in enumerate(self.workload.cliques):
            if telling.issubset(held):
                others = tuple(place for place, axis in enumerate(held) if axis not in telling)
                found = self.workload.part(self.sums, j).sum(axis=others)
                scale = self.total / max(float(found.sum()), 1.0)
                return scale * found.reshape([self.shape[axis] for axis in clique])
        raise ConfigError(
            "Batches that are fitted apart know marginals of their workloads only: ask for those."
        )


def appended(
    codes: Digits, model: Added | None, previous: Table, rng: np.random.Generator
) -> Sample:
    """Rows of the last batch's model after all that were there; where there are too many, some of
    those leave.
    """
    many = len(previous.cells)
    wanted = 0 if model is None else round(model.total)
    stayed = np.ones(many, np.bool_)
    stayed[rng.permutation(many)[: max(many - wanted, 0)]] = False
    new = previous.cells[:0]
    if model is not None and wanted > many:
        new = resampled(model.last, previous.cells[:0], wanted - many, rng)[1]
    return changed(codes, previous, stayed, new, rng)
