"""Delta tables: rows that came, numbers of rows that went, and steps.

    added      step, row, and the columns of the domain
    removed    step, row
    steps      step, digest, guarantee, provenance: a step is there once its row is

A row is born once and dies once, and has a number; so the table of a step is the rows added up to
it whose numbers are not among those removed up to it. Tables are only appended to: deleting from
one would write every file again that it touches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailrace.calls import told
from tailrace.errors import ConfigError, Error, StateError
from tailrace.sinks.base import check_same, digest
from tailrace.storage.durable import point
from tailrace.stream.release import Kind, Release

if TYPE_CHECKING:
    import polars as pl

_OWN = ("step", "row")


@told
@dataclass(frozen=True)
class DeltaTables:
    """Three Delta tables in a folder, on disk or at a url.

    >>> DeltaTables("s3://ward/releases").path
    's3://ward/releases'
    """

    path: str = field(metadata={"example": '"s3://ward/releases"'})

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path.strip():
            raise ConfigError("path must be a folder or a url, as a text.")

    def holds(self) -> set[int]:
        with _explained():
            return set(self._steps())

    def put(self, release: Release) -> None:
        import polars as pl

        if any(name in release.types for name in _OWN):
            raise ConfigError(
                "Delta tables have columns 'step' and 'row' of their own: rename those of the "
                "domain."
            )
        with _explained():
            name, held = digest(release), self._steps()
            if release.step in held:
                return check_same(release, held[release.step], "The Delta tables")
            added = Kind().frame(release.added, release.types)
            numbers = pl.Series("row", release.added.numbers, pl.Int64)
            gone = pl.DataFrame({"row": pl.Series(release.removed.numbers, dtype=pl.Int64)})
            steps = {
                "digest": [name],
                "guarantee": [str(release.guarantee)],
                "provenance": [json.dumps(release.provenance)],
            }
            tables = {
                "added": added.insert_column(0, numbers),
                "removed": gone,
                "steps": pl.DataFrame(steps),
            }
            for table, rows in tables.items():
                self._append(table, release, name, rows)
        return None

    def _steps(self) -> dict[int, str]:
        """The digest of each step that is there."""
        import polars as pl
        from deltalake import DeltaTable  # pyright: ignore[reportMissingImports]

        place = f"{self.path}/steps"
        if not DeltaTable.is_deltatable(place):
            return {}
        found = pl.read_delta(place, columns=["step", "digest"])
        return dict(found.iter_rows())

    def _append(self, table: str, release: Release, name: str, rows: pl.DataFrame) -> None:
        """Append the rows of a step, once.

        Delta keeps the number of the last transaction of an application and lets it come again, so
        it is asked first. Each step is an application, and its digest the number: rows that another
        release left here when it was cut off are found, and refused.
        """
        import polars as pl
        from deltalake import (  # pyright: ignore[reportMissingImports]
            CommitProperties,
            DeltaTable,
            Transaction,
            write_deltalake,
        )

        place, step = f"{self.path}/{table}", f"tailrace step {release.step}"
        number = int(name[:15], 16)
        if DeltaTable.is_deltatable(place):
            there = DeltaTable(place).transaction_version(step)
            if there is not None:
                return check_same(release, name if there == number else None, "The Delta tables")
        own = rows.insert_column(0, pl.Series("step", [release.step] * len(rows), pl.Int64))
        commit = CommitProperties(app_transactions=[Transaction(step, number)])
        point("sink, before")
        write_deltalake(place, own.to_arrow(), mode="append", commit_properties=commit)
        return point("sink, after")


@contextmanager
def _explained() -> Iterator[None]:
    """Errors of the store in a sentence; its own may quote keys."""
    try:
        from deltalake.exceptions import DeltaError  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ConfigError("Delta tables need deltalake: pip install 'tailrace[delta]'.") from None
    failures: Any = (DeltaError, OSError)
    try:
        yield
    except Error:
        raise
    except failures:
        raise StateError(
            "The Delta tables cannot be read or written: check path, the rights to it, and that "
            "nothing else writes there. Run again: a step goes in once."
        ) from None
