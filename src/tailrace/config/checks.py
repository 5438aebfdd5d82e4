"""What the tables of a configuration must agree on, although each is right by itself."""

from __future__ import annotations

from pathlib import Path

from tailrace.config.models import Config, FolderSource, LinesSource, Sink, SqlSource, dated
from tailrace.config.parts import keys
from tailrace.config.problem import Problem, missing_key
from tailrace.errors import ConfigError


def check(config: Config) -> None:
    """Refuse what does not go together."""
    _steps(config)
    if isinstance(config.source, FolderSource):
        _files(config.source)
    _late(config)
    _deletes(config)
    _sinks(config)
    if config.ledger is not None and config.ledger.is_relative_to(config.path):
        raise Problem(
            ("stream", "ledger"),
            "[stream] ledger must lie outside path: a stream cannot vouch for itself.",
        )


def _steps(config: Config) -> None:
    """Every row needs a step: by the calendar, or by its file."""
    source = config.source
    ways = [key for key in ("time", "name") if getattr(source, key, None) is not None]
    if config.calendar is None:
        for key in ways:
            raise _source(
                key,
                f'needs [calendar]; add it with start = 2026-01-01 and period = "1 day", or remove '
                f"{key} here.",
            )
    elif len(ways) > 1:
        raise _source(
            "name", "and time are two ways to find the step of a row; remove one of them."
        )
    elif not ways and isinstance(source, FolderSource):
        raise Problem(
            ("source",),
            "[source] must say which step a row belongs to; add time (a column) or name (a pattern "
            "of the files' names), "
            "or remove [calendar].",
        )
    elif not ways:
        raise missing_key(("source",), "time", '"day"')
    if source.format is not None and source.time is None:
        raise _source(
            "format", "says how the column of time is written; add time, or remove format."
        )


def _files(source: FolderSource) -> None:
    if source.name is None and source.files is None:
        raise missing_key(("source",), "files", '"*.csv"')
    if source.name is not None and source.files is not None:
        raise _source(
            "files", "is not needed, since name says which files are read; remove one of them."
        )
    if source.deletes is not None and source.deletes in (source.files, source.name):
        raise _source(
            "deletes", "names the same files as those with insertions; keep the two apart."
        )
    if source.deletes is not None and source.name is not None:
        try:
            dated(source.deletes)
        except ConfigError as error:
            raise _source("deletes", str(error)) from None


def _late(config: Config) -> None:
    if config.calendar is None or config.calendar.late != "next":
        return
    if isinstance(config.source, LinesSource):
        raise Problem(
            ("calendar", "late"),
            '[calendar] late must be "drop" with lines from standard input: a row that is piped '
            "again would count twice.",
        )
    if isinstance(config.source, SqlSource) and config.source.arrived is None:
        raise Problem(
            ("calendar", "late"),
            '[calendar] late = "next" needs to know when a row of the table came; '
            'add arrived (a column) to [source], or write late = "drop".',
        )


def _deletes(config: Config) -> None:
    source = config.source
    ways = [key for key in ("deletes", "op") if getattr(source, key, None) is not None]
    if ways and not config.mechanism.deletes:
        allowed = (
            "write deletes = true in [mechanism], or "
            if "deletes" in keys(type(config.mechanism))
            else ""
        )
        raise _source(
            ways[0],
            f"brings deletes, which this mechanism does not take; {allowed}remove {ways[0]}.",
        )
    if len(ways) > 1:
        raise _source("op", "and deletes are two ways to say what is deleted; remove one of them.")
    if source.op is not None and source.op in (source.time, getattr(source, "arrived", None)):
        raise _source("op", "must be a column of its own, which holds insert or delete.")


def _sinks(config: Config) -> None:
    before: set[Sink] = set()
    for number, sink in enumerate(config.sinks):
        where = ("sink", number)
        if sink in before:
            raise Problem(
                where, "[[sink]] is there twice, with the same settings; remove one of them."
            )
        before.add(sink)
        if sink.kind == "SqlTable":
            if isinstance(config.source, SqlSource) and (sink.url, sink.table) == (
                config.source.url,
                config.source.table,
            ):
                raise Problem(
                    (*where, "table"), "[[sink]] table must not be the table of [source]."
                )
        elif sink.path.is_relative_to(config.path):
            raise Problem(
                (*where, "path"),
                "[[sink]] path must lie outside the stream's own folder, which keeps every release "
                "anyway.",
            )
        elif _is_read(config, sink.path):
            raise Problem(
                (*where, "path"),
                "[[sink]] path must not be read by [source]: releases would come back as data.",
            )
    if _is_read(config, config.path):
        raise _source(
            "path",
            "and its patterns must not reach into the stream's own folder: releases would come "
            "back as data.",
        )


def _is_read(config: Config, path: Path) -> bool:
    """Whether files in a folder would be read as data: it is the source's, or its patterns reach
    below that.
    """
    source = config.source
    if not isinstance(source, FolderSource):
        return False
    deep = any(
        "/" in pattern
        for pattern in (source.files, source.name, source.deletes)
        if pattern is not None
    )
    return path == source.path or (deep and path.is_relative_to(source.path))


def _source(key: str, rest: str) -> Problem:
    return Problem(("source", key), f"[source] {key} {rest}")
