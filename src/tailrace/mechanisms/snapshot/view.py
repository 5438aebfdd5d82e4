"""The view of a snapshot: its histogram, with standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.domain import Schema
from tailrace.domain.halving import halving
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.shared.bins import weights


@dataclass(frozen=True, eq=False)
class SnapshotView:
    """The histogram of a step, with standard errors.

    The error is that of the noise in the release, or in all that are combined. It leaves out the
    changes since the step `measured`, and the bias within leaves that hold several bins.
    """

    domain: Schema
    step: int
    measured: int  # the step of the latest release
    estimates: np.ndarray  # (bins,)
    # (bins,) of the details of the halving tree, or (1,) where it is one for all.
    variances: np.ndarray

    def count(self, **where: Any) -> Estimate:
        """Count records: `view.count(sex="f", age=(20, 29))`.

        A tuple is a range (of whole numbers, both ends included, or of reals), a list is any of its
        values. A bin of reals that a range covers in part counts in part.
        """
        asked = weights(self.domain, where)
        return Estimate(float(asked @ self.estimates), float(np.sqrt(self._variance(asked))))

    def _variance(self, asked: np.ndarray) -> float:
        """The variance of an answer: details are uncorrelated."""
        if len(self.variances) == 1:
            return float(self.variances[0] * (asked**2).sum())
        return float(
            self.variances @ np.concatenate(halving(self.domain.shape).details(asked)) ** 2
        )
