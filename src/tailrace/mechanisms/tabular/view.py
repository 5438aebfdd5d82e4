"""What a tabular stream shows: a model of the whole table, and marginals and counts of it with
standard errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.counting.marginals import Marginals
from tailrace.domain import Schema
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.shared.bins import weights

_LARGEST = 10_000_000  # cells of a marginal that is asked for
_REST = 0.75  # of the misfit of what was chosen last: what was never chosen is nearer to the model
_FEW = (
    20.0  # records more than the model says, for the misfit: where it says none, there may be some
)
# times the noise: what imputing and fitting add, set by the coverage on Adult and on evictions
_UNSTATED = 1.25


@dataclass(frozen=True, eq=False)
class Marginal:
    """The estimated counts of some columns' values, with an axis per column, and the standard error
    of each.
    """

    columns: tuple[str, ...]
    values: np.ndarray
    errors: np.ndarray


@dataclass(frozen=True, eq=False)
class TabularView:
    """A released model; every answer comes with its standard error."""

    domain: Schema
    model: Any
    marginals: Marginals
    variance: np.ndarray  # (workloads,) of a cell by noise; infinite where nothing was measured
    misfit: (
        float  # squared distance of a workload that no measurement holds, in parts of the records
    )
    total: Estimate
    # (workloads,) a variance that cells share by their counts: records that were not measured yet
    moved: np.ndarray

    def marginal(self, *columns: str) -> Marginal:
        """How many records hold each value of a column, or each combination of values of several:
        `view.marginal("age", "sex")`.
        """
        domain = self.domain
        if (
            not columns
            or any(name not in domain.columns for name in columns)
            or len(set(columns)) != len(columns)
        ):
            raise ConfigError(
                f"marginal takes different columns of the domain: {', '.join(domain.columns)}."
            )
        axes = [domain.columns.index(column) for column in columns]
        if math.prod(domain.shape[axis] for axis in axes) > _LARGEST:
            raise ConfigError(
                f"This marginal has more than {_LARGEST:,} cells: ask for fewer columns."
            )
        clique = tuple(sorted(axes))
        values = np.transpose(
            self.model.marginals([clique])[0], [clique.index(axis) for axis in axes]
        )
        return Marginal(columns, values, np.sqrt(self._variances(tuple(axes), values)))

    def count(self, **where: Any) -> Estimate:
        """How many records: `view.count(sex="f", age=(20, 29))`.

        A tuple is a range (of whole numbers, both ends included, or of reals), a list is any of its
        values. A bin of reals that a range covers in part counts in part.
        """
        if not where:
            return self.total
        known = dict(zip(self.domain.columns, self.domain.attributes, strict=True))
        unknown = [column for column in where if column not in known]
        if unknown:
            raise ConfigError(
                f"The domain has no column '{unknown[0]}': it has {', '.join(known)}."
            )
        wanted = weights(Schema(**{column: known[column] for column in where}), where)
        found = self.marginal(*where)
        values, variances = found.values.reshape(-1), found.errors.reshape(-1) ** 2
        return Estimate(float(wanted @ values), math.sqrt(float(wanted**2 @ variances)))

    def _variances(self, clique: tuple[int, ...], values: np.ndarray) -> np.ndarray:
        """Of each cell: by all measurements that hold it, or else by its columns' and by the
        model's misfit; by what came since; and by the total."""
        total = max(self.total.value, 1.0)
        noise, shares = self._noise(clique), values / total
        known = math.isfinite(noise)
        unsure = np.full_like(values, noise) if known else self._unmeasured(values, clique)
        since = self._since(clique) if known else max(self._since((axis,)) for axis in clique)
        return unsure + since * shares + (shares * self.total.error) ** 2

    def _unmeasured(self, values: np.ndarray, clique: tuple[int, ...]) -> np.ndarray:
        """Where columns were measured, but not together: what is off is taken to be so in
        proportion to the counts' roots.
        """
        total = max(self.total.value, 1.0)
        variance = _REST * self.misfit * total * (values + _FEW)
        for place, axis in enumerate(clique):
            others = (
                values.sum(axis=place, keepdims=True) / total
            )  # shares of the other columns' combinations
            noise = self._noise((axis,))
            variance = variance + others**2 * (noise if math.isfinite(noise) else total**2)
        return variance

    def _since(self, clique: tuple[int, ...]) -> float:
        """What came since, by the measurement that knows most of it."""
        held = [
            float(moved)
            for moved, known, one in zip(
                self.moved, self.variance, self.marginals.cliques, strict=True
            )
            if math.isfinite(known) and set(clique).issubset(one)
        ]
        return min(held, default=0.0)

    def _noise(self, clique: tuple[int, ...]) -> float:
        """Of a cell by the measurements that hold it, weighed by their variances; infinite where
        there is none.
        """
        size = math.prod(self.domain.shape[axis] for axis in clique)
        telling = {axis for axis in clique if self.domain.shape[axis] > 1}
        precision = sum(
            size / (float(variance) * int(cells))
            for held, variance, cells in zip(
                self.marginals.cliques, self.variance, self.marginals.sizes, strict=True
            )
            if telling.issubset(held)
        )
        return _UNSTATED / precision if precision else math.inf
