"""A tabular stream: records with many columns that come and go, and a model of the whole table that
keeps up.

A clock counts insertions and deletions under a small share of the budget and ends epochs. At the
end of an epoch every column is measured by itself, and then some workloads (marginals of several
columns): those whose exact net counts of the epoch are farthest from what the model makes them are
chosen, one after the other, and each gets noise once. Everything else is made of what was released:
how many workloads are chosen, what is imputed for the others, the model, the synthetic rows.

Privacy: the declared loss of the declared unit over the horizon, neighbours add/remove. Fix
everything released; then the end of every epoch is fixed, by the clock and by public schedule, and
so is which workloads are measured in it. One event changes one row of the clock, at one step, by
one: `clock.loss`. It falls into one epoch. There it moves one cell of every column, each measured
once: `singles.loss`, whose weight is the number of columns. And it moves one cell of each workload
by one, so each score of that epoch's choices by at most one: `choice.loss` of all of them; and one
cell of each of the measured workloads, each measured once: `atoms.loss`, whose weight is their
number, so that the loss is the same for any (`tabular_budget`). No other epoch holds the event.
Choices and noise are drawn in turn, each from what was released before and from exact integers, so
their losses add up; with the clock's too, which is drawn in between (concurrent composition holds
for pure and for Renyi losses: Vadhan and Wang 2021, Lyu 2022). Pure losses stay true though epochs
depend on past releases (F1 of the selective-counting proof), Gaussian ones and choices since on
every path the squared shifts add up to no more than is paid for (F2; privacy filters, Feldman and
Zrnic 2021). A user of m insertions and d deletions moves a workload's counts by a - b with
nonnegative a, b of 1-norms m and d, in all epochs together: `loss(m, d)` of each. The model, and
whatever else meets exact counts in a score, is a public function of what was released and is
rounded to integers first. The model's total is a noisy one. A buffer is private until its epoch
ends.
Accuracy: a workload holds a draw for every epoch in which it was measured, each of a scale that
grows with the number of workloads of the epoch (its root under Gaussian noise); the number of
epochs grows with the logarithm of the number of records. `view` has the errors.
Source: Kumar's tabular stream (its Algorithm 3); adaptive choice as in McKenna et al.'s AIM 2022.
Departs: epochs that end by a noisy clock instead of steps, with the full budget each; all columns
are measured in each; scores are integers of sensitivity one; what was not measured is imputed anew
when more is known, and epochs are weighed by how much shares drift (`tabular_track`); as many
workloads are chosen as noise allows; a noisy total.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counters.choice import allot
from tailrace.counting.marginals import Marginals
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Schema
from tailrace.domain.digits import Digits
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Sample, State, Step, Table, Takes
from tailrace.mechanisms.shared.epochs import Clock, net
from tailrace.mechanisms.tabular.budget import Budget, size
from tailrace.mechanisms.tabular.epochs import (
    SMALLEST,
    Draft,
    Released,
    Selection,
    TabularEpochs,
    misfit,
)
from tailrace.mechanisms.tabular.select import scores
from tailrace.mechanisms.tabular.track import Noisy, unseen
from tailrace.mechanisms.tabular.view import TabularView
from tailrace.mechanisms.tabular.workloads import (
    Workload,
    asked,
    check,
    check_fit,
    default_fit,
    followed,
    marginals_of,
    plan_of,
    rows_in,
)
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.guarantee import Guarantee, promised
from tailrace.privacy.loss import Loss, whole
from tailrace.privacy.unit import AddRemove, Neighbours, Unit, events_of

_FITS = 8  # models of an epoch, about: one for every so many of its workloads


@dataclass(frozen=True)
class Held:
    """What is private: exact net counts of the open epoch, and the clock's sums."""

    buffer: np.ndarray  # (cells,) of all workloads
    clock: Any


@told
@dataclass(frozen=True, kw_only=True)
class TabularStream:
    """A table with columns `domain`, kept up to date by insertions and deletions.

    `workload` says which marginals are to be right: all of so many columns, or those of these
    columns.

    >>> from tailrace import Categorical, Event, Integer, PureDP, Schema
    >>> ward = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 9), ill=Categorical([False, True]))
    >>> TabularStream(domain=ward, privacy=PureDP(epsilon=1), unit=Event(), horizon=365).guarantee.short
    'epsilon = 1 for one event over 365 steps'
    """

    domain: Schema
    privacy: Loss
    unit: Unit
    horizon: int | None
    workload: Workload = 2
    fit: Any = field(default_factory=default_fit)
    selection: Selection = field(default_factory=Selection)
    deletes: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "workload", asked(self.domain, self.workload))
        check(self)
        check_fit(self.fit, self.marginals)
        if not isinstance(self.selection, Selection):
            raise ConfigError("selection must be a Selection, for example Selection(chosen=16).")
        if self.horizon is not None:
            object.__setattr__(self, "horizon", whole("horizon", self.horizon))
        for atoms in (
            self.budget.singles,
            *(self.budget.share(many).atoms for many in self.budget.allowed if many),
        ):
            atoms.check()
        self.clock.init(0)

    @property
    def takes(self) -> Takes:
        return Takes.Events

    @property
    def neighbours(self) -> Neighbours:
        return AddRemove

    @property
    def rounds(self) -> int:
        return 1

    @functools.cached_property
    def rows(self) -> Digits:
        return Digits(self.domain)

    @functools.cached_property
    def marginals(self) -> Marginals:
        """What is counted: first every column by itself, then the workloads of several columns."""
        asked_for = marginals_of(self.domain, self.workload)
        singles = sorted({(column,) for clique in asked_for.cliques for column in clique})
        return Marginals(
            self.domain.shape,
            (*singles, *(clique for clique in asked_for.cliques if len(clique) > 1)),
        )

    @functools.cached_property
    def _singles(self) -> int:
        """How many columns are measured by themselves in every epoch."""
        return sum(len(clique) == 1 for clique in self.marginals.cliques)

    @property
    def _events(self) -> tuple[int, int]:
        return events_of(self)

    @functools.cached_property
    def budget(self) -> Budget:
        """What each kind of draw gets."""
        several = len(self.marginals.cliques) - self._singles
        return Budget(self.privacy, self._events, self.selection, self._singles, several)

    @functools.cached_property
    def clock(self) -> Any:
        """The counter of insertions and deletions, with its budget per event."""
        return allot(None, privacy=self.budget.clock, horizon=self.horizon, events=self._events)

    @functools.cached_property
    def _epochs(self) -> TabularEpochs:
        clock = Clock(self.clock, 2 if self.deletes else 1, self.horizon, 1, self.selection.churn)
        return TabularEpochs(self.marginals, self.fit, clock)

    @property
    def guarantee(self) -> Guarantee:
        return promised(self, functools.partial(self.budget.loss, self.clock))

    def init(self) -> State:
        buffer = np.zeros(self.marginals.size, np.int64)
        return State(self._epochs.beginning, Held(buffer, self.clock.init(self._epochs.clock.rows)))

    def plan(self, public: Released) -> Plan:  # noqa: ARG002
        return plan_of(self.domain, self.marginals, self.unit)

    def measure(self, state: State, counts: Counts, noise: Draws) -> Step:
        public, private = (
            replace(state.public, step=np.asarray(state.public.step + 1)),
            state.private,
        )
        happened = np.array(
            [rows_in(self.marginals, part) for part in (counts.adds, counts.deletes)]
        )
        ticking, estimates = self.clock.step(
            private.clock, happened[: len(public.clock)], noise.at("clock")
        )
        public, buffer = replace(public, clock=estimates.astype(float)), private.buffer + counts.net
        if self._epochs.ends(public):
            public, buffer = (
                self._measured(self._epochs.draft(public), buffer, noise),
                np.zeros_like(buffer),
            )
        return Step(State(public, Held(buffer, ticking)))

    def _measured(self, draft: Draft, buffer: np.ndarray, noise: Draws) -> Released:
        """The epoch's exact net counts meet noise: every column, then workloads, all at once or
        chosen ones, a few to a fit.
        """
        several = range(self._singles, len(self.marginals.cliques))
        draft = self._epochs.with_measured(
            draft, self._noisy(self.budget.singles, buffer, range(self._singles), noise)
        )
        if not several:
            return self._epochs.closed(draft)
        cells = float(self.marginals.sizes[self._singles :].mean())
        share = self.budget.share(self.budget.workloads(draft.epoch.events, cells))
        if share.choice is None:
            draft = self._epochs.with_measured(
                draft, self._noisy(share.atoms, buffer, several, noise)
            )
            return self._epochs.closed(draft)
        off, fresh = [], {}
        for turn in range(share.workloads):
            left = [j for j in several if j not in draft.measured and j not in fresh]
            found = scores(self.marginals, buffer, draft.expected, size(share.atoms))[left]
            j = left[share.choice.draw(found, noise.at("choice", turn))]
            fresh |= self._noisy(share.atoms, buffer, [j], noise)
            if not draft.public.track.draws[j]:
                off.append(
                    misfit(fresh[j], self.marginals.part(draft.expected, j), draft.epoch.records)
                )
            if len(fresh) * _FITS >= share.workloads or turn + 1 == share.workloads:
                draft, fresh = self._epochs.with_measured(draft, fresh), {}
        return self._epochs.closed(
            draft, off[len(off) // 2 :]
        )  # the first ones were chosen for being far off

    def _noisy(
        self, atoms: Atoms, buffer: np.ndarray, workloads: Iterable[int], noise: Draws
    ) -> dict[int, Noisy]:
        """Some workloads' net counts with noise."""
        exact = {j: self.marginals.part(buffer, j) for j in workloads}
        variance = max(atoms.variance(), SMALLEST)
        return {
            j: Noisy(part + atoms.draw(noise.at("cells", j), part.shape), variance)
            for j, part in exact.items()
        }

    def view(self, public: Released) -> TabularView | None:
        if not int(public.epoch):
            return None
        model = self._epochs.model(public, max(self._epochs.total(public), 0.0))
        total = Estimate(model.total, math.sqrt(self._epochs.total_variance(public)))
        records, events = net(public.clock - public.at_close), self._epochs.pending(public)
        variance, moved = unseen(public.track, self.marginals, records, events)
        return TabularView(
            self.domain, model, self.marginals, variance, float(public.misfit), total, moved
        )

    def sample(self, view: TabularView | None, previous: Table, rng: np.random.Generator) -> Sample:
        return followed(self.rows, None if view is None else view.model, previous, rng)
