"""A spatial stream: points counted in an adapting tree.

A clock counts insertions and deletions under a small share of the budget. It ends an epoch when
enough has happened; the epoch's exact net counts, one for each leaf, then get noise once, under the
rest of the budget. Everything else is made of released numbers: the next epoch's leaves, the counts
shown, the synthetic points.

Privacy: the declared loss of the declared unit over the horizon, neighbours add/remove.
1. Fix all releases. Then every epoch's leaves are fixed, chosen from releases before it begins, and
   so is its end: by the clock, or by public schedule (first release, longest epoch, horizon,
   retention). A buffer is private until it is measured, and no release looks at it.
2. One event changes one row of the clock, at one step, by one: `clock.loss`.
3. It falls into one epoch and, as leaves are disjoint, into at most one leaf's net count, measured
   once: `atoms.loss`, the full loss of one draw.
4. Given the same releases the two use independent noise, drawn in turn, so the losses add
   (concurrent composition of pure and Renyi losses: Vadhan and Wang 2021, Lyu 2022). Leaves may
   depend on past releases: for pure losses by F1 of the selective-counting proof, for Gaussian ones
   by F2, since every count depends only on what came before its draw.
5. A user of m insertions and d deletions moves the leaves' counts by a - b with nonnegative a, b of
   1-norms m and d, wherever they fall: `loss(m, d)` of both. (A `Window`'s: `unit.events_of`.)
6. With `retention` only insertions are counted, each once, and older ones are dropped by the
   calendar: a record's whole life is one event; a user's, m. (Expired counts still help to place
   the rest: they were released before.)
Accuracy: a leaf holds one draw for each epoch since it was divided off, and its share of older
ones; with a churn of one half the number of epochs grows with the logarithm of the number of
points, and then by two for each time all points are replaced. The error falls as data grow: leaves
are divided at a fixed number of deviations of their noise. `view` has the errors.
Source: PrivStream's stream on a tree (its Algorithms 1 and 5) without its tree: a structure from
released counts needs no PrivTree and no budget. Consistent nonnegative trees as in Hay et al. 2010
and Zhang et al. 2016.
Departs: epochs end by a noisy clock and use the full budget each; a new node inherits from counts
above it in proportion to the counts in it; the last epoch's change is taken to go on until the next
one ends; exact integer noise; points are placed so that every box of the partition holds its count
to within one, and stay where they are.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counters.base import Counter
from tailrace.counters.choice import allot
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Box
from tailrace.domain.geometry import Region, Roads
from tailrace.domain.geometry.partition import area_before, partition_of
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Sample, State, Step, Table
from tailrace.mechanisms.shared.events import OfEvents, chosen
from tailrace.mechanisms.spatial.epochs import AdaTree, Epochs, SpatialPublic
from tailrace.mechanisms.spatial.tree import Places, SpatialView, Tree, groups_of
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.budget import Drawn, part, per_event, quieter, restate
from tailrace.privacy.loss import Loss, whole
from tailrace.privacy.unit import Unit

# Of the clock's share, where a retention ends the epochs and the clock only counts points.
# Chosen by trial while building; no committed result.
_BY_CALENDAR = Fraction(1, 5)


@dataclass(frozen=True)
class SpatialPrivate:
    """Private state: exact counts awaiting measurement, and the clock's sums."""

    buffer: np.ndarray  # (leaves,) net counts of the open epoch; none before its first step
    waiting: np.ndarray  # (rows,) adds and deletes before the first release
    clock: Any


@told
@dataclass(frozen=True, kw_only=True)
class SpatialStream(OfEvents):
    """Points in `domain`, updated by insertions and deletions.

    `begin` is the step of the first release: what comes before is counted with it. `retention` says
    that a point leaves by itself so many steps after it came: no deletions are pushed then, and a
    record's whole life is one event.

    >>> from tailrace import Box, Event, PureDP
    >>> city = Box(low=(-74.26, 40.48), high=(-73.70, 40.92), columns=("lon", "lat"))
    >>> points = SpatialStream(domain=city, privacy=PureDP(epsilon=1), unit=Event(), horizon=365)
    >>> points.guarantee.short
    'epsilon = 1 for one event over 365 steps'
    """

    domain: Box | Region | Roads
    privacy: Loss
    unit: Unit
    horizon: int | None
    deletes: bool = None  # type: ignore[assignment]  # None: yes, but with a retention
    retention: int | None = None
    begin: int = 1
    structure: AdaTree = field(default_factory=AdaTree)

    def __post_init__(self) -> None:
        if not isinstance(self.structure, AdaTree):
            raise ConfigError("structure must be an AdaTree, for example AdaTree(churn=0.25).")
        for name in ("horizon", "retention", "begin"):
            if name == "begin" or getattr(self, name) is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name)))
        if self.horizon is not None and self.begin > self.horizon:
            raise ConfigError(
                "begin, the step of the first release, must not lie beyond the horizon."
            )
        if self.deletes is None:
            object.__setattr__(self, "deletes", self.retention is None)
        self._check()
        if self.retention is not None and self.deletes:
            raise ConfigError("With a retention points leave by themselves: deletes must be False.")
        partition_of(self.domain)
        self.atoms.check()
        self.clock.init(0)

    @property
    def rows(self) -> Places:
        return self.domain

    @property
    def _rows(self) -> int:
        return 2 if self.deletes else 1

    @functools.cached_property
    def _budgets(self) -> tuple[Drawn, Drawn]:
        """Budgets per unit of the clock and of the leaves.

        Pure or zCDP, whichever gives the leaves less noise.
        """
        share = self.structure.clock * (1 if self.retention is None else _BY_CALENDAR)
        whole = quieter(self.privacy, events=self._events)
        return part(whole, share), part(whole, 1 - share)

    @functools.cached_property
    def clock(self) -> Counter[Any]:
        """The counter of events, with its budget per event."""
        before = self.begin - 1 if self.retention is None else 0
        horizon = None if self.horizon is None else self.horizon - before
        return allot(None, privacy=self._budgets[0], horizon=horizon, events=self._events)

    @functools.cached_property
    def atoms(self) -> Atoms:
        """The noise of a leaf's count, budgeted per event."""
        return Atoms(per_event(self._budgets[1], self._events), weight=1)

    @functools.cached_property
    def _epochs(self) -> Epochs:
        return Epochs(
            domain=self.domain,
            structure=self.structure,
            counter=self.clock,
            rows=self._rows,
            noise=self.atoms.variance(),
            horizon=self.horizon,
            begin=self.begin,
            retention=self.retention,
        )

    def _loss(self, inserted: int, deleted: int) -> Loss:
        loss = self.clock.loss(inserted, deleted) & self.atoms.loss(inserted, deleted)
        return restate(loss, self.privacy)

    def init(self) -> State[SpatialPublic, SpatialPrivate]:
        zero, none, rows = (np.zeros(shape, np.int64) for shape in ((), 0, self._rows))
        flags, parts = none.astype(np.bool_), np.zeros((0, 0), np.int64)
        public = SpatialPublic(
            step=zero,
            epoch=zero,
            closed=zero,
            clock=rows.astype(float),
            at_close=rows.astype(float),
            events=np.zeros(()),
            total=np.zeros(()),
            recent=np.zeros(0),
            spans=np.zeros((0, 2), np.int64),
            tree=Tree(flags, flags, none, parts, parts),
        )
        return State(public, SpatialPrivate(none, rows, self.clock.init(self._rows)))

    def plan(self, public: SpatialPublic) -> Plan:
        groups = groups_of(self._epochs.tree(public), self.domain)
        return Plan(codes=self.domain, key=self._key, groups=groups)

    def measure(
        self, state: State[SpatialPublic, SpatialPrivate], counts: Counts, noise: Draws
    ) -> Step[SpatialPublic, SpatialPrivate]:
        private = state.private
        public = replace(state.public, step=np.asarray(state.public.step + 1))
        happened = np.array([counts.adds.sum(), counts.deletes.sum()])[: self._rows]
        happened = happened + private.waiting
        buffer = counts.net + private.buffer if len(private.buffer) else counts.net
        if public.step < self._epochs.origin:
            return Step(State(public, replace(private, buffer=buffer, waiting=happened)))
        ticking, estimates = self.clock.step(private.clock, happened, noise.at("clock"))
        clock = estimates.astype(float)
        private = SpatialPrivate(buffer, np.zeros_like(private.waiting), ticking)
        recent = public.recent
        if self.retention is not None:
            recent = np.concatenate([recent, clock])[-self.retention - 1 :]
        public = replace(public, clock=clock, recent=recent)
        if self._epochs.ends(public):
            noisy = buffer + self.atoms.draw(noise.at("leaves"), len(buffer))
            public, private = self._epochs.close(public, noisy), replace(private, buffer=buffer[:0])
        return Step(State(public, private))

    def view(self, public: SpatialPublic) -> SpatialView | None:
        if not public.epoch or public.step < self.begin:
            return None
        standing = self._epochs.standing(public.tree)
        counts, variance = self._epochs.counts(public, standing)
        return SpatialView.of(
            self.domain,
            standing,
            counts,
            variance,
            total_variance=self._epochs.total_variance(public),
            pending=max(self._epochs.pending(public), 0.0),
        )

    def sample(self, view: SpatialView | None, previous: Table, rng: np.random.Generator) -> Sample:
        partition, none = partition_of(self.domain), np.zeros(0, np.int64)
        if view is None:
            return previous.after(previous.numbers, none, self.domain.decode(none, rng))
        from tailrace.mechanisms.spatial.kernel import placed

        tree, area = (view.inner, view.second, view.counts), area_before(self.domain)
        dense = len(previous) > self.domain.size // 16
        if dense:
            held = previous.tally(_Placed(self.domain), self.domain.size)
            have, order = np.zeros(len(held) + 1, np.int64), none
            np.cumsum(held, out=have[1:])
        else:
            have = partition.places[previous.cells]
            order = np.argsort(have, kind="stable")
            have = have[order]
        gone, new = placed(*tree, have, dense, area, partition.depth, rng)
        if not dense:
            gone = previous.numbers[np.sort(order[gone])]
        elif len(gone):
            at = np.searchsorted(have, gone, side="right") - 1
            due = np.bincount(partition.cells[at], minlength=self.domain.size)
            held = np.zeros_like(due)
            held[partition.cells[at]] = have[at + 1] - have[at]
            gone = chosen(previous, held, due, rng)
        new = partition.cells[new]
        return previous.after(gone, new, self.domain.decode(new, rng))


@dataclass(frozen=True)
class _Placed:
    """The place of each cell in the partition."""

    domain: Places

    def __call__(self, cells: np.ndarray) -> np.ndarray:
        return partition_of(self.domain).places[cells]
