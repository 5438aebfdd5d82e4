"""A spatial stream: points counted in an adapting tree.

A clock counts insertions and deletions under a small share of the budget. It ends an epoch when
enough has happened; the epoch's exact net counts, one for each leaf, then get noise, under the rest
of the budget: once, or, where the epoch holds far more than its leaves were made for, in a few
rounds from coarse to fine that share it. Everything else is made of released numbers: the leaves of
the next round and of the next epoch, the counts shown, the synthetic points.

Privacy: the declared loss of the declared unit over the horizon, neighbours add/remove.
1. One event changes one row of the clock, at one step, by one, and the net count of one place, in
   the one epoch that its step falls into. (With attributes, of one place in the map of its values:
   the maps are disjoint.) Net counts are private until they are measured: neither they nor how
   many places they touch decide anything.
2. Fix all releases. Then the end of every epoch is fixed: by the clock, or by public schedule
   (first release, longest epoch, horizon, retention). So is its number of rounds and their shares
   of the budget, which the clock and the counts of earlier epochs decide, and so are the leaves of
   each round, chosen from releases before it. Every leaf of a round gets a draw, empty or not.
3. The event loses `clock.loss` by the clock. The leaves of a round are disjoint, so it moves at
   most one of a round's counts, by one: in an epoch of one round it loses `atoms.loss`; in one of
   several the sum of their losses. The rounds have exact fractions of the same budget that add up
   to one, so that sum is `atoms.loss` again (epsilon and rho add up, and are linear in the share).
   Counts of other epochs and other leaves do not hold the event.
4. Given the same releases all draws are independent and drawn in turn, so the losses add
   (adaptive composition; concurrent with the clock's: Vadhan and Wang 2021, Lyu 2022). Leaves may
   depend on past releases: for pure losses by F1 of the selective-counting proof, for Gaussian ones
   by F2, since every count depends only on what came before its draw.
5. A user of m insertions and d deletions moves a round's counts by a - b with nonnegative a, b,
   whose 1-norms add up to at most m and d over the epochs, wherever they fall: `loss(m, d)` of the
   clock and of each round, at its share. (A `Window`'s: `unit.events_of`.)
6. With `retention` only insertions are counted, each once, and older ones are dropped by the
   calendar: a record's whole life is one event; a user's, m. (Expired counts still help to place
   the rest: they were released before.)
Accuracy: the share of a node's points in its first half is filtered over the epochs: where nothing
moves, noise averages out, and what moves is followed. The error falls as data grow: leaves are
divided at a fixed number of deviations of their noise. `view` has the errors.
Source: PrivStream's stream on a tree (its Algorithms 1 and 5) without its tree: a structure from
released counts needs no PrivTree and no budget. Consistent trees as in Hay et al. 2010, nonnegative
ones as in Zhang et al. 2016; shares by Kalman's filter (1960), with the unrest of each depth by
empirical Bayes.
Departs: epochs end by a noisy clock and use the full budget each; the last epoch's change is taken
to go on until the next one ends; exact integer noise; points are placed so that every box of the
partition holds its count to within one, and stay where they are.
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
from tailrace.domain.geometry import Places, Region, Roads
from tailrace.domain.geometry.partition import Space, area_before, lay_out, partition_of
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Sample, State, Step, Table
from tailrace.mechanisms.shared.events import OfEvents, chosen
from tailrace.mechanisms.spatial.epochs import Epochs
from tailrace.mechanisms.spatial.pending import (
    SpatialPrivate,
    groups_of,
    of_places,
    records,
    spread,
)
from tailrace.mechanisms.spatial.public import AdaTree, SpatialPublic
from tailrace.mechanisms.spatial.tree import Found, Tree, counted, seed
from tailrace.mechanisms.spatial.view import SpatialView
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.budget import Drawn, part, per_event, quieter, restate
from tailrace.privacy.loss import Loss, whole
from tailrace.privacy.unit import Unit

# Of the clock's share, where a retention ends the epochs and the clock only counts points.
# Chosen by trial while building; no committed result.
_BY_CALENDAR = Fraction(1, 5)
# Shares of the leaves' budget, where an epoch is measured in rounds.
# From ../shared/accuracy2.md, part 1, section 2: two rounds are worse, four no better.
_ROUNDS = (Fraction(1, 5), Fraction(3, 10), Fraction(1, 2))

# A variance that is not zero: the smallest that the estimates meet.
_TINY = 1e-6


@told
@dataclass(frozen=True, kw_only=True)
class SpatialStream(OfEvents):
    """Points in `domain`, updated by insertions and deletions.

    `begin` is the step of the first release: what comes before is counted with it. `retention` says
    that a point leaves by itself so many steps after it came: no deletions are pushed then, and a
    record's whole life is one event. Points of `Places` carry their attributes.

    >>> from tailrace import Box, Event, PureDP
    >>> city = Box(low=(-74.26, 40.48), high=(-73.70, 40.92), columns=("lon", "lat"))
    >>> points = SpatialStream(domain=city, privacy=PureDP(epsilon=1), unit=Event(), horizon=365)
    >>> points.guarantee.short
    'epsilon = 1 for one event over 365 steps'
    """

    domain: Box | Region | Roads | Places
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
    def rows(self) -> Space:
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
    def _every_atoms(self) -> tuple[Atoms, ...]:
        """The noise of an epoch's only round, and of each where it has several."""
        whole = per_event(self._budgets[1], self._events)
        return self.atoms, *(Atoms(part(whole, share), weight=1) for share in _ROUNDS)

    @functools.cached_property
    def _epochs(self) -> Epochs:
        return Epochs(
            domain=self.domain,
            structure=self.structure,
            counter=self.clock,
            rows=self._rows,
            noise=tuple(max(atoms.variance(), _TINY) for atoms in self._every_atoms),
            horizon=self.horizon,
            begin=self.begin,
            retention=self.retention,
        )

    def _loss(self, inserted: int, deleted: int) -> Loss:
        # An epoch is measured in one way or the other, and both cost the same.
        once, *rounds = (atoms.loss(inserted, deleted) for atoms in self._every_atoms)
        together = functools.reduce(lambda one, other: one & other, rounds)
        leaves = max(once, together, key=lambda loss: loss.as_zcdp().rho)
        return restate(self.clock.loss(inserted, deleted) & leaves, self.privacy)

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

    @functools.cached_property
    def _plan(self) -> Plan:
        return Plan(codes=self.domain, key=self._key, groups=groups_of(self.domain))

    def plan(self, public: SpatialPublic) -> Plan:  # noqa: ARG002
        return self._plan

    def measure(
        self, state: State[SpatialPublic, SpatialPrivate], counts: Counts, noise: Draws
    ) -> Step[SpatialPublic, SpatialPrivate]:
        epochs = self._epochs
        public = replace(state.public, step=np.asarray(state.public.step + 1))
        private = self._with_events(state, counts)
        if public.step < epochs.origin:
            return Step(State(public, private))
        ticking, estimates = self.clock.step(private.clock, private.waiting, noise.at("clock"))
        private = replace(private, waiting=np.zeros_like(private.waiting), clock=ticking)
        recent, clock = public.recent, estimates.astype(float)
        if self.retention is not None:
            recent = np.concatenate([recent, clock])[-self.retention - 1 :]
        public = replace(public, clock=clock, recent=recent)
        if not epochs.ends(public):
            return Step(State(epochs.heard(public), private))
        found = self._measured(public, private, noise.at("leaves"))
        return Step(State(epochs.close(public, found), private.cleared()))

    def _with_events(
        self, state: State[SpatialPublic, SpatialPrivate], counts: Counts
    ) -> SpatialPrivate:
        """The private state with a step's events."""
        private, happened = state.private, (counts.adds.sum(), counts.deletes.sum())
        private = replace(private, waiting=private.waiting + happened[: self._rows])
        if len(private.buffer):
            private = replace(private, buffer=private.buffer[:0]).plus(
                *self._older(state.public, private.buffer)
            )
        return private.plus(*records(self.recounted(state.public, counts), self.domain))

    def recounted(self, public: SpatialPublic, counts: Counts) -> Counts:
        """Counts of leaves, by an older version in an open step, as those of places."""
        if len(counts.adds) == self._plan.size:
            return counts
        return Counts(
            *(
                of_places(*self._older(public, part), self._plan.size, self.domain)
                for part in (counts.adds, counts.deletes)
            )
        )

    def _older(self, public: SpatialPublic, nets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Records of an older version's counts of leaves."""
        tree = public.tree if len(public.tree.inner) else seed(self._epochs.seed_depth)
        layout = lay_out(tree.inner, self.domain)
        leaves = counted(tree.leaf, layout)
        return spread(nets, layout.first[leaves], layout.last[leaves], self.domain)

    def _measured(self, public: SpatialPublic, private: SpatialPrivate, noise: Draws) -> Found:
        """Exact counts of leaves meet noise, in one round or coarse to fine in several."""
        epochs = self._epochs
        found = Found.nothing(epochs.standing(public))
        for turn in epochs.rounds(public):
            if turn > 1:
                found = epochs.finer(public, found, turn)
            layout = found.standing.layout
            exact = private.sums(layout.first[found.leaves], layout.last[found.leaves])
            drawn = self._every_atoms[turn].draw(noise.at(turn) if turn else noise, len(exact))
            found = found.plus(exact + drawn, epochs.noise[turn])
        return found

    def view(self, public: SpatialPublic) -> SpatialView | None:
        if not public.epoch or public.step < self.begin:
            return None
        return self._epochs.view(public)

    def sample(self, view: SpatialView | None, previous: Table, rng: np.random.Generator) -> Sample:
        partition, none = partition_of(self.domain), np.zeros(0, np.int64)
        if view is None:
            return previous.after(previous.numbers, none, self.domain.decode(none, rng))
        from tailrace.mechanisms.spatial.kernel import placed

        tree, area = (view.inner, view.second, view.counts), area_before(self.domain)
        dense = len(previous) > self.domain.size // 16
        if dense:
            held = previous.tally(_Placed(self.domain), len(partition.cells))
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

    domain: Space

    def __call__(self, cells: np.ndarray) -> np.ndarray:
        return partition_of(self.domain).places[cells]
