"""What is counted of trajectories: first where their points lie, then how they go, on the cells
that were drawn from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import narwhals as nw
import numpy as np

from tailrace.counting.journeys.masses import Masses
from tailrace.counting.journeys.moves import Routes, routes, visits
from tailrace.counting.journeys.reading import Journeys, Reading
from tailrace.domain.columns import Frame
from tailrace.domain.geometry.partition import partition_of
from tailrace.errors import ConfigError
from tailrace.mechanisms.trajectories.clock import DayClock
from tailrace.mechanisms.trajectories.layout import Layout


@dataclass(frozen=True, eq=False)
class Tally:
    """The counts of one round, a part of the mechanism after another."""

    parts: tuple[Masses, ...]

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        return Tally(tuple(one + two for one, two in zip(self.parts, other.parts, strict=True)))


class Counted(Protocol):
    """A part that counts something of the second round."""

    def count(self, journeys: Journeys, routes: Routes, layout: Layout) -> Masses: ...


@dataclass(frozen=True)
class JourneyPlan:
    """Round one: the parts of points at the finest places. Round two, on a `layout`: what each of
    the `parts` counts.
    """

    reading: Reading
    layout: Layout | None = None
    parts: Sequence[Counted] = ()

    @property
    def key(self) -> str:
        """Rows of the same one are counted together."""
        return self.reading.user or self.reading.trajectory

    @property
    def memory(self) -> None:
        """Nothing is remembered: all there is comes at once."""

    def read(self, frame: Any) -> Journeys:
        return self.reading.journeys(frame)

    def counts(self, batch: Any, deletes: None = None) -> Tally:
        if deletes is not None:
            raise ConfigError("Trajectories are released once: there is nothing to delete.")
        journeys = batch if isinstance(batch, Journeys) else self.read(batch)
        domain: Any = self.reading.domain
        if self.layout is None:
            return Tally((visits(journeys, partition_of(domain).places, domain.size),))
        on_graph = routes(journeys, self.layout.homes, domain.side, self.layout.graph)
        return Tally(tuple(part.count(journeys, on_graph, self.layout) for part in self.parts))


@dataclass(frozen=True)
class Points:
    """The rows of a table of synthetic trajectories: whose point, which in its order, and where;
    real ids are never seen here.
    """

    domain: Any
    trajectory: str
    order: str
    clock: DayClock | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.trajectory, self.order, *self.domain.columns)

    @property
    def size(self) -> int:
        return self.domain.size

    @property
    def types(self) -> dict[str, nw.dtypes.DType]:
        order = nw.Int64() if self.clock is None else self.clock.dtype
        return {self.trajectory: nw.Int64(), self.order: order, **self.domain.types}

    def check(self, frame: Frame) -> None:
        self.domain.check(frame)

    def cell(self, frame: Frame) -> nw.Expr:
        return self.domain.cell(frame)

    def cells(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        return self.domain.cells(frame)

    def settle(self, cells: np.ndarray) -> np.ndarray:
        return self.domain.settle(cells)

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
    ) -> dict[str, np.ndarray]:
        """Trajectories one after another, counted from 1, and so are their points, or with times; a
        point lies anywhere in its cell.
        """
        many = np.diff(offsets)
        place = (
            np.arange(1, len(cells) + 1) - np.repeat(offsets[:-1], many) if times is None else times
        )
        own = {self.trajectory: np.repeat(np.arange(1, len(many) + 1), many), self.order: place}
        return {**own, **self.domain.decode(cells, rng)}
