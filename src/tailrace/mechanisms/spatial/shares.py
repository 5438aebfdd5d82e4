"""The shares of halves, learned from epoch to epoch.

An epoch says by how much each half of a node has changed. The filter (`filtering.py`) holds the
share of every node's points in its first half, and the variance of that share. A share is believed
the more the longer it has stood still; a measured change moves it as far as the noise allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tailrace.domain.geometry.partition import DEEPEST, Space, lay_out
from tailrace.mechanisms.shared.events import Clock, net
from tailrace.mechanisms.spatial.public import AdaTree, SpatialPublic
from tailrace.mechanisms.spatial.tree import Found, Standing, Tree, carried, regrown
from tailrace.mechanisms.spatial.view import SpatialView

# Times the last epoch's change that the next tree is prepared for.
# Chosen by trial while building; no committed result.
_FAR_AHEAD = 4.0
_AHEAD = 1.0
# The rest from ../shared/accuracy2.md, part 1, sections 3 and 5.
# Unrest before anything is known, the depth's parents that this counts as, and its bounds.
_UNREST, _BELIEF, _LEAST_UNREST, _MOST_UNREST = 2.0, 2.0, 0.5, 200.0
# Times `split` deviations of one draw: a node that may hold more is divided, and half as much keeps
# it so.
_TIMES = 3.0
_MOST_GROSS = 10.0
# Deviations of the clock that say nothing about events.
_SURE = 1.5
# Times the variance that the filter and the clock say: what they leave out.
_MODEL_ERROR = 2.0
# The least spread of a split of events.
_FAIR = 0.02
# Shares of a smaller variance, and of at least so many nodes, tell how uneven halves are.
_CLEAR, _FEW = 0.03, 8
_TINY = 1e-9


@dataclass(frozen=True)
class Shares:
    """The estimate of a stream without a retention."""

    domain: Space
    structure: AdaTree
    clock: Clock
    noise: float  # variance of one draw

    def close(
        self, public: SpatialPublic, found: Found, since: int
    ) -> tuple[SpatialPublic, Standing]:
        """Filter the shares by what was found; grow the next tree."""
        from tailrace.mechanisms.spatial import filtering

        standing, (z, variance) = found.standing, found.changes
        before = max(float(public.total), 0.0)
        summed = self.summed(public)[:2] + np.array([z[0], variance[0]])
        total = self._total(public, summed)[0]
        summed = np.append(summed, total - float(public.total))
        # Events that the clock's noise may explain are none.
        events, sure = float(public.events), self.clock.variance(int(public.step), since)
        events *= max(1 - _SURE**2 * sure / max(events, 1.0) ** 2, 0.0)
        gross = min(events / max(before, 1.0), _MOST_GROSS)
        unrest = public.unrest if len(public.unrest) else np.full(DEEPEST + 1, _UNREST)
        parents = standing.parents
        about = (standing.held, z, variance, *parents, standing.layout.depth[parents[0]])
        change = float(summed[2])
        squares, scales = filtering.filtered(before, change, gross, unrest, *about)[3:]
        unrest = (_BELIEF * _UNREST + squares) / (_BELIEF + scales)
        unrest = np.clip(unrest, _LEAST_UNREST, _MOST_UNREST)
        held = filtering.filtered(before, change, gross, unrest, *about)[:3]
        standing = replace(standing, tree=standing.tree.holding(*held))
        public = replace(public, total=np.asarray(total), summed=summed, unrest=unrest)
        # The tree is ready for twice: what is there, and what is there when the next epoch ends.
        pace = self.structure.churn * total / max(float(public.events), 1.0)
        now, later = (
            self._counts(public, standing, now=total, ahead=ahead)
            for ahead in (0.0, min(max(pace, 0.0), _FAR_AHEAD))
        )
        limit = _TIMES * self.structure.split * math.sqrt(self.noise)
        grown, source = regrown(
            standing,
            self.domain,
            np.maximum(now, later),
            epoch=int(public.epoch),
            limits=(limit, limit / 2),
            least=self.structure.least(total, self.noise, self.domain),
            keep=0,
        )
        return public, carried(grown, source, standing)

    def view(self, public: SpatialPublic, standing: Standing) -> SpatialView:
        """What is shown: the shares, of as many points as the clock was heard to say."""
        heard = public.heard[:-1] if len(public.heard) else public.at_close
        moved = heard - public.at_close
        pending, now = max(float(moved.sum()), 0.0), float(public.total) + net(moved)
        ahead = min(_AHEAD * pending / max(float(public.events), 1.0), 2.0)
        counts = self._counts(public, standing, now=now, ahead=ahead)

        def doubted() -> tuple[np.ndarray, float]:
            doubt = self._doubt(public, standing, counts, pending / max(now, 1.0))
            return doubt, self._uneven(standing, counts)

        variance = self._total(public, self.summed(public))[1]
        return SpatialView.of(self.domain, standing, counts, variance, doubted)

    def _counts(
        self, public: SpatialPublic, standing: Standing, *, now: float, ahead: float
    ) -> np.ndarray:
        """Counts of all nodes; `ahead` epochs like the last one are taken to have passed."""
        from tailrace.mechanisms.spatial import filtering

        change, nodes = float(self.summed(public)[2]), len(standing.tree.inner)
        rule = (float(self.structure.unsure), float(self.structure.far))
        about = (standing.held, *standing.parents, nodes, *rule)
        return filtering.shown(now, ahead, float(public.total), change, *about)

    def summed(self, public: SpatialPublic) -> np.ndarray:
        """The sum of all counts of leaves, its variance, and the last epoch's change."""
        if len(public.summed):
            return public.summed
        # Of an older version, or none yet.
        counts, draws = public.tree.counts.sum(axis=1), public.tree.draws.sum()
        return np.array([counts.sum(), self.noise * draws, counts[-1] if len(counts) else 0.0])

    def _total(self, public: SpatialPublic, summed: np.ndarray) -> tuple[float, float]:
        """The number of points at the last close, and its variance now.

        The clock gives one estimate, the sum of the leaves another; they are weighed by their
        variances.
        """
        closed = int(public.closed)
        clock, drawn = self.clock.variance(closed, 0), float(summed[1])
        part = drawn / max(clock + drawn, _TINY)
        total = part * net(public.at_close) + (1 - part) * float(summed[0])
        return total, part * clock + self.clock.variance(int(public.step), closed)

    def _doubt(
        self, public: SpatialPublic, standing: Standing, counts: np.ndarray, gross: float
    ) -> np.ndarray:
        """The variance of each split: the filter's, and of events since the close."""
        parents, depth = standing.parents[0], standing.layout.depth[standing.parents[0]]
        held, doubt = counts[parents], np.zeros(len(counts))
        part = counts[parents + 1] / np.maximum(held, _TINY)
        unrest = public.unrest[depth] if len(public.unrest) else _UNREST
        strays = unrest * gross * held * np.maximum(part * (1 - part), _FAIR)
        # A half that shrank, or is shown empty, may hold what its share says.
        unshown = np.where(part < 0.5, np.maximum(standing.held[0] - part, 0.0), 0.0)
        unshown += np.where(part > 0.5, np.maximum(part - standing.held[0], 0.0), 0.0)
        unshown = (held * unshown) ** 2
        doubt[parents] = _MODEL_ERROR * (held**2 * standing.held[1] + strays) + unshown
        return doubt

    def _uneven(self, standing: Standing, counts: np.ndarray) -> float:
        """How unevenly points lie in leaves: as in the last nodes that were divided."""
        tree, (parents, second, _) = standing.tree, standing.parents
        last = ~tree.inner[parents + 1] & ~tree.inner[second]
        share, spread, _ = (values[last] for values in standing.held)
        weight = np.where(spread < _CLEAR, counts[parents[last]] ** 2, 0.0)
        if np.count_nonzero(weight) < _FEW:
            return 1 / 3
        squares = weight @ ((2 * share - 1) ** 2 - 4 * spread) / weight.sum()
        return float(np.clip(squares, 0.05, 1.0))


def begun(standing: Standing, domain: Space, noise: float) -> Standing:
    """A tree with shares: those of a first tree, or those that older counts say."""
    from tailrace.mechanisms.spatial import kernel

    old, layout = standing.tree, standing.layout
    inner = standing.inner
    none = np.zeros((0, len(inner)), np.int64)
    made = Standing(
        Tree(inner, ~inner, np.zeros(len(inner), np.int64), none, none), lay_out(inner, domain)
    )
    made = carried(made, np.full(len(inner), -1), made)
    if not len(old.counts):
        return made

    own, drawn = old.counts.sum(axis=0).astype(float), noise * old.draws.sum(axis=0)
    found = kernel.inherited(own, drawn, old.inner, layout.second, layout.area)
    estimate, variance = (values[standing.places] for values in found)
    (parents, second, halves), (share, spread, moved) = made.parents, made.held
    a, b = parents + 1, second
    both, apart = estimate[a] + estimate[b], variance[a] + variance[b]
    clear = (both > 0) & (apart > 0) & (halves > 0) & (halves < 1)
    both, apart = np.maximum(both, _TINY), np.maximum(apart, _TINY)
    share = np.where(clear, np.clip(estimate[a] / both, -0.5, 1.5), share)
    known = np.minimum(variance[a] * variance[b] / apart / both**2, 0.25)
    tree = made.tree.holding(share, np.where(clear, known, spread), moved)
    return Standing(tree, made.layout)
