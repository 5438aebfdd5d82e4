"""The view of a panel by weight."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.panel.people import Births, chosen
from tailrace.mechanisms.panel.queries import AtLeast, Between, Query, code_of
from tailrace.mechanisms.panel.view import PanelView, doubts


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CumulativeView(PanelView):
    """Answers to "at least b of the first t steps".

    They are about one value of the domain.
    """

    totals: np.ndarray  # (steps, weights) synthetic people with at least 0, 1, ... ones
    estimates: np.ndarray  # (steps, weights) unbiased, of the true people
    variances: np.ndarray  # (steps, weights)
    counted: int  # the code of the value
    counters: tuple[Any, ...]  # of weight 1, 2, ...
    # The number of people, where that is public.
    people: int | None

    @property
    def facts(self) -> dict[str, str]:
        value = self.values[self.counted]
        return {**super().facts, "counted": str(value)}

    @functools.cached_property
    def codes(self) -> np.ndarray:
        """(steps, people): the value, another one, or absent yet.

        Which other one is not known where the domain has several: it is then shown as absent.
        """
        size, known = self.domain.size, [one for one in super().values if one is not None]
        other = 1 - self.counted if len(known) == 2 else size
        return np.array([other, self.counted, size], np.uint8)[self._weighed]

    @property
    def values(self) -> list[Any]:
        return [*super().values, None]

    @property
    def notes(self) -> tuple[str, ...]:
        # Those seen, where they are counted; at least those who had the value once.
        latest = zip(self.estimates[-1, :2], self.variances[-1, :2], strict=True)
        seen = [Estimate(float(value), float(var) ** 0.5) for value, var in latest if var]
        return doubts(self.people, max(seen, key=lambda one: one.value))

    @property
    def _weighed(self) -> np.ndarray:
        """(steps, people): 1 for the value, 0 for another, 2 before a person joins."""
        before = np.zeros_like(self.totals[0])
        before[0] = self.totals[0, 0]
        counts = []
        for now in self.totals:
            # Who joins has the value never before.
            before = np.append(now[0], before[1:])
            # Of the people with exactly 0, 1, ... ones before.
            ones = now[1:] - before[1:]
            counts.append(np.stack([before[:-1] - before[1:] - ones, ones], axis=1))
            before = now
        joined = np.diff(self.totals[:, 0], prepend=self.totals[0, 0])
        births = Births(joined.tolist(), group=0)
        modulus = self.totals.shape[1]
        return chosen(counts, seed=self.seed, values=3, factor=1, modulus=modulus, births=births)

    def estimate(self, query: Query, *, step: int | None = None) -> Estimate:
        """The people that `AtLeast(times=b, of=t)` holds for at step t.

        Of `Between(first, last)`: how often all people had the value then.
        """
        if isinstance(query, Between):
            return self._often(query, self._end(query, step))
        at, times = self._place(query, step)
        return Estimate(float(self.estimates[at, times]), float(np.sqrt(self.variances[at, times])))

    def proportion(self, query: Query, *, step: int | None = None) -> Estimate:
        """The same as a share of the people seen so far.

        Where their number is not public, it is a share of its estimate. Of `Between`: the mean.
        """
        if isinstance(query, Between):
            often, at = self.estimate(query, step=step), query.last - 1
            total = float(self.estimates[at, 0])
            if total <= 0:
                return Estimate(0.0, float("inf"))
            mean = often.value / total
            return Estimate(mean, float(np.hypot(often.error, mean * self._error(at)) / total))
        at, times = self._place(query, step)
        total = float(self.estimates[at, 0])
        if total <= 0:
            return Estimate(0.0, float("inf"))
        share = float(self.estimates[at, times]) / total
        variance = self.variances[at, times] + (
            share**2 * self.variances[at, 0] if times else -self.variances[at, 0]
        )
        return Estimate(share, float(np.sqrt(variance)) / total)

    def _error(self, at: int) -> float:
        return float(self.variances[at, 0]) ** 0.5

    def _often(self, query: Between, step: int | None) -> Estimate:
        """The sum over b of how many reached b between two steps."""
        self._check_value(query.value)
        last, before = self._at(step, 1), query.first - 1
        reached = self.estimates[last - 1, 1:].sum()
        reached -= self.estimates[before - 1, 1:].sum() if before else 0.0
        variance = sum(
            float(counter.variance(last - b + 1, max(before - b + 1, 0)))
            for b, counter in enumerate(self.counters[:last], 1)
        )
        return Estimate(float(reached), variance**0.5)

    def _check_value(self, value: object) -> None:
        if value is not None and code_of(super().values, value) != self.counted:
            raise ConfigError(
                "This panel keeps how often people had one value of the domain: ask for that one, "
                "or leave value= out."
            )

    def _place(self, query: Query, step: int | None) -> tuple[int, int]:
        at = self._at(step, 1)
        if (
            not isinstance(query, AtLeast)
            or query.of != at
            or (query.value is not None and code_of(super().values, query.value) != self.counted)
        ):
            raise ConfigError(
                "This panel keeps how often people had one value of the domain since the first "
                f"step, and nothing else: ask AtLeast(times=b, of={at}) of step {at}, or use "
                "PanelWindow for patterns and shorter windows."
            )
        return at - 1, query.times
