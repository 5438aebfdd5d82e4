"""The release of one step: rows, changes, view and guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import narwhals as nw
import numpy as np

from tailrace.calls import told
from tailrace.counting.arrow import is_stream
from tailrace.errors import DataError
from tailrace.mechanisms.base import Table, facts
from tailrace.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Kind:
    """A kind of data frame: the same comes out."""

    name: str = "polars"
    session: Any = None  # Spark's, where the frame is Spark's

    @classmethod
    def kept(cls, name: Any) -> Kind:
        """The kind that a stream kept, where its library is here."""
        found = name in ("pandas", "pyarrow", "duckdb") and find_spec(name) is not None
        return cls(name) if found else cls()

    def frame(self, table: Table, types: Mapping[str, Any]) -> Any:
        """The rows of `table` in a frame of this kind.

        Columns, types and order come from the domain.
        """
        import polars as pl

        named = {
            nw.String: pl.String,
            nw.Int64: pl.Int64,
            nw.Float64: pl.Float64,
            nw.Boolean: pl.Boolean,
        }
        made = pl.DataFrame(
            {
                name: pl.Series(name, _plain(values), named[type(types[name])])
                for name, values in table.columns.items()
            }
        )
        return self.given(made)

    def given(self, made: pl.DataFrame) -> Any:
        """A Polars frame as one of this kind."""
        if self.name == "pandas":
            import pandas as pd

            return pd.DataFrame({name: made[name].to_numpy() for name in made.columns})
        if self.name == "pyarrow":
            return made.to_arrow()
        if self.name == "duckdb":
            import duckdb

            return duckdb.from_arrow(made.to_arrow())
        if self.name == "pyspark":
            return self.session.createDataFrame(made.to_arrow())
        return made


def kind_of(frame: Any) -> Kind:
    """The kind of a frame; its content is not read."""
    if frame is None:
        return Kind()
    if is_stream(frame):
        return Kind("polars" if find_spec("pyarrow") is None else "pyarrow")
    try:
        opened = nw.from_native(frame)
    except nw.exceptions.DuplicateError:
        raise DataError("The frame has two columns of the same name.") from None
    except Exception:
        raise DataError(
            "A batch is a data frame of pandas, Polars, PyArrow, DuckDB or PySpark, an Arrow "
            "stream, or None."
        ) from None
    implementation = opened.implementation
    names = {
        nw.Implementation.PANDAS: "pandas",
        nw.Implementation.PYARROW: "pyarrow",
        nw.Implementation.DUCKDB: "duckdb",
    }
    if implementation.is_pyspark():
        return Kind("pyspark", frame.sparkSession)
    return Kind(names.get(implementation, "polars"))


@dataclass(frozen=True)
class Changes:
    """Synthetic rows added and removed since the last release.

    Both are frames of one kind.
    """

    added: Any
    removed: Any


View = TypeVar("View")


@told
@dataclass(frozen=True)
class Release(Generic[View]):
    """One step, published.

    `table` and `changes` are frames of the kind that came in; `view` answers questions with
    standard errors and is None before anything was measured.
    """

    step: int
    guarantee: Guarantee
    provenance: dict[str, Any]
    view: View
    rows: Table
    added: Table
    removed: Table
    types: Mapping[str, Any]  # of the columns, from the domain
    kind: Kind = Kind()

    @property
    def table(self) -> Any:
        """The synthetic data now."""
        return self.kind.frame(self.rows, self.types)

    @property
    def changes(self) -> Changes:
        """The rows that turn the last table into this one.

        Take the removed rows away and append the added ones.
        """
        return Changes(
            added=self.kind.frame(self.added, self.types),
            removed=self.kind.frame(self.removed, self.types),
        )

    def drawn(self, session: Any = None) -> Any:
        """A table drawn from the view alone, in Polars or on Spark's executors.

        It is the same in any process that has the release, and needs no table before it: for
        streams with `full="none"`, whose tables are too large for one machine. Rows of bins and of
        places can be drawn so. Beside `table`, it is another table of the same measurements.

        session: of Spark; its executors draw the rows, and hold them.
        """
        from tailrace.stream.drawn import drawn

        return drawn(self, session)

    def plot(self) -> Any:
        """Draw the release; shown in a notebook, or saved with `.save("release.svg")`."""
        # By its public name: drawing stands below streams.
        import tailrace

        return tailrace.plot(self)

    def __repr__(self) -> str:
        rows = f"{len(self.rows):,} rows of {', '.join(self.types)}"
        return f"<release of step {self.step}: {rows}; {self.guarantee.short}>"

    def _repr_html_(self) -> str:
        return facts(
            {
                "step": str(self.provenance.get("period", self.step)),
                "rows": f"{len(self.rows):,} of {', '.join(self.types)}",
                "changes": f"{len(self.added):,} added, {len(self.removed):,} removed",
                "promise": str(self.guarantee),
            }
        )


def seconds(provenance: Mapping[str, Any]) -> float:
    """The published time of a release, in seconds since 1970."""
    return datetime.fromisoformat(provenance["time"]).timestamp()


def _plain(values: np.ndarray) -> Any:
    return values.tolist() if values.dtype == object else values
