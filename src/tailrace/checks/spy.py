"""Noise that records every draw: path, kind, parameter, shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tailrace.errors import NoiseReused
from tailrace.noise import Noise, Shape
from tailrace.noise.words import Part
from tailrace.privacy.loss import Number


@dataclasses.dataclass(frozen=True)
class Drawn:
    """One recorded draw."""

    path: tuple[Part, ...]
    kind: str
    parameter: Any
    shape: tuple[int, ...]


class Spy:
    """Noise that records every draw; zeros where `source` is None.

    Like real noise it refuses a path that was used before.
    """

    def __init__(
        self, source: Noise | None, path: tuple[Part, ...] = (), record: list[Drawn] | None = None
    ) -> None:
        self.record: list[Drawn] = [] if record is None else record
        self.path = path
        self._source = source

    def at(self, *path: Part) -> Spy:
        return Spy(self._source and self._source.at(*path), self.path + path, self.record)

    def laplace(self, scale: Number, shape: Shape) -> np.ndarray:
        return self._draw(
            "laplace", scale, shape, lambda noise: noise.laplace(scale, shape), np.int64
        )

    def gaussian(self, variance: Number, shape: Shape) -> np.ndarray:
        return self._draw(
            "gaussian", variance, shape, lambda noise: noise.gaussian(variance, shape), np.int64
        )

    def survive(self, n: np.ndarray, rate: Number) -> np.ndarray:
        return self._draw(
            "survive", rate, np.shape(n), lambda noise: noise.survive(n, rate), np.bool_
        )

    def coin(self, excess: np.ndarray, scale: Number) -> np.ndarray:
        return self._draw(
            "coin", scale, np.shape(excess), lambda noise: noise.coin(excess, scale), np.bool_
        )

    def choose(self, scores: np.ndarray, rate: Number) -> int:
        return int(
            self._draw(
                "choose", rate, (), lambda noise: np.asarray(noise.choose(scores, rate)), np.int64
            )
        )

    def _draw(
        self,
        kind: str,
        parameter: Any,
        shape: Shape,
        real: Callable[[Noise], np.ndarray],
        dtype: type,
    ) -> np.ndarray:
        if any(drawn.path == self.path for drawn in self.record):
            raise NoiseReused("This noise path was drawn from before.")
        out = np.zeros(shape, dtype) if self._source is None else real(self._source)
        self.record.append(Drawn(self.path, kind, parameter, out.shape))
        return out
