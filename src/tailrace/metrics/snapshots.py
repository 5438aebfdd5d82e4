"""Errors of range counts on a series of histograms.

The error of a query on a snapshot is |g - f|, with f the true count and g the released one; the
relative error is |g - f| / max(f, sanity). A release that is reused is wrong for two reasons. With
h the true count at the step it was measured at, the *update error* |h - f| is the change since, and
the *perturbation error* |g - h| is the noise.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError, DataError
from tailrace.metrics.given import Blocks, numbers, queries, sides
from tailrace.privacy.loss import real


@told
@dataclass(frozen=True, eq=False)
class Ranges(Blocks):
    """Blocks of cells: intervals, both ends included."""

    _kind: ClassVar[type] = int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low.ndim != 2 or self.low.shape != self.high.shape or (self.low > self.high).any():
            raise ConfigError(
                "low and high of Ranges must be two arrays (queries, sides), low not above high."
            )


@told
@dataclass(frozen=True)
class SnapshotError:
    """Mean errors over queries and snapshots."""

    absolute: float
    relative: float
    update: float
    perturbation: float


@told
def random_ranges(rng: np.random.Generator, shape: tuple[int, ...], number: int) -> Ranges:
    """Blocks with a random interval on every side."""
    many = queries(number)
    ends = np.stack([rng.integers(0, side, (many, 2)) for side in sides(shape)], axis=2)
    return Ranges(ends.min(axis=1), ends.max(axis=1))


@told
def ranges_of_size(
    rng: np.random.Generator, shape: tuple[int, ...], number: int, *, share: float
) -> Ranges:
    """Blocks that hold about this share of the cells.

    They lie anywhere; the sides' own shares are even among those that multiply to it.
    """
    wide = np.array(sides(shape))
    weights = rng.dirichlet(np.ones(len(wide)), queries(number))
    shares = real("share", share, least=0, most=1) ** weights
    length = np.clip(np.rint(wide * shares), 1, wide).astype(np.int64)
    low = np.floor(rng.random(length.shape) * (wide - length + 1)).astype(np.int64)
    return Ranges(low, low + length - 1)


@told
def answers(histogram: np.ndarray, ranges: Ranges, shape: tuple[int, ...]) -> np.ndarray:
    """The sum of each block.

    It comes from the running sums over all sides.

    >>> answers(np.arange(6), Ranges([[0, 1]], [[1, 2]]), (2, 3))
    array([12])
    """
    shape, histogram = sides(shape), np.asarray(histogram)
    if histogram.size != math.prod(shape) or histogram.dtype.kind not in "biuf":
        raise DataError("histogram must have a number for each cell of a table of this shape.")
    fits = ranges.low.shape[1] == len(shape)
    if not fits or (ranges.low < 0).any() or (ranges.high >= np.array(shape)).any():
        raise DataError(f"The ranges must lie in a table of {len(shape)} sides.")
    table = np.pad(histogram.reshape(shape), [(1, 0)] * len(shape))
    for axis in range(len(shape)):
        np.cumsum(table, axis=axis, out=table)
    total = np.zeros(len(ranges), table.dtype)
    for corner in itertools.product((0, 1), repeat=len(shape)):
        at = tuple(np.where(corner, ranges.high + 1, ranges.low).T)
        total += table[at] if (len(shape) - sum(corner)) % 2 == 0 else -table[at]
    return total


@told
def snapshot_error(
    true: np.ndarray,
    released: np.ndarray,
    measured: np.ndarray | None = None,
    *,
    sanity: float = 1.0,
) -> SnapshotError:
    """Mean errors from the answers to queries.

    Parameters
    true: (snapshots, queries) of the truth.
    released: of the releases.
    measured: of the truth at the steps at which the releases were measured.
    sanity: the least denominator of a relative error.

    >>> true, released = np.array([[10.0], [20.0]]), np.array([[11.0], [11.0]])
    >>> snapshot_error(true, released, np.array([[10.0], [10.0]]))
    SnapshotError(absolute=5.0, relative=0.275, update=5.0, perturbation=1.0)
    """
    given = {"true": true, "released": released, "measured": true if measured is None else measured}
    if any(numbers(name, values).shape != np.shape(true) for name, values in given.items()):
        raise DataError(
            "true, released and measured must be arrays of one shape: (snapshots, queries)."
        )
    if not real("sanity", sanity, least=0) > 0:
        raise ConfigError("sanity must be above 0: errors are divided by it where nothing is true.")
    off, stale, noise = np.abs(released - true), np.nan, np.nan
    if measured is not None:
        stale, noise = np.abs(measured - true).mean(), np.abs(released - measured).mean()
    relative = off / np.maximum(true, sanity)
    return SnapshotError(*map(float, (off.mean(), relative.mean(), stale, noise)))
