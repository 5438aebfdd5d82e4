"""A table of rows, and one of the steps it holds."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field

import narwhals as nw

from tailrace.calls import told
from tailrace.errors import ConfigError, StateError
from tailrace.sinks.base import check_same, digest, values
from tailrace.sources.database import Database, check, connect
from tailrace.storage.durable import point
from tailrace.stream.release import Release

_ABOUT = {"step": nw.Int64(), **dict.fromkeys(("digest", "guarantee", "provenance"), nw.String())}


@told
@dataclass(frozen=True)
class SqlTable:
    """A table of a database: the column `step`, and the domain's.

    `<table>_releases` has a row a step: digest, guarantee, provenance. Both are made where they
    are missing. The rows of a step and its row there are written in one transaction.

    >>> SqlTable("sqlite:///releases.db", "ward")
    SqlTable(table='ward')
    """

    # May hold a password.
    url: str = field(repr=False, metadata={"example": '"sqlite:///ward.db"'})
    table: str = field(metadata={"example": '"releases"'})

    def __post_init__(self) -> None:
        check(self.url, self.table)

    def holds(self) -> set[int]:
        with connect(self.url, write=True) as database:
            if not database.columns(self._releases):
                return set()
            found = database.read(self._releases, ["step"])
            return {int(step) for rows in found for (step,) in rows}

    def put(self, release: Release) -> None:
        if "step" in release.types:
            own = "A SQL sink has a column 'step' of its own: rename that of the domain."
            raise ConfigError(own)
        with connect(self.url, write=True) as database:
            columns = {"step": nw.Int64(), **release.types}
            _prepare(database, self.table, columns)
            _prepare(database, self._releases, _ABOUT, key="step")
            held = database.find(self._releases, "digest", "step", release.step)
            if held is not None:
                return check_same(release, held, f"Table {self.table}")
            cells = (values(release.rows.columns[name]) for name in release.types)
            rows = zip(itertools.repeat(release.step), *cells, strict=False)
            database.insert(self.table, list(columns), rows)
            told = (str(release.guarantee), json.dumps(release.provenance))
            database.insert(self._releases, list(_ABOUT), [(release.step, digest(release), *told)])
            point("sink, before")
            database.commit()
            return point("sink, after")

    @property
    def _releases(self) -> str:
        return f"{self.table}_releases"


def _prepare(
    database: Database, table: str, columns: dict[str, nw.dtypes.DType], key: str | None = None
) -> None:
    """Make a table, or check that the one there has the columns."""
    found = database.columns(table)
    if not found:
        return database.create(table, columns, key)
    missing = [column for column in columns if column not in found]
    if missing:
        raise StateError(
            f"Table {table} is there already and has no column '{missing[0]}': choose another name "
            f"for the sink's table."
        )
    return None
