"""PRIVATE: the true rows of a stream, for the curator's page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from tailrace.domain import Schema
from tailrace.mechanisms.base import Mechanism, Takes
from tailrace.stream.log import History

Batch = tuple[pl.DataFrame | None, pl.DataFrame | None]


def true_history(batches: Iterable[Batch], mechanism: Mechanism) -> History:
    """Follow the true rows through steps 1, 2, ...

    A batch has the rows inserted and deleted; those that the domain does not count are left out. A
    deletion ends the oldest life of an equal row; of a row that was never inserted, none.

    >>> import tailrace as tr
    >>> ward = tr.Schema(sex=tr.Categorical(["f", "m"]))
    >>> parts = {"privacy": tr.PureDP(epsilon=1), "unit": tr.Event(), "horizon": 7}
    >>> row = pl.DataFrame({"sex": ["f"]})
    >>> found = true_history([(row, None), (None, row)], tr.HistogramStream(domain=ward, **parts))
    >>> found.born, found.gone
    (array([1]), array([2]))
    """
    pairs = [[_inside(one, mechanism) for one in batch] for batch in batches]
    rows, deletes = (_numbered([pair[side] for pair in pairs]) for side in (0, 1))
    born = rows["\0step"].to_numpy()
    if mechanism.takes is not Takes.Events:
        gone = born + 1
    else:
        gone = np.full(len(rows), len(pairs) + 1)
        kept = getattr(mechanism, "retention", None)
        if kept is not None:
            gone = np.minimum(gone, born + kept)
        _end(rows, deletes, gone)
    columns = {name: rows[name].to_numpy() for name in rows.columns if name != "\0step"}
    return History(columns, born, gone)


def frame_at(truth: History, step: int) -> pl.DataFrame:
    """The true rows at a step."""
    there = (truth.born <= step) & (step < truth.gone)
    return pl.DataFrame({name: values[there] for name, values in truth.columns.items()})


def _inside(frame: pl.DataFrame | None, mechanism: Mechanism) -> pl.DataFrame | None:
    """The rows that the domain counts."""
    if frame is None:
        return None
    made: Any = mechanism
    names = [*made.domain.columns, getattr(made.unit, "column", None)]
    names += [getattr(made, name, None) for name in ("trajectory", "order")]
    frame = frame[[name for name in dict.fromkeys(names) if name in frame.columns]]
    if made.takes is Takes.Panel:
        # A person without a value is absent, which a panel counts too.
        return frame
    if isinstance(made.domain, Schema):
        # Column by column: the cells of a wide table have no numbers.
        bins = made.domain.bins
        pairs = zip(bins.columns, bins.attributes, strict=True)
        codes = [Schema(**{name: one}).cells(opened(frame, name)) for name, one in pairs]
    else:
        codes = [made.domain.cells(opened(frame, *made.domain.columns))]
    return frame.filter(np.min(codes, axis=0) >= 0)


def opened(frame: pl.DataFrame, *columns: str) -> nw.DataFrame[Any]:
    """Some columns of a frame, as domains read them."""
    return nw.from_native(frame.select(columns), eager_only=True)


def _numbered(frames: list[pl.DataFrame | None]) -> pl.DataFrame:
    """All rows, with the step of each."""
    found = [
        one.with_columns(pl.lit(step, pl.Int64).alias("\0step"))
        for step, one in enumerate(frames, 1)
        if one is not None
    ]
    nothing = pl.DataFrame({"\0step": []}, schema={"\0step": pl.Int64})
    return pl.concat(found, how="vertical_relaxed") if found else nothing


def _end(rows: pl.DataFrame, deletes: pl.DataFrame, gone: np.ndarray) -> None:
    """Set the end of each row that was deleted."""
    if not len(deletes):
        return
    names = [name for name in rows.columns if name in deletes.columns and name != "\0step"]
    both = pl.concat([rows[names], deletes[names]], how="vertical_relaxed")
    kinds = both.select(pl.struct(names).rank("dense")).to_series().to_numpy().astype(np.int64)
    own, wanted = kinds[: len(rows)], kinds[len(rows) :]
    # Rows by kind, and of a kind by age: `first` is the oldest that lives.
    order = np.argsort(own, kind="stable")
    starts = np.searchsorted(own[order], np.arange(kinds.max() + 2)).tolist()
    first, born = starts.copy(), rows["\0step"].to_numpy()
    for kind, step in zip(wanted.tolist(), deletes["\0step"].to_list(), strict=True):
        if first[kind] < starts[kind + 1] and born[order[first[kind]]] < step:
            gone[order[first[kind]]] = min(gone[order[first[kind]]], step)
            first[kind] += 1
