"""PrivStream, corrected: a new tree each step, counters at leaves.

Privacy: the declared loss of the declared unit over the horizon, neighbours add/remove.
1. Fix all releases before a step. Its tree is drawn by coins (`splits.py`) that see the insertions
   of the batch, and public counts that fall from parent to child: an insertion loses what
   `SplitCoin.loss` proves, a deletion nothing.
2. Every event is then fed once, to the counter of the one leaf it lies in: it loses `counter.loss`.
   This holds though the leaf depends on releases (selective counting): a fixed output fixes which
   counter is fed when, so the streams of one counter differ in one entry.
3. So an insertion loses both, a deletion the counter's part; a user of m insertions and d deletions
   the coins' `loss(m)` and the counter's `loss(m, d)`. Under ZCDP and ApproxDP both are measured in
   rho and added up.
4. Until step `begin`, which is public, nothing is released: all that came until then is the first
   batch. New counters start at zero: no history is filled in.

Accuracy: the noise of a leaf grows with the number of steps at which it, its ancestors or its
descendants were leaves: `view` has the errors.
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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from tailrace.calls import told
from tailrace.counters import Counter
from tailrace.counters.choice import allot, check_counter
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Box
from tailrace.domain.geometry.partition import Ground, Partition
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Looks, Sample, State, Step, Table
from tailrace.mechanisms.shared.events import OfEvents, changed
from tailrace.noise import Draws
from tailrace.papers.privtree.nodes import Batch, Grid, Growth, Nodes
from tailrace.papers.privtree.splits import GRID, PrivTree, SplitCoin
from tailrace.privacy.budget import Drawn, drawable, part, restate
from tailrace.privacy.loss import Loss, Number, whole
from tailrace.privacy.unit import Unit, Window


@dataclass(frozen=True)
class PrivTreePublic:
    """Every measurement so far, and the last step's tree."""

    step: np.ndarray  # ()
    offset: np.ndarray  # () of the rounding, in parts of a count
    nodes: Nodes
    inner: np.ndarray  # rows of the nodes that split at the last step, from the root down
    leaves: np.ndarray  # rows of its leaves, in the order of their places
    nonnegative: np.ndarray  # (leaves,) consistent counts; empty where points are rounded up


@dataclass(frozen=True)
class PrivTreePrivate:
    """The counters, and all events before the first release."""

    counters: Any
    places: np.ndarray
    adds: np.ndarray
    deletes: np.ndarray


@dataclass(frozen=True, eq=False)
class Leaves:
    """A tree's leaves, in the order of their places.

    Counts are unbiased, so some are negative.
    """

    depth: np.ndarray  # (leaves,) halvings
    index: np.ndarray  # (leaves,) among the nodes of that depth
    low: np.ndarray  # (leaves, dimensions) corners
    high: np.ndarray  # (leaves, dimensions)
    count: np.ndarray  # (leaves,)
    error: np.ndarray  # (leaves,) standard errors

    def __len__(self) -> int:
        return len(self.depth)


@dataclass(frozen=True, eq=False, repr=False)
class PrivTreeView(Looks):
    """A tree at a step.

    Leaves below one node share its noise; `count` accounts for that.
    """

    columns: tuple[str, ...]
    leaves: Leaves
    points: np.ndarray  # (leaves,) synthetic points
    start: np.ndarray  # (leaves,) first place
    low: np.ndarray  # (nodes, dimensions) corners of all nodes, leaves last
    high: np.ndarray  # (nodes, dimensions)
    # (nodes,) measured at the node, spread evenly over it; at leaves also what was measured below
    amount: np.ndarray
    variance: np.ndarray  # (nodes,) of the amounts, which are independent

    @property
    def facts(self) -> dict[str, str]:
        points = f"{int(self.points.sum()):,} synthetic"
        return {"points": points, "leaves": f"{len(self.leaves):,} in {', '.join(self.columns)}"}

    def count(self, *, low: Sequence[float], high: Sequence[float]) -> Estimate:
        """The number of points between two corners.

        The error is that of the noise alone: where points crowd in a part of a leaf, a rectangle
        that cuts it is off by more.
        """
        corners = [np.asarray(corner, float) for corner in (low, high)]
        wrong = any(corner.shape != (len(self.columns),) for corner in corners)
        if wrong or not (corners[0] <= corners[1]).all():
            raise ConfigError(
                f"Ask for low=(...) and high=(...), low not above high, with a number for each of "
                f"{', '.join(self.columns)}."
            )
        sides = np.clip(corners[1], self.low, self.high) - np.clip(corners[0], self.low, self.high)
        part = (sides / (self.high - self.low)).prod(axis=1)
        return Estimate(float(part @ self.amount), float(np.sqrt(part**2 @ self.variance)))


@told
@dataclass(frozen=True, kw_only=True)
class PrivTreeStream(OfEvents):
    """Places by a new tree each step, counted at leaves.

    `rounding="up"` rounds the count of a leaf up, as published: too many where leaves hold little.
    "unbiased" rounds nonnegative consistent counts so that sums are kept.

    >>> from tailrace import Box, Event, PureDP
    >>> city = Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
    >>> whose = {"unit": Event(), "horizon": 100}
    >>> PrivTreeStream(domain=city, privacy=PureDP(epsilon=1), **whose).guarantee.short
    'epsilon = 1 for one event over 100 steps'
    """

    domain: Ground
    privacy: Loss
    unit: Unit
    horizon: int | None
    structure: PrivTree = field(default_factory=PrivTree)
    counter: Any = None
    begin: int = 1
    deletes: bool = True
    rounding: Literal["up", "unbiased"] = "unbiased"

    def __post_init__(self) -> None:
        if Partition(self.domain).coded:
            raise ConfigError("domain has attributes beside places, which SpatialStream takes.")
        self._check()
        # Its coins see insertions alone, which a window raises and lowers: not what is paid for.
        if isinstance(self.unit, Window):
            raise ConfigError(
                "PrivTreeStream protects Event() or User(column=..., events=m); SpatialStream "
                "protects a Window too."
            )
        if not isinstance(self.structure, PrivTree):
            raise ConfigError("structure must be PrivTree(...), for example PrivTree(share=0.25).")
        if self.structure.fan_out not in (2, 1 << len(self.domain.columns)):
            raise ConfigError(
                "fan_out must be 2, or two to the number of dimensions of the domain."
            )
        object.__setattr__(self, "begin", whole("begin", self.begin))
        if self.horizon is not None and self.begin > self.horizon:
            raise ConfigError(
                "begin is the step of the first release: it must not lie beyond the horizon."
            )
        if self.rounding not in ("up", "unbiased"):
            raise ConfigError('rounding must be "up" or "unbiased".')
        check_counter(self.counter)
        # What does not fit is refused now, not at the first step.
        self.counting.init(0)
        self.splitting.penalty  # noqa: B018

    @property
    def rows(self) -> Ground:
        return self.domain

    def _budget(self, share: Number) -> Drawn:
        """A share of epsilon, or of rho."""
        return part(drawable(self.privacy), share)

    @functools.cached_property
    def splitting(self) -> SplitCoin:
        """The coins that draw the tree."""
        budget = self._budget(self.structure.share)
        return SplitCoin(self.structure.fan_out, self.structure.threshold, budget, self._events[0])

    @functools.cached_property
    def counting(self) -> Counter[Any]:
        """The counter of a leaf, within its budget."""
        steps = None if self.horizon is None else self.horizon - self.begin + 1
        budget = self._budget(1 - Fraction(self.structure.share))
        return allot(self.counter, privacy=budget, horizon=steps, events=self._events)

    def _loss(self, inserted: int, deleted: int) -> Loss:
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
        """The frame of every tree, no finer than its depth."""
        each = self.structure.fan_out.bit_length() - 1
        depth = self.partition.depth
        deepest = min(depth // each, self.structure.max_depth or depth)
        return Grid(deepest * each, each, deepest, self._before[:: 1 << depth - deepest * each])

    @functools.cached_property
    def _plan(self) -> Plan:
        places = self.partition.places >> (self.partition.depth - self.grid.halvings)
        groups = np.where(np.diff(self._before)[self.partition.places] > 0, places, -1)
        return Plan(codes=self.domain, key=self._key, groups=groups)

    def init(self) -> State[PrivTreePublic, PrivTreePrivate]:
        none, zero = np.zeros(0, np.int64), np.zeros((), np.int64)
        return State(
            PrivTreePublic(zero, zero, Nodes.none(), none, none, np.zeros(0)),
            PrivTreePrivate(self.counting.init(0), none, none, none),
        )

    def plan(self, public: PrivTreePublic | None) -> Plan:  # noqa: ARG002
        return self._plan

    def measure(
        self, state: State[PrivTreePublic, PrivTreePrivate], counts: Counts, noise: Draws
    ) -> Step[PrivTreePublic, PrivTreePrivate]:
        public, held = state.public, _joined(state.private, counts)
        step = np.asarray(public.step + 1)
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
                drawn = noise.at("offset").choose(np.zeros(GRID, np.int64), 1)
                offset = np.asarray(drawn, np.int64)
        none = np.zeros(0, np.int64)
        released = PrivTreePublic(step, offset, tree.nodes(), tree.inner(), leaves, nonnegative)
        return Step(State(released, PrivTreePrivate(counters, none, none, none)))

    def _fed(self, tree: Growth, leaves: np.ndarray, batch: Batch, state: Any, noise: Draws) -> Any:
        """Feed each leaf's counter with its insertions less deletions."""
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

    def view(self, public: PrivTreePublic) -> PrivTreeView | None:
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
        points, start = self._points(public, count), self.grid.span(depth, index)[0]
        measured = (low, high, amount, variance)
        return PrivTreeView(self.domain.columns, leaves, points, start, *measured)

    def _points(self, public: PrivTreePublic, count: np.ndarray) -> np.ndarray:
        """The number of synthetic points of each leaf."""
        if self.rounding == "up":
            return np.ceil(np.maximum(count, 0.0)).astype(np.int64)
        ends = np.floor(np.cumsum(public.nonnegative) + int(public.offset) / GRID).astype(np.int64)
        return np.diff(ends, prepend=0)

    def sample(
        self, view: PrivTreeView | None, previous: Table, rng: np.random.Generator
    ) -> Sample:
        start = points = np.zeros(1, np.int64)
        if view is not None:
            start, points = view.start << self.partition.depth - self.grid.halvings, view.points
        leaf = np.searchsorted(start, self.partition.places[previous.cells], side="right") - 1
        held = np.bincount(leaf, minlength=len(points))
        # Which of a leaf's points go is decided by chance, not by age.
        order, rank = rng.permutation(len(leaf)), np.empty(len(leaf), np.int64)
        earlier = np.repeat(np.cumsum(held) - held, held)
        rank[order[np.argsort(leaf[order], kind="stable")]] = np.arange(len(leaf)) - earlier
        stayed = rank < points[leaf]
        new = np.repeat(np.arange(len(points)), np.maximum(points - held, 0))
        ends = self._before[np.append(start, len(self._before) - 1)]
        weight = ends[new] + rng.random(len(new)) * (ends[new + 1] - ends[new])
        # The end of a leaf belongs to the next one.
        weight = np.minimum(weight, np.nextafter(ends[new + 1], 0.0))
        cells = self.partition.cells[np.searchsorted(self._before, weight, side="right") - 1]
        return changed(self.domain, previous, stayed, cells, rng)


def weights_of(domain: Ground) -> np.ndarray:
    """The public measure of each finest cell."""
    # In a box not the area: sums of ones are exact.
    if isinstance(domain, Box):
        return np.ones(domain.size)
    return domain.measure_of_cells().reshape(-1)


def _joined(held: PrivTreePrivate, counts: Counts) -> PrivTreePrivate:
    """Add a step's counts to those held back."""
    from tailrace.mechanisms.spatial import kernel

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
