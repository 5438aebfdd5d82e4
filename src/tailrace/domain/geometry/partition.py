"""The fixed binary partition of a spatial domain.

The bounding box is halved, dimensions in turn, down to its finest cells. A node is a depth d and an
index i from 0 to 2^d - 1; its children are (d + 1, 2 i) and (d + 1, 2 i + 1), so a node covers the
finest places from i 2^(depth - d) up to those of the next node. Places are the finest cells in the
order of the last depth.

Attributes are halved before the ground, in turn, by ranges of their codes: every combination of
values has a map of its own. Where values are no power of two, some nodes hold none and have no
area.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from tailrace.domain import Box
from tailrace.domain.geometry.places import Places
from tailrace.domain.geometry.points import Region, Roads, measure_of_cells
from tailrace.domain.halving import halvings
from tailrace.errors import ConfigError

Ground = Box | Region | Roads
Space = Ground | Places
# 16 million finest cells.
DEEPEST = 24
# Halvings of attributes at most. By reasoning: events are told apart at 2**20 places, of which each
# combination of 2**7 has 90 by 90.
_MOST_CODED = 7


@dataclass(frozen=True)
class Partition:
    """The partition of a domain into halves of halves.

    The domain must have the same power of two of cells on every side.

    >>> from tailrace.domain import Box
    >>> square = Partition(Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=4))
    >>> square.depth, square.places[:4]
    (4, array([0, 1, 4, 5]))
    """

    domain: Space

    def __post_init__(self) -> None:
        side = getattr(self.ground, "side", 0)
        if side < 2 or side & (side - 1) or self.depth - self.coded > DEEPEST:
            raise ConfigError(
                f"cells of a spatial domain must be a power of two, with at most 2**{DEEPEST} "
                "cells in all, for example cells=1024."
            )
        if not self.coded:
            return
        many = f"{self.domain.size // self.ground.size:,} combinations of values"
        if self.coded > _MOST_CODED:
            raise ConfigError(
                f"schema of Places has {many}, too many for a map of each: declare fewer values, "
                "or count coarse districts beside them with a TabularStream."
            )
        if self.depth > DEEPEST:
            most = 1 << (DEEPEST - self.coded) // self.dimensions
            raise ConfigError(
                f"schema of Places has {many}, which with {side:,} cells a side make more than "
                f"2**{DEEPEST} cells: use cells={most}."
            )

    @property
    def ground(self) -> Ground:
        """Where points lie."""
        return self.domain.ground if isinstance(self.domain, Places) else self.domain

    @property
    def dimensions(self) -> int:
        return len(self.ground.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """The cells of each axis, in the order of cells: attributes, then sides."""
        attributes = self.domain.schema.shape if isinstance(self.domain, Places) else ()
        return (*attributes, *self.ground.shape)

    @functools.cached_property
    def turns(self) -> tuple[tuple[int, int], ...]:
        """At each depth the axis that is halved, and how often it was before."""
        first = len(self.shape) - self.dimensions
        bits = [(size - 1).bit_length() for size in self.shape]
        return tuple(
            (axis, turn)
            for axes in (range(first), range(first, len(self.shape)))
            for turn in range(max((bits[axis] for axis in axes), default=0))
            for axis in axes
            if bits[axis] > turn
        )

    @property
    def depth(self) -> int:
        """The number of halvings down to a finest cell."""
        return len(self.turns)

    @property
    def coded(self) -> int:
        """How many of them are attributes'."""
        first = len(self.shape) - self.dimensions
        return sum((size - 1).bit_length() for size in self.shape[:first])

    @functools.cached_property
    def places(self) -> np.ndarray:
        """Each cell's place: the halves that it lies in, in turn."""
        paths = [halvings(size) for size in self.shape]
        places = np.zeros(self.shape, np.int64)
        for axis, turn in self.turns:
            path, bits = paths[axis]
            along = path >> (bits - 1 - turn) & 1
            places <<= 1
            places |= along.reshape([-1 if i == axis else 1 for i in range(len(self.shape))])
        places = places.reshape(-1)
        places.setflags(write=False)
        return places

    @functools.cached_property
    def cells(self) -> np.ndarray:
        """The cell of the domain at each place; 0 where there is none."""
        cells = np.zeros(1 << self.depth, np.int64)
        cells[self.places] = np.arange(len(self.places))
        cells.setflags(write=False)
        return cells

    def box(self, depth: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Two arrays (nodes, dimensions): corners in the ground's coordinates."""
        first, last = (part[:, -self.dimensions :] for part in self.rectangles(depth, index))
        size = last - first
        low, high = np.array(self.ground.low), np.array(self.ground.high)
        width = (high - low) / (self.ground.side // size)
        return low + first // size * width, low + last // size * width

    def codes(self, depth: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Two arrays (nodes, attributes): the first code, and the one after the last."""
        first, last = (part[:, : -self.dimensions] for part in self.rectangles(depth, index))
        return first, last

    def rectangles(self, depth: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The corners of nodes in codes and finest cells.

        They are two arrays (nodes, axes); the upper corner is excluded.

        >>> from tailrace.domain import Box
        >>> square = Partition(Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=4))
        >>> square.rectangles(np.array([1, 2]), np.array([0, 3]))
        (array([[0, 0],
               [2, 2]]), array([[2, 4],
               [4, 4]]))
        """
        depth, index = np.asarray(depth, np.int64), np.asarray(index, np.int64)
        low = np.zeros((len(index), len(self.shape)), np.int64)
        high = np.tile(np.array(self.shape, np.int64), (len(index), 1))
        for level, (axis, _) in enumerate(self.turns):
            inside = level < depth
            upper = (index >> np.maximum(depth - 1 - level, 0) & 1).astype(np.bool_)
            middle = (low[:, axis] + high[:, axis] + 1) // 2
            low[:, axis] = np.where(inside & upper, middle, low[:, axis])
            high[:, axis] = np.where(inside & ~upper, middle, high[:, axis])
        return low, high


@dataclass(frozen=True)
class Layout:
    """Where the nodes of a tree lie."""

    second: np.ndarray  # (nodes,) the second child
    depth: np.ndarray  # (nodes,)
    first: np.ndarray  # (nodes,) the first place covered
    last: np.ndarray  # (nodes,) the one after the last
    area: np.ndarray  # (nodes,)


@functools.lru_cache(maxsize=8)
def partition_of(domain: Space) -> Partition:
    """The partition of a domain, made once."""
    return Partition(domain)


@functools.lru_cache(maxsize=8)
def area_before(domain: Space) -> np.ndarray:
    """(places + 1,) the public measure of all places before each."""
    partition = partition_of(domain)
    cells = np.asarray(measure_of_cells(domain)).reshape(-1)
    laid = np.zeros(1 << partition.depth)
    laid[partition.places] = cells
    before = np.zeros(len(laid) + 1)
    np.cumsum(laid, out=before[1:])
    before.setflags(write=False)
    return before


def lay_out(inner: np.ndarray, domain: Space) -> Layout:
    """Where the nodes lie."""
    from tailrace.domain.geometry import kernel

    deepest, before = partition_of(domain).depth, area_before(domain)
    second, depth, first = kernel.lay_out(np.array(inner), deepest)
    last = first + (1 << (deepest - depth))
    return Layout(second, depth, first, last, before[last] - before[first])
