"""Parts of a step, read in several calls and counted together.

A part is a frozen dataclass of arrays:

- the counts of rows (`Counts`) where units need not be told apart: counts add up;
- the hashed unit and the cell of each row (`UnitRows`) where they must: which rows of a unit are
  accepted is a function of all its rows of the step, so it is decided once they are together;
- what a plan of everything at once keeps of each row (`OncePlan.part`).

So the parts of a step make the same counts however its rows were split, and in any order.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.counting import arrow, executors
from tailrace.counting.arrow import readable
from tailrace.counting.files import Files
from tailrace.counting.journeys.reading import JourneyRows
from tailrace.counting.journeys.spread import gathered
from tailrace.counting.memory.bounding import Rule
from tailrace.counting.memory.buckets import as_units
from tailrace.counting.memory.hashing import hash_units, recognised
from tailrace.counting.memory.panel import one_step
from tailrace.counting.memory.spread import rows_of, written
from tailrace.counting.plan import Plan, ReadRows, opened, packed_texts, read_texts
from tailrace.domain.growing import Labels
from tailrace.errors import ConfigError
from tailrace.privacy.unit import Unit, User, Window

Known = Callable[[np.ndarray], np.ndarray]
# Rows of units in one part: 12 MB of them.
_PIECE = 1 << 19


@dataclass(frozen=True, eq=False)
class Hashed:
    """Rows by the keyed hash of their unit, and their cell."""

    hi: np.ndarray  # (rows,) uint64
    lo: np.ndarray  # (rows,) uint64
    cell: np.ndarray  # (rows,) int64

    @property
    def units(self) -> np.ndarray:
        """The hashes as `hash_units` gives them."""
        return as_units(self.hi, self.lo)


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Rows of units, inserted and deleted.

    Those of a Spark frame lie in files, which a text tells of.
    """

    adds: Hashed
    deletes: Hashed
    # In UTF-8: of files with insertions, and with deletions; none where there are none.
    files: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint8))
    gone: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint8))
    # The numbers of rows with an unknown text, their cells, and the texts in JSON.
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    cells: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    texts: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint8))

    @classmethod
    def labelled(cls, labels: Labels) -> UnitRows:
        """No rows, and what the numbers of others stand for."""
        cells = np.array([cell for cell, _ in labels.values()], np.int64)
        texts = packed_texts([text for _, text in labels.values()])
        numbers = np.array(list(labels), np.int64)
        return cls(_NONE, _NONE, numbers=numbers, cells=cells, texts=texts)

    @property
    def labels(self) -> Labels:
        """What the numbers of rows stand for."""
        pairs = zip(self.cells.tolist(), read_texts(self.texts), strict=True)
        return dict(zip(self.numbers.tolist(), pairs, strict=True))

    def told(self) -> list[Files | None]:
        """What is said of files with insertions, and with deletions."""
        return [
            Files.read(text.tobytes().decode()) if len(text) else None
            for text in (self.files, self.gone)
        ]


_NONE = Hashed(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64))


def bounded(plan: Any, unit: Unit) -> bool:
    """Whether the rows of each unit are told apart."""
    several = isinstance(unit, User | Window)
    return several and (isinstance(plan, Plan) or unit.events is not None)


def read_parts(
    plan: Plan | Any,
    unit: Unit,
    frame: Any,
    deletes: Any,
    *,
    key: bytes,
    known: Known | None,
    folder: Path | None = None,
) -> Iterator[Any]:
    """Read rows inserted and deleted into parts of a step.

    `known` are the units of an earlier version's memory. Rows of people in a Spark frame are left
    to executors, which write them to `folder`.
    """
    frame, deletes = readable(frame), readable(deletes)
    if not isinstance(plan, Plan):
        if not hasattr(plan, "part"):
            raise ConfigError(
                "This mechanism takes all its rows in one call: give them to push, in one frame."
            )
        there = None if folder is None else _there(frame)
        if there is None or not hasattr(plan, "written"):
            yield plan.part(frame, key)
        else:
            assert folder is not None
            yield plan.written(there, key=key, below=folder.resolve())
    elif bounded(plan, unit):
        if plan.memory is not None:
            one_step(plan, frame)
        for some, gone in ((frame, False), (deletes, True)):
            there = None if known is not None or folder is None else _there(some)
            if there is not None:
                plan.refuse_spark(there)
                assert isinstance(unit, User | Window) and folder is not None
                rule = Rule.of(plan, unit, gone=gone)
                text = str(written(plan, rule, there, key=key, below=folder.resolve())).encode()
                told = np.frombuffer(text, np.uint8)
                yield UnitRows(_NONE, _NONE, **{"gone" if gone else "files": told})
            elif some is not None or not gone:
                labels: Labels = {}
                for rows in _hashed(plan, some, key, known, labels):
                    yield UnitRows(_NONE, rows) if gone else UnitRows(rows, _NONE)
                if labels:
                    yield UnitRows.labelled(labels)
    else:
        yield plan.counts(frame, deletes)


def _there(frame: Any) -> nw.LazyFrame[Any] | None:
    """The rows of a frame that lies in Spark."""
    rows = None if frame is None or arrow.is_stream(frame) else opened(frame)
    return rows if isinstance(rows, nw.LazyFrame) and executors.on_spark(rows) else None


def on_executors(plan: Any, unit: Unit, *frames: Any) -> bool:
    """Whether rows of people, or journeys, lie in Spark and are counted from files."""
    there = bounded(plan, unit) if isinstance(plan, Plan) else hasattr(plan, "written")
    return there and any(_there(frame) is not None for frame in frames)


def files_of(parts: Iterable[Any]) -> set[str]:
    """The folders with files of some parts."""
    kept = (part for part in parts if isinstance(part, UnitRows | JourneyRows))
    told = (one for part in kept for one in part.told())
    return {one.folder for one in told if one is not None}


def _hashed(
    plan: Plan, frame: Any, key: bytes, known: Known | None, labels: Labels
) -> Iterator[Hashed]:
    """The rows of a frame that have a unit and a cell."""
    for ids, cells in plan.rows(frame, key, labels):
        # Also for no rows: a wrong type is refused whatever the content.
        for at in range(0, max(1, len(cells)), _PIECE):
            few, cell = ids[at : at + _PIECE], cells[at : at + _PIECE]
            units = hash_units(few, key) if known is None else recognised(few, key, known)
            there = (cell >= 0) & ((units["hi"] != 0) | (units["lo"] != 0))
            yield Hashed(units["hi"][there], units["lo"][there], cell[there])


def like(plan: Plan | Any, unit: Unit) -> Any:
    """A part without rows, of the types that all have."""
    if not isinstance(plan, Plan):
        return plan.part(None, bytes(16))
    return UnitRows(_NONE, _NONE) if bounded(plan, unit) else plan.none


def together(
    plan: Plan | Any, unit: Unit, parts: Callable[[], Iterable[Any]], folder: Path
) -> tuple[Any, Any]:
    """The parts of a step as one frame inserted and one deleted, for `count`.

    `parts` gives all of them, each time from the first; files lie in `folder`.
    """
    if not isinstance(plan, Plan):
        rows: Any = tuple(parts())
        if any(len(getattr(one, "files", ())) for one in rows):
            return gathered(rows, folder), None
        return rows if bounded(plan, unit) else plan.read(rows), None
    if bounded(plan, unit):
        return _rows(parts, "adds", 0, folder), _rows(parts, "deletes", 1, folder)
    return functools.reduce(operator.add, parts()), None


def _rows(parts: Callable[[], Iterable[UnitRows]], name: str, place: int, folder: Path) -> ReadRows:
    """The rows of one side: of parts, and of their files."""
    files = tuple(told for part in parts() if (told := part.told()[place]) is not None)

    def here() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for part in parts():
            side = getattr(part, name)
            yield side.units, side.cell

    def everything() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield from here()
        for one in files:
            for hi, lo, cell in rows_of(one, folder):
                yield as_units(hi, lo), cell

    labels = {number: one for part in parts() for number, one in part.labels.items()}
    return ReadRows(everything, files, here, labels)
