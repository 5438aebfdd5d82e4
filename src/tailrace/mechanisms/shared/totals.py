"""Totals and means of amounts by group, beside counts.

Privacy: an amount's share of the budget, for the declared unit.

1. What one event can change. A row with an `Amount` adds its code, a whole number from 0 to the
   bound B, to one group's input of one counter, at one step; a deletion takes it away. Which group
   is the row's own affair: values are public, and all groups are counted.
2. That is what B events of one unit each would change, in the same row at the same step. So a unit
   whose m insertions and d deletions raise and lower counts by m and d in all raises and lowers
   the inputs by at most mB and dB, and loses `counter.loss(mB, dB)` (`noise/atoms.py`): the noise
   is that of a count, times B. Where the counter's budget is divided by B, nothing else changes.
3. Fix all releases: inputs of later steps may depend on them, where the counter allows it; all of
   ours do.
4. Counts and the sums of each amount are drawn apart, from shares of the budget that sum to one:
   their losses add up (`privacy/budget.py`).
5. A mean is a function of a noisy total and a noisy count: it costs nothing.

Accuracy: in units, a total has B^2 times the variance of a count under the same budget. Of codes
summed up to S in a group of N rows, the mean is low + unit S / N; to first order its variance is
unit^2 (var S + (S / N)^2 var N) / N^2 (delta method; S and N are independent), which holds where N
is large beside its own error.
Source: ours; clipping and noise by the bound as in every text on sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.counting.sums import Sums
from tailrace.domain import Amount, Schema
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.shared.bins import weights


@dataclass(frozen=True, eq=False)
class GroupTotals:
    """The total and the mean of an amount in each group, with standard errors.

    amount: what is added up.
    groups: the columns that make groups; None: all rows are one.
    """

    amount: Amount
    groups: Schema | None
    total: np.ndarray  # (groups,)
    total_error: np.ndarray  # (groups,)
    mean: np.ndarray  # (groups,)
    mean_error: np.ndarray  # (groups,)


@dataclass(frozen=True, eq=False)
class Totals:
    """Released sums of one amount by group.

    column, amount: what is added up.
    groups: the columns that make groups; None: all rows are one.
    units: of each group, in units above `low`.
    variance: of each of them.
    """

    column: str
    amount: Amount
    groups: Schema | None
    units: np.ndarray  # (groups,)
    variance: float

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the columns that make groups."""
        return () if self.groups is None else self.groups.columns

    def total(self, where: dict[str, Any], count: Estimate) -> Estimate:
        """The total of the rows that match, of which there are `count`."""
        units, variance = self._matching(where)
        value, error = self._totals(units, variance, count.value, count.error)
        return Estimate(float(value), float(error))

    def mean(self, where: dict[str, Any], count: Estimate) -> Estimate:
        """The mean of the rows that match, of which there are `count`."""
        units, variance = self._matching(where)
        value, error = self._means(units, variance, np.float64(count.value), count.error)
        return Estimate(float(value), float(error))

    def by_group(self, counts: np.ndarray, errors: Any) -> GroupTotals:
        """Totals and means of all groups, of which `counts` are the rows."""
        found = (self.units, np.full(counts.size, self.variance), counts.ravel(), errors)
        return GroupTotals(self.amount, self.groups, *self._totals(*found), *self._means(*found))

    def _totals(self, units: Any, variance: Any, counts: Any, errors: Any) -> tuple[Any, Any]:
        """Totals with standard errors, from units and counts."""
        low, unit = float(self.amount.low), float(self.amount.unit)
        return unit * units + low * counts, np.sqrt(unit**2 * variance + (low * errors) ** 2)

    def _means(self, units: Any, variance: Any, counts: Any, errors: Any) -> tuple[Any, Any]:
        """Means with standard errors; infinite ones where no rows are left.

        A mean lies between `low` and `high`, as every value does.
        """
        low, high, unit = (float(getattr(self.amount, n)) for n in ("low", "high", "unit"))
        some = counts > 0
        many = np.where(some, counts, 1.0)
        above = np.where(some, unit * units / many, (high - low) / 2)
        error = np.sqrt(unit**2 * variance + (above * errors) ** 2) / many
        return np.clip(low + above, low, high), np.where(some, error, math.inf)

    def _matching(self, where: dict[str, Any]) -> tuple[float, float]:
        if self.groups is None:
            known = () if not where else None
        else:
            known = None if set(where) - set(self.groups.columns) else self.groups.columns
        if known is None:
            by = f"by {', '.join(self.by)} only" if self.by else "over all rows only"
            raise ConfigError(
                f"'{self.column}' is added up {by}: ask for these, or name further columns in "
                "totals_by of the mechanism."
            )
        share = np.ones(1) if self.groups is None else weights(self.groups, where)
        return float(share @ self.units), float((share**2).sum()) * self.variance


def sums_of(domain: Schema, by: Sequence[str] | None) -> Sums:
    """The sums of a schema's amounts, by some of its other columns.

    None: by all of them.
    """
    bins = domain.bins
    chosen = bins.columns if by is None else tuple(by)
    axes = tuple(axis for axis, column in enumerate(bins.columns) if column in chosen)
    return Sums(bins.shape, axes, len(domain.amounts))


def groups_of(domain: Schema, sums: Sums) -> Schema | None:
    """The columns that make groups; None where all rows are one."""
    pairs = [(domain.bins.columns[axis], domain.bins.attributes[axis]) for axis in sums.by]
    return Schema(**dict(pairs)) if pairs else None
