"""The baseline: every snapshot, with an even part of the budget.

Privacy: releases of one part each, as many as there are steps, or steps in a window; nothing is
looked at to decide.
Accuracy: the noise of one release grows with the number of steps (pure), or with its square root
(zCDP). Source: section 3.4 of Li et al. 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tailrace.calls import told
from tailrace.mechanisms.snapshot.policy import (
    Decision,
    Hidden,
    Pace,
    Series,
    Snapshot,
    Split,
    beginning,
    bounded,
    released,
)
from tailrace.noise import Draws
from tailrace.privacy.budget import Drawn, part


@told
@dataclass(frozen=True, kw_only=True)
class EveryStep:
    """A release at every step."""

    @property
    def tracks(self) -> bool:
        return False

    def split(self, series: Series) -> Split:
        steps = bounded(series, "EveryStep")
        return Split(part(series.privacy, Fraction(1, steps)), steps)

    def proved(self, series: Series) -> Drawn | None:  # noqa: ARG002
        return None

    def begin(self, series: Series) -> Pace:
        return beginning(series)

    def decide(
        self, series: Series, pace: Pace, hidden: Hidden, snapshot: Snapshot, noise: Draws
    ) -> Decision:  # noqa: ARG002
        return Decision(1, released(pace, 1), hidden)
