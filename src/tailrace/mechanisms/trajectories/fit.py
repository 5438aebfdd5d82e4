"""Densities from noisy counts on nested grids, by empirical Bayes.

Most cells of a fine grid hold next to nothing, a few hold nearly everything, and all have the same
noise. What is expected of a cell follows from the coarser grid and from the cells around it,
weighed as they predict the noisy counts themselves. A count is modelled as its expectation times a
factor that is 0 for some cells. How factors are distributed is learned from the noisy counts of the
whole grid, and the posterior of each count follows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from tailrace.domain.geometry.partition import area_before
from tailrace.mechanisms.trajectories.layout import Map

# Chosen by trial on trips on Manhattan's streets (seed 21), Geolife and Oldenburg without roads, by
# the relative error of visits on 64 x 64 cells; no committed result.
# Edges of the bins of factors.
_EDGES = np.concatenate([[0.0], np.geomspace(2e-3, 4000.0, 97)])
# The shape and the share of zeros of the factors that learning begins with, the counts that this
# weighs as much as, and the rounds of learning.
_SHAPE, _ZEROS, _BELIEF, _LEARNED = 0.25, 0.4, 3.0, 30
# Counts are learned from together by expectation, in scales of the noise.
_CLASSES = np.array([0.05, 0.15, 0.4, 1.0, 3.0])
# Counts of a class that are learned from, at most.
_SOME = 5_000
# Cells a side from which cells are told of by those around them.
_AROUND = 16
# Rounds of the least squares that weigh guesses.
_SWEEPS = 200
# Ways to one of the cells around; those to the opposite ones are their negatives.
_LINES = np.array([(0, 1), (1, 0), (1, 1), (1, -1)])


def areas(domain: Map, side: int) -> np.ndarray:
    """(cells,) the domain's measure in cells of a grid."""
    return np.diff(area_before(domain)[:: domain.size // side**2])


def summed(values: np.ndarray, size: int) -> np.ndarray:
    """Add up a fine grid's values to `size` cells."""
    return values.reshape(size, -1).sum(axis=1)


def divided(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Divide a coarse grid's values among finer cells, by weight."""
    each = len(weights) // len(values)
    sums = np.repeat(summed(weights, len(values)), each)
    part = np.divide(weights, sums, out=np.zeros(len(weights)), where=sums > 0)
    return np.repeat(values, each) * part


def smooth(values: np.ndarray, side: int) -> np.ndarray:
    """Interpolate a grid's values on `side` cells a side.

    Linear in their roots; sums of the coarse cells are kept.
    """
    coarse = round(len(values) ** 0.5)
    each = side // coarse
    roots = np.sqrt(values)[order(coarse)].reshape(coarse, coarse)
    at = (np.arange(side) + 0.5) / each - 0.5
    low = np.clip(np.floor(at).astype(np.int64), 0, coarse - 1)
    high, part = np.minimum(low + 1, coarse - 1), np.clip(at - low, 0.0, 1.0)
    rows = roots[low] * (1 - part)[:, None] + roots[high] * part[:, None]
    both = rows[:, low] * (1 - part) + rows[:, high] * part
    fine = np.empty(side * side)
    fine[order(side)] = (both**2).reshape(-1)
    return divided(values, fine)


@functools.lru_cache(maxsize=8)
def order(side: int) -> np.ndarray:
    """(cells,) each cell's place in the order of the halving."""
    x, y = np.divmod(np.arange(side * side), side)
    places = np.zeros(side * side, np.int64)
    for bit in range(side.bit_length() - 2, -1, -1):
        places = (places << 2) | ((x >> bit & 1) << 1) | (y >> bit & 1)
    return places


def posterior(
    found: np.ndarray, expected: np.ndarray, scale: float | np.ndarray, *, floor: float
) -> np.ndarray:
    """(4, counts) posterior means, best relative estimates, and chances.

    A best estimate has the least expected error relative to max(count, floor). The third row is the
    chance that a count is 0, weighed by 1 / max(count, floor); the fourth the mean of that weight.
    """
    from tailrace.mechanisms.trajectories import kernel

    expected = np.maximum(expected, 1e-9)
    scale = np.broadcast_to(np.asarray(scale, float), found.shape)
    better, kind = np.zeros((4, len(found))), np.searchsorted(_CLASSES, expected / scale)
    for one in np.unique(kind):
        mine = np.flatnonzero(kind == one)
        some = mine[np.linspace(0, len(mine) - 1, min(len(mine), _SOME)).astype(np.int64)]
        told = (found[some], expected[some], scale[some])
        learned = kernel.learned(*told, _EDGES, _factors(), _BELIEF, _LEARNED)
        counts = (found[mine], expected[mine], scale[mine])
        better[:, mine] = kernel.posterior(*counts, _EDGES, learned, floor).T
    return better


def refined(
    levels: Sequence[np.ndarray],
    scales: Sequence[float],
    domain: Map,
    *,
    prior: np.ndarray | None = None,
    guess: np.ndarray | None = None,
    floor: float = 1.0,
) -> np.ndarray:
    """The posterior on the finest of several noisy grids.

    `prior`, a density on any finer grid, divides the cells of each grid for the next. Without it
    cells are told of by those around them, also on coarser grids than any measured, and by a
    `guess`, as far as it predicts the noisy counts. Rows are as in `posterior`.
    """
    better = np.full((4, 1), max(float(levels[0].sum()), 1.0))
    measured = list(zip(levels, scales, strict=True))
    for found, scale in pyramid(levels, scales) if prior is None else measured:
        mean, side = better[0], round(len(found) ** 0.5)
        room = areas(domain, side)
        there = room > 0
        inside = smooth(mean, side) * room if prior is None else summed(prior, len(found)) * there
        # Nothing that lies in the domain is ruled out.
        inside = inside + 1e-9 * inside.sum() * room / room.sum()
        expected, better = divided(mean, inside), np.zeros((4, len(found)))
        better[:, there] = posterior(found[there], expected[there], scale, floor=floor)
        if prior is None and side >= _AROUND:
            guesses = [expected, *_around(better[0], room, side)]
            if guess is not None:
                likely = summed(guess, len(found))
                guesses.append(divided(mean, likely + 1e-3 * likely.sum() * room / room.sum()))
            expected = _expected(found, scale, np.stack(guesses))
            better[:, there] = posterior(found[there], expected[there], scale, floor=floor)
    return better


def pyramid(
    levels: Sequence[np.ndarray], scales: Sequence[float]
) -> list[tuple[np.ndarray, float]]:
    """Noisy grids from coarse to fine, each with what finer ones tell of it.

    Grids between are sums of finer ones. Scales are those of Laplace noise of the same variance.
    """
    measured = {len(found): (found, scale) for found, scale in zip(levels, scales, strict=True)}
    size = max(measured)
    (best, spread), made = measured[size], []
    while True:
        made.append((best, spread))
        coarser = [other for other in measured if other < size]
        size = max([*coarser, size // 16])
        if size < 16 and not coarser:
            return made[::-1]
        spread *= (len(best) / size) ** 0.5
        best = summed(best, size)
        if size in measured:
            own, scale = measured[size]
            part = spread**2 / (scale**2 + spread**2)
            best = best + part * (own - best)
            spread *= (1 - part) ** 0.5


def _around(means: np.ndarray, room: np.ndarray, side: int) -> list[np.ndarray]:
    """What a cell would hold if it were as dense as those around it.

    As the four that touch it together, and as the best line through it: a line is as dense as the
    thinner of two cells on opposite sides.
    """
    place = order(side)
    held, wide = (np.pad(one[place].reshape(side, side), 1) for one in (means, room))
    near = (*_LINES, *(-_LINES))
    shifted = [
        [grid[1 + a : side + 1 + a, 1 + b : side + 1 + b] for a, b in near] for grid in (held, wide)
    ]
    inside, space = np.array(shifted)
    dense = np.divide(inside, space, out=np.zeros_like(inside), where=space > 0)
    touching = [0, 1, 4, 5]
    sums = inside[touching].sum(axis=0), space[touching].sum(axis=0)
    beside = np.divide(*sums, out=np.zeros((side, side)), where=sums[1] > 0)
    lines = np.minimum(dense[:4], dense[4:]).max(axis=0)
    found = np.empty((2, side * side))
    found[:, place] = np.stack([beside, lines]).reshape(2, -1)
    return list(found * room)


def _expected(found: np.ndarray, scale: float, guesses: np.ndarray) -> np.ndarray:
    """(cells,) the mix of guesses that predicts the noisy counts best.

    None of them knows a cell's own noise. Weights are not negative (least squares).
    """
    weight = 1 / (2 * scale**2 + guesses[0] ** 2 + guesses[1] ** 2)
    square, product = (guesses * weight) @ guesses.T, (guesses * weight) @ found
    mix = np.zeros(len(guesses))
    for _ in range(_SWEEPS):
        for i, own in enumerate(np.diagonal(square)):
            mix[i] = max(mix[i] + (product[i] - square[i] @ mix) / max(own, 1e-300), 0.0)
    return np.maximum(mix @ guesses, 1e-3 * guesses[0])


@functools.cache
def _factors() -> np.ndarray:
    """(bins,) chances of factors, of 0 first, before anything is learned; mean 1."""
    below = [_gamma_below(_SHAPE, _SHAPE * edge * (1 - _ZEROS)) for edge in _EDGES]
    return np.maximum(np.append(_ZEROS, np.diff(below) * (1 - _ZEROS)), 1e-280)


def _gamma_below(shape: float, x: float) -> float:
    """The gamma distribution function of scale 1, by its series."""
    if x <= 0:
        return 0.0
    if x > shape + 60:
        return 1.0
    term = total = 1 / shape
    n = 0
    while term > 1e-16 * total:
        n += 1
        term *= x / (shape + n)
        total += term
    return min(1.0, total * math.exp(shape * math.log(x) - x - math.lgamma(shape)))
