"""What is shown of a series of snapshots: the histogram that stands at a step, with the standard
errors of its noise.
"""

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
    """The bins with their estimates as of the step they were measured at; every answer comes with
    its standard error.

    The error is that of the noise in the release (and, where releases are combined, of what they
    leave open). What has changed since `measured` is not in it, nor what bins hide below the leaves
    of a tree that does not reach them.
    """

    domain: Schema
    step: int
    measured: int  # the step of the latest release
    estimates: np.ndarray  # (bins,)
    variances: (
        np.ndarray
    )  # (bins,) of the details of the halving tree, or (1,) where it is one for all

    def count(self, **where: Any) -> Estimate:
        """How many records: `view.count(sex="f", age=(20, 29))`.

        A tuple is a range (of whole numbers, both ends included, or of reals), a list is any of its
        values. A bin of reals that a range covers in part counts in part.
        """
        asked = weights(self.domain, where)
        return Estimate(float(asked @ self.estimates), float(np.sqrt(self._variance(asked))))

    def _variance(self, asked: np.ndarray) -> float:
        """Details are uncorrelated, so their squared weights add up."""
        if len(self.variances) == 1:
            return float(self.variances[0] * (asked**2).sum())
        return float(
            self.variances @ np.concatenate(halving(self.domain.shape).details(asked)) ** 2
        )
