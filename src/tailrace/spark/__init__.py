"""Tailrace on Spark: release the steps of a streaming frame.

Frames of Spark can be pushed and added like any other, and are counted on executors. Here a stream
follows a query of Structured Streaming (`sources/spark.py` says how each batch counts once).
"""

from __future__ import annotations

import os
import time as clock
from collections.abc import Iterator, Sequence
from typing import Any

from tailrace import pipeline
from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.privacy.unit import User, Window
from tailrace.sinks.base import Sink
from tailrace.sources.cut import late_rows
from tailrace.sources.reading import Reader
from tailrace.sources.spark import SparkFeed
from tailrace.stream.release import Release
from tailrace.stream.stream import Stream

__all__ = ["run"]


@told
def run(
    stream: Stream,
    frame: Any,
    sinks: Sequence[Sink] = (),
    *,
    time: str,
    checkpoint: str | os.PathLike[str],
    format: str | Sequence[str] | None = None,  # noqa: A002
    op: str | None = None,
    every: float | None = None,
    replaces: str | None = None,
) -> Iterator[Release]:
    """Count a streaming frame of Spark; release the steps that close.

    Each call takes what is there, releases what the clock has closed, and ends; with `every`, it
    looks again after so many seconds, until the horizon. It may be stopped or killed at any moment:
    the next call goes on, and each batch counts once.

    Parameters
        stream: with a calendar, which says the step of a row.
        frame: of `spark.readStream`, whatever it reads.
        time: the column of a row's time; `format` says how it is written, where not in ISO 8601.
        checkpoint: a folder of Spark's, which must last as long as the stream. Rows that come
            before their step lie there too: it is as private as the rows.
        op: the column that says insert or delete.
        replaces: the id of a query whose checkpoint was lost. An error says it.
    """
    if stream.calendar is None:
        raise ConfigError(
            "Rows of Spark are cut into steps by a calendar: make the stream with calendar=."
        )
    if every is not None and not (isinstance(every, int | float) and every >= 0):
        raise ConfigError("every must be a number of seconds, for example every=60.")
    mechanism: Any = stream.mechanism
    unit = mechanism.unit
    feed = SparkFeed(
        frame,
        os.fspath(checkpoint),
        reader=Reader(
            domain=mechanism.domain,
            key=unit.column if isinstance(unit, User | Window) else None,
            time=time,
            format=format,
            op=op,
            timezone=stream.calendar.timezone,
            trajectory=getattr(mechanism, "trajectory", None),
            order=getattr(mechanism, "order", None),
        ),
        calendar=stream.calendar,
        late=late_rows(stream.calendar, mechanism.takes),
        replaces=replaces,
    )
    while True:
        yield from pipeline.run(stream, feed, sinks)
        if every is None or stream.step == mechanism.horizon:
            return
        clock.sleep(every)
