"""An alarm that rings when a snapshot has left what is shown.

Privacy (m = `records`; G the shown histogram, H the snapshot):
1. The alarm compares S with noise: the maximum of || A_l H - round(A_l G) ||_1 - tau_l over depths
   l, and of u_k - || A_c H - round(A_c G_k) ||_1 over archived histograms G_k, where A_l sums the
   cells of each node of depth l, and tau_l and u_k are public integers. A person moves H by at most
   m in the 1-norm. A_l adds up disjoint cells, so it moves A_l H by at most m. Norms and maxima
   move by no more than their arguments. So S moves by at most m at every step, whatever G, G_k, tau
   and u are.
2. An alarm is one epoch of `comparing.py` with a single positive answer: pure epsilon in all,
   however often it stays silent. It is bought with whole units: epsilon of the budget, or
   epsilon^2 / 2 of rho.
3. A recall chooses among archived histograms and "none of them" by their distances at one depth, a
   public number for the last. A person moves each by at most m, so their differences by at most
   2 m: with the rate epsilon / (2 m) a choice loses epsilon, or epsilon^2 / 8 of rho (bounded
   range: Dong et al. 2020).
4. What an alarm can see, its price and whether it is bought are functions of released numbers.

Accuracy: an alarm that is silent for L quiet steps with probability 1 - `_FALSE` needs a distance
of c / epsilon beyond its threshold to ring, c = (1 + 2^(2/3)) (2^(1/3) ln(L / (2 _FALSE)) + 2.2) m.
Coarse depths see a change of many people through little noise, where all bins together are blind.
Source: Dwork, Roth 2014 (AboveThreshold); McSherry, Talwar 2007 (the choice).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.mechanisms.snapshot.comparing import Comparing
from tailrace.mechanisms.snapshot.filter import Filter
from tailrace.mechanisms.snapshot.policy import Series
from tailrace.noise import Draws
from tailrace.privacy.budget import part
from tailrace.privacy.loss import Number, PureDP

# The ledger counts ten-thousandths of the budget.
UNITS = 10_000
# Settings after a prototype, tried one at a time on the family CHOSEN of
# benchmarks/snapshots_generated.py; no committed result.
# The probability that an alarm rings by mistake before the end.
_FALSE = 0.04
# An alarm is bought to see a change of this share of people, or this share of the last jump.
_SEEN, _SEEN_AGAIN = 0.08, 0.5
# Its least and most units, pure and zCDP.
_LEAST, _MOST = {True: 100, False: 20}, 500
# It is bought where it sees this share of people, or of the last jump.
_WORTH, _WORTH_AGAIN = 0.4, 0.6
# Nodes of the depths that it looks at, and the most bins that are looked at one by one.
_NODES, _FEW = (1, 4, 8, 16, 32), 64
# The mean of an absolute normal variable.
MEAN = math.sqrt(2 / math.pi)


@dataclass(frozen=True, eq=False)
class Facts:
    """Public facts of a series, and the noise of its releases."""

    series: Series
    filter: Filter
    # (1 + depths,) variances of a release with all units, of the whole and of details by depth.
    whole: np.ndarray

    @functools.cached_property
    def pure(self) -> bool:
        return isinstance(self.series.privacy, PureDP)

    def noise(self, units: int) -> np.ndarray:
        """The variances of a release with some units, about."""
        return self.whole * (UNITS / units) ** (2 if self.pure else 1)

    def epsilon(self, units: int) -> Fraction:
        """The pure epsilon that units buy."""
        return part(self.series.privacy, Fraction(units, UNITS)).pure_within().epsilon

    def price(self, epsilon: float) -> int:
        """The units of a pure epsilon."""
        whole = self.series.privacy
        share = (
            epsilon / float(whole.epsilon)
            if isinstance(whole, PureDP)
            else (epsilon**2 / 2 / float(whole.rho))
        )
        return math.ceil(min(share, 1.0) * UNITS)

    @functools.cached_property
    def depths(self) -> list[int]:
        """The depths that an alarm looks at."""
        sizes = [len(size) for size in self.filter.tree.size]
        last = len(sizes) - 1
        found = {next((d for d, many in enumerate(sizes) if many >= n), last) for n in _NODES}
        return sorted(found | ({last} if sizes[-1] <= _FEW else set()))

    @functools.cached_property
    def top(self) -> int:
        """The details above the depths that are looked at."""
        return sum(self.filter.many[: 1 + max(self.depths[-1], self.coarse)])

    @functools.cached_property
    def coarse(self) -> int:
        """The last depth of 16 nodes at most."""
        return max(d for d, size in enumerate(self.filter.tree.size) if len(size) <= 16)

    def deviations(self, variances: np.ndarray) -> list[float]:
        """Of the sum of a node at each depth, by variances of details.

        A node of n cells has the weight n / sqrt(N) on the whole of N cells, and n / sqrt(M) on
        the detail of a node of M cells that holds it.
        """
        tree, total, found = self.filter.tree, variances[0] / len(self.filter.tree.order), []
        for depth, nodes in enumerate(tree.size):
            cells = len(tree.order) / len(nodes)
            found.append(cells * math.sqrt(max(0.0, total)))
            total += variances[1 + depth] / cells if depth < tree.depth else 0
        return found

    def far(self, variances: np.ndarray) -> np.ndarray:
        """(depths,) the expected 1-norms of noise, at the depths looked at."""
        each = self.deviations(variances)
        return np.array([MEAN * len(self.filter.tree.size[d]) * each[d] for d in self.depths])

    def nodes(self) -> np.ndarray:
        """(depths,) how many nodes the depths looked at have."""
        return np.array([len(self.filter.tree.size[d]) for d in self.depths])


@dataclass(frozen=True)
class Alarm:
    """What an alarm would see now, and cost."""

    facts: Facts
    left: int  # steps that it is to be silent for
    people: float  # that are shown
    jump: float  # people that the last jump moved; 0: none yet

    @property
    def _reach(self) -> float:
        """People times epsilon."""
        logs = math.log(max(2.0, self.left / (2 * _FALSE)))
        return (1 + 2 ** (2 / 3)) * (2 ** (1 / 3) * logs + 2.2) * self.facts.series.records

    @property
    def units(self) -> int:
        """Its price."""
        wanted = max(_SEEN * self.people, _SEEN_AGAIN * self.jump)
        asked = self.facts.price(self._reach / wanted)
        return int(np.clip(asked, _LEAST[self.facts.pure], _MOST))

    def visible(self, units: int) -> float:
        """The people that it sees beyond its threshold."""
        return self._reach / float(self.facts.epsilon(units))

    @property
    def worth(self) -> bool:
        """Whether it sees enough to be bought."""
        return self.visible(self.units) <= max(_WORTH * self.people, _WORTH_AGAIN * self.jump)

    def comparing(self, units: int) -> Comparing:
        loss = part(self.facts.series.privacy, Fraction(units, UNITS))
        return Comparing(loss, self.facts.series.records, 1, 1)

    def thresholds(self, units: int, known: np.ndarray, fresh: np.ndarray | None) -> np.ndarray:
        """(depths,) distances beyond which the data have moved.

        Parameters
        known: variances of what is shown, by place.
        fresh: those of the release that it would ask for; None: it would recall.
        """
        facts = self.facts
        now = facts.far(known)
        base = now + 1.2 * now / (MEAN * np.sqrt(facts.nodes()))
        more = np.full(len(base), self.visible(units))
        if fresh is not None:
            more = np.maximum(more, facts.far(fresh))
        return np.ceil(base + more).astype(np.int64)


def recalled(
    facts: Facts, units: int, distances: np.ndarray, fresh: np.ndarray, noise: Draws
) -> int | None:
    """Choose the archived histogram that the snapshot is at, or none.

    Parameters
    distances: of the snapshot to each archived one, at the depth `Facts.coarse`.
    fresh: the variances of the release that is made if none is chosen.
    """
    rate = recall_rate(facts, units)
    apart = MEAN * len(facts.filter.tree.size[facts.coarse]) * facts.deviations(fresh)[facts.coarse]
    # 1.5 times the distance that a release would be at, and four times the noise of the choice.
    none = math.ceil(1.5 * apart + 2 / float(rate))
    scores = -np.append(distances, none)
    chosen = int(noise.at("recall").choose(scores, rate))
    return chosen if chosen < len(distances) else None


def recall_rate(facts: Facts, units: int) -> Number:
    """The rate of a choice that costs these units.

    Of rho, a choice of range epsilon costs epsilon^2 / 8: twice the epsilon that a pure loss has.
    """
    epsilon = facts.epsilon(units) * (1 if facts.pure else 2)
    return epsilon / (2 * facts.series.records)
