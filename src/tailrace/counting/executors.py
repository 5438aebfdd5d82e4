"""Counting on Spark's executors: counts come to the driver, rows do not.

A task runs the library's own code over its rows, as Arrow batches. So every plan is counted as in
memory, to the last cell, and a plan's groups or marginals are all that leaves a task. Spark adds
the counts of tasks up; the driver gets one row for each count that is not 0, at most `plan.size`:
a public number, which is compared with Spark's own limit before anything runs.

Executors need what the driver has: this version of Tailrace, and PyArrow.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from tailrace.domain.columns import kinds
from tailrace.errors import ConfigError, DataError, StateError

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.counting.plan import Plan

# Bytes of a count and its number in Arrow.
_BYTES = 16
_POWERS = {"": 0, "b": 0} | {one + b: i for i, one in enumerate("kmgtp", 1) for b in ("", "b")}
_LIMIT = "spark.driver.maxResultSize"


def on_spark(rows: Any) -> bool:
    """Whether rows lie in Spark, and can be counted there."""
    return isinstance(rows, nw.LazyFrame) and (
        rows.implementation.is_pyspark() or rows.implementation.is_pyspark_connect()
    )


def session_of(rows: nw.LazyFrame[Any]) -> Any:
    """The session that a frame belongs to."""
    return getattr(rows.to_native(), "sparkSession", None)


def counted(plan: Plan, rows: nw.LazyFrame[Any]) -> np.ndarray:
    """The counts of a plan, from rows in Spark."""
    native = chosen(rows, plan.codes.columns)
    check_size(native.sparkSession, plan.size)
    parts = mapped(native, functools.partial(_counts, plan), {"number": "long", "rows": "long"})
    return added_up(parts, plan.size)["rows"]


def _counts(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The counts of one task."""
    import pyarrow as pa

    first = next(batches, None)
    if first is not None:
        stream = itertools.chain([first], batches)
        yield sparse(rows=plan.count(pa.RecordBatchReader.from_batches(first.schema, stream)))


def sparse(**columns: np.ndarray) -> pa.RecordBatch:
    """Counts that are not 0, by their number."""
    import pyarrow as pa

    some = np.flatnonzero(np.logical_or.reduce(list(columns.values())))
    return pa.RecordBatch.from_pydict(
        {"number": some, **{name: values[some] for name, values in columns.items()}}
    )


def added_up(parts: Any, size: int) -> dict[str, np.ndarray]:
    """Fetch counts of tasks, added up by number."""
    names = [name for name in parts.columns if name != "number"]
    found = parts.groupBy("number").sum(*names).toArrow()
    sums = {}
    for name in names:
        sums[name] = np.zeros(size, np.int64)
        sums[name][found["number"].to_numpy()] = found[f"sum({name})"].to_numpy()
    return sums


def chosen(rows: nw.LazyFrame[Any], columns: Iterable[str], *, time: str | None = None) -> Any:
    """Some columns of a frame, in types that Arrow and Spark write alike.

    `time` stays as it is: a time as text would have lost its zone.
    """
    names = list(dict.fromkeys(columns))
    found, types = kinds(rows, names), rows.collect_schema()

    def read(name: str) -> nw.Expr:
        if found[name] in ("time", "null") and name != time:
            return nw.col(name).cast(nw.String)
        return nw.col(name).cast(nw.Float64) if types[name].is_decimal() else nw.col(name)

    return rows.select(*map(read, names)).to_native()


def check_size(session: Any, size: int) -> None:
    """Refuse counts that may be more than the driver takes."""
    text = str(_asked(session, lambda: session.conf.get(_LIMIT, "1g"))).strip().lower()
    number = re.fullmatch(r"([0-9]+)\s*([a-z]*)", text)
    most = int(number[1]) << 10 * _POWERS.get(number[2], 0) if number else 1 << 30
    # 0 is no limit.
    if most and size * _BYTES > most:
        raise ConfigError(
            f"This plan has {size:,} counts, which may bring {size * _BYTES:,} bytes to the driver "
            f"of Spark; {_LIMIT} allows {most:,}. Raise it, or use a coarser domain."
        )


def cores(session: Any) -> int:
    """The cores that Spark has, which are public; 8 where it does not say."""
    context = getattr(session, "_sc", None)
    if context is None:
        return 8
    return max(1, int(_asked(session, lambda: context.defaultParallelism)))


def _asked(session: Any, question: Callable[[], Any]) -> Any:
    """What Spark answers, where it still does."""
    try:
        return question()
    except Exception:
        check_alive(session)
        raise


def mapped(frame: Any, task: Callable[..., Any], columns: Mapping[str, str]) -> Any:
    """A frame whose parts go through a task in Arrow."""
    quoted = {name.replace("`", "``"): kind for name, kind in columns.items()}
    schema = ", ".join(f"`{name}` {kind}" for name, kind in quoted.items())
    with _python(frame.sparkSession):
        return frame.mapInArrow(functools.partial(_checked, _version(), task), schema)


@contextlib.contextmanager
def explained(session: Any, folder: Path | None = None) -> Iterator[None]:
    """Say what executors lack; hide all other errors, which may quote data.

    `folder`: what tasks read and write lies there.
    """
    try:
        yield
    except (ConfigError, DataError):
        raise
    except Exception:
        check_alive(session)
        _probe(session, folder)
        raise DataError(
            "The pyspark frame could not be computed; collect it yourself to see why."
        ) from None


def check_alive(session: Any) -> None:
    """Refuse a classic session whose JVM is gone, or stopped."""
    context = getattr(session, "_sc", None)
    try:
        ended = context is not None and bool(context._jsc.sc().isStopped())
    except Exception:
        ended = True
    if ended:
        raise StateError(
            "Spark ended: its JVM was killed, or the session was stopped. Start it and run again: "
            "each batch counts once."
        ) from None


def _probe(session: Any, folder: Path | None) -> None:
    """Refuse executors that cannot run a task at all, or do not see its folder."""
    try:
        task = functools.partial(_seen, None if folder is None else str(folder))
        seen = mapped(session.range(1), task, {"id": "long"}).toArrow()["id"].to_pylist()
    except Exception:
        raise ConfigError(
            f"Spark's executors cannot run Tailrace {_version()}: install this version of it there "
            "with PyArrow, and let PYSPARK_PYTHON name their Python."
        ) from None
    if not all(seen):
        raise ConfigError(
            "Spark's executors cannot use the folder of the stream: where people are told apart, "
            "it must lie on a disk that they share with the driver, under the same path, and they "
            "must run as the same user."
        )


def _seen(folder: str | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Whether a task sees a folder, as 1 or 0."""
    import pyarrow as pa

    for batch in batches:
        seen = folder is None or os.access(folder, os.R_OK | os.W_OK | os.X_OK)
        yield pa.RecordBatch.from_pydict({"id": pa.array([int(seen)] * len(batch), pa.int64())})


def _checked(version: str, task: Callable[..., Any], *given: Any) -> Any:
    """Run a task of the driver's version of Tailrace."""
    if version != _version():
        raise ConfigError("The executors have another version of Tailrace than the driver.")
    return task(*given)


def _version() -> str:
    import tailrace

    return tailrace.__version__


@contextlib.contextmanager
def _python(session: Any) -> Iterator[None]:
    """Let executors on this machine run this Python, where nothing else was said."""
    context = getattr(session, "_sc", None)
    if context is None or not str(context.master).startswith("local") or _named(context):
        yield
        return
    before, context.pythonExec = context.pythonExec, sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


def _named(context: Any) -> bool:
    """Whether it was said which Python executors run."""
    return "PYSPARK_PYTHON" in os.environ or "spark.pyspark.python" in dict(context._conf.getAll())
