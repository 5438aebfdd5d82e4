"""When to measure a snapshot, and with how much of the budget: the contract of a policy.

A policy is frozen and public. It divides the budget into *units*: at most `Split.units` of them may
be spent on releases in any `Series.steps` consecutive steps, counted in integers. Looking at the
data in order to decide is a query: its loss is `Split.decisions`, and its noise is drawn in
`decide`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tailrace.errors import ConfigError
from tailrace.noise import Draws
from tailrace.privacy.loss import ZCDP, PureDP, whole

Drawn = PureDP | ZCDP  # Laplace noise, or Gaussian


@dataclass(frozen=True, kw_only=True)
class Series:
    """What is public about a series of snapshots, and all that a policy may plan with.

    A person is protected in any `steps` consecutive steps (`sliding`: a window of them, else there
    are no more), None: in all steps, however many.
    """

    steps: int | None
    sliding: bool
    records: int  # of one person in one snapshot, at most
    bins: int
    privacy: Drawn


@dataclass(frozen=True)
class Split:
    """How the budget is divided."""

    unit: Drawn  # of one unit of release
    units: int  # at most, in any `steps` consecutive steps
    decisions: Drawn | None = None  # of all that is looked at to decide, in as many steps


@dataclass(frozen=True)
class Pace:
    """The public state of a policy."""

    step: np.ndarray  # ()
    last: np.ndarray  # () the step of the last release, 0 before the first
    paid: np.ndarray  # () its units
    # (window,) units of recent steps, a place for each step modulo the window; one sum where
    # nothing slides
    spent: np.ndarray
    releases: np.ndarray  # (window,) releases of recent steps, likewise
    threshold: np.ndarray  # () of the relative distance
    errors: (
        np.ndarray
    )  # (1 + remembered,) of a controller: at the last release, then the latest ones


@dataclass(frozen=True)
class Hidden:
    """The private state of a policy."""

    threshold: np.ndarray  # () the noise on the threshold


@dataclass(frozen=True)
class Snapshot:
    """What a policy may ask about the snapshot at hand. `distance` is private: only noise may meet
    it.
    """

    distance: Callable[
        [], int
        # the 1-norm between the snapshot and the last release, rounded to integers; one person moves it
        # by `records`
    ]
    error: Callable[
        [int], float
    ]  # public: the mean absolute error of a bin, released with so many units
    population: int  # public: what distances are relative to


@dataclass(frozen=True)
class Decision:
    """Units to release with (0: the last release stands), and the next state."""

    units: int
    pace: Pace
    hidden: Hidden


class Policy(Protocol):
    """Frozen and public; `tracks` says whether a release is combined with those before or replaces
    them.
    """

    @property
    def tracks(self) -> bool: ...

    def split(self, series: Series) -> Split:
        """The division of the budget; refuses a series that it cannot serve."""
        ...

    def proved(self, series: Series) -> Drawn | None:
        """The loss of the decisions, from the noise that is drawn; None where nothing is looked
        at.
        """
        ...

    def begin(self, series: Series) -> Pace: ...

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:
        """Whether to release the next step. `pace` is at that step already: see `advanced`."""
        ...


def beginning(series: Series, *, threshold: float = 0.0, remembered: int = 0) -> Pace:
    """Before the first step."""
    window = series.steps if series.sliding and series.steps is not None else 1
    zero = np.zeros((), np.int64)
    nothing = np.zeros(window, np.int64)
    return Pace(
        zero, zero, zero, nothing, nothing, np.asarray(float(threshold)), np.zeros(1 + remembered)
    )


def advanced(series: Series, pace: Pace) -> Pace:
    """At the next step: where a window slides, what was spent `steps` steps ago is free again."""
    step = int(pace.step) + 1
    if not series.sliding:
        return replace(pace, step=np.asarray(step))
    place, spent, releases = step % len(pace.spent), pace.spent.copy(), pace.releases.copy()
    spent[place] = releases[place] = 0
    return replace(pace, step=np.asarray(step), spent=spent, releases=releases)


def released(pace: Pace, units: int) -> Pace:
    """After a release of this step."""
    place, spent, releases = (
        int(pace.step) % len(pace.spent),
        pace.spent.copy(),
        pace.releases.copy(),
    )
    spent[place] += units
    releases[place] += 1
    return replace(pace, last=pace.step, paid=np.asarray(units), spent=spent, releases=releases)


def bounded(series: Series, name: str) -> int:
    """The number of steps, for a policy that needs one."""
    if series.steps is None:
        raise ConfigError(
            f"{name} divides a budget over steps: give a horizon, or unit=Window(steps=...)."
        )
    return series.steps


def cutoff(series: Series, releases: int | None, name: str) -> int:
    """How many releases: as asked for, or a hundredth of the steps as in the paper, and at
    least 5.
    """
    if releases is None:
        steps = bounded(series, f"{name} without releases=")
        return min(steps, max(5, -(-steps // 100)))
    return releases if series.steps is None else min(releases, series.steps)


def checked_releases(releases: Any) -> None:
    if releases is not None:
        whole("releases", releases)


def quiet() -> Hidden:
    """The private state of a policy that has none."""
    return Hidden(np.zeros((), np.int64))


def due(series: Series, step: int, releases: int, name: str) -> bool:
    """Whether a release is due: the first step, then evenly; no more than `releases` in any `steps`
    consecutive ones.

    Where a window slides the distance is a whole number of steps, at least steps / releases, so
    that no window holds one more.
    """
    steps = bounded(series, name)
    if series.sliding:
        return (step - 1) % -(-steps // releases) == 0
    return (step - 1) * releases // steps != (step - 2) * releases // steps
