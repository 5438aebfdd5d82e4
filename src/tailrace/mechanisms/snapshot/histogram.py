"""Snapshots: histograms of a data set that changes.

Some snapshots are measured; the others show what was measured before.

Privacy: the declared loss of one person over the whole series (`User`), or within any w consecutive
steps of it (`Window`), neighbours add/remove.
1. A person has at most `records` records in a snapshot, chosen from that person's rows alone, so
   one person moves a snapshot's histogram by at most that in the 1-norm, at every step.
2. Fix all releases. Steps outside the window in which two series differ then have the same law.
3. Decisions have the loss that their policy proves (`policy.py`, `papers/snapshot_policies/`).
   Distances are integers, relative to a public number of people: a given one, or the sum of the
   first release. A release has whole units, each with the loss that its noise proves
   (`levels.py`), and no `steps` consecutive steps hold more than `Split.units`. `Adaptive` pays for
   its decisions in these units too.
4. The total is the sum (of epsilons, or of rhos). Showing the last release and combining releases
   are post-processing.

Accuracy: the noise of releases (`SnapshotView`), and the changes since.
Source: Li, Xiong, Jiang, Liu 2015 (DSFT, DSAT), Kellaris et al. 2014.
Departs: see the policies, and docs/explanation/corrections.md.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Schema
from tailrace.domain.halving import Halving, halving
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Looks, Sample, State, Step, Table, Takes
from tailrace.mechanisms.shared.bins import check_bins, frozen, resampled, weights
from tailrace.mechanisms.shared.strata import Strata
from tailrace.mechanisms.snapshot import levels
from tailrace.mechanisms.snapshot.adaptive import Adaptive
from tailrace.mechanisms.snapshot.levels import Quadtree, Static
from tailrace.mechanisms.snapshot.policy import (
    Combined,
    Distance,
    Hidden,
    Pace,
    Policy,
    Series,
    Snapshot,
    Split,
    advanced,
    quiet,
)
from tailrace.mechanisms.snapshot.tracking import Tracking
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn, part, restate
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import ApproxDP, Loss, check_privacy, whole
from tailrace.privacy.unit import AddRemove, User, Window

_USUAL = Adaptive()


@dataclass(frozen=True)
class SnapshotPublic:
    """Everything a snapshot stream has released so far."""

    pace: Pace
    population: np.ndarray  # () what distances are relative to; 0 before the first release
    estimates: np.ndarray  # (bins,)
    # (bins,) of the details of combined releases; (0,) where releases replace each other.
    variances: np.ndarray


@dataclass(frozen=True)
class SnapshotPrivate:
    """Private state: the policy's, and the current histogram."""

    hidden: Hidden
    current: np.ndarray  # (bins,), or (0,) where whole snapshots are fed


@dataclass(frozen=True, eq=False, repr=False)
class SnapshotView(Looks):
    """The histogram of a step, with standard errors.

    The error is that of the noise in the release, or in all that are combined. Under `Adaptive` it
    holds what may have changed since the step `measured`; otherwise it leaves that out. The bias
    within leaves that hold several bins is never in it.
    """

    domain: Schema
    step: int
    measured: int  # the step of the latest release
    estimates: np.ndarray  # (bins,)
    # (bins,) of the details of the halving tree, or (1,) where it is one for all.
    variances: np.ndarray

    @property
    def strata(self) -> Strata:
        """What `Release.drawn` draws rows from."""
        return Strata.of_bins(self.domain, self.estimates)

    @property
    def facts(self) -> dict[str, str]:
        cells = f"{len(self.estimates):,} of {', '.join(self.domain.columns)}"
        steps = f"{self.step}, measured at {self.measured}"
        return {"cells": cells, "records": str(self.count()), "step": steps}

    def count(self, **where: Any) -> Estimate:
        """Count records: `view.count(sex="f", age=(20, 29))`.

        A tuple is a range (of whole numbers, both ends included, or of reals), a list is any of its
        values. A bin of reals that a range covers in part counts in part.
        """
        asked = weights(self.domain, where)
        return Estimate(float(asked @ self.estimates), float(np.sqrt(self._variance(asked))))

    def _variance(self, asked: np.ndarray) -> float:
        """The variance of an answer: details are uncorrelated."""
        if len(self.variances) == 1:
            return float(self.variances[0] * (asked**2).sum())
        return float(
            self.variances @ np.concatenate(halving(self.domain.shape).details(asked)) ** 2
        )


@told
@dataclass(frozen=True, kw_only=True)
class SnapshotHistogram:
    """A histogram of a changing data set at every step.

    A person may take part at every step.

    Parameters
    domain: the attributes whose cells are the bins.
    privacy: the loss of one unit.
    unit: User(column=..., records=m) or Window(steps=w, column=..., records=m).
    horizon: the number of steps; None: without end, where the policy can.
    policy: when a snapshot is measured; None: `Tracking()`, the default of earlier versions.
    histogram: how it is measured; None: `Quadtree()`.
    population: a public guess of the number of people.
    changes: whether a batch holds the rows inserted and deleted since the last step; otherwise it
        is the whole data set.

    >>> from tailrace import Categorical, Integer, PureDP, Schema, User
    >>> ward = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 99))
    >>> unit = User(column="id", records=1)
    >>> made = SnapshotHistogram(domain=ward, privacy=PureDP(epsilon=1), unit=unit, horizon=365)
    >>> made.guarantee.short
    "epsilon = 1 for one person (column 'id') over 365 steps"
    """

    domain: Schema
    privacy: Loss
    unit: User | Window
    horizon: int | None
    policy: Policy | None = _USUAL
    histogram: Static | None = None
    population: int | None = None
    changes: bool = False
    neighbours = AddRemove
    rounds = 1

    def __post_init__(self) -> None:
        check_bins(self.domain)
        check_privacy(self.privacy)
        if not isinstance(self.unit, User | Window) or self.unit.records is None:
            raise ConfigError(
                "SnapshotHistogram protects User(column=..., records=m) or Window(steps=w, "
                "column=..., records=m)."
            )
        for name in ("horizon", "population"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name)))
        if self.changes and isinstance(self.unit, Window):
            raise ConfigError(
                "A Window takes whole snapshots: which changes were accepted depends on steps "
                "before the window. Use changes=False."
            )
        for name, method, example in (
            ("policy", "decide", "DSAT()"),
            ("histogram", "levels", "Quadtree()"),
        ):
            value = getattr(self, name)
            if value is not None and (isinstance(value, type) or not hasattr(value, method)):
                raise ConfigError(
                    f"{name} must be one of the parts that Tailrace has, for example {example}, or "
                    f"None."
                )
        split = self._split
        # A release has at least one unit, and at most all of them.
        for units in (1, split.units):
            levels.check(self._static, self._tree, part(split.unit, units), self._records)

    @property
    def rows(self) -> Schema:
        return self.domain

    @property
    def takes(self) -> Takes:
        return Takes.Events if self.changes else Takes.Snapshots

    @property
    def deletes(self) -> bool:
        return self.changes

    @property
    def _policy(self) -> Policy:
        # Streams of earlier versions were kept with None.
        return Tracking() if self.policy is None else self.policy

    @property
    def renewed(self) -> SnapshotHistogram:
        """The same under the default policy of today."""
        return replace(self, policy=_USUAL) if self.policy is None else self

    @property
    def _static(self) -> Static:
        return Quadtree() if self.histogram is None else self.histogram

    @property
    def _tree(self) -> Halving:
        return halving(self.domain.shape)

    @property
    def _records(self) -> int:
        assert self.unit.records is not None
        return self.unit.records

    @property
    def series(self) -> Series:
        """The public facts that the policy plans with.

        An (epsilon, delta) budget is met by pure noise or by zCDP, whichever has less variance.
        """
        if not isinstance(self.privacy, ApproxDP):
            return self._series(self.privacy)
        both = [self._series(self.privacy.pure_within()), self._series(self.privacy.zcdp_within())]

        def usual(series: Series) -> float:
            split = self._policy.split(series)
            return self._bin_variance(part(split.unit, split.usual))

        return min(both, key=usual)

    def _series(self, privacy: Drawn) -> Series:
        window = isinstance(self.unit, Window) and (
            self.horizon is None or self.unit.steps < self.horizon
        )
        return Series(
            steps=self.unit.steps if window and isinstance(self.unit, Window) else self.horizon,
            sliding=window,
            records=self._records,
            shape=self.domain.shape,
            privacy=privacy,
        )

    @property
    def _split(self) -> Split:
        return self._policy.split(self.series)

    @property
    def guarantee(self) -> Guarantee:
        series, split = self.series, self._split
        release = levels.proved(self._static, self._tree, split.unit, self._records)
        decisions, releases = self._policy.proved(series), part(release, split.units)
        loss: Loss = releases if decisions is None else releases & decisions
        return Guarantee(restate(loss, self.privacy), self.unit, self.neighbours, self.horizon)

    def init(self) -> State[SnapshotPublic, SnapshotPrivate]:
        bins = self.domain.size
        pace = self._policy.begin(self.series)
        spread = np.zeros(bins if self._policy.tracks and not self._foresees else 0, np.float32)
        public = SnapshotPublic(pace, np.zeros((), np.int64), np.zeros(bins), spread)
        return State(
            public, SnapshotPrivate(quiet(), np.zeros(bins if self.changes else 0, np.int64))
        )

    def plan(self, public: SnapshotPublic) -> Plan:  # noqa: ARG002
        return Plan(codes=self.domain, key=self.unit.column)

    def measure(
        self, state: State[SnapshotPublic, SnapshotPrivate], counts: Counts, noise: Draws
    ) -> Step[SnapshotPublic, SnapshotPrivate]:
        public, private, series = state.public, state.private, self.series
        current = private.current + counts.net if self.changes else counts.adds
        snapshot = Snapshot(
            distance=lambda kind="l1": _distance(kind, current, public.estimates),
            error=lambda units: float(
                np.sqrt(self._bin_variance(part(self._policy.split(series).unit, units)) / 2)
            ),
            population=int(public.population),
            apart=functools.partial(_apart, self._tree, current),
            variances=self._noise,
        )
        pace = advanced(series, public.pace)
        decision = self._policy.decide(series, pace, private.hidden, snapshot, noise.at("decision"))
        held = SnapshotPrivate(decision.hidden, current if self.changes else private.current)
        public = replace(public, pace=decision.pace)
        if decision.units:
            public = self._released(
                public, current, decision.units, first=not int(state.public.pace.last), noise=noise
            )
        return Step(State(public, held))

    def _released(
        self, public: SnapshotPublic, current: np.ndarray, units: int, *, first: bool, noise: Draws
    ) -> SnapshotPublic:
        loss = part(self._split.unit, units)
        found = levels.measure(
            self._static, self._tree, current, loss, self._records, noise.at("release")
        )
        if self._policy.tracks:
            known = Combined(public.pace, public.estimates, public.variances)
            made = self._policy.combined(self.series, known, found, self._noise)
            found, public = (
                made.estimates,
                replace(public, pace=made.pace, variances=made.variances),
            )
        people = public.population
        if first:
            people = np.asarray(self.population or max(1, round(float(found.sum()))), np.int64)
        return replace(public, estimates=found, population=people)

    @property
    def _foresees(self) -> bool:
        """Whether the policy moves what is shown; a plug-in's of before does not say."""
        return getattr(self._policy, "foresees", False)

    def view(self, public: SnapshotPublic) -> SnapshotView | None:
        pace = public.pace
        if not int(pace.last):
            return None
        estimates, variances = public.estimates, public.variances
        if self._foresees:
            known = Combined(public.pace, public.estimates, public.variances)
            estimates, variances = self._policy.shown(self.series, known, self._noise)
        if not self._policy.tracks:
            by_depth = self._noise(int(pace.paid))
            variances = (
                by_depth[:1] if len(set(by_depth)) == 1 else np.repeat(by_depth, self._details)
            )
        return SnapshotView(
            self.domain, int(pace.step), int(pace.last), frozen(estimates), frozen(variances)
        )

    def sample(
        self, view: SnapshotView | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        estimates = np.zeros(self.domain.size) if view is None else view.estimates
        if (
            view is not None
            and not self._foresees
            and view.measured < view.step
            and len(previous) == max(0, round(estimates.sum()))
        ):
            # Nothing was released, so the rows stand too.
            return Sample(previous, np.zeros(0, np.int64))
        return resampled(self.domain, estimates, previous, rng)

    def _noise(self, units: int) -> np.ndarray:
        """The variances of a release with some units, by depth."""
        return self._variances(part(self._split.unit, units))

    def _variances(self, loss: Drawn) -> np.ndarray:
        return levels.variances(self._static, self._tree, loss, self._records)

    def _bin_variance(self, loss: Drawn) -> float:
        """The mean variance of a bin.

        Details have a length of one, and there are as many as bins.
        """
        return float(self._variances(loss) @ self._details) / self.domain.size

    @property
    def _details(self) -> list[int]:
        return [1, *(len(self._tree.whose(depth)) for depth in range(self._tree.depth))]


def _apart(
    tree: Halving, current: np.ndarray, shown: Sequence[tuple[int, np.ndarray]]
) -> np.ndarray:
    """(depths,) 1-norms of the sums of nodes, in integers."""
    counts = tree.sums(current[tree.order])
    return np.array(
        [np.abs(counts[depth] - np.rint(sums).astype(np.int64)).sum() for depth, sums in shown]
    )


def _distance(kind: Distance, current: np.ndarray, estimates: np.ndarray) -> int:
    from tailrace.mechanisms.snapshot import kernel

    kinds = {"l1": kernel.distance, "kl": kernel.divergence, "max": kernel.largest}
    return int(kinds[kind](current, estimates))
