"""Densities from noisy counts on nested grids, by empirical Bayes.

Most cells of a fine grid hold next to nothing, a few hold nearly everything, and all have the same
noise. So a count is modelled as its expectation from the coarser grid times a factor: zero for some
cells, gamma distributed for the others. The prior is chosen by the noisy counts of the whole grid,
and the posterior of each count follows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from tailrace.domain.geometry.partition import area_before
from tailrace.mechanisms.trajectories.layout import Map

# Chosen by trial on the data of benchmarks/trajectories.py; no committed result.
# Edges of the bins of factors.
_EDGES = np.concatenate([[0.0], np.geomspace(2e-3, 4000.0, 97)])
# Shapes and shares of zeros of the priors.
_SHAPES, _ZEROS = (0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0), (0.0, 0.25, 0.5, 0.75)
# The default prior, and the log-likelihood that another must gain over it.
_USUAL, _GAIN = (0.25, 0.25), 6.0
# Classes of counts, each with its own prior, by expectation in scales of the noise.
_CLASSES = np.array([0.05, 0.15, 0.4, 1.0, 3.0])
# Counts of a class that choose its prior, at most.
_SOME = 20_000


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
    better = np.zeros((4, len(found)))
    kind = np.searchsorted(_CLASSES, expected / scale)
    for one in np.unique(kind):
        mine = np.flatnonzero(kind == one)
        some = mine[np.linspace(0, len(mine) - 1, min(len(mine), _SOME)).astype(np.int64)]
        likely = kernel.likelihoods(found[some], expected[some], scale[some], _EDGES, _priors())
        likely[0] += _GAIN
        best = _priors()[np.argmax(likely)]
        counts = (found[mine], expected[mine], scale[mine])
        better[:, mine] = kernel.posterior(*counts, _EDGES, best, floor).T
    return better


def refined(
    levels: Sequence[np.ndarray],
    scales: Sequence[float],
    domain: Map,
    *,
    prior: np.ndarray | None = None,
    floor: float = 1.0,
) -> np.ndarray:
    """The posterior on the finest of several noisy grids.

    `prior`, a density on any finer grid, divides the cells of each grid for the next; without it
    they are interpolated, by area. Rows are as in `posterior`.
    """
    better = np.full((4, 1), max(float(levels[0].sum()), 1.0))
    for found, scale in zip(levels, scales, strict=True):
        mean, side = better[0], round(len(found) ** 0.5)
        room = areas(domain, side)
        there = room > 0
        inside = smooth(mean, side) * room if prior is None else summed(prior, len(found)) * there
        # Nothing that lies in the domain is ruled out.
        inside = inside + 1e-9 * inside.sum() * room / room.sum()
        expected, better = divided(mean, inside)[there], np.zeros((4, len(found)))
        better[:, there] = posterior(found[there], expected, scale, floor=floor)
    return better


@functools.cache
def _priors() -> np.ndarray:
    """(priors, bins) chances of factors, of 0 first; mean 1."""
    found = []
    for shape, zeros in (_USUAL, *((shape, zeros) for shape in _SHAPES for zeros in _ZEROS)):
        below = [_gamma_below(shape, shape * edge * (1 - zeros)) for edge in _EDGES]
        found.append(np.append(zeros, np.diff(below) * (1 - zeros)))
    return np.maximum(np.array(found), 1e-280)


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
