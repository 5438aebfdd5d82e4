"""The share of a box that lies between two corners."""

from __future__ import annotations

import functools

import numpy as np

from tailrace.domain import Box
from tailrace.domain.geometry import Region, Roads, measure_of_cells


def shares(
    domain: Box | Region | Roads,
    low: np.ndarray,
    high: np.ndarray,
    lowest: np.ndarray,
    highest: np.ndarray,
) -> np.ndarray:
    """(boxes,) the share of each box between the corners.

    Shares are from 0 to 1, of a box's volume or of the area or length of the geometry in it. Within
    a finest cell the geometry is taken to lie evenly; a box that holds nothing of it has share 0.

    >>> square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
    >>> low, high = np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])
    >>> shares(square, low, high, np.array([0.5, -1]), np.array([2, 0.5]))
    array([0.25])
    """
    inner_low = np.maximum(low, lowest)
    inner_high = np.maximum(np.minimum(high, highest), inner_low)
    if isinstance(domain, Box):
        return np.clip((inner_high - inner_low) / (high - low), 0.0, 1.0).prod(axis=1)
    held, whole = _held(domain, inner_low, inner_high), _held(domain, low, high)
    return np.divide(held, whole, out=np.zeros_like(held), where=whole > 0).clip(0.0, 1.0)


@functools.lru_cache(maxsize=4)
def _before(domain: Region | Roads) -> np.ndarray:
    """The cumulated measure at each corner of the grid."""
    before = np.zeros((domain.side + 1, domain.side + 1))
    before[1:, 1:] = measure_of_cells(domain).cumsum(axis=0).cumsum(axis=1)
    return before


def _held(domain: Region | Roads, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The measure between two corners, for each pair of them."""
    first, before = np.array(domain.low), _before(domain)
    scale = domain.side / (np.array(domain.high) - first)
    (x0, y0), (x1, y1) = (
        np.clip((corner - first) * scale, 0, domain.side).T for corner in (low, high)
    )
    return _at(before, x1, y1) - _at(before, x0, y1) - _at(before, x1, y0) + _at(before, x0, y0)


def _at(before: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cumulated measure between corners of the grid, interpolated evenly."""
    i, j = (np.minimum(at.astype(np.int64), len(before) - 2) for at in (x, y))
    u, v = x - i, y - j
    left = before[i, j] * (1 - v) + before[i, j + 1] * v
    right = before[i + 1, j] * (1 - v) + before[i + 1, j + 1] * v
    return left * (1 - u) + right * u
