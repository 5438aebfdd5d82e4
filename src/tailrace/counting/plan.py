"""A public plan of counts, and counting on any engine.

Counting is additive: the counts of two frames add up to the counts of their rows together, so rows
may be counted wherever they lie, in any order and partition (one that keeps a plan's key together,
where it has one). An in-memory frame is counted by a compiled loop; any other one where it lives,
by one expression, and only the counts are fetched.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from tailrace.counting import arrow, executors
from tailrace.counting.batches import batches
from tailrace.counting.marginals import Marginals
from tailrace.counting.sums import Sums
from tailrace.domain import Codes, Frame, Schema
from tailrace.domain.cells import holds_objects, named
from tailrace.domain.columns import MOST_CELLS, kinds, raw, unreadable
from tailrace.domain.growing import Labels, numbered, spelling, unknown
from tailrace.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tailrace.counting.memory.recall import Recall

_NO_TEXTS = np.zeros(0, np.uint8)
# Cells of one array of counts at most: 16 GB.
_MOST = 2**31
# Rows of a wide table coded at a time, so that their codes stay small.
_PIECE = 1 << 18


@dataclass(frozen=True, eq=False)
class Counts:
    """Rows added to and deleted from each cell.

    They are kept apart because they are measured apart.

    >>> zero = np.zeros(2, np.int64)
    >>> (Counts(np.array([2, 0]), np.array([0, 1])) + Counts(np.array([1, 1]), zero)).net
    array([3, 0])
    """

    adds: np.ndarray
    deletes: np.ndarray

    def __post_init__(self) -> None:
        for name in ("adds", "deletes"):
            values = np.asarray(getattr(self, name))
            if values.dtype.kind not in "iu":
                raise DataError(f"{name} must hold integer counts.")
            object.__setattr__(self, name, values.astype(np.int64, copy=False))
        if self.adds.shape != self.deletes.shape:
            raise DataError(
                "adds and deletes must have the same shape: one count of each for every cell."
            )

    @property
    def net(self) -> np.ndarray:
        return self.adds - self.deletes

    def __add__(self, other: Counts) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        if self.adds.shape != other.adds.shape:
            raise DataError("Only counts of the same plan add up; these have different shapes.")
        return Counts(self.adds + other.adds, self.deletes + other.deletes)


@dataclass(frozen=True, eq=False)
class TextCounts(Counts):
    """The same, with the rows of each text that no list has."""

    texts: np.ndarray  # uint8: a list in JSON, sorted
    many: np.ndarray  # (texts,) int64

    @classmethod
    def of(cls, counts: Counts, rows: Mapping[str, int]) -> TextCounts:
        """Counts with the rows of each text."""
        listed = sorted(rows)
        many = np.array([rows[text] for text in listed], np.int64)
        return cls(counts.adds, counts.deletes, packed_texts(listed), many)

    @property
    def rows(self) -> dict[str, int]:
        """The rows of each text."""
        return dict(zip(read_texts(self.texts), self.many.tolist(), strict=True))

    def __add__(self, other: Counts) -> Counts:
        both = super().__add__(other)
        if not isinstance(other, TextCounts):
            return NotImplemented
        return TextCounts.of(both, Counter(self.rows) + Counter(other.rows))


def packed_texts(texts: Sequence[str]) -> np.ndarray:
    """Texts as an array, for states and counts."""
    return np.frombuffer(json.dumps(list(texts)).encode(), np.uint8) if texts else _NO_TEXTS


def read_texts(packed: np.ndarray) -> list[str]:
    """What `packed_texts` packed."""
    return json.loads(packed.tobytes()) if len(packed) else []


@dataclass(frozen=True)
class ReadRows:
    """Rows that were read before: hashed units and cells, part after part.

    parts: gives all of them, each time from the first.
    files: those that lie in files by buckets of their hashes (`counting.memory.spread`).
    here: gives all others.
    labels: of rows with an unknown text, their cell and text.
    """

    parts: Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]]
    files: tuple[Any, ...] = ()
    here: Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]] = tuple
    labels: Labels = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A public description of the counts to take.

    codes: the domain, whose cells are counted.
    key: the column of a unit's id; rows of one unit must be counted together.
    memory: the memory of each unit (`LastValues` or `Weight`), where a step's counts need one.
        Such a plan counts units, with `tailrace.counting.memory.counted`, and never rows alone.
    groups: the group of each cell, from 0, or -1 for a cell that is not counted. Groups are counted
        in place of cells; rows and units are still known by their cells.
    marginals: those of a schema, counted in place of its cells. The cells may then be more than can
        be counted, or even numbered where there is no key. Amounts are no part of them.
    sums: of the schema's amounts, after the counts of marginals.
    growing: the column of a schema whose unknown texts are counted too (`TextCounts`).

    >>> import polars as pl
    >>> from tailrace.domain import Integer, Schema
    >>> Plan(Schema(age=Integer(0, 2))).count(pl.DataFrame({"age": [0, 2, 2, 7, None]}))
    array([1, 0, 2])
    """

    codes: Codes
    key: str | None = None
    memory: Recall | None = None
    groups: np.ndarray | None = field(default=None, compare=False)  # (cells,) integers
    marginals: Marginals | None = None
    sums: Sums | None = None
    growing: str | None = None

    def __post_init__(self) -> None:
        if self.key is not None and (not isinstance(self.key, str) or not self.key):
            raise ConfigError(
                "key must name the column that holds the unit's id, for example key='id'."
            )
        if self.groups is not None and self.groups.shape != (self.codes.size,):
            raise ConfigError("groups must name the group of every cell of codes.")
        if self.marginals is not None:
            self._check_marginals(self.marginals)

    def _check_marginals(self, marginals: Marginals) -> None:
        if not isinstance(self.codes, Schema) or self.codes.bins.shape != marginals.shape:
            raise ConfigError("marginals must be those of the Schema that codes is.")
        if self.sums is not None and self.sums.shape != marginals.shape:
            raise ConfigError("sums must be those of the Schema that codes is.")
        if self.groups is not None or self.memory is not None:
            raise ConfigError("A plan counts marginals, or groups of cells, or units: one of them.")
        if self.key is not None and self.codes.size > MOST_CELLS:
            raise ConfigError(
                f"The domain has more than {MOST_CELLS:,} cells, and the rows of each unit cannot "
                "be told apart by number: use fewer attributes or coarser ones, or protect events."
            )

    @functools.cached_property
    def size(self) -> int:
        """The number of counts.

        Of units where they are remembered, else of the cells of marginals, of groups, or of cells.
        """
        if self.memory is not None:
            return self.memory.size
        if self.marginals is not None:
            return self.marginals.size + (0 if self.sums is None else self.sums.size)
        return self.codes.size if self.groups is None else int(self.groups.max(initial=-1)) + 1

    def count(self, frame: Any) -> np.ndarray:
        """Count the frame's rows per cell.

        The frame is any engine's, or None. Counted is each cell, group of cells, or cell of each
        marginal.
        """
        if self.memory is not None:
            raise ConfigError(
                "This plan counts units by what they did before: count with "
                "tailrace.counting.memory.counted."
            )
        if self.marginals is None and self.codes.size > _MOST:
            raise ConfigError(
                f"This plan has {self.codes.size:,} cells; at most {_MOST:,} can be counted: use "
                "fewer columns or coarser ones."
            )
        counts = map(self._counted, frames(frame))
        total = next(counts, None)
        if total is None:
            return np.zeros(self.size, np.int64)
        for more in counts:
            total = total + more
        return total

    def _counted(self, rows: Frame) -> np.ndarray:
        self.codes.check(rows)
        if isinstance(rows, nw.LazyFrame):
            return self._counted_there(rows)
        if self.marginals is not None:
            return self._marginals_here(rows)
        return self.tally(self.codes.cells(rows))

    def tally(self, cells: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Count these cells (-1: dropped), each standing for `rows`."""
        from tailrace.domain import kernel

        if self.marginals is not None:
            return self._tallied(kernel.split(cells, np.array(self._schema.shape)), rows)
        numbers = cells if self.groups is None else kernel.look_up(cells, self.groups)
        if rows is None:
            return kernel.count(numbers, self.size)
        return kernel.add_up(numbers, rows, self.size)

    def counts(self, adds: Any, deletes: Any = None) -> Counts:
        """Count both parts of a step; None has no rows."""
        if self.growing is None:
            return Counts(self.count(adds), self.count(deletes))
        # Read twice, which a stream cannot be.
        rows = opened(adds)
        if rows is not None:
            self.refuse_spark(rows)
        return TextCounts.of(Counts(self.count(rows), self.count(deletes)), self._texts(rows))

    @property
    def none(self) -> Counts:
        """Counts of this plan, of no length."""
        nothing = np.zeros(0, np.int64)
        counts = Counts(nothing, nothing)
        return counts if self.growing is None else TextCounts.of(counts, {})

    def _texts(self, rows: Frame | None) -> Counter[str]:
        """The rows of each text that the growing column's list has not."""
        assert self.growing is not None
        if rows is None:
            return Counter()
        found = unknown(rows, self._schema, self.growing)
        if isinstance(rows, nw.LazyFrame):
            found = fetched(rows, lambda: found)
        attribute = self._schema.attributes[self._schema.columns.index(self.growing)]
        many: Counter[str] = Counter()
        for value, count in zip(found["raw"].to_list(), found["rows"].to_list(), strict=True):
            text = spelling(value, trimmed=getattr(attribute, "trimmed", True))
            if text is not None:
                many[text] += int(count)
        return many

    def rows(
        self, frame: Any, key: bytes = b"", labels: Labels | None = None
    ) -> Iterator[tuple[Any, np.ndarray]]:
        """The unit id and the cell (-1: dropped) of every row, in pieces.

        Columns are checked at once; rows are read as pieces are asked for. A row with an unknown
        text has a number of its own in place of its cell, a hash with `key`; `labels` is told.
        """
        if self.key is None:
            raise ConfigError("This plan has no key= to tell units apart by.")
        told = {} if labels is None else labels
        if isinstance(frame, ReadRows):
            told.update(frame.labels)
            return iter(frame.parts())
        parts = (self._pieces(some, key, told) for some in frames(frame))
        first = next(parts, ())
        return itertools.chain(first, itertools.chain.from_iterable(parts))

    def _pieces(self, rows: Frame, key: bytes, labels: Labels) -> Iterator[tuple[Any, np.ndarray]]:
        assert self.key is not None
        self.codes.check(rows)
        columns, growing = [unit_of(rows, self.key)], self.growing
        if growing is not None:
            self.refuse_spark(rows)
            columns.append(raw(rows, growing).alias("raw"))
        pieces = with_cells(rows, self.codes, columns)
        if growing is None:
            return ((ids_of(found.get_column("unit")), cells) for found, cells in pieces)
        told = (self._schema, growing, key, labels)
        return (
            (ids_of(found.get_column("unit")), numbered(cells, found.get_column("raw"), *told))
            for found, cells in pieces
        )

    def named(self, cells: np.ndarray, labels: Labels) -> tuple[np.ndarray, Counter[str]]:
        """The cells of rows with numbers of their own, and the rows of each text."""
        own = np.flatnonzero(cells >= self.codes.size)
        found, many = cells.copy(), Counter[str]()
        for place, number in zip(own.tolist(), cells[own].tolist(), strict=True):
            found[place], text = labels[number]
            many[text] += 1
        return found, many

    def refuse_spark(self, rows: Frame) -> None:
        """Refuse rows in Spark where unknown texts are counted."""
        if self.growing is not None and executors.on_spark(rows):
            raise DataError(
                f"The values of '{self.growing}' are growing, and are counted by text: collect "
                "the Spark frame first, or declare all values."
            )

    @property
    def _schema(self) -> Schema:
        """The domain of marginals."""
        assert isinstance(self.codes, Schema)
        return self.codes

    def _tallied(self, digits: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Counts of marginals, then sums, from digits of all columns."""
        assert self.marginals is not None
        if not self._schema.amounts:
            return self.marginals.tally(digits, rows)
        summed = np.array([column in self._schema.amounts for column in self._schema.columns])
        counted, codes = digits[:, ~summed], digits[:, summed]
        counts = self.marginals.tally(counted, rows)
        if self.sums is None:
            return counts
        return np.concatenate([counts, self.sums.tally(counted, codes, rows)])

    def _marginals_here(self, rows: nw.DataFrame[Any]) -> np.ndarray:
        counts = np.zeros(self.size, np.int64)
        for at in range(0, len(rows), _PIECE):
            counts += self._tallied(self._schema.digits(rows[at : at + _PIECE]))
        return counts

    def _digits_there(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The codes of counted rows: `digit0`, ... and, of amounts, `amount0`, ..."""
        names, schema = {}, self._schema
        for column in schema.columns:
            kind = "amount" if column in schema.amounts else "digit"
            names[column] = f"{kind}{sum(name.startswith(kind) for name in names.values())}"
        codes = zip(schema.codes(rows), names.values(), strict=True)
        digits = rows.select(*(code.alias(name) for code, name in codes))
        return digits.filter(*(~nw.col(name).is_null() for name in names.values()))

    def _counted_there(self, rows: nw.LazyFrame[Any]) -> np.ndarray:
        if executors.on_spark(rows):
            with executors.explained(rows.to_native().sparkSession):
                return executors.counted(self, rows)

        if self.marginals is not None:
            return self._marginals_there(rows, self.marginals)

        def query() -> nw.LazyFrame[Any]:
            numbers = rows.select(self.codes.cell(rows).alias("cell"))
            inside = numbers.filter(~nw.col("cell").is_null())
            return inside.group_by("cell").agg(nw.len().alias("rows"))

        found = fetched(rows, query)
        cells, many = (found.get_column(n).to_numpy().astype(np.int64) for n in ("cell", "rows"))
        return self.tally(self.codes.settle(cells), many)

    def _marginals_there(self, rows: nw.LazyFrame[Any], marginals: Marginals) -> np.ndarray:
        from tailrace.domain import kernel

        found = fetched(rows, lambda: marginals.query(self._digits_there(rows)))
        cells, many = (found.get_column(n).to_numpy().astype(np.int64) for n in ("cell", "rows"))
        counts = marginals.summed(kernel.add_up(cells, many, marginals.covering.size))
        sums = self.sums
        if sums is None:
            return counts
        added = sums.fetched(fetched(rows, lambda: sums.query(self._digits_there(rows))))
        return np.concatenate([counts, added])


def with_cells(
    rows: Frame, codes: Codes, columns: list[nw.Expr]
) -> Iterator[tuple[nw.DataFrame[Any], np.ndarray]]:
    """Some columns, and the cell of every row (-1: dropped), in pieces."""
    if not isinstance(rows, nw.LazyFrame):
        # Also for no rows.
        for at in range(0, max(1, len(rows)), _PIECE):
            few = rows[at : at + _PIECE] if len(rows) > _PIECE else rows
            yield few.select(*columns), codes.cells(few)
        return
    with _unquoted(rows):
        query = rows.select(*columns, codes.cell(rows).fill_null(-1).alias("cell"))
        for found in batches(query):
            cells = found.get_column("cell").to_numpy().astype(np.int64)
            yield found, codes.settle(cells)


def unit_of(rows: Frame, column: str) -> nw.Expr:
    """The column of unit ids as "unit", its type checked.

    Floats are refused by their type: beyond 2**53 they make one id of several. No other type that a
    cell can cause is.
    """
    kind = kinds(rows, [column])[column]
    # pandas takes a column without rows for floats.
    empty = isinstance(rows, nw.DataFrame) and not len(rows)
    if kind == "float" and not empty:
        raise DataError(
            f"Column '{column}' holds ids as floats, which cannot tell large ids apart; pandas "
            "makes them where an id is missing. Read ids as text, or as nullable integers (dtype "
            "'Int64')."
        )
    if kind in unreadable(rows):
        raise DataError(f"Column '{column}' must hold ids as text or as whole numbers.")
    dtype, unit = rows.collect_schema()[column], named(rows, column).alias("unit")
    whole = dtype.is_integer() and not isinstance(dtype, nw.Int128 | nw.UInt128)
    lasting = rows.implementation.is_pandas_like() or rows.implementation.is_pyarrow()
    as_it_is = kind in ("object", "null", "bytes") or whole or isinstance(dtype, nw.Categorical)
    if not empty and (as_it_is or (lasting and kind != "text")):
        return unit
    return unit.cast(nw.String)


def frames(frame: Any) -> Iterator[Frame]:
    """Open any engine's frame; an Arrow stream is several, each of some rows."""
    frame = arrow.readable(frame)
    parts = arrow.tables(frame) if arrow.is_stream(frame) else (frame,)
    for part in parts:
        if (rows := opened(part)) is not None:
            yield rows


def opened(frame: Any) -> Frame | None:
    """Open any engine's frame; None if it has no columns, and so no rows.

    An Arrow stream is read whole.
    """
    if frame is None:
        return None
    frame = arrow.readable(frame)
    if arrow.is_stream(frame):
        frame = arrow.whole(frame)
    try:
        rows = nw.from_native(frame)
        names = rows.collect_schema().names()
    except TypeError:
        raise DataError(
            "A batch must be a data frame: pandas, Polars, PyArrow, DuckDB, PySpark, an Arrow "
            "stream, or None."
        ) from None
    except nw.exceptions.DuplicateError:
        raise DataError("The frame has two columns of the same name.") from None
    except Exception:
        raise DataError(
            "The frame's columns could not be read; collect it yourself to see why."
        ) from None
    return rows if names else None


def fetched(rows: nw.LazyFrame[Any], query: Any) -> nw.DataFrame[Any]:
    """Run a query; return all its rows."""
    with _unquoted(rows):
        return query().collect()


@contextlib.contextmanager
def _unquoted(rows: nw.LazyFrame[Any]) -> Iterator[None]:
    """Keep an engine's errors here, which may quote data."""
    try:
        yield
    except (ConfigError, DataError):
        raise
    except Exception:
        engine = rows.implementation.name.lower()
        raise DataError(
            f"The {engine} frame could not be computed; collect it yourself to see why."
        ) from None


def ids_of(ids: nw.Series[Any]) -> Any:
    """Ids in NumPy; texts and missing values in Arrow."""
    plain = ids.dtype.is_integer() and not ids.null_count()
    if plain or holds_objects(ids) or isinstance(ids.dtype, nw.Object):
        return ids.to_numpy()
    try:
        import pyarrow as pa
    except ImportError:
        return np.array([*ids.to_list(), None], object)[:-1]
    found = ids.to_arrow()
    return found.cast(found.type.value_type) if pa.types.is_dictionary(found.type) else found
