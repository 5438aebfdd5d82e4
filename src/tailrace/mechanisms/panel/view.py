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
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.panel.people import chosen
from tailrace.mechanisms.panel.queries import AtLeast, Query
from tailrace.privacy.loss import whole

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, kw_only=True)
class PanelView(ABC):
    """The synthetic people of a panel, step by step."""

    domain: Schema
    id: str  # the column of the person's id
    step: int
    seed: int

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
    def panel(self) -> pl.DataFrame:
        """The people, a row each, with a column per step.

        The columns are the id, t1, t2, ...
        """
        import polars as pl

        values = pl.Series(self.values)
        columns = {f"t{step}": values.gather(codes) for step, codes in enumerate(self.codes, 1)}
        return pl.DataFrame({self.id: np.arange(1, self.codes.shape[1] + 1), **columns})

    def _at(self, step: int | None, first: int) -> int:
        """The step that is asked for, by default the latest."""
        wanted = self.step if step is None else whole("step", step)
        if not first <= wanted <= self.step:
            raise ConfigError(
                f"Ask for a step from {first} to {self.step}: the panel has not come further yet."
            )
        return wanted


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowView(PanelView):
    """Answers about at most `window` steps in a row."""

    window: int
    histograms: np.ndarray  # (releases, windows) how many synthetic people have each window
    estimates: np.ndarray  # (releases, windows) unbiased, of the true people
    # Of a window's count: at the first release, and the part that a later one adds.
    variances: tuple[float, float]
    # The number of people, where that is public.
    people: int | None
    # People added to each window at the start, in the histograms.
    padding: int

    @functools.cached_property
    def codes(self) -> np.ndarray:
        size, window = self.domain.size, self.window
        first = [
            self.histograms[0].reshape(size**length, -1).sum(axis=1)
            for length in range(1, window + 1)
        ]
        # A group is the history so far; after the first release, its last k - 1 values.
        counts = [part.reshape(-1, size) for part in (*first, *self.histograms[1:])]
        return chosen(
            counts, seed=self.seed, values=size, factor=size, modulus=size ** (window - 1)
        )

    def estimate(self, query: Query, *, step: int | None = None) -> Estimate:
        """Count the people a query holds for, ending at `step`."""
        weights, release = self._weights(query, step)
        return Estimate(
            float(weights @ self.estimates[release]),
            float(np.sqrt(self._variance(weights, release))),
        )

    def proportion(self, query: Query, *, step: int | None = None) -> Estimate:
        """The same as a share of all people.

        Where their number is not public, it is a share of its estimate.
        """
        weights, release = self._weights(query, step)
        total = float(self.people if self.people is not None else self.estimates[release].sum())
        if total <= 0:
            return Estimate(0.0, float("inf"))
        share = float(weights @ self.estimates[release]) / total
        # A ratio, to first order.
        moved = (weights if self.people is not None else weights - share) / total
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
        end = self._at(step, query.length)
        # Of the query's last step in the window.
        place = min(end, self.window)
        size = self.domain.size
        shape = (
            (1,) * (place - query.length) + (size,) * query.length + (1,) * (self.window - place)
        )
        weights = np.broadcast_to(query.weights(self.values).reshape(shape), (size,) * self.window)
        return weights.reshape(-1), max(0, end - self.window)

    def _variance(self, weights: np.ndarray, release: int) -> float:
        """The exact variance of weights @ estimates.

        Each release divides the people that the one before gave each group.
        """
        size, variance = self.domain.size, 0.0
        for _ in range(release):
            rows = weights.reshape(-1, size)
            variance += self.variances[1] * float(
                (rows**2).sum() - (rows.sum(axis=1) ** 2).sum() / size
            )
            weights = np.tile(rows.mean(axis=1), size)
        known = 0.0 if self.people is None else float(weights.sum()) ** 2 / len(weights)
        return max(0.0, variance + self.variances[0] * (float((weights**2).sum()) - known))


@dataclass(frozen=True, eq=False, kw_only=True)
class CumulativeView(PanelView):
    """Answers to "at least b of the first t steps".

    They are about the second value of the domain.
    """

    totals: np.ndarray  # (steps, weights) synthetic people with at least 0, 1, ... ones
    estimates: np.ndarray  # (steps, weights) unbiased, of the true people
    variances: np.ndarray  # (steps, weights)

    @functools.cached_property
    def codes(self) -> np.ndarray:
        before = np.zeros_like(self.totals[0])
        before[0] = self.totals[0, 0]
        counts = []
        for now in self.totals:
            # Of the people with exactly 0, 1, ... ones before.
            ones = now[1:] - before[1:]
            counts.append(np.stack([before[:-1] - before[1:] - ones, ones], axis=1))
            before = now
        return chosen(counts, seed=self.seed, values=2, factor=1, modulus=len(before))

    def estimate(self, query: Query, *, step: int | None = None) -> Estimate:
        """The people that `AtLeast(times=b, of=t)` holds for at step t."""
        at, times = self._place(query, step)
        return Estimate(float(self.estimates[at, times]), float(np.sqrt(self.variances[at, times])))

    def proportion(self, query: Query, *, step: int | None = None) -> Estimate:
        """The same as a share of all people.

        Where their number is not public, it is a share of its estimate.
        """
        at, times = self._place(query, step)
        total = float(self.estimates[at, 0])
        if total <= 0:
            return Estimate(0.0, float("inf"))
        share = float(self.estimates[at, times]) / total
        variance = self.variances[at, times] + (
            share**2 * self.variances[at, 0] if times else -self.variances[at, 0]
        )
        return Estimate(share, float(np.sqrt(variance)) / total)

    def _place(self, query: Query, step: int | None) -> tuple[int, int]:
        at = self._at(step, 1)
        second = self.values[1]
        if (
            not isinstance(query, AtLeast)
            or query.of != at
            or (query.value is not None and query.value != second)
        ):
            raise ConfigError(
                "This panel keeps how often people had the second value of the domain since the "
                "first step, and nothing else: ask "
                f"AtLeast(times=b, of={at}) of step {at}, or use PanelWindow for patterns and "
                f"shorter windows."
            )
        return at - 1, query.times
