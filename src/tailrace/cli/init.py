"""`tailrace init`: from a few answers to a stream.toml."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from tailrace.calendar import Calendar
from tailrace.cli import say
from tailrace.cli.asking import (
    EAST,
    JOURNEYS,
    NORTH,
    TIMES,
    among,
    ask,
    called,
    columns,
    someone,
    whole,
)
from tailrace.cli.declaring import aliases_of, attributes_of, beside
from tailrace.cli.kinds import KINDS, Kind, kind_of
from tailrace.cli.ledger import budget
from tailrace.config import load
from tailrace.config.template import Answers, write
from tailrace.domain import Box
from tailrace.domain.geometry.partition import DEEPEST
from tailrace.errors import ConfigError
from tailrace.privacy.loss import ApproxDP
from tailrace.privacy.unit import Event, User
from tailrace.sources.database import connect
from tailrace.sources.files import WRITTEN, is_encoding, names_in
from tailrace.sources.settings import check_format

# Cells a side of a Box that says nothing of them.
_CELLS = 1024


@dataclass(frozen=True, kw_only=True)
class Flags:
    """Flags of the command line; None where not given."""

    kind: str | None
    path: str | None
    population: str | None
    epsilon: str | None
    delta: str | None
    unit: str | None
    horizon: int | None
    column: list[str]
    alias: list[str]
    place: str | None
    area: str | None
    window: int | None
    trajectory: str | None
    order: str | None
    folder: str | None
    database: str | None
    table: str | None
    time: str | None
    format: list[str] | None
    start: str | None
    period: str | None
    timezone: str | None
    id: str | None
    decimal: str | None
    encoding: str | None
    csv: str | None


def write_configuration(to: Path, like: Path | None, flags: Flags) -> None:
    """Ask for missing answers and write a stream.toml."""
    if to.exists():  # before anything is asked
        raise ConfigError(f"{to} is there already: choose another name with --to.")
    names = _names(flags, like)
    say.interruptible()
    answers = _answers(flags, names, like)
    say.write_new(to, write(answers).encode(), check=load)
    say.tell(f"Wrote {to}. Look it over, then: tailrace check {to}, and tailrace run {to}.")
    say.tell(*needs(load(to).mechanism))


def needs(mechanism: Any) -> list[str]:
    """Say how many journeys are needed, where that is a matter of their number."""
    many = getattr(mechanism, "needed", 0)
    if not many:
        return []
    people = isinstance(mechanism.unit, User) and mechanism.unit.events is None
    those = "people" if people else "journeys"
    return [
        f"With less than about {many:,.0f} {those} no journeys are drawn at this epsilon: they "
        "would be worse than none."
    ]


def _names(flags: Flags, like: Path | None) -> list[str]:
    """The columns of a file, or of a database's table; rows are not looked at."""
    if flags.database is None:
        encoding = flags.encoding or "utf-8"
        if not is_encoding(encoding):
            raise ConfigError(f"encoding {WRITTEN}")
        return [] if like is None else names_in(like, encoding=encoding)
    if flags.table is None:
        raise ConfigError("--database needs the name of a table: say it with --table.")
    with connect(flags.database, write=False) as database:
        names = list(database.columns(flags.table))
    if not names:
        raise ConfigError("There is no such table in that database: --table names one of its own.")
    return names


_PUBLIC = (
    "Everything you answer is public and stands in the file: answer from what everybody knows, "
    "never by looking at the data."
)


def _answers(flags: Flags, names: list[str], like: Path | None) -> Answers:
    if names:
        say.tell(columns(names))
    if flags.kind is None and someone():
        say.tell("Name a column, or say its number. " + _PUBLIC, "What is one row?")
        say.tell(*(f"  {name:<10} {one.row}" for name, one in KINDS.items()))
    kind = ask(flags.kind, "--kind", "What is one row?", "table", kind_of)
    assert isinstance(kind, Kind)
    whose = "Whose data are these?"
    population = ask(flags.population, "--population", whose, "patients of the ward")
    tail = "stream.tail" if like is None else f"{like.stem}.tail"
    path = ask(flags.path, "--path", "Folder for the stream?", tail, offer=tail)
    timed, calendar = ({}, None) if kind.once else _calendar(flags, names)
    if calendar is None:
        _no_calendar(flags, kind)
    unit = ask(flags.unit, "--unit", kind.who, kind.example, _unit(kind, names))
    more = _more(kind, flags, names)
    if kind.once:
        timed = _form(flags, "numbers or ISO")
    taken = [*timed.values(), *more.values(), unit.column if isinstance(unit, User) else None]
    left = [name for name in names if name not in taken]
    places = _places(flags, names, left) if kind.placed else None
    if places is None:
        attributes = attributes_of(kind, flags.column, names, left)
    elif kind.described:
        attributes = beside(flags.column, names, asked=flags.kind is None)
        places |= _cells(attributes)
    else:
        attributes = ()
    aliases = aliases_of(flags.alias, dict(attributes), asked=flags.kind is None)
    every = "Epsilon over all steps?"
    epsilon = ask(
        flags.epsilon, "--epsilon", every, "1", lambda text: budget(text).epsilon, offer="1"
    )
    delta = flags.delta
    if kind.gaussian:
        question = "Delta, the chance that the promise fails (less than one in all people)?"
        delta = ask(flags.delta, "--delta", question, "1e-6", _delta, offer="1e-6")
    horizon = 1 if kind.once else flags.horizon
    if horizon is None:
        steps = "How many steps at most?"
        horizon = ask(None, "--horizon", steps, "365", whole, offer="365")
    named = _named_rows(kind, flags, names, left)
    written = _written(flags, like, numbers=kind.placed or _numbers(attributes))
    source = _folder(flags, like) if flags.database is None else _database(flags, timed)
    return Answers(
        path=path,
        population=population,
        mechanism=kind.mechanism,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        horizon=horizon,
        more=more,
        attributes=attributes,
        aliases=aliases,
        places=places,
        calendar=calendar,
        source={**source, **timed, **named, **written},
        sinks=() if flags.csv is None else ({"kind": "CsvFolder", "path": flags.csv},),
    )


def _cells(attributes: tuple[tuple[str, Any], ...]) -> dict[str, int]:
    """Fewer cells a side than usual, where many values leave no room for these."""
    bits = sum((one.size - 1).bit_length() for _, one in attributes)
    most = 1 << max(DEEPEST - bits, 2) // 2
    return {"cells": most} if most < _CELLS else {}


def _unit(kind: Kind, names: list[str]) -> Callable[[str], Event | User]:
    def made(text: str) -> Event | User:
        unit = kind.unit(text)
        return replace(unit, column=among(names)(unit.column)) if isinstance(unit, User) else unit

    return made


def _delta(text: str) -> str:
    ApproxDP(epsilon=1, delta=text)
    return text


def _numbers(attributes: tuple[tuple[str, Any], ...]) -> bool:
    return any(not hasattr(one, "values") for _, one in attributes)


def _folder(flags: Flags, like: Path | None) -> dict[str, str]:
    """The table of a source of files."""
    question, beside = (
        "In which folder do files arrive?",
        None if like is None else str(like.parent),
    )
    folder = ask(flags.folder, "--folder", question, "incoming", offer=beside)
    files = "*.csv" if like is None else f"*{like.suffix}"
    if like is not None and folder == ".":
        # exports and other tables may come to lie beside this file: they are no rows
        files = like.name
    return {"kind": "Folder", "path": folder, "files": files}


def _database(flags: Flags, timed: dict[str, Any]) -> dict[str, str]:
    """The table of a source in a database."""
    if "time" not in timed:
        raise ConfigError("A table of a database is cut by time: name its column with --time.")
    assert flags.database is not None and flags.table is not None
    return {"kind": "SqlTable", "url": flags.database, "table": flags.table}


def _named_rows(kind: Kind, flags: Flags, names: list[str], left: list[str]) -> dict[str, str]:
    """The column that tells rows apart, where a row may come twice."""
    asked = flags.kind is None and kind.repeats and left and someone()
    if flags.id is None and not asked:
        return {}
    question = "Which column names a row, where the same row may come twice? (none: no row does)"
    name = ask(flags.id, "--id", question, "none", among(names, "none"), offer="none")
    return {} if name == "none" else {"id": name}


def _written(flags: Flags, like: Path | None, *, numbers: bool) -> dict[str, str]:
    """How letters and numbers are written, where not as usual."""
    found = {} if flags.encoding is None else {"encoding": flags.encoding}
    asked = flags.kind is None and numbers and like is not None and like.suffix == ".csv"
    if flags.decimal is None and not (asked and someone()):
        return found
    question = "How are decimals written: 1.5 or 1,5?"
    sign = ask(flags.decimal, "--decimal", question, ",", _decimal, offer="1.5")
    return found if sign == "." else {**found, "decimal": sign}


def _decimal(text: str) -> str:
    sign = text.strip("0123456789 ")
    if sign not in (".", ","):
        raise ConfigError("Decimals are written with a point, 1.5, or with a comma, 1,5.")
    return sign


def _more(kind: Kind, flags: Flags, names: list[str]) -> dict[str, Any]:
    """The keys that only this kind of mechanism has."""
    if kind.mechanism == "PanelWindow":
        question = "How many steps in a row may questions be about?"
        window = flags.window or ask(None, "--window", question, "3", whole, offer="3")
        return {"window": window, "neighbours": {"kind": "AddRemove"}}
    if kind.mechanism in ("Trajectories", "JourneyStream"):
        which, when = "Which column says which journey it is?", "Which column orders its points?"
        trip, minute = called(names, JOURNEYS), called(names, TIMES)
        one = among(names)
        return {
            "trajectory": ask(flags.trajectory, "--trajectory", which, "trip", one, offer=trip),
            "order": ask(flags.order, "--order", when, "minute", one, offer=minute),
        }
    return {}


def _places(flags: Flags, names: list[str], left: list[str]) -> dict[str, Any]:
    """The table of a box, or of a region in a file."""

    def two(text: str) -> list[str]:
        try:
            found = shlex.split(text.replace(",", " "))
        except ValueError:
            found = []
        if len(found) != 2:
            raise ConfigError(
                "--place names two columns, x and y, for example 'lon lat'; a name with blanks "
                "in quotes."
            )
        return [among(names)(one) for one in found]

    x, y = called(left, EAST), called(left, NORTH)
    offer = shlex.join((x, y)) if x and y else None
    question = "Which two columns hold x and y?"
    found = ask(flags.place, "--place", question, "lon lat", two, offer=offer)
    question = "Which area: west south east north, or a file of GeoJSON with its border?"
    area = ask(flags.area, "--area", question, "13.0 52.3 13.8 52.7", _area)
    return {"columns": found, **area}


def _area(text: str) -> dict[str, Any]:
    if text.lower().endswith((".geojson", ".json", ".parquet", ".geoparquet")):
        if someone() and not Path(text).is_file():
            raise ConfigError("There is no such file here.")
        return {"path": text}
    try:
        west, south, east, north = map(float, text.replace(",", " ").split())
    except ValueError:
        raise ConfigError(
            "--area is four numbers, west south east north, or a file of GeoJSON or GeoParquet."
        ) from None
    Box(low=(west, south), high=(east, north), columns=("x", "y"))
    return {"low": [west, south], "high": [east, north]}


def _calendar(flags: Flags, names: list[str]) -> tuple[dict[str, Any], Calendar | None]:
    """Column and format of times with their calendar, or nothing."""
    time = flags.time
    if time is None and someone():
        question = "Which column says when a row happened? (none: every file is a step)"
        # Not offered unseen: without times every file is one step.
        offer = called(names, TIMES)
        time = ask(None, "--time", question, "day", among(names, "none"), offer=offer)
    if time is None or time == "none":
        return {}, None
    time = ask(time, "--time", "Which column says when a row happened?", "day", among(names))
    forms = _form(flags, "ISO")
    january = date.today().replace(month=1, day=1).isoformat()
    begin, length = "When does step 1 begin?", "How long is a step?"
    start = ask(flags.start, "--start", begin, january, _of_calendar("start"), offer=january)
    period = ask(flags.period, "--period", length, "1 day", _of_calendar("period"), offer="1 day")
    where = "In which time zone?"
    zone = ask(flags.timezone, "--timezone", where, "UTC", _of_calendar("timezone"), offer="UTC")
    return {"time": time, **forms}, Calendar(start=start, period=period, timezone=zone)


def _of_calendar(key: str) -> Callable[[str], str]:
    def checked(text: str) -> str:
        given: dict[str, Any] = {"start": "2026-01-01", "period": "1 day", key: text}
        Calendar(**given)
        return text

    return checked


def _form(flags: Flags, usual: str) -> dict[str, Any]:
    """How times are written, where not in ISO 8601."""
    forms = flags.format
    if forms is None and someone():
        question = f"How are times written? ({usual}, or a pattern; of several: %d.%m.%Y or ISO)"
        forms = ask(None, "--format", question, "%d.%m.%Y", _forms, offer="ISO")
    if forms is None or forms == ["ISO"]:
        return {}
    return {"format": forms[0] if len(forms) == 1 else forms}


def _forms(text: str) -> list[str]:
    forms = ["ISO" if one.lower() in ("iso", "numbers") else one for one in text.split(" or ")]
    check_format(forms)
    return forms


def _no_calendar(flags: Flags, kind: Kind) -> None:
    """Refuse flags of a calendar where every file is a step."""
    for flag in ("start", "period", "timezone", *([] if kind.once else ["format"])):
        if getattr(flags, flag) is not None:
            raise ConfigError(
                f"--{flag} needs to know when a row happened: name the column of times with --time."
            )
