"""The kinds of data that `tailrace init` asks for, in plain words."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from tailrace.cli.ledger import protected
from tailrace.config.problem import nearest, one_line
from tailrace.errors import ConfigError
from tailrace.privacy.unit import Event, User

Protected = Event | User


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of data: one row in words, its mechanism, and who is protected.

    gaussian: whether its noise needs a delta.
    placed: whether rows are points, and not values of columns.
    described: whether points may have values of columns beside.
    once: whether everything is released at a single step.
    columns: the most columns that are published.
    repeats: whether the same row may come in two files.
    """

    row: str
    mechanism: str
    who: str
    example: str
    unit: Callable[[str], Protected]
    gaussian: bool = False
    placed: bool = False
    described: bool = False
    once: bool = False
    columns: int | None = None
    repeats: bool = False


def _of_events(words: str) -> Protected:
    found = protected(words)
    assert isinstance(found, Event | User)
    return found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _person(text: str) -> Protected:
    match _words(text):
        case ["user", column]:
            return User(column=column)
    raise ConfigError("unit is 'user COLUMN', the column that says whose row it is: 'user id'.")


def _journey(text: str) -> Protected:
    return Event() if text.strip() == "journey" else _of_journeys(text)


def _of_journeys(text: str) -> Protected:
    try:
        return _person(text)
    except ConfigError:
        raise ConfigError(
            "unit is 'journey', or 'user COLUMN' for a person with all journeys: 'user id'."
        ) from None


def _journeys(text: str) -> Protected:
    match _words(text):
        case ["journey"]:
            return Event()
        case ["user", column, many] if many.isdecimal():
            return User(column=column, events=int(many))
    raise ConfigError(
        "unit is 'journey', or 'user COLUMN JOURNEYS' for a person with at most so many: 'user id "
        "50'."
    )


def _records(text: str) -> Protected:
    match _words(text):
        case ["user", column, many] if many.isdecimal():
            return User(column=column, records=int(many))
    raise ConfigError(
        "unit is 'user COLUMN RECORDS': the column that says whose row it is, and how many rows a "
        "person has at most in one file, for example 'user id 1'."
    )


_EVENT = (
    "Who is protected: event (one row), or user COLUMN EVENTS (a person with at most so many rows)?"
)
KINDS = {
    "places": Kind(
        row="something at a place: a call on a map, a tree, a check-in",
        mechanism="SpatialStream",
        who=_EVENT,
        example="event",
        unit=_of_events,
        repeats=True,
        placed=True,
        described=True,
    ),
    "table": Kind(
        row="a record with several columns: a patient, a case, a sale",
        mechanism="TabularStream",
        who=_EVENT,
        example="event",
        unit=_of_events,
        repeats=True,
    ),
    "panel": Kind(
        row="what one person said at one step: employed or not, each month",
        mechanism="PanelWindow",
        who="Which column says whose row it is: user COLUMN?",
        example="user id",
        unit=_person,
        gaussian=True,
        columns=1,
    ),
    "snapshots": Kind(
        row="a person as they are now; the rows of a step are everybody",
        mechanism="SnapshotHistogram",
        who="Whose row is it, and how many rows has a person at most at once: user COLUMN RECORDS?",
        example="user id 1",
        unit=_records,
    ),
    "journeys": Kind(
        row="a point of a journey; all journeys are in one file and released once (else: trips)",
        mechanism="Trajectories",
        who="Who is protected: journey, or user COLUMN for a person with all journeys?",
        example="journey",
        unit=_journey,
        placed=True,
        once=True,
    ),
    "trips": Kind(
        row="a point of a journey that has ended; new journeys come at every step",
        mechanism="JourneyStream",
        who="Who is protected: journey, or user COLUMN JOURNEYS (a person with at most so many)?",
        example="journey",
        unit=_journeys,
        placed=True,
    ),
    "histogram": Kind(
        row="an event of which one or two columns are counted",
        mechanism="HistogramStream",
        who=_EVENT,
        example="event",
        unit=_of_events,
        repeats=True,
    ),
}


def kind_of(word: str) -> Kind:
    """The kind that a word names."""
    if word not in KINDS:
        meant = nearest(word, KINDS)
        fix = f"did you mean {meant}?" if meant else f"it is one of {', '.join(KINDS)}."
        raise ConfigError(f"There is no kind '{one_line(word)}'; {fix}")
    return KINDS[word]
