"""Points of a geometry counted on a box.

This is what Region and Roads share. One public table says for every cell of the box in which cell
its points count: in itself where it holds a part of the geometry; otherwise in the nearest cell
within reach that does, or nowhere.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import narwhals as nw
import numpy as np

from tailrace.domain import Box, Frame
from tailrace.domain.attributes import reals
from tailrace.domain.geometry import shapes
from tailrace.domain.geometry.areas import Areas
from tailrace.domain.geometry.lengths import Lengths
from tailrace.errors import ConfigError, DataError
from tailrace.privacy.loss import whole

Found = TypeVar("Found", Areas, Lengths)
# Cells per side. Chosen by reasoning: every cell has an entry in a table, 16 million of them here.
_MOST = 4096


@dataclass(frozen=True, init=False, repr=False)
class OnBox(abc.ABC):
    """Points of a geometry on the grid of a box."""

    # Of the geometry, in messages and in stored values.
    _noun: ClassVar[str]

    # The geometry as well-known binary: bytes compare and hash.
    wkb: bytes
    box: Box
    outside: Literal["drop", "nearest"]

    @functools.cached_property
    def _geometry(self) -> Any:
        return shapes.from_bytes(self.wkb)

    @functools.cached_property
    def _measured(self) -> Areas | Lengths:
        return self._cut()

    @abc.abstractmethod
    def _cut(self) -> Areas | Lengths:
        """The geometry cut along the grid."""

    @property
    @abc.abstractmethod
    def _farthest(self) -> float:
        """The farthest that a point may be moved."""

    @property
    def low(self) -> tuple[float, ...]:
        return self.box.low

    @property
    def high(self) -> tuple[float, ...]:
        return self.box.high

    @property
    def columns(self) -> tuple[str, ...]:
        return self.box.columns

    @property
    def side(self) -> int:
        return self.box.side

    @property
    def shape(self) -> tuple[int, ...]:
        return self.box.shape

    @property
    def size(self) -> int:
        """The number of cells of the box, empty ones included."""
        return self.box.size

    @property
    def types(self) -> dict[str, nw.dtypes.DType]:
        """The types of decoded columns, fixed by the domain."""
        return self.box.types

    @functools.cached_property
    def _homes(self) -> np.ndarray:
        """The cell that each cell's points count in; or -1."""
        from tailrace.domain.geometry import kernel

        width, height = self._measured.grid.width.tolist()
        return kernel.nearest(self._measured.measure > 0, width, height, self._farthest)

    def measure_of_cells(self) -> np.ndarray:
        """The area or length in each cell, by x, y."""
        return self._measured.measure

    def check(self, frame: Frame) -> None:
        """Refuse a frame whose columns are missing or not numeric."""
        self.box.check(frame)

    def cell(self, frame: Frame) -> nw.Expr:
        """The row's cell of the box, on any engine.

        The expression is null beyond the box; `settle` says in which cell the row counts.
        """
        return self.box.cell(frame)

    def settle(self, cells: np.ndarray) -> np.ndarray:
        """Map cells to those that count, by a public table."""
        from tailrace.domain import kernel

        return kernel.look_up(cells, self._homes)

    def cells(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        """The cell each row counts in; -1: dropped."""
        return self.settle(self.box.cells(frame))

    def decode(self, cells: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Draw a point of the geometry in each cell, evenly."""
        numbers, measure = np.asarray(cells, np.int64), self._measured.measure.reshape(-1)
        if len(numbers) and (
            numbers.min() < 0 or numbers.max() >= measure.size or not measure[numbers].all()
        ):
            raise DataError(
                "Only a cell that holds a part of the geometry has points; see measure_of_cells()."
            )
        points = self._measured.draw(numbers, rng)
        return dict(zip(self.columns, np.ascontiguousarray(points.T), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The domain in plain values of TOML or JSON.

        The geometry is well-known binary in hexadecimal digits.
        """
        geometry = {"kind": type(self).__name__, self._noun: self.wkb.hex()}
        place = {"columns": list(self.columns), "box": [*self.low, *self.high]}
        return {**geometry, **place, "cells": self.side, "outside": self.outside}

    def __repr__(self) -> str:
        many = shapes.library().get_num_geometries(self._geometry)
        place = f"low={self.low}, high={self.high}, columns={self.columns}, cells={self.side}"
        return f"{type(self).__name__}(<{many} {self._noun}>, {place}, outside={self.outside!r})"


def box_of(
    shape: Any,
    name: str,
    *,
    columns: Sequence[str],
    cells: int,
    beyond: Literal["drop", "clip"],
    box: Sequence[float] | None,
    margin: float = 0.0,
) -> Box:
    """The declared box, or the bounding box with a margin.

    `beyond` is the policy of the box for points outside it.
    """
    if isinstance(columns, str) or not isinstance(columns, Sequence) or len(columns) != 2:
        raise ConfigError(
            f"columns of {name} must be two names, of x and of y, for example columns=('lon', "
            f"'lat')."
        )
    if whole("cells", cells) > _MOST:
        raise ConfigError(f"cells of {name} must be at most {_MOST:,} per side.")
    if box is None:
        west, south, east, north = shape.bounds
        bounds = (west - margin, south - margin, east + margin, north + margin)
        if not (bounds[0] < bounds[2] and bounds[1] < bounds[3]):
            raise ConfigError(
                f"The bounding box of {name} has no width or no height; declare a wider one with "
                f"box=."
            )
    else:
        bounds = reals(box, f"box of {name}")
        if len(bounds) != 4 or not (bounds[0] < bounds[2] and bounds[1] < bounds[3]):
            raise ConfigError(
                f"box of {name} must be four numbers: lowest x, lowest y, highest x, highest y."
            )
        if shapes.within(shape, bounds).is_empty:
            raise ConfigError(f"box of {name} must hold a part of the geometry.")
    place = Box(low=bounds[:2], high=bounds[2:], columns=columns, cells=cells, outside=beyond)
    if not np.isfinite(place.side / np.subtract(place.high, place.low)).all():
        raise ConfigError(
            f"The cells of {name} are too narrow for floating-point numbers; declare a wider box=."
        )
    return place


def nonempty(found: Found, name: str) -> Found:
    """Refuse a geometry of which no cell holds a part."""
    if not found.measure.any():
        raise ConfigError(
            f"The geometry of {name} is too small or too thin for its grid; declare a smaller box=."
        )
    return found
