"""Units of privacy, and neighbouring data sets."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.privacy.loss import Loss, check_privacy, whole


class Neighbours(enum.Enum):
    """Which two data sets must look alike."""

    AddRemove = "whether {unit} is in the data or not"
    Replace = (
        "{unit} from anything else that could stand in its place (how many people there are is "
        "public)"
    )
    Null = "{unit} from data that count nowhere (how many people there are is public)"

    def __repr__(self) -> str:
        return self.name


AddRemove, Replace, Null = Neighbours


@told
@dataclass(frozen=True)
class Event:
    """One insertion or deletion of one record, at one step."""

    def words(self, *, deletes: bool = True) -> str:
        return f"any one insertion{' or deletion' if deletes else ''} of a record"


@told
@dataclass(frozen=True, kw_only=True)
class User:
    """One person, found by `column`.

    With at most `events` insertions over the horizon (each deleted at most once), or at most
    `records` live at once. Neither: the person's whole history, as in a panel.

    >>> User(column="id", events=3)
    User(column='id', events=3, records=None)
    """

    column: str
    events: int | None = None
    records: int | None = None

    def __post_init__(self) -> None:
        _column(self.column)
        if self.events is not None and self.records is not None:
            raise ConfigError(
                "User takes events= or records=, not both: a bound over the horizon, or a bound at "
                "any one time."
            )
        for name in ("events", "records"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))

    def words(self, *, deletes: bool = True) -> str:
        who = f"everything that one person (column '{self.column}') contributes"
        if self.events is not None:
            their = " and their deletions" if deletes else ""
            return f"{who} (at most {plural(self.events, 'inserted record')}{their})"
        if self.records is not None:
            return f"{who} (at most {plural(self.records, 'record')} at any one time)"
        return f"{who} in the whole history"


@told
@dataclass(frozen=True, kw_only=True)
class Window:
    """One person inside any `steps` consecutive steps (w-event privacy).

    Found by `column`, with at most `records` live at once.
    """

    steps: int
    column: str
    records: int

    def __post_init__(self) -> None:
        whole("steps", self.steps)
        _column(self.column)
        whole("records", self.records)

    def words(self, *, deletes: bool = True) -> str:  # noqa: ARG002 - records are bounded, not events
        within = f"any {self.steps} consecutive steps" if self.steps > 1 else "any one step"
        who = f"everything that one person (column '{self.column}') contributes within {within}"
        return f"{who} (at most {plural(self.records, 'record')} at any one time)"


Unit = Event | User | Window


class Promising(Protocol):
    """The part of a mechanism of events that guarantees need."""

    @property
    def privacy(self) -> Loss: ...
    @property
    def unit(self) -> Unit: ...
    @property
    def neighbours(self) -> Neighbours: ...
    @property
    def horizon(self) -> int | None: ...
    @property
    def deletes(self) -> bool: ...


def check_events(mechanism: Promising) -> None:
    """Refuse what no mechanism of events can promise."""
    check_privacy(mechanism.privacy)
    unit = mechanism.unit
    if not isinstance(unit, Event) and not (isinstance(unit, User) and unit.events is not None):
        raise ConfigError(
            f"unit is not bounded: {type(mechanism).__name__} protects Event() or User(column=..., "
            "events=m), since without a bound on the events of a person its loss over the horizon "
            "has none."
        )
    if not isinstance(mechanism.deletes, bool):
        raise ConfigError("deletes must be True or False.")


def events_of(mechanism: Promising) -> tuple[int, int]:
    """Insertions and deletions of one unit over the horizon."""
    if isinstance(mechanism.unit, User) and mechanism.unit.events is not None:
        return mechanism.unit.events, mechanism.unit.events if mechanism.deletes else 0
    return 1, 0


def plural(count: int, noun: str) -> str:
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def _column(value: str) -> None:
    if not isinstance(value, str) or not value:
        raise ConfigError(
            "column must name the column that holds the person's id, for example column='id'."
        )
