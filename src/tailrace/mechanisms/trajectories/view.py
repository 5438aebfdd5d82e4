"""Released trajectories: noisy counts with errors, and the fitted model."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tailrace.domain.geometry import Roads
from tailrace.domain.geometry.partition import partition_of
from tailrace.domain.geometry.shares import shares
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Looks
from tailrace.mechanisms.trajectories.counts import (
    CELLS,
    EDITION,
    POINTS,
    SIZES,
    Count,
    Octaves,
)
from tailrace.mechanisms.trajectories.ends import Pairs, fitted
from tailrace.mechanisms.trajectories.fit import areas, divided, refined, smooth, summed
from tailrace.mechanisms.trajectories.layout import Layout, Map
from tailrace.mechanisms.trajectories.streets import shortest_visits

# Signals from which journeys are drawn, first, and from which they are counted more finely
# (setting.py), on roads and elsewhere. Chosen on trips on Manhattan's and Oldenburg's streets
# (benchmarks/trajectories_data.py and journeys_data.py, seeds 3 to 7 and 21): below the first, what
# is drawn is about as far off as nothing, and off roads worse where streets are few.
# Those off roads were set with Geolife's 14,936 trips in view, which coarse cells suit.
_CUTS_ON_ROADS, _CUTS = (3_000.0, 200_000.0), (14_000.0, 18_000.0, 200_000.0)
# Before edition 2; journeys were drawn from the last two on, on roads and elsewhere.
_FORMER_CUTS, _FORMER_LEAST = (3_000.0, 30_000.0, 200_000.0), (4_000.0, 12_000.0)
# How much more than it is worth a journey may cost, in parts of its weights: so much from the
# higher signal on, nothing below the lower one. Chosen on the same trips, and on Geolife and
# Oldenburg without roads at epsilon 1: what seems to cost a little is noise as often as not.
_PATIENCE_ON_ROADS, _PATIENCE = (0.6, (1_000.0, 6_000.0)), (0.45, (12_000.0, 24_000.0))
# The part of the mean of a cell with next to no visits that points and ends expect there: most such
# cells have none. Chosen by trial while building; no committed result.
_RARE = 0.2
# Cells a side by which journeys are judged, at most: small rectangles are about as large.
_JUDGED = 64
# Visits to a cell are judged relative to so many, or to .001 of all journeys. Chosen by trial on
# such trips (500 at epsilon 20, seeds 3 to 5): 2 is a tenth worse, .5 hardly better.
_FEW = 1.0
# Rounds of the calibration of routes, and where counts are finest. Chosen by trial on such trips
# (seed 3; 50,000 at epsilon 20 have a tenth less error with the more, others none).
_ROUNDS = (6, 14)
# Trips that tell where shortest ways lead. By reasoning: a cell that a fiftieth of them
# pass is known to a tenth.
_SHORTEST = 4_000
# A cell is used from so many visits on, or this part of all journeys; unless hardly any visits are
# in such cells. Chosen by trial on generated trips on Manhattan's streets (seeds 0 and 3).
_LEAST_SEEN, _PART, _HARDLY = 1.5, 0.0005, 0.2
# Standard errors by which a bin of octaves stands out. By reasoning: the next one does so by
# accident in one of seventy releases, and then doubles the error of the number.
_STANDS = 2.5
# The middle of each bin of sizes; of the last one its lower edge.
_MIDDLES = (SIZES + np.append(SIZES[1:] - 1, SIZES[-1])) / 2


@dataclass(frozen=True, eq=False)
class Noisy:
    """One part as it was measured."""

    of: Count
    levels: tuple[np.ndarray, ...]  # counts, from coarse to fine
    # Scales of Laplace noise of the same variance: the standard error over the root of two.
    scales: tuple[float, ...]

    @property
    def held(self) -> int:
        """Bins of octaves from the first to the last that holds people, by noisy counts.

        The largest holds some; those above it, one after another, while they stand out.
        """
        counts = self.levels[0]
        last = int(np.argmax(counts))
        while last + 1 < len(counts) and counts[last + 1] > _STANDS * 2**0.5 * self.scales[0]:
            last += 1
        return last + 1

    @property
    def people(self) -> float:
        """The number of people, from octaves.

        From the third bin on a person has three quarters of its most trajectories, in the mean.
        """
        counts = self.levels[0][: self.held]
        return float(counts[:2].sum() + counts[2:].sum() / 0.75)


@dataclass(frozen=True, eq=False, repr=False)
class TrajectoriesView(Looks):
    """Noisy counts of trajectories, and fits to them.

    `visits`, `density` and `pairs` are fits: better than the counts, without known errors.
    """

    layout: Layout
    noisy: Mapping[str, Noisy]
    # Units times epsilon; None where nothing follows from it.
    signal: float | None = field(default=None, kw_only=True)

    @property
    def _roads(self) -> bool:
        return isinstance(self.layout.domain, Roads)

    @property
    def least(self) -> float:
        """The signal from which journeys are drawn."""
        return least_of(self.layout.domain, self.noisy["detours"].of.edition)

    @property
    def enough(self) -> bool:
        """Whether journeys are drawn: whether they would be better than none."""
        return self.signal is None or self.signal >= self.least

    @functools.cached_property
    def seen(self) -> dict[str, float]:
        """How well each kind of count was seen: signal over noise, at the finest level.

        That is the root of the mean square of the counts over that of their noise, estimated from
        the noisy counts; 0 where nothing stands out, and above 1 where counts can be read as such.
        """
        found = {}
        for name, noisy in self.noisy.items():
            counts, noise = noisy.levels[-1], 2 * noisy.scales[-1] ** 2
            excess = float((counts**2).mean()) - noise
            # The mean square of noise alone has a standard error of about this.
            unsure = noise * (5 / len(counts)) ** 0.5
            found[name] = (excess / noise) ** 0.5 if excess > unsure else 0.0
        return found

    @property
    def advice(self) -> str:
        """What was drawn, and what more epsilon or trajectories would bring."""
        if self.signal is None:
            return "Counted as told, on given grids: how fine they may be was not asked."
        times = self.least / max(self.signal, 1.0)
        here = f"trajectories times epsilon are about {self.signal:,.0f}"
        if not self.enough:
            return (
                f"No journeys are drawn: {here}, and below {self.least:,.0f} they would be worse "
                f"than none. About {times:.1f} times as many trajectories, or as large an epsilon, "
                "would be enough; counts of large areas (view.count) can be read already."
            )
        hidden = [name for name, ratio in self.seen.items() if not ratio]
        faint = f"; hidden by noise are {', '.join(hidden)}" if hidden else ""
        cuts = cuts_of(self.layout.domain)
        finer = next((cut for cut in cuts if cut > self.signal), None)
        more = f" From {finer:,.0f} on, cells are counted more finely." if finer else ""
        fewer = " Those that would pass where hardly any was seen are left out."
        return f"Journeys are drawn: {here}{faint}.{fewer}{more}"

    @property
    def facts(self) -> dict[str, str]:
        domain = self.layout.domain
        return {"journeys": str(self.total), "in": ", ".join(domain.columns)}

    @property
    def total(self) -> Estimate:
        """The number of trajectories (under User: of those that count)."""
        number = self.noisy["number"]
        if isinstance(number.of.part, Octaves):
            each = 2.0 ** np.arange(number.held)
            error = number.scales[0] * 2**0.5 * float((each**2).sum()) ** 0.5
            return Estimate(float(each @ number.levels[0][: number.held]), error)
        most = number.of.part.most
        return Estimate(float(number.levels[0][0]) * most, number.scales[0] * 2**0.5 * most)

    @property
    def units(self) -> float:
        """The noisy number of trajectories, or of people."""
        number = self.noisy["number"]
        if isinstance(number.of.part, Octaves):
            return number.people
        counted = number if number.of.part.most == 1 else self.noisy["ends"]
        return float(counted.levels[0].sum())

    def count(self, *, low: Sequence[float], high: Sequence[float]) -> Estimate:
        """The mean number of ends between two corners, in trajectories.

        Counts come from the largest cells inside, then from smaller ones.
        """
        corners = [np.asarray(corner, float) for corner in (low, high)]
        if any(corner.shape != (2,) for corner in corners) or not (corners[0] <= corners[1]).all():
            raise ConfigError(
                "Ask for low=(...) and high=(...), low not above high, two numbers each."
            )
        domain, ends = self.layout.domain, self.noisy["ends"]
        partition, value, squares = partition_of(domain), 0.0, 0.0
        taken = np.zeros(1, np.bool_)
        for level, (counts, scale) in enumerate(zip(ends.levels, ends.scales, strict=True)):
            cells = len(counts)
            taken = np.repeat(taken, cells // len(taken))
            boxes = partition.box(np.full(cells, cells.bit_length() - 1), np.arange(cells))
            part = shares(domain, *boxes, *corners)
            if level < len(ends.levels) - 1:
                part = np.where(part >= 1 - 1e-12, 1.0, 0.0)
            part = np.where(taken, 0.0, part)
            taken = taken | (part > 0)
            value += float(part @ counts)
            squares += 2 * scale**2 * float(part @ part)
        return Estimate(value, squares**0.5)

    @functools.cached_property
    def turns(self) -> np.ndarray:
        """(8,) shares of turns by eighths of a circle."""
        counts = np.maximum(self.noisy["turns"].levels[0], 1.0)
        return counts / counts.sum()

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """Cells, points, and the share of cells without points."""
        units, noisy = max(self.units, 1.0), self.noisy["sizes"]
        counts, scale = 3 * noisy.levels[0], 3 * noisy.scales[0]
        if len(counts) == 3:  # sums, before edition 2
            least = np.maximum([counts[0] * CELLS, counts[1] * POINTS], units)
        else:
            least = [units * _mean(one, scale) for one in np.split(counts[:-1], 2)]
        return np.append(least, np.clip(counts[-1] / units, 0, 0.95))

    @functools.cached_property
    def visits(self) -> np.ndarray:
        """(cells of the layout,) trajectories with points in each."""
        return self._visits[1][self.layout.index]

    @property
    def sides(self) -> tuple[int, ...]:
        """Cells a side of each grid of visits."""
        return self.noisy["visits"].of.part.within(self.layout.domain.side)

    @functools.cached_property
    def judged(self) -> np.ndarray:
        """(4, nodes) `posterior` of visits to the cells by which journeys are judged."""
        sides = self.sides
        many = sum(side <= _JUDGED for side in sides) or 1
        return self._visits if many == len(sides) else self._passing(many)

    @property
    def patience(self) -> float:
        """How much more than its worth a journey may cost, in parts of its weights: `worthy`."""
        assert self.signal is not None
        most, (low, high) = _PATIENCE_ON_ROADS if self._roads else _PATIENCE
        part = math.log(max(self.signal, low) / low) / math.log(high / low)
        return most * min(part, 1.0)

    @property
    def rounds(self) -> int:
        """Of the calibration of routes."""
        sure = self.signal is not None and self.signal >= cuts_of(self.layout.domain)[-1]
        return _ROUNDS[sure]

    @functools.cached_property
    def used(self) -> np.ndarray:
        """(cells of the layout,) whether some journeys were seen to pass around there.

        Where hardly any was, all are: nothing was seen.
        """
        mean, nearest = self.judged[:2]
        found = nearest > max(_LEAST_SEEN, _PART * self.units)
        if nearest[found].sum() < _HARDLY * mean.sum():
            found = np.ones_like(found)
        return found[self.layout.index // (len(self._visits[0]) // len(found))]

    @functools.cached_property
    def likely(self) -> np.ndarray:
        """(cells of the layout,) visits, a little to each cell that may have some."""
        mean, nearest = self._visits[:2, self.layout.index]
        return nearest + _RARE * np.maximum(mean - nearest, 0.0)

    @functools.cached_property
    def _visits(self) -> np.ndarray:
        return self._passing()

    def _passing(self, levels: int | None = None) -> np.ndarray:
        sides, floor = self.sides, max(0.001 * self.total.value, _FEW)
        # A journey passes about half as many cells that are twice as wide.
        side = sides[(levels or len(sides)) - 1]
        total, guess = self.sizes[0] * side / sides[-1], self._shortest
        guess = None if guess is None else summed(guess, side * side)
        return self._refined("visits", total, floor=floor, levels=levels, guess=guess)

    @functools.cached_property
    def _shortest(self) -> np.ndarray | None:
        """(nodes,) visits if trips took the shortest ways on roads."""
        if self.signal is None or not self._roads:
            return None
        ends = self._pairs(self._spread(self._refined("ends")[0])).even(_SHORTEST)
        found, most = np.zeros(self.sides[-1] ** 2), self.noisy["visits"].of.part.most
        found[self.layout.index] = shortest_visits(self.layout, ends, most)
        return found

    @functools.cached_property
    def density(self) -> np.ndarray:
        """(places of the domain,) points at each."""
        mean, nearest = self._visits[:2]
        likely = nearest + _RARE * (mean - nearest)
        side = min(4 * round(len(likely) ** 0.5), self.layout.domain.side)
        prior = self._spread(smooth(likely, side))
        found = self._refined("points", self.sizes[1], prior=prior)[0]
        return self._spread(found * (self.sizes[1] / max(float(found.sum()), 1e-300)), prior)

    @functools.cached_property
    def pairs(self) -> Pairs:
        """The density of pairs of ends."""
        ends = self._spread(self._refined("ends", prior=self.density)[0], self.density)
        if self.signal is not None and not self._roads:
            # Journeys end where some pass.
            held = np.zeros(len(self._visits[0]))
            held[self.layout.index] = self.used
            inside = ends * np.repeat(held, len(ends) // len(held))
            ends = inside * (ends.sum() / inside.sum()) if inside.any() else ends
        return self._pairs(ends)

    def _pairs(self, ends: np.ndarray) -> Pairs:
        """With this density of ends."""
        coarse, distances = self.noisy.get("pairs"), self.noisy["distances"]
        found = [] if coarse is None else list(zip(coarse.levels, coarse.scales, strict=True))
        return fitted(self.layout.domain, ends, distances.levels[0], found, self.units)

    def _refined(
        self,
        name: str,
        total: float | None = None,
        *,
        prior: np.ndarray | None = None,
        guess: np.ndarray | None = None,
        floor: float = 1.0,
        levels: int | None = None,
    ) -> np.ndarray:
        """A part's density on its finest grid, scaled to `total`.

        None: as it was counted.
        """
        noisy, units = self.noisy[name], self.units
        found = max(float(noisy.levels[0].sum()), 0.01 * units, 1.0)
        weight = 1.0 if total is None else total / found
        counts = [level * weight for level in noisy.levels[:levels]]
        scales = [scale * weight for scale in noisy.scales[:levels]]
        told = {"prior": prior, "guess": guess, "floor": floor}
        return refined(counts, scales, self.layout.domain, **told)

    def _spread(self, values: np.ndarray, prior: np.ndarray | None = None) -> np.ndarray:
        """Divide values among the finest places, by `prior` or area."""
        area = areas(self.layout.domain, self.layout.domain.side)
        if prior is None:
            return divided(values, area)
        return divided(values, prior + 1e-9 * prior.sum() * area / area.sum())


def _mean(counts: np.ndarray, scale: float) -> float:
    """The mean of sizes, from noisy counts in the bins of SIZES.

    Of bins on both sides of the fullest, as far as they stand out: far ones would make noise large.
    """
    low = high = int(np.argmax(counts))
    stands = counts > _STANDS * 2**0.5 * scale
    while low > 0 and stands[low - 1]:
        low -= 1
    while high + 1 < len(counts) and stands[high + 1]:
        high += 1
    held = np.maximum(counts[low : high + 1], 1e-300)
    return float(held @ _MIDDLES[low : high + 1] / held.sum())


def cuts_of(domain: Map, edition: int = EDITION) -> tuple[float, ...]:
    """The signals from which a map's journeys are counted more finely."""
    if edition < 2:
        return _FORMER_CUTS
    return _CUTS_ON_ROADS if isinstance(domain, Roads) else _CUTS


def least_of(domain: Map, edition: int = EDITION) -> float:
    """The signal from which journeys on a map are drawn."""
    if edition < 2:
        return _FORMER_LEAST[not isinstance(domain, Roads)]
    return cuts_of(domain)[0]
