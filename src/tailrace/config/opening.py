"""Open the stream, source and sinks of a configuration."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tailrace import sources
from tailrace.config import Config
from tailrace.errors import ConfigError, Mismatch
from tailrace.ledger import population_name
from tailrace.privacy.unit import User, Window
from tailrace.sources.cut import late_rows
from tailrace.storage.store import peek
from tailrace.stream.stream import Stream


def open_stream(config: Config, held: dict[Any, Any] | None = None) -> Stream:
    """The stream of a configuration, made where there is none yet.

    `held` takes what was read of the source meanwhile, for `open_source`.
    """
    if not config.path.exists():
        _rehearse(config, {} if held is None else held)
        return Stream.create(
            config.path,
            config.mechanism,
            population=config.population,
            ledger=config.ledger,
            calendar=config.calendar,
            full=config.full,
        )
    (about,) = peek(config.path / "private", "about")
    stream = Stream.open(config.path, ledger=config.ledger, full=config.full)
    for part, kept, asked in (
        ("population", population_name(about["population"]), population_name(config.population)),
        ("mechanism", stream.mechanism, _as_kept(config, stream.mechanism)),
        ("calendar", stream.calendar, config.calendar),
    ):
        # A default that changed since the stream was made is no other wish.
        if asked not in (kept, getattr(kept, "renewed", kept)):
            stream.close()
            raise Mismatch(
                f"{config.file.name} asks for another {part} than the one that {config.path.name} "
                "was made with: a stream keeps its promise by never changing. Undo the change, or "
                "name a new path, which is a new charge."
            )
    return stream


def _as_kept(config: Config, kept: Any) -> Any:
    """The mechanism asked for, with keys left out as they were when the stream was made."""
    asked: Any = config.mechanism
    if type(asked) is not type(kept):
        return asked
    written = {name: getattr(asked, name) for name in config.written & {*vars(asked)}}
    try:
        return replace(kept, domain=asked.domain, **written)
    except ConfigError:
        return asked


def _rehearse(config: Config, held: dict[Any, Any]) -> None:
    """Read step 1: a stream that cannot be read is neither made nor charged."""
    if not config.source.lasting:
        return
    with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
        used = sources.Used(Path(folder) / "files.json")
        source = open_source(config, remembered=used, held=held)
        if isinstance(source, sources.Feed):
            next(source.more(1, None), None)
        elif config.calendar is not None or source.ready(1):
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
        id=source.id,
        aliases=config.aliases,
        decimal=source.decimal,
        encoding=getattr(source, "encoding", "utf-8"),
        arrived=source.came,
        timezone="UTC" if config.calendar is None else config.calendar.timezone,
        trajectory=getattr(config.mechanism, "trajectory", None),
        order=getattr(config.mechanism, "order", None),
    )


def open_source(
    config: Config,
    *,
    live: bool = False,
    remembered: sources.Used | None = None,
    held: dict[Any, Any] | None = None,
) -> sources.Source | sources.Feed:
    """Where the rows come from; `live` does not wait for the end of standard input.

    `held` is what `open_stream` has read.
    """
    return config.source.open(
        sources.Given(
            reader=reader(config),
            calendar=config.calendar,
            late=late_rows(config.calendar, config.mechanism.takes),
            used=used(config) if remembered is None else remembered,
            live=live,
            held={} if held is None else held,
        )
    )


def used(config: Config) -> sources.Used:
    """What is remembered of the files."""
    return sources.Used(config.path / "private" / "files.json")
