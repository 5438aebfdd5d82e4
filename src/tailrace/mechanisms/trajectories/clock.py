"""Times of synthetic points: first times, and times between points.

**Privacy.**
1. A trajectory adds half of its part to the bin of its first time, and half to that of the mean
   time between its points.
2. The bins are public, and all get noise.

Points of one trajectory are equally far apart in time, as most records are: where it has many
points in a cell it is slow there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

import narwhals as nw
import numpy as np

from tailrace.calls import told
from tailrace.counting.journeys.masses import Masses
from tailrace.counting.journeys.reading import Journeys
from tailrace.errors import ConfigError
from tailrace.privacy.loss import Number, exact, real, whole

# Bins of the time between points, by reasoning: each is twice as wide as the one two before it, and
# the last ends at the whole of the clock.
_GAPS = 64
# Microseconds in a second.
_MICRO = 10**6


@told
@dataclass(frozen=True, kw_only=True)
class DayClock:
    """Times from `start` to `end`, both public.

    They are numbers, or ISO 8601 texts (UTC where they name no zone), as `order` has them. First
    times are counted in `bins`, in a `share` of the budget relative to other parts.

    >>> DayClock(start="2026-01-01", end="2026-01-02", bins=24).limits
    (1767225600000000.0, 1767312000000000.0)
    """

    start: float | str
    end: float | str
    bins: int = 48
    share: Number = Fraction(1, 25)

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", exact("share", self.share))
        object.__setattr__(self, "bins", whole("bins", self.bins))
        if isinstance(self.start, str) != isinstance(self.end, str):
            raise ConfigError(
                "start and end of a DayClock must both be numbers, or both be times as text."
            )
        low, high = self.limits
        if not np.isfinite(high - low) or high <= low:
            raise ConfigError("start of a DayClock must lie before its end.")

    @property
    def limits(self) -> tuple[float, float]:
        """Start and end as numbers; times in microseconds."""
        return _number(self.start), _number(self.end)

    @property
    def size(self) -> int:
        return self.bins + _GAPS

    @property
    def dtype(self) -> nw.dtypes.DType:
        return nw.String() if isinstance(self.start, str) else nw.Float64()

    def count(self, journeys: Journeys, whole: int) -> Masses:
        """Count first times, then times between points."""
        low, high = self.limits
        share, points = whole // journeys.among, np.diff(journeys.offsets)
        # Orders may be infinite.
        span = np.clip(journeys.span, low - (high - low), high + (high - low))
        begin = np.clip((span[0] - low) / (high - low), 0.0, 1.0)
        first = np.minimum((begin * self.bins).astype(np.int64), self.bins - 1)
        several = np.flatnonzero(points > 1)
        gap = np.diff(span, axis=0)[0, several] / (points[several] - 1) / (high - low)
        octave = np.floor(2 * np.log2(np.clip(gap, 2.0**-_GAPS, 1.0)) + _GAPS)
        later = self.bins + np.clip(octave, 0, _GAPS - 1).astype(np.int64)
        parts = np.concatenate([share // 2, share[several] // 2])
        return Masses.of(np.concatenate([first, later]), parts)

    def folded(self, span: np.ndarray) -> np.ndarray:
        """First times within one period, from `start` to `end`; last ones as long after."""
        low, high = self.limits
        # Orders may be infinite.
        first, last = np.clip(span, -(2.0**62), 2.0**62)
        begin = low + (first - low) % (high - low)
        return np.stack([begin, begin + (last - first)])

    def draw(
        self,
        counts: np.ndarray,
        offsets: np.ndarray,
        rng: np.random.Generator,
        periods: np.ndarray | int = 0,
    ) -> np.ndarray:
        """(points,) times of trajectories with these offsets, by noisy counts.

        So many whole `periods` later, each of as long as from `start` to `end`.
        """
        (low, high), many = self.limits, len(offsets) - 1
        begin = (_chosen(counts[: self.bins], many, rng) + rng.random(many)) / self.bins + periods
        gap = 2.0 ** ((_chosen(counts[self.bins :], many, rng) + rng.random(many) - _GAPS) / 2)
        points = np.diff(offsets)
        place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], points)
        times = low + (np.repeat(begin, points) + np.repeat(gap, points) * place) * (high - low)
        return self.written(times)

    def written(self, times: np.ndarray) -> np.ndarray:
        """Times as numbers, or as texts to the second."""
        if not isinstance(self.start, str):
            return times
        instants = np.clip(times / _MICRO, -6.2e10, 2.5e11).astype(np.int64).astype("datetime64[s]")
        return np.datetime_as_string(instants).astype(object)


def _chosen(counts: np.ndarray, many: int, rng: np.random.Generator) -> np.ndarray:
    """Draw bins by positive noisy counts; evenly without any."""
    weights = np.maximum(counts, 0.0)
    weights = weights if weights.any() else np.ones(len(weights))
    return rng.choice(len(weights), many, p=weights / weights.sum())


def _number(value: float | str) -> float:
    if not isinstance(value, str):
        return real("start and end of a DayClock", value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ConfigError(
            'start and end of a DayClock must be numbers or times, for example "2026-01-01".'
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * _MICRO
