"""Find the step of each row by the calendar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tailrace.calendar import Calendar
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Takes
from tailrace.sources.base import Batch
from tailrace.sources.reading import Reader, Rows
from tailrace.storage.codec import to_plain

if TYPE_CHECKING:
    import polars as pl

Late = Literal["next", "drop"]


def late_rows(calendar: Calendar | None, takes: Takes) -> Late:
    """What happens to rows of closed steps: what the calendar says, or what fits what the mechanism
    takes.

    An event that comes late is still an event; a late row of a panel or snapshot belongs to a table
    that was released.
    """
    if calendar is not None and calendar.late is not None:
        return calendar.late
    return "next" if takes is Takes.Events else "drop"


def steps_of(rows: Rows, calendar: Calendar, late: Late, opened: int | np.ndarray) -> np.ndarray:
    """The step that each row goes to, 0 for none: `opened` is the one that was open when it
    came.
    """
    if rows.times is None:
        raise ConfigError("A calendar cuts rows by a time column: name it with time= in [source].")
    own = calendar.steps(rows.times)
    steps = np.maximum(own, opened) if late == "next" else np.where(own < opened, 0, own)
    return np.where((own < 1) | ~rows.readable, 0, steps)


def plain_cut(reader: Reader, calendar: Calendar | None, **more: str | None) -> dict[str, Any]:
    """How a source cuts rows into steps, in plain values; what is left out is not kept."""
    found = {**more, **reader.cut, "calendar": None if calendar is None else to_plain(calendar)}
    return {name: value for name, value in found.items() if value is not None}


def joined(reader: Reader, parts: list[tuple[pl.DataFrame, np.ndarray]], *, deletes: bool) -> Batch:
    """One batch of frames and which of their rows are deletes; `deletes` says whether there can be
    any. Rows of one id count once.
    """
    import polars as pl

    if not parts:
        return Batch()
    adds = pl.concat([frame.filter(~gone) for frame, gone in parts])
    adds = adds.filter(reader.once(adds))
    if not deletes:
        return Batch(adds)
    gone = pl.concat([frame.filter(gone) for frame, gone in parts])
    return Batch(adds, gone.filter(reader.once(gone)))
