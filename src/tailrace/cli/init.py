"""`tailrace init`: questions, answered by flags or at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tailrace.calendar import Calendar
from tailrace.cli import say
from tailrace.cli.ledger import budget, protected
from tailrace.config import load
from tailrace.config.template import Answers, attribute, write
from tailrace.domain import Attribute
from tailrace.errors import ConfigError
from tailrace.privacy.unit import Event, User
from tailrace.sources.files import names_in


@dataclass(frozen=True, kw_only=True)
class Flags:
    """Flags of the command line; None where not given."""

    path: str | None
    population: str | None
    epsilon: str | None
    delta: str | None
    unit: str | None
    horizon: int | None
    column: list[str]
    folder: str | None
    time: str | None
    format: str | None
    start: str | None
    period: str | None
    timezone: str | None
    csv: str | None


def write_configuration(to: Path, like: Path | None, flags: Flags) -> None:
    """Ask for missing answers and write a stream.toml."""
    if to.exists():  # before anything is asked
        raise ConfigError(f"{to} is there already: choose another name with --to.")
    names = [] if like is None else names_in(like)
    say.interruptible()
    answers = _answers(flags, names, "*.csv" if like is None else f"*{like.suffix}")
    say.write_new(to, write(answers).encode(), check=load)
    say.tell(f"Wrote {to}. Look it over, then: tailrace check {to} FILE, and tailrace run {to}.")


def _answers(flags: Flags, names: list[str], files: str) -> Answers:
    if names:
        say.tell(f"Columns: {', '.join(names)}. (Only their names were read.)")
    whose = "Whose data are these?"
    population = _ask(flags.population, "--population", whose, "patients of the ward")
    path = _ask(flags.path, "--path", "Folder for the stream?", "stream.tail")
    timed, calendar = _calendar(flags, names)
    who = "Who is protected: event, or user COLUMN EVENTS?"
    unit = _ask(flags.unit, "--unit", who, "event", protected)
    taken = {timed.get("time"), unit.column if isinstance(unit, User) else None}
    attributes = _attributes(flags.column, [name for name in names if name not in taken])
    all_steps = "Epsilon over all steps?"
    epsilon = _ask(flags.epsilon, "--epsilon", all_steps, "1", lambda text: budget(text).epsilon)
    horizon = flags.horizon or _ask(None, "--horizon", "How many steps at most?", "365", _whole)
    folder = _ask(flags.folder, "--folder", "In which folder do files arrive?", "incoming")
    assert isinstance(unit, Event | User)
    return Answers(
        path=path,
        population=population,
        epsilon=epsilon,
        delta=flags.delta,
        unit=unit,
        horizon=horizon,
        attributes=attributes,
        calendar=calendar,
        source={"kind": "Folder", "path": folder, "files": files, **timed},
        sinks=() if flags.csv is None else ({"kind": "CsvFolder", "path": flags.csv},),
    )


def _calendar(flags: Flags, names: list[str]) -> tuple[dict[str, str], Calendar | None]:
    """Column and format of times with their calendar, or nothing."""
    time, written = flags.time, flags.format
    if time == "none":
        return _no_calendar(flags)
    if time is None and _someone():
        question = "Which column says when a row happened? (none: every file is a step)"
        offered = [*names, "none"] if names else []
        time = _ask(None, "--time", question, "none", lambda text: _named(text, offered))
        time = None if time == "none" else time
        if time is not None and written is None:
            question = "How are its times written? (ISO, or a pattern such as %d.%m.%Y)"
            written = say.ask(question, default="ISO")
            written = None if written.lower() == "iso" else written
    if time is None:
        return _no_calendar(flags)
    _named(time, names)
    january = date.today().replace(month=1, day=1).isoformat()
    start = _ask(flags.start, "--start", "When does step 1 begin?", january)
    period = _ask(flags.period, "--period", "How long is a step?", "1 day")
    timezone = _ask(flags.timezone, "--timezone", "In which time zone?", "UTC")
    timed = {"time": time} | ({} if written is None else {"format": written})
    return timed, Calendar(start=start, period=period, timezone=timezone)


def _no_calendar(flags: Flags) -> tuple[dict[str, str], None]:
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


def _attributes(given: list[str], names: list[str]) -> tuple[tuple[str, Attribute], ...]:
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
            made = _ask(None, "--column", f"  {name}", "skip", _attribute)
            if made is not None:
                found[name] = made
    if not found:
        raise ConfigError(
            "Say what the columns may hold: --column 'age=integer 0 99', once for each column."
        )
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
) -> Any:
    """The answer as `make` reads it, asked until it can."""
    if given is not None or not _someone():
        if given is None:
            raise ConfigError(f"{question} Say it with {flag}, for example {flag} '{example}'.")
        return make(given)
    while True:
        try:
            return make(say.ask(question, default=example))
        except ConfigError as error:
            say.tell(f"  {error}")


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError("The horizon is a whole number of steps, for example 365.")
    return int(text)


def _someone() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin is not None and sys.stdin.isatty()
