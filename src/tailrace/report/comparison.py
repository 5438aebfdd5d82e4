"""Counters side by side: the error each predicts of itself, and the error it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.counters import BinaryTree, Block, Counter, Simple, SqrtToeplitz, best
from tailrace.errors import ConfigError
from tailrace.loss import ApproxDP, PureDP
from tailrace.noise import Noise
from tailrace.report.chart import Line, line_chart


@dataclass(frozen=True)
class Compared:
    """One counter over a horizon: standard deviation of its estimate at each step, predicted and measured."""

    name: str
    counter: Counter[Any]
    predicted: np.ndarray  # (steps,)
    measured: np.ndarray  # (steps,)

    @property
    def rms(self) -> tuple[float, float]:
        """Root mean square over the steps: predicted, measured."""
        return float(np.sqrt((self.predicted**2).mean())), float(np.sqrt((self.measured**2).mean()))


def contestants(*, epsilon: str, delta: str, horizon: int) -> dict[str, Counter[Any]]:
    """The papers' three counters, the best at the same pure guarantee, and the square root where a delta is allowed."""
    pure = PureDP(epsilon=epsilon)
    return {
        "Simple": Simple(privacy=pure, horizon=horizon),
        "Block of 8": Block(size=8, privacy=pure, horizon=horizon),
        "Binary tree": BinaryTree(privacy=pure, horizon=horizon),
        "ours, pure": best(privacy=pure, horizon=horizon),
        f"Toeplitz, delta {delta}": SqrtToeplitz(privacy=ApproxDP(epsilon=epsilon, delta=delta), horizon=horizon),
    }


def compare(
    name: str, counter: Counter[Any], *, copies: int, noise: Noise, progress: Callable[[], None] | None = None
) -> Compared:
    """Run `copies` rows of zeros through `counter`: what comes out is its error."""
    steps = counter.horizon
    if steps is None:
        raise ConfigError("Counters are compared over a horizon: give the counter one.")
    state, measured = counter.init(copies), np.empty(steps)
    for t in range(steps):
        state, estimate = counter.step(state, np.zeros(copies, np.int64), noise.at(name, t))
        measured[t] = np.sqrt((estimate.astype(float) ** 2).mean())
        if progress is not None:
            progress()
    return Compared(name, counter, np.sqrt(counter.variance(np.arange(1, steps + 1))), measured)


def chart(compared: list[Compared], *, title: str) -> str:
    """Predicted errors as lines, measured ones as dots."""
    lines = [Line(c.name, np.arange(1, len(c.predicted) + 1), c.predicted, dots=c.measured) for c in compared]
    return line_chart(lines, title=title, x_label="step", y_label="standard deviation of the running sum")
