"""How much of a box, by the domain's own measure, lies between two corners."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tailrace.domain import Box
from tailrace.geometry.codes import measure_of_cells


def shares(domain: Any, low: np.ndarray, high: np.ndarray, lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
    """(boxes,) from 0 to 1: of each box's volume, or of the area or length of the geometry in it, what the corners hold.

    Inside a finest cell the geometry is taken to lie evenly; a box that holds nothing of it has no share.

    >>> low, high = np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])
    >>> shares(Box(low=(0, 0), high=(1, 1), columns=("x", "y")), low, high, np.array([0.5, -1]), np.array([2, 0.5]))
    array([0.25])
    """
    inner_low, inner_high = np.maximum(low, lowest), np.maximum(np.minimum(high, highest), np.maximum(low, lowest))
    if isinstance(domain, Box):
        return np.clip((inner_high - inner_low) / (high - low), 0.0, 1.0).prod(axis=1)
    before = _before(domain)
    held, whole = _held(domain, before, inner_low, inner_high), _held(domain, before, low, high)
    return np.divide(held, whole, out=np.zeros_like(held), where=whole > 0).clip(0.0, 1.0)


@functools.lru_cache(maxsize=4)
def _before(domain: Any) -> np.ndarray:
    """(side + 1, side + 1) the measure of all cells below and left of each corner of the grid."""
    before = np.zeros((domain.side + 1, domain.side + 1))
    before[1:, 1:] = measure_of_cells(domain).cumsum(axis=0).cumsum(axis=1)
    return before


def _held(domain: Any, before: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The measure between two corners, for each pair of them."""
    (x0, y0), (x1, y1) = _grid(domain, low), _grid(domain, high)
    return _at(before, x1, y1) - _at(before, x0, y1) - _at(before, x1, y0) + _at(before, x0, y0)


def _grid(domain: Any, corner: np.ndarray) -> np.ndarray:
    """Coordinates as places on the grid, in cells."""
    scale = domain.side / (np.array(domain.high) - np.array(domain.low))
    return np.clip((corner - np.array(domain.low)) * scale, 0, domain.side).T


def _at(before: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Between the corners of the grid, evenly."""
    i, j = np.minimum(x.astype(np.int64), len(before) - 2), np.minimum(y.astype(np.int64), len(before) - 2)
    u, v = x - i, y - j
    left = before[i, j] * (1 - v) + before[i, j + 1] * v
    right = before[i + 1, j] * (1 - v) + before[i + 1, j + 1] * v
    return left * (1 - u) + right * u
