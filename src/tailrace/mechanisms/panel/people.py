"""Synthetic people: created once, then extended, never rewritten.

Which synthetic person gets which value is a function of released counts and of a released seed:
each person draws one of the places that its group has left. So the panel need not be stored: the
first t columns follow from the counts of the first t steps, the same after every restart.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from tailrace.counting.memory import Missing
from tailrace.domain import Categorical, Integer, Schema
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Sample, Table, Takes, Wider
from tailrace.noise import Draws
from tailrace.privacy.budget import restate
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import ZCDP, ApproxDP, Loss, whole
from tailrace.privacy.unit import AddRemove, Neighbours, Null, Replace, Unit, User

if TYPE_CHECKING:
    from tailrace.mechanisms.panel.view import PanelView

# Values of the attribute: a code takes a byte.
MOST_VALUES = 256
# The kernel draws places by 32 bits.
MOST_PEOPLE = 2**32 - 1
# The scale of the draw that seeds the people: large enough that seeds hardly ever repeat.
_SEEDS = 10**9


@dataclass(frozen=True)
class People(Wider):
    """Rows of a panel: a synthetic id and a value.

    Ids count from 1; real ids are never seen here.
    """

    id: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.id, *self.domain.columns)

    @property
    def types(self) -> dict[str, nw.dtypes.DType]:
        return {self.id: nw.Int64(), **self.domain.types}

    def decode(self, cells: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Ids from 1 and values; a cell beyond the domain is null."""
        absent = cells >= self.domain.size
        columns = self.domain.decode(np.where(absent, 0, cells), rng)
        if absent.any():
            columns = {name: _null(values, absent) for name, values in columns.items()}
        return {self.id: np.arange(1, len(cells) + 1), **columns}


def _null(values: np.ndarray, absent: np.ndarray) -> np.ndarray:
    nullable = values.astype(object)
    nullable[absent] = None
    return nullable


class Panel:
    """The shared part of both panels."""

    domain: Schema
    unit: Unit
    horizon: Any  # steps; None where there is no end
    privacy: Loss
    neighbours: Neighbours
    people: int | None
    missing: Missing
    complete: bool
    takes = Takes.Panel
    deletes = False
    rounds = 1
    # How many attributes there may be.
    columns: tuple[int, ...] = (1,)

    @property
    def rows(self) -> People:
        return People(self.domain, self._column)

    @property
    def _column(self) -> str:
        assert isinstance(self.unit, User)
        return self.unit.column

    @property
    def policy(self) -> Missing:
        """What becomes of a missing report; a broken promise is carried."""
        return Missing.Carry if self.complete else self.missing

    def _guaranteed(self, losses: Iterable[Loss]) -> Guarantee:
        """The sum of the losses as a guarantee."""
        loss = functools.reduce(lambda a, b: a & b, losses)
        return Guarantee(restate(loss, self.privacy), self.unit, self.neighbours, self.horizon)

    def sample(self, view: PanelView | None, previous: Table, rng: np.random.Generator) -> Sample:
        if view is None:
            here, cells = np.zeros(0, np.int64), np.zeros(0, np.int64)
        else:
            here = np.flatnonzero(view.alive)
            cells = view.codes[-1][here].astype(np.int64)
        gone = np.ones(len(previous), np.bool_)
        columns = {**self.rows.decode(cells, rng), self._column: here + 1}
        return previous.after(gone, cells, columns)

    def _check(self) -> None:
        """Refuse settings that no panel can be made of."""
        name = type(self).__name__
        domain, unit, privacy = self.domain, self.unit, self.privacy
        if not isinstance(domain, Schema) or len(domain.attributes) not in self.columns:
            many = "one attribute" if self.columns == (1,) else "two or three attributes"
            example = "poor=Integer(0, 1)" + ("" if self.columns == (1,) else ", ill=Integer(0, 1)")
            raise ConfigError(
                f"domain of {name} must be a Schema of {many}: what each person reports, "
                f"e.g. Schema({example})."
            )
        if (
            not all(isinstance(one, Categorical | Integer) for one in domain.attributes)
            or any(getattr(one, "growing", False) for one in domain.attributes)
            or not 2 <= min(domain.shape) <= max(domain.shape) <= MOST_VALUES
        ):
            raise ConfigError(
                f"The attribute of a panel is a Categorical or an Integer of 2 to {MOST_VALUES} "
                f"values."
            )
        if not isinstance(unit, User) or unit.events is not None or unit.records is not None:
            raise ConfigError(
                f"{name} protects whole histories: unit=User(column=...), without a bound on "
                f"events or records."
            )
        if unit.column in domain.columns:
            raise ConfigError(
                "The column of the person's id cannot be the one that holds the value."
            )
        if not isinstance(privacy, ZCDP | ApproxDP):
            raise ConfigError(
                f"{name} draws Gaussian noise: privacy=ZCDP(rho=...) or ApproxDP(epsilon=..., "
                f"delta=...)."
            )
        if self.neighbours not in (AddRemove, Replace, Null):
            raise ConfigError("neighbours must be AddRemove, Replace or Null.")
        if not isinstance(self.missing, Missing):
            raise ConfigError(
                "missing must be Missing.Absent, Missing.Carry, Missing.Category or Missing.Drop."
            )
        if not isinstance(self.complete, bool):
            raise ConfigError("complete must be True or False.")
        if self.complete and self.missing not in (Missing.Absent, Missing.Carry):
            raise ConfigError(
                "complete=True promises that nobody misses a step: leave missing= out."
            )
        if self.people is not None:
            if self.neighbours is AddRemove:
                raise ConfigError(
                    "Under AddRemove nobody may know how many people there are: leave people= "
                    "out, or use Null or Replace."
                )
            if whole("people", self.people) > MOST_PEOPLE:
                raise ConfigError(f"people must be at most {MOST_PEOPLE:,}.")


def seed(noise: Draws) -> np.ndarray:
    """Draw the public seed of the people."""
    return np.asarray(noise.laplace(_SEEDS, 1)[0])


@dataclass(frozen=True)
class Births:
    """People who are born into a group, step by step.

    many: (steps,) how many.
    group: where they begin.
    ends: the step from which on people who come to that group are gone for ever; None: never.
    """

    many: Sequence[int]
    group: int
    ends: int | None = None


def chosen(
    counts: Sequence[np.ndarray],
    *,
    seed: int,
    values: int,
    factor: int,
    modulus: int,
    births: Births | None = None,
) -> np.ndarray:
    """The panel (steps, people) with these counts.

    At step t, `counts[t][g, c]` people of group g take value c. The first people start in group 0;
    a person of group g that takes value c comes to group (g * factor + c) % modulus. Before they
    are born and once they are gone, people have the last value.
    """
    from tailrace.mechanisms.panel import people_kernel as kernel

    assert values <= MOST_VALUES
    first = int(counts[0].sum()) if len(counts) else 0
    born = Births([0] * len(counts), 0) if births is None else births
    ever = first + sum(born.many[1:])
    panel, groups = np.full((len(counts), ever), values - 1, np.uint8), np.zeros(ever, np.int32)
    # Those who are gone have a group of their own, the last.
    gone, now = np.zeros(ever, np.bool_), first
    for step, some in enumerate(counts):
        if step:
            groups[now : now + born.many[step]] = born.group
            now += born.many[step]
        left = np.vstack([some, np.zeros_like(some[:1])]).astype(np.int64)
        groups[gone] = len(some)
        left[-1, -1] = np.count_nonzero(gone)
        kernel.extend(groups[:now], left, seed, step, factor, modulus, panel[step, :now])
        if born.ends is not None and step >= born.ends:
            gone[:now] |= groups[:now] == born.group
    return panel


def spread(seed: int, step: int, many: int) -> np.ndarray:
    """Public numbers in [0, 1) that round `many` shares."""
    from tailrace.mechanisms.panel import people_kernel as kernel

    return kernel.spread(seed, -step, many) * 2.0**-32
