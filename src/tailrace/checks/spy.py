"""Noise that records every draw: path, kind, parameter, shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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
    parameter: Number
    shape: tuple[int, ...]


class Spy:
    """Noise that records every draw; zeros where `source` is None."""

    def __init__(
        self, source: Noise | None, path: tuple[Part, ...] = (), record: list[Drawn] | None = None
    ) -> None:
        self.record: list[Drawn] = [] if record is None else record
        self.path = path
        self._source = source

    def at(self, *path: Part) -> Spy:
        return Spy(self._source and self._source.at(*path), self.path + path, self.record)

    def laplace(self, scale: Number, shape: Shape) -> np.ndarray:
        return self._draw("laplace", scale, shape, np.int64, scale, shape)

    def laplace_by(
        self,
        scale: Number,
        keys: Sequence[str],
        *,
        kept: bool = False,  # noqa: ARG002
    ) -> np.ndarray:
        return self.laplace(scale, len(keys))

    def gaussian(self, variance: Number, shape: Shape) -> np.ndarray:
        return self._draw("gaussian", variance, shape, np.int64, variance, shape)

    def survive(self, n: np.ndarray, rate: Number) -> np.ndarray:
        return self._draw("survive", rate, np.shape(n), np.bool_, n, rate)

    def coin(self, excess: np.ndarray, scale: Number) -> np.ndarray:
        return self._draw("coin", scale, np.shape(excess), np.bool_, excess, scale)

    def choose(self, scores: np.ndarray, rate: Number) -> int:
        return int(self._draw("choose", rate, (), np.int64, scores, rate))

    def _draw(
        self, kind: str, parameter: Number, shape: Shape, dtype: type, *given: Any
    ) -> np.ndarray:
        if any(drawn.path == self.path for drawn in self.record):
            raise NoiseReused("This noise path was drawn from before.")
        silent = self._source is None
        out = np.zeros(shape, dtype) if silent else np.asarray(getattr(self._source, kind)(*given))
        self.record.append(Drawn(self.path, kind, parameter, out.shape))
        return out
