"""Points on land: the domain of places inside polygons."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np

from tailrace.calls import told
from tailrace.domain import Box, Frame
from tailrace.domain.attributes import policy
from tailrace.geometry import areas, files, grid, shapes
from tailrace.geometry.cells import box_of, drawable, held, homes


@told
@dataclass(frozen=True, init=False, repr=False)
class Region:
    """Points inside a shapely Polygon or MultiPolygon, on a grid of `cells` per side of its bounding box.

    The finest cell decides, by one public table for all engines: a point counts if its cell holds a part of the region, so a
    point off the region counts too where a border crosses its cell. `outside="drop"` does not count a point of any other
    cell; "nearest" counts it in the nearest cell that holds a part (centre to centre, in the coordinates as they are; a
    point beyond the box is first moved to the box). What is decoded lies on the region, evenly by area. `box` (lowest x and
    y, highest x and y) takes the place of the bounding box, and cuts off the region what it does not hold.

    >>> import shapely
    >>> Region(shapely.Polygon([(0, 0), (4, 0), (0, 4)]), cells=2).measure_of_cells()
    array([[4., 2.],
           [2., 0.]])
    """

    wkb: bytes  # the polygons as well-known binary: bytes compare and hash
    box: Box
    outside: Literal["drop", "nearest"]

    def __init__(
        self,
        polygons: Any,
        *,
        columns: Sequence[str] = ("lon", "lat"),
        cells: int = 1024,
        outside: Literal["drop", "nearest"] = "drop",
        box: Sequence[float] | None = None,
    ) -> None:
        policy(outside, ("drop", "nearest"), "Region")
        shape = shapes.polygons(polygons)
        beyond = "clip" if outside == "nearest" else "drop"
        place = box_of(shape, "Region", columns=columns, cells=cells, beyond=beyond, box=box)
        for name, value in {"wkb": shapes.to_bytes(shape), "box": place, "outside": outside}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def read(cls, path: str | Path, **options: Any) -> Region:
        """The polygons of a GeoJSON or GeoParquet file, merged into one region; `options` as of Region."""
        return cls(files.polygons(Path(path)), **options)

    def __repr__(self) -> str:
        many = shapes.library().get_num_geometries(self.polygons)
        place = f"low={self.low}, high={self.high}, columns={self.columns}"
        return f"Region(<{many} polygons>, {place}, cells={self.side}, outside={self.outside!r})"

    @functools.cached_property
    def polygons(self) -> Any:
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
    def _areas(self) -> areas.Areas:
        return held(areas.measured(self.polygons, grid.of_box(self.box)), "Region")

    @functools.cached_property
    def _homes(self) -> np.ndarray:
        return homes(self._areas, reach=math.inf if self.outside == "nearest" else 0.0)

    def measure_of_cells(self) -> np.ndarray:
        """The area of the region inside each cell, by x and y: public; zero in cells that miss the region."""
        return self._areas.measure

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
        """A point of the region in each cell, evenly by area inside it."""
        points = self._areas.draw(drawable(cells, self._areas.measure), rng)
        return dict(zip(self.columns, np.ascontiguousarray(points.T), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The region in the plain values of a TOML or JSON file, its polygons as well-known binary in hexadecimal digits."""
        place = {"columns": list(self.columns), "box": [*self.low, *self.high]}
        return {"kind": "Region", "polygons": self.wkb.hex(), **place, "cells": self.side, "outside": self.outside}
