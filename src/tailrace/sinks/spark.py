"""Tables that Spark's executors write, a folder for each step.

    step=000007/      the table of the step, as Spark's writer lays it out
    _steps/000007     its digest: a step is there once this file is

`spark.read.parquet(path)` reads all steps, with a column `step`. Where a stream keeps no table
(`full="none"`), executors also draw the rows: none of them comes to the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tailrace.calls import told
from tailrace.counting.jobs import session
from tailrace.errors import ConfigError, Error, StateError
from tailrace.sinks.base import digest
from tailrace.storage.durable import point
from tailrace.stream.drawn import strata_of
from tailrace.stream.release import Kind, Release


@told
@dataclass(frozen=True)
class SparkTables:
    """A folder that Spark writes, on disk or at a url.

    writes: the name of Spark's writer of folders: parquet, orc, csv, json.

    >>> SparkTables("s3a://ward/tables").writes
    'parquet'
    """

    path: str = field(metadata={"example": '"s3a://ward/tables"'})
    writes: str = "parquet"

    def __post_init__(self) -> None:
        for name in ("path", "writes"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise ConfigError(f"{name} must be a text: {name} of what Spark writes.")

    def holds(self) -> set[int]:
        spark = _session()
        with _explained():
            files, place = self._files(spark, "_steps")
            if not files.exists(place):
                return set()
            names = [one.getPath().getName() for one in files.listStatus(place)]
            return {int(name) for name in names if name.isdecimal()}

    def put(self, release: Release) -> None:
        if "step" in (name.lower() for name in release.types):
            raise ConfigError("Tables of Spark have a column 'step' of their own: rename yours.")
        spark = _session()
        # A release without rows of its own: they are drawn where they are written.
        there = not len(release.rows) and hasattr(release.view, "strata")
        name = strata_of(release).digest(release.step) if there else digest(release)
        with _explained():
            files, mark = self._files(spark, f"_steps/{release.step:06d}")
            if files.exists(mark):
                if _read(files, mark) != name:
                    raise StateError(
                        f"The tables of Spark hold a different release of step {release.step}: "
                        "releases are never replaced. Give this stream a sink of its own."
                    )
                return
            own = Kind("pyspark", spark)
            frame = release.drawn(spark) if there else own.frame(release.rows, release.types)
            point("sink, before")
            # What a run left that was cut off is written again.
            place = f"{self.path}/step={release.step:06d}"
            frame.write.format(self.writes).mode("overwrite").save(place)
            _write(files, mark, name)
            point("sink, after")

    def _files(self, spark: Any, name: str) -> tuple[Any, Any]:
        """Spark's file system, and a place in the folder."""
        place = spark._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{name}")
        return place.getFileSystem(spark._jsc.hadoopConfiguration()), place


def _session() -> Any:
    found = session()
    if found is None:
        raise ConfigError("Tables of Spark are written by a session: start Spark first.")
    return found


def _read(files: Any, place: Any) -> str:
    stream = files.open(place)
    try:
        return bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()


def _write(files: Any, place: Any, text: str) -> None:
    """Write a small file, which appears whole."""
    partial = place.suffix(".partial")
    stream = files.create(partial, True)
    stream.write(bytearray(text.encode()))
    stream.close()
    files.rename(partial, place)


@contextmanager
def _explained() -> Iterator[None]:
    """Errors of Spark in a sentence; its own may quote keys."""
    try:
        yield
    except Error:
        raise
    except Exception:
        raise StateError(
            "The tables of Spark cannot be read or written: check path, writes, the rights to it, "
            "and that nothing else writes there. Run again: a step goes in once."
        ) from None
