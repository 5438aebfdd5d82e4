"""Check that the tables of a configuration agree."""

from __future__ import annotations

from pathlib import Path

from tailrace.config import Config
from tailrace.config.parts import keys
from tailrace.config.problem import Problem, label
from tailrace.sinks import Sink
from tailrace.sources.settings import Unfit


def check(config: Config) -> None:
    """Refuse what does not go together."""
    _source(config)
    _late(config)
    _deletes(config)
    _sinks(config)
    if config.ledger is not None and config.ledger.is_relative_to(config.path):
        raise Problem(
            ("stream", "ledger"),
            "[stream] ledger must lie outside path: a stream cannot vouch for itself.",
        )


def _source(config: Config) -> None:
    """Every row needs a step, and no release may come back as data."""
    try:
        config.source.check(config.calendar)
        if config.source.reads(config.path.resolve()):
            raise Unfit(
                "path",
                "and its patterns must not reach into the stream's own folder: releases would come "
                "back as data.",
            )
    except Unfit as unfit:
        where = ("source",) if unfit.key is None else ("source", unfit.key)
        raise Problem(where, f"{label(where)} {unfit.why}") from None


def _late(config: Config) -> None:
    why = config.source.only_drops
    if config.calendar is not None and config.calendar.late == "next" and why is not None:
        raise Problem(("calendar", "late"), f"[calendar] late {why}")


def _deletes(config: Config) -> None:
    ways = [key for key in ("deletes", "op") if getattr(config.source, key, None) is not None]
    if ways and not config.mechanism.deletes:
        allowed = (
            "write deletes = true in [mechanism], or "
            if "deletes" in keys(type(config.mechanism))
            else ""
        )
        raise Problem(
            ("source", ways[0]),
            f"[source] {ways[0]} brings deletes, which this mechanism does not take; "
            f"{allowed}remove {ways[0]}.",
        )


def _sinks(config: Config) -> None:
    before: set[Sink] = set()
    own = config.path.resolve()
    for number, sink in enumerate(config.sinks):
        where = ("sink", number)
        if sink in before:
            raise Problem(
                where, "[[sink]] is there twice, with the same settings; remove one of them."
            )
        before.add(sink)
        path = getattr(sink, "path", None)
        if _table(sink) is not None and _table(sink) == _table(config.source):
            raise Problem((*where, "table"), "[[sink]] table must not be the table of [source].")
        if isinstance(path, Path) and path.resolve().is_relative_to(own):
            raise Problem(
                (*where, "path"),
                "[[sink]] path must lie outside the stream's own folder, which keeps every release "
                "anyway.",
            )
        if isinstance(path, Path) and config.source.reads(path.resolve()):
            raise Problem(
                (*where, "path"),
                "[[sink]] path must not be read by [source]: releases would come back as data.",
            )


def _table(edge: object) -> tuple[str, str] | None:
    """The table of a database that a source or sink names."""
    url, table = getattr(edge, "url", None), getattr(edge, "table", None)
    return (url, table) if url is not None and table is not None else None
