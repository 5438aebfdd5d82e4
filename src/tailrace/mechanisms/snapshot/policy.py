"""Policies: when to measure a snapshot, with how much budget.

A policy is frozen and public. It divides the budget into *units*: any `Series.steps` consecutive
steps spend at most `Split.units` of them on releases, counted in integers. Looking at the data in
order to decide is a query: its loss is `Split.decisions`, its noise is drawn in `decide`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from tailrace.domain.halving import Halving, halving
from tailrace.errors import ConfigError
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn
from tailrace.privacy.loss import whole

# The 1-norm, the Kullback-Leibler divergence, the largest difference of a bin.
Distance = Literal["l1", "kl", "max"]


class Measure(Protocol):
    """A distance of the snapshot from the last release; the 1-norm unless named."""

    def __call__(self, kind: Distance = "l1") -> int: ...


# The noise of a release with some units: variances of the whole, and of details by depth.
Variances = Callable[[int], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Series:
    """The public facts that a policy plans with."""

    # A person is protected in any `steps` consecutive steps; None: in all, however many.
    steps: int | None
    # Whether those steps are a sliding window; otherwise the series ends after them.
    sliding: bool
    # The most records of one person in one snapshot.
    records: int
    # The sides of the table.
    shape: tuple[int, ...]
    privacy: Drawn

    @property
    def bins(self) -> int:
        return math.prod(self.shape)

    @property
    def tree(self) -> Halving:
        return halving(self.shape)


@dataclass(frozen=True)
class Split:
    """The division of a budget between releases and decisions."""

    # The loss of one unit of release.
    unit: Drawn
    # The most units in any `steps` consecutive steps.
    units: int
    # The loss of all decisions in as many steps; None where nothing is looked at.
    decisions: Drawn | None = None
    # The units of a usual release, by which pure noise and zCDP are compared.
    usual: int = 1


@dataclass(frozen=True)
class Pace:
    """The public state of a policy."""

    step: np.ndarray  # ()
    last: np.ndarray  # () the step of the last release, 0 before the first
    paid: np.ndarray  # () its units
    # (window,) units of recent steps, at the step modulo the window; (1,) their sum without one.
    spent: np.ndarray
    releases: np.ndarray  # (window,) releases of recent steps, likewise
    threshold: np.ndarray  # () of the relative distance
    # (1 + remembered,) a controller's errors: at the last release, then the latest ones.
    errors: np.ndarray


@dataclass(frozen=True)
class Hidden:
    """The private state of a policy."""

    threshold: np.ndarray  # () the noise on the threshold


@dataclass(frozen=True)
class Snapshot:
    """The current snapshot, as far as a policy may ask."""

    # Private, so only noise may meet it: an integer distance between the snapshot and the last
    # release. One person moves it by at most `records`.
    distance: Measure
    # Public: the mean absolute error of a bin that is released with this many units.
    error: Callable[[int], float]
    # Public: the number of people that distances are relative to.
    population: int
    # Private, likewise: the 1-norms between the snapshot's sums of nodes and given ones, rounded to
    # integers, of some depths. One person moves each by at most `records`.
    apart: Callable[[Sequence[tuple[int, np.ndarray]]], np.ndarray]
    # Public: the noise of a release.
    variances: Variances


@dataclass(frozen=True)
class Decision:
    """Units to release with, and the next state.

    With 0 units the last release stands.
    """

    units: int
    pace: Pace
    hidden: Hidden


@dataclass(frozen=True)
class Combined:
    """What is known after a release, and the state of the policy."""

    pace: Pace
    estimates: np.ndarray  # (bins,)
    variances: np.ndarray  # (bins,) of details, or (0,)


def decided(units: int, pace: Pace, hidden: Hidden) -> Decision:
    """Release with these units at this step, or not at all."""
    if not units:
        return Decision(0, pace, hidden)
    place = int(pace.step) % len(pace.spent)
    spent, releases = pace.spent.copy(), pace.releases.copy()
    spent[place] += units
    releases[place] += 1
    paid = np.asarray(units)
    pace = replace(pace, last=pace.step, paid=paid, spent=spent, releases=releases)
    return Decision(units, pace, hidden)


class Policy(Protocol):
    """When to measure, and with how many units.

    A policy that derives from this class looks at nothing and replaces each release by the next,
    unless it says otherwise.
    """

    @property
    def tracks(self) -> bool:
        """Whether releases are combined; otherwise each replaces the last."""
        return False

    @property
    def foresees(self) -> bool:
        """Whether what is shown moves between releases: see `shown`."""
        return False

    def split(self, series: Series) -> Split:
        """Divide the budget; refuse a series that cannot be served."""
        ...

    def proved(self, series: Series) -> Drawn | None:  # noqa: ARG002
        """The loss of decisions, from the noise drawn."""
        return None

    def begin(self, series: Series) -> Pace:
        """The state before the first step."""
        return beginning(series)

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:
        """Decide about the step at which `pace` stands (see `advanced`)."""
        ...

    def combined(
        self, series: Series, known: Combined, found: np.ndarray, variances: Variances
    ) -> Combined:
        """Combine a release, `found`, with what was known, where `tracks`."""
        del series, variances
        return Combined(known.pace, found, known.variances)

    def shown(
        self, series: Series, known: Combined, variances: Variances
    ) -> tuple[np.ndarray, np.ndarray]:
        """(bins,) estimates and variances at this step, where `foresees`."""
        del series, variances
        return known.estimates, known.variances


class Scheduled(Policy, Protocol):
    """A policy that follows a public schedule."""

    def units(self, series: Series, step: int) -> int:
        """The units of a step's release; 0: none."""
        ...

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:
        del snapshot, noise
        return decided(self.units(series, int(pace.step)), pace, hidden)


def beginning(series: Series, *, threshold: float = 0.0, remembered: int = 0) -> Pace:
    """The state before the first step."""
    window = series.steps if series.sliding and series.steps is not None else 1
    zero, nothing = np.zeros((), np.int64), np.zeros(window, np.int64)
    return Pace(
        zero, zero, zero, nothing, nothing, np.asarray(float(threshold)), np.zeros(1 + remembered)
    )


def advanced(series: Series, pace: Pace) -> Pace:
    """The state at the next step.

    Where a window slides, the units spent `steps` steps ago are free again.
    """
    step = int(pace.step) + 1
    if not series.sliding:
        return replace(pace, step=np.asarray(step))
    place, spent, releases = step % len(pace.spent), pace.spent.copy(), pace.releases.copy()
    spent[place] = releases[place] = 0
    return replace(pace, step=np.asarray(step), spent=spent, releases=releases)


def bounded(series: Series, name: str) -> int:
    """The number of steps, for a policy that needs one."""
    if series.steps is None:
        raise ConfigError(
            f"{name} divides a budget over steps: give a horizon, or unit=Window(steps=...)."
        )
    return series.steps


def cutoff(series: Series, releases: int | None, name: str) -> int:
    """The number of releases, at most one per step.

    None: a hundredth of the steps as in Li et al. 2015, and at least 5.
    """
    if releases is None:
        steps = bounded(series, f"{name} without releases=")
        return min(steps, max(5, -(-steps // 100)))
    return releases if series.steps is None else min(releases, series.steps)


def checked_releases(releases: int | None) -> None:
    """Refuse a number of releases that is none."""
    if releases is not None:
        whole("releases", releases)


def quiet() -> Hidden:
    """The private state of a policy that has none."""
    return Hidden(np.zeros((), np.int64))


def due(series: Series, step: int, releases: int, name: str) -> bool:
    """Whether an even schedule releases this step.

    It releases the first step, and at most `releases` in any `steps` consecutive ones. Where a
    window slides, the distance between releases is a whole number of steps, at least steps /
    releases, so that no window holds one more.
    """
    steps = bounded(series, name)
    if series.sliding:
        return (step - 1) % -(-steps // releases) == 0
    return (step - 1) * releases // steps != (step - 2) * releases // steps
