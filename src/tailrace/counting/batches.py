"""The rows of a lazy frame, fetched in batches.

Polars, DuckDB and PySpark give them as they are made, so that a step may be larger than memory.
Any other engine, and PySpark for columns other than numbers and texts, gives all at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import narwhals as nw

from tailrace.counting import arrow

# Rows of a batch, where an engine can be asked for so many.
ROWS = 1 << 18


def batches(rows: nw.LazyFrame[Any]) -> Iterator[nw.DataFrame[Any]]:
    """Run a query; its rows as frames in memory, one after the other."""
    native, engine = rows.to_native(), rows.implementation
    parts: Iterable[Any] | None = None
    # Versions before 1.34 have it not.
    if engine.is_polars() and hasattr(native, "collect_batches"):
        parts = native.collect_batches(chunk_size=ROWS, maintain_order=True, lazy=True)
    elif engine.is_duckdb():
        parts = _duckdb(native)
    elif (engine.is_pyspark() or engine.is_pyspark_connect()) and _plain(rows):
        parts = _spark(rows)
    if parts is None:
        yield rows.collect()
        return
    for part in parts:
        yield nw.from_native(part, eager_only=True)


def _duckdb(native: Any) -> Iterator[Any] | None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return None
    # The name of versions before 1.4.
    reader = getattr(native, "to_arrow_reader", None) or native.fetch_arrow_reader
    return arrow.tables(reader(ROWS))


def _plain(rows: nw.LazyFrame[Any]) -> bool:
    """Whether all columns are whole numbers or texts."""
    types = rows.collect_schema().values()
    return all(dtype.is_integer() or isinstance(dtype, nw.String) for dtype in types)


def _spark(rows: nw.LazyFrame[Any]) -> Iterator[Any]:
    """One partition after the other.

    In Python's types: batches of Arrow would need PyArrow on the executors.
    """
    import polars as pl

    names, held = rows.collect_schema().names(), rows.to_native().toLocalIterator()
    while some := list(itertools.islice(held, ROWS)):
        columns = zip(names, zip(*some, strict=True), strict=True)
        yield pl.DataFrame({name: pl.Series(values) for name, values in columns})
