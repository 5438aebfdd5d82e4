"""The contract of a continual counter: private running sums.

A counter keeps n rows at once, each with a clock of its own.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tailrace.noise import Draws
from tailrace.privacy.loss import Loss

S = TypeVar("S")


class Counter(Protocol[S]):
    """Frozen public configuration, and pure functions of an explicit state.

    `init`, `grow` and `step` return new states and leave the old one as it was: the same state,
    input and noise path give the same result. A state is a frozen dataclass of arrays, and private:
    it holds exact sums. Deletions are negative inputs.
    """

    @property
    def privacy(self) -> Loss | None:
        """The loss of one event; a mechanism fills it in."""
        ...

    @property
    def horizon(self) -> int | None:
        """How many steps a row may take; None: no limit."""
        ...

    def init(self, rows: int) -> S:
        """`rows` running sums at time 0."""
        ...

    def grow(self, state: S, rows: int) -> S:
        """The same with `rows` further rows at time 0."""
        ...

    def step(
        self, state: S, x: np.ndarray, noise: Draws, rows: np.ndarray | None = None
    ) -> tuple[S, np.ndarray]:
        """Feed x[i] to row rows[i]; None: all rows in order.

        Returns the state and the fed rows' estimates of their sums.
        """
        ...

    def loss(self, events: int = 1, deletes: int = 0) -> Loss:
        """The loss of one unit's insertions and deletions together.

        It holds wherever they fall in time and rows.
        """
        ...

    def variance(self, t: ArrayLike, since: ArrayLike = 0) -> np.ndarray:
        """Exact variance of estimate(t) - estimate(since) of a row."""
        ...
