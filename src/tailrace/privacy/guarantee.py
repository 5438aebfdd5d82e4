"""A `Guarantee`: what is promised, to whom, over how long.

The sentence is made from the loss that the noise proves, never from a wish: mechanisms build their
guarantee from `counter.loss(...)`, and nobody adds up budgets by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.privacy.loss import ZCDP, ApproxDP, Loss, PureDP, check_privacy, number_text, whole
from tailrace.privacy.unit import (
    AddRemove,
    Event,
    Neighbours,
    Promising,
    Unit,
    User,
    Window,
    events_of,
    plural,
)
from tailrace.storage.codec import Kinds, from_plain, to_plain

# what an event is, unless said otherwise
_ROW = "record"
# the delta at which the sentence also states a zCDP loss
_ILLUSTRATION = Fraction(1, 10**6)


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
        check_privacy(self.loss, "loss")
        if not isinstance(self.unit, Unit):
            raise ConfigError(
                "unit must be Event(), User(column=...) or Window(steps=..., column=..., "
                "events=...)."
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
                "without deletes, a life costs one event."
            )

    def of_life(self) -> Loss:
        """The loss of a record's insertion and deletion together."""
        if not isinstance(self.unit, Event):
            raise ConfigError(
                "A record's life is asked of an Event() guarantee; this unit already covers whole "
                "records."
            )
        if self.retention is not None or not self.deletes:
            return self.loss
        return self.life if self.life is not None else self.loss.group(2)

    def of_person(self, records: int) -> Loss:
        """The loss of a person's records, each inserted and deleted."""
        return self.of_life().group(records)

    def __and__(self, other: Guarantee) -> Guarantee:
        """Both together: the same unit and neighbours, or an error."""
        if not isinstance(other, Guarantee):
            raise ConfigError("A guarantee composes with a guarantee.")
        one, two = ((each.unit, each.neighbours, each.record) for each in (self, other))
        if one != two:
            raise ConfigError(
                "Two guarantees compose only for the same unit and the same neighbours; state both "
                "for one unit first."
            )
        horizons = [each.horizon for each in (self, other) if each.horizon is not None]
        both = replace(
            self,
            loss=self.loss & other.loss,
            horizon=max(horizons) if len(horizons) == 2 else None,
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
            deletes=self.deletes or other.deletes,
            life=None,
            retention=self.retention if self.retention == other.retention else None,
        )
        if not isinstance(self.unit, Event) or both.retention is not None or not both.deletes:
            return both
        return replace(both, life=self.of_life() & other.of_life())

    def to_dict(self) -> dict[str, Any]:
        """The guarantee as plain JSON values; `from_dict` reads them."""
        return {field.name: to_plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Guarantee:
        """The guarantee that `to_dict` wrote."""
        # how version 0.1 said that records are never deleted
        if "deletes" not in plain and plain.get("life") == plain.get("loss"):
            plain = {**plain, "life": None, "deletes": False}
        return cls(**{name: from_plain(part, KINDS) for name, part in plain.items()})

    @property
    def short(self) -> str:
        """The promise in a line."""
        event = "one event" if self.record == _ROW else f"one {self.record}"
        who = event if isinstance(self.unit, Event) else f"one person (column '{self.unit.column}')"
        if isinstance(self.unit, Window):
            who += f" within any {plural(self.unit.steps, 'step')}"
        return f"{self.loss} for {who} over {_span(self.horizon)}"

    def __str__(self) -> str:
        whole = isinstance(self.unit, Event) and self.record != _ROW
        unit = f"any one {self.record}" if whole else self.unit.words(deletes=self.deletes)
        notes = "".join(f"; {note}" for note in self.notes)
        return (
            f"Whoever sees everything published over {_span(self.horizon)}, whatever else they "
            f"know, can hardly tell {self.neighbours.value.format(unit=unit)}: "
            f"{_bound(self.loss)}{self._records()}{notes}."
        )

    def _records(self) -> str:
        """What an event's promise means for records and people."""
        if not isinstance(self.unit, Event):
            return ""
        try:
            life = self.of_life()
        # an (epsilon, delta) that came from nowhere covers no second event when its delta would
        # reach 1
        except ConfigError:
            return "; nothing is promised for a record that is inserted and later deleted"
        if self.record != _ROW:
            many = plural(2, self.record).removeprefix("2 ")
            return f"; a person with m {many} gets {_person(life)}"
        if self.retention is not None:
            after = f"{plural(self.retention, 'step')} after it came"
            first = f"a record leaves by a public rule {after}, so its whole life gets {life}"
        elif not self.deletes:
            first = f"records are never deleted, so a record's whole life gets {life}"
        else:
            first = f"a record that is inserted and later deleted gets {life}"
        return f"; {first}, and a person with m such records gets {_person(life)}"


def promised(mechanism: Promising, loss: Callable[[int, int], Loss]) -> Guarantee:
    """The guarantee of a mechanism, from its loss by events."""
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
        factor = f"e^{number_text(loss.epsilon, 6)}"
        if loss.epsilon < 30:
            factor = number_text(Fraction(math.exp(loss.epsilon) * (1 + 1e-9)), 3)
        return (
            f"it makes no outcome more than {factor} times as likely or as unlikely (pure "
            f"differential privacy, {loss})"
        )
    little = "it changes the probabilities of the outcomes little"
    if isinstance(loss, ZCDP):
        epsilon = number_text(loss.as_approx(delta=_ILLUSTRATION).epsilon, 3)
        also = f"which at delta = {number_text(_ILLUSTRATION, 6)} is epsilon = {epsilon}"
        return f"{little} (zero-concentrated differential privacy, {loss}, {also})"
    return f"{little} (differential privacy with {loss})"


def _person(life: Loss) -> str:
    if isinstance(life, PureDP):
        return f"m times that: epsilon = {_times(life.epsilon)}m"
    if isinstance(life, ZCDP):
        return f"m^2 times that: rho = {_times(life.rho)}m^2"
    if life.rho is not None:
        ten = f"epsilon = {number_text(life.group(10).epsilon, 3)} for m = 10"
        return f"the epsilon of rho = {_times(life.rho)}m^2 at the same delta ({ten})"
    epsilon = _times(life.epsilon)
    return (
        f"epsilon = {epsilon}m with delta = m e^({epsilon}(m-1)) times {number_text(life.delta, 3)}"
    )


def _times(value: Fraction) -> str:
    return "" if value == 1 else f"{number_text(value, 6)} "


def _span(horizon: int | None) -> str:
    return "the whole stream, however long" if horizon is None else plural(horizon, "step")
