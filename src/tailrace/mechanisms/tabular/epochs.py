"""What a tabular stream makes of all that was released: when an epoch ends, what is measured in it,
and a model of the table.

All of this sees public numbers only: the clock, noisy counts of chosen workloads, and what was made
of them before.
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
from tailrace.mechanisms.shared.epochs import Clock, net
from tailrace.mechanisms.tabular.select import spanning, within
from tailrace.mechanisms.tabular.track import Epoch, Noisy, Track, tracked, untracked
from tailrace.mechanisms.tabular.workloads import flat
from tailrace.models.tables import Measured
from tailrace.privacy.loss import Number, exact, whole

SMALLEST = 1e-6  # variance of a count that is as good as exact


@told
@dataclass(frozen=True, kw_only=True)
class Selection:
    """How workloads are selected, and when. This moves noise from one place to another, and never
    the guarantee.

    An epoch ends when `churn` times the number of records have come or gone. In it every column is
    measured by itself, and `chosen` workloads of several columns are; None: as many as keep the
    noise of one below `noise` times the epoch's events.
    """

    clock: Number = Fraction(1, 20)  # share of the budget that goes to the number of events
    singles: Number = Fraction(3, 5)  # share of the rest that goes to single columns
    choice: Number = Fraction(
        1, 4
    )  # share of what is left then that goes to choosing, where there is a choice
    chosen: int | None = None
    noise: float = 0.5
    churn: float = 1.0

    def __post_init__(self) -> None:
        for name in ("clock", "singles", "choice"):
            object.__setattr__(self, name, exact(name, getattr(self, name), below=1))
        for name in ("noise", "churn"):
            exact(name, getattr(self, name))
        if self.chosen is not None:
            object.__setattr__(self, "chosen", whole("chosen", self.chosen))


@dataclass(frozen=True)
class Released:
    """What has been released so far."""

    step: np.ndarray  # ()
    epoch: np.ndarray  # () epochs closed
    closed: np.ndarray  # () the step that closed the last
    clock: np.ndarray  # (rows,) noisy sums of adds (and deletes)
    at_close: np.ndarray  # (rows,) the same when the last epoch closed
    total: np.ndarray  # () estimated number of records when the last epoch closed
    sums: np.ndarray  # (2,) the same by the measured workloads alone, and its variance
    misfit: (
        np.ndarray
    )  # () squared distance of a workload that was not measured, in parts of the records
    track: Track
    structure: np.ndarray  # of the model
    values: np.ndarray


@dataclass(frozen=True)
class Draft:
    """An epoch that is being closed: what is measured so far, and the model of it."""

    public: Released
    epoch: Epoch
    shares: np.ndarray  # (cells,) by the model at the epoch's beginning
    model: Any
    expected: np.ndarray  # (cells,) what the model says this epoch has added
    measured: Mapping[int, Noisy] = field(default_factory=dict)


@dataclass(frozen=True)
class TabularEpochs:
    """The rules of one stream."""

    marginals: Marginals
    fit: Any
    clock: Clock

    def ends(self, public: Released) -> bool:
        """Whether the open epoch ends with the step that the clock has just counted."""
        closed = int(public.closed)
        return self.clock.ends(
            step=int(public.step),
            closed=closed,
            pending=self.pending(public),
            total=float(public.total),
            longest=math.ceil(self.clock.churn * closed),  # as long as a steady stream would take
        )

    def pending(self, public: Released) -> float:
        """Events of the open epoch, by the clock."""
        return float((public.clock - public.at_close).sum())

    def draft(self, public: Released) -> Draft:
        """The open epoch before any of it is measured."""
        model = (
            self.model(public, 1.0)
            if int(public.epoch)
            else self.fit.fit(self.marginals.shape, [], total=1.0)
        )
        shares, epoch = flat(self.marginals, model), self._epoch(public, {})
        return Draft(public, epoch, shares, model, epoch.records * shares)

    def with_measured(self, draft: Draft, measured: Mapping[int, Noisy]) -> Draft:
        """The draft with further noisy counts."""
        both = {**draft.measured, **measured}
        draft = replace(draft, epoch=self._epoch(draft.public, both), measured=both)
        total = max(draft.epoch.before + draft.epoch.records, 1.0)
        model = self._fitted(self._tracked(draft), total, draft.model)
        return replace(
            draft,
            model=model,
            expected=flat(self.marginals, model) - draft.epoch.before * draft.shares,
        )

    def _epoch(self, public: Released, measured: Mapping[int, Noisy]) -> Epoch:
        """What happened in the open epoch: by the clock, and by the sums of what was measured of
        it.
        """
        by_clock, pending = net(public.clock - public.at_close), self.pending(public)
        records = by_clock
        if measured:
            variance = max(self.clock.variance(int(public.step), int(public.closed)), SMALLEST)
            records, _ = pooled([(by_clock, variance), self._added(measured)])
        events = max(pending + records - by_clock, abs(records))
        return Epoch(float(records), events, max(float(public.total), 0.0))

    def closed(self, draft: Draft, off: Sequence[float] = ()) -> Released:
        """What is released when the epoch is closed; `off` are the misfits of the workloads that
        were chosen last.
        """
        public = draft.public
        sums = public.sums + np.array(self._added(draft.measured))
        public = replace(
            public,
            epoch=np.asarray(public.epoch + 1),
            closed=public.step,
            at_close=public.clock,
            sums=sums,
            misfit=np.asarray(self._misfit(public, off)),
            track=self._tracked(draft),
        )
        total = np.asarray(self._both(public)[0])
        structure, values = draft.model.pack()
        return replace(public, total=total, structure=structure, values=values)

    def _misfit(self, public: Released, off: Sequence[float]) -> float:
        """What an epoch showed, and a little of what was known before."""
        before = float(public.misfit)
        if not off:
            return before
        shown = sum(off) / len(off)
        return max(
            (before + 3 * shown) / 4 if int(public.epoch) else shown, 0.0
        )  # it falls as more is known

    def _tracked(self, draft: Draft) -> Track:
        return tracked(
            draft.public.track, self.marginals, draft.epoch, draft.measured, draft.shares
        )

    def _added(self, measured: Mapping[int, Noisy]) -> tuple[float, float]:
        """The records of an epoch by the sums of its noisy counts, and the variance of that."""
        return pooled(
            [(float(one.counts.sum()), one.variance * one.counts.size) for one in measured.values()]
        )

    def _fitted(self, track: Track, total: float, start: Any) -> Any:
        """A model of all that was ever measured; of workloads for which there is no room, of their
        columns one by one.
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
        columns: dict[int, list[tuple[Any, float]]] = {}
        for j in sorted(set(known) - set(held)):
            for axis, column in enumerate(marginals.cliques[j]):
                summed = counts[j].sum(
                    axis=tuple(other for other in range(counts[j].ndim) if other != axis)
                )
                columns.setdefault(column, []).append(
                    (summed, float(variance[j]) * counts[j].size / summed.size)
                )
        found += [Measured((column,), *pooled(parts)) for column, parts in columns.items()]
        return self.fit.fit(marginals.shape, found, total=total, start=start)

    def model(self, public: Released, total: float) -> Any:
        """The model of so many records."""
        return self.fit.unpack(self.marginals.shape, public.structure, public.values, total)

    def total(self, public: Released) -> float:
        """The estimated number of records now."""
        return float(public.total) + net(public.clock - public.at_close)

    def total_variance(self, public: Released) -> float:
        """Of that estimate."""
        return self._both(public)[1] + self.clock.variance(int(public.step), int(public.closed))

    def _both(self, public: Released) -> tuple[float, float]:
        """(estimate, variance) of the records at the last close: by the clock, and by the sums of
        what was measured.
        """
        clock_variance = max(self.clock.variance(int(public.closed), 0), SMALLEST)
        return pooled(
            [(net(public.at_close), clock_variance), (float(public.sums[0]), float(public.sums[1]))]
        )

    @functools.cached_property
    def beginning(self) -> Released:
        """Before the first step."""
        zero, rows = np.zeros((), np.int64), np.zeros(self.clock.rows)
        return Released(
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
    """How far noisy counts are from expected ones beyond their noise: squared, over all cells, in
    squared parts of the records.
    """
    return (float(((noisy.counts - expected) ** 2).sum()) - noisy.variance * expected.size) / max(
        records**2, 1.0
    )


def pooled(estimates: Sequence[tuple[Any, float]]) -> tuple[Any, float]:
    """Several estimates of the same number (or array), weighed by their variances, and the variance
    of that.
    """
    precision = sum(1 / variance for _, variance in estimates)
    return sum(value / variance for value, variance in estimates) / precision, 1 / precision


def _strength(counts: np.ndarray, variance: float) -> float:
    """How far a workload is from independent columns, beyond its noise: in records, from the
    1-norm.
    """
    total = max(float(counts.sum()), 1.0)
    independent = np.full((), total)
    for axis in range(counts.ndim):
        others = tuple(other for other in range(counts.ndim) if other != axis)
        independent = np.multiply.outer(independent, counts.sum(axis=others) / total)
    return float(np.abs(counts - independent).sum()) - counts.size * math.sqrt(
        2 * variance / math.pi
    )
