"""A tabular stream step by step: choose a few workloads, count them on, fit a table; or, apart, a
new table for every batch.

At each step the noisy total is counted first. Then, `chosen` times: a workload is chosen whose net
counts in this batch are far from what the table so far makes them; they are fed to its counters;
and the table before moves on to what was measured at this step. That is what the counters of the
chosen workloads say and, of the steps at which they were not chosen, the tables before; workloads
of earlier steps are not fitted again: what the table knew of them it keeps. With `apart`, a table
of this batch alone begins uniform, is fitted to this batch's measurements, and is added to those
before.

Privacy: the declared loss of the declared unit over the horizon, neighbours add/remove. Given all
that was released, one event changes the total's row, at one step, by one: `total.loss`. It moves
the scores of one step, by at most one each: `choice.loss` of all its rounds. And it changes one
cell of each of the workloads chosen at that step, so one entry of one row of that many counters: so
many times `counting.loss`. Which rows are fed when depends on what was released, which each of
these losses allows (selective counting: fix an output, and it fixes which rows are fed; every
counter takes inputs that depend on past releases). The three losses add up, drawn in turn. A user
of m insertions and d deletions loses `loss(m, d)` of each. Tables are functions of what was
released; their totals are the noisy total; what meets exact counts is rounded to integers first.
Accuracy: a cell of a workload has the noise of its counter since it was first chosen, and before
that what the table says.
Source: Kumar's tabular stream, Algorithm 3, and, apart, Algorithm 2 (streaming MWEM); dissertation,
chapter 4.
Departs: the exponent of the choice, and its sensitivity, one, from integer scores that are not
divided by the number of cells; a noisy total instead of the true one; the table begins at the one
before, scaled to that total; r keeps what its text says the other way round; the last table is
released instead of the mean of all rounds', which is no graphical model; no more rounds than
workloads. Its text leaves open how the table is fitted: a junction tree keeps the potentials of the
table before, of which only those of this step's workloads change (where it has no room for all,
those go that tie their columns least); the measurements of a step are as sure as each other,
because each adds one step's noise to the table before.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counters.choice import allot, check_counter
from tailrace.counting.marginals import Marginals
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Schema
from tailrace.domain.digits import Digits
from tailrace.mechanisms.base import Estimate, Sample, State, Step, Table, Takes
from tailrace.mechanisms.tabular.select import Choice, scores, within
from tailrace.mechanisms.tabular.view import TabularView
from tailrace.mechanisms.tabular.workloads import (
    Workload,
    asked,
    check,
    check_fit,
    default_fit,
    flat,
    followed,
    marginals_of,
    plan_of,
    rows_in,
)
from tailrace.models.tables import Measured
from tailrace.noise import Draws
from tailrace.papers.tabular_batches import Added, appended
from tailrace.privacy.budget import Drawn, drawable, part, restate
from tailrace.privacy.guarantee import Guarantee, promised
from tailrace.privacy.loss import Loss, Number, PureDP, exact, whole
from tailrace.privacy.unit import AddRemove, Neighbours, Unit, events_of


@dataclass(frozen=True)
class Released:
    """What has been released so far."""

    step: np.ndarray  # ()
    total: np.ndarray  # () the noisy number of records
    fed: np.ndarray  # (workloads,) how often each was chosen
    counted: np.ndarray  # (cells,) what the counters say
    shown: (
        np.ndarray
    )  # (cells,) what the table says; of the workloads chosen last, what it was fitted to
    held: np.ndarray  # () records of the model
    structure: np.ndarray  # of the model: of the whole table, or, apart, of the last batch
    values: np.ndarray


@dataclass(frozen=True)
class Held:
    """What is private: the counters' exact sums."""

    total: Any
    cells: Any


@told
@dataclass(frozen=True, kw_only=True)
class TabularSteps:
    """Marginals of a table with columns `domain`, of which `chosen` are measured at every step.

    `total` is the share of the budget for the number of records, `selection` the share of the rest
    that chooses.

    >>> from tailrace import Categorical, Event, Integer, PureDP, Schema
    >>> ward = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 9), ill=Categorical([False, True]))
    >>> TabularSteps(domain=ward, privacy=PureDP(epsilon=1), unit=Event(), horizon=365).guarantee.short
    'epsilon = 1 for one event over 365 steps'
    """

    domain: Schema
    privacy: Loss
    unit: Unit
    horizon: int | None
    workload: Workload = 2
    fit: Any = field(default_factory=default_fit)
    chosen: int = 3
    counter: Any = None
    total: Number = Fraction(1, 20)
    selection: Number = Fraction(1, 2)
    apart: bool = False
    deletes: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "workload", asked(self.domain, self.workload))
        check(self)
        check_fit(self.fit, self.marginals)
        check_counter(self.counter)
        if self.horizon is not None:
            object.__setattr__(self, "horizon", whole("horizon", self.horizon))
        object.__setattr__(self, "chosen", whole("chosen", self.chosen))
        for name in ("total", "selection"):
            object.__setattr__(self, name, exact(name, getattr(self, name), below=1))
        self.counting.init(0)  # what does not fit is refused now, not at the first step
        self.totals.init(0)

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
        return marginals_of(self.domain, self.workload)

    @property
    def _events(self) -> tuple[int, int]:
        return events_of(self)

    @property
    def _chosen(self) -> int:
        """How many workloads are measured at a step."""
        return min(self.chosen, len(self.marginals.cliques))

    def _budget(self, share: Fraction) -> Drawn:
        """A part of the whole loss: of epsilon, or of rho."""
        return part(drawable(self.privacy), share)

    @functools.cached_property
    def totals(self) -> Any:
        """The counter of insertions less deletions."""
        return allot(
            None,
            privacy=self._budget(Fraction(self.total)),
            horizon=self.horizon,
            events=self._events,
        )

    @functools.cached_property
    def choice(self) -> Choice | None:
        """What chooses; nothing where every workload is measured."""
        if self._chosen == len(self.marginals.cliques):
            return None
        share = (1 - Fraction(self.total)) * Fraction(self.selection)
        return Choice(self._budget(share), self._chosen, self._events)

    @functools.cached_property
    def counting(self) -> Any:
        """The counter of a workload's cell, with its budget per event."""
        share = (1 - Fraction(self.total)) * (
            1 if self.choice is None else 1 - Fraction(self.selection)
        )
        budget = self._budget(share / self._chosen)
        return allot(self.counter, privacy=budget, horizon=self.horizon, events=self._events)

    @property
    def guarantee(self) -> Guarantee:
        return promised(self, self._loss)

    def _loss(self, inserted: int, deleted: int) -> Loss:
        """What the three kinds of draws prove together, in the form that was asked for."""
        loss = self.totals.loss(inserted, deleted) & part(
            drawable(self.counting.loss(inserted, deleted)), self._chosen
        )
        if self.choice is not None:
            loss = loss & self.choice.loss(inserted, deleted)
        return restate(loss, self.privacy)

    def init(self) -> State:
        zero, cells = np.zeros((), np.int64), np.zeros(self.marginals.size)
        public = Released(
            step=zero,
            total=np.zeros(()),
            fed=np.zeros(len(self.marginals.cliques), np.int64),
            counted=cells,
            shown=cells,
            held=np.zeros(()),
            structure=np.zeros(0, np.int64),
            values=np.zeros(0),
        )
        return State(public, Held(self.totals.init(1), self.counting.init(self.marginals.size)))

    def plan(self, public: Released) -> Plan:  # noqa: ARG002
        return plan_of(self.domain, self.marginals, self.unit)

    def measure(self, state: State, counts: Counts, noise: Draws) -> Step:
        before, private, net = state.public, state.private, counts.net
        arrived = np.array([rows_in(self.marginals, net)])
        total_state, totals = self.totals.step(private.total, arrived, noise.at("total"))
        total = float(totals[0])
        first = self.apart or not int(before.step)
        size = max(total - float(before.total) if self.apart else total, 1.0)
        table = self.fit.fit(self.domain.shape, [], total=size) if first else self._model(before)
        begun = np.zeros(self.marginals.size) if first else flat(self.marginals, table)
        says = flat(self.marginals, table, size)
        targets, known = says.copy(), np.zeros_like(says) if first else before.shown
        cells, fed, counted = private.cells, before.fed.copy(), before.counted.copy()
        chosen: list[int] = []
        for turn in range(self._chosen):
            left = [j for j in range(len(fed)) if j not in chosen]
            j = left[0]
            if self.choice is not None:
                far = scores(self.marginals, net, says - begun, self._noise_size)
                j = left[self.choice.draw(far[left], noise.at("choice", turn))]
            where = np.arange(self.marginals.offsets[j], self.marginals.offsets[j + 1])
            cells, estimates = self.counting.step(
                cells, net[where], noise.at("cells", turn), rows=where
            )
            targets[where] = known[where] + (estimates - counted[where])
            counted[where], fed[j] = estimates, fed[j] + 1
            chosen.append(j)
            table = self._fitted(targets, chosen, size, table)
            says = flat(self.marginals, table)
        shown = before.shown + says if self.apart else says
        for j in [] if self.apart else chosen:
            self.marginals.part(shown, j)[...] = self.marginals.part(targets, j)
        structure, values = table.pack()
        public = Released(
            step=np.asarray(before.step + 1),
            total=np.asarray(total),
            fed=fed,
            counted=counted,
            shown=shown,
            held=np.asarray(size),
            structure=structure,
            values=values,
        )
        return Step(State(public, Held(total_state, cells)))

    def _fitted(self, targets: np.ndarray, chosen: list[int], total: float, start: Any) -> Any:
        """This step's measurements alone, fitted from the table before: that one keeps what it
        knew.
        """
        cliques, variance = self.marginals.cliques, float(self.counting.variance(1))
        held = within(self.fit, self.marginals, chosen)
        found = [Measured(cliques[j], self.marginals.part(targets, j), variance) for j in held]
        return self.fit.fit(self.domain.shape, found, total=total, start=start, keep=not self.apart)

    def view(self, public: Released) -> TabularView | None:
        step = int(public.step)
        if not step:
            return None
        variance = np.where(public.fed > 0, self.counting.variance(public.fed), np.inf)
        total = Estimate(
            max(float(public.total), 0.0), math.sqrt(float(self.totals.variance(step)))
        )
        model = self._model(public)
        if self.apart:
            model = Added(self.marginals, public.shown, model, total.value)
        none = np.zeros(len(variance))  # every step is measured
        return TabularView(self.domain, model, self.marginals, variance, 1.0, total, none)

    def _model(self, public: Released) -> Any:
        return self.fit.unpack(
            self.domain.shape, public.structure, public.values, float(public.held)
        )

    def sample(self, view: TabularView | None, previous: Table, rng: np.random.Generator) -> Sample:
        model = None if view is None else view.model
        return (appended if self.apart else followed)(self.rows, model, previous, rng)

    @functools.cached_property
    def _noise_size(self) -> float:
        """The mean size of one cell's noise, taken as that of one draw."""
        variance = float(self.counting.variance(1))
        return math.sqrt(
            variance / 2 if isinstance(self.counting.privacy, PureDP) else 2 * variance / math.pi
        )
