"""The loss of a linear counter, measured from outside.

1. Every counter here is linear: estimates = running sums + L z, with z the noise it draws.
   `response` finds L by feeding one unit of noise at a time.
2. An event at step s moves the estimates by 1 from s on. A shift r of the noise hides it where L r
   equals that movement.
3. Laplace noise of scales b: the loss is at most the least sum of abs(r_i) / b_i over such r (a
   linear program).
4. Gaussian noise of variances v: it is the least sum of r_i^2 / (2 v_i), exact for a fixed stream.

A scale that misses a level, or a variance that is too small, shows up here, whatever the counter's
own `loss` says.
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
    """Noise: 1 for row i's i-th draw, else 0."""

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
    """(L, draws): the estimates' response to each draw of noise.

    L is (steps, draws); draws are kinds and parameters.
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
    """The loss of one event at the worst step.

    Epsilon for Laplace noise, rho for Gaussian; infinite where no shift of the noise hides it.
    """
    lines, draws = response(counter, steps)
    # moves[s]: an event at step s, seen from s on
    moves = np.tril(np.ones((steps, steps))).T
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
