"""How far off a count is, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailrace.mechanisms.base import Estimate

# Errors above this part of those of nothing are told; by reasoning, as trials vary by some percent.
_BETTER = 0.95


@dataclass(frozen=True, eq=False)
class Course:
    """The error of one question over time.

    question: what is counted.
    steps: the steps shown.
    error: standard errors, the root mean square over all counts of the question.
    most: nine in ten counts are off by less.
    typical: a usual true count; 0 where nothing is known.
    nothing: the errors of a release of nothing; of no length where they are not known.
    """

    question: str
    steps: np.ndarray  # (steps,)
    error: np.ndarray  # (steps,)
    most: np.ndarray  # (steps,)
    typical: float = 0.0
    nothing: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (steps,)

    @property
    def overall(self) -> float:
        """The error over all steps, their root mean square."""
        return float(np.sqrt((self.error**2).mean())) if len(self.error) else float("nan")

    @property
    def overall_most(self) -> float:
        """The same of the errors that nine in ten stay below."""
        return float(np.sqrt((self.most**2).mean())) if len(self.most) else float("nan")

    def sentence(self, noun: str) -> str:
        """The error in units that people know."""
        usual = round_number(self.typical) if self.typical >= 1 else 1000
        named = f"{self.question[0].upper()}{self.question[1:]}"
        # Of "one value" and "a rectangle" there are several, with some people each.
        several = self.question.startswith(("one ", "a "))
        start = f"{named} with {usual:,} {noun}" if several else f"{named}, say {usual:,},"
        shown = told(Estimate(usual, self.overall))
        within = number(self.overall_most)
        said = f"{start} will be shown as {shown}; nine in ten are within {within}."
        if len(self.nothing) and self.overall >= _BETTER * float(np.sqrt((self.nothing**2).mean())):
            said += " That is no better than releasing nothing."
        return said

    def to_dict(self) -> dict[str, Any]:
        """The course in plain values, for JSON."""
        return {
            "question": self.question,
            "steps": self.steps.tolist(),
            "error": self.error.tolist(),
            "nine_in_ten": self.most.tolist(),
            "overall": self.overall,
            "usual_count": self.typical or None,
            "error_of_nothing": self.nothing.tolist() or None,
        }


def round_number(value: float) -> int:
    """A round number near a value.

    >>> round_number(1234), round_number(87)
    (1000, 90)
    """
    return int(float(f"{value:.0e}"))


def number(value: float) -> str:
    """Two significant digits of a small error, whole larger ones.

    >>> number(0.456), number(7.89), number(1234.5)
    ('0.46', '7.9', '1,234')
    """
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def told(shown: Estimate) -> str:
    """A count with its error.

    >>> told(Estimate(1000, 37.2))
    '1,000 +- 37'
    """
    return f"{shown.value:,.0f} +- {number(shown.error)}"
