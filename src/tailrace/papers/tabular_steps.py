"""Kumar's tabular stream, step by step, and streaming MWEM.

A step of the tabular stream:

1. Count the noisy total.
2. Choose a workload whose net counts in this batch are far from the table's; feed them to the
   workload's counters; fit the table to this step's measurements. Do so `chosen` times.

A measurement is the sum of the counters' estimates and, for steps that did not choose the workload,
of the earlier tables. Workloads of earlier steps are not fitted again: the table keeps them.
With `apart` (streaming MWEM) every batch has a table of its own: it begins uniform, is fitted to
this batch's measurements, and is added to those before.

Privacy: the declared loss of the declared unit over the horizon, neighbours add/remove.

1. What one event can change, given all releases. The total's row, at one step, by one:
   `totals.loss`. The scores of one step, by at most one each: `choice.loss` of all rounds. One cell
   of each workload chosen at that step, so one entry of one row of `chosen` counters: `chosen`
   times `counting.loss`.
2. Fix all releases. They fix which rows are fed when (selective counting). Tables are functions of
   releases, their totals are the noisy total, and numbers that meet exact counts are rounded to
   integers first.
3. Sum. The three losses add up, drawn in turn; every counter takes inputs that depend on earlier
   releases. A user of m insertions and d deletions loses `loss(m, d)` of each.

Accuracy: a cell of a workload has the noise of its counter since the workload was first chosen;
before that, the table's own error.
Source: Kumar's tabular stream, Algorithm 3, and, with `apart`, Algorithm 2 (streaming MWEM);
dissertation, chapter 4.
Departs:
- The exponent of the choice, and its sensitivity: one, from integer scores that are not divided by
  the number of cells.
- A noisy total instead of the true one.
- The table begins at the one before, scaled to that total.
- The paper's text and Algorithm 3 disagree on r; this follows the algorithm.
- The last table is released instead of the mean of all rounds' tables, which is no graphical model.
- No more rounds than workloads.
- The text leaves the fit open. A junction tree keeps the potentials of the table before; only those
  of this step's workloads change (where it has no room for all, the weakest ties go). Measurements
  of a step have equal variances, because each adds one step's noise to the table before.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counters import Counter
from tailrace.counters.choice import allot, check_counter
from tailrace.counting.marginals import Marginals
from tailrace.counting.plan import Counts
from tailrace.domain import Schema
from tailrace.domain.digits import Digits
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Sample, State, Step, Table
from tailrace.mechanisms.shared.events import changed
from tailrace.mechanisms.tabular.budget import Choice
from tailrace.mechanisms.tabular.view import TabularView
from tailrace.mechanisms.tabular.workloads import (
    Tabular,
    Workload,
    default_fit,
    flat,
    followed,
    marginals_of,
    rows_in,
    scores,
    within,
)
from tailrace.models.tables import Fit, Measured, Model
from tailrace.models.tables.rows import Rows, resampled
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn, drawable, part, restate
from tailrace.privacy.loss import Loss, Number, PureDP, exact, whole
from tailrace.privacy.unit import Unit


@dataclass(frozen=True)
class StepsPublic:
    """Everything a tabular stream has released up to this step.

    total: noisy number of records.
    fed: how often each workload was chosen.
    counted: the counters' estimates.
    shown: the table's counts; for workloads chosen last, the measurements it was fitted to.
    held: records of the model.
    structure, values: the packed model: of the whole table, or with `apart` of the last batch.
    """

    step: np.ndarray  # ()
    total: np.ndarray  # ()
    fed: np.ndarray  # (workloads,)
    counted: np.ndarray  # (cells,)
    shown: np.ndarray  # (cells,)
    held: np.ndarray  # ()
    structure: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class StepsPrivate:
    """Private state: the counters' exact sums."""

    total: Any  # states of the counters
    cells: Any


@dataclass(frozen=True, eq=False)
class Added:
    """The sum of all batches' tables, which no model holds."""

    workload: Marginals
    sums: np.ndarray  # (cells,) of the workloads, over all batches
    last: Model  # of the last batch
    total: float

    @property
    def shape(self) -> tuple[int, ...]:
        return self.workload.shape

    def marginals(self, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        """Expected counts of marginals inside a workload."""
        return [self._marginal(clique) for clique in cliques]

    def _marginal(self, clique: tuple[int, ...]) -> np.ndarray:
        telling = {axis for axis in clique if self.shape[axis] > 1}
        for j, held in enumerate(self.workload.cliques):
            if telling.issubset(held):
                others = tuple(place for place, axis in enumerate(held) if axis not in telling)
                found = self.workload.part(self.sums, j).sum(axis=others)
                scale = self.total / max(float(found.sum()), 1.0)
                return scale * found.reshape([self.shape[axis] for axis in clique])
        raise ConfigError(
            "Batches that are fitted apart know marginals of their workloads only: ask for those."
        )


def appended(codes: Digits, model: Added, previous: Table, rng: np.random.Generator) -> Sample:
    """Append rows of the last batch; surplus rows leave randomly."""
    many, target = len(previous.cells), round(model.total)
    stayed = np.ones(many, np.bool_)
    stayed[rng.permutation(many)[: max(many - target, 0)]] = False
    new = previous.cells[:0]
    if target > many:
        new = resampled(model.last, Rows.of(new), target - many, rng)[1]
    return changed(codes, previous, stayed, new, rng)


StepsView = TabularView[Model] | TabularView[Added]


@told
@dataclass(frozen=True, kw_only=True)
class TabularSteps(Tabular):
    """A table; workloads are chosen and counted at every step.

    Parameters
    domain: the table's columns.
    privacy, unit: the loss, and who is protected.
    horizon: steps; None: no end.
    workload: marginals to choose from: all of so many columns, or those of these columns.
    fit: how models are fitted.
    chosen: workloads measured at every step.
    counter: of a workload's cells; None: the best for the horizon.
    total: share of the budget for the number of records.
    selection: share of the rest for choosing.
    apart: a new table for every batch (streaming MWEM).
    deletes: whether records leave.

    >>> from tailrace import Event, Integer, PureDP, Schema
    >>> ward = Schema(sex=Integer(0, 1), age=Integer(0, 9), ill=Integer(0, 1))
    >>> year = TabularSteps(domain=ward, privacy=PureDP(epsilon=1), unit=Event(), horizon=365)
    >>> year.guarantee.short
    'epsilon = 1 for one event over 365 steps'
    """

    domain: Schema
    privacy: Loss
    unit: Unit
    horizon: int | None
    workload: Workload = 2
    fit: Fit = field(default_factory=default_fit)
    chosen: int = 3
    counter: Any = None
    total: Number = Fraction(1, 20)
    selection: Number = Fraction(1, 2)
    apart: bool = False
    deletes: bool = True

    def __post_init__(self) -> None:
        self._check()
        check_counter(self.counter)
        object.__setattr__(self, "chosen", whole("chosen", self.chosen))
        for name in ("total", "selection"):
            object.__setattr__(self, name, exact(name, getattr(self, name), below=1))
        # a budget or counter that cannot work is refused now, not at the first step
        self.counting.init(0)
        self.totals.init(0)

    @functools.cached_property
    def marginals(self) -> Marginals:
        return marginals_of(self.domain, self.workload)

    @property
    def _chosen(self) -> int:
        """Workloads measured at a step."""
        return min(self.chosen, len(self.marginals.cliques))

    def _budget(self, share: Fraction) -> Drawn:
        """A share of epsilon, or of rho."""
        return part(drawable(self.privacy), share)

    @functools.cached_property
    def totals(self) -> Counter[Any]:
        """The counter of insertions less deletions."""
        budget = self._budget(Fraction(self.total))
        return allot(None, privacy=budget, horizon=self.horizon, events=self._events)

    @functools.cached_property
    def choice(self) -> Choice | None:
        """The choice; None where every workload is measured."""
        if self._chosen == len(self.marginals.cliques):
            return None
        share = (1 - Fraction(self.total)) * Fraction(self.selection)
        return Choice(self._budget(share), self._chosen, self._events)

    @functools.cached_property
    def counting(self) -> Counter[Any]:
        """The counter of a workload's cells."""
        share = (1 - Fraction(self.total)) * (
            1 if self.choice is None else 1 - Fraction(self.selection)
        )
        budget = self._budget(share / self._chosen)
        return allot(self.counter, privacy=budget, horizon=self.horizon, events=self._events)

    def _loss(self, inserted: int, deleted: int) -> Loss:
        loss = self.totals.loss(inserted, deleted) & part(
            drawable(self.counting.loss(inserted, deleted)), self._chosen
        )
        if self.choice is not None:
            loss = loss & self.choice.loss(inserted, deleted)
        return restate(loss, self.privacy)

    def init(self) -> State[StepsPublic, StepsPrivate]:
        zero, cells = np.zeros((), np.int64), np.zeros(self.marginals.size)
        public = StepsPublic(
            step=zero,
            total=np.zeros(()),
            fed=np.zeros(len(self.marginals.cliques), np.int64),
            counted=cells,
            shown=cells,
            held=np.zeros(()),
            structure=np.zeros(0, np.int64),
            values=np.zeros(0),
        )
        return State(
            public, StepsPrivate(self.totals.init(1), self.counting.init(self.marginals.size))
        )

    def measure(
        self, state: State[StepsPublic, StepsPrivate], counts: Counts, noise: Draws
    ) -> Step[StepsPublic, StepsPrivate]:
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
        public = StepsPublic(
            step=np.asarray(before.step + 1),
            total=np.asarray(total),
            fed=fed,
            counted=counted,
            shown=shown,
            held=np.asarray(size),
            structure=structure,
            values=values,
        )
        return Step(State(public, StepsPrivate(total_state, cells)))

    def _fitted(self, targets: np.ndarray, chosen: list[int], total: float, start: Model) -> Model:
        """Fit this step's measurements, starting from the table before."""
        cliques, variance = self.marginals.cliques, float(self.counting.variance(1))
        held = within(self.fit, self.marginals, chosen)
        found = [Measured(cliques[j], self.marginals.part(targets, j), variance) for j in held]
        return self.fit.fit(self.domain.shape, found, total=total, start=start, keep=not self.apart)

    def view(self, public: StepsPublic) -> StepsView | None:
        step = int(public.step)
        if not step:
            return None
        variance = np.where(public.fed > 0, self.counting.variance(public.fed), np.inf)
        total = Estimate(
            max(float(public.total), 0.0), math.sqrt(float(self.totals.variance(step)))
        )
        model = self._model(public)
        # every step is measured
        moved = np.zeros(len(variance))
        rest = self.marginals, variance, 1.0, total, moved
        if self.apart:
            added = Added(self.marginals, public.shown, model, total.value)
            return TabularView(self.domain, added, *rest)
        return TabularView(self.domain, model, *rest)

    def _model(self, public: StepsPublic) -> Model:
        return self.fit.unpack(
            self.domain.shape, public.structure, public.values, float(public.held)
        )

    def sample(self, view: StepsView | None, previous: Table, rng: np.random.Generator) -> Sample:
        model = None if view is None else view.model
        if isinstance(model, Added):
            return appended(self.rows, model, previous, rng)
        return followed(self.rows, model, previous, rng)

    @functools.cached_property
    def _noise_size(self) -> float:
        """Mean absolute noise of a cell, as of one draw."""
        variance = float(self.counting.variance(1))
        return math.sqrt(
            variance / 2 if isinstance(self.counting.privacy, PureDP) else 2 * variance / math.pi
        )
