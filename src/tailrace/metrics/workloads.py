"""Errors of the marginals of a synthetic table.

Every marginal (workload) W is taken as proportions, each table divided by its own total, as in
TabularStream's paper. With f the true proportion of a cell and g the synthetic one:

| name            | of one workload                            | over all workloads |
|-----------------|--------------------------------------------|--------------------|
| WE              | the mean over cells of |f - g|             | AvgWE, MaxWE       |
| RelWE           | the mean over cells of |f - g| / f         | AvgRelWE, MaxRelWE |
| total variation | half the sum over cells of |f - g|         | mean               |

The paper leaves RelWE open where f is 0: here such cells are left out of its mean, so rows that
were invented for them show in WE and in the total variation alone. A synthetic table without rows
has proportions of 0; without true rows all errors are nan.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.calls import told
from tailrace.counting.marginals import Marginals
from tailrace.errors import DataError


@told
@dataclass(frozen=True, eq=False)
class WorkloadError:
    """The errors of each workload, and the paper's summaries."""

    absolute: np.ndarray  # (workloads,) WE
    relative: np.ndarray  # (workloads,) RelWE
    variation: np.ndarray  # (workloads,) total variation

    @property
    def average(self) -> float:
        """AvgWE."""
        return float(self.absolute.mean())

    @property
    def largest(self) -> float:
        """MaxWE."""
        return float(self.absolute.max())

    @property
    def average_relative(self) -> float:
        """AvgRelWE."""
        return float(self.relative.mean())

    @property
    def largest_relative(self) -> float:
        """MaxRelWE."""
        return float(self.relative.max())

    @property
    def average_variation(self) -> float:
        """The mean total variation."""
        return float(self.variation.mean())


@told
def workload_error(true: np.ndarray, synthetic: np.ndarray, marginals: Marginals) -> WorkloadError:
    """The errors of synthetic marginals, from flat counts.

    >>> sexes = Marginals(shape=(2,), cliques=((0,),))
    >>> error = workload_error(np.array([3, 1]), np.array([10, 10]), sexes)
    >>> error.average, error.average_variation
    (0.25, 0.25)
    """
    if np.shape(true) != (marginals.size,) or np.shape(synthetic) != (marginals.size,):
        raise DataError(f"Counts of these marginals are flat arrays of {marginals.size:,} numbers.")
    starts, sizes = marginals.offsets[:-1], marginals.sizes
    totals = np.add.reduceat(np.asarray(true, float), starts)
    if (totals <= 0).any():
        none = np.full(len(sizes), np.nan)
        return WorkloadError(none, none, none)
    f, g = _proportions(true, marginals), _proportions(synthetic, marginals)
    off, held = np.abs(f - g), f > 0
    shares = np.divide(off, f, out=np.zeros_like(off), where=held)
    sums = np.add.reduceat(off, starts)
    return WorkloadError(
        absolute=sums / sizes,
        relative=np.add.reduceat(shares, starts) / np.add.reduceat(held, starts, dtype=np.int64),
        variation=sums / 2,
    )


def _proportions(counts: np.ndarray, marginals: Marginals) -> np.ndarray:
    """Each marginal divided by its total; 0 without rows."""
    values = np.asarray(counts, float)
    totals = np.repeat(np.add.reduceat(values, marginals.offsets[:-1]), marginals.sizes)
    return np.divide(values, totals, out=np.zeros_like(values), where=totals > 0)
