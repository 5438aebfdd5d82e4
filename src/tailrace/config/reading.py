"""Read a `stream.toml`, or say its line, key and fix."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, field, replace
from datetime import date, time
from pathlib import Path
from typing import Any, Literal

from tailrace.calendar import Calendar
from tailrace.config import Config, lines, parts
from tailrace.config.opening import ONLY, goes_on
from tailrace.config.problem import Problem, label, nearest, one_line, shown
from tailrace.domain import Categorical, attributes_of
from tailrace.errors import ConfigError
from tailrace.sinks import Sink
from tailrace.sources import Settings
from tailrace.sources.settings import Unfit

_NEEDED = {
    "stream": 'path = "ward.tail" and population = "patients of the ward"',
    "mechanism": 'kind = "HistogramStream", horizon, privacy and unit',
    "source": 'kind = "Folder", path and files',
}
# How tomllib begins what it says, and what to do about it.
_SYNTAX = (
    ("Expected '='", "write key = value"),
    ("Expected newline", "write one key to a line, and text in quotes"),
    ("Expected ']", "close the brackets around the name of the table"),
    (
        "Invalid value",
        'write a value after the equals sign, and text in quotes, for example "a"',
    ),
    ("Invalid initial", "a key is missing, needs quotes, or { } ends with a comma too many"),
    ("Invalid date", "there is no such date; write it as 2026-01-31 or 2026-01-31T06:00:00"),
    ("Cannot declare", "this table is here twice; keep one of them"),
    ("Cannot overwrite", "this key is here twice; keep one of them"),
    ("Duplicate inline", "this key is here twice; keep one of them"),
    ("Cannot", "this table is closed already; write all its keys in one place"),
    ("Unclosed array", "put commas between the values of the list, and ] at its end"),
    ("Unclosed inline", "put commas between the keys of the table, and } at its end"),
    ("Unterminated string", "close the text with a quote"),
    ("Illegal character '\\n'", "close the text with a quote on its own line"),
    ("Illegal character", "remove the character that cannot be seen"),
    ("Unescaped", "write a backslash twice, or the text in single quotes"),
)

_TOO_LONG = "a number is too long, or lists are too deep, to be read; shorten it."


@dataclass(frozen=True, kw_only=True)
class _Stream:
    """`[stream]`: where the stream is kept, and whose budget it is charged to."""

    path: Path = field(metadata={"example": '"ward.tail"'})
    population: str = field(metadata={"example": '"patients of the ward"'})
    ledger: Path | None = None
    full: Literal["checkpoints", "latest", "every", "none"] = "checkpoints"
    after: Path | None = None


def read(path: str | os.PathLike[str]) -> Config:
    """The configuration in the file at `path`."""
    try:
        file = Path(os.path.abspath(path))
        raw = file.read_bytes()
    except (OSError, TypeError, ValueError):
        name = os.path.basename(path) if isinstance(path, str | Path) else ""
        raise ConfigError(
            f"{one_line(name) or 'stream.toml'} cannot be read; name a stream.toml, or make one "
            f"with tailrace init."
        ) from None
    name = one_line(file.name)
    values, places = _parsed(raw, name)
    try:
        return _config(values, file)
    except Problem as problem:
        where = problem.where
        while where and where not in places:
            where = where[:-1]
        line = f", line {places[where]}" if where else ""
        raise ConfigError(f"{name}{line}: {problem.sentence}") from None
    except RecursionError:
        raise ConfigError(f"{name}: {_TOO_LONG}") from None


def _parsed(raw: bytes, name: str) -> tuple[dict[str, Any], dict[lines.Path, int]]:
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{name}, line {line}: this is not UTF-8 text; save the file as UTF-8."
        ) from None
    try:
        return tomllib.loads(text), lines.locate(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        found = re.search(r"\(at line (\d+)", said)
        line = int(found[1]) if found else text.rstrip().count("\n") + 1
        fix = next(
            (fix for start, fix in _SYNTAX if said.startswith(start)),
            "write tables as [name] and keys as key = value",
        )
        raise ConfigError(f"{name}, line {line}: not valid TOML: {fix}.") from None
    # A number of thousands of digits, or brackets hundreds deep.
    except (ValueError, RecursionError):
        raise ConfigError(f"{name}: {_TOO_LONG}") from None


def _config(values: dict[str, Any], file: Path) -> Config:
    _tables(values)
    stream = parts.settings(_Stream, values["stream"], ("stream",), file.parent)
    domain, *beside = [name for name in parts.domains() if name in values][::-1]
    space = parts.space(domain, values[domain], file.parent)
    if beside:
        space = parts.with_attributes(space, domain, values[beside[0]])
    source = parts.edge(parts.source_kinds(), values["source"], ("source",), file.parent)
    kinds = parts.sink_kinds()
    sinks = [
        parts.edge(kinds, table, ("sink", number), file.parent)
        for number, table in enumerate(values.get("sink", []))
    ]
    config = Config(
        file=file,
        **vars(stream),
        mechanism=parts.mechanism(values["mechanism"], space, (domain,)),
        written=frozenset(values["mechanism"]) - {"kind"},
        calendar=_calendar(values["calendar"], source) if "calendar" in values else None,
        source=source,
        aliases=_aliases(values.get("aliases", {}), space),
        sinks=tuple(sinks),
    )
    _check(config)
    return config


def _tables(values: dict[str, Any]) -> None:
    """Refuse a file without the tables that it needs, or with others."""
    known = [*_NEEDED, *parts.domains(), "calendar", "aliases", "sink"]
    for name, value in values.items():
        if name not in known:
            meant = nearest(name, known)
            there = ", ".join(f"[{table}]" for table in known)
            fix = f"did you mean [{meant}]?" if meant else f"there are {there}."
            raise Problem((name,), f"there is no table [{shown(name)}]; {fix}")
        listed = isinstance(value, list) and all(isinstance(table, dict) for table in value)
        if name == "sink" and not listed:
            why = "a sink is a table in two brackets, [[sink]], and its keys below it."
            raise Problem((name,), why)
        if name != "sink" and not isinstance(value, dict):
            raise Problem((name,), f"{name} must be one table, [{name}], with its keys below it.")
    for name, needed in _NEEDED.items():
        if name not in values:
            raise Problem((), f"the table [{name}] is missing; add it, with {needed}.")
    described = [name for name in values if name in parts.domains()]
    either = " or ".join(f"[{name}]" for name in parts.domains())
    if not described:
        why = f"the table {either} is missing; add one to say what the columns may hold."
        raise Problem((), why)
    grounds = [name for name in described if name != "schema"]
    if len(grounds) > 1:
        why = (
            f"[{grounds[1]}] is one description too many; keep only one of {either}, or [schema] "
            "with the attributes of places beside another."
        )
        raise Problem((grounds[1],), why)


def _calendar(table: dict[str, Any], source: Settings) -> Calendar:
    """Read `[calendar]`; rows that cannot be told from old ones are dropped when late."""
    start = table.get("start")
    text = {"start": start.isoformat()} if isinstance(start, date | time) else {}
    calendar = parts.build(Calendar, {**table, **text}, ("calendar",))
    drops = calendar.late is None and source.only_drops is not None
    return replace(calendar, late="drop") if drops else calendar


def _aliases(table: dict[str, Any], space: Any) -> dict[str, dict[str, str]]:
    """Read `[aliases.COLUMN]`: each line `"NYC" = "New York"`, a spelling and its value."""
    known = attributes_of(space)
    for column, spellings in table.items():
        where = ("aliases", column)
        listed = known.get(column)
        if not isinstance(listed, Categorical):
            several = [name for name, one in known.items() if isinstance(one, Categorical)]
            there = f"they are for {', '.join(several)}." if several else "there is none here."
            raise Problem(where, f"[aliases] are spellings of a Categorical of [schema]; {there}")
        if not isinstance(spellings, dict):
            why = 'is a table, with a line such as "NYC" = "New York" for each spelling.'
            raise Problem(where, f"[aliases.{shown(column)}] {why}")
        values = [str(value) for value in listed.values]
        for spelling, value in spellings.items():
            if value not in values:
                why = f"must stand for one of the values of {shown(column)} in [schema]."
                raise Problem((*where, spelling), f"[aliases.{shown(column)}] {why}")
            if spelling in values:
                why = "must not be a value of its own: a spelling stands for another one."
                raise Problem((*where, spelling), f"[aliases.{shown(column)}] {why}")
    return table


def _check(config: Config) -> None:
    """Refuse what does not go together."""
    _check_source(config)
    _check_deletes(config)
    _check_sinks(config)
    if config.after is not None and not goes_on(config.mechanism, config.full):
        raise Problem(("stream", "after"), f"[stream] after {ONLY}; remove it.")
    why = config.source.only_drops
    if config.calendar is not None and config.calendar.late == "next" and why is not None:
        raise Problem(("calendar", "late"), f"[calendar] late {why}")
    if config.ledger is not None and config.ledger.is_relative_to(config.path):
        raise Problem(
            ("stream", "ledger"),
            "[stream] ledger must lie outside path: a stream cannot vouch for itself.",
        )


def _check_source(config: Config) -> None:
    """Every row needs a step, and no release may come back as data."""
    try:
        timed = config.source.time or getattr(config.mechanism, "order", None)
        config.source.check(config.calendar)
        if config.source.format is not None and timed is None:
            raise Unfit(
                "format", "says how the column of time is written; add time, or remove format."
            )
        if config.source.reads(config.path.resolve()):
            raise Unfit(
                "path",
                "and its patterns must not reach into the stream's own folder: releases would come "
                "back as data.",
            )
    except Unfit as unfit:
        where = ("source",) if unfit.key is None else ("source", unfit.key)
        raise Problem(where, f"{label(where)} {unfit.why}") from None


def _check_deletes(config: Config) -> None:
    ways = [key for key in ("deletes", "op") if getattr(config.source, key, None) is not None]
    if ways and not config.mechanism.deletes:
        can = "deletes" in parts.keys(type(config.mechanism))
        fix = "write deletes = true in [mechanism], or remove" if can else "remove"
        why = f"brings deletes, which this mechanism does not take; {fix} {ways[0]}."
        raise Problem(("source", ways[0]), f"[source] {ways[0]} {why}")


def _check_sinks(config: Config) -> None:
    before: set[Sink] = set()
    for number, sink in enumerate(config.sinks):
        where, path = ("sink", number), getattr(sink, "path", None)
        if sink in before:
            twice = "[[sink]] is there twice, with the same settings; remove one of them."
            raise Problem(where, twice)
        before.add(sink)
        if _table(sink) is not None and _table(sink) == _table(config.source):
            raise Problem((*where, "table"), "[[sink]] table must not be the table of [source].")
        if not isinstance(path, Path):
            continue
        if path.resolve().is_relative_to(config.path.resolve()):
            why = "must lie outside the stream's own folder, which keeps every release anyway."
            raise Problem((*where, "path"), f"[[sink]] path {why}")
        if config.source.reads(path.resolve()):
            why = "must not be read by [source]: releases would come back as data."
            raise Problem((*where, "path"), f"[[sink]] path {why}")


def _table(edge: object) -> tuple[str, str] | None:
    """The table of a database that a source or sink names."""
    url, table = getattr(edge, "url", None), getattr(edge, "table", None)
    return (url, table) if url is not None and table is not None else None
