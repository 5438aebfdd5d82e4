"""A density of pairs of ends, fitted to released counts.

Pairs of fine cells are far too many to be measured. Released are the ends in each cell, the
distances between two ends, and the trajectories between coarse cells, in either direction.
1. A gravity model gives each pair the product of its ends and of a factor for their distance,
   fitted in turns to the first two.
2. Coarse pairs are scaled to their posterior, given the model and their released counts (`fit.py`).

Source: gravity models and their fit are folklore (Deming and Stephan 1940).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from tailrace.domain.geometry.partition import partition_of
from tailrace.mechanisms.trajectories.counts import FAR, REACH, paired
from tailrace.mechanisms.trajectories.fit import posterior, summed
from tailrace.mechanisms.trajectories.layout import Map

# Chosen by trial on the data of benchmarks/trajectories.py; no committed result.
# Rounds of the gravity model's fit.
_FITS = 6
# Pairs below this part of the largest are not drawn.
_SMALLEST = 1e-9
# Steps whose multiples spread evenly from 0 to 1, together too: powers of the plastic number.
_STEPS = (0.7548776662466927, 0.5698402909980532)


@dataclass(frozen=True, eq=False)
class Pairs:
    """A density of pairs of cells, and of their ends."""

    domain: Map
    # (cells,) of the grid of distances that hold some of the domain, in the order of the halving
    cells: np.ndarray
    density: np.ndarray  # (cells, cells) from, to
    # (3,) chances that ends in one cell share one a fourth as wide, half as wide, or just this one
    within: np.ndarray
    before: np.ndarray  # (places + 1,) the density of ends before each place of the domain

    def draw(self, many: int, rng: np.random.Generator) -> np.ndarray:
        """(2, many) cells of the domain, drawn by density."""
        pairs = rng.permutation(self._chosen((np.arange(many) + rng.random()) / many))
        nodes = self._nodes(pairs)
        start, stop = (self._place(one, self._side, rng.random(many)) for one in nodes)
        same = np.flatnonzero(nodes[0] == nodes[1])
        kind = rng.choice(3, len(same), p=self.within)
        for finer, code in ((4, 0), (2, 1)):
            fine = min(self._side * finer, self.domain.side)
            near = same[kind == code]
            nodes = start[near] >> self._shift(fine)
            stop[near] = self._place(nodes, fine, rng.random(len(near)))
        return partition_of(self.domain).cells[np.stack([start, stop])]

    def even(self, many: int) -> np.ndarray:
        """(2, many) cells of the domain, spread evenly by density, not by chance."""
        numbers = np.arange(many)
        nodes = self._nodes(self._chosen((numbers + 0.5) / many))
        places = [
            self._place(one, self._side, numbers * step % 1.0)
            for one, step in zip(nodes, _STEPS, strict=True)
        ]
        return partition_of(self.domain).cells[np.stack(places)]

    @property
    def _side(self) -> int:
        return min(REACH, self.domain.side)

    def _chosen(self, parts: np.ndarray) -> np.ndarray:
        """The pairs at these parts of the whole density, from 0 to 1."""
        flat = self.density.reshape(-1)
        kept = np.flatnonzero(flat > flat.max(initial=0.0) * _SMALLEST)
        sums = np.cumsum(flat[kept], dtype=float)
        chosen = np.searchsorted(sums, parts * sums[-1])
        return kept[np.minimum(chosen, len(kept) - 1)]

    def _nodes(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last cell of each pair."""
        return self.cells[pairs // len(self.cells)], self.cells[pairs % len(self.cells)]

    def _shift(self, side: int) -> int:
        return partition_of(self.domain).depth - 2 * (side.bit_length() - 1)

    def _place(self, nodes: np.ndarray, side: int, parts: np.ndarray) -> np.ndarray:
        """A place inside each node, at these parts of its density of ends."""
        shift = self._shift(side)
        low, high = self.before[nodes << shift], self.before[(nodes + 1) << shift]
        target = np.minimum(low + parts * (high - low), np.nextafter(high, 0.0))
        place = np.searchsorted(self.before, target, side="right") - 1
        return np.clip(place, nodes << shift, ((nodes + 1) << shift) - 1)


def fitted(
    domain: Map,
    ends: np.ndarray,
    distances: np.ndarray,
    pairs: list[tuple[np.ndarray, float]],
    number: float,
) -> Pairs:
    """Fit the density of pairs.

    `ends` is a density over the places of the domain; `distances` and `pairs` are noisy counts,
    those of coarser grids with the scales of their noise, of `number` trajectories.
    """
    side = min(REACH, domain.side)
    coarse = summed(ends, side * side)
    cells = np.flatnonzero(coarse > 0)
    shares = np.maximum(distances, 1.0) / np.maximum(distances, 1.0).sum()
    apart = np.append(shares[:3].sum(), shares[3:])
    density = _gravity(coarse[cells] / coarse.sum(), _bins(domain, cells), apart)
    if pairs and number > 0:
        density *= _ratios(density, cells, pairs, number, side)
    within = shares[:3] / shares[:3].sum()
    return Pairs(domain, cells, density, within, np.append(0.0, np.cumsum(ends)))


@functools.lru_cache(maxsize=2)
def _distance_bins(domain: Map) -> np.ndarray:
    side, partition = min(REACH, domain.side), partition_of(domain)
    step, shift = domain.side // side, partition.depth - 2 * (side.bit_length() - 1)
    corner = partition.cells[np.arange(side * side) << shift]
    x, y = (axis // step for axis in np.divmod(corner, domain.side))
    square = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2
    return np.searchsorted(FAR, np.sqrt(square), side="right").astype(np.int8)


def _bins(domain: Map, cells: np.ndarray) -> np.ndarray:
    """(cells, cells) bins of distances; 0: the same cell."""
    return _distance_bins(domain)[np.ix_(cells, cells)]


def _gravity(ends: np.ndarray, bins: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(cells, cells) ends times ends times their bin's factor.

    Rows and columns add up to `ends`, bins to `shares`.
    """
    ends = ends.astype(np.float32)
    density = np.outer(ends, ends)
    flat = bins.reshape(-1)
    for _ in range(_FITS):
        now = np.bincount(flat, density.reshape(-1), minlength=len(shares))
        factors = np.divide(shares, now, out=np.zeros(len(shares)), where=now > 0)
        density *= factors.astype(np.float32)[bins]
        for axis in (1, 0):
            sums = density.sum(axis=axis, keepdims=True)
            own = ends.reshape(sums.shape)
            density *= np.divide(own, sums, out=np.zeros_like(sums), where=sums > 0)
    return density / density.sum()


def _ratios(
    density: np.ndarray,
    cells: np.ndarray,
    pairs: list[tuple[np.ndarray, float]],
    number: float,
    side: int,
) -> np.ndarray:
    """(cells, cells) factors that correct the model to released pairs.

    A pair is divided on the next grid if its count exceeds the noise of the pairs inside it.
    """
    ratio, size = np.full((1, 1), number), 1
    looked = np.ones((1, 1), bool)
    for found, scale in pairs:
        nodes = round((np.sqrt(8 * len(found) + 1) - 1) / 2)
        group = cells // (side * side // nodes)
        model = _grouped(density, group, nodes)
        both = model + model.T
        both[np.diag_indices(nodes)] /= 2
        each = nodes // size
        low, high = np.triu_indices(nodes)
        inside, parent = looked[low // each, high // each], (low // each, high // each)
        low, high, parent = low[inside], high[inside], tuple(part[inside] for part in parent)
        expected = both[low, high] * ratio[parent]
        noisy = found[paired(low, high, nodes)]
        key = np.minimum(*parent) * size + np.maximum(*parent)
        whole = np.bincount(key, expected, minlength=size * size).astype(float)
        better = posterior(noisy, expected, scale, floor=1.0)[0]
        sums = np.bincount(key, better, minlength=size * size).astype(float)
        better *= np.divide(whole, sums, out=np.ones_like(whole), where=sums > 0)[key]
        finer = np.repeat(np.repeat(ratio, each, axis=0), each, axis=1)
        scaled = np.divide(
            better, both[low, high], out=np.zeros_like(better), where=both[low, high] > 0
        )
        finer[low, high] = finer[high, low] = scaled
        more = np.zeros((nodes, nodes), bool)
        more[low, high] = more[high, low] = better > scale
        ratio, size, looked = finer, nodes, more
    group = cells // (side * side // size)
    return (ratio / number)[np.ix_(group, group)]


def _grouped(density: np.ndarray, group: np.ndarray, nodes: int) -> np.ndarray:
    """(nodes, nodes) the density of pairs of groups of cells."""
    present, start = np.unique(group, return_index=True)
    sums = np.add.reduceat(np.add.reduceat(density, start, axis=0, dtype=float), start, axis=1)
    found = np.zeros((nodes, nodes))
    found[np.ix_(present, present)] = sums
    return found
