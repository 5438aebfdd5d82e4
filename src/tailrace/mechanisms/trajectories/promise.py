"""The guarantee of a release of trajectories.

1. Whatever is counted, one unit adds nonnegative parts, at most WHOLE in all: it moves a vector of
   counts by at most WHOLE in the 1-norm, and by at most the root of `square` times WHOLE in the
   2-norm. `square` is 1, or less where the parts cannot all lie in one place (`counts.py`).
2. Noise of scale WHOLE / epsilon is epsilon-DP then, of variance square WHOLE^2 / (2 rho) rho-zCDP.
3. The parts follow one another, each with noise of its own, and what one counts may depend on what
   was released before: losses add up (adaptive composition).
"""

from __future__ import annotations

import abc
import functools
import operator
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tailrace.counting.journeys.masses import LEAST, WHOLE
from tailrace.counting.journeys.reading import Reading
from tailrace.domain.geometry import Roads
from tailrace.domain.geometry.partition import partition_of
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Takes
from tailrace.mechanisms.trajectories.layout import Map
from tailrace.noise import drawable
from tailrace.noise.atoms import Atoms
from tailrace.privacy.budget import Drawn, restate, split
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import Loss, PureDP, check_privacy
from tailrace.privacy.unit import AddRemove, Event, Unit, User


def atoms_of(budget: Drawn, whole: int = WHOLE, square: Fraction = Fraction(1)) -> Atoms:
    """Noise for parts; one unit moves at most `whole`.

    `square`: the squared 2-norm of its move, in wholes.
    """
    atoms = Atoms(budget, weight=whole if isinstance(budget, PureDP) else square * whole**2)
    atoms.check()
    return atoms


def whole_within(budgets: Iterable[Drawn]) -> int:
    """The parts of one unit that noise allows.

    WHOLE, halved while some budget's noise is beyond the sampler's range.
    """
    each = list(budgets)
    whole = WHOLE
    while whole > LEAST and not all(_drawable(budget, whole) for budget in each):
        whole //= 2
    return whole


def _drawable(budget: Drawn, whole: int) -> bool:
    pure = isinstance(budget, PureDP)
    return drawable(Atoms(budget, whole if pure else whole**2).scale, gaussian=not pure)


def check_columns(domain: Map, **names: str) -> None:
    """Refuse columns that cannot make trajectories on a map."""
    for name, column in names.items():
        if not isinstance(column, str) or not column:
            raise ConfigError(f"{name} must name a column, for example {name}='{name}'.")
    partition_of(domain)
    if len(domain.columns) != 2:
        raise ConfigError("domain must have two columns: trajectories are followed on a map.")
    if len({*names.values(), *domain.columns}) < 4:
        raise ConfigError("trajectory, order and the columns of domain must be different columns.")


def on_map(domain: Map) -> Map:
    """The map as journeys count on it: points near roads belong to them."""
    return domain.for_journeys() if isinstance(domain, Roads) else domain


class OfTrajectories(abc.ABC):
    """The shared part of mechanisms that release trajectories once."""

    takes = Takes.Once
    neighbours = AddRemove
    horizon = 1
    deletes = False

    domain: Map
    privacy: Loss
    unit: Unit
    trajectory: str
    order: str

    def _check(self) -> None:
        """Refuse arguments that no such mechanism can have."""
        check_privacy(self.privacy)
        object.__setattr__(self, "domain", on_map(self.domain))
        unit = self.unit
        person = isinstance(unit, User) and unit.events is None and unit.records is None
        if not isinstance(unit, Event) and not person:
            raise ConfigError(
                "unit must be Event(), which is one trajectory, or User(column=...), one person "
                "with all of theirs: no bound on their number is needed."
            )
        check_columns(self.domain, trajectory=self.trajectory, order=self.order)

    @property
    def _reading(self) -> Reading:
        user = self.unit.column if isinstance(self.unit, User) else None
        return Reading(self.domain, trajectory=self.trajectory, order=self.order, user=user)

    @property
    @abc.abstractmethod
    def _parts(self) -> Mapping[str, Any]:
        """The parts that are measured, each with its share."""

    @functools.cached_property
    def budgets(self) -> dict[str, Drawn]:
        """The budget of each part, in epsilon or rho."""
        return split(self.privacy, {name: part.share for name, part in self._parts.items()})

    def _guaranteed(self, losses: Iterable[Loss]) -> Guarantee:
        """The guarantee of parts with these losses."""
        loss = restate(functools.reduce(operator.and_, losses), self.privacy)
        made = Guarantee(loss, self.unit, AddRemove, 1, deletes=False)
        return replace(made, record="trajectory") if isinstance(self.unit, Event) else made
