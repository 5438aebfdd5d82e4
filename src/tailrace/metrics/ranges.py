"""Range queries: points in rectangles, true and synthetic.

The error of one rectangle q is |f(q) - g(q)| / max(f(q), floor n), with f the true count, g the
synthetic one, n the number of true points and floor 0.001 as in PrivStream (which takes it from
PrivTree). Many small rectangles hold next to nothing, and an empty table does well on those; so the
mean is also taken over the rectangles whose true count reaches the floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tailrace.calls import told
from tailrace.errors import ConfigError, DataError
from tailrace.metrics.given import Blocks, corners, numbers, queries
from tailrace.privacy.loss import real

FLOOR = 0.001
# PrivStream's: how many rectangles, and the least and the most share of the box.
CLASSES = {
    "small": (10_000, 0.0001, 0.001),
    "medium": (5_000, 0.001, 0.01),
    "large": (1_000, 0.01, 0.1),
}
# Cells of the grid that points are sorted into.
_MOST_CELLS = 1 << 22


@told
@dataclass(frozen=True, eq=False)
class Rectangles(Blocks):
    """Boxes in one to four dimensions, both corners included."""

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.low.shape
        if len(shape) != 2 or shape != self.high.shape or not 1 <= shape[1] <= 4:
            raise ConfigError(
                "low and high of Rectangles must be two arrays (rectangles, dimensions) of one "
                "shape."
            )


@told
@dataclass(frozen=True)
class RangeError:
    """Mean relative errors over rectangles.

    Parameters
    every: over all of them.
    held: over those whose true count reaches the floor (nan: none).
    share: the share of rectangles whose true count reaches the floor.
    """

    every: float
    held: float
    share: float


@told
def random_rectangles(
    rng: np.random.Generator,
    *,
    low: ArrayLike,
    high: ArrayLike,
    number: int,
    least: float,
    most: float,
) -> Rectangles:
    """Random rectangles inside a box.

    Their share of its volume is even in [least, most), and their sides are within a factor 2 of
    each other, measured in the box's own. In the plane the ratio of the sides is even in [0.5, 2).
    """
    lowest, highest = corners(low, high)
    widths, dimensions, number = highest - lowest, len(lowest), queries(number)
    least, most = real("least", least, least=0, most=1), real("most", most, least=0, most=1)
    if least > most:
        raise ConfigError("least must not be above most: both are shares of the box's volume.")
    volume = rng.uniform(least, most, number)
    if dimensions == 2:
        ratio = rng.uniform(0.5, 2.0, number)
        shape = np.stack([np.sqrt(ratio), 1 / np.sqrt(ratio)], axis=1)
    else:
        logs = rng.uniform(-0.5, 0.5, (number, dimensions)) * np.log(2)
        shape = np.exp(logs - logs.mean(axis=1, keepdims=True))
    sides = shape * volume[:, None] ** (1 / dimensions)
    start = rng.random((number, dimensions)) * (1 - sides)
    return Rectangles(lowest + start * widths, lowest + (start + sides) * widths)


@told
def standard_queries(
    rng: np.random.Generator, *, low: ArrayLike, high: ArrayLike
) -> dict[str, Rectangles]:
    """PrivStream's queries: rectangles of three sizes.

    10,000 small, 5,000 medium and 1,000 large ones, of [.01, .1), [.1, 1) and [1, 10) % of the box.
    """
    return {
        name: random_rectangles(rng, low=low, high=high, number=number, least=least, most=most)
        for name, (number, least, most) in CLASSES.items()
    }


@told
def count(points: np.ndarray, rectangles: Rectangles) -> np.ndarray:
    """Count the points (n, dimensions) in each rectangle.

    Points are sorted into a grid of about one point a cell, row by row, so that cells inside a
    rectangle are a difference of two offsets for each row, and only the points of cells on its edge
    are looked at.

    >>> count(np.array([[0.5], [0.7], [2.0]]), Rectangles([[0.0], [0.6]], [[1.0], [2.0]]))
    array([2, 2])
    """
    from tailrace.metrics import kernel

    values = numbers("points", points)
    dimensions = rectangles.low.shape[1]
    if values.ndim != 2 or values.shape[1] != dimensions:
        many = f"(points, {dimensions}): the rectangles have {dimensions} dimensions"
        raise DataError(f"points must be an array {many}.")
    values = values[np.isfinite(values).all(axis=1)]
    if not len(values) or not len(rectangles):
        return np.zeros(len(rectangles), np.int64)
    grid = gridded(values)
    ordered = kernel.in_order(values, grid.cells, grid.starts)
    place = (grid.low, grid.scale, grid.side)
    return kernel.count(ordered, grid.starts, *place, rectangles.low, rectangles.high)


class Gridded(NamedTuple):
    """Points on a grid of about one point a cell."""

    low: np.ndarray  # (dimensions,)
    scale: np.ndarray  # (dimensions,) cells per unit of the coordinates
    side: int
    cells: np.ndarray  # (points,) the cell of each
    starts: np.ndarray  # (cells + 1,) where a cell begins, with points sorted by cell


def gridded(points: np.ndarray) -> Gridded:
    """Put one or more points on a grid."""
    from tailrace.metrics import kernel

    dimensions = points.shape[1]
    side = max(1, int(min(len(points), _MOST_CELLS) ** (1 / dimensions)))
    low = points.min(axis=0)
    scale = side / np.maximum(points.max(axis=0) - low, np.finfo(float).tiny * side)
    cells = kernel.place(points, low, scale, side)
    starts = np.zeros(side**dimensions + 1, np.int64)
    np.cumsum(np.bincount(cells, minlength=side**dimensions), out=starts[1:])
    return Gridded(low, scale, side, cells, starts)


@told
def relative_error(
    true: np.ndarray, synthetic: np.ndarray, rectangles: Rectangles, *, floor: float = FLOOR
) -> RangeError:
    """The mean relative error of synthetic points on rectangles.

    It is nan where there are no true points.

    >>> true = np.array([[0.1, 0.1], [0.2, 0.2], [0.9, 0.9]])
    >>> rectangles = Rectangles([[0.0, 0.0], [0.0, 0.0]], [[0.5, 0.5], [1.0, 1.0]])
    >>> relative_error(true, true[:2], rectangles).every
    0.16666666666666666
    """
    floor, points = real("floor", floor, least=0, most=1), numbers("true", true)
    found = count(numbers("synthetic", synthetic), rectangles)
    return error_of_counts(count(points, rectangles), found, len(points), floor=floor)


def error_of_counts(
    true: np.ndarray, synthetic: np.ndarray, total: int, *, floor: float = FLOOR
) -> RangeError:
    """The same from counts; `total` is that of true points."""
    if not total or not len(true):
        return RangeError(np.nan, np.nan, np.nan)
    least = floor * total
    errors, held = np.abs(true - synthetic) / np.maximum(true, least), true >= least
    some = float(errors[held].mean()) if held.any() else np.nan
    return RangeError(float(errors.mean()), some, float(held.mean()))
