"""The view of a tabular stream: model, marginals, counts, errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from tailrace.counting.marginals import Marginals
from tailrace.domain import Schema
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Looks
from tailrace.mechanisms.shared.bins import axes_of, check_columns, weights
from tailrace.models.tables import HasMarginals

M = TypeVar("M", bound=HasMarginals)

# Most cells of a marginal: an array of 80 MB.
_LARGEST = 10_000_000
# Misfit of workloads never chosen, relative to those chosen last. This, the next but one and the
# factors below were chosen by the coverage on nass_cds, gss_wages and tv16, in random order and by
# year; results/tabular_coverage.csv has that of Adult and evictions.
_NEVER_CHOSEN = 0.27
# Records added to a cell's count for its share of the misfit: an empty cell may hold some.
_FEW_RECORDS = 20.0
# Factors of the variance by noise: the model knows more of several columns than their own counts.
_OF_COLUMNS, _OF_SEVERAL = 1.1, 0.85


@dataclass(frozen=True, eq=False)
class Marginal:
    """Estimated counts of some columns' values, with standard errors."""

    columns: tuple[str, ...]
    values: np.ndarray  # an axis per column
    errors: np.ndarray  # of the same shape


@dataclass(frozen=True, eq=False, repr=False)
class TabularView(Looks, Generic[M]):
    """A released model; every answer has its standard error.

    domain: the table's columns.
    model: the distribution of all columns, scaled to the total.
    marginals: the workloads.
    variance: of a cell by noise, per workload; infinite where nothing was measured.
    misfit: squared distance of a never measured workload, in squared parts of the records.
    total: the number of records.
    moved: per workload, a variance that cells share by their counts: records not measured yet.
    """

    domain: Schema
    model: M
    marginals: Marginals
    variance: np.ndarray  # (workloads,)
    misfit: float
    total: Estimate
    moved: np.ndarray  # (workloads,)

    @property
    def facts(self) -> dict[str, str]:
        measured = f"{np.isfinite(self.variance).sum():,} of {len(self.variance):,} measured"
        columns = ", ".join(self.domain.columns)
        return {"columns": columns, "records": str(self.total), "workloads": measured}

    def marginal(self, *columns: str) -> Marginal:
        """Counts of each combination of values: `view.marginal("age", "sex")`."""
        domain = self.domain
        axes = axes_of(domain, columns)
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
        """The number of matching records: `view.count(sex="f", age=(20, 29))`.

        A tuple is a range (of whole numbers, both ends included, or of reals), a list is any of its
        values. A range that covers a part of a bin counts that part.
        """
        if not where:
            return self.total
        check_columns(self.domain, where)
        known = dict(zip(self.domain.columns, self.domain.attributes, strict=True))
        weight = weights(Schema(**{column: known[column] for column in where}), where)
        found = self.marginal(*where)
        values, variances = found.values.reshape(-1), found.errors.reshape(-1) ** 2
        return Estimate(float(weight @ values), math.sqrt(float(weight**2 @ variances)))

    def _variances(self, clique: tuple[int, ...], values: np.ndarray) -> np.ndarray:
        """The variance of each cell.

        It sums the noise of the measurements that contain it (or else its columns' noise and the
        model's misfit), records not measured yet, and the total's error.
        """
        total = max(self.total.value, 1.0)
        noise, shares = self._noise(clique), values / total
        known = math.isfinite(noise)
        unsure = np.full_like(values, noise) if known else self._unmeasured(values, clique)
        since = self._since(clique) if known else max(self._since((axis,)) for axis in clique)
        return unsure + since * shares + (shares * self.total.error) ** 2

    def _unmeasured(self, values: np.ndarray, clique: tuple[int, ...]) -> np.ndarray:
        """Variances where columns were never measured together.

        The misfit is spread over cells in proportion to the roots of their counts.
        """
        total = max(self.total.value, 1.0)
        variance = _NEVER_CHOSEN * self.misfit * total * (values + _FEW_RECORDS)
        for place, axis in enumerate(clique):
            # shares of the other columns' combinations
            others = values.sum(axis=place, keepdims=True) / total
            noise = self._noise((axis,))
            variance = variance + others**2 * (noise if math.isfinite(noise) else total**2)
        return variance

    def _since(self, clique: tuple[int, ...]) -> float:
        """The least variance of records not measured yet."""
        held = [
            float(moved)
            for moved, known, one in zip(
                self.moved, self.variance, self.marginals.cliques, strict=True
            )
            if math.isfinite(known) and set(clique).issubset(one)
        ]
        return min(held, default=0.0)

    def _noise(self, clique: tuple[int, ...]) -> float:
        """A cell's noise, all measurements pooled; infinite where none."""
        size = math.prod(self.domain.shape[axis] for axis in clique)
        telling = {axis for axis in clique if self.domain.shape[axis] > 1}
        precision = sum(
            size / (float(variance) * int(cells))
            for held, variance, cells in zip(
                self.marginals.cliques, self.variance, self.marginals.sizes, strict=True
            )
            if telling.issubset(held)
        )
        factor = _OF_COLUMNS if len(telling) < 2 else _OF_SEVERAL
        return factor / precision if precision else math.inf
