"""Public facts about data, and stand-in data made to them.

Nothing here reads private data: stand-in data are drawn from a seed, to facts that somebody states,
or come from a file that is public itself.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import polars as pl

from tailrace.calls import told
from tailrace.domain import Schema
from tailrace.domain.geometry import Places
from tailrace.errors import ConfigError, DataError
from tailrace.mechanisms.base import Mechanism, Takes
from tailrace.planning.worlds import Described, Points, Types, World
from tailrace.privacy.loss import real, whole

# Rows added and deleted at one step.
Batch = tuple[pl.DataFrame, pl.DataFrame | None]
# Most rows, points and clusters: a plan is made in memory, in minutes.
_MOST = 10_000_000
# As it is from month to month, hour to hour and slice to slice in the places of sf_evictions,
# uber_nyc_2014 and gowalla_nyc: .20, .21 and .20.
_UNEVEN = 0.2


@told
@dataclass(frozen=True, kw_only=True)
class Facts:
    """Public facts about data, for stand-in data alike.

    Say what everybody knows, never what was read off the private data.

    Parameters
    rows: rows of a step, on average; of snapshots the people, of journeys the journeys.
    uneven: how much rows of a step differ from one to the next, as a share of them.
    growth: rows of the last step, as a multiple of the first's.
    matter: columns that hang together; the others are independent of each other.
    clusters: places, or types of rows, around which rows crowd; 0: they are spread evenly.
    crowd: of places, the share of the map in which half of the rows lie.
    moving: the share of clusters that a step replaces by others.
    changing: of snapshots, the share of people who are another type, or elsewhere, a step later.
    stays: steps after which a row is deleted; None: it stays.
    points: of journeys, the points of each.

    >>> Facts(rows=500, moving=0.01).clusters
    60
    """

    rows: int = 1000
    uneven: float = _UNEVEN
    growth: float = 1.0
    matter: int = 3
    clusters: int = 60
    crowd: float = 0.02
    moving: float = 0.0
    changing: float = 0.0
    stays: int | None = None
    points: int = 20

    def __post_init__(self) -> None:
        for name, least in (("rows", 1), ("matter", 0), ("clusters", 0), ("points", 2)):
            if whole(name, getattr(self, name), least=least) > _MOST:
                raise ConfigError(f"{name} must be at most {_MOST:,}: a plan is made in memory.")
        for name in ("uneven", "moving", "changing"):
            real(name, getattr(self, name), least=0, most=1)
        real("crowd", self.crowd, least=1e-6, most=1)
        real("growth", self.growth, least=1e-3, most=1e3)
        if self.stays is not None:
            whole("stays", self.stays)

    def words(self, mechanism: Mechanism) -> str:
        """The facts that a mechanism's stand-in data have, in a row."""
        journeys, takes = hasattr(mechanism, "trajectory"), mechanism.takes
        noun = "people" if takes is Takes.Snapshots else "journeys" if journeys else "rows"
        said = [f"{self.rows:,} {noun}{' a step' if takes is Takes.Events else ''}"]
        if journeys:
            said.append(f"{self.points} points each")
        columns = len(mechanism.domain.columns)
        if isinstance(mechanism.domain, Schema) and columns > 1:
            said.append(f"{min(self.matter, columns)} columns that hang together")
        if takes is Takes.Events and self.growth != 1:
            said.append(f"growing {self.growth:g} times")
        said.append(f"around {self.clusters} clusters" if self.clusters else "spread evenly")
        if self.clusters and not isinstance(mechanism.domain, Schema):
            said.append(f"half of them on {100 * self.crowd:g} % of the map")
        if takes is not Takes.Once:
            said.append(
                f"moving by {100 * self.moving:g} % a step" if self.moving else "not moving"
            )
        if self.stays is not None and mechanism.deletes:
            said.append(f"deleted after {self.stays} steps")
        return ", ".join(said)


class StandIn(Protocol):
    """Stand-in data: the batches of any number of steps."""

    def batches(
        self, mechanism: Mechanism, steps: int, rng: np.random.Generator
    ) -> Iterator[Batch]:
        """Rows of steps 1, 2, ..., the same from the same generator."""
        ...

    def words(self, mechanism: Mechanism) -> str:
        """Where the data come from, in a sentence."""
        ...


@dataclass(frozen=True)
class Generated:
    """Stand-in data drawn to facts."""

    facts: Facts

    def words(self, mechanism: Mechanism) -> str:
        return f"Stand-in data: {self.facts.words(mechanism)}."

    def batches(
        self, mechanism: Mechanism, steps: int, rng: np.random.Generator
    ) -> Iterator[Batch]:
        facts, domain = self.facts, mechanism.domain
        world: World = (
            Types(domain, facts.clusters, facts.matter, rng)
            if isinstance(domain, Schema)
            else Described(domain, facts.clusters, facts.crowd, rng)
            if isinstance(domain, Places)
            else Points(domain, facts.clusters, facts.crowd, rng)
        )
        changes = getattr(mechanism, "changes", False)
        if mechanism.takes is Takes.Snapshots or changes:
            frames = self._people(mechanism, world, steps, rng)
            yield from _changes(frames) if changes else ((one, None) for one in frames)
            return
        draw = self._journeys if hasattr(mechanism, "trajectory") else self._rows
        yield from _leaving(
            (
                draw(mechanism, world, rng, rows)
                for rows in itertools.pairwise([0, *np.cumsum(self._many(steps, rng)).tolist()])
            ),
            facts.stays,
            mechanism,
        )

    def _many(self, steps: int, rng: np.random.Generator) -> np.ndarray:
        """(steps,) rows of each step."""
        facts = self.facts
        if steps == 1:
            return np.array([facts.rows])
        course = np.linspace(1, facts.growth, steps) * 2 / (1 + facts.growth)
        # The mean of exp(wobble) would be a little above one.
        wobble = np.exp(rng.normal(0, facts.uneven, steps) - facts.uneven**2 / 2)
        return np.rint(facts.rows * course * wobble).astype(int)

    def _rows(
        self, mechanism: Mechanism, world: World, rng: np.random.Generator, rows: tuple[int, int]
    ) -> pl.DataFrame:
        numbers = np.arange(*rows)
        if rows[0]:
            world.move(self.facts.moving, self.facts.uneven, rng)
        return _with_ids(world.draw(len(numbers), rng), mechanism, numbers)

    def _journeys(
        self, mechanism: Mechanism, world: World, rng: np.random.Generator, rows: tuple[int, int]
    ) -> pl.DataFrame:
        assert isinstance(world, Points)
        if rows[0]:
            world.move(self.facts.moving, self.facts.uneven, rng)
        many, points = rows[1] - rows[0], self.facts.points
        number = np.repeat(np.arange(*rows), points)
        columns = world.journeys(many, points, rng)
        columns[str(getattr(mechanism, "trajectory", ""))] = number
        columns[str(getattr(mechanism, "order", ""))] = np.tile(np.arange(points), many)
        return _with_ids(columns, mechanism, number)

    def _people(
        self, mechanism: Mechanism, world: World, steps: int, rng: np.random.Generator
    ) -> Iterator[pl.DataFrame]:
        """Everybody at each step; some have moved since the one before."""
        # People do not come and go by a fifth of them: how many there are is even.
        there = replace(self, facts=replace(self.facts, uneven=0.0))._many(steps, rng)
        many = int(there.max())
        held = world.draw(many, rng)
        for step in range(steps):
            share = max(self.facts.moving, self.facts.changing)
            if step and share:
                world.move(self.facts.moving, self.facts.uneven, rng)
                moved = np.flatnonzero(rng.random(many) < share)
                fresh = world.draw(len(moved), rng)
                for name, values in held.items():
                    values[moved] = fresh[name]
            here = slice(int(there[step]))
            present = {name: values[here] for name, values in held.items()}
            yield _with_ids(present, mechanism, np.arange(there[step]))


@dataclass(frozen=True, eq=False)
class Like:
    """Stand-in data from a public file, in its order.

    A column `step` says which step a row is of; without it, rows are cut into equal steps. Of
    snapshots without it, every step holds all rows.
    """

    frame: pl.DataFrame
    stays: int | None

    def words(self, mechanism: Mechanism) -> str:  # noqa: ARG002
        rows = f"the {len(self.frame):,} rows of a public file"
        return f"Stand-in data: {rows}, which must not be the private data."

    def batches(
        self,
        mechanism: Mechanism,
        steps: int,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Iterator[Batch]:
        own = [getattr(mechanism, name, None) for name in ("trajectory", "order")]
        for column in [*mechanism.domain.columns, *filter(None, own)]:
            if column not in self.frame.columns:
                raise DataError(f"The public file has no column '{column}', which the stream has.")
        frame = _with_ids(self.frame, mechanism, np.arange(len(self.frame)))
        takes, whole_ = mechanism.takes, "step" not in frame.columns
        if takes is Takes.Once or (takes is Takes.Snapshots and whole_):
            yield from ((frame, None) for _ in range(steps))
            return
        parts = self._cut(frame, steps, getattr(mechanism, "trajectory", None))
        if takes is Takes.Snapshots:
            yield from ((one, None) for one in parts)
            return
        yield from _leaving(parts, self.stays, mechanism)

    @staticmethod
    def _cut(frame: pl.DataFrame, steps: int, journey: str | None) -> list[pl.DataFrame]:
        """The rows of each step."""
        if "step" in frame.columns:
            frame = frame.with_columns(pl.col("step").cast(pl.Int64, strict=False)).drop_nulls(
                "step"
            )
            step = frame["step"].to_numpy() - (frame["step"].min() or 0)
        else:
            turn = np.arange(len(frame)) if journey is None else frame[journey].rle_id().to_numpy()
            step = turn.astype(np.int64) * steps // (int(turn.max(initial=0)) + 1)
        order = np.argsort(step, kind="stable")
        ends = np.searchsorted(step[order], np.arange(steps + 1))
        sorted_ = frame[order]
        return [sorted_[int(a) : int(b)] for a, b in itertools.pairwise(ends)]


def _with_ids(
    columns: dict[str, np.ndarray] | pl.DataFrame, mechanism: Mechanism, ids: np.ndarray
) -> pl.DataFrame:
    """A frame, with ids of people where it has none."""
    frame = pl.DataFrame(columns)
    person = getattr(mechanism.unit, "column", None)
    if person is None or person in frame.columns:
        return frame
    return frame.with_columns(pl.Series(person, ids))


def _leaving(
    frames: Iterable[pl.DataFrame], stays: int | None, mechanism: Mechanism
) -> Iterator[Batch]:
    """Each step's rows with those deleted that came `stays` steps before."""
    if stays is None or not mechanism.deletes:
        yield from ((one, None) for one in frames)
        return
    held: deque[pl.DataFrame] = deque()
    for frame in frames:
        held.append(frame)
        yield frame, held.popleft() if len(held) > stays else None


def _changes(frames: Iterable[pl.DataFrame]) -> Iterator[Batch]:
    """Snapshots as rows added and deleted since the one before."""
    before: pl.DataFrame | None = None
    for frame in frames:
        yield frame, before
        before = frame


def facts_of(value: Any) -> Facts:
    """The facts given, or those that nobody contradicted."""
    if value is not None and not isinstance(value, Facts):
        raise ConfigError("facts must be Facts(...), for example Facts(rows=500).")
    return Facts() if value is None else value
