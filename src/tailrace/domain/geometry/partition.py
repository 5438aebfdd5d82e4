"""The fixed binary partition of a spatial domain.

The bounding box is halved, dimensions in turn, down to its finest cells. A node is a depth d and an
index i from 0 to 2^d - 1; its children are (d + 1, 2 i) and (d + 1, 2 i + 1), so a node covers the
finest places from i 2^(depth - d) up to those of the next node. Places are the finest cells in the
order of the last depth.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from tailrace.domain import Box
from tailrace.domain.geometry import Region, Roads
from tailrace.domain.geometry.codes import measure_of_cells
from tailrace.errors import ConfigError

# 16 million finest cells.
DEEPEST = 24


@dataclass(frozen=True)
class Partition:
    """The partition of a domain into halves of halves.

    The domain must have the same power of two of cells on every side.

    >>> from tailrace.domain import Box
    >>> square = Partition(Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=4))
    >>> square.depth, square.places[:4]
    (4, array([0, 1, 4, 5]))
    """

    domain: Box | Region | Roads

    def __post_init__(self) -> None:
        side = getattr(self.domain, "side", 0)
        if side < 2 or side & (side - 1) or self.depth > DEEPEST:
            raise ConfigError(
                f"cells of a spatial domain must be a power of two, with at most 2**{DEEPEST} "
                "cells in all, for example cells=1024."
            )

    @property
    def dimensions(self) -> int:
        return len(self.domain.columns)

    @property
    def depth(self) -> int:
        """The number of halvings down to a finest cell."""
        return (self.domain.side.bit_length() - 1) * self.dimensions

    @functools.cached_property
    def places(self) -> np.ndarray:
        """Each cell's place: the bits of its coordinates in turn."""
        bits = self.depth // self.dimensions
        axes = np.unravel_index(np.arange(self.domain.size), self.domain.shape)
        places = np.zeros(self.domain.size, np.int64)
        for bit in range(bits - 1, -1, -1):
            for axis in axes:
                places = (places << 1) | ((axis >> bit) & 1)
        places.setflags(write=False)
        return places

    @functools.cached_property
    def cells(self) -> np.ndarray:
        """The cell of the domain at each place."""
        cells = np.empty_like(self.places)
        cells[self.places] = np.arange(len(cells))
        cells.setflags(write=False)
        return cells

    def box(self, depth: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Two arrays (nodes, dimensions): corners in the domain's coordinates."""
        depth, index = np.asarray(depth, np.int64), np.asarray(index, np.int64)
        # In halvings of each dimension.
        first = np.zeros((len(index), self.dimensions), np.int64)
        halvings = np.zeros((len(index), self.dimensions), np.int64)
        for level in range(self.depth):
            inside, axis = level < depth, level % self.dimensions
            bit = (index >> np.maximum(depth - 1 - level, 0)) & 1
            first[:, axis] = np.where(inside, first[:, axis] * 2 + bit, first[:, axis])
            halvings[:, axis] += inside
        low, high = np.array(self.domain.low), np.array(self.domain.high)
        width = (high - low) / (1 << halvings)
        return low + first * width, low + (first + 1) * width


@dataclass(frozen=True)
class Layout:
    """Where the nodes of a tree lie."""

    second: np.ndarray  # (nodes,) the second child
    depth: np.ndarray  # (nodes,)
    first: np.ndarray  # (nodes,) the first place covered
    last: np.ndarray  # (nodes,) the one after the last
    area: np.ndarray  # (nodes,)


@functools.lru_cache(maxsize=8)
def partition_of(domain: Box | Region | Roads) -> Partition:
    """The partition of a domain, made once."""
    return Partition(domain)


@functools.lru_cache(maxsize=8)
def area_before(domain: Box | Region | Roads) -> np.ndarray:
    """(places + 1,) the public measure of all places before each: volume, or area or length of a
    geometry, zero where it is not.
    """
    cells = np.asarray(measure_of_cells(domain)).reshape(-1)
    before = np.zeros(domain.size + 1)
    np.cumsum(cells[partition_of(domain).cells], out=before[1:])
    before.setflags(write=False)
    return before


def lay_out(inner: np.ndarray, domain: Box | Region | Roads) -> Layout:
    """Where the nodes lie."""
    from tailrace.domain.geometry import partition_kernel as kernel

    deepest, before = partition_of(domain).depth, area_before(domain)
    second, depth, first = kernel.lay_out(inner, deepest)
    last = first + (1 << (deepest - depth))
    return Layout(second, depth, first, last, before[last] - before[first])
