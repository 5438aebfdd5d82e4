"""The part of a cap that a population's streams spent.

First the unit: each stream's loss is stated for the cap's unit, or refused. A cap's record is a row
of the data: one insertion or deletion of a row under `Event`, at most m of a person's under
`User(events=m)`. A stream's may be more than a row (`Guarantee.record`).

| stream protects     | cap protects     | counts as                       |
|---------------------|------------------|---------------------------------|
| a unit              | the same unit    | its own loss                    |
| `Event`             | `User(events=m)` | `guarantee.of_person(m)` (1)    |
| `User`              | `Event`          | a group of two (2)              |
| `Event`: trajectory | `Event`          | a group of two (2)              |
| anything else       |                  | refused (3)                     |

1. A person has at most m records, and so at most m trajectories, which are theirs alone.
2. With and without one row are two data sets. Each is one person (one trajectory) away from the
   data without that person, and they are not neighbours of each other.
3. A `Window` says nothing of a record that outlives it, no bound on records bounds events, and
   other neighbours are other data sets.

Then the sum, by the cap's loss: epsilons under `PureDP`; rhos under `ZCDP`; under `ApproxDP` the
rhos together, converted at the delta that losses without a rho leave over (those add their epsilon
and delta), or the epsilons where that is less and all are pure. These sums hold also when a
stream's loss is chosen after seeing what others released (privacy filters: Feldman-Zrnic 2021),
except that losses without a rho must be chosen in advance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from tailrace.errors import BudgetExceeded, ConfigError
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import ZCDP, ApproxDP, Loss, PureDP, number_text
from tailrace.privacy.unit import Event, Neighbours, Unit, User

# The least rho and delta that a loss takes.
_LEAST = Fraction(1, 10**30)


@dataclass(frozen=True, kw_only=True)
class Spent:
    """A part of a cap.

    `amount` is a rho under a ZCDP cap and an epsilon under the others; `delta` goes with an
    epsilon.
    """

    amount: Fraction
    delta: Fraction = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class Cap:
    """The most that a population's streams may lose together.

    >>> from tailrace.privacy.unit import AddRemove
    >>> cap = Cap(population="city", loss=PureDP(epsilon=1), unit=Event(), neighbours=AddRemove)
    >>> cap.spent([Guarantee(PureDP(epsilon=0.1), Event(), AddRemove, 7)] * 3)
    Spent(amount=Fraction(3, 10), delta=Fraction(0, 1))
    """

    population: str
    loss: Loss
    unit: Unit
    neighbours: Neighbours

    def __post_init__(self) -> None:
        # A guarantee refuses parts of the wrong kind.
        Guarantee(self.loss, self.unit, self.neighbours, None)

    def spent(self, guarantees: Iterable[Guarantee]) -> Spent:
        """Sum these streams' spending, exactly, in the cap's terms."""
        losses = [self._stated(guarantee) for guarantee in guarantees]
        if isinstance(self.loss, PureDP):
            return Spent(amount=sum((_pure(loss) for loss in losses), Fraction(0)))
        if isinstance(self.loss, ZCDP):
            return Spent(amount=_rho(losses))
        return self._approximate(losses)

    def admit(self, held: list[Guarantee], asked: Guarantee | None = None) -> None:
        """Refuse a charge that would exceed the cap, and say by how much."""
        total = self.spent(held if asked is None else [*held, asked])
        if self._holds(total):
            return
        if asked is None:
            raise BudgetExceeded(
                f"The streams of population '{self.population}' have spent {self.words(total)}, "
                f"which is more than a cap of {self.loss}: set a cap that holds what is spent."
            )
        raise BudgetExceeded(
            f"Population '{self.population}' has a cap of {self.loss}, of which "
            f"{self.words(self.spent(held))} is spent, and this stream asks for "
            f"{self.words(self.spent([asked]))}{self._why(asked)}: ask for less, or raise the cap."
        )

    def _why(self, asked: Guarantee) -> str:
        """Why a stream counts for more than it says."""
        if not isinstance(self.unit, Event) or not _larger(asked):
            return ""
        larger = "person" if isinstance(asked.unit, User) else asked.record
        twice = f"changing one row of a {larger} counts as two changes of it"
        return f" (it protects a {larger}, and {twice})"

    def _stated(self, guarantee: Guarantee) -> Loss:
        """The loss of `guarantee` for the cap's unit, never less."""
        if guarantee.neighbours is not self.neighbours:
            raise ConfigError(
                f"A stream with neighbours {guarantee.neighbours!r} cannot be held against the cap "
                f"of population '{self.population}', which has {self.neighbours!r}."
            )
        if isinstance(self.unit, Event) and _larger(guarantee):
            return guarantee.loss.group(2)
        if guarantee.unit == self.unit:
            return guarantee.loss
        events = self.unit.events if isinstance(self.unit, User) else None
        if isinstance(guarantee.unit, Event) and events is not None:
            return guarantee.of_person(events)
        raise ConfigError(
            f"A stream with unit {guarantee.unit!r} says nothing about the unit {self.unit!r} that "
            f"the cap of population '{self.population}' protects: use the cap's unit, or another "
            "population."
        )

    def _approximate(self, losses: list[Loss]) -> Spent:
        loose = [loss for loss in losses if isinstance(loss, ApproxDP) and loss.rho is None]
        others = [loss for loss in losses if not isinstance(loss, ApproxDP) or loss.rho is not None]
        epsilon = sum((loss.epsilon for loss in loose), Fraction(0))
        delta = sum((loss.delta for loss in loose), Fraction(0))
        if not others:
            return Spent(amount=epsilon, delta=delta)
        # where the loose ones leave no delta, the cap's own is taken a second time: the total then
        # shows as too much
        left = self._delta - delta if self._delta - delta >= _LEAST else self._delta
        converted = ZCDP(rho=max(_rho(others), _LEAST)).as_approx(delta=left)
        ways = [Spent(amount=epsilon + converted.epsilon, delta=delta + left)]
        if all(isinstance(loss, PureDP) for loss in others):
            ways.append(Spent(amount=epsilon + sum(_pure(loss) for loss in others), delta=delta))
        return min(ways, key=lambda way: (not self._holds(way), way.amount))

    @property
    def _delta(self) -> Fraction:
        return self.loss.delta if isinstance(self.loss, ApproxDP) else Fraction(0)

    def _holds(self, total: Spent) -> bool:
        limit = self.loss.rho if isinstance(self.loss, ZCDP) else self.loss.epsilon
        return total.amount <= limit and total.delta <= self._delta

    def words(self, total: Spent) -> str:
        """So much of it, for people."""
        if total.amount == 0:
            return "nothing"
        name = "rho" if isinstance(self.loss, ZCDP) else "epsilon"
        also = f", delta = {number_text(total.delta, 6)}" if total.delta else ""
        return f"{name} = {number_text(total.amount, 6)}{also}"


def _larger(guarantee: Guarantee) -> bool:
    """Whether a stream may protect more than one row."""
    return isinstance(guarantee.unit, User) or guarantee.record != Guarantee.record


def _pure(loss: Loss) -> Fraction:
    if not isinstance(loss, PureDP):
        raise ConfigError(
            "A PureDP cap holds only PureDP streams: no rho or delta implies a pure epsilon."
        )
    return loss.epsilon


def _rho(losses: list[Loss]) -> Fraction:
    # the square of a small epsilon may be less than a ZCDP takes; a sum of them counts all the same
    rhos = (
        loss.epsilon**2 / 2 if isinstance(loss, PureDP) else loss.as_zcdp().rho for loss in losses
    )
    return sum(rhos, Fraction(0))
