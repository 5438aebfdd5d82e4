"""From noisy counts on nested grids to densities: each count is drawn towards what the coarser grid
expects, as far as its noise asks.

Most cells of a fine grid hold next to nothing, a few hold most of all there is, and all have the
same noise. So a count is taken to be what is expected times a factor, zero for some of the cells
and gamma distributed for the others; how many, and how widely, is found from the noisy counts of
the whole grid (empirical Bayes), and the posterior of each follows. All of it sees released numbers
alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tailrace.domain.geometry.partition import area_before

_EDGES = np.concatenate([[0.0], np.geomspace(2e-3, 4000.0, 97)])  # of the bins of factors
_SHAPES, _ZEROS = (
    (0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0),
    (0.0, 0.25, 0.5, 0.75),
)  # of the priors that are tried
_USUAL, _GAIN = (
    (0.25, 0.25),
    6.0,
)  # the prior unless another is so much more likely (the logarithm of how many times)
_CLASSES = np.array(
    [0.05, 0.15, 0.4, 1.0, 3.0]
)  # of counts by what is expected, in scales of the noise: each has a prior of its own
_SOME = 20_000  # counts of a class of which its prior is found


def areas(domain: Any, side: int) -> np.ndarray:
    """(cells,) the domain's measure in each cell of a grid of so many cells a side, in the order of
    the halving.
    """
    before = area_before(domain)
    return np.diff(before[:: domain.size // side**2])


def summed(values: np.ndarray, size: int) -> np.ndarray:
    """Values of a fine grid added up to those of a coarser one with `size` cells."""
    return values.reshape(size, -1).sum(axis=1)


def divided(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Values of a coarse grid divided among the cells of a finer one by weight; none where there is
    no weight.
    """
    each = len(weights) // len(values)
    sums = np.repeat(summed(weights, len(values)), each)
    return np.repeat(values, each) * np.divide(
        weights, sums, out=np.zeros(len(weights)), where=sums > 0
    )


def smooth(values: np.ndarray, side: int) -> np.ndarray:
    """Values of a grid on one with `side` cells a side, without steps between cells: linear in
    their roots, cell sums kept.
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
    """(cells,) the place in the order of the halving of each cell of a grid, row by row."""
    x, y = np.divmod(np.arange(side * side), side)
    places = np.zeros(side * side, np.int64)
    for bit in range(side.bit_length() - 2, -1, -1):
        places = (places << 2) | ((x >> bit & 1) << 1) | (y >> bit & 1)
    return places


def posterior(
    found: np.ndarray, expected: np.ndarray, scale: float | np.ndarray, *, floor: float
) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each count, and the value whose error relative to max(count, floor) is least."""
    from tailrace.mechanisms.trajectories import kernel

    expected, scale = (
        np.maximum(expected, 1e-9),
        np.broadcast_to(np.asarray(scale, float), found.shape),
    )
    mean, nearest = np.zeros((2, len(found)))
    kind = np.searchsorted(_CLASSES, expected / scale)
    for one in np.unique(kind):
        mine = np.flatnonzero(kind == one)
        some = mine[np.linspace(0, len(mine) - 1, min(len(mine), _SOME)).astype(np.int64)]
        likely = kernel.likelihoods(found[some], expected[some], scale[some], _EDGES, _priors())
        likely[0] += _GAIN
        best = _priors()[np.argmax(likely)]
        mean[mine], nearest[mine] = kernel.posterior(
            found[mine], expected[mine], scale[mine], _EDGES, best, floor
        )
    return mean, nearest


def refined(
    levels: Sequence[np.ndarray],
    scales: Sequence[float],
    domain: Any,
    *,
    prior: np.ndarray | None = None,
    floor: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The density on the finest of nested grids, as `posterior` has it, from noisy counts on all of
    them.

    `prior`, a density on any finer grid, says what to expect inside a cell of the grid before;
    without one it is smooth, by area.
    """
    mean, nearest = np.array([max(float(levels[0].sum()), 1.0)]), np.zeros(1)
    for found, scale in zip(levels, scales, strict=True):
        side = round(len(found) ** 0.5)
        room = areas(domain, side)
        inside = (
            smooth(mean, side) * room if prior is None else summed(prior, len(found)) * (room > 0)
        )
        inside = (
            inside + 1e-9 * inside.sum() * room / room.sum()
        )  # nothing that lies in the domain is ruled out
        there = room > 0
        better = np.zeros((2, len(found)))
        better[:, there] = posterior(found[there], divided(mean, inside)[there], scale, floor=floor)
        mean, nearest = better
    return mean, nearest


@functools.cache
def _priors() -> np.ndarray:
    """(priors, bins) chances: of the factor 0 first, which a share of `zeros` has; the others are
    gamma distributed, such that the mean of all is 1."""
    found = []
    for shape, zeros in (_USUAL, *((shape, zeros) for shape in _SHAPES for zeros in _ZEROS)):
        below = [_gamma_below(shape, shape * edge * (1 - zeros)) for edge in _EDGES]
        found.append(np.append(zeros, np.diff(below) * (1 - zeros)))
    return np.maximum(np.array(found), 1e-280)


def _gamma_below(shape: float, x: float) -> float:
    """P(X < x) of the gamma distribution with this shape and scale 1, by its series."""
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
