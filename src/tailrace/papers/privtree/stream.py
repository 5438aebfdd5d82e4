"""PrivStream, corrected: a private tree of places is drawn anew at every step, and counters run at
its leaves.

Privacy: the declared loss of the declared unit over the horizon, neighbours add/remove. Given all
that was released before, a step's tree is drawn by coins (`privtree_splits`) that see the
insertions of this batch and public counts that fall from parent to child: an insertion loses what
`SplitCoin.loss` proves, and a deletion nothing. Then every event is fed to the counter of the one
leaf it lies in, once: it loses `counter.loss`, also where what is fed depends on what was released
(selective counting: fix an output, and it fixes which counter is fed when, so the streams of one
counter differ in one entry). So an insertion loses both, a deletion the counter's part; a user of m
insertions and d deletions the coins' `loss(m)` and the counter's `loss(m, d)`. Under ZCDP and
ApproxDP both parts are measured in rho and added up. Until step `begin`, which is public, nothing
is released: all that came until then is the first batch. New counters start at zero: no history is
filled in.
Accuracy: the noise of a leaf grows with the number of steps at which it, its ancestors or its
descendants were leaves: `view` says it.
Source: PrivStream (Kumar, Strohmer, Vershynin), Algorithms 3, 6 and 7; Kumar's dissertation,
chapter 3; PrivTree (Zhang, Xiao, Xie 2016).
Departs: the tree is drawn on nonnegative consistent counts and insertions, not on the released
counts and net changes, where a child can exceed its parent and the published proof fails; the
constant is kappa, smaller than (2 beta - 1) / (beta - 1), in one version for all; coins are exact;
counters add their increments; at the greatest depth nothing is drawn. Nodes that miss the domain's
geometry are left out, and counts are spread by its measure.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from tailrace.calls import told
from tailrace.counters.choice import allot, check_counter
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Box
from tailrace.domain.geometry.partition import Partition
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Sample, State, Step, Table, Takes
from tailrace.noise import Draws
from tailrace.papers.privtree.nodes import Batch, Grid, Growth, Nodes
from tailrace.papers.privtree.splits import GRID, PrivTree, SplitCoin
from tailrace.papers.privtree.view import Leaves, PrivTreeView
from tailrace.privacy.budget import Drawn, drawable, part, restate
from tailrace.privacy.guarantee import Guarantee, promised
from tailrace.privacy.loss import Loss, whole
from tailrace.privacy.unit import AddRemove, Neighbours, Unit, User, check_events, events_of


@dataclass(frozen=True)
class Released:
    """What has been released so far: every measurement, and the tree of the last step."""

    step: np.ndarray  # ()
    offset: np.ndarray  # () of the rounding, in parts of a count
    nodes: Nodes
    inner: np.ndarray  # rows of the nodes that split at the last step, from the root down
    leaves: np.ndarray  # rows of its leaves, in the order of their places
    nonnegative: (
        np.ndarray
    )  # (leaves,) consistent counts; without entries where points are rounded up


@dataclass(frozen=True)
class Held:
    """What is not released: the counters, and, before the first release, what came so far."""

    counters: Any
    places: np.ndarray
    adds: np.ndarray
    deletes: np.ndarray


@told
@dataclass(frozen=True, kw_only=True)
class PrivTreeStream:
    """Places by a tree that is drawn at every step, with a counter at each leaf.

    `rounding="up"` gives a leaf its count rounded up, as published, which is too many where leaves
    hold little; "unbiased" rounds nonnegative consistent counts so that sums are kept.

    >>> from tailrace import Box, Event, PureDP
    >>> city = Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
    >>> PrivTreeStream(domain=city, privacy=PureDP(epsilon=1), unit=Event(), horizon=100).guarantee.short
    'epsilon = 1 for one event over 100 steps'
    """

    domain: Any
    privacy: Loss
    unit: Unit
    horizon: int | None
    structure: PrivTree = field(default_factory=PrivTree)
    counter: Any = None
    begin: int = 1
    deletes: bool = True
    rounding: Literal["up", "unbiased"] = "unbiased"

    def __post_init__(self) -> None:
        Partition(self.domain)
        check_events(self)
        if not isinstance(self.structure, PrivTree):
            raise ConfigError("structure must be PrivTree(...), for example PrivTree(share=0.25).")
        if self.structure.fan_out not in (2, 1 << len(self.domain.columns)):
            raise ConfigError(
                "fan_out must be 2, or two to the number of dimensions of the domain."
            )
        if self.horizon is not None:
            object.__setattr__(self, "horizon", whole("horizon", self.horizon))
        object.__setattr__(self, "begin", whole("begin", self.begin))
        if self.horizon is not None and self.begin > self.horizon:
            raise ConfigError(
                "begin is the step of the first release: it must not lie beyond the horizon."
            )
        if self.rounding not in ("up", "unbiased"):
            raise ConfigError('rounding must be "up" or "unbiased".')
        check_counter(self.counter)
        self.counting.init(0)  # what does not fit is refused now, not at the first step
        self.splitting.penalty  # noqa: B018

    @property
    def rows(self) -> Any:
        return self.domain

    @property
    def takes(self) -> Takes:
        return Takes.Events

    @property
    def neighbours(self) -> Neighbours:
        return AddRemove

    @property
    def rounds(self) -> int:
        return 1

    @property
    def _events(self) -> tuple[int, int]:
        return events_of(self)

    def _budget(self, share: Any) -> Drawn:
        """A part of the whole loss: of epsilon, or of rho."""
        return part(drawable(self.privacy), share)

    @functools.cached_property
    def splitting(self) -> SplitCoin:
        """The coins that draw the tree."""
        budget = self._budget(self.structure.share)
        return SplitCoin(self.structure.fan_out, self.structure.threshold, budget, self._events[0])

    @functools.cached_property
    def counting(self) -> Any:
        """The counter of a leaf, with its budget per event; it may run from the first release to
        the last.
        """
        steps = None if self.horizon is None else self.horizon - self.begin + 1
        budget = self._budget(1 - self.structure.share)  # pyright: ignore[reportOperatorIssue] - a Fraction by now
        return allot(self.counter, privacy=budget, horizon=steps, events=self._events)

    @property
    def guarantee(self) -> Guarantee:
        return promised(self, self._loss)

    def _loss(self, inserted: int, deleted: int) -> Loss:
        """What the tree's coins and the leaves' counters prove together."""
        loss = self.splitting.loss(inserted) & self.counting.loss(inserted, deleted)
        return restate(loss, self.privacy)

    @functools.cached_property
    def partition(self) -> Partition:
        return Partition(self.domain)

    @functools.cached_property
    def _before(self) -> np.ndarray:
        """The public weight before each of the finest places."""
        return np.concatenate([[0.0], np.cumsum(weights_of(self.domain)[self.partition.cells])])

    @functools.cached_property
    def grid(self) -> Grid:
        """The frame of every tree: places no finer than the greatest depth."""
        each = self.structure.fan_out.bit_length() - 1
        deepest = min(
            self.partition.depth // each, self.structure.max_depth or self.partition.depth
        )
        return Grid(
            deepest * each,
            each,
            deepest,
            self._before[:: 1 << self.partition.depth - deepest * each],
        )

    @functools.cached_property
    def _plan(self) -> Plan:
        places = self.partition.places >> (self.partition.depth - self.grid.halvings)
        groups = np.where(np.diff(self._before)[self.partition.places] > 0, places, -1)
        return Plan(
            codes=self.domain,
            key=self.unit.column if isinstance(self.unit, User) else None,
            groups=groups,
        )

    def init(self) -> State:
        none, zero = np.zeros(0, np.int64), np.zeros((), np.int64)
        return State(
            Released(zero, zero, Nodes.none(), none, none, np.zeros(0)),
            Held(self.counting.init(0), none, none, none),
        )

    def plan(self, public: Released | None) -> Plan:  # noqa: ARG002
        return self._plan

    def measure(self, state: State, counts: Counts, noise: Draws) -> Step:
        public, held, step = (
            state.public,
            _joined(state.private, counts),
            np.asarray(state.public.step + 1),
        )
        if step < self.begin:
            return Step(State(replace(public, step=step), held))
        batch = Batch(held.places, _sums(held.adds), _sums(held.adds - held.deletes))
        tree = Growth(public.nodes, self.grid)
        tree.grow(batch, self.splitting, noise)
        leaves = tree.leaves()
        counters = self._fed(tree, leaves, batch, held.counters, noise.at("leaves"))
        tree.gather()
        offset, nonnegative = public.offset, np.zeros(0)
        if self.rounding == "unbiased":
            nonnegative = tree.nonnegative(leaves)
            if step == self.begin:
                offset = np.asarray(
                    noise.at("offset").choose(np.zeros(GRID, np.int64), 1), np.int64
                )
        none = np.zeros(0, np.int64)
        released = Released(step, offset, tree.nodes(), tree.inner(), leaves, nonnegative)
        return Step(State(released, Held(counters, none, none, none)))

    def _fed(self, tree: Growth, leaves: np.ndarray, batch: Batch, state: Any, noise: Draws) -> Any:
        """Feed each leaf's counter with what was inserted less what was deleted in it."""
        new = leaves[tree.counter[leaves] < 0]
        known = int(tree.counter[: tree.rows].max()) + 1
        tree.counter[new] = known + np.arange(len(new))
        start, stop = self.grid.span(tree.depth[leaves], tree.index[leaves])
        net = batch.among(batch.net, start, stop)
        grown = self.counting.grow(state, len(new)) if len(new) else state
        state, estimates = self.counting.step(grown, net, noise, rows=tree.counter[leaves])
        tree.own[leaves] = estimates
        tree.fed[leaves] += 1
        steps, which = np.unique(tree.fed[leaves], return_inverse=True)
        tree.own_variance[leaves] = self.counting.variance(steps)[which]
        return state

    def view(self, public: Released) -> PrivTreeView | None:
        if not len(public.leaves):
            return None
        nodes, many = public.nodes, len(public.inner)
        rows = np.concatenate([public.inner, public.leaves])
        low, high = self.partition.box(nodes.depth[rows], nodes.index[rows])
        amount, variance = nodes.own[rows], nodes.own_variance[rows]
        amount[many:] += nodes.below[public.leaves]
        variance[many:] += nodes.below_variance[public.leaves]
        depth, index = nodes.depth[public.leaves], nodes.index[public.leaves]
        count = amount[many:] + nodes.above[public.leaves]
        error = np.sqrt(variance[many:] + nodes.above_variance[public.leaves])
        leaves = Leaves(depth, index, low[many:], high[many:], count, error)
        start, _ = self.grid.span(depth, index)
        return PrivTreeView(
            self.domain.columns,
            leaves,
            self._points(public, count),
            start,
            low,
            high,
            amount,
            variance,
        )

    def _points(self, public: Released, count: np.ndarray) -> np.ndarray:
        """How many synthetic points each leaf gets."""
        if self.rounding == "up":
            return np.ceil(np.maximum(count, 0.0)).astype(np.int64)
        ends = np.floor(np.cumsum(public.nonnegative) + int(public.offset) / GRID).astype(np.int64)
        return np.diff(ends, prepend=0)

    def sample(
        self, view: PrivTreeView | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        start = (
            np.zeros(1, np.int64)
            if view is None
            else view.start << self.partition.depth - self.grid.halvings
        )
        points = np.zeros(1, np.int64) if view is None else view.points
        leaf = np.searchsorted(start, self.partition.places[previous.cells], side="right") - 1
        held = np.bincount(leaf, minlength=len(points))
        order = rng.permutation(
            len(leaf)
        )  # which of a leaf's points go is decided by chance, not by age
        rank = np.empty(len(leaf), np.int64)
        rank[order[np.argsort(leaf[order], kind="stable")]] = np.arange(len(leaf)) - np.repeat(
            np.cumsum(held) - held, held
        )
        stayed = rank < points[leaf]
        new = np.repeat(np.arange(len(points)), np.maximum(points - held, 0))
        ends = self._before[np.append(start, len(self._before) - 1)]
        weight = ends[new] + rng.random(len(new)) * (ends[new + 1] - ends[new])
        weight = np.minimum(
            weight, np.nextafter(ends[new + 1], 0.0)
        )  # the end of a leaf belongs to the next one
        cells = self.partition.cells[np.searchsorted(self._before, weight, side="right") - 1]
        values = self.domain.decode(cells, rng)
        columns = {
            name: np.concatenate([previous.columns[name][stayed], values[name]])
            for name in self.domain.columns
        }
        return Sample(Table(np.concatenate([previous.cells[stayed], cells]), columns), stayed)


def weights_of(domain: Any) -> np.ndarray:
    """The public measure of each of the finest cells, 0 where a cell misses the geometry; all the
    same in a box.
    """
    if isinstance(domain, Box):
        return np.ones(domain.size)  # not its area: sums of ones are exact
    return domain.measure_of_cells().reshape(-1)


def _joined(held: Held, counts: Counts) -> Held:
    """What was held back together with this step's counts, by sorted place."""
    from tailrace.papers.privtree import kernel

    touched = kernel.touched(counts.adds, counts.deletes)
    adds, deletes = counts.adds[touched], counts.deletes[touched]
    if not len(held.places):
        return replace(held, places=touched, adds=adds, deletes=deletes)
    places = np.union1d(held.places, touched)
    sums = np.zeros((2, len(places)), np.int64)
    for where, parts in ((held.places, (held.adds, held.deletes)), (touched, (adds, deletes))):
        sums[:, np.searchsorted(places, where)] += parts
    return replace(held, places=places, adds=sums[0], deletes=sums[1])


def _sums(values: np.ndarray) -> np.ndarray:
    """Sums before each of the values, and of all."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
