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

    Found by `column`. With at most `events` insertions, and as many deletions, in each block of
    `steps` steps (streams of events), or at most `records` live at once (snapshots). Steps 1 to
    `steps` are the first block.

    >>> Window(steps=30, column="id", events=3)
    Window(steps=30, column='id', events=3, records=None)
    """

    steps: int
    column: str
    events: int | None = None
    records: int | None = None

    def __post_init__(self) -> None:
        whole("steps", self.steps)
        _column(self.column)
        if self.events is not None and self.records is not None:
            raise ConfigError(
                "Window takes events= or records=, not both: a bound in each block of steps, or a "
                "bound at any one time."
            )
        for name in ("events", "records"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))

    def begins(self, step: int) -> bool:
        """Whether a block begins with `step`; the first is 1."""
        return (step - 1) % self.steps == 0

    def words(self, *, deletes: bool = True) -> str:
        within = f"any {self.steps} consecutive steps" if self.steps > 1 else "any one step"
        who = f"everything that one person (column '{self.column}') contributes within {within}"
        if self.records is not None:
            return f"{who} (at most {plural(self.records, 'record')} at any one time)"
        if self.events is None:
            return who
        block = f"each block of {self.steps} steps" if self.steps > 1 else "each step"
        also = f" and {plural(self.events, 'deletion')}" if deletes else ""
        return f"{who} (at most {plural(self.events, 'inserted record')}{also} in {block})"


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
    if not isinstance(unit, Event) and getattr(unit, "events", None) is None:
        raise ConfigError(
            f"unit is not bounded: {type(mechanism).__name__} protects Event(), User(column=..., "
            "events=m) or Window(steps=w, column=..., events=m), since without a bound on the "
            "events of a person its loss has none."
        )
    if not isinstance(mechanism.deletes, bool):
        raise ConfigError("deletes must be True or False.")


def events_of(mechanism: Promising) -> tuple[int, int]:
    """How far one unit raises and lowers counts, in all.

    Counts of rows inserted less rows deleted differ between neighbours by a - b, where a and b are
    nonnegative and have at most these sums, wherever they lie in time and cells.

    1. `Event`: one insertion or deletion.
    2. `User(events=m)`: m accepted insertions, and as many deletions where there are any.
    3. `Window(steps=w, events=m)`: all rows of one person at w consecutive steps are there or not,
       and all others are the same. Insertions and deletions are accepted apart, at most m of either
       in a block of w steps, by the person's rows of that block alone. So other blocks are the
       same. A window meets at most two blocks.
       In the first one it reaches the end. Rows before it are accepted as ever, and none after it:
       m insertions more with the window than without.
       In the second one rows may follow it, and be accepted in place of its own: m insertions with
       the window, up to m others without.
       In all, insertions are raised by 2m and lowered by m. (A part of a block: m and m. With w = 1
       a window is a block, and m and 0 are left.)
       Deletions likewise, and they lower counts: together 3m and 3m.
    4. A clock with a row for insertions and one for deletions moves by 2m and m in each. That loses
       no more than 3m and 3m: 6m epsilon both, and 2 (4 + 1) m^2 rho where 18 m^2 is paid for.
    """
    unit = mechanism.unit
    if isinstance(unit, Event) or unit.events is None:
        return 1, 0
    longer = isinstance(unit, Window) and unit.steps > 1
    raised, lowered = (2 * unit.events, unit.events) if longer else (unit.events, 0)
    return (raised + lowered, raised + lowered) if mechanism.deletes else (raised, lowered)


def plural(count: int, noun: str) -> str:
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def _column(value: str) -> None:
    if not isinstance(value, str) or not value:
        raise ConfigError(
            "column must name the column that holds the person's id, for example column='id'."
        )
