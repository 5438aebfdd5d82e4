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
from tailrace.mechanisms.tabular.track import Epoch, Noisy, Track, tracked, untracked
from tailrace.mechanisms.tabular.workloads import flat, spanning, within
from tailrace.models.tables import Fit, Measured, Model
from tailrace.privacy.loss import Number, exact, whole

# Least variance of a count, so that none is divided by zero.
SMALLEST = 1e-6


@told
@dataclass(frozen=True, kw_only=True)
class Selection:
    """When workloads are measured, and which; never the guarantee.

    Every epoch measures each column by itself, and some workloads of several columns.

    Parameters
    clock: share of the budget for counting events.
    singles: share of the rest for single columns.
    choice: share of the remainder for choosing workloads, where not all are measured.
    chosen: workloads per epoch; None: as many as keep the noise of one below `noise` times the
        epoch's events.
    noise: see `chosen`.
    churn: an epoch ends when `churn` times the number of records have come or gone.
    """

    # Defaults chosen by trial while building: results/tabular.csv (benchmarks/tabular.py) has the
    # errors they give, no committed result compares others.
    clock: Number = Fraction(1, 20)
    singles: Number = Fraction(3, 5)
    choice: Number = Fraction(1, 4)
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


@dataclass(frozen=True)
class Draft:
    """An epoch being closed: measurements so far, and their model."""

    public: TabularPublic
    epoch: Epoch
    shares: np.ndarray  # (cells,) of the model at the epoch's beginning
    model: Model
    expected: np.ndarray  # (cells,) net counts of this epoch by the model
    measured: Mapping[int, Noisy] = field(default_factory=dict)


@dataclass(frozen=True)
class TabularEpochs:
    """The epochs of one stream."""

    marginals: Marginals
    fit: Fit
    clock: Clock

    def ends(self, public: TabularPublic) -> bool:
        """Whether the open epoch ends with this step."""
        closed = int(public.closed)
        return self.clock.ends(
            step=int(public.step),
            closed=closed,
            pending=self.pending(public),
            total=float(public.total),
            # the steps that a steady stream needs for so much churn
            longest=math.ceil(self.clock.churn * closed),
        )

    def pending(self, public: TabularPublic) -> float:
        """Events of the open epoch by the clock."""
        return float((public.clock - public.at_close).sum())

    def draft(self, public: TabularPublic) -> Draft:
        """The open epoch before any measurement."""
        model = (
            self.model(public, 1.0)
            if int(public.epoch)
            else self.fit.fit(self.marginals.shape, [], total=1.0)
        )
        shares, epoch = flat(self.marginals, model), self._epoch(public, {})
        return Draft(public, epoch, shares, model, epoch.records * shares)

    def with_measured(self, draft: Draft, measured: Mapping[int, Noisy]) -> Draft:
        """Add noisy counts to a draft, and refit its model."""
        both = {**draft.measured, **measured}
        draft = replace(draft, epoch=self._epoch(draft.public, both), measured=both)
        total = max(draft.epoch.before + draft.epoch.records, 1.0)
        model = self._fitted(self._tracked(draft), total, draft.model)
        return replace(
            draft,
            model=model,
            expected=flat(self.marginals, model) - draft.epoch.before * draft.shares,
        )

    def _epoch(self, public: TabularPublic, measured: Mapping[int, Noisy]) -> Epoch:
        """Totals of the open epoch, from clock and measured sums."""
        by_clock, pending = net(public.clock - public.at_close), self.pending(public)
        records = by_clock
        if measured:
            variance = max(self.clock.variance(int(public.step), int(public.closed)), SMALLEST)
            records, _ = pooled([(by_clock, variance), self._added(measured)])
        events = max(pending + records - by_clock, abs(records))
        return Epoch(float(records), events, max(float(public.total), 0.0))

    def closed(self, draft: Draft, off: Sequence[float] = ()) -> TabularPublic:
        """Close the epoch; `off` are misfits of newly chosen workloads."""
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

    def _misfit(self, public: TabularPublic, off: Sequence[float]) -> float:
        """A moving average of the misfits, three quarters this epoch's."""
        before = float(public.misfit)
        if not off:
            return before
        shown = sum(off) / len(off)
        # the misfit falls as more is known
        return max((before + 3 * shown) / 4 if int(public.epoch) else shown, 0.0)

    def _tracked(self, draft: Draft) -> Track:
        return tracked(
            draft.public.track, self.marginals, draft.epoch, draft.measured, draft.shares
        )

    def _added(self, measured: Mapping[int, Noisy]) -> tuple[float, float]:
        """(estimate, variance) of an epoch's records from noisy counts."""
        return pooled(
            [(float(one.counts.sum()), one.variance * one.counts.size) for one in measured.values()]
        )

    def _fitted(self, track: Track, total: float, start: Model) -> Model:
        """Fit all measured workloads.

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
        return self.fit.fit(marginals.shape, found, total=total, start=start)

    def model(self, public: TabularPublic, total: float) -> Model:
        """The released model, scaled to `total`."""
        return self.fit.unpack(self.marginals.shape, public.structure, public.values, total)

    def total(self, public: TabularPublic) -> float:
        """The estimated number of records at this step."""
        return float(public.total) + net(public.clock - public.at_close)

    def total_variance(self, public: TabularPublic) -> float:
        """The variance of `total`."""
        return self._both(public)[1] + self.clock.variance(int(public.step), int(public.closed))

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
