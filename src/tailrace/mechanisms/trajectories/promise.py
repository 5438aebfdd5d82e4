"""The guarantee of a release of trajectories.

1. Whatever is counted, one unit adds nonnegative parts, at most WHOLE in all: it moves a vector of
   counts by at most WHOLE in the 1-norm, and so in the 2-norm.
2. Noise of scale WHOLE / epsilon is epsilon-DP then, of variance WHOLE^2 / (2 rho) rho-zCDP.
3. The parts follow one another, each with noise of its own, and what one counts may depend on what
   was released before: losses add up (adaptive composition).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from tailrace.counting.journeys.masses import LEAST, WHOLE
from tailrace.domain.geometry.partition import partition_of
from tailrace.errors import ConfigError
from tailrace.noise import drawable
from tailrace.noise.atoms import Atoms
from tailrace.privacy.budget import Drawn, restate
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import Loss, PureDP, check_privacy
from tailrace.privacy.unit import AddRemove, Event, Unit, User


def atoms_of(budget: Drawn, whole: int = WHOLE) -> Atoms:
    """Noise for parts; one unit moves at most `whole`."""
    atoms = Atoms(budget, weight=whole if isinstance(budget, PureDP) else whole**2)
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


def promise(losses: Sequence[Loss], privacy: Loss, unit: Unit) -> Guarantee:
    """The guarantee of parts with these losses."""
    loss = restate(functools.reduce(lambda one, other: one & other, losses), privacy)
    if isinstance(unit, Event):
        return Guarantee(loss, unit, AddRemove, 1, record="trajectory", deletes=False)
    return Guarantee(loss, unit, AddRemove, 1, deletes=False)


def check(domain: Any, privacy: Loss, unit: Unit, trajectory: str, order: str) -> None:
    """Refuse arguments that no mechanism for trajectories can have."""
    check_privacy(privacy)
    person = isinstance(unit, User) and unit.events is None and unit.records is None
    if not isinstance(unit, Event) and not person:
        raise ConfigError(
            "unit must be Event(), which is one trajectory, or User(column=...), one person with "
            "all of theirs: no bound on their number is needed."
        )
    for name, column in (("trajectory", trajectory), ("order", order)):
        if not isinstance(column, str) or not column:
            raise ConfigError(f"{name} must name a column, for example {name}='{name}'.")
    partition_of(domain)
    if len(domain.columns) != 2:
        raise ConfigError("domain must have two columns: trajectories are followed on a map.")
    if len({trajectory, order, *domain.columns}) < 4:
        raise ConfigError("trajectory, order and the columns of domain must be different columns.")
