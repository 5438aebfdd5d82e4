"""Units of a panel, followed from step to step.

**Privacy.**

1. One unit can add, remove or change its own rows, at any steps.
2. Its value, window or weight is made of its own rows alone (`recall.py` says how).
3. It is counted at most once a step: in one window, or in one weight that it reaches.
4. The memory is private: it is never released.

The memory after each step lies on disk as in `levels.py`, 28 bytes a unit. A step reads those who
report, slice by slice of their hashes, and writes those whose reports are news: a unit that reports
what its policy takes it to report anyway is as good as silent. Silent units change and are counted
all the same, by their states alone (`panel_kernel.py`): there are as many states as windows, or
weights, at most. Under `Missing.Drop` nobody silent is remembered, and everybody else is written.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting import arrow
from tailrace.counting.memory.batch import Batch, Rows, slice_bits
from tailrace.counting.memory.levels import Change, Levels, made_with
from tailrace.counting.memory.recall import LastValues, Missing, Recall
from tailrace.counting.memory.segment import failing
from tailrace.counting.plan import Plan, ReadRows, opened
from tailrace.errors import DataError

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
                f"step at a time. Cut it with tailrace.panel.from_long(frame, id='{plan.key}', "
                f"step='{name}', value=...), or push the rows of one step, with the columns "
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

    It goes to the folder `new`.

    `old` is the memory after the step before, or None at the first. `point` is called before each
    durable write, with its name.
    """
    from tailrace.counting.memory import levels_kernel
    from tailrace.counting.memory import panel_kernel as kernel

    rule, numbers = _rule(recall), _numbers(recall)
    drops = recall.missing is Missing.Drop
    tally, after = np.zeros(recall.size, np.int64), np.zeros(len(numbers), np.int64)
    made = made_with(recall.name, key)
    with failing(new), ExitStack() as stack:
        levels = stack.enter_context(closing(Levels(old, made)))
        change = stack.enter_context(closing(Change(levels, new, made, point=point)))
        batch = stack.enter_context(closing(Batch(new.parent)))
        batch.read(rows, key, known=None if levels.hashing > 1 else levels.known)
        states, bits = _states(levels, rule, len(numbers)), slice_bits(batch.kept)
        live = 0
        for s in range(1 << bits):
            now = batch.slice(s, bits)
            high, low, code, count = levels.find(*levels_kernel.touched(*now[:2], *now[:2]))
            news = kernel.follow(
                (high, low, code),
                count,
                now,
                rule,
                recall.first,
                levels.step + 1,
                tally,
                states,
                after,
            )
            change.append(news)
            live += len(news[0])
        if drops:
            change.finish(live, drops=True)
        else:
            kernel.pass_silently(states, numbers, rule, tally, after)
            some = np.flatnonzero(after)
            change.finish(int(after.sum()), np.stack([some, after[some]]))
    return tally


def _rule(recall: Recall) -> Any:
    from tailrace.counting.memory import panel_kernel as kernel

    missing = {
        Missing.Carry: kernel.CARRY,
        # Absence is a value like the one that stands for missing ones.
        Missing.Absent: kernel.CATEGORY,
        Missing.Category: kernel.CATEGORY,
        Missing.Drop: kernel.DROP,
    }[recall.missing]
    if isinstance(recall, LastValues):
        return kernel.Rule(False, recall.window, recall.values, 0, missing)
    return kernel.Rule(True, 1, 2, recall.value, missing)


def _numbers(recall: Recall) -> np.ndarray:
    """The code and the count of each state, in their order."""
    if recall.missing is Missing.Drop:
        return np.empty((0, 2), np.int64)
    if not isinstance(recall, LastValues):
        codes = np.arange(2 * recall.horizon + 2)
        return np.stack([codes, np.ones_like(codes)], axis=1)
    sizes = [recall.values**count for count in range(recall.kept + 1)]
    counts = np.repeat(np.arange(len(sizes)), sizes)
    return np.stack([np.concatenate([np.arange(size) for size in sizes]), counts], axis=1)


def _states(levels: Levels, rule: Any, many: int) -> np.ndarray:
    """How many units have each state before the step."""
    from tailrace.counting.memory import panel_kernel as kernel

    states = np.zeros(many, np.int64)
    if levels.in_columns and many:
        # It was kept of every unit, as of the last step.
        bits = slice_bits(levels.rows)
        for s in range(1 << bits):
            for segment in levels.segments:
                _, _, code, count = segment.slice(s, bits)
                kernel.counted(code, count, rule, states)
    states[levels.states[0]] = levels.states[1]
    return states
