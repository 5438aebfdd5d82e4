"""What Theorems 5.1 to 5.3 of Li et al. 2015 promise, corrected.

For DSFT and DSAT with Laplace noise on bins, in records, with the scales that are drawn: b of a
release's bin, b_T of the threshold, b_q of a distance.

1. At a release (5.1), a count over m bins is off by a sum of m Laplace variables of scale b. By
   Lemma 5.1 it exceeds g sqrt(8 ln(2 / s)) with probability s at most, for g >= b sqrt(m) and
   g >= b sqrt(ln(2 / s)).
2. Between releases (5.1 for DSFT, 5.2 for DSAT), a comparison was negative: distance + noise <
   threshold + nu. Each of nu and minus noise exceeds its scale times ln(1 / s) with probability
   s / 2, so the distance is below threshold + (b_T + b_q) ln(1 / s) with probability 1 - s. The
   distance is to the noisy release itself, so no count is off by more.
3. So the noise of a decision is at most a share a of the threshold (5.3) where there are at least
   (b_T + b_q) ln(1 / s) / (a T) people, T the threshold as a share of them.

Departs: the printed 5.1 takes g = b sqrt(ln(2 / s)) for any m, which Lemma 5.1 does not allow for
m > ln(2 / s). It adds a release's noise between releases, where the distance has it already.
"""

from __future__ import annotations

import math

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.mechanisms.snapshot import levels
from tailrace.mechanisms.snapshot.comparing import Comparing
from tailrace.mechanisms.snapshot.histogram import SnapshotHistogram
from tailrace.papers.snapshot_policies.sampling import DSAT, DSFT
from tailrace.papers.snapshot_policies.static import LaplaceBins
from tailrace.privacy.loss import PureDP


@told
def release_error(mechanism: SnapshotHistogram, *, bins: int, sigma: float) -> float:
    """The error of a count at a release (Theorem 5.1).

    It is not exceeded with probability 1 - sigma by a count over this many bins.
    """
    policy = _checked(mechanism)
    unit, records = policy.split(mechanism.series).unit, mechanism.series.records
    (share,) = LaplaceBins().levels(mechanism.series.tree).values()
    scale, log = float(levels.scale(unit, share, records)), math.log(2 / sigma)
    return scale * math.sqrt(max(bins, log)) * math.sqrt(8 * log)


@told
def standing_error(mechanism: SnapshotHistogram, *, threshold: float, sigma: float) -> float:
    """The error of any count between releases (Theorems 5.1, 5.2).

    It is not exceeded with probability 1 - sigma, where the threshold is this many people.
    """
    return threshold + _decided(mechanism) * math.log(1 / sigma)


@told
def least_people(
    mechanism: SnapshotHistogram, *, threshold: float, sigma: float, share: float
) -> int:
    """People that decisions need (Theorem 5.3).

    With probability 1 - sigma their noise is at most this share of the threshold, itself a share of
    all people.
    """
    return math.ceil(_decided(mechanism) * math.log(1 / sigma) / (share * threshold))


def _decided(mechanism: SnapshotHistogram) -> float:
    """b_T + b_q."""
    scales = _checked(mechanism)._sampling(mechanism.series)._comparing
    if not isinstance(scales, Comparing):
        raise ConfigError("With one release nothing is compared: give more releases.")
    return float(scales.threshold_scale + scales.distance_scale)


def _checked(mechanism: SnapshotHistogram) -> DSFT | DSAT:
    policy = mechanism.policy
    pure = isinstance(mechanism.series.privacy, PureDP)
    if not isinstance(policy, DSFT | DSAT) or mechanism.histogram != LaplaceBins() or not pure:
        raise ConfigError(
            "The theorems are about DSFT and DSAT with PureDP and histogram=LaplaceBins()."
        )
    return policy
