"""The public cells that trajectories pass, and their graph."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from tailrace.domain import Box
from tailrace.domain.geometry import Region, Roads
from tailrace.domain.geometry.graph import Graph, adjacency
from tailrace.domain.geometry.partition import area_before, partition_of

Map = Box | Region | Roads
# Cells a side of the grid on which detours are counted; that of the cells, where it is coarser.
_DETOURS = 64


@dataclass(frozen=True)
class Leaves:
    """Nodes of a domain's halving that cover its geometry once.

    They are in the order of their places.
    """

    depth: np.ndarray  # (leaves,) halvings
    index: np.ndarray  # (leaves,) among the nodes of that depth

    @classmethod
    def none(cls) -> Leaves:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class Layout:
    """Where leaves lie, and the graph of those that touch."""

    domain: Map
    index: np.ndarray  # (cells,) among the nodes of their depth
    first: np.ndarray  # (cells,) the first place of each leaf
    last: np.ndarray  # (cells,) the one after the last
    low: np.ndarray  # (cells, 2) corners, in the domain's coordinates
    high: np.ndarray  # (cells, 2)
    homes: np.ndarray  # (cells of the domain,) the leaf that each lies in, or -1
    graph: Graph

    @property
    def cells(self) -> int:
        return len(self.first)

    @property
    def width(self) -> int:
        """Cells of the domain along a side of each cell; all are of one size."""
        return round(int(self.last[0] - self.first[0]) ** 0.5)

    def unit(self, edition: int) -> int:
        """How many moves count as one in detours, by the rules of an edition."""
        return max(self.domain.side // self.width // _DETOURS, 1) if edition > 1 else 1

    @property
    def step(self) -> np.ndarray:
        """(2,) the sides of a cell of the domain, in its coordinates."""
        return (np.array(self.domain.high) - np.array(self.domain.low)) / self.domain.side

    def scaled(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(2, n) places in cells of the domain."""
        return (np.stack([x, y], axis=1) - np.array(self.domain.low)).T / self.step[:, None]

    @functools.cached_property
    def middle(self) -> np.ndarray:
        """(cells, 2) in cells of the domain."""
        return ((self.low + self.high) / 2 - np.array(self.domain.low)) / self.step

    @functools.cached_property
    def directions(self) -> np.ndarray:
        """(edges,) directions in eighths of a circle."""
        across, up = (self.middle[self.graph.targets] - self.middle[self.graph.sources]).T
        return np.rint(np.arctan2(up, across) * 4 / np.pi).astype(np.int64) & 7

    def apart(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The fewest moves between cells of one size.

        Those of a king on a board, as if all cells between them were there.
        """
        extent = np.array(self.domain.high) - np.array(self.domain.low)
        width = (self.high - self.low)[0] / extent * self.domain.side
        apart = np.rint(np.abs(self.middle[first] - self.middle[last]) / width)
        return apart.max(axis=1, initial=0).astype(np.int64)

    def draw(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A domain's cell inside each leaf, by the geometry's measure."""
        before = area_before(self.domain)
        start, stop = before[self.first], before[self.last]
        target = start[cells] + rng.random(len(cells)) * (stop - start)[cells]
        # The end of a leaf belongs to the next one.
        target = np.minimum(target, np.nextafter(stop[cells], 0.0))
        return partition_of(self.domain).cells[np.searchsorted(before, target, side="right") - 1]


def layout_of(domain: Map, leaves: Leaves) -> Layout:
    """The layout of these leaves of a domain, made once."""
    return _layout(domain, leaves.depth.tobytes(), leaves.index.tobytes())


@functools.lru_cache(maxsize=4)
def even_layout(domain: Map, side: int) -> Layout:
    """The cells of a grid that meet the domain."""
    before, depth = area_before(domain), 2 * (side.bit_length() - 1)
    index = np.flatnonzero(np.diff(before[:: domain.size >> depth]) > 0)
    return layout_of(domain, Leaves(np.full(len(index), depth), index))


@functools.lru_cache(maxsize=4)
def _layout(domain: Map, depths: bytes, indices: bytes) -> Layout:
    from tailrace.domain.geometry import kernel

    depth, index = np.frombuffer(depths, np.int64), np.frombuffer(indices, np.int64)
    partition = partition_of(domain)
    first, last = (part << (partition.depth - depth) for part in (index, index + 1))
    homes = kernel.group_of(partition.places, first, last)
    low, high = partition.box(depth, index)
    return Layout(domain, index, first, last, low, high, homes, adjacency(partition, depth, index))
