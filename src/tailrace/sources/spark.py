"""Read whatever Spark streams: files, Kafka, Delta, Iceberg.

A query of Structured Streaming gives micro-batches to `foreachBatch`; each counts exactly once:

1. Spark numbers batches, and its checkpoint says what each one holds. The note of `stream.add` has
   the query's id and the number of the last batch that is in the stream, in one transaction with
   its counts. A batch that comes again after a crash is passed over by its number. A query with
   another id, whose checkpoint was lost, is refused until a person says so: its batches may hold
   anything. So is a gap between numbers.
2. The step of a row is a function of its own time, of the calendar, and of the step that was the
   next when its batch was planned. Executors find it, by the code of all other sources.
3. The wall clock closes a step, with or without rows. All that is there by then is read, and then
   the step is released. So nothing is released between the planning of a batch and its counting:
   the next step, which the stream keeps, is the clock of a batch also when it is planned before a
   crash and counted after it. No other clock is asked, so that a replay finds the same steps.
4. Rows of later steps are written below the checkpoint, by executors, in the batch that brought
   them; the note names them in the same transaction. They are counted when their step is next.

**Never a watermark, never a stateful window.** A watermark is the highest time seen so far, less a
delay. One row with a time far ahead moves it, drops everybody's rows behind it and ends windows
early: one event would change which rows of others are counted, and when something is published.
The guarantee speaks of one event, and covers neither. Here, no row moves another.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import queue
from collections.abc import Generator, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw

from tailrace.calendar import Calendar
from tailrace.calls import told
from tailrace.counting import arrow, executors
from tailrace.errors import ConfigError, Error, StateError
from tailrace.privacy.loss import whole
from tailrace.sources.base import Batch, Clock, Portion, now
from tailrace.sources.cut import Late, plain_cut, steps_of
from tailrace.sources.reading import Reader
from tailrace.sources.settings import Given, Settings, Unfit
from tailrace.sources.topic import properties

if TYPE_CHECKING:
    import pyarrow as pa

# Columns beside those of the rows.
_STEP, _GONE = "tailrace step", "tailrace gone"
# Seconds between two looks at whether a query has ended.
_LOOK = 0.2
# The setting of Spark that guards rows, whether on one machine too, and what happens without it.
_GUARDED = {
    "spark.io.encryption.enabled": (
        "true",
        True,
        "Spark writes rows, and hashes of people with their cells, to disk as they are (shuffle, "
        "spill, cached batches)",
    ),
    "spark.network.crypto.enabled": (
        "true",
        False,
        "Spark sends rows and the key of the hashes between machines as they are",
    ),
    "spark.eventLog.enabled": (
        "false",
        True,
        "Spark's event log has the number of rows of every batch: exact counts",
    ),
}
_FAILED = (
    "The query of Spark failed: run it yourself without Tailrace to see why. Then run again: each "
    "batch counts once."
)


@told
@dataclass(frozen=True, kw_only=True)
class SparkSource(Settings):
    """`kind = "Spark"`: rows that Spark reads as a stream.

    Parameters
        loads: the name of Spark's reader: parquet, kafka, delta.
        path: what it loads; a folder or table, where it takes one.
        columns: names and types of the columns, where the reader must be told.
        options: a file of further options of the reader, such as passwords: `name=value` lines.
        checkpoint: a folder for Spark's notes, which must last as long as the stream.
        replaces: the id of a query whose checkpoint was lost, and is done without.
    """

    loads: str = field(metadata={"example": '"parquet"'})
    checkpoint: str = field(metadata={"example": '"checkpoint"'})
    time: str = field(metadata={"example": '"day"'})
    path: str | None = None
    columns: str | None = None
    options: Path | None = None
    replaces: str | None = None

    def __post_init__(self) -> None:
        if self.id is not None:
            raise Unfit("id", "needs all rows of a step at once; Spark counts each batch once.")
        super().__post_init__()

    def open(self, given: Given) -> SparkFeed:
        assert given.calendar is not None
        return SparkFeed(
            self._frame(),
            self.checkpoint,
            reader=given.reader,
            calendar=given.calendar,
            late=given.late,
            replaces=self.replaces,
        )

    def warnings(self) -> list[str]:
        """What Spark's settings leave open; Spark is started to see them."""
        return unguarded(_session())

    def _frame(self) -> Any:
        session, options = _session(), properties("options", self.options)
        try:
            stream = session.readStream.format(self.loads)
            stream = stream.options(**options)
            if self.columns is not None:
                stream = stream.schema(self.columns)
            return stream.load() if self.path is None else stream.load(self.path)
        except Exception:
            raise ConfigError(
                "Spark cannot open what [source] names: check loads, path, columns and options, "
                "and that Spark has the package of this reader."
            ) from None


@told
@dataclass(frozen=True)
class SparkFeed:
    """The rows of a streaming frame, by the calendar."""

    frame: Any
    checkpoint: str
    _: KW_ONLY
    reader: Reader
    calendar: Calendar
    late: Late
    replaces: str | None = None
    clock: Clock = now

    def __post_init__(self) -> None:
        if not getattr(self.frame, "isStreaming", False) or not hasattr(self.frame, "_jdf"):
            raise ConfigError(
                "The frame must be a streaming one of a classic Spark session, for example "
                "spark.readStream.schema(...).parquet(...): push other frames."
            )
        if self.late not in ("next", "drop"):
            raise ConfigError('late must be "next" or "drop".')
        if self.reader.time is None or self.reader.id is not None:
            raise ConfigError("Rows of Spark are cut by a time column, and not told apart by id=.")

    @property
    def over(self) -> bool:
        return False

    @property
    def cut(self) -> dict[str, Any]:
        return plain_cut(self.reader, self.calendar, kind="Spark", late=self.late)

    def ready(self, step: int) -> bool:
        return self.calendar.released_by(self.clock()) >= step

    def more(self, step: int, note: Any) -> Iterator[Portion]:
        """The batches after those that `note` tells of, up to what is there now."""
        whole("step", step)
        read = _Read.of(note)
        if read.query is not None and read.query == self.replaces:
            read = _Read()
        with contextlib.closing(self._batches(read.query)) as batches:
            read = replace(read, query=next(batches))
            early = [self._place(read, one) for one, last in read.early.items() if last >= step]
            if early and read.taken < step:
                read = replace(read, taken=step)
                with self._of_spark():
                    rows = self.frame.sparkSession.read.parquet(*early)
                yield Portion({step: self._batch(rows, step)}, read.note)
            for counted in [number for number, last in read.early.items() if last < step]:
                self._remove(self._place(read, counted))
            for number, frame in batches:
                if number > read.batch + 1:
                    raise StateError(
                        f"The query of Spark goes on with batch {number}, and the stream has those "
                        f"up to {read.batch}: what lies between is not in it. Restore the folder "
                        "of the stream that belongs to this checkpoint."
                    )
                # One that is in came again: the process ended before Spark noted it.
                if number == read.batch + 1:
                    with self._rows(frame, step) as (rows, last):
                        read = read.after(number, step, last)
                        if last > step:
                            later = rows.where(rows[_STEP] > step)
                            later.write.mode("overwrite").parquet(self._place(read, number))
                        yield Portion({step: self._batch(rows, step)}, read.note)

    def _batches(self, before: str | None) -> Generator[Any]:
        """The id of the query, and then the number and the rows of each batch.

        A batch is done once the next one is asked for. `before` is the id that is expected.
        """
        given: queue.Queue[tuple[int, Any]] = queue.Queue()
        done: queue.Queue[bool] = queue.Queue()

        def take(frame: Any, number: int) -> None:
            given.put((number, frame))
            if not done.get():
                raise StateError("The batch was not taken.")

        def active() -> bool:
            with self._of_spark():
                return query.isActive

        names = self.reader.columns
        with self._of_spark():
            opened: nw.LazyFrame[Any] = nw.from_native(self.frame)
            rows = executors.chosen(opened, names, time=self.reader.time)
            writer = rows.writeStream.foreachBatch(take).trigger(availableNow=True)
            query = writer.option("checkpointLocation", self.checkpoint).start()
        try:
            if before not in (None, query.id):
                raise StateError(
                    "The checkpoint of this stream's query was lost, or another one is used: its "
                    "rows may count twice, or be missing. Restore it; or, if it begins after the "
                    f'rows that are in, say so with replaces="{before}".'
                )
            yield query.id
            while active() or not given.empty():
                try:
                    number, frame = given.get(timeout=_LOOK)
                except queue.Empty:
                    continue
                yield number, frame
                done.put(True)
            with self._of_spark():
                if query.exception() is not None:
                    raise StateError(_FAILED)
        finally:
            done.put(False)
            with contextlib.suppress(Exception):
                query.stop()

    @contextlib.contextmanager
    def _rows(self, frame: Any, step: int) -> Iterator[tuple[Any, int]]:
        """The rows of a batch with the step of each, and the last step.

        They are computed once: a frame that is not the same each time would be cut in two ways.
        """
        task = functools.partial(_cut, self.reader, self.calendar, self.late, step)
        with executors.explained(frame.sparkSession):
            rows = executors.mapped(frame, task, self._types).persist()
            try:
                last = rows.agg({_STEP: "max"}).first()[0]
                yield rows, step if last is None else int(last)
            finally:
                rows.unpersist()

    def _batch(self, rows: Any, step: int) -> Batch:
        columns = [name for name in self._types if name not in (_STEP, _GONE)]
        own = rows.where(rows[_STEP] == step)
        adds = own.where(~own[_GONE]).select(*(f"`{name}`" for name in columns))
        if self.reader.op is None:
            return Batch(adds)
        return Batch(adds, own.where(own[_GONE]).select(*(f"`{name}`" for name in columns)))

    @functools.cached_property
    def _types(self) -> dict[str, str]:
        """The columns of rows that are cut, in Spark's types."""
        named = {nw.String: "string", nw.Boolean: "boolean"}
        types = {
            name: named.get(type(kind), "double") for name, kind in self.reader.domain.types.items()
        }
        ids = (self.reader.key, self.reader.trajectory)
        types |= {name: "string" for name in ids if name is not None}
        types |= {} if self.reader.order is None else {self.reader.order: "double"}
        return {**types, _STEP: "long", _GONE: "boolean"}

    def _place(self, read: _Read, number: int) -> str:
        return f"{self.checkpoint}/tailrace/{read.query}/{number}"

    @contextlib.contextmanager
    def _of_spark(self) -> Iterator[None]:
        """Errors of Spark may quote data, paths and passwords."""
        try:
            yield
        except Error:
            raise
        except Exception:
            executors.check_alive(self.frame.sparkSession)
            raise StateError(_FAILED) from None

    def _remove(self, place: str) -> None:
        """Remove early rows that were counted; a place that is gone is no error."""
        session: Any = self.frame.sparkSession
        with contextlib.suppress(Exception):
            path = session._jvm.org.apache.hadoop.fs.Path(place)
            path.getFileSystem(session._jsc.hadoopConfiguration()).delete(path, True)


@dataclass(frozen=True)
class _Read:
    """How far a query was read.

    batch: the last one.
    early: the last step that each batch with early rows has rows of.
    taken: the step whose early rows are counted.
    """

    query: str | None = None
    batch: int = -1
    early: Mapping[int, int] = field(default_factory=dict)
    taken: int = 0

    @classmethod
    def of(cls, note: Any) -> _Read:
        try:
            if note is None:
                return cls()
            early = {int(number): int(last) for number, last in note["early"].items()}
            return cls(note["query"], int(note["batch"]), early, int(note["taken"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise StateError(
                "The note of this stream tells of no query: its rows did not come from Spark."
            ) from None

    def after(self, number: int, step: int, last: int) -> _Read:
        """What is read once a batch is in."""
        early = {one: end for one, end in self.early.items() if end >= step}
        early |= {number: last} if last > step else {}
        return replace(self, batch=number, early=early, taken=step)

    @property
    def note(self) -> dict[str, Any]:
        early = {str(number): last for number, last in self.early.items()}
        return {"query": self.query, "batch": self.batch, "early": early, "taken": self.taken}


def _cut(
    reader: Reader, calendar: Calendar, late: Late, step: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of one task, with their steps; rows of no step are dropped."""
    import polars as pl
    import pyarrow as pa

    first = next(batches, None)
    if first is None:
        return
    stream = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
    for table in arrow.tables(stream):
        found: Any = pl.from_arrow(table)
        rows = reader.read(found)
        steps = steps_of(rows, calendar, late, step)
        known = rows.frame.with_columns(
            pl.Series(_STEP, steps, pl.Int64), pl.Series(_GONE, rows.deletes, pl.Boolean)
        ).filter(pl.Series(steps > 0))
        made = known.to_arrow(compat_level=pl.CompatLevel.oldest())
        short = [
            one.with_type(pa.string()) if pa.types.is_large_string(one.type) else one
            for one in made.schema
        ]
        yield from made.cast(pa.schema(short)).to_batches()


def _session() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError("Spark needs its client: pip install 'tailrace[spark]'.") from None
    try:
        return SparkSession.builder.getOrCreate()
    except Exception:
        raise ConfigError(
            "Spark cannot be started: check its master, its settings, and that Java is installed."
        ) from None


def unguarded(session: Any) -> list[str]:
    """Say which settings of Spark leave rows readable, in places that it writes."""
    said = []
    for name, (wanted, everywhere, why) in _GUARDED.items():
        beside = everywhere or not str(session.sparkContext.master).startswith("local")
        if beside and str(session.conf.get(name, "false")).strip().lower() != wanted:
            said.append(f"{why}: set {name}={wanted}, or make the place private.")
    return said
