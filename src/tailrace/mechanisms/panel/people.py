"""Synthetic people: created once, extended step by step, never rewritten.

Which synthetic person gets which value is a function of released counts and of a seed that is
released too: a person draws a place among those that its group still has to give away. So the panel
need not be stored: the first t columns follow from the counts of the first t steps and never
change, and reading them again after a restart gives the same people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.counting.memory import Missing
from tailrace.domain import Categorical, Integer, Schema
from tailrace.domain.columns import Frame
from tailrace.errors import ConfigError
from tailrace.noise import Draws
from tailrace.privacy.budget import restate
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import ZCDP, ApproxDP, Loss, whole
from tailrace.privacy.unit import AddRemove, Neighbours, Null, Replace, Unit, User

MOST_VALUES = 256  # of one attribute: a value takes a byte
MOST_PEOPLE = 2**32 - 1
_SEEDS = 10**9  # the scale of the draw that seeds the people


@dataclass(frozen=True)
class People:
    """The rows of a panel's table: a synthetic person's id, counted from 1, and its value; real ids
    are never seen here.
    """

    domain: Schema
    id: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.id, *self.domain.columns)

    @property
    def size(self) -> int:
        return self.domain.size

    @property
    def types(self) -> dict[str, nw.dtypes.DType]:
        return {self.id: nw.Int64(), **self.domain.types}

    def check(self, frame: Frame) -> None:
        self.domain.check(frame)

    def cell(self, frame: Frame) -> nw.Expr:
        return self.domain.cell(frame)

    def cells(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        return self.domain.cells(frame)

    def decode(self, cells: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {self.id: np.arange(1, len(cells) + 1), **self.domain.decode(cells, rng)}


def seed(noise: Draws) -> np.ndarray:
    """A public number from which people are drawn."""
    return np.asarray(noise.laplace(_SEEDS, 1)[0])


def chosen(
    counts: Sequence[np.ndarray], *, seed: int, values: int, factor: int, modulus: int
) -> np.ndarray:
    """The panel (steps, people) that has `counts[t][g, c]` people of group g take value c at step
    t, group by group from group 0.

    A person of group g that takes value c comes to group (g * factor + c) % modulus.
    """
    from tailrace.mechanisms.panel import people_kernel as kernel

    people = int(counts[0].sum()) if len(counts) else 0
    panel, groups = np.empty((len(counts), people), np.uint8), np.zeros(people, np.int32)
    assert values <= MOST_VALUES
    for step, left in enumerate(counts):
        kernel.extend(groups, left.astype(np.int64), seed, step, factor, modulus, panel[step])
    return panel


def spread(seed: int, step: int, many: int) -> np.ndarray:
    """Public numbers from 0 up to, not including, 1: how `many` halves are rounded at a step."""
    from tailrace.mechanisms.panel import people_kernel as kernel

    return kernel.spread(seed, -step, many) * 2.0**-32


def checked(mechanism: Any, name: str) -> None:
    """Refuse what no panel can be made of."""
    domain, unit, privacy = mechanism.domain, mechanism.unit, mechanism.privacy
    if not isinstance(domain, Schema) or len(domain.attributes) != 1:
        raise ConfigError(
            f"domain of {name} must be a Schema of one attribute: what each person reports, e.g. "
            f"Schema(poor=Integer(0, 1))."
        )
    if (
        not isinstance(domain.attributes[0], Categorical | Integer)
        or not 2 <= domain.size <= MOST_VALUES
    ):
        raise ConfigError(
            f"The attribute of a panel is a Categorical or an Integer of 2 to {MOST_VALUES} values."
        )
    if not isinstance(unit, User) or unit.events is not None or unit.records is not None:
        raise ConfigError(
            f"{name} protects whole histories: unit=User(column=...), without a bound on events or "
            f"records."
        )
    if unit.column in domain.columns:
        raise ConfigError("The column of the person's id cannot be the one that holds the value.")
    if not isinstance(privacy, ZCDP | ApproxDP):
        raise ConfigError(
            f"{name} draws Gaussian noise: privacy=ZCDP(rho=...) or ApproxDP(epsilon=..., "
            f"delta=...)."
        )
    if mechanism.neighbours not in (AddRemove, Replace, Null):
        raise ConfigError("neighbours must be AddRemove, Replace or Null.")
    if not isinstance(mechanism.missing, Missing):
        raise ConfigError("missing must be Missing.Carry, Missing.Category or Missing.Drop.")
    if mechanism.people is not None:
        if mechanism.neighbours is AddRemove:
            raise ConfigError(
                "Under AddRemove nobody may know how many people there are: leave people= out, or "
                "use Null or Replace."
            )
        if whole("people", mechanism.people) > MOST_PEOPLE:
            raise ConfigError(f"people must be at most {MOST_PEOPLE:,}.")


def stated(
    loss: Loss, privacy: Loss, *, unit: Unit, neighbours: Neighbours, horizon: int
) -> Guarantee:
    """A guarantee in the form that was asked for."""
    return Guarantee(restate(loss, privacy), unit, neighbours, horizon)
