"""From a configuration to the things it names: the stream, its source and its sinks."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tailrace import sinks, sources
from tailrace.errors import DataError, Mismatch
from tailrace.ledger import population_name
from tailrace.privacy.unit import User, Window
from tailrace.sources.cut import Late, late_rows
from tailrace.storage.store import peek
from tailrace.stream.stream import Stream

if TYPE_CHECKING:
    from tailrace.config.models import Config, FolderSource, Sink


def open_stream(config: Config) -> Stream:
    """The stream of a configuration, made where there is none yet."""
    if not config.path.exists():
        _rehearse(config)
        return Stream.create(
            config.path,
            config.mechanism,
            population=config.population,
            ledger=config.ledger,
            calendar=config.calendar,
        )
    (about,) = peek(config.path / "private", "about")
    stream = Stream.open(config.path, ledger=config.ledger)
    for part, kept, asked in (
        ("population", population_name(about["population"]), population_name(config.population)),
        ("mechanism", stream.mechanism, config.mechanism),
        ("calendar", stream.calendar, config.calendar),
    ):
        if kept != asked:
            stream.close()
            raise Mismatch(
                f"{config.file.name} asks for another {part} than the one that {config.path.name} "
                f"was made with: a stream keeps "
                "its promise by never changing. Undo the change, or name a new path, which is a "
                "new charge."
            )
    return stream


def _rehearse(config: Config) -> None:
    """Read step 1 and forget it, so that a stream whose rows cannot be read is neither made nor
    charged.
    """
    if (
        config.source.kind == "Lines"
    ):  # can be read only once, and have no shape that could be wrong
        return
    with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
        source = open_source(config, remembered=sources.Used(Path(folder) / "files.json"))
        if config.calendar is not None or source.ready(1):
            source.batch(1)


def reader(config: Config) -> sources.Reader:
    """How the rows of the source are read."""
    unit, source = config.mechanism.unit, config.source
    return sources.Reader(
        domain=config.mechanism.domain,
        key=unit.column if isinstance(unit, User | Window) else None,
        time=source.time,
        format=source.format,
        op=source.op,
        arrived=getattr(source, "arrived", None),
        timezone="UTC" if config.calendar is None else config.calendar.timezone,
        trajectory=getattr(config.mechanism, "trajectory", None),
        order=getattr(config.mechanism, "order", None),
    )


def open_source(
    config: Config, *, live: bool = False, remembered: sources.Used | None = None
) -> sources.Source:
    """Where the rows come from; `live` does not wait for the end of standard input."""
    late = late_rows(config.calendar, config.mechanism.takes)
    read, source = reader(config), config.source
    if source.kind == "Lines":
        if sys.stdin is None:
            raise DataError(
                "Standard input is closed: pipe rows into it, as JSON, one object a line."
            )
        return sources.Lines(
            lines=_standard_input(), reader=read, calendar=config.calendar, live=live
        )
    if source.kind == "SqlTable":
        assert config.calendar is not None
        waits = late if source.arrived is not None else "drop"
        return sources.SqlTable(
            source.url, source.table, reader=read, calendar=config.calendar, late=waits
        )
    return _folder(config, source, read, late, used(config) if remembered is None else remembered)


def shelf(source: FolderSource) -> sources.Shelf:
    """The files of a folder."""
    if source.name is not None:
        return sources.named_shelf(source.path, source.name, source.deletes)
    return sources.Shelf(path=source.path, files=source.files or "*", deletes=source.deletes)


def used(config: Config) -> sources.Used:
    """What is remembered of the files."""
    return sources.Used(config.path / "private" / "files.json")


def open_sinks(config: Config) -> list[sinks.Sink]:
    """Where the releases go, besides the stream's own directory."""
    return [_sink(sink) for sink in config.sinks]


def _sink(sink: Sink) -> sinks.Sink:
    if sink.kind == "SqlTable":
        return sinks.SqlTable(sink.url, sink.table)
    if sink.kind == "CsvFolder":
        return sinks.CsvFolder(sink.path, formulas=sink.formulas)
    return sinks.ParquetFolder(sink.path)


def _standard_input() -> BinaryIO:
    """Not sys.stdin, which Python cannot let go of when it ends while a thread still reads from
    it.
    """
    return open(0, "rb", closefd=False)  # it lasts as long as the process


def _folder(
    config: Config, source: FolderSource, read: sources.Reader, late: Late, remembered: sources.Used
) -> sources.Source:
    if source.name is not None:
        assert config.calendar is not None
        return sources.NamedFiles(
            path=source.path,
            name=source.name,
            deletes=source.deletes,
            reader=read,
            calendar=config.calendar,
            used=remembered,
            late=late,
        )
    if config.calendar is not None:
        return sources.TimedFiles(
            shelf=shelf(source), reader=read, calendar=config.calendar, used=remembered, late=late
        )
    return sources.OrderedFiles(shelf=shelf(source), reader=read, used=remembered)
