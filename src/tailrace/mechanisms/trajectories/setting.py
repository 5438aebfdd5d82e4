"""What is counted, how finely, within which budget; and its noise.

`setting_of` makes the counts of some parts, `parts_for` chooses the parts by the public signal.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np

from tailrace.domain.geometry import Roads
from tailrace.mechanisms.trajectories.counts import EDITION, Bins, Count, Grids, counts_of
from tailrace.mechanisms.trajectories.layout import Layout, Map, even_layout
from tailrace.mechanisms.trajectories.plan import Tally
from tailrace.mechanisms.trajectories.view import Noisy, cuts_of
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn, part
from tailrace.privacy.loss import Loss, PureDP

# The grids of visits and their weights, by signal: chosen on trips on Manhattan's and Oldenburg's
# streets (seeds 3 and 4), 5,000 and 15,000 at epsilon 1 to 20. Coarser levels are sums of finer
# ones (`fit.py`). Roads say where inside a cell trips go, so coarse cells do for longer.
_VISITS_ON_ROADS = (((64,), (1,)), ((64,), (1,)), ((128,), (1,)))
_VISITS = (((64,), (1,)), ((64,), (1,)), ((64, 128), (1, 1)), ((64, 256), (1, 2)))
# Before edition 2.
_WITH_COARSE = (
    ((4, 16, 64), (1, 1, 2)),
    ((16, 64), (1, 2)),
    ((16, 64, 128), (1, 2, 2)),
    ((16, 64, 256), (1, 2, 4)),
)


@dataclass(frozen=True)
class Setting:
    """Counts on a domain, each with its budget."""

    domain: Map
    counts: tuple[Count, ...]
    budgets: Mapping[str, Drawn]

    @property
    def layout(self) -> Layout | None:
        """The cells that are walked on; None: only the number is counted."""
        sides = [one.part.within(self.domain.side) for one in self.counts if one.name == "visits"]
        return even_layout(self.domain, sides[0][-1]) if sides else None

    @property
    def size(self) -> int:
        """The number of noisy parts."""
        return sum(sum(count.sizes) for count in self.counts)

    @property
    def loss(self) -> Loss:
        """Of all counts together."""
        losses = (count.loss(self.budgets[count.name]) for count in self.counts)
        return functools.reduce(operator.and_, losses)

    def measured(self, tally: Tally, noise: Draws) -> np.ndarray:
        """(size,) noisy parts, count after count and level after level."""
        found = [
            count.measured(masses, budget=self.budgets[count.name], noise=noise.at(count.name))
            for count, masses in zip(self.counts, tally.parts, strict=True)
        ]
        return np.concatenate(found)

    def noisy(self, parts: np.ndarray) -> dict[str, Noisy]:
        """Noisy parts as counts of units, with scales."""
        found, start = {}, 0
        for count in self.counts:
            ends = start + np.cumsum(count.sizes)
            levels = np.split(parts[start : ends[-1]] / count.whole, ends[:-1] - start)
            atoms, start = count.noise(self.budgets[count.name]), ends[-1]
            scales = tuple((one.variance() / 2) ** 0.5 / count.whole for one in atoms)
            found[count.name] = Noisy(count, tuple(levels), scales)
        return found


def setting_of(
    domain: Map,
    parts: Mapping[str, Any],
    budgets: Mapping[str, Drawn],
    *,
    between: bool,
    edition: int = EDITION,
) -> Setting:
    """The counts of these parts within these budgets."""
    counts = counts_of(domain, parts, budgets, between=between, edition=edition)
    return Setting(domain, counts, {count.name: budgets[count.name] for count in counts})


def shared(budget: Drawn, parts: Mapping[str, Any]) -> dict[str, Drawn]:
    """Divide a budget among parts, by their shares."""
    whole = sum(one.share for one in parts.values())
    return {name: part(budget, Fraction(one.share, whole)) for name, one in parts.items()}


def added(budgets: Iterable[Drawn]) -> Drawn:
    """The budget of several draws together, all of one kind."""
    return cast("Drawn", functools.reduce(operator.and_, budgets))


def signal_of(number: float, budget: Drawn) -> float:
    """Units times epsilon: how much there is to be seen.

    For rho the epsilon of Laplace noise with the variance of Gaussian noise, 2 sqrt(rho).
    """
    pure = isinstance(budget, PureDP)
    return max(number, 0.0) * (float(budget.epsilon) if pure else 2 * float(budget.rho) ** 0.5)


def parts_for(signal: float, domain: Map, edition: int = EDITION) -> dict[str, Any]:
    """The counts that so much signal can pay for.

    With many trajectories grids are finer, which matters most where there are no roads.
    """
    roads = isinstance(domain, Roads)
    above = sum(signal >= cut for cut in cuts_of(domain, edition))
    if edition < 2:
        above = min(above, 2) if roads else above if edition else min(above, 1)
    few, many = above < 1, above > 1
    if edition > 1:
        # Shares and pairs: on the same trips at 5,000 and 15,000, Geolife and Oldenburg, epsilon 1.
        (sides, weights), points = (_VISITS_ON_ROADS if roads else _VISITS)[above], "0.16"
        pairs = Grids(share="0.17", sides=(8, 16) if few else (8, 32), weights=(2, 1))
    else:
        (sides, weights), points = _WITH_COARSE[above], "0.08"
        pairs = Grids(share="0.17", sides=(4, 8, 16) if few else (4, 8, 16, 32))
    # Roads say where points lie.
    shares = ("0.42", "0.15") if many and not roads else ("0.49", points)
    return {
        "visits": Grids(share=shares[0], sides=sides, most=6, weights=weights),
        "points": Grids(share=shares[1], sides=(64, sides[-1]) if many else (64,), most=50),
        "ends": Grids(share="0.12", sides=(4, 16, 64) if few else (4, 16, 64, 256)),
        "pairs": pairs,
        "distances": Bins(share="0.02"),
        "detours": Bins(share="0.045"),
        "turns": Bins(share="0.02", most=20),
        "sizes": Bins(share="0.04"),
    }
