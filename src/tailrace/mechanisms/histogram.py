"""A histogram of events: one counter row per bin.

A row is fed with its bin's insertions less deletions.

Privacy: the declared loss of the declared unit over the horizon, neighbours add/remove.
1. An event (one insertion or deletion of one record) changes the input of one bin's counter, at one
   step, by one. All bins are counted, so which bins are present tells nothing.
2. So an event loses what it loses in the counter. Inputs may depend on past releases where the
   counter allows it; all of ours do.
3. A user of at most m accepted insertions, each deleted at most once, loses
   `counter.loss(events=m, deletes=m)` wherever they fall, or `counter.loss(events=m)` without
   deletes; the counter's budget is divided accordingly.
   A `Window`'s rows move the inputs by a - b of other sums (`privacy.unit.events_of`), and lose
   the counter's loss of those.
4. Truncation to m looks only at the unit's own rows, so removing a unit changes only its events.
Accuracy: each bin has the counter's variance, `counter.variance(t)`; bins are independent.
Source: PrivStream's counting at fixed cells (its Algorithm 3 without the tree); counters as in
`tailrace.counters`.
Departs: synthetic rows come from the nearest nonnegative histogram of the same total, rounded, and
change as little as it allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counters.base import Counter
from tailrace.counters.choice import allot, check_counter
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Schema
from tailrace.mechanisms.base import Estimate, Sample, State, Step, Table
from tailrace.mechanisms.shared.bins import axes_of, check_bins, frozen, resampled, weights
from tailrace.mechanisms.shared.events import OfEvents
from tailrace.noise import Draws
from tailrace.privacy.budget import restate
from tailrace.privacy.loss import Loss
from tailrace.privacy.unit import Unit


@dataclass(frozen=True)
class HistogramPublic:
    """Everything a histogram has released up to this step."""

    step: np.ndarray  # ()
    estimates: np.ndarray  # (bins,) running sums, unbiased, negative ones too


@dataclass(frozen=True)
class HistogramView:
    """Estimates of the bins; every answer has a standard error."""

    domain: Schema
    estimates: np.ndarray  # (bins,)
    variance: float  # of each bin; bins are independent

    def count(self, **where: Any) -> Estimate:
        """Count records: `view.count(sex="f", age=(20, 29))`.

        A tuple is a range (of whole numbers, both ends included, or of reals), a list is any of its
        values. A bin of reals that a range covers in part counts in part.
        """
        asked = weights(self.domain, where)
        error = float(np.sqrt((asked**2).sum() * self.variance))
        return Estimate(float(asked @ self.estimates), error)

    def marginal(self, *columns: str) -> tuple[np.ndarray, float]:
        """Sum the estimates over all other columns.

        Returns an array with an axis per column, and the standard error of its entries.
        """
        axes = axes_of(self.domain, columns)
        others = tuple(axis for axis in range(len(self.domain.shape)) if axis not in axes)
        summed = self.estimates.reshape(self.domain.shape).sum(axis=others)
        error = float(np.sqrt(self.variance * self.estimates.size / summed.size))
        return np.transpose(summed, [sorted(axes).index(axis) for axis in axes]), error


@told
@dataclass(frozen=True, kw_only=True)
class HistogramStream(OfEvents):
    """A histogram over `domain`, updated by insertions and deletions.

    >>> from tailrace import Categorical, Event, Integer, PureDP, Schema
    >>> ward = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 99))
    >>> bins = HistogramStream(domain=ward, privacy=PureDP(epsilon=1), unit=Event(), horizon=365)
    >>> bins.guarantee.short
    'epsilon = 1 for one event over 365 steps'
    """

    domain: Schema
    privacy: Loss
    unit: Unit
    horizon: int | None
    counter: Any = None
    deletes: bool = True

    def __post_init__(self) -> None:
        check_bins(self.domain)
        self._check()
        check_counter(self.counter)
        self.counting.init(0)  # a counter that does not fit is refused now, not at the first step

    @property
    def rows(self) -> Schema:
        return self.domain

    @property
    def counting(self) -> Counter[Any]:
        """The counter with its budget per event."""
        return allot(self.counter, privacy=self.privacy, horizon=self.horizon, events=self._events)

    def _loss(self, inserted: int, deleted: int) -> Loss:
        return restate(self.counting.loss(inserted, deleted), self.privacy)

    def init(self) -> State[HistogramPublic, object]:
        return State(
            public=HistogramPublic(np.zeros((), np.int64), np.zeros(self.domain.size)),
            private=self.counting.init(self.domain.size),
        )

    def plan(self, public: HistogramPublic) -> Plan:  # noqa: ARG002
        return Plan(codes=self.domain, key=self._key)

    def measure(
        self, state: State[HistogramPublic, object], counts: Counts, noise: Draws
    ) -> Step[HistogramPublic, object]:
        private, estimates = self.counting.step(state.private, counts.net, noise.at("bins"))
        public = HistogramPublic(np.asarray(state.public.step + 1), estimates.astype(float))
        return Step(State(public, private))

    def view(self, public: HistogramPublic) -> HistogramView | None:
        step = int(public.step)
        if not step:
            return None
        shown = frozen(public.estimates)
        return HistogramView(self.domain, shown, float(self.counting.variance(step)))

    def sample(
        self, view: HistogramView | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        estimates = np.zeros(self.domain.size) if view is None else view.estimates
        return resampled(self.domain, estimates, previous, rng)
