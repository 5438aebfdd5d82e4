"""The domain of places: an evenly divided box of points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np

from tailrace.calls import told
from tailrace.domain.attributes import clipped, policy, present, reals
from tailrace.domain.columns import Product
from tailrace.errors import ConfigError
from tailrace.privacy.loss import whole

# Doubles that each cell must hold, so that a point drawn inside a cell is counted in it.
_FINEST = 64


@told
@dataclass(frozen=True, init=False, repr=False)
class Box(Product):
    """Points from `low` to `high` on an even grid.

    Both ends are included; there are one to four columns, of which the last changes fastest, and
    `cells` per side. `outside="drop"` does not count a point beyond the box, "clip" moves it to the
    nearest one inside; a point with a missing coordinate is never counted.

    >>> Box(low=(-74.26, 40.48), high=(-73.70, 40.92), columns=("lon", "lat")).shape
    (1024, 1024)
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    columns: tuple[str, ...]
    side: int  # cells per side; `cells` is a method
    outside: Literal["drop", "clip"]

    def __init__(
        self,
        *,
        low: Sequence[float],
        high: Sequence[float],
        columns: Sequence[str],
        cells: int = 1024,
        outside: Literal["drop", "clip"] = "drop",
    ) -> None:
        names = () if isinstance(columns, str) else tuple(columns)
        named = all(isinstance(name, str) and name for name in names)
        if not named or not 1 <= len(names) <= 4 or len(set(names)) != len(names):
            raise ConfigError(
                "columns of a Box must be one to four different names, for example columns=('lon', "
                "'lat')."
            )
        lows, highs = reals(low, "low of a Box"), reals(high, "high of a Box")
        if not len(lows) == len(highs) == len(names):
            raise ConfigError("low and high of a Box must have one number for each of its columns.")
        whole("cells", cells)
        policy(outside, ("drop", "clip"), "Box")
        values = {"low": lows, "high": highs, "columns": names, "side": int(cells)}
        for name, value in (values | {"outside": outside}).items():
            object.__setattr__(self, name, value)
        for lowest, highest in zip(lows, highs, strict=True):
            if not lowest < highest or not math.isfinite(highest - lowest):
                raise ConfigError(
                    "low of a Box must lie below its high in every column, a finite width apart."
                )
            if (highest - lowest) / cells < _FINEST * math.ulp(max(abs(lowest), abs(highest))):
                raise ConfigError(
                    "The cells of this Box are too narrow for floating-point numbers; use fewer "
                    "cells."
                )

    def __repr__(self) -> str:
        place = f"low={self.low}, high={self.high}, columns={self.columns}"
        return f"Box({place}, cells={self.side}, outside={self.outside!r})"

    @property
    def types(self) -> dict[str, nw.dtypes.DType]:
        """The types of decoded columns, from the domain alone."""
        return {column: nw.Float64() for column in self.columns}

    @property
    def axes(self) -> tuple[_Side, ...]:
        return tuple(
            _Side(*bounds, self.side, self.outside)
            for bounds in zip(self.low, self.high, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """The box in plain values, for TOML or JSON."""
        place = {"columns": list(self.columns), "low": list(self.low), "high": list(self.high)}
        return {"kind": "Box", **place, "cells": self.side, "outside": self.outside}


@dataclass(frozen=True)
class _Side:
    """One side of a box: an even grid."""

    low: float
    high: float
    size: int
    outside: str

    @property
    def holds(self) -> str:
        return "numbers"

    @property
    def scale(self) -> float:
        return self.size / (self.high - self.low)

    def code(self, x: nw.Expr) -> nw.Expr:
        inside = present(x) if self.outside == "clip" else (x >= self.low) & (x <= self.high)
        number = ((clipped(x, self.low, self.high) - self.low) * self.scale).floor().cast(nw.Int64)
        last = nw.lit(self.size - 1, nw.Int64)
        return nw.when(inside).then(nw.when(number < self.size - 1).then(number).otherwise(last))

    def encode(self, values: np.ndarray) -> np.ndarray:
        from tailrace.domain import kernel

        clip = self.outside == "clip"
        return kernel.grid(values, self.low, self.high, self.scale, self.size, clip)

    def decode(self, codes: np.ndarray, rng: np.random.Generator, /) -> np.ndarray:
        width = (self.high - self.low) / self.size
        values = np.clip(self.low + (codes + rng.random(len(codes))) * width, self.low, self.high)
        # By rounding, at a cell's edge.
        strayed = self.encode(values) != codes
        values[strayed] = self.low + (codes[strayed] + 0.5) * width
        return values
