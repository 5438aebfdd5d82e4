"""Histograms of a data set that changes: some snapshots are measured, the others show what was
measured last.

Privacy: the declared loss of one person over the whole series (`User`), or within any w consecutive
steps of it (`Window`), neighbours add/remove. A person has at most `records` records in a snapshot,
chosen from that person's rows alone, so one person moves a snapshot's histogram by at most that in
the 1-norm, at every step. Two things meet the data: decisions, with the loss that their policy
proves (`policies/`), and releases, each in whole units with the loss that the static part's noise
proves (`static/levels.py`), of which no `steps` consecutive steps hold more than `Split.units`.
Steps outside the window in which two series differ have the same law given what was released
before. The total is the sum (of epsilons, or of rhos). Distances are integers, relative to a public
number of people: one that is given, or the sum of the first release. What stands between releases,
and combining them, is post-processing.
Accuracy: the static part's noise at the latest release (`SnapshotView`), and what has changed
since.
Source: Li, Xiong, Jiang, Liu 2015 (DSFT, DSAT), Kellaris et al. 2014.
Departs: see the policies, and docs/explanation/corrections.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Schema
from tailrace.domain.halving import Halving, halving
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Sample, State, Step, Table, Takes
from tailrace.mechanisms.shared.bins import resampled
from tailrace.mechanisms.snapshot import levels
from tailrace.mechanisms.snapshot.fold import fold
from tailrace.mechanisms.snapshot.levels import Quadtree
from tailrace.mechanisms.snapshot.policy import (
    Hidden,
    Pace,
    Series,
    Snapshot,
    Split,
    advanced,
    quiet,
)
from tailrace.mechanisms.snapshot.tracking import Tracking
from tailrace.mechanisms.snapshot.view import SnapshotView
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn, part, restate
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import ApproxDP, Loss, check_privacy, whole
from tailrace.privacy.unit import AddRemove, Neighbours, User, Window

LARGEST = 10_000_000  # bins


@dataclass(frozen=True)
class Standing:
    """What has been released so far."""

    pace: Pace
    population: np.ndarray  # () what distances are relative to; 0 before the first release
    estimates: np.ndarray  # (bins,)
    variances: (
        np.ndarray
    )  # (bins,) of the details of combined releases; empty where releases replace each other


@dataclass(frozen=True)
class Held:
    """What is private: the noise on a threshold, and the current histogram where only changes to it
    are fed.
    """

    hidden: Hidden
    current: np.ndarray  # (bins,), or empty


@told
@dataclass(frozen=True, kw_only=True)
class SnapshotHistogram:
    """A histogram over `domain` at every step, of a data set in which a person may take part at
    every step.

    `policy` says when a snapshot is measured (None: `Tracking()`), `histogram` how (None:
    `Quadtree()`). A batch is the whole data set; with `changes=True` it is what was inserted and
    deleted since the last step. `population` is a public guess of the number of people.

    >>> from tailrace import Categorical, Integer, PureDP, Schema, User
    >>> ward = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 99))
    >>> person = User(column="id", records=1)
    >>> SnapshotHistogram(domain=ward, privacy=PureDP(epsilon=1), unit=person, horizon=365).guarantee.short
    "epsilon = 1 for one person (column 'id') over 365 steps"
    """

    domain: Schema
    privacy: Loss
    unit: User | Window
    horizon: int | None
    policy: Any = None
    histogram: Any = None
    population: int | None = None
    changes: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Schema):
            raise ConfigError(
                "domain must be a Schema of attributes, for example Schema(age=Integer(0, 99))."
            )
        if self.domain.size > LARGEST:
            raise ConfigError(
                f"The domain has more than {LARGEST:,} bins: use fewer attributes or coarser edges."
            )
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
        for units in (1, split.units):  # a release has at least one unit, and at most all of them
            levels.check(self._static, self._tree, part(split.unit, units), self._records)

    @property
    def rows(self) -> Schema:
        return self.domain

    @property
    def takes(self) -> Takes:
        return Takes.Events if self.changes else Takes.Snapshots

    @property
    def neighbours(self) -> Neighbours:
        return AddRemove

    @property
    def deletes(self) -> bool:
        return self.changes

    @property
    def rounds(self) -> int:
        return 1

    @property
    def _policy(self) -> Any:
        return Tracking() if self.policy is None else self.policy

    @property
    def _static(self) -> Any:
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
        """What the policy plans with. An (epsilon, delta) budget is met by pure noise or by zCDP,
        whichever has less variance.
        """
        if not isinstance(self.privacy, ApproxDP):
            return self._series(self.privacy)
        both = [self._series(self.privacy.pure_within()), self._series(self.privacy.zcdp_within())]
        return min(both, key=lambda series: self._bin_variance(self._policy.split(series).unit))

    def _series(self, privacy: Drawn) -> Series:
        window = isinstance(self.unit, Window) and (
            self.horizon is None or self.unit.steps < self.horizon
        )
        return Series(
            steps=self.unit.steps if window and isinstance(self.unit, Window) else self.horizon,
            sliding=window,
            records=self._records,
            bins=self.domain.size,
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

    def init(self) -> State:
        bins = self.domain.size
        pace = self._policy.begin(self.series)
        spread = np.zeros(bins if self._policy.tracks else 0, np.float32)
        public = Standing(pace, np.zeros((), np.int64), np.zeros(bins), spread)
        return State(public, Held(quiet(), np.zeros(bins if self.changes else 0, np.int64)))

    def plan(self, public: Standing) -> Plan:  # noqa: ARG002
        return Plan(codes=self.domain, key=self.unit.column)

    def measure(self, state: State, counts: Counts, noise: Draws) -> Step:
        public, private, series = state.public, state.private, self.series
        current = private.current + counts.net if self.changes else counts.adds
        snapshot = Snapshot(
            distance=lambda: _distance(current, public.estimates),
            error=lambda units: float(
                np.sqrt(self._bin_variance(part(self._policy.split(series).unit, units)) / 2)
            ),
            population=int(public.population),
        )
        pace = advanced(series, public.pace)
        decision = self._policy.decide(series, pace, private.hidden, snapshot, noise.at("decision"))
        held = Held(decision.hidden, current if self.changes else private.current)
        public = replace(public, pace=decision.pace)
        if decision.units:
            public = self._released(
                public, current, decision.units, first=not int(state.public.pace.last), noise=noise
            )
        return Step(State(public, held))

    def _released(
        self, public: Standing, current: np.ndarray, units: int, *, first: bool, noise: Draws
    ) -> Standing:
        loss = part(self._split.unit, units)
        found = levels.measure(
            self._static, self._tree, current, loss, self._records, noise.at("release")
        )
        if self._policy.tracks:
            before = None if first else public.estimates
            found, spread = fold(self._tree, before, found, self._variances(loss))
            public = replace(public, variances=spread.astype(np.float32))
        people = public.population
        if first:
            people = np.asarray(self.population or max(1, round(float(found.sum()))), np.int64)
        return replace(public, estimates=found, population=people)

    def view(self, public: Standing) -> SnapshotView | None:
        pace = public.pace
        if not int(pace.last):
            return None
        variances = public.variances
        if not self._policy.tracks:
            by_depth = self._variances(part(self._split.unit, int(pace.paid)))
            variances = (
                by_depth[:1] if len(set(by_depth)) == 1 else np.repeat(by_depth, self._details)
            )
        return SnapshotView(
            self.domain, int(pace.step), int(pace.last), _shown(public.estimates), _shown(variances)
        )

    def sample(
        self, view: SnapshotView | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        estimates = np.zeros(self.domain.size) if view is None else view.estimates
        if (
            view is not None
            and view.measured < view.step
            and len(previous.cells) == max(0, round(estimates.sum()))
        ):
            return Sample(
                previous, np.ones(len(previous.cells), bool)
            )  # nothing was released: the rows stand too
        return resampled(self.domain, estimates, previous, rng)

    def _variances(self, loss: Drawn) -> np.ndarray:
        return levels.variances(self._static, self._tree, loss, self._records)

    def _bin_variance(self, loss: Drawn) -> float:
        """The mean variance of a bin: details have a length of one, and there are as many as
        bins.
        """
        return float(self._variances(loss) @ self._details) / self.domain.size

    @property
    def _details(self) -> list[int]:
        return [1, *(len(self._tree.whose(depth)) for depth in range(self._tree.depth))]


def _distance(current: np.ndarray, estimates: np.ndarray) -> int:
    from tailrace.mechanisms.snapshot.kernel import distance

    return int(distance(current, estimates))


def _shown(values: np.ndarray) -> np.ndarray:
    shown = values.view()
    shown.setflags(write=False)
    return shown
