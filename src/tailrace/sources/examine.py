"""Count exactly what a batch would come to.

For the curator's eyes only: no noise, no charge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from tailrace.calendar import Calendar
from tailrace.calls import told
from tailrace.domain import Box, Categorical, Schema, attributes_of
from tailrace.domain.cells import nameless
from tailrace.errors import DataError
from tailrace.sources.reading import Reader, Rows

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Column:
    """How many cells of a column are missing, cannot be read, or lie outside the domain.

    The columns of a region or of roads lie inside or outside together: see `Examination.outside`.
    """

    name: str
    missing: int
    unreadable: int
    outside: int | None


@told
@dataclass(frozen=True)
class Examination:
    """PRIVATE: exact numbers of a batch."""

    rows: int
    columns: tuple[Column, ...]
    outside: int  # rows that lie outside the domain and are dropped for it
    garbled: int  # rows with letters that are not UTF-8
    untimed: int  # rows whose time is missing or cannot be read
    unordered: int  # points without the id of a journey, or without an order that can be read
    unnamed: int  # rows without the id of a person: they count as those of one
    early: int  # rows before the calendar's start
    unknown_op: int  # rows that say neither insert nor delete
    deletes: int
    duplicates: int  # rows that do not count for another one of their id
    counted: int  # rows that would be counted
    steps: tuple[int, int] | None  # the first and last step of the rows, by the calendar

    @property
    def dropped(self) -> int:
        return self.rows - self.counted


@told
def examine(reader: Reader, calendar: Calendar | None, frame: pl.DataFrame) -> Examination:
    """Read a frame as a run would, and count what becomes of it."""
    if not hasattr(frame, "get_columns"):
        raise DataError("frame must be a Polars DataFrame of the source's columns.")
    read = reader.read(frame)
    cells = reader.domain.cells(nw.from_native(read.frame, eager_only=True))
    points = [name for name in (reader.trajectory, reader.order) if name is not None]
    ordered = ~np.any([_absent(read.frame[name]) for name in points], axis=0)
    used = (cells >= 0) & read.readable & ordered
    own = None
    if calendar is not None and read.times is not None:
        own = calendar.steps(read.times)
        used &= own >= 1
    duplicates = _duplicates(reader, read, own) & used
    used &= ~duplicates
    absent = np.any([_absent(read.frame[name]) for name in reader.domain.columns], axis=0)
    timed = np.zeros(0, np.int64) if own is None else own[own >= 1]
    return Examination(
        rows=len(frame),
        columns=tuple(_column(reader, frame, read.frame, name) for name in reader.domain.columns),
        outside=int(((cells < 0) & ~absent).sum()),
        garbled=_garbled(frame[reader.columns]),
        untimed=0 if own is None else int((own < 0).sum()),
        unordered=int((~ordered).sum()),
        unnamed=0 if reader.key is None else int(read.frame[reader.key].null_count()),
        early=0 if own is None else int((own == 0).sum()),
        unknown_op=int((~read.readable).sum()),
        deletes=int((read.deletes & used).sum()),
        duplicates=int(duplicates.sum()),
        counted=int(used.sum()),
        steps=(int(timed.min()), int(timed.max())) if len(timed) else None,
    )


@told
@dataclass(frozen=True)
class Presence:
    """PRIVATE: which steps had rows, and which declared values came when.

    steps: the steps that had rows.
    values: by column and value, the steps at which it came.
    """

    steps: frozenset[int]
    values: dict[tuple[str, str], frozenset[int]]

    def gaps(self, until: int | None = None) -> list[int]:
        """The steps without rows, from the first that had some to the last, or to `until`."""
        if not self.steps:
            return []
        last = max({*self.steps, until or 0})
        return [step for step in range(min(self.steps), last + 1) if step not in self.steps]

    def silent(self, patience: int = 3) -> list[tuple[str, str, int | None]]:
        """Values that never came (None), or stopped: column, value, step of the last.

        A value stopped if it came at half of the steps until then, and at none of the last
        `patience` steps that had rows.
        """
        found: list[tuple[str, str, int | None]] = []
        ordered = sorted(self.steps)
        for (column, value), came in self.values.items():
            last = max(came, default=None)
            if last is None:
                found.append((column, value, None))
                continue
            until = sum(step <= last for step in ordered)
            if len(ordered) - until >= patience and 2 * len(came) >= until:
                found.append((column, value, last))
        return found


@told
def presence(reader: Reader, calendar: Calendar | None, frames: Iterable[pl.DataFrame]) -> Presence:
    """Find which steps and declared values came; without a calendar each frame is a step."""
    domain, steps = reader.domain, set()
    attributes = attributes_of(domain).items()
    listed = {name: one for name, one in attributes if isinstance(one, Categorical)}
    values: dict[tuple[str, str], set[int]] = {
        (name, str(value)): set() for name, one in listed.items() for value in one.values
    }
    for number, frame in enumerate(frames, 1):
        read = reader.read(frame)
        own = np.full(len(frame), number)
        if calendar is not None and read.times is not None:
            own = calendar.steps(read.times)
        own = np.where(read.readable, own, 0)
        steps |= set(np.unique(own[own >= 1]).tolist())
        for name, one in listed.items():
            codes = _codes(reader, read.frame, name)
            assert codes is not None
            for code, value in enumerate(one.values):
                at = own[(codes == code) & (own >= 1)]
                values[name, str(value)] |= set(np.unique(at).tolist())
    return Presence(frozenset(steps), {key: frozenset(came) for key, came in values.items()})


def _duplicates(reader: Reader, read: Rows, own: np.ndarray | None) -> np.ndarray:
    """Rows that do not count for another one of their id, in their step."""
    import polars as pl

    chosen = read.readable if own is None else read.readable & (own >= 1)
    steps = np.zeros(len(read.frame), np.int64) if own is None else own
    within = (pl.Series(steps[chosen]), pl.Series(read.deletes[chosen]))
    found = np.zeros(len(read.frame), bool)
    found[chosen] = ~reader.once(read.frame.filter(chosen), *within)
    return found


def _column(reader: Reader, raw: pl.DataFrame, read: pl.DataFrame, name: str) -> Column:
    missing = _absent(raw[name])
    absent = _absent(read[name])
    codes = _codes(reader, read, name)
    return Column(
        name,
        missing=int(missing.sum()),
        unreadable=int((absent & ~missing).sum()),
        outside=None if codes is None else int(((codes < 0) & ~absent).sum()),
    )


def _codes(reader: Reader, read: pl.DataFrame, name: str) -> np.ndarray | None:
    """The codes of one column on its own, -1 outside; None for domains whose columns only mean
    something together.
    """
    domain, known = reader.domain, attributes_of(reader.domain)
    cells = nw.from_native(read[[name]], eager_only=True)
    if name not in known:
        domain = getattr(domain, "ground", domain)
        if not isinstance(domain, Box):
            return None
        place = domain.columns.index(name)
        low, high = ([bounds[place]] for bounds in (domain.low, domain.high))
        return Box(low=low, high=high, columns=[name], cells=domain.side).cells(cells)
    attribute = known[name]
    if isinstance(attribute, Categorical):
        attribute = replace(attribute, growing=False)
    attribute = replace(attribute, outside="drop")
    return Schema(**{name: attribute}).cells(cells)


def _garbled(frame: pl.DataFrame) -> int:
    """How many rows hold the sign that stands for bytes that are no letters."""
    import polars as pl

    signs = frame.select(
        pl.any_horizontal(pl.lit(False), pl.col(pl.String).str.contains("\ufffd", literal=True))
    )
    return int(signs.to_series().sum() or 0)


def _absent(values: pl.Series) -> np.ndarray:
    values = nameless(values)
    absent = values.is_null()
    return (
        absent | values.is_nan().fill_null(value=False) if values.dtype.is_float() else absent
    ).to_numpy()
