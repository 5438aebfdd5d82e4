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
from tailrace.domain.geometry import Region, Roads, measure_of_cells
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
        first, last = self.rectangles(depth, index)
        size = last - first
        low, high = np.array(self.domain.low), np.array(self.domain.high)
        width = (high - low) / (self.domain.side // size)
        return low + first // size * width, low + last // size * width

    def rectangles(self, depth: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The corners of nodes in finest cells.

        They are two arrays (nodes, dimensions); the upper corner is excluded.

        >>> from tailrace.domain import Box
        >>> square = Partition(Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=4))
        >>> square.rectangles(np.array([1, 2]), np.array([0, 3]))
        (array([[0, 0],
               [2, 2]]), array([[2, 4],
               [4, 4]]))
        """
        depth, index = np.asarray(depth, np.int64), np.asarray(index, np.int64)
        low = np.zeros((len(index), self.dimensions), np.int64)
        size = np.full_like(low, self.domain.side)
        for level in range(self.depth):
            axis, inside = level % self.dimensions, level < depth
            size[:, axis] >>= inside
            bit = inside & (index >> np.maximum(depth - 1 - level, 0)) & 1
            low[:, axis] += size[:, axis] * bit
        return low, low + size


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
    """(places + 1,) the public measure of all places before each."""
    cells = np.asarray(measure_of_cells(domain)).reshape(-1)
    before = np.zeros(domain.size + 1)
    np.cumsum(cells[partition_of(domain).cells], out=before[1:])
    before.setflags(write=False)
    return before


def lay_out(inner: np.ndarray, domain: Box | Region | Roads) -> Layout:
    """Where the nodes lie."""
    from tailrace.domain.geometry import kernel

    deepest, before = partition_of(domain).depth, area_before(domain)
    second, depth, first = kernel.lay_out(np.array(inner), deepest)
    last = first + (1 << (deepest - depth))
    return Layout(second, depth, first, last, before[last] - before[first])
