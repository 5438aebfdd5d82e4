"""Stream a table of many columns, and its model.

A clock counts insertions and deletions under a small share of the budget and ends epochs. An epoch
measures every column by itself, and then workloads (marginals of several columns) in rounds. A
round chooses the workload whose measurement would repair most: the distance of its exact net counts
from the model's, less what noise of its price would bring. Where columns drift, an epoch is divided
into stretches: columns are measured in each, workloads when the epoch ends. Every count gets noise
once. The rest is post-processing: prices of rounds, imputed counts, the model, the synthetic rows.

Privacy: the declared loss of the declared unit over the horizon, neighbours add/remove.

1. What one event can change. One row of the clock, at one step, by one: `clock.loss`. It falls into
   one epoch, and there into one stretch; no other contains it. In the stretch it moves one cell of
   every column, each measured once: the losses of `budget.singles`. In the epoch it moves one cell
   of every workload by one: so each score of that epoch's choices by at most one, and one cell of
   each measured workload, in each of its measurements. A choice and a measurement cost the parts of
   the purse they take (`Purse`).
2. Fix all releases. The ends of stretches and epochs are then fixed (clock, drift of released
   shares, and public schedule), and so are the rounds: units, candidates, choices, prices, and when
   they end. The model, and every other number that meets exact counts in a score, is a function of
   releases and is rounded to integers first. Its total is a noisy one. Counts of columns are
   private until their stretch ends, and then begin again; counts of workloads until the epoch ends.
3. Sum. Columns lose their share, the same in every stretch. Rounds lose at most the purse on every
   path, because none takes more than is left; choices and noise are drawn in turn, each from
   earlier releases and exact integers, so that their losses add up. So does the clock's, drawn in
   between: concurrent composition holds for pure and for Renyi losses (Vadhan and Wang 2021, Lyu
   2022).
4. Adaptivity. Epochs and rounds depend on earlier releases. Pure losses allow it (F1 of the
   selective-counting proof). Gaussian noise and choices allow it because on every path the squared
   shifts sum to at most the amount paid for (F2; privacy filters, Feldman and Zrnic 2021).
5. Users. m insertions and d deletions move a workload's counts by a - b with nonnegative a, b of
   1-norms m and d, over all epochs together: `loss(m, d)` of each part, and of a purse the larger
   of its choices' and its counts' (`budget.py`). (A `Window`'s m and d: `unit.events_of`.)

Accuracy: a workload has one draw of noise for every round that measured it. Rounds of an epoch get
fewer and larger, as long as the last workload hardly stood out from its noise. The number of epochs
grows with the logarithm of the number of records. `view` has the errors.
Source: Kumar's tabular stream (its Algorithm 3); scores as in McKenna et al.'s AIM 2022.
Departs: a noisy clock ends epochs, and each has the full budget, instead of steps; every epoch
measures all columns; scores are integers of sensitivity one; wide columns and workloads get more of
the budget; unmeasured counts are imputed again as more is known, and epochs are weighed by the
drift of shares (`track.py`); a noisy total.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counters import Counter
from tailrace.counters.choice import allot
from tailrace.counting.marginals import Marginals
from tailrace.counting.plan import Counts
from tailrace.domain import Schema
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Sample, State, Step, Table
from tailrace.mechanisms.shared.events import Clock
from tailrace.mechanisms.tabular.budget import Budget, Purse
from tailrace.mechanisms.tabular.epochs import (
    SMALLEST,
    Draft,
    Selection,
    TabularEpochs,
    TabularPublic,
    misfit,
    pooled,
)
from tailrace.mechanisms.tabular.track import Noisy, unseen
from tailrace.mechanisms.tabular.view import TabularView
from tailrace.mechanisms.tabular.workloads import (
    Tabular,
    Workload,
    default_fit,
    fits,
    followed,
    marginals_of,
    rows_in,
    scores,
)
from tailrace.models.tables import Fit, Model
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.loss import Loss
from tailrace.privacy.unit import Unit

# Models fitted per epoch, at most: one for each such part of the purse. With 4, two-way errors at
# (4, 1e-9) were 1.04 times as large on nass_cds, gss_wages, nlswork and tv16.
_FITS = 8
# A workload is weak where its misfit is below this many deviations of its noise.
_WEAK = 1.5


def _weak(noisy: Noisy, expected: np.ndarray, events: float) -> bool:
    """Whether a workload's misfit hardly stands out from its noise."""
    chance = noisy.variance + max(events, 0.0) / expected.size
    beyond = float(((noisy.counts - expected) ** 2).mean()) - chance
    return beyond < _WEAK**2 * noisy.variance


@dataclass(frozen=True)
class TabularPrivate:
    """Private state: exact counts of the open epoch, clock sums."""

    buffer: np.ndarray  # (cells,) net counts of all workloads
    clock: Any  # the counter's own state


@told
@dataclass(frozen=True, kw_only=True)
class TabularStream(Tabular):
    """A table, kept up to date by insertions and deletions.

    Parameters
    domain: the table's columns.
    privacy, unit: the loss, and who is protected.
    horizon: steps; None: no end.
    workload: marginals to be accurate: all of so many columns, or those of these columns.
    fit: how models are fitted.
    selection: how the budget is used.
    deletes: whether records leave.

    >>> from tailrace import Event, Integer, PureDP, Schema
    >>> ward = Schema(sex=Integer(0, 1), age=Integer(0, 9), ill=Integer(0, 1))
    >>> year = TabularStream(domain=ward, privacy=PureDP(epsilon=1), unit=Event(), horizon=365)
    >>> year.guarantee.short
    'epsilon = 1 for one event over 365 steps'
    """

    domain: Schema
    privacy: Loss
    unit: Unit
    horizon: int | None
    workload: Workload = 2
    fit: Fit = field(default_factory=default_fit)
    selection: Selection = field(default_factory=Selection)
    deletes: bool = True

    def __post_init__(self) -> None:
        self._check()
        if not isinstance(self.selection, Selection):
            raise ConfigError("selection must be a Selection, for example Selection(chosen=16).")
        self.budget.check()
        self.clock.init(0)

    @functools.cached_property
    def marginals(self) -> Marginals:
        """Counted marginals: single columns first, then several columns."""
        asked_for = marginals_of(self.domain, self.workload)
        singles = sorted({(column,) for clique in asked_for.cliques for column in clique})
        return Marginals(
            self.domain.shape,
            (*singles, *(clique for clique in asked_for.cliques if len(clique) > 1)),
        )

    @functools.cached_property
    def _singles(self) -> int:
        """The number of single columns, measured in every epoch."""
        return sum(len(clique) == 1 for clique in self.marginals.cliques)

    @functools.cached_property
    def budget(self) -> Budget:
        """The budget, divided among draws."""
        sizes = tuple(self.marginals.sizes.tolist())
        columns, several = sizes[: self._singles], sizes[self._singles :]
        return Budget(self.privacy, self._events, self.selection, columns, several)

    @functools.cached_property
    def clock(self) -> Counter[Any]:
        """The counter of insertions and deletions."""
        return allot(None, privacy=self.budget.clock, horizon=self.horizon, events=self._events)

    @functools.cached_property
    def _epochs(self) -> TabularEpochs:
        clock = Clock(self.clock, 2 if self.deletes else 1, self.horizon, 1, self.selection.churn)
        noise = np.array([atoms.variance() for atoms in self.budget.singles])
        return TabularEpochs(self.marginals, self.fit, clock, noise)

    def _loss(self, inserted: int, deleted: int) -> Loss:
        chosen = not (self.budget.everything and self._all_fit)
        return self.budget.loss(self.clock, inserted, deleted, chosen=chosen)

    def init(self) -> State[TabularPublic, TabularPrivate]:
        buffer = np.zeros(self.marginals.size, np.int64)
        return State(
            self._epochs.beginning, TabularPrivate(buffer, self.clock.init(self._epochs.clock.rows))
        )

    def measure(
        self, state: State[TabularPublic, TabularPrivate], counts: Counts, noise: Draws
    ) -> Step[TabularPublic, TabularPrivate]:
        private = state.private
        public = replace(state.public, step=np.asarray(state.public.step + 1))
        happened = np.array(
            [rows_in(self.marginals, part) for part in (counts.adds, counts.deletes)]
        )
        ticking, estimates = self.clock.step(
            private.clock, happened[: len(public.clock)], noise.at("clock")
        )
        public, buffer = replace(public, clock=estimates.astype(float)), private.buffer + counts.net
        if self._epochs.ends(public):
            public = self._measured(self._columns(public, buffer, noise), buffer, noise)
            buffer = np.zeros_like(buffer)
        elif self._epochs.stretches(public):
            public = self._epochs.stretched(self._columns(public, buffer, noise))
            buffer = self._without_columns(buffer)
        else:
            public = self._epochs.refitted(self._epochs.hear(public))
        return Step(State(public, TabularPrivate(buffer, ticking)))

    def _without_columns(self, buffer: np.ndarray) -> np.ndarray:
        """The buffer after a stretch: its events were counted in their columns."""
        kept = buffer.copy()
        kept[: self._epochs.raking.split] = 0
        return kept

    def _columns(self, public: TabularPublic, buffer: np.ndarray, noise: Draws) -> Draft:
        """Measure every column."""
        noisy = {
            j: self._noisy(atoms, buffer, j, noise.at("cells", j))
            for j, atoms in enumerate(self.budget.singles)
        }
        return self._epochs.draft(public, noisy)

    def _measured(self, draft: Draft, buffer: np.ndarray, noise: Draws) -> TabularPublic:
        """Measure workloads of several columns: all, or chosen ones in rounds."""
        epochs, singles = self._epochs, self._singles
        if not self.budget.several:
            return epochs.closed(draft)
        purse = self.budget.purse(draft.epoch.events)
        if purse.everything and self._all_fit:
            measured = {}
            for j, parts in enumerate(purse.even().tolist(), start=singles):
                atoms, purse = purse.counts(parts)
                measured[j] = self._noisy(atoms, buffer, j, noise.at("cells", j))
            return epochs.closed(epochs.with_measured(draft, measured, last=True))
        off, fresh, turn, due = [], {}, 0, purse.part_left
        candidates = epochs.candidates(draft.held, range(singles, len(self.marginals.cliques)))
        while purse.left:
            choice, amounts, purse = purse.round()
            found = scores(self.marginals, buffer, draft.expected, self._sizes(purse, amounts))
            # One that was just measured waits for the next fit: its expected counts are old.
            left = [j for j in candidates if j not in fresh] or candidates
            j = left[choice.draw(found[left], noise.at("choice", turn))]
            atoms, purse = purse.counts(int(amounts[j - singles]))
            noisy = self._noisy(atoms, buffer, j, noise.at("cells", j, turn))
            expected = self.marginals.part(draft.expected, j)
            if not draft.public.track.draws[j] and j not in draft.measured:
                off.append(misfit(noisy, expected, draft.epoch.records))
            if _weak(noisy, expected, draft.epoch.events):
                purse = purse.doubled()
            earlier = fresh.get(j) or draft.measured.get(j)
            fresh[j] = (
                noisy
                if earlier is None
                else Noisy(*pooled([(one.counts, one.variance) for one in (earlier, noisy)]))
            )
            turn += 1
            if purse.part_left <= due - Fraction(1, _FITS) or not purse.left:
                due = purse.part_left
                draft, fresh = epochs.with_measured(draft, fresh, last=not purse.left), {}
                candidates = epochs.candidates(draft.held, candidates)
        # without the first half, which was chosen for its large misfit
        return epochs.closed(draft, off[len(off) // 2 :])

    @functools.cached_property
    def _all_fit(self) -> bool:
        """Whether one model can hold all workloads."""
        return fits(self.fit, self.marginals, range(len(self.marginals.cliques)))

    def _sizes(self, purse: Purse, amounts: np.ndarray) -> np.ndarray:
        """(workloads,) mean absolute noise of a cell, where it is chosen next."""
        return np.concatenate([np.zeros(self._singles), purse.sizes(amounts)])

    def _noisy(self, atoms: Atoms, buffer: np.ndarray, j: int, noise: Draws) -> Noisy:
        """Draw noisy net counts of a workload."""
        exact = self.marginals.part(buffer, j)
        return Noisy(exact + atoms.draw(noise, exact.shape), max(atoms.variance(), SMALLEST))

    def view(self, public: TabularPublic) -> TabularView[Model] | None:
        if not int(public.epoch):
            return None
        model = self._epochs.model(public, max(self._epochs.total(public), 0.0))
        total = Estimate(model.total, math.sqrt(self._epochs.total_variance(public)))
        records, events = self._epochs.since(public)
        variance, moved = unseen(public.track, self.marginals, records, events)
        return TabularView(
            self.domain, model, self.marginals, variance, float(public.misfit), total, moved
        )

    def sample(
        self, view: TabularView[Model] | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        return followed(self.rows, None if view is None else view.model, previous, rng)
