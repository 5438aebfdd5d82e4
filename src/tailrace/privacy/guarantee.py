"""What is promised, to whom, over how long: a `Guarantee`, printed as one sentence.

The sentence is made from the loss that the noise proves, never from a wish: mechanisms build their
guarantee from `counter.loss(...)`, and nobody adds up budgets by hand.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Protocol

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.privacy.loss import ZCDP, ApproxDP, Loss, PureDP, number_text, whole
from tailrace.storage.codec import Kinds, from_plain, to_plain

_ROW = "record"  # what an event is, unless said otherwise
_ILLUSTRATION = Fraction(1, 10**6)  # the delta at which the sentence also states a zCDP loss


class Neighbours(enum.Enum):
    """Which two data sets must look alike."""

    AddRemove = "whether {unit} is in the data or not"
    Replace = "{unit} from anything else that could stand in its place (how many people there are is public)"
    Null = "{unit} from data that count nowhere (how many people there are is public)"

    def __repr__(self) -> str:
        return self.name


AddRemove, Replace, Null = Neighbours


@told
@dataclass(frozen=True)
class Event:
    """One insertion or one deletion of one record, at one step."""

    def words(self, *, deletes: bool = True) -> str:
        return f"any one insertion{' or deletion' if deletes else ''} of a record"


@told
@dataclass(frozen=True, kw_only=True)
class User:
    """One person, found by `column`: at most `events` insertions over the horizon (each deleted at
    most once), or at most `records` live at once; neither: the person's whole history, as in a
    panel.

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
            return f"{who} (at most {_plural(self.events, 'inserted record')}{their})"
        if self.records is not None:
            return f"{who} (at most {_plural(self.records, 'record')} at any one time)"
        return f"{who} in the whole history"


@told
@dataclass(frozen=True, kw_only=True)
class Window:
    """One person, found by `column`, inside any `steps` consecutive steps (w-event privacy), with
    at most `records` live at once.
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
        return f"{who} (at most {_plural(self.records, 'record')} at any one time)"


Unit = Event | User | Window


@told
@dataclass(frozen=True)
class Guarantee:
    """The promise of a whole stream.

    `deletes` says whether records can be deleted; where not, a record's whole life is one event.
    `life` is the proved loss of a record that is inserted and later deleted, where it is less than
    two events' (`Event` only); `retention` says that records leave by a public rule after so many
    steps, so that a whole life costs one event. `record` names what an event is where it is more
    than a row ("trajectory").

    >>> print(Guarantee(PureDP(epsilon=1), User(column="id", events=1), AddRemove, 12).short)
    epsilon = 1 for one person (column 'id') over 12 steps
    """

    loss: Loss
    unit: Unit
    neighbours: Neighbours
    horizon: int | None
    life: Loss | None = None
    retention: int | None = None
    notes: tuple[str, ...] = ()  # what the sentence must end with: "not charged to any ledger"
    record: str = _ROW
    deletes: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            raise ConfigError(
                "loss must be PureDP(epsilon=...), ZCDP(rho=...) or ApproxDP(epsilon=..., "
                "delta=...)."
            )
        if not isinstance(self.unit, Unit):
            raise ConfigError(
                "unit must be Event(), User(column=...) or Window(steps=..., column=..., "
                "records=...)."
            )
        if not isinstance(self.neighbours, Neighbours):
            raise ConfigError("neighbours must be AddRemove, Replace or Null.")
        for name in ("horizon", "retention"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if not isinstance(self.unit, Event) and (
            self.life is not None or self.retention is not None
        ):
            raise ConfigError(
                "life and retention belong to the unit Event(); another unit already covers whole "
                "records."
            )
        if isinstance(self.unit, Event) and self.neighbours is not AddRemove:
            raise ConfigError("An Event() is there or not: its neighbours are AddRemove.")
        if not isinstance(self.deletes, bool):
            raise ConfigError("deletes must be True or False.")
        whole_life = self.retention is not None or not self.deletes
        if self.life is not None and (not isinstance(self.life, Loss) or whole_life):
            raise ConfigError(
                "life is a loss, and is given where records are deleted: with a retention, or "
                "without deletes, a life "
                "costs one event."
            )

    def of_life(self) -> Loss:
        """The loss of one record's insertion and deletion together; for the unit Event()."""
        if not isinstance(self.unit, Event):
            raise ConfigError(
                "A record's life is asked of an Event() guarantee; this unit already covers whole "
                "records."
            )
        if self.retention is not None or not self.deletes:
            return self.loss
        return self.life if self.life is not None else self.loss.group(2)

    def of_person(self, records: int) -> Loss:
        """The loss of a person with so many records, each inserted and later deleted."""
        return self.of_life().group(records)

    def __and__(self, other: Guarantee) -> Guarantee:
        """Both together: the same unit and neighbours, or an error."""
        if not isinstance(other, Guarantee):
            raise ConfigError("A guarantee composes with a guarantee.")
        if (self.unit, self.neighbours, self.record) != (
            other.unit,
            other.neighbours,
            other.record,
        ):
            raise ConfigError(
                "Two guarantees compose only for the same unit and the same neighbours; state both "
                "for one unit first."
            )
        horizon = (
            None
            if self.horizon is None or other.horizon is None
            else max(self.horizon, other.horizon)
        )
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        deletes = self.deletes or other.deletes
        loss = self.loss & other.loss
        both = Guarantee(
            loss,
            self.unit,
            self.neighbours,
            horizon,
            notes=notes,
            record=self.record,
            deletes=deletes,
        )
        if not isinstance(self.unit, Event):
            return both
        if self.retention is not None and self.retention == other.retention:
            return replace(both, retention=self.retention)
        return replace(both, life=self.of_life() & other.of_life()) if deletes else both

    def to_dict(self) -> dict[str, Any]:
        """The guarantee in the plain values of a JSON file; `from_dict` makes it again, exactly."""
        return {field.name: to_plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Guarantee:
        """The guarantee that `to_dict` wrote."""
        if "deletes" not in plain and plain.get("life") == plain.get(
            "loss"
        ):  # how version 0.1 said it
            plain = {**plain, "life": None, "deletes": False}
        return cls(**{name: from_plain(part, KINDS) for name, part in plain.items()})

    @property
    def short(self) -> str:
        """The promise in a line."""
        event = "one event" if self.record == _ROW else f"one {self.record}"
        who = event if isinstance(self.unit, Event) else f"one person (column '{self.unit.column}')"
        if isinstance(self.unit, Window):
            who += f" within any {_plural(self.unit.steps, 'step')}"
        return f"{self.loss} for {who} over {_span(self.horizon)}"

    def __str__(self) -> str:
        whole = isinstance(self.unit, Event) and self.record != _ROW
        unit = f"any one {self.record}" if whole else self.unit.words(deletes=self.deletes)
        return (
            f"Whoever sees everything published over {_span(self.horizon)}, whatever else they "
            f"know, can hardly tell "
            f"{self.neighbours.value.format(unit=unit)}: {_bound(self.loss)}{self._records()}"
            f"{''.join(f'; {note}' for note in self.notes)}."
        )

    def _records(self) -> str:
        """What the event-level promise means for a record's life and for a person."""
        if not isinstance(self.unit, Event):
            return ""
        try:
            life = self.of_life()
        # an (epsilon, delta) that came from nowhere covers no second event when its delta would
        # reach 1
        except ConfigError:
            return "; nothing is promised for a record that is inserted and later deleted"
        if self.record != _ROW:
            many = _plural(2, self.record).removeprefix("2 ")
            return f"; a person with m {many} gets {_person(life)}"
        if self.retention is not None:
            first = f"a record leaves by a public rule {_plural(self.retention, 'step')} after it came, so its whole life gets {life}"
        elif not self.deletes:
            first = f"records are never deleted, so a record's whole life gets {life}"
        else:
            first = f"a record that is inserted and later deleted gets {life}"
        return f"; {first}, and a person with m such records gets {_person(life)}"


class Promising(Protocol):
    """A mechanism of events, as far as its guarantee needs it."""

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


def check_privacy(privacy: Any) -> None:
    """Refuse what is no loss."""
    if not isinstance(privacy, Loss):
        raise ConfigError(
            "privacy must be PureDP(epsilon=...), ZCDP(rho=...) or ApproxDP(epsilon=..., "
            "delta=...)."
        )


def check_events(mechanism: Promising) -> None:
    """Refuse what no mechanism of events can promise."""
    check_privacy(mechanism.privacy)
    unit = mechanism.unit
    if not isinstance(unit, Event) and not (isinstance(unit, User) and unit.events is not None):
        raise ConfigError(
            f"unit is not bounded: {type(mechanism).__name__} protects Event() or User(column=..., "
            f"events=m), since without a "
            "bound on the events of a person its loss over the horizon has none."
        )
    if not isinstance(mechanism.deletes, bool):
        raise ConfigError("deletes must be True or False.")


def events_of(mechanism: Promising) -> tuple[int, int]:
    """Insertions and deletions of one unit over the horizon."""
    if isinstance(mechanism.unit, User) and mechanism.unit.events is not None:
        return mechanism.unit.events, mechanism.unit.events if mechanism.deletes else 0
    return 1, 0


def promised(mechanism: Promising, loss: Callable[[int, int], Loss]) -> Guarantee:
    """The guarantee of a mechanism of events, from its loss for some insertions and deletions."""
    event = isinstance(mechanism.unit, Event)
    return Guarantee(
        loss(*events_of(mechanism)),
        mechanism.unit,
        mechanism.neighbours,
        mechanism.horizon,
        life=loss(1, 1) if event and mechanism.deletes else None,
        retention=getattr(mechanism, "retention", None) if event else None,
        deletes=mechanism.deletes,
    )


KINDS: Kinds = {
    **{kind.__name__: kind for kind in (PureDP, ZCDP, ApproxDP, Event, User, Window)},
    **{relation.name: lambda relation=relation: relation for relation in Neighbours},
}


def _bound(loss: Loss) -> str:
    if isinstance(loss, PureDP):
        epsilon = loss.epsilon
        factor = (
            number_text(Fraction(math.exp(epsilon) * (1 + 1e-9)), 3)
            if epsilon < 30
            else f"e^{number_text(epsilon, 6)}"
        )
        return f"it makes no outcome more than {factor} times as likely or as unlikely (pure differential privacy, {loss})"
    if isinstance(loss, ZCDP):
        also = f"which at delta = {number_text(_ILLUSTRATION, 6)} is epsilon = {_epsilon(loss)}"
        return f"it changes the probabilities of the outcomes little (zero-concentrated differential privacy, {loss}, {also})"
    return f"it changes the probabilities of the outcomes little (differential privacy with {loss})"


def _person(life: Loss) -> str:
    if isinstance(life, PureDP):
        return f"m times that: epsilon = {_times(life.epsilon)}m"
    if isinstance(life, ZCDP):
        return f"m^2 times that: rho = {_times(life.rho)}m^2"
    if life.rho is not None:
        ten = life.group(10)
        return f"the epsilon of rho = {_times(life.rho)}m^2 at the same delta (epsilon = {number_text(ten.epsilon, 3)} for m = 10)"
    epsilon = _times(life.epsilon)
    return (
        f"epsilon = {epsilon}m with delta = m e^({epsilon}(m-1)) times {number_text(life.delta, 3)}"
    )


def _epsilon(loss: ZCDP) -> str:
    return number_text(loss.as_approx(delta=_ILLUSTRATION).epsilon, 3)


def _times(value: Fraction) -> str:
    return "" if value == 1 else f"{number_text(value, 6)} "


def _span(horizon: int | None) -> str:
    return "the whole stream, however long" if horizon is None else _plural(horizon, "step")


def _plural(count: int, noun: str) -> str:
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def _column(value: str) -> None:
    if not isinstance(value, str) or not value:
        raise ConfigError(
            "column must name the column that holds the person's id, for example column='id'."
        )
