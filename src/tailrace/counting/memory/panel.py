"""Units of a panel, followed from step to step.

**Privacy.**

1. One unit can add, remove or change its own rows, at any steps.
2. Its value, window or weight is made of its own rows alone (`recall.py` says how).
3. It is counted at most once a step: in one window, or in one weight that it reaches.
4. The memory is private: it is never released.

The memory after each step is a segment as in `segment.py`, 28 bytes a unit, merged with the step's
rows slice by slice: working memory does not grow with the units, but for the ids and cells of the
step's own rows (16 bytes a row).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting import arrow
from tailrace.counting.memory.batch import Batch, Rows
from tailrace.counting.memory.recall import LastValues, Missing, Recall
from tailrace.counting.memory.segment import Reader, Writer, failing
from tailrace.counting.plan import Plan, ReadRows, opened
from tailrace.errors import ConfigError, DataError

# A slice holds some 2^19 rows.
_SLICE_BITS = 19
_TIMES = {
    "step",
    "time",
    "timestamp",
    "date",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "period",
    "wave",
    "round",
}


def one_step(plan: Plan, frame: Any) -> None:
    """Refuse a frame whose columns name several steps.

    No cell is read.
    """
    # Rows that were read before were looked at then.
    if isinstance(frame, ReadRows):
        return
    if arrow.is_stream(frame):
        frame = frame.schema.empty_table()
    rows = opened(frame)
    names = [] if rows is None else rows.collect_schema().names()
    used = {plan.key, *plan.codes.columns}
    for name in names:
        if name not in used and name.strip().lower() in _TIMES:
            raise DataError(
                f"The frame has a column '{name}', so it may be a whole panel; a panel takes one "
                "step at a time. Push the rows of one step, with the columns "
                f"{', '.join(map(repr, sorted(filter(None, used))))} alone."
            )


def follow(
    *,
    old: Path | None,
    new: Path,
    recall: Recall,
    key: bytes,
    rows: Rows,
    point: Callable[[str], None] = lambda name: None,  # noqa: ARG005
) -> np.ndarray:
    """Count the units at this step, and write their memory.

    It goes to the directory `new`.

    `old` is the segment after the step before, or None at the first. `point` is called before each
    durable write, with its name.
    """
    from tailrace.counting.memory import panel_kernel as kernel

    if old is not None and old.resolve() == new.resolve():
        raise ConfigError("A segment is never changed: give the new one a directory of its own.")
    windows = isinstance(recall, LastValues)
    window, values, counted = (recall.window, recall.values, 0) if windows else (1, 2, recall.value)
    missing = {
        Missing.Carry: kernel.CARRY,
        Missing.Category: kernel.CATEGORY,
        Missing.Drop: kernel.DROP,
    }
    tally = np.zeros(recall.size, np.int64)
    reader = Reader(old, bound=recall.name, key=key)
    with failing(new), ExitStack() as stack:
        batch = stack.enter_context(closing(Batch(rows, folder=new.parent)))
        bits = max(0, max(reader.rows, batch.given).bit_length() - _SLICE_BITS)
        batch.read(key, bits, known=reader.former)
        writer = Writer(new, bound=recall.name, key=key, point=point, format=reader.format)
        stack.enter_context(closing(writer))
        starts = reader.starts(bits)
        for s in range(1 << bits):
            high, low, code, count = reader.take(int(starts[s + 1] - starts[s]))
            options = not windows, window, values, counted, missing[recall.missing], recall.first
            writer.append(kernel.follow((high, low, code), count, batch.slice(s), *options, tally))
        writer.finish()
    return tally
