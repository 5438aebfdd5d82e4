"""`tailrace init`: questions, answered by flags or at the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tailrace.calendar import Calendar
from tailrace.cli import say
from tailrace.cli.kinds import KINDS, Kind, kind_of
from tailrace.cli.ledger import budget
from tailrace.config import load
from tailrace.config.template import Answers, attribute, write
from tailrace.domain import Attribute
from tailrace.errors import ConfigError
from tailrace.privacy.unit import Event, User
from tailrace.sources.database import connect
from tailrace.sources.files import names_in


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
    csv: str | None


def write_configuration(to: Path, like: Path | None, flags: Flags) -> None:
    """Ask for missing answers and write a stream.toml."""
    if to.exists():  # before anything is asked
        raise ConfigError(f"{to} is there already: choose another name with --to.")
    names = _of_table(flags) if flags.database is not None or like is None else names_in(like)
    say.interruptible()
    answers = _answers(flags, names, like)
    say.write_new(to, write(answers).encode(), check=load)
    say.tell(f"Wrote {to}. Look it over, then: tailrace check {to}, and tailrace run {to}.")


def _of_table(flags: Flags) -> list[str]:
    """The columns of a database's table; its rows are not looked at."""
    if flags.database is None:
        return []
    if flags.table is None:
        raise ConfigError("--database needs the name of a table: say it with --table.")
    with connect(flags.database, write=False) as database:
        names = list(database.columns(flags.table))
    if not names:
        raise ConfigError("There is no such table in that database: --table names one of its own.")
    return names


_TIMES = ("date", "time", "datetime", "timestamp", "ts", "day", "month", "when", "hour")
_PUBLIC = (
    "Everything you answer is public and stands in the file: answer from what everybody knows, "
    "never by looking at the data."
)


def _answers(flags: Flags, names: list[str], like: Path | None) -> Answers:
    if names:
        say.tell(f"Columns: {', '.join(names)}. (Only their names were read.)")
    if flags.kind is None and _someone():
        say.tell(_PUBLIC, "What is one row?")
        say.tell(*(f"  {name:<10} {one.row}" for name, one in KINDS.items()))
    kind = _ask(flags.kind, "--kind", "What is one row?", "table", kind_of)
    assert isinstance(kind, Kind)
    whose = "Whose data are these?"
    population = _ask(flags.population, "--population", whose, "patients of the ward")
    tail = "stream.tail" if like is None else f"{like.stem}.tail"
    path = _ask(flags.path, "--path", "Folder for the stream?", tail, offer=tail)
    timed, calendar = _no_calendar(flags) if kind.once else _calendar(flags, names)
    unit = _ask(flags.unit, "--unit", kind.who, kind.example, kind.unit)
    more = _more(kind, flags, names)
    taken = [*timed.values(), *more.values(), unit.column if isinstance(unit, User) else None]
    left = [name for name in names if name not in taken]
    places = _places(flags, left) if kind.placed else None
    attributes = () if kind.placed else _attributes(kind, flags.column, left)
    all_steps = "Epsilon over all steps?"
    epsilon = _ask(
        flags.epsilon, "--epsilon", all_steps, "1", lambda text: budget(text).epsilon, offer="1"
    )
    delta = flags.delta
    if kind.gaussian:
        question = "Delta, the chance that the promise fails (less than one in all people)?"
        delta = _ask(flags.delta, "--delta", question, "1e-6", offer="1e-6")
    steps = "How many steps at most?"
    horizon = flags.horizon
    if kind.once:
        horizon = 1
    elif horizon is None:
        horizon = _ask(None, "--horizon", steps, "365", _whole, offer="365")
    named = _named_rows(kind, flags, [name for name in names if name not in taken])
    source = _folder(flags, like) if flags.database is None else _database(flags, timed)
    assert isinstance(unit, Event | User)
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
        places=places,
        calendar=calendar,
        source={**source, **timed, **named},
        sinks=() if flags.csv is None else ({"kind": "CsvFolder", "path": flags.csv},),
    )


def _folder(flags: Flags, like: Path | None) -> dict[str, str]:
    """The table of a source of files."""
    question, beside = (
        "In which folder do files arrive?",
        None if like is None else str(like.parent),
    )
    folder = _ask(flags.folder, "--folder", question, "incoming", offer=beside)
    files = "*.csv" if like is None else f"*{like.suffix}"
    if like is not None and folder == ".":
        # exports and other tables may come to lie beside this file: they are no rows
        files = like.name
    return {"kind": "Folder", "path": folder, "files": files}


def _database(flags: Flags, timed: dict[str, Any]) -> dict[str, str]:
    """The table of a source in a database."""
    if not timed:
        raise ConfigError("A table of a database is cut by time: name its column with --time.")
    assert flags.database is not None and flags.table is not None
    return {"kind": "SqlTable", "url": flags.database, "table": flags.table}


def _named_rows(kind: Kind, flags: Flags, names: list[str]) -> dict[str, str]:
    """The column that tells rows apart, where a row may come twice."""
    asked = flags.kind is None and kind.repeats and names and _someone()
    if flags.id is None and not asked:
        return {}
    question = "Which column names a row, where the same row may come twice? (none: no row does)"
    name = _ask(flags.id, "--id", question, "none", _among([*names, "none"]), offer="none")
    return {} if name == "none" else {"id": name}


def _like(names: list[str], *words: str) -> str | None:
    """The first column that is called, or begins or ends with, one of the words."""
    for word in words:
        for name in names:
            parts = re.split(r"[^a-z]+", name.lower())
            if word in (parts[0], parts[-1]):
                return name
    return None


def _more(kind: Kind, flags: Flags, names: list[str]) -> dict[str, Any]:
    """The keys that only this kind of mechanism has."""
    if kind.mechanism == "PanelWindow":
        question = "How many steps in a row may questions be about?"
        window = flags.window or _ask(None, "--window", question, "3", _whole, offer="3")
        return {"window": window, "neighbours": {"kind": "AddRemove"}}
    if kind.mechanism in ("Trajectories", "JourneyStream"):
        which, when = "Which column says which journey it is?", "Which column orders its points?"
        trip, minute = _like(names, "trip", "traj", "trajectory", "journey"), _like(names, *_TIMES)
        return {
            "trajectory": _ask(
                flags.trajectory, "--trajectory", which, "trip", _among(names), offer=trip
            ),
            "order": _ask(flags.order, "--order", when, "minute", _among(names), offer=minute),
        }
    return {}


def _places(flags: Flags, names: list[str]) -> dict[str, Any]:
    """The table of a box, or of a region in a file."""

    def two(text: str) -> list[str]:
        columns = text.replace(",", " ").split()
        if len(columns) != 2:
            raise ConfigError("--place names two columns, x and y, for example 'lon lat'.")
        return [_among(names)(column) for column in columns]

    x, y = _like(names, "lon", "lng", "longitude", "x"), _like(names, "lat", "latitude", "y")
    offer = f"{x} {y}" if x and y else None
    question = "Which two columns hold x and y?"
    columns = _ask(flags.place, "--place", question, "lon lat", two, offer=offer)
    question = "Which area: west south east north, or a file of GeoJSON with its border?"
    area = _ask(flags.area, "--area", question, "13.0 52.3 13.8 52.7", _area)
    return {"columns": columns, **area}


def _area(text: str) -> dict[str, Any]:
    if text.lower().endswith((".geojson", ".json", ".parquet", ".geoparquet")):
        return {"path": text}
    try:
        west, south, east, north = map(float, text.replace(",", " ").split())
    except ValueError:
        raise ConfigError(
            "--area is four numbers, west south east north, or a file of GeoJSON or GeoParquet."
        ) from None
    return {"low": [west, south], "high": [east, north]}


def _among(names: list[str]) -> Callable[[str], str]:
    """Refuse a column that the file does not have."""

    def one(name: str) -> str:
        if names and name not in names:
            raise ConfigError(f"There is no such column in that file: it has {', '.join(names)}.")
        return name

    return one


def _calendar(flags: Flags, names: list[str]) -> tuple[dict[str, Any], Calendar | None]:
    """Column and format of times with their calendar, or nothing."""
    time, written = flags.time, flags.format
    if time == "none":
        return _no_calendar(flags)
    if time is None and _someone():
        question = "Which column says when a row happened? (none: every file is a step)"
        offered = [*names, "none"] if names else []
        found = _like(names, *_TIMES) or "none"
        time = _ask(
            None, "--time", question, found, lambda text: _named(text, offered), offer=found
        )
        time = None if time == "none" else time
        if time is not None and written is None:
            question = "How are its times written? (ISO, or a pattern such as %d.%m.%Y)"
            answer = say.ask(question, default="ISO")
            written = None if answer.lower() == "iso" else [answer]
    if time is None:
        return _no_calendar(flags)
    _named(time, names)
    january = date.today().replace(month=1, day=1).isoformat()
    begin, length = "When does step 1 begin?", "How long is a step?"
    start = _ask(flags.start, "--start", begin, january, offer=january)
    period = _ask(flags.period, "--period", length, "1 day", offer="1 day")
    timezone = _ask(flags.timezone, "--timezone", "In which time zone?", "UTC", offer="UTC")
    forms = {} if written is None else {"format": written[0] if len(written) == 1 else written}
    return {"time": time, **forms}, Calendar(start=start, period=period, timezone=timezone)


def _no_calendar(flags: Flags) -> tuple[dict[str, Any], None]:
    """Every file is a step; flags of a calendar are refused."""
    for flag in ("start", "period", "timezone", "format"):
        if getattr(flags, flag) is not None:
            raise ConfigError(
                f"--{flag} needs to know when a row happened: name the column of times with --time."
            )
    return {}, None


def _named(time: str, names: list[str]) -> str:
    """Refuse a column that the file does not have."""
    if names and time not in names:
        there = ", ".join(names)
        raise ConfigError(f"There is no such column in that file: --time names one of {there}.")
    return time


def _attributes(
    kind: Kind, given: list[str], names: list[str]
) -> tuple[tuple[str, Attribute], ...]:
    """Domains of the columns, from flags or from questions."""
    found = {}
    for words in given:
        name, sign, rest = words.partition("=")
        if not sign or not name:
            raise ConfigError("--column takes NAME=KIND, for example --column 'age=integer 0 99'.")
        if name in found:
            raise ConfigError("--column names a column twice: say once what it may hold.")
        found[name] = attribute(rest)
    if not given and _someone():
        say.tell(
            "What may each column hold? integer 0 99 | category f m | real 0 10 20 | boolean | skip"
        )
        for name in names or _names():
            made = _ask(None, "--column", f"  {name}", "skip", _attribute, offer="skip")
            if made is not None:
                found[name] = made
    if not found:
        raise ConfigError(
            "Say what the columns may hold: --column 'age=integer 0 99', once for each column."
        )
    if kind.columns is not None and len(found) > kind.columns:
        raise ConfigError("A panel follows one column: say with one --column what it may hold.")
    return tuple(found.items())


def _attribute(text: str) -> Attribute | None:
    return None if text == "skip" else attribute(text)


def _names() -> list[str]:
    answer = say.ask("Columns to publish, with commas between them")
    return [name.strip() for name in answer.split(",")]


def _ask(
    given: str | None,
    flag: str,
    question: str,
    example: str,
    make: Callable[[str], Any] = lambda text: text,
    *,
    offer: str | None = None,
) -> Any:
    """The answer as `make` reads it, asked until it can.

    offer: what an empty answer means; None where only the curator can know.
    """
    if given is not None or not _someone():
        if given is None:
            raise ConfigError(f"{question} Say it with {flag}, for example {flag} '{example}'.")
        return make(given)
    while True:
        try:
            hint = question if offer else f"{question} (for example {example})"
            return make(say.ask(hint, default=offer))
        except ConfigError as error:
            say.tell(f"  {error}")


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError("The horizon is a whole number of steps, for example 365.")
    return int(text)


def _someone() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin is not None and sys.stdin.isatty()
