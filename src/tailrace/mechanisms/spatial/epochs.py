"""The rules of spatial epochs: functions of public numbers only.

They say when an epoch ends, in how many rounds it is measured, and in which leaves.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailrace.counters.base import Counter
from tailrace.domain.geometry.partition import Space, lay_out
from tailrace.mechanisms.shared.events import Clock, net
from tailrace.mechanisms.spatial.public import AdaTree, SpatialPublic
from tailrace.mechanisms.spatial.retention import Parts
from tailrace.mechanisms.spatial.shares import Shares, begun
from tailrace.mechanisms.spatial.tree import (
    Found,
    Standing,
    carried,
    coarser,
    regrown,
    seed,
)
from tailrace.mechanisms.spatial.view import SpatialView

# From ../shared/accuracy2.md, part 1, sections 2 and 4; checked by benchmarks/spatial.py.
# Epochs of this many times the points before, and of this many deviations of a leaf's noise, are
# measured in rounds.
_FAR_MORE, _ENOUGH = 2.0, 2000.0
# Deviations of the next round's noise above which a leaf is divided between rounds.
_ROUND_SPLIT = 3.0
# Deviations of the clock: an epoch with fewer events goes on.
_QUIET = 1.5
# Deviations of the clock: what is shown follows it when it has moved by more.
_HEARD = 2.0


@dataclass(frozen=True)
class Epochs:
    """The rules of one stream."""

    domain: Space
    structure: AdaTree
    counter: Counter[Any]  # of the clock
    rows: int  # of the clock: adds, and deletes where there are any
    noise: tuple[float, ...]  # variances of a leaf's count: in one round, and in each of several
    horizon: int | None
    begin: int  # the first step with a release
    retention: int | None

    @property
    def origin(self) -> int:
        """The first step at which noise is drawn.

        That of the first release; with a retention the very first, which costs nothing then.
        """
        return self.begin if self.retention is None else 1

    @functools.cached_property
    def _model(self) -> Shares | Parts:
        """What becomes of an epoch's counts."""
        about = (self.domain, self.structure, self.clock, self.noise[0])
        return Shares(*about) if self.retention is None else Parts(*about, self.retention)

    @property
    def seed_depth(self) -> int:
        """The depth of the first tree."""
        return self.structure.least(0.0, self.noise[0], self.domain)

    @functools.cached_property
    def clock(self) -> Clock:
        return Clock(self.counter, self.rows, self.horizon, self.origin, self.structure.churn)

    def standing(self, public: SpatialPublic) -> Standing:
        """The tree of the open epoch, and what stays the same about it; the last one is kept."""
        tree = public.tree if len(public.tree.inner) else seed(self.seed_depth)
        if self._last and self._last[0] is public.tree:
            return self._last[1]
        standing = coarser(Standing(tree, lay_out(tree.inner, self.domain)), self.domain)
        if self.retention is None and len(tree.share) != tree.inner.sum():
            standing = begun(standing, self.domain, self.noise[0])
        self._last[:] = [public.tree, standing]
        return standing

    @functools.cached_property
    def _last(self) -> list[Any]:
        return []

    def ends(self, public: SpatialPublic) -> bool:
        """Whether the open epoch ends with the current step."""
        step, closed, pending = int(public.step), int(public.closed), self.pending(public)
        if step == self.begin and self.begin > 1:
            return True
        if self.retention is not None:
            last = step == self.horizon
            every = math.ceil(self.retention / self.structure.parts)
            return last or (step - self.begin) % every == 0
        quiet = pending < _QUIET * math.sqrt(self.clock.variance(step, closed))
        return not (quiet and public.epoch) and self.clock.ends(
            step=step, closed=closed, pending=pending, total=float(public.total)
        )

    def pending(self, public: SpatialPublic) -> float:
        """Events of the open epoch, by the clock."""
        return float((public.clock - public.at_close).sum())

    def heard(self, public: SpatialPublic) -> SpatialPublic:
        """Let what is shown follow the clock, if that says that something has happened.

        It says so where it has moved by more than its noise explains.
        """
        since = public.heard if len(public.heard) else np.append(public.at_close, public.closed)
        moved = public.clock - since[:-1]
        sure = _HEARD**2 * self.clock.variance(int(public.step), int(since[-1]))
        if max(moved.sum() ** 2, net(moved) ** 2) <= sure:
            return public
        return replace(public, heard=np.append(public.clock, public.step))

    def rounds(self, public: SpatialPublic) -> tuple[int, ...]:
        """Which of the variances in `noise` the epoch is measured with, in turn.

        In one round; in several, coarse to fine, if it holds far more than its leaves were made
        for, and enough.
        """
        pending, total = self.pending(public), max(float(public.total), 0.0)
        many = pending * math.sqrt(2 / self.noise[0]) >= _ENOUGH
        return tuple(range(1, len(self.noise))) if many and pending >= _FAR_MORE * total else (0,)

    def finer(self, public: SpatialPublic, found: Found, turn: int) -> Found:
        """The leaves of an epoch's next round: where its events are."""
        from tailrace.mechanisms.spatial import kernel

        standing, points = found.standing, max(self.pending(public) + float(public.total), 0.0)
        tree, layout = standing.tree, standing.layout
        rule = (float(self.structure.unsure), float(self.structure.far))
        expected = kernel.released(
            max(found.changes[0][0], 0.0),
            found.divided,
            found.changes[1],
            tree.inner,
            tree.leaf,
            layout.second,
            layout.area,
            *rule,
        )
        limit = _ROUND_SPLIT * math.sqrt(self.noise[turn])
        after, source = regrown(
            standing,
            self.domain,
            expected,
            epoch=int(public.epoch),
            limits=(limit, limit),
            least=self.structure.least(points, self.noise[0], self.domain),
        )
        if self.retention is None:
            after = carried(after, source, standing)
        value, weight = (
            np.where(source >= 0, old[source], 0.0) for old in (found.value, found.weight)
        )
        return Found(after, value, weight)

    def close(self, public: SpatialPublic, found: Found) -> SpatialPublic:
        """Add what the rounds found; choose the next leaves."""
        since = int(public.closed)
        public = replace(
            public,
            epoch=np.asarray(public.epoch + 1),
            events=np.asarray(self.pending(public)),
            closed=public.step,
            at_close=public.clock,
            heard=public.heard[:0],
        )
        public, standing = self._model.close(public, found, since)
        self._last[:] = [standing.tree, standing]
        return replace(public, tree=standing.tree)

    def view(self, public: SpatialPublic) -> SpatialView:
        """What is shown at this step."""
        return self._model.view(public, self.standing(public))
