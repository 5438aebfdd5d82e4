"""Exact net counts of the open epoch, by finest place.

They are private until they are measured. Which leaves an epoch is measured in is known only when it
closes, so events are kept by place: as records (place, net), appended at every step and merged when
they have doubled. Neither the records nor their number ever leave the private state.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailrace.counting.plan import Counts
from tailrace.domain.geometry.partition import Space, area_before, partition_of
from tailrace.mechanisms.spatial.tree import finest

# Records are merged when they are twice as many as were merged before, and this many more.
_ROOM = 1 << 12
# Depths below an older version's leaf over which its count is spread.
_SPREAD = 6


@dataclass(frozen=True)
class SpatialPrivate:
    """Private state: exact counts awaiting measurement, and the clock's sums."""

    # (leaves,) net counts of an epoch that an older version began; none since
    buffer: np.ndarray
    waiting: np.ndarray  # (rows,) adds and deletes before the first release
    clock: Any
    places: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))  # (records,)
    nets: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # (records,)
    # () how many of them are merged: sorted, and of different places
    merged: np.ndarray = field(default_factory=lambda: np.zeros((), np.int64))

    def plus(self, places: np.ndarray, nets: np.ndarray) -> SpatialPrivate:
        """With more records."""
        places = np.concatenate([self.places, places.astype(np.int32)])
        nets, merged = np.concatenate([self.nets, nets]), int(self.merged)
        if len(places) > 2 * merged + _ROOM:
            places, which = np.unique(places, return_inverse=True)
            nets = _added_up(which, nets, len(places))
            places, nets = places[nets != 0], nets[nets != 0]
            merged = len(places)
        return replace(self, places=places, nets=nets, merged=np.asarray(merged))

    def sums(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Net counts from `first` up to `last`, of disjoint leaves in order."""
        leaf = np.searchsorted(first, self.places, side="right") - 1
        leaf[self.places >= last[leaf]] = -1
        return _added_up(leaf, self.nets, len(first))

    def cleared(self) -> SpatialPrivate:
        """Without the epoch that was measured."""
        return SpatialPrivate(self.buffer[:0], self.waiting, self.clock)


def groups_of(domain: Space) -> np.ndarray:
    """The number of each cell's place at the finest depth, (cells,); -1 without area."""
    partition, before = partition_of(domain), area_before(domain)
    shift = partition.depth - finest(domain)
    groups = partition.places >> shift
    empty = np.diff(before[:: 1 << shift]) <= 0
    return np.where(empty[groups], -1, groups).astype(np.int32)


def records(counts: Counts, domain: Space) -> tuple[np.ndarray, np.ndarray]:
    """The places of a step's counts, and their nets."""
    from tailrace.mechanisms.spatial.kernel import touched

    groups = touched(counts.adds, counts.deletes)
    nets = counts.adds[groups] - counts.deletes[groups]
    return groups << (partition_of(domain).depth - finest(domain)), nets


def of_places(places: np.ndarray, nets: np.ndarray, many: int, domain: Space) -> np.ndarray:
    """(many,) counts by number of the place, from records."""
    return _added_up(places >> (partition_of(domain).depth - finest(domain)), nets, many)


def spread(
    nets: np.ndarray, first: np.ndarray, last: np.ndarray, domain: Space
) -> tuple[np.ndarray, np.ndarray]:
    """Records of leaves' counts: each spread over its leaf as evenly as whole numbers go.

    One event more changes one record by one, as it did the leaf's count.
    """
    before, places, values = area_before(domain), [np.zeros(0)], [np.zeros(0)]
    for net, low, high in zip(nets.tolist(), first.tolist(), last.tolist(), strict=True):
        many = min(1 << _SPREAD, high - low)
        edges = low + (high - low) // many * np.arange(many + 1)
        # In the order of reversed bits, so that the first few are spread, too.
        bits = many.bit_length() - 1
        order = [int(f"{i:0{bits}b}"[::-1] or "0", 2) if bits else 0 for i in range(many)]
        held = [i for i in order if before[edges[i + 1]] > before[edges[i]]]
        each, more = divmod(net, len(held))
        places.append(edges[held])
        values.append(each + (np.arange(len(held)) < more))
    return np.concatenate(places).astype(np.int64), np.concatenate(values).astype(np.int64)


def _added_up(which: np.ndarray, nets: np.ndarray, many: int) -> np.ndarray:
    """Sums of nets by number."""
    from tailrace.domain.kernel import add_up

    return add_up(which, nets, many)
