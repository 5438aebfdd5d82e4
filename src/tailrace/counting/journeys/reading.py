"""Read trajectories out of a frame of any engine.

An engine gives back four columns at most (trajectory, order, cell of the domain, person). What a
row holds never raises: a row without an id, an order or a place inside the domain is left out; of
rows with the same order the lower cell comes first, so that the order of rows in a frame means
nothing. A trajectory of one point starts and ends there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.counting.files import Files
from tailrace.counting.memory.hashing import hash_units
from tailrace.counting.plan import frames, ids_of, unit_of, with_cells
from tailrace.domain import Codes, Frame
from tailrace.domain.cells import column, named
from tailrace.domain.columns import kinds, unreadable
from tailrace.domain.times import orders
from tailrace.errors import DataError

# Ids of one frame are only told apart: nothing is kept, so nothing need be hidden.
_KEY = bytes(16)


@dataclass(frozen=True, eq=False)
class Journeys:
    """Trajectories one after another, as cells in their order.

    The i-th has the cells from offsets[i] up to offsets[i + 1].
    """

    cells: np.ndarray  # (points,) of the domain
    ends: np.ndarray  # (trajectories,) where each one's points end
    among: np.ndarray  # (trajectories,) the number of its unit's trajectories, which share it
    span: np.ndarray  # (2, trajectories) the orders of the first and of the last point

    @classmethod
    def none(cls) -> Journeys:
        none = np.zeros(0, np.int64)
        return cls(none, none, none, np.zeros((2, 0)))

    @property
    def offsets(self) -> np.ndarray:
        """(trajectories + 1,)"""
        return np.append(0, self.ends)

    @property
    def first(self) -> np.ndarray:
        """(trajectories,) the cell in which each begins."""
        return self.cells[self.offsets[:-1]]

    @property
    def last(self) -> np.ndarray:
        """(trajectories,) the cell in which each ends."""
        return self.cells[self.ends - 1]

    def __len__(self) -> int:
        return len(self.among)


@dataclass(frozen=True, eq=False)
class JourneyRows:
    """Rows of trajectories: ids under keyed hashes, order and cell (-1: outside).

    Those of a Spark frame lie in files, which a text tells of.
    """

    trajectory: np.ndarray  # (rows, 2) uint64
    order: np.ndarray  # (rows,), not a number where it cannot be read
    cell: np.ndarray  # (rows,)
    user: np.ndarray  # (rows, 2) uint64; no rows where nobody is told apart
    # In UTF-8; none where all rows are here.
    files: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint8))

    @classmethod
    def none(cls, text: str = "") -> JourneyRows:
        """No rows here, and what is told of files."""
        nobody = np.empty((0, 2), np.uint64)
        files = np.frombuffer(text.encode(), np.uint8)
        return cls(nobody, np.empty(0), np.empty(0, np.int64), nobody, files)

    @property
    def known(self) -> np.ndarray:
        """(rows,) whether a row is somebody's, has an order, and lies inside."""
        someone = self.trajectory.any(axis=1)
        someone &= self.user.any(axis=1) if len(self.user) else True
        return someone & (self.cell >= 0) & ~np.isnan(self.order)

    def at(self, rows: np.ndarray) -> JourneyRows:
        """Some of the rows."""
        user = self.user[rows] if len(self.user) else self.user
        return JourneyRows(self.trajectory[rows], self.order[rows], self.cell[rows], user)

    def told(self) -> list[Files | None]:
        """What is said of files."""
        return [Files.read(self.files.tobytes().decode()) if len(self.files) else None]


@dataclass(frozen=True)
class Reading:
    """The columns that make trajectories.

    With a `user`, rows of two people never make one trajectory.

    >>> import polars as pl
    >>> from tailrace.domain import Box
    >>> square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=2)
    >>> places = {"x": [0.9, 0.1, 0.1], "y": [0.9, 0.9, 0.1]}
    >>> rows = pl.DataFrame({"trip": [7, 8, 7], "at": [2, 1, 1], **places})
    >>> Reading(square, trajectory="trip", order="at").journeys(rows).cells
    array([0, 3, 1])
    """

    domain: Codes
    trajectory: str
    order: str
    user: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        own = () if self.user is None else (self.user,)
        return tuple(dict.fromkeys((*own, self.trajectory, self.order, *self.domain.columns)))

    def rows(self, frame: Any, key: bytes = _KEY) -> JourneyRows:
        """The rows of a frame, or of None."""
        parts = [part for rows in frames(frame) for part in self._rows(rows, key)]
        return joined(parts) if parts else JourneyRows.none()

    def check(self, rows: Frame) -> None:
        """Refuse columns that cannot be read."""
        self.domain.check(rows)
        _check_order(rows, self.order)

    def _rows(self, rows: Frame, key: bytes) -> Iterator[JourneyRows]:
        self.check(rows)
        wanted = [unit_of(rows, self.trajectory).alias("trajectory")]
        wanted += [named(rows, self.order).alias("order")]
        wanted += [] if self.user is None else [unit_of(rows, self.user).alias("user")]
        for found, cells in with_cells(rows, self.domain, wanted):
            order = orders(column(found.get_column("order")), timezone="UTC")
            trajectories = _hashed(found, "trajectory", key)
            people = trajectories[:0] if self.user is None else _hashed(found, "user", key)
            yield JourneyRows(trajectories, order, cells, people)

    def journeys(self, frame: Any) -> Journeys:
        """The trajectories of a frame, of None, or of a tuple of rows."""
        from tailrace.counting.journeys import kernel

        found = joined(frame) if isinstance(frame, tuple) else self.rows(frame)
        order, cells = found.order, found.cell
        known = (cells >= 0) & ~np.isnan(order)
        numbers, many = _numbered(found.trajectory, known)
        among = np.ones(many, np.int64)
        if self.user is not None:
            who, _ = _numbered(found.user, known & (numbers >= 0))
            both = (np.where(who >= 0, one + 1, 0).astype(np.uint64) for one in (who, numbers))
            numbers, many = kernel.numbered(*both)
            owner = np.zeros(many, np.int64)
            owner[numbers[numbers >= 0]] = who[numbers >= 0]
            among = np.bincount(owner)[owner] if many else owner
        offsets, row, in_order = kernel.grouped(numbers, many, order, cells)
        if not in_order:
            # Rows of nobody come first.
            row = np.lexsort((cells, order, numbers))[len(numbers) - len(row) :]
        span = np.stack([order[row[offsets[:-1]]], order[row[offsets[1:] - 1]]])
        return Journeys(cells[row], offsets[1:], among, span)


def joined(parts: Sequence[JourneyRows]) -> JourneyRows:
    """The rows of several parts, one after another."""
    if len(parts) == 1:
        return parts[0]
    columns = ("trajectory", "order", "cell", "user")
    return JourneyRows(*(np.concatenate([getattr(p, name) for p in parts]) for name in columns))


def _numbered(units: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, int]:
    """Number the different units of known rows; -1 for nobody."""
    from tailrace.counting.journeys import kernel

    return kernel.numbered(*np.where(known, units.T, np.uint64(0)))


def _hashed(found: nw.DataFrame[Any], name: str, key: bytes) -> np.ndarray:
    units = hash_units(ids_of(found.get_column(name)), key)
    return np.ascontiguousarray(units).view(np.uint64).reshape(-1, 2)


def _check_order(rows: Frame, name: str) -> None:
    if kinds(rows, [name])[name] in unreadable(rows):
        raise DataError(
            f"Column '{name}' must hold numbers or times, which say in which order the points come."
        )
