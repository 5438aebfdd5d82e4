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
5. Where the domain has amounts, counts and the sums of each amount take shares of the budget, and
   their losses add up (`shared/totals.py`).
6. Where a list of values grows, comparisons of unknown values take a share of epsilon and delta
   (`shared/growth.py`). Bins of values to come are counted from the first step: which of them a row
   lies in is fixed by earlier releases.
Accuracy: each bin has the counter's variance, `counter.variance(t)`; bins are independent.
Source: PrivStream's counting at fixed cells (its Algorithm 3 without the tree); counters as in
`tailrace.counters`.
Departs: synthetic rows come from the nearest nonnegative histogram of the same total, rounded, and
change as little as it allows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counters.base import Counter
from tailrace.counters.choice import allot, allot_parts, check_counter
from tailrace.counting.marginals import Marginals
from tailrace.counting.plan import Counts, Plan, TextCounts
from tailrace.counting.sums import Sums
from tailrace.domain import Categorical, Schema
from tailrace.domain.growing import growing_column, grown, settled, settled_codes
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Looks, Sample, State, Step, Table
from tailrace.mechanisms.shared.bins import (
    axes_of,
    check_bins,
    check_columns,
    frozen,
    resampled,
    weights,
)
from tailrace.mechanisms.shared.events import OfEvents
from tailrace.mechanisms.shared.growth import Candidates, Growth, TakenUp
from tailrace.mechanisms.shared.strata import Strata
from tailrace.mechanisms.shared.totals import GroupTotals, Totals, groups_of, sums_of
from tailrace.noise import Draws
from tailrace.privacy.budget import restate
from tailrace.privacy.loss import ApproxDP, Loss, exact
from tailrace.privacy.unit import Event, Unit, Window


@dataclass(frozen=True)
class HistogramPublic:
    """Everything a histogram has released up to this step."""

    step: np.ndarray  # ()
    estimates: np.ndarray  # (bins,) running sums, unbiased, negative ones too


@dataclass(frozen=True)
class TotalsPublic(HistogramPublic):
    """The same, with the sums of amounts."""

    sums: np.ndarray  # (amounts, groups) running sums in units, unbiased


@dataclass(frozen=True)
class TotalsPrivate:
    """The states of all counters, where there are amounts."""

    bins: Any
    sums: tuple[Any, ...]


@dataclass(frozen=True)
class GrowingPublic(HistogramPublic):
    """The same, with the values taken up."""

    taken: TakenUp


@dataclass(frozen=True)
class GrowingPrivate:
    """The counter's state, and unknown values."""

    bins: Any
    candidates: Candidates


@dataclass(frozen=True, repr=False)
class HistogramView(Looks):
    """Estimates of the bins; every answer has a standard error."""

    domain: Schema
    estimates: np.ndarray  # (bins,)
    variance: float  # of each bin; bins are independent
    amounts: dict[str, Totals] = field(default_factory=dict)  # by column
    # Values of a growing list, with the step after which they count by themselves.
    grown: dict[str, int] = field(default_factory=dict)

    @property
    def strata(self) -> Strata:
        """What `Release.drawn` draws rows from."""
        return Strata.of_bins(self.domain, self.estimates)

    @property
    def facts(self) -> dict[str, str]:
        cells = f"{len(self.estimates):,} of {', '.join(self.domain.columns)}"
        added = {"totals of": ", ".join(self.amounts)} if self.amounts else {}
        return {"cells": cells, "records": str(self.count()), **added}

    def count(self, **where: Any) -> Estimate:
        """Count records: `view.count(sex="f", age=(20, 29))`.

        A tuple is a range (of whole numbers, both ends included, or of reals), a list is any of its
        values. A bin of reals that a range covers in part counts in part.
        """
        asked = weights(self.domain, where)
        error = float(np.sqrt((asked**2).sum() * self.variance))
        return Estimate(float(asked @ self.estimates), error)

    def total(self, column: str, /, **where: Any) -> Estimate:
        """Add up an amount: `view.total("price", district=3)`.

        Conditions are those of `count`, on columns by which the amount is added up.
        """
        return self._amount(column).total(where, self.count(**where))

    def mean(self, column: str, /, **where: Any) -> Estimate:
        """The mean of an amount, with conditions as in `total`.

        Its error holds where the count is large beside its own error.
        """
        return self._amount(column).mean(where, self.count(**where))

    def totals(self, column: str) -> GroupTotals:
        """The total and the mean of an amount in each group."""
        found = self._amount(column)
        if found.by:
            return found.by_group(*self.marginal(*found.by))
        every = self.count()
        return found.by_group(np.array([every.value]), every.error)

    def _amount(self, column: str) -> Totals:
        if column not in self.amounts:
            there = ", ".join(self.amounts) or "none: declare one as Amount(low, high, unit=...)"
            raise ConfigError(f"There is no amount '{column}' in this stream; it has {there}.")
        return self.amounts[column]

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

    Parameters
    domain: the table's columns; amounts among them are added up, and are in no synthetic row.
    privacy, unit: the loss, and who is protected.
    horizon: steps; None: no end.
    counter: a counter without a budget; None: the best one.
    deletes: whether records leave.
    totals_by: the columns by which amounts are added up; none: all.
    totals_share: the part of the budget for sums, divided among the amounts.
    growing_share: the part of epsilon and delta that finds values of a growing list.

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
    totals_by: Sequence[str] | None = None
    totals_share: float = 0.5
    growing_share: float = 0.25

    def __post_init__(self) -> None:
        check_bins(self.domain, amounts=True, growing=True)
        self._check()
        check_counter(self.counter)
        if self.totals_by is not None:
            if isinstance(self.totals_by, str) or not self.domain.amounts:
                raise ConfigError(
                    "totals_by is a list of columns by which the amounts of the domain are added "
                    "up: declare one, for example price=Amount(0, 500)."
                )
            object.__setattr__(self, "totals_by", tuple(self.totals_by))
            check_columns(self.rows, self.totals_by)
        exact("totals_share", self.totals_share, below=1)
        exact("growing_share", self.growing_share, below=1)
        if self._growing is not None:
            self._check_growing(self._growing)
        # A counter that does not fit is refused now, not at the first step.
        for counter in (self.counting, *self.adding):
            counter.init(0)

    def _check_growing(self, column: str) -> None:
        """Refuse what no growing list can promise."""
        if not isinstance(self.privacy, ApproxDP):
            raise ConfigError(
                f"privacy must be ApproxDP(epsilon=..., delta=...) where the values of '{column}' "
                "grow: delta is the probability that a value of one person alone appears."
            )
        if isinstance(self.unit, Window) or self.deletes or self.horizon is None:
            raise ConfigError(
                f"The values of '{column}' grow: this takes unit=Event() or User(column=..., "
                "events=m), deletes=False and a horizon."
            )
        several = sum(bool(getattr(one, "growing", False)) for one in self.domain.attributes)
        if several > 1 or self.domain.amounts:
            raise ConfigError("domain may have one growing list of values, and then no amounts.")
        assert self._growth is not None
        self._growth.check()

    @functools.cached_property
    def _growing(self) -> str | None:
        """The column whose list of values grows."""
        return growing_column(self.domain)

    @functools.cached_property
    def _growth(self) -> Growth | None:
        if self._growing is None or not isinstance(self.privacy, ApproxDP):
            return None
        share = exact("growing_share", self.growing_share, below=1)
        budget = ApproxDP(epsilon=share * self.privacy.epsilon, delta=share * self.privacy.delta)
        room = getattr(self.domain.attributes[self._axis], "room", 0)
        hashed = not isinstance(self.unit, Event)
        return Growth(budget, sum(self._events), self.horizon or 1, room, hashed)

    @property
    def _axis(self) -> int:
        assert self._growing is not None
        return self.domain.columns.index(self._growing)

    @property
    def _budget(self) -> Loss:
        """The loss of counts and sums: what growing leaves."""
        if self._growth is None or not isinstance(self.privacy, ApproxDP):
            return self.privacy
        left = 1 - exact("growing_share", self.growing_share, below=1)
        return ApproxDP(epsilon=left * self.privacy.epsilon, delta=left * self.privacy.delta)

    @property
    def rows(self) -> Schema:
        return self.domain.bins

    def rows_of(self, public: HistogramPublic) -> Schema:
        """The columns of a synthetic row, with the values taken up so far."""
        if self._growing is None or not isinstance(public, GrowingPublic):
            return self.rows
        return grown(self.domain, self._growing, public.taken.values)

    @property
    def counting(self) -> Counter[Any]:
        """The counter of records, with its budget per event."""
        if self.domain.amounts:
            return self._counters[0]
        return allot(self.counter, privacy=self._budget, horizon=self.horizon, events=self._events)

    @property
    def adding(self) -> tuple[Counter[Any], ...]:
        """The counter of each amount, with its budget per unit of it."""
        return self._counters[1:] if self.domain.amounts else ()

    @property
    def _counters(self) -> tuple[Counter[Any], ...]:
        """Those of records and amounts: the one place that divides the budget among them."""
        share = exact("totals_share", self.totals_share, below=1)
        inserted, deleted = self._events
        amounts = [
            (share / len(self._bounds), (inserted * bound, deleted * bound))
            for bound in self._bounds
        ]
        parts: tuple[tuple[Fraction, tuple[int, int]], ...] = ((1 - share, self._events), *amounts)
        return allot_parts(self.counter, privacy=self.privacy, horizon=self.horizon, parts=parts)

    @property
    def _bounds(self) -> list[int]:
        """How far one event moves the sum of each amount."""
        return [amount.bound for amount in self.domain.amounts.values()]

    @property
    def groups(self) -> tuple[int, ...]:
        """The number of values of each column by which amounts are added up."""
        return tuple(self.rows.shape[axis] for axis in self._sums.by)

    @functools.cached_property
    def _sums(self) -> Sums:
        return sums_of(self.domain, self.totals_by)

    def _loss(self, inserted: int, deleted: int) -> Loss:
        loss = self.counting.loss(inserted, deleted)
        for bound, counter in zip(self._bounds, self.adding, strict=True):
            loss = loss & counter.loss(inserted * bound, deleted * bound)
        loss = restate(loss, self._budget)
        return loss if self._growth is None else loss & self._growth.loss

    def init(self) -> State[HistogramPublic, object]:
        bins = self.domain.bins.size
        public = HistogramPublic(np.zeros((), np.int64), np.zeros(bins))
        private = self.counting.init(bins)
        if self._growth is not None:
            taken, candidates = self._growth.init()
            return State(
                GrowingPublic(public.step, public.estimates, taken),
                GrowingPrivate(private, candidates),
            )
        if not self.domain.amounts:
            return State(public, private)
        sums, groups = np.zeros((self._sums.amounts, self._sums.groups)), self._sums.groups
        adding = tuple(counter.init(groups) for counter in self.adding)
        return State(
            TotalsPublic(public.step, public.estimates, sums), TotalsPrivate(private, adding)
        )

    def plan(self, public: HistogramPublic) -> Plan:
        if not self.domain.amounts:
            codes = self.domain if self._growing is None else self.rows_of(public)
            return Plan(codes=codes, key=self._key, growing=self._growing)
        shape = self.domain.bins.shape
        whole = Marginals(shape, (tuple(range(len(shape))),))
        return Plan(codes=self.domain, key=self._key, marginals=whole, sums=self._sums)

    def measure(
        self, state: State[HistogramPublic, Any], counts: Counts, noise: Draws
    ) -> Step[HistogramPublic, object]:
        private, bins = state.private, self.domain.bins.size
        several = isinstance(private, TotalsPrivate | GrowingPrivate)
        mine = private.bins if several else private
        mine, found = self.counting.step(mine, counts.net[:bins], noise.at("bins"))
        public = HistogramPublic(np.asarray(state.public.step + 1), found.astype(float))
        if isinstance(private, GrowingPrivate):
            return self._grown(state, public, mine, counts, noise)
        if not isinstance(private, TotalsPrivate):
            return Step(State(public, mine))
        inputs = counts.net[bins:].reshape(self._sums.amounts, self._sums.groups)
        stepped = [
            counter.step(before, x, noise.at("amount", i))
            for i, (counter, before, x) in enumerate(
                zip(self.adding, private.sums, inputs, strict=True)
            )
        ]
        sums = np.array([estimates for _, estimates in stepped], float)
        return Step(
            State(
                TotalsPublic(public.step, public.estimates, sums),
                TotalsPrivate(mine, tuple(after for after, _ in stepped)),
            )
        )

    def _grown(
        self,
        before: State[Any, GrowingPrivate],
        public: HistogramPublic,
        bins: Any,
        counts: Counts,
        noise: Draws,
    ) -> Step[HistogramPublic, object]:
        """Compare unknown values, and take up those that pass."""
        assert self._growth is not None
        rows = counts.rows if isinstance(counts, TextCounts) else {}
        attribute = self.domain.attributes[self._axis]
        assert isinstance(attribute, Categorical)
        taken, candidates = self._growth.step(
            before.public.taken,
            before.private.candidates,
            rows,
            list(attribute.texts),
            int(public.step),
            noise.at("growth"),
        )
        return Step(
            State(
                GrowingPublic(public.step, public.estimates, taken),
                GrowingPrivate(bins, candidates),
            )
        )

    def view(self, public: HistogramPublic) -> HistogramView | None:
        step = int(public.step)
        if not step:
            return None
        amounts = {}
        if isinstance(public, TotalsPublic):
            groups, named = groups_of(self.domain, self._sums), self.domain.amounts.items()
            for (column, amount), counter, units in zip(
                named, self.adding, public.sums, strict=True
            ):
                variance = float(counter.variance(step))
                amounts[column] = Totals(column, amount, groups, frozen(units), variance)
        bins, variance = self.domain.bins, float(self.counting.variance(step))
        if self._growing is not None and isinstance(public, GrowingPublic):
            values = public.taken.values
            shown = public.estimates.reshape(self.domain.shape)
            shown = np.take(shown, self._settled(len(values)), axis=self._axis).reshape(-1)
            bins = settled(self.domain, self._growing, values)
            since = dict(zip(values, public.taken.steps.tolist(), strict=True))
            return HistogramView(bins, frozen(shown), variance, grown=since)
        return HistogramView(bins, frozen(public.estimates), variance, amounts)

    def _settled(self, many: int) -> np.ndarray:
        """Codes of the growing list in the order of the view's."""
        attribute = self.domain.attributes[self._axis]
        assert isinstance(attribute, Categorical)
        return settled_codes(attribute, many)

    def sample(
        self, view: HistogramView | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        bins = self.domain.bins
        if view is None:
            return resampled(bins, np.zeros(bins.size), previous, rng)
        if self._growing is None:
            return resampled(bins, view.estimates, previous, rng)
        # Rows keep their cells, whatever is taken up later.
        values, whole = list(view.grown), np.zeros(self.domain.shape)
        place = [slice(None)] * whole.ndim
        whole[(*place[: self._axis], self._settled(len(values)))] = view.estimates.reshape(
            view.domain.shape
        )
        return resampled(
            grown(self.domain, self._growing, values), whole.reshape(-1), previous, rng
        )
