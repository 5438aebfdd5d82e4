"""Open the stream, source and sinks of a configuration."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace import sources
from tailrace.config import Config
from tailrace.domain.geometry import Roads
from tailrace.errors import ConfigError, Mismatch, StateError
from tailrace.ledger import population_name
from tailrace.mechanisms.base import Takes
from tailrace.privacy.unit import Event, User, Window
from tailrace.sources.cut import late_rows
from tailrace.storage.store import peek
from tailrace.stream.directory import mechanism_of
from tailrace.stream.stream import Stream
from tailrace.stream.verify import last_step, public_table, verify_public

if TYPE_CHECKING:
    import polars as pl


def open_stream(config: Config, held: dict[Any, Any] | None = None) -> Stream:
    """The stream of a configuration, made where there is none yet.

    `held` takes what was read of the source meanwhile, for `open_source`.
    """
    if not config.path.exists():
        _rehearse(config, {} if held is None else held)
        rows = _taken_over(config)
        stream = Stream.create(
            config.path,
            config.mechanism,
            population=config.population,
            ledger=config.ledger,
            calendar=config.calendar,
            full=config.full,
            after=None if config.after is None else config.after.name,
        )
        return _begun(stream, rows)
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
    return stream if stream.step else _begun(stream, _taken_over(config))


# Which streams go on from another one.
ONLY = (
    'is for histograms, tables and places of single events (unit = { kind = "Event" }), without '
    'amounts, retention or full = "none"'
)


def goes_on(mechanism: Any, full: str) -> bool:
    """Whether a stream can begin with the table of another, as its first rows."""
    events = mechanism.takes is Takes.Events and mechanism.rounds == 1
    alone = isinstance(mechanism.unit, Event) and getattr(mechanism, "retention", None) is None
    return (
        events and alone and full != "none" and mechanism.rows.columns == mechanism.domain.columns
    )


def _taken_over(config: Config) -> pl.DataFrame | None:
    """The last table of the stream before, from its public files.

    Given what that stream released, its rows are the same whatever is in the data. So no record
    moves them, and the loss of the new stream stays what it is without them.
    """
    if config.after is None:
        return None
    stands = "is not there yet"
    if config.after.exists():
        (about,) = peek(config.after / "private", "about")
        step, horizon = last_step(config.after / "releases"), mechanism_of(about).horizon
        if step == horizon:
            verify_public(config.after / "releases")
            return public_table(config.after / "releases", step)
        stands = f"stands at step {step} of {'no end' if horizon is None else horizon}"
    raise StateError(
        f"{config.after.name} {stands}, and this stream goes on from its last step: run it to its "
        "end first."
    )


def _begun(stream: Stream, rows: pl.DataFrame | None) -> Stream:
    """The stream with the rows taken over, once: after a run that was cut off, too."""
    if rows is not None:
        try:
            stream.add(rows, key="after")
        except BaseException:
            stream.close()
            raise
    return stream


def _as_kept(config: Config, kept: Any) -> Any:
    """The mechanism asked for, with keys left out as they were when the stream was made."""
    asked: Any = config.mechanism
    if type(asked) is not type(kept):
        return asked
    written = {name: getattr(asked, name) for name in config.written & {*vars(asked)}}
    domain = asked.domain
    if isinstance(domain, Roads):
        domain = domain.as_kept(kept.domain)
    try:
        return replace(kept, domain=domain, **written)
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
