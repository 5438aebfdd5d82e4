"""The table of a release in blocks, here or on Spark's executors.

`mechanisms/shared/strata.py` says how a block is drawn.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from tailrace.counting import executors
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Table
from tailrace.mechanisms.shared.strata import Strata

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.stream.release import Release

_SPARK = {nw.String: "string", nw.Int64: "long", nw.Float64: "double", nw.Boolean: "boolean"}


def strata_of(release: Release[Any]) -> Strata:
    """What rows are drawn from; refuse a release that has no such thing."""
    # Nothing was measured before the first epoch ended.
    found = getattr(release.view, "strata", None)
    if found is None:
        raise ConfigError(
            "Rows are drawn of released bins, or of places, once some are measured; this release "
            "has none. Use release.table."
        )
    return found


def drawn(release: Release[Any], session: Any) -> Any:
    """All rows in a Polars frame, or in one of Spark."""
    strata = strata_of(release)
    digest = strata.digest(release.step)
    if session is None:
        import polars as pl

        parts = [_frame(_block(strata, digest, n), release.types) for n in range(strata.blocks)]
        return pl.concat(parts or [_frame(_nothing(strata), release.types)])
    if not hasattr(session, "range"):
        raise ConfigError("session must be a SparkSession.")
    task = functools.partial(_draw, strata, digest, dict(release.types))
    columns = {name: _SPARK[type(kind)] for name, kind in release.types.items()}
    # Many blocks to a task, which reads the released counts once; four tasks to a core.
    tasks = min(max(strata.blocks, 1), 4 * executors.cores(session))
    return executors.mapped(session.range(0, strata.blocks, 1, tasks), task, columns)


def _draw(
    strata: Strata, digest: str, types: Mapping[str, Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The blocks of one task."""
    import pyarrow as pa

    kinds = {nw.String: pa.string(), nw.Int64: pa.int64(), nw.Float64: pa.float64()}
    schema = pa.schema([(name, kinds.get(type(kind), pa.bool_())) for name, kind in types.items()])
    for batch in batches:
        for number in batch["id"].to_pylist():
            found = _frame(_block(strata, digest, number), types).to_arrow()
            yield from found.cast(schema).to_batches()


def _block(strata: Strata, digest: str, number: int) -> dict[str, np.ndarray]:
    """One block, by its own generator: a function of the release."""
    key = np.frombuffer(bytes.fromhex(digest), "<u4")
    return strata.block(number, np.random.default_rng([*map(int, key), number]))


def _frame(columns: dict[str, np.ndarray], types: Mapping[str, Any]) -> Any:
    from tailrace.stream.release import Kind

    return Kind().frame(Table.of(np.arange(len(next(iter(columns.values())))), columns), types)


def _nothing(strata: Strata) -> dict[str, np.ndarray]:
    return strata.domain.decode(np.zeros(0, np.int64), np.random.default_rng(0))
