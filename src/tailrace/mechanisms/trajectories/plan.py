"""Plans that count trajectories, and the rows of synthetic ones."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import narwhals as nw
import numpy as np

from tailrace.counting.executors import check_size
from tailrace.counting.journeys import spread
from tailrace.counting.journeys.masses import Masses
from tailrace.counting.journeys.moves import Routes, routes, visits
from tailrace.counting.journeys.reading import JourneyRows, Journeys, Reading
from tailrace.domain.geometry.partition import partition_of
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Wider
from tailrace.mechanisms.trajectories.clock import DayClock
from tailrace.mechanisms.trajectories.layout import Layout


@dataclass(frozen=True, eq=False)
class Tally:
    """The counts of one round, part after part."""

    parts: tuple[Masses, ...]

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        return Tally(tuple(one + two for one, two in zip(self.parts, other.parts, strict=True)))


@dataclass(frozen=True, eq=False)
class Followed:
    """Trajectories as read, and as followed on a layout."""

    journeys: Journeys
    on: Layout | None

    @property
    def layout(self) -> Layout:
        """The cells that are walked on."""
        assert self.on is not None, "only counts that need no layout go without"
        return self.on

    @functools.cached_property
    def routes(self) -> Routes:
        """The cells that trajectories pass."""
        layout = self.layout
        return routes(self.journeys, layout.homes, layout.domain.side, layout.graph)


class Counting(Protocol):
    """A part that counts trajectories on a layout."""

    def of(self, found: Followed) -> Masses: ...
    def most_of(self, layout: Layout) -> int:
        """The number of its counts, at most."""
        ...


@dataclass(frozen=True)
class JourneyPlan:
    """Count each of the `parts`, on a `layout`; without any, points."""

    reading: Reading
    layout: Layout | None = None
    parts: Sequence[Counting] = ()

    @property
    def key(self) -> str:
        """The column whose values keep rows together."""
        return self.reading.user or self.reading.trajectory

    @property
    def memory(self) -> None:
        """None: everything comes at once."""

    @property
    def size(self) -> int:
        """The number of counts of all parts, at most."""
        if self.layout is None or not self.parts:
            return self.reading.domain.size
        return sum(part.most_of(self.layout) for part in self.parts)

    def part(self, frame: Any, key: bytes) -> JourneyRows:
        return self.reading.rows(frame, key)

    def written(self, rows: Any, *, key: bytes, below: Path) -> JourneyRows:
        """Leave the rows of a Spark frame to executors, which write them to files."""
        check_size(rows.to_native().sparkSession, self.size)
        return spread.written(self.reading, rows, key=key, below=below)

    def tally(self, parts: Sequence[Masses]) -> Tally:
        """Counts that were added up over tasks; of the last parts there may be none."""
        none = max(len(self.parts), 1) - len(parts)
        return Tally((*parts, *(Masses.none() for _ in range(none))))

    def read(self, frame: Any) -> Journeys:
        return self.reading.journeys(frame)

    def counts(self, batch: Any, deletes: None = None) -> Tally:
        if deletes is not None:
            raise ConfigError("Trajectories are released once: there is nothing to delete.")
        if isinstance(batch, spread.Spread):
            return spread.counts(self, batch)
        journeys = batch if isinstance(batch, Journeys) else self.read(batch)
        domain: Any = self.reading.domain
        if not self.parts:
            return Tally((visits(journeys, partition_of(domain).places, domain.size),))
        found = Followed(journeys, self.layout)
        return Tally(tuple(part.of(found) for part in self.parts))


@dataclass(frozen=True)
class TripPlan(JourneyPlan):
    """Count the journeys that ended in one step, each a unit.

    With a `clock`, times are folded into its first period.
    """

    clock: DayClock | None = None

    def read(self, frame: Any) -> Journeys:
        found = super().read(frame)
        span = found.span if self.clock is None else self.clock.folded(found.span)
        return replace(found, among=np.ones_like(found.among), span=span)


@dataclass(frozen=True)
class Points(Wider):
    """The rows of synthetic trajectories: id, order and place.

    Ids are counted from 1: real ones are never seen here.
    """

    trajectory: str
    order: str
    clock: DayClock | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.trajectory, self.order, *self.domain.columns)

    @property
    def types(self) -> dict[str, nw.dtypes.DType]:
        order = nw.Int64() if self.clock is None else self.clock.dtype
        return {self.trajectory: nw.Int64(), self.order: order, **self.domain.types}

    def decode(self, cells: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """One trajectory of points in these cells."""
        times = None if self.clock is None else self.clock.written(np.zeros(len(cells)))
        return self.rows(np.array([0, len(cells)]), cells, rng, times)

    def rows(
        self,
        offsets: np.ndarray,
        cells: np.ndarray,
        rng: np.random.Generator,
        times: np.ndarray | None = None,
        ids: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Trajectories one after another, points anywhere in their cells.

        Points have `times`, trajectories `ids`; or they are counted from 1.
        """
        many = np.diff(offsets)
        if times is None:
            times = np.arange(1, len(cells) + 1) - np.repeat(offsets[:-1], many)
        if ids is None:
            ids = np.arange(1, len(many) + 1)
        own = {self.trajectory: np.repeat(ids, many), self.order: times}
        return {**own, **self.domain.decode(cells, rng)}
