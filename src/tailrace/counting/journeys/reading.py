"""Journeys out of a frame of any engine: rows with an id, an order and a place, put together and in
order.

An engine gives back four columns at most (trajectory, order, cell of the domain, person); the rest
is done here. What a row holds never raises: a row without an id, an order or a place inside the
domain is left out; of rows with the same order the lower cell comes first, so that the order of
rows in a frame means nothing. A trajectory of one point starts and ends there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.counting.memory.hashing import hash_units
from tailrace.counting.plan import fetched, ids_of, opened, unit_of
from tailrace.domain import Codes, Frame
from tailrace.domain.cells import column
from tailrace.domain.columns import kinds, unreadable
from tailrace.domain.times import orders
from tailrace.errors import DataError

_KEY = bytes(16)  # ids are only told apart here: nothing is kept, so nothing need be hidden


@dataclass(frozen=True, eq=False)
class Journeys:
    """Trajectories one after another: the i-th has the cells from offsets[i] up to offsets[i + 1],
    in its order.
    """

    cells: np.ndarray  # (points,) of the domain
    ends: np.ndarray  # (trajectories,) where each one's points end
    among: (
        np.ndarray
    )  # (trajectories,) how many of its unit's trajectories there are: each counts for its part
    span: np.ndarray  # (2, trajectories) the orders of the first and of the last point

    @classmethod
    def none(cls) -> Journeys:
        return cls(
            np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((2, 0))
        )

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


@dataclass(frozen=True)
class Reading:
    """Which columns make journeys; with a `user`, rows of two people never make one trajectory.

    >>> import polars as pl
    >>> from tailrace.domain import Box
    >>> square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=2)
    >>> rows = pl.DataFrame({"trip": [7, 8, 7], "at": [2, 1, 1], "x": [0.9, 0.1, 0.1], "y": [0.9, 0.9, 0.1]})
    >>> Reading(square, trajectory="trip", order="at").journeys(rows).cells
    array([0, 3, 1])
    """

    domain: Codes
    trajectory: str
    order: str
    user: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All that is looked at."""
        own = (
            (self.trajectory, self.order)
            if self.user is None
            else (self.user, self.trajectory, self.order)
        )
        return tuple(dict.fromkeys((*own, *self.domain.columns)))

    def journeys(self, frame: Any) -> Journeys:
        """The journeys of a frame, or of None."""
        from tailrace.counting.journeys import reading_kernel as kernel

        rows = opened(frame)
        if rows is None:
            return Journeys.none()
        self.domain.check(rows)
        _check_order(rows, self.order)
        trajectories, order, cells, people = self._fetched(rows)
        known = (cells >= 0) & ~np.isnan(order)
        numbers, many = _numbered(trajectories, known)
        among = np.ones(many, np.int64)
        if people is not None:
            who, _ = _numbered(people, known & (numbers >= 0))
            both = np.where(who >= 0, who + 1, 0).astype(np.uint64)
            numbers, many = kernel.numbered(
                both, np.where(who >= 0, numbers + 1, 0).astype(np.uint64)
            )
            owner = np.zeros(many, np.int64)
            owner[numbers[numbers >= 0]] = who[numbers >= 0]
            among = np.bincount(owner)[owner] if many else owner
        offsets, row = kernel.ordered(numbers, many, order, cells)
        span = np.stack([order[row[offsets[:-1]]], order[row[offsets[1:] - 1]]])
        return Journeys(cells[row], offsets[1:], among, span)

    def _fetched(self, rows: Frame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """Hashes of trajectories, the order, cells, hashes of people: one of each for every row,
        from one query.
        """
        wanted = [
            unit_of(rows, self.trajectory).alias("trajectory"),
            nw.col(self.order).alias("order"),
        ]
        wanted += [] if self.user is None else [unit_of(rows, self.user).alias("user")]
        if isinstance(rows, nw.LazyFrame):
            lazy = rows
            found = fetched(
                lazy,
                lambda: lazy.select(*wanted, self.domain.cell(lazy).fill_null(-1).alias("cell")),
            )
            cells = self.domain.settle(found.get_column("cell").to_numpy().astype(np.int64))
        else:
            found, cells = rows.select(*wanted), self.domain.cells(rows)
        people = None if self.user is None else _hashed(found, "user")
        order = orders(column(found.get_column("order")), timezone="UTC")
        return _hashed(found, "trajectory"), order, cells, people


def _numbered(units: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, int]:
    """A number for each different unit of the known rows, and how many there are; -1 for nobody."""
    from tailrace.counting.journeys import reading_kernel as kernel

    return kernel.numbered(np.where(known, units["hi"], 0), np.where(known, units["lo"], 0))


def _hashed(found: nw.DataFrame[Any], name: str) -> np.ndarray:
    return hash_units(ids_of(found.get_column(name)), _KEY)


def _check_order(rows: Frame, name: str) -> None:
    if kinds(rows, [name])[name] in unreadable(rows):
        raise DataError(
            f"Column '{name}' must hold numbers or times, which say in which order the points come."
        )
