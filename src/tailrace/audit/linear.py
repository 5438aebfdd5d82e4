"""The loss of a counter from outside: what its noise can hide, found by asking, not by reading its
formulas.

Every counter here is linear: estimates = running sums + L z, with z the noise it draws. `response`
finds L by feeding one unit of noise at a time. An event at step s moves the estimates by 1 from s
on; a shift r of the noise with L r = that movement hides it. For Laplace noise of scales b the loss
is at most the least sum of abs(r_i) / b_i over such r (a linear program); for Gaussian noise of
variances v it is the least sum of r_i^2 / (2 v_i), which is exact for a fixed stream. A scale that
forgets a level, or a variance that is too small, shows up here whatever the counter says of itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tailrace.counters import Counter
from tailrace.errors import ConfigError
from tailrace.noise import Shape
from tailrace.noise.words import Part
from tailrace.privacy.loss import Number


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
    """(L, draws): the (steps, draws) response of the estimates to each draw of noise, and each
    draw's kind and parameter.
    """
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
    """The loss of one event at the worst step: epsilon where the noise is Laplace, rho where it is
    Gaussian.

    Infinite where no shift of the noise hides the event.
    """
    lines, draws = response(counter, steps)
    moves = np.tril(np.ones((steps, steps))).T  # moves[s]: an event at step s, seen from s on
    kinds, parameters = {kind for kind, _ in draws}, np.array([parameter for _, parameter in draws])
    if len(kinds) > 1:
        raise ConfigError(
            "This counter mixes Laplace and Gaussian noise: its loss is neither an epsilon nor a "
            "rho."
        )
    hide = _hidden_by_gaussian if kinds == {"gaussian"} else _hidden_by_laplace
    return max(hide(lines, parameters, move) for move in moves) if draws else math.inf


def _hidden_by_gaussian(lines: np.ndarray, variances: np.ndarray, move: np.ndarray) -> float:
    scaled = lines * np.sqrt(variances)
    shift = np.linalg.lstsq(scaled, move, rcond=None)[0]
    return float((shift**2).sum()) / 2 if np.allclose(scaled @ shift, move, atol=1e-6) else math.inf


def _hidden_by_laplace(lines: np.ndarray, scales: np.ndarray, move: np.ndarray) -> float:
    from scipy.optimize import linprog

    solved = linprog(
        np.tile(1 / scales, 2), A_eq=np.hstack([lines, -lines]), b_eq=move, bounds=(0, None)
    )
    return float(solved.fun) if solved.status == 0 else math.inf
