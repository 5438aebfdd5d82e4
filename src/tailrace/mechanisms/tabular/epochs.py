"""Epochs of a tabular stream: end, measurements, model.

Post-processing: it sees the clock, noisy counts of workloads, and its own earlier results.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counting.marginals import Marginals
from tailrace.mechanisms.shared.events import Clock, net
from tailrace.mechanisms.tabular.raking import Raking
from tailrace.mechanisms.tabular.track import (
    Epoch,
    Noisy,
    Track,
    advanced,
    corrected,
    drifting,
    settled,
    traced,
    untracked,
)
from tailrace.mechanisms.tabular.workloads import beside, flat, spanning, within
from tailrace.models.tables import Fit, Measured, Model
from tailrace.privacy.loss import Number, exact, whole

# Visits of cells by a step's last fit, about a tenth of a second; fits before it, which only serve
# to choose, get a part, and the last step's, which no other goes on with, a multiple.
_WORK, _CHOOSING, _ENDING = 2**25, 4, 2
# Steps that may go on with a fit. Chosen with the work: at the end, pairs of tv16 are 3 to 4 %
# worse than with fits without a bound, other tables about the same (by trial; no committed result).
_REFITS = 8
# Least variance of a count, so that none is divided by zero.
SMALLEST = 1e-6
# Epochs after which drift is known.
_STEADY = 2
# A stretch ends where columns moved by this many times their noise. Chosen on gss_wages by year,
# nass_cds and voters by age, among 1.5, 2 and 3 (results/tabular_tables.csv has the errors).
_MOVED = 2.0
# It has at least this part of the records, and this many deviations of the clock: by reasoning, so
# that it is no noise, and that an epoch has at most ten.
_LEAST, _SURE = 0.1, 3
# Deviations of the clock: an epoch with fewer events goes on, however long it lasts.
_QUIET = 3.0
# Deviations of the clock: what is shown follows it when it has moved by more. By reasoning: where
# nothing happens it hardly ever does.
_HEARD = 3.0


@told
@dataclass(frozen=True, kw_only=True)
class Selection:
    """When workloads are measured, and which; never the guarantee.

    Every epoch measures each column by itself, and some workloads of several columns in rounds: one
    is chosen and measured in each.

    Parameters
    clock: share of the budget for counting events.
    singles: share of the rest for single columns.
    choice: share of a round for choosing its workload, where not all are measured.
    chosen: rounds of an epoch to begin with; None: as many as keep the noise of one workload below
        `noise` times the epoch's events. They get larger and fewer where what is left to repair is
        weak. All workloads are measured where that many are.
    noise: see `chosen`.
    churn: an epoch ends when `churn` times the number of records have come or gone.
    """

    # singles, choice and noise: chosen on nass_cds, gss_wages and tv16 (benchmarks/tables_data.py);
    # results/tabular_tables.csv has the errors they give. The others by trial while building.
    clock: Number = Fraction(1, 20)
    singles: Number = Fraction(1, 2)
    choice: Number = Fraction(3, 20)
    chosen: int | None = None
    noise: float = 0.3
    churn: float = 1.0

    def __post_init__(self) -> None:
        for name in ("clock", "singles", "choice"):
            object.__setattr__(self, name, exact(name, getattr(self, name), below=1))
        for name in ("noise", "churn"):
            exact(name, getattr(self, name))
        if self.chosen is not None:
            object.__setattr__(self, "chosen", whole("chosen", self.chosen))


@dataclass(frozen=True)
class TabularPublic:
    """Everything a tabular stream has released up to this step.

    epoch: epochs closed.
    closed: the step that closed the last epoch.
    clock: noisy sums of insertions (and deletions).
    at_close: the clock when the last epoch closed.
    total: estimated number of records when the last epoch closed.
    sums: the same from measured workloads alone, and its variance.
    misfit: squared distance of a never measured workload, in squared parts of the records.
    structure, values: the packed model.
    opening: step, records and clock when the open epoch began; none: with the last close.
    heard: the clock that is shown, and its step; none: as at the last close.
    refits: how many more steps may fit the model further; none: it is as good as it gets.

    An epoch may consist of several stretches. The end of a stretch is a close too, of columns only.
    """

    step: np.ndarray  # ()
    epoch: np.ndarray  # ()
    closed: np.ndarray  # ()
    clock: np.ndarray  # (rows,)
    at_close: np.ndarray  # (rows,)
    total: np.ndarray  # ()
    sums: np.ndarray  # (2,)
    misfit: np.ndarray  # ()
    track: Track
    structure: np.ndarray
    values: np.ndarray
    opening: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (2 + rows,)
    heard: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (rows + 1,)
    refits: np.ndarray = field(default_factory=lambda: np.zeros((), np.int64))  # ()


@dataclass(frozen=True)
class Draft:
    """A stretch that ends, and perhaps its epoch: measurements so far, and their model."""

    public: TabularPublic
    stretch: Epoch
    epoch: Epoch
    model: Model
    held: tuple[int, ...]  # workloads in the model
    track: Track  # with this stretch's columns
    added: tuple[float, float]  # the stretch's records by its measurements, and their variance
    shares: np.ndarray  # (cells,) of the model before any workload of this epoch
    expected: np.ndarray  # (cells,) net counts of the epoch by the model
    measured: Mapping[int, Noisy] = field(default_factory=dict)


@dataclass(frozen=True)
class TabularEpochs:
    """The epochs of one stream; `noise` has the variance of each column's counts."""

    marginals: Marginals
    fit: Fit
    clock: Clock
    noise: np.ndarray  # (columns,)

    @functools.cached_property
    def raking(self) -> Raking:
        return Raking(self.marginals)

    def ends(self, public: TabularPublic) -> bool:
        """Whether the open epoch ends with this step."""
        step, total, clock = self._opening(public)
        pending = float((public.clock - clock).sum())
        quiet = pending < _QUIET * math.sqrt(self.clock.variance(int(public.step), step))
        return not (quiet and int(public.epoch)) and self.clock.ends(
            step=int(public.step),
            closed=step,
            pending=pending,
            total=total,
            # the steps that a steady stream needs for so much churn
            longest=math.ceil(self.clock.churn * step),
        )

    def hear(self, public: TabularPublic) -> TabularPublic:
        """Let what is shown follow the clock, where it moved by more than its noise explains."""
        shown, step = self._shown(public)
        moved = public.clock - shown
        sure = _HEARD**2 * self.clock.variance(int(public.step), step)
        if max(moved.sum() ** 2, net(moved) ** 2) <= sure:
            return public
        return replace(public, heard=np.append(public.clock, public.step))

    def _shown(self, public: TabularPublic) -> tuple[np.ndarray, int]:
        """(clock, step) that is shown."""
        if not len(public.heard):
            return public.at_close, int(public.closed)
        return public.heard[:-1], int(public.heard[-1])

    def since(self, public: TabularPublic) -> tuple[float, float]:
        """(net records, events) since the last close, as shown."""
        moved = self._shown(public)[0] - public.at_close
        return net(moved), float(moved.sum())

    def stretches(self, public: TabularPublic) -> bool:
        """Whether a stretch of the open epoch ends with this step.

        It does where columns drift: what they moved since the stretch began, going by earlier
        stretches, exceeds the noise of measuring them.
        """
        if int(public.epoch) < _STEADY:
            return False
        pending = self.pending(public)
        moved = pending * drifting(public.track, self.raking, self.noise)
        cells = self.marginals.sizes[: self.raking.singles]
        loud = float((cells * np.sqrt(2 / math.pi * self.noise)).mean())
        sure = math.sqrt(self.clock.variance(int(public.step), int(public.closed)))
        return moved >= _MOVED * loud and pending >= max(_LEAST * float(public.total), _SURE * sure)

    def _opening(self, public: TabularPublic) -> tuple[int, float, np.ndarray]:
        """(step, records, clock) when the open epoch began."""
        if not len(public.opening):
            return int(public.closed), float(public.total), public.at_close
        step, total, *clock = public.opening.tolist()
        return int(step), total, np.array(clock)

    def pending(self, public: TabularPublic) -> float:
        """Events of the open stretch by the clock."""
        return float((public.clock - public.at_close).sum())

    def draft(self, public: TabularPublic, columns: Mapping[int, Noisy]) -> Draft:
        """The end of a stretch, with its noisy columns."""
        model = (
            self.model(public, 1.0)
            if int(public.epoch)
            else self.fit.fit(self.marginals.shape, [], total=1.0)
        )
        added = self._added(columns)
        stretch = self._stretch(public, added)
        shares, misfit = flat(self.marginals, model), float(public.misfit)
        track = advanced(public.track, self.raking, stretch, columns, shares, misfit)
        if len(public.track.gain):
            track = traced(track, self.raking, shares, stretch.before + stretch.records)
        work = self._work(public) // 2
        model, held = self._fitted(track, stretch.before + stretch.records, model, work)
        shares = flat(self.marginals, model, 1.0)
        epoch = self._epoch(public, stretch)
        return Draft(public, stretch, epoch, model, held, track, added, shares, track.gain)

    def with_measured(self, draft: Draft, measured: Mapping[int, Noisy], *, last: bool) -> Draft:
        """Add noisy workloads to a draft, and refit its model; the last one longest."""
        both = {**draft.measured, **measured}
        track = corrected(draft.track, self.marginals, draft.epoch, both)
        total = draft.stretch.before + draft.stretch.records
        work = self._work(draft.public) if last else _WORK // _CHOOSING
        model, held = self._fitted(track, total, draft.model, work)
        records, split = draft.epoch.records, self.raking.split
        moved = records * (flat(self.marginals, model, 1.0) - draft.shares)
        expected = draft.track.gain + moved
        if records > 0:
            expected = self.raking.raked(expected, draft.track.gain[:split], records)
        return replace(draft, model=model, held=held, expected=expected, measured=both)

    def _stretch(self, public: TabularPublic, added: tuple[float, float]) -> Epoch:
        """Totals of the open stretch, from clock and measured sums."""
        by_clock = net(public.clock - public.at_close)
        variance = max(self.clock.variance(int(public.step), int(public.closed)), SMALLEST)
        records, _ = pooled([(by_clock, variance), added])
        events = max(self.pending(public) + records - by_clock, abs(records))
        return Epoch(float(records), events, max(float(public.total), 0.0))

    def _epoch(self, public: TabularPublic, stretch: Epoch) -> Epoch:
        """Totals of the open epoch: its earlier stretches, and this one."""
        _, total, clock = self._opening(public)
        records = stretch.before - max(total, 0.0) + stretch.records
        events = float((public.at_close - clock).sum()) + stretch.events
        return Epoch(records, max(events, abs(records)), max(total, 0.0))

    def closed(self, draft: Draft, off: Sequence[float] = ()) -> TabularPublic:
        """Close the epoch; `off` are misfits of newly chosen workloads."""
        track = corrected(draft.track, self.marginals, draft.epoch, draft.measured)
        public = self._ended(draft, settled(track, self.raking))
        return replace(
            public,
            epoch=np.asarray(public.epoch + 1),
            misfit=np.asarray(self._misfit(draft.public, off)),
            opening=np.zeros(0),
        )

    def stretched(self, draft: Draft) -> TabularPublic:
        """End a stretch; its epoch goes on."""
        step, total, clock = self._opening(draft.public)
        return replace(
            self._ended(draft, draft.track), opening=np.array([step, total, *clock.tolist()])
        )

    def _ended(self, draft: Draft, track: Track) -> TabularPublic:
        public = draft.public
        public = replace(
            public,
            closed=public.step,
            at_close=public.clock,
            heard=np.zeros(0),
            sums=public.sums + np.array(draft.added),
            track=track,
        )
        total = np.asarray(self._both(public)[0])
        return self._with_model(replace(public, total=total), draft.model, _REFITS)

    def _with_model(self, public: TabularPublic, model: Model, refits: int) -> TabularPublic:
        structure, values = model.pack()
        left = np.asarray(0 if model.settled else refits)
        return replace(public, structure=structure, values=values, refits=left)

    def refitted(self, public: TabularPublic) -> TabularPublic:
        """Go on with the last fit, from released numbers; bounded work."""
        if not int(public.refits):
            return public
        total = float(public.total)
        model = self.model(public, max(total, 1.0))
        model, _ = self._fitted(public.track, total, model, self._work(public))
        return self._with_model(public, model, int(public.refits) - 1)

    def _work(self, public: TabularPublic) -> int:
        """The bound of this step's last fit."""
        return _ENDING * _WORK if int(public.step) == self.clock.horizon else _WORK

    def _misfit(self, public: TabularPublic, off: Sequence[float]) -> float:
        """A moving average of the misfits, three quarters this epoch's."""
        before = float(public.misfit)
        if not off:
            return before
        shown = sum(off) / len(off)
        # the misfit falls as more is known
        return max((before + 3 * shown) / 4 if int(public.epoch) else shown, before / 4, 0.0)

    def _added(self, measured: Mapping[int, Noisy]) -> tuple[float, float]:
        """(estimate, variance) of an epoch's records from noisy counts."""
        return pooled(
            [(float(one.counts.sum()), one.variance * one.counts.size) for one in measured.values()]
        )

    def _fitted(
        self, track: Track, total: float, start: Model, work: int
    ) -> tuple[Model, tuple[int, ...]]:
        """(model, workloads it holds): fit all measured workloads.

        A workload that the model has no room for is fitted as single columns.
        """
        marginals = self.marginals
        known = np.flatnonzero(track.draws).tolist()
        variance = np.maximum(track.error[:, 2], SMALLEST)
        counts = {j: marginals.part(track.count, j) for j in known}
        several = [j for j in known if len(marginals.cliques[j]) > 1]
        strength = {j: _strength(counts[j], float(variance[j])) for j in several}
        held = within(
            self.fit, marginals, spanning(marginals, sorted(several, key=lambda j: -strength[j]))
        )
        found = [Measured(marginals.cliques[j], counts[j], float(variance[j])) for j in held]
        columns: dict[int, list[tuple[np.ndarray, float]]] = {}
        for j in sorted(set(known) - set(held)):
            for axis, column in enumerate(marginals.cliques[j]):
                summed = counts[j].sum(
                    axis=tuple(other for other in range(counts[j].ndim) if other != axis)
                )
                columns.setdefault(column, []).append(
                    (summed, float(variance[j]) * counts[j].size / summed.size)
                )
        found += [Measured((column,), *pooled(parts)) for column, parts in columns.items()]
        model = self.fit.fit(marginals.shape, found, total=max(total, 1.0), start=start, work=work)
        return model, tuple(held)

    def candidates(self, held: Sequence[int], among: Sequence[int]) -> Sequence[int]:
        """Workloads that a model can hold beside those it holds; all where none."""
        return beside(self.fit, self.marginals, held, among) or among

    def model(self, public: TabularPublic, total: float) -> Model:
        """The released model, scaled to `total`."""
        return self.fit.unpack(self.marginals.shape, public.structure, public.values, total)

    def total(self, public: TabularPublic) -> float:
        """The estimated number of records, as shown at this step."""
        return float(public.total) + self.since(public)[0]

    def total_variance(self, public: TabularPublic) -> float:
        """The variance of `total`: its noise, and what was not heard of yet."""
        step, shown = int(public.step), self._shown(public)[1]
        unheard = self.clock.variance(step, shown) if step > shown else 0.0
        return self._both(public)[1] + self.clock.variance(shown, int(public.closed)) + unheard

    def _both(self, public: TabularPublic) -> tuple[float, float]:
        """(estimate, variance) of the last close's records, both sources pooled."""
        clock_variance = max(self.clock.variance(int(public.closed), 0), SMALLEST)
        return pooled(
            [(net(public.at_close), clock_variance), (float(public.sums[0]), float(public.sums[1]))]
        )

    @functools.cached_property
    def beginning(self) -> TabularPublic:
        """The state before the first step."""
        zero, rows = np.zeros((), np.int64), np.zeros(self.clock.rows)
        return TabularPublic(
            step=zero,
            epoch=zero,
            closed=zero,
            clock=rows,
            at_close=rows,
            total=np.zeros(()),
            sums=np.zeros(2),
            misfit=np.zeros(()),
            track=untracked(self.marginals),
            structure=np.zeros(0, np.int64),
            values=np.zeros(0),
        )


def misfit(noisy: Noisy, expected: np.ndarray, records: float) -> float:
    """Squared distance of noisy from expected counts, beyond noise.

    Summed over cells, in squared parts of the records.
    """
    return (float(((noisy.counts - expected) ** 2).sum()) - noisy.variance * expected.size) / max(
        records**2, 1.0
    )


def pooled(estimates: Sequence[tuple[Any, float]]) -> tuple[Any, float]:
    """Inverse-variance mean of estimates, and its variance."""
    precision = sum(1 / variance for _, variance in estimates)
    return sum(value / variance for value, variance in estimates) / precision, 1 / precision


def _strength(counts: np.ndarray, variance: float) -> float:
    """Distance of a workload from independent columns, beyond noise.

    The 1-norm, in records.
    """
    total = max(float(counts.sum()), 1.0)
    independent = np.full((), total)
    for axis in range(counts.ndim):
        others = tuple(other for other in range(counts.ndim) if other != axis)
        independent = np.multiply.outer(independent, counts.sum(axis=others) / total)
    return float(np.abs(counts - independent).sum()) - counts.size * math.sqrt(
        2 * variance / math.pi
    )
