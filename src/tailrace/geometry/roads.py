"""Points on a line network: the domain of places on roads, rails or rivers."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np

from tailrace.calls import told
from tailrace.domain import Box, Frame
from tailrace.domain.attributes import policy
from tailrace.errors import ConfigError
from tailrace.geometry import files, grid, lengths, shapes
from tailrace.geometry.cells import box_of, drawable, held, homes


@told
@dataclass(frozen=True, init=False, repr=False)
class Roads:
    """Points on a shapely LineString or MultiLineString, on a grid of `cells` per side of its bounding box.

    The finest cell decides, by one public table for all engines, since no double lies exactly on a slanting line: a point
    counts if its cell holds a piece of a line. `outside="drop"` does not count a point of any other cell; "nearest" counts it in
    the nearest cell that holds a piece, if that is within `reach` (centre to centre, in units of the coordinates), and
    drops it beyond; the bounding box is then wider by `reach` on every side. What is decoded lies on a line, to the last digits of a
    double, evenly by length. `box` (lowest x and y, highest x and y) takes the place of the bounding box, and cuts off
    the lines what it does not hold.

    >>> import shapely
    >>> Roads(shapely.LineString([(0, 0), (4, 4), (4, 0)]), cells=2).measure_of_cells().round(1)
    array([[2.8, 0. ],
           [2. , 4.8]])
    """

    wkb: bytes  # the lines as well-known binary: bytes compare and hash
    box: Box
    outside: Literal["drop", "nearest"]
    reach: float | None

    def __init__(
        self,
        lines: Any,
        *,
        columns: Sequence[str] = ("lon", "lat"),
        cells: int = 1024,
        outside: Literal["drop", "nearest"] = "drop",
        reach: float | None = None,
        box: Sequence[float] | None = None,
    ) -> None:
        policy(outside, ("drop", "nearest"), "Roads")
        if (reach is None) == (outside == "nearest"):
            raise ConfigError(
                "outside='nearest' of Roads needs reach=, the farthest that a point may be moved; with outside='drop' the cell decides."
            )
        far = _distance(reach) if reach is not None else 0.0
        shape = shapes.lines(lines)
        place = box_of(shape, "Roads", columns=columns, cells=cells, beyond="drop", box=box, margin=far)
        if reach is not None and far < min(np.subtract(place.high, place.low)) / place.side:
            raise ConfigError("reach of Roads must be at least the width of a cell, or no point could be moved.")
        values = {"wkb": shapes.to_bytes(shape), "box": place, "outside": outside, "reach": far or None}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def read(cls, path: str | Path, *, nodes: str | Path | None = None, **options: Any) -> Roads:
        """The lines of a GeoJSON or GeoParquet file, or straight edges between nodes; `options` as of Roads.

        With `nodes` both are tables, CSV or Parquet. The first column of `nodes` is the node's id, and its coordinates are in the
        columns of the domain or in x and y; the first two columns of `path` are the ids of an edge's ends.
        """
        if nodes is None:
            return cls(files.lines(Path(path)), **options)
        return cls(files.edges(Path(path), Path(nodes), options.get("columns", ("lon", "lat"))), **options)

    def __repr__(self) -> str:
        many = shapes.library().get_num_geometries(self.lines)
        place = f"low={self.low}, high={self.high}, columns={self.columns}"
        return f"Roads(<{many} lines>, {place}, cells={self.side}, outside={self.outside!r}, reach={self.reach})"

    @functools.cached_property
    def lines(self) -> Any:
        """The shapely geometry."""
        return shapes.from_bytes(self.wkb)

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
        """The number of cells of the box, empty ones too."""
        return self.box.size

    @property
    def types(self) -> dict[str, nw.dtypes.DType]:
        """The column types of what is decoded; they come from the domain, never from a frame."""
        return self.box.types

    @functools.cached_property
    def _lengths(self) -> lengths.Lengths:
        return held(lengths.measured(self.lines, grid.of_box(self.box)), "Roads")

    @functools.cached_property
    def _homes(self) -> np.ndarray:
        return homes(self._lengths, reach=self.reach or 0.0)

    def measure_of_cells(self) -> np.ndarray:
        """The length of lines inside each cell, by x and y: public; zero in cells that miss the lines."""
        return self._lengths.measure

    def check(self, frame: Frame) -> None:
        """Refuse a frame without the columns, or with one that does not hold numbers."""
        self.box.check(frame)

    def cell(self, frame: Frame) -> nw.Expr:
        """One expression, on any engine: the row's cell of the box, null beyond it; `settle` says where that one counts."""
        return self.box.cell(frame)

    def settle(self, cells: np.ndarray) -> np.ndarray:
        """From cells of the box to those that count: a public table; -1 where the row is dropped."""
        from tailrace.domain import kernel

        return kernel.look_up(cells, self._homes)

    def cells(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        """The cell that each row of an in-memory frame counts in: int64, -1 where the row is dropped."""
        return self.settle(self.box.cells(frame))

    def decode(self, cells: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """A point of a line in each cell, evenly by length inside it."""
        points = self._lengths.draw(drawable(cells, self._lengths.measure), rng)
        return dict(zip(self.columns, np.ascontiguousarray(points.T), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The roads in the plain values of a TOML or JSON file, their lines as well-known binary in hexadecimal digits."""
        place = {"columns": list(self.columns), "box": [*self.low, *self.high], "cells": self.side}
        reach = {} if self.reach is None else {"reach": self.reach}
        return {"kind": "Roads", "lines": self.wkb.hex(), **place, "outside": self.outside, **reach}


def _distance(reach: float) -> float:
    if isinstance(reach, bool) or not isinstance(reach, numbers.Real) or not 0 < reach < math.inf:
        raise ConfigError("reach of Roads must be a positive number, in units of the coordinates.")
    return float(reach)
