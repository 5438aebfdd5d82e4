"""Cut a whole panel into frames, one for each step.

A panel takes one step at a time. Which rows belong to a step depends on each row alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import narwhals as nw

from tailrace.calls import told
from tailrace.counting.plan import fetched, opened
from tailrace.domain import Frame
from tailrace.errors import DataError


@told
def from_long(
    frame: Any,
    *,
    id: str,  # noqa: A002
    step: str,
    value: str | Sequence[str],
    steps: Iterable[Any] | None = None,
) -> Iterator[Any]:
    """Cut a table of a row per person and step.

    Parameters
    frame: any engine's.
    id: the column of the person.
    step: the column of the step: a number, a text or a date.
    value: the column of what is reported, or several.
    steps: all steps, in their order, also those at which nobody reports; rows of others are left
        out. None: those that the table holds, sorted. Give them where they are not public
        knowledge: a single row could otherwise add a step.

    >>> import polars as pl
    >>> long = pl.DataFrame({"id": [1, 2, 1], "wave": [1, 1, 2], "poor": [0, 1, 1]})
    >>> [len(rows) for rows in from_long(long, id="id", step="wave", value="poor", steps=[1, 2, 3])]
    [2, 1, 0]
    """
    kept = [id, *([value] if isinstance(value, str) else value)]
    rows = _with_columns(frame, [*kept, step])
    if steps is None:
        found = rows.select(step).unique()
        held = fetched(found, lambda: found) if isinstance(found, nw.LazyFrame) else found
        there = [one for one in held.get_column(step).to_list() if one is not None and one == one]
        if len({isinstance(one, str) for one in there}) > 1:
            raise DataError(f"Column '{step}' holds texts and other values: give steps=[...].")
        steps = sorted(there)
    return (rows.filter(nw.col(step) == nw.lit(one)).select(kept).to_native() for one in steps)


@told
def from_wide(
    frame: Any,
    *,
    id: str,  # noqa: A002
    value: str,
    steps: Sequence[str] | None = None,
) -> Iterator[Any]:
    """Cut a table of a row per person, a column per step.

    Parameters
    frame: any engine's.
    id: the column of the person.
    value: the name that the domain has for what is reported.
    steps: the columns of the steps, in their order; None: all but the id.

    >>> import polars as pl
    >>> wide = pl.DataFrame({"id": [1, 2], "t1": [0, 1], "t2": [1, None]})
    >>> [rows.rows() for rows in from_wide(wide, id="id", value="poor")]
    [[(1, 0), (2, 1)], [(1, 1)]]
    """
    rows = _with_columns(frame, [id, *(steps or [])])
    names = [name for name in rows.collect_schema().names() if name != id]
    return (
        rows.filter(~nw.col(one).is_null()).select(id, nw.col(one).alias(value)).to_native()
        for one in (names if steps is None else steps)
    )


def _with_columns(frame: Any, columns: Sequence[str]) -> Frame:
    rows = opened(frame)
    there = [] if rows is None else rows.collect_schema().names()
    for name in columns:
        if name not in there:
            raise DataError(f"The table has no column '{name}': name one that it has.")
    assert rows is not None
    return rows
