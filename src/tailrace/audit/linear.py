"""The loss of a counter from outside: what its noise can hide, found by asking, not by reading its formulas.

Every counter here is linear: estimates = running sums + L z, with z the noise it draws. `response` finds L by feeding
one unit of noise at a time. An event at step s moves the estimates by 1 from s on; a shift r of the noise with L r =
that movement hides it. For Laplace noise of scales b the loss is at most the least sum of abs(r_i) / b_i over such r
(a linear program); for Gaussian noise of variances v it is the least sum of r_i^2 / (2 v_i), which is exact for a
fixed stream. A scale that forgets a level, or a variance that is too small, shows up here whatever the counter says
of itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrace.counters import Counter
from tailrace.loss import Number
from tailrace.noise import Shape
from tailrace.noise.words import Part


class _Impulses:
    """Noise that is 1 for the i-th draw of row i and 0 else."""

    def __init__(self, kinds: list[tuple[str, float]]) -> None:
        self.kinds = kinds

    def at(self, *path: Part) -> _Impulses:  # noqa: ARG002
        return self

    def laplace(self, scale: Number, shape: Shape) -> np.ndarray:
        return self._draw("laplace", scale, shape)

    def gaussian(self, variance: Number, shape: Shape) -> np.ndarray:
        return self._draw("gaussian", variance, shape)

    def _draw(self, kind: str, parameter: Number, shape: Shape) -> np.ndarray:
        out = np.zeros(shape, np.int64)
        for line in out.reshape(-1, out.shape[-1]):
            if len(self.kinds) < len(line):
                line[len(self.kinds)] = 1
            self.kinds.append((kind, float(parameter)))
        return out


def response(counter: Counter[Any], steps: int) -> tuple[np.ndarray, list[tuple[str, float]]]:
    """(L, draws): the (steps, draws) response of the estimates to each draw of noise, and each draw's kind and parameter."""
    rows = 1
    while True:
        noise: Any = _Impulses([])
        state, estimates = counter.init(rows), []
        for _ in range(steps):
            state, estimate = counter.step(state, np.zeros(rows, np.int64), noise)
            estimates.append(estimate)
        if len(noise.kinds) <= rows:
            return np.array(estimates, float)[:, : len(noise.kinds)], noise.kinds
        rows = len(noise.kinds)


def proved_loss(counter: Counter[Any], steps: int) -> float:
    """The loss of one event at the worst step: epsilon where the noise is Laplace, rho where it is Gaussian."""
    lines, draws = response(counter, steps)
    moves = np.tril(np.ones((steps, steps))).T  # moves[s]: an event at step s, seen from s on
    parameters = np.array([parameter for _, parameter in draws])
    if all(kind == "gaussian" for kind, _ in draws):
        scaled = lines * np.sqrt(parameters)
        return max(float((np.linalg.lstsq(scaled, move, rcond=None)[0] ** 2).sum()) / 2 for move in moves)
    from scipy.optimize import linprog

    both = np.hstack([lines, -lines])
    cost = np.tile(1 / parameters, 2)
    return max(float(linprog(cost, A_eq=both, b_eq=move, bounds=(0, None)).fun) for move in moves)
