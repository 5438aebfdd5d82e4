"""Views of a panel: synthetic histories, and answers with errors.

The people are made of counts that were clipped and rounded, which pulls small counts away from 0.
Answers are made of the measurements before any clipping: they are unbiased, their errors are known
exactly, and some may be negative.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.domain import Schema
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate, Looks
from tailrace.mechanisms.panel.nested import Nested
from tailrace.mechanisms.panel.people import Births, chosen
from tailrace.mechanisms.panel.presence import Presence
from tailrace.mechanisms.panel.queries import Between, Query, Weighted
from tailrace.privacy.loss import whole

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PanelView(Looks, ABC):
    """The synthetic people of a panel, step by step."""

    domain: Schema
    id: str  # the column of the person's id
    step: int
    seed: int

    @property
    def facts(self) -> dict[str, str]:
        return {"people by": ", ".join(self.domain.columns), "step": str(self.step)}

    @functools.cached_property
    @abstractmethod
    def codes(self) -> np.ndarray:
        """(steps, people): the codes of the people's values so far."""

    @property
    def values(self) -> list[Any]:
        """The domain's values in the order of codes; None: missing."""
        attribute: Any = self.domain.attributes[0]
        return attribute.decode(np.arange(attribute.size), None).tolist()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that a reader of the release should know."""
        return ()

    @property
    def counts_missing(self) -> bool:
        """Whether the domain has a value that stands for all others."""
        return self.domain.attributes[0].outside == "other"

    @property
    def panel(self) -> pl.DataFrame:
        """The people, a row each, with a column per step.

        The columns are the id, t1, t2, ...; a person who is absent, or not born yet, has null.
        """
        import polars as pl

        values = pl.Series(self.values)
        columns = {f"t{step}": values.gather(codes) for step, codes in enumerate(self.codes, 1)}
        return pl.DataFrame({self.id: np.arange(1, self.codes.shape[1] + 1), **columns})

    @property
    def alive(self) -> np.ndarray:
        """(people,) who is in the table now, absent or not."""
        return np.ones(self.codes.shape[1], np.bool_)

    @staticmethod
    def _end(query: Query, step: int | None) -> int | None:
        """The last step of a query, where it says so itself."""
        if not isinstance(query, Between):
            return step
        if step not in (None, query.last):
            raise ConfigError("Between says itself at which steps: leave step= out.")
        return query.last

    def _at(self, step: int | None, first: int) -> int:
        """The step that is asked for, by default the latest."""
        wanted = self.step if step is None else whole("step", step)
        if not first <= wanted <= self.step:
            raise ConfigError(
                f"Ask for a step from {first} to {self.step}: the panel has not come further yet."
            )
        return wanted


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class WindowView(PanelView):
    """Answers about at most `window` steps in a row."""

    window: int
    histograms: np.ndarray  # (releases, windows) how many synthetic people have each window
    estimates: np.ndarray  # (releases, windows) unbiased, of the true people
    # The number of people, where that is public.
    people: int | None

    @property
    def facts(self) -> dict[str, str]:
        return {**super().facts, "windows of": f"{self.window} steps"}

    def estimate(self, query: Query, *, step: int | None = None) -> Estimate:
        """Count the people a query holds for, ending at `step`."""
        weights, release = self._weights(query, step)
        return self._answer(weights, release)

    @abstractmethod
    def proportion(self, query: Query, *, step: int | None = None) -> Estimate:
        """The same as a share of people."""

    def _answer(self, weights: np.ndarray, release: int) -> Estimate:
        value = float(weights @ self.estimates[release])
        return Estimate(value, float(np.sqrt(self._variance(weights, release))))

    def _share(self, part: np.ndarray, whole: np.ndarray, release: int) -> Estimate:
        """The ratio of two answers, its error to first order."""
        total = float(whole @ self.estimates[release])
        if total <= 0:
            return Estimate(0.0, float("inf"))
        share = float(part @ self.estimates[release]) / total
        moved = (part - share * whole) / total
        return Estimate(share, float(np.sqrt(self._variance(moved, release))))

    def _weights(self, query: Query, step: int | None) -> tuple[np.ndarray, int]:
        """The query's weights on windows, and the release's place."""
        if query.length > self.window:
            raise ConfigError(
                f"This panel keeps windows of {self.window} steps, and a question about "
                f"{query.length} steps in a row is not one "
                f"about such windows: what the synthetic people do over a longer time is made up. "
                f"Use window={query.length}."
            )
        return self._placed(query.weights(self.values), self._end(query, step))

    def _placed(self, weights: np.ndarray, step: int | None) -> tuple[np.ndarray, int]:
        """Weights of the steps up to `step` as weights of whole windows."""
        length, size = weights.ndim, len(self.values)
        end = self._at(step, length)
        # Of the query's last step in the window.
        place = min(end, self.window)
        shape = (1,) * (place - length) + (size,) * length + (1,) * (self.window - place)
        whole = np.broadcast_to(weights.reshape(shape), (size,) * self.window)
        return whole.reshape(-1), max(0, end - self.window)

    @abstractmethod
    def _variance(self, weights: np.ndarray, release: int) -> float:
        """The exact variance of weights @ estimates."""

    def _first(self, size: int) -> list[np.ndarray]:
        """Counts of the first release's people by step: (history, value)."""
        return [
            self.histograms[0].reshape(size**length, -1).sum(axis=1).reshape(-1, size)
            for length in range(1, self.window + 1)
        ]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ClosedView(WindowView):
    """Windows of people who neither come nor go."""

    # The number of people as measured at the first release, whatever is public.
    measured: float
    # Of a window's count: at the first release, and the part that a later one adds.
    variances: tuple[float, float]
    # The noise of a complete panel, in their place.
    nested: Nested | None
    # People added to each window at the start, in the histograms.
    padding: int

    @functools.cached_property
    def codes(self) -> np.ndarray:
        size = self.domain.size
        # A group is the history so far; after the first release, its last k - 1 values.
        later = [part.reshape(-1, size) for part in self.histograms[1:]]
        modulus = size ** (self.window - 1)
        return chosen(
            [*self._first(size), *later],
            seed=self.seed,
            values=size,
            factor=size,
            modulus=modulus,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        # Streams of before kept the number that is public in place of the measured one.
        if self.nested is None:
            error = (self.histograms.shape[1] * self.variances[0]) ** 0.5
        else:
            everybody = np.ones(self.histograms.shape[1])
            error = self.nested.variance(everybody, later=False, measured=True) ** 0.5
        return doubts(self.people, Estimate(self.measured, error), both=True)

    def proportion(self, query: Query, *, step: int | None = None) -> Estimate:
        """The same as a share of all people.

        Where their number is not public, it is a share of its estimate.
        """
        weights, release = self._weights(query, step)
        if self.people is None:
            return self._share(weights, np.ones_like(weights), release)
        answer = self._answer(weights, release)
        return Estimate(answer.value / self.people, answer.error / self.people)

    def _variance(self, weights: np.ndarray, release: int) -> float:
        # Each release divides the people that the one before gave each group.
        size, variance, nested = self.domain.size, 0.0, self.nested
        for _ in range(release):
            rows = weights.reshape(-1, size)
            if nested is not None:
                own = rows - rows.mean(axis=1, keepdims=True)
                variance += nested.variance(own, later=True)
                weights = np.tile(rows.mean(axis=1), size)
                continue
            variance += self.variances[1] * float(
                (rows**2).sum() - (rows.sum(axis=1) ** 2).sum() / size
            )
            weights = np.tile(rows.mean(axis=1), size)
        if nested is not None:
            return variance + nested.variance(weights, later=False)
        known = 0.0 if self.people is None else float(weights.sum()) ** 2 / len(weights)
        return max(0.0, variance + self.variances[0] * (float((weights**2).sum()) - known))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OpenView(WindowView):
    """Windows of people who join, pause and leave.

    The last of `values` is None: absent. `Pattern(1, None)` asks for those who had 1 and are absent
    now (where the domain has a value for others, None is that one).
    """

    presence: Presence

    @functools.cached_property
    def codes(self) -> np.ndarray:
        size = self.presence.symbols
        later = [part.reshape(-1, size) for part in self.histograms[1:]]
        many = [0] * self.window + [int(part[-1].sum()) for part in later]
        outside = size ** (self.window - 1) - 1
        return chosen(
            [*self._first(size), *later],
            seed=self.seed,
            values=size,
            factor=size,
            modulus=outside + 1,
            births=Births(many, outside, ends=self.window - 1),
        )

    @property
    def values(self) -> list[Any]:
        return [*super().values, None]

    @property
    def alive(self) -> np.ndarray:
        lately = self.codes[-max(self.window - 1, 1) :]
        return (lately != self.presence.values).any(axis=0)

    @property
    def notes(self) -> tuple[str, ...]:
        return doubts(self.people, self.present())

    def present(self, *, step: int | None = None) -> Estimate:
        """The number of people who report at a step."""
        weights, release = self._placed(self._there(1), step)
        return self._answer(weights, release)

    def proportion(self, query: Query, *, step: int | None = None) -> Estimate:
        """The same as a share of those who are present.

        Counted are the people who report at every step of the query.
        """
        weights, release = self._weights(query, step)
        there, _ = self._placed(self._there(query.length), self._end(query, step))
        return self._share(weights * there, there, release)

    def _there(self, length: int) -> np.ndarray:
        """Which windows of `length` steps have no absence."""
        inside = np.zeros((self.presence.symbols,) * length)
        inside[(slice(-1),) * length] = 1.0
        return inside

    def _weights(self, query: Query, step: int | None) -> tuple[np.ndarray, int]:
        asked = query
        if isinstance(query, Weighted) and np.shape(query.by_window) == (
            (self.presence.values,) * query.length
        ):
            asked = Weighted(np.pad(np.asarray(query.by_window, float), (0, 1)))
        weights, release = super()._weights(asked, step)
        # Who is absent throughout is not counted.
        weights = weights.copy()
        weights[-1] = 0.0
        return weights, release

    def _variance(self, weights: np.ndarray, release: int) -> float:
        return self.presence.variance(weights, release)


def doubts(people: int | None, measured: Estimate, *, both: bool = False) -> tuple[str, ...]:
    """Say so where a public number of people is far from the measured one.

    Far is 4 standard errors and 1 %; where people may be absent, only too few is.
    """
    if people is None:
        return ()
    more = measured.value - people
    if max(4 * measured.error, 0.01 * people) >= (abs(more) if both else more):
        return ()
    return (
        f"The public number of people, {people:,}, is far from the measured one, {measured}: "
        "shares are wrong if it is.",
    )
