"""A plan: what budgets, horizons and mechanisms would buy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.mechanisms.base import Mechanism, Takes
from tailrace.planning.course import Course, number
from tailrace.privacy.loss import ZCDP, ApproxDP, Loss, PureDP
from tailrace.privacy.unit import plural

NOTHING_SPENT = "Nothing private was read, and no budget was charged."
# A course is worth a sentence where its error is smaller by this factor.
_BETTER = 0.9


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """One mechanism with one budget and horizon, and its errors.

    name: how it differs from the plan's own; empty for that one.
    steps: how many were looked at.
    exact: whether errors are exact, or measured on stand-in data.
    noise: standard errors of single measurements, where they are known exactly.
    """

    name: str
    mechanism: Mechanism
    steps: int
    exact: bool
    courses: tuple[Course, ...]
    noise: dict[str, float]

    def course(self, question: str) -> Course | None:
        """The course of a question, where it is asked here."""
        return next((one for one in self.courses if one.question == question), None)

    def to_dict(self) -> dict[str, Any]:
        """The outcome in plain values, for JSON."""
        return {
            "name": self.name,
            "mechanism": type(self.mechanism).__name__,
            "budget": float(budget_of(self.mechanism.privacy)),
            "steps": self.steps,
            "promise": str(self.mechanism.guarantee),
            "exact": self.exact,
            "courses": [one.to_dict() for one in self.courses],
            "noise_of_one_measurement": self.noise,
        }


@dataclass(frozen=True)
class Reach:
    """The least budget with which a question has an error.

    budget: epsilon (or rho); None: no budget that was tried reaches it.
    """

    question: str
    error: float
    budget: float | None

    def sentence(self, privacy: Loss) -> str:
        """What reaches the error, in a sentence."""
        name, shown = budget_name(privacy), f"{self.question} within +- {number(self.error)}"
        if self.budget is None:
            return f"No {name} that was tried shows {shown}."
        return f"{name.capitalize()} = {self.budget:g} shows {shown}."


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """What a mechanism would buy, before anything is spent.

    asked: the mechanism as it was given.
    budgets: the same with other budgets, that one among them, ascending.
    horizons: the same over other numbers of steps, that one among them, ascending.
    others: other units, settings and mechanisms.
    reached: the budgets that reach the error asked for.
    data: where stand-in data came from; empty where none were needed.
    few: that there are too few journeys to draw any, or until when; empty otherwise.
    """

    asked: Outcome
    budgets: tuple[Outcome, ...]
    horizons: tuple[Outcome, ...]
    others: tuple[Outcome, ...]
    reached: tuple[Reach, ...]
    data: str
    few: str = ""

    @property
    def noun(self) -> str:
        """What is counted, in the plural."""
        return noun_of(self.asked.mechanism)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The plan in words: errors, budgets for them, better choices."""
        privacy = self.asked.mechanism.privacy
        return (
            *filter(None, [self.few]),
            *(one.sentence(self.noun) for one in self.asked.courses),
            *(one.sentence(privacy) for one in self.reached),
            *self.advice,
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """Other mechanisms and units that have smaller errors."""
        first, found = self.asked.courses[0], []
        for other in self.others:
            course = other.course(first.question)
            if course is None or not course.overall < _BETTER * first.overall:
                continue
            times = f"{first.overall / course.overall:.2g} times less"
            promise = other.mechanism.guarantee.short
            other_one = promise != self.asked.mechanism.guarantee.short
            found.append(
                f"{other.name[0].upper()}{other.name[1:]}: +- {number(course.overall)} instead of "
                f"+- {number(first.overall)} for {first.question}, {times}."
                f"{f' It promises {promise}.' if other_one else ''}"
            )
        if self.others and not found:
            return ("No other unit, setting or mechanism that was tried has a smaller error.",)
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """The plan in plain values, for JSON."""
        return {
            "asked": self.asked.to_dict(),
            "budgets": [one.to_dict() for one in self.budgets],
            "horizons": [one.to_dict() for one in self.horizons],
            "others": [one.to_dict() for one in self.others],
            "reached": [vars(one) for one in self.reached],
            "stand_in": self.data or None,
            "sentences": list(self.sentences),
        }

    def table(self, question: str) -> tuple[list[str], list[list[str]]]:
        """Header and rows that compare all outcomes on a question."""
        header = ["", "+-", "nine in ten within", "at the last step", "found"]
        rows = []
        for one in self.compared:
            course = one.course(question)
            if course is None or not len(course.error):
                continue
            figures = (course.overall, course.overall_most, float(course.error[-1]))
            how = "exact" if one.exact else "by trial"
            rows.append([label(one, self.asked), *map(number, figures), how])
        return header, rows

    @property
    def compared(self) -> tuple[Outcome, ...]:
        """Each outcome once: budgets, horizons, others."""
        return tuple(dict.fromkeys((*self.budgets, *self.horizons, *self.others)))

    def html(self) -> str:
        """A page that shows the plan, without a network."""
        from tailrace.planning.page import page

        return page(self)

    def __str__(self) -> str:
        return "\n".join([*self.sentences, self.data or "All errors are exact.", NOTHING_SPENT])

    def _repr_html_(self) -> str:
        from tailrace.planning.page import body

        return body(self)


def label(one: Outcome, asked: Outcome) -> str:
    """How an outcome is called in a table: by what it does not share."""
    both = [(budget_of(of.mechanism.privacy), of.steps) for of in (one, asked)]
    if one.name and both[0] == both[1]:
        return one.name
    loss = f"{budget_name(one.mechanism.privacy)} = {float(both[0][0]):g}"
    steps = "" if one.mechanism.takes is Takes.Once else f", {plural(one.steps, 'step')}"
    return f"{one.name}: {loss}{steps}" if one.name else f"{loss}{steps}"


def noun_of(mechanism: Mechanism) -> str:
    """What a mechanism counts, in the plural."""
    if hasattr(mechanism, "trajectory"):
        return "journeys"
    if mechanism.takes in (Takes.Panel, Takes.Snapshots):
        return "people"
    return "records" if hasattr(mechanism.domain, "attributes") else "points"


def budget_name(privacy: Loss) -> str:
    """The name of the number that is spent."""
    return "rho" if isinstance(privacy, ZCDP) else "epsilon"


def budget_of(privacy: Loss) -> Any:
    """The number that is spent: epsilon, or rho."""
    return privacy.rho if isinstance(privacy, ZCDP) else privacy.epsilon


def with_budget(privacy: Loss, amount: Any) -> Loss:
    """The same kind of loss with another number."""
    if isinstance(privacy, ZCDP):
        return ZCDP(rho=amount)
    if isinstance(privacy, ApproxDP):
        return ApproxDP(epsilon=amount, delta=privacy.delta)
    return PureDP(epsilon=amount)


def reaching(outcomes: Sequence[Outcome], question: str, error: float) -> float | None:
    """The least budget with this error, between those that were tried.

    Errors follow powers of the budget in between; two significant digits, rounded up.
    """
    pairs = [
        (float(budget_of(one.mechanism.privacy)), course.overall)
        for one in outcomes
        if (course := one.course(question)) is not None
    ]
    pairs.sort()
    for (low, above), (high, below) in itertools.pairwise(pairs):
        if below <= error < above:
            share = math.log(above / error) / max(math.log(above / max(below, 1e-300)), 1e-12)
            return _up(low * (high / low) ** share)
    return _up(pairs[0][0]) if pairs and pairs[0][1] <= error else None


def _up(value: float) -> float:
    """Two significant digits, rounded up."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{np.ceil(value / unit - 1e-9) * unit:.6g}")
