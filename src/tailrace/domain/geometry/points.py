"""Points of a geometry, counted on the grid of a box.

One public table says for every cell of the box in which cell its points count: in itself where it
holds a part of the geometry; otherwise in the nearest cell within reach that does, or nowhere.
"""

from __future__ import annotations

import abc
import functools
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import narwhals as nw
import numpy as np

from tailrace import domain
from tailrace.calls import told
from tailrace.domain import Box, Frame, Schema
from tailrace.domain.attributes import policy, reals
from tailrace.domain.geometry import files, shapes
from tailrace.domain.geometry.grid import Grid, of_box
from tailrace.domain.geometry.measures import Areas, Lengths, areas, lengths
from tailrace.errors import ConfigError, DataError
from tailrace.privacy.loss import whole

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry as Geometry

# Cells per side. Chosen by reasoning: every cell has an entry in a table, 16 million of them here.
_MOST = 4096


class Measured(Protocol):
    """A domain that says how much of it lies in each cell."""

    def measure_of_cells(self) -> np.ndarray: ...


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
    def _geometry(self) -> Geometry:
        return shapes.from_bytes(self.wkb)

    @functools.cached_property
    def _measured(self) -> Areas | Lengths:
        found = self._cut(of_box(self.box))
        if not found.measure.any():
            raise ConfigError(
                f"The geometry of {type(self).__name__} is too small or too thin for its grid; "
                "declare a smaller box=."
            )
        return found

    @abc.abstractmethod
    def _cut(self, grid: Grid) -> Areas | Lengths:
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
        cells, measure = np.asarray(cells, np.int64), self._measured.measure.reshape(-1)
        within = (cells >= 0) & (cells < measure.size)
        if not within.all() or not measure[cells].all():
            raise DataError(
                "Only a cell that holds a part of the geometry has points; see measure_of_cells()."
            )
        points = self._measured.draw(cells, rng)
        return dict(zip(self.columns, np.ascontiguousarray(points.T), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The domain in plain values; the geometry is hexadecimal WKB."""
        geometry = {"kind": type(self).__name__, self._noun: self.wkb.hex()}
        place = {"columns": list(self.columns), "box": [*self.low, *self.high]}
        return {**geometry, **place, "cells": self.side, "outside": self.outside}

    def __repr__(self) -> str:
        many = shapes.library().get_num_geometries(self._geometry)
        place = f"low={self.low}, high={self.high}, columns={self.columns}, cells={self.side}"
        return f"{type(self).__name__}(<{many} {self._noun}>, {place}, outside={self.outside!r})"


@told
@dataclass(frozen=True, init=False, repr=False)
class Region(OnBox):
    """Points inside a shapely Polygon or MultiPolygon.

    The finest cell decides, by one public table for all engines: a point counts if its cell holds a
    part of the region. So a point off the region counts too, where a border crosses its cell.
    Decoded points lie on the region, evenly by area.

    Parameters
    polygons: the region.
    columns: the names of x and y.
    cells: per side of the bounding box.
    outside: the policy for a point in a cell without any part. "drop" does not count it; "nearest"
        counts it in the nearest cell that holds a part (centre to centre, in the coordinates as
        they are; a point beyond the box is first moved to the box).
    box: lowest x and y, highest x and y, in place of the bounding box; cuts off the region beyond.

    >>> import shapely
    >>> Region(shapely.Polygon([(0, 0), (4, 0), (0, 4)]), cells=2).measure_of_cells()
    array([[4., 2.],
           [2., 0.]])
    """

    _noun: ClassVar[str] = "polygons"

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
        place = _box("Region", shape, box, columns=columns, cells=cells, outside=beyond)
        _set(self, wkb=shapes.to_bytes(shape), box=place, outside=outside)

    @classmethod
    def read(cls, path: str | Path, **options: Any) -> Region:
        """Read the polygons of a GeoJSON or GeoParquet file, merged.

        `options` are the keyword parameters of Region.
        """
        return cls(files.polygons(Path(path)), **options)

    @property
    def polygons(self) -> Geometry:
        """The shapely geometry."""
        return self._geometry

    @property
    def _farthest(self) -> float:
        return math.inf if self.outside == "nearest" else 0.0

    def _cut(self, grid: Grid) -> Areas:
        return areas(self.polygons, grid)


@told
@dataclass(frozen=True, init=False, repr=False)
class Roads(OnBox):
    """Points on a shapely LineString or MultiLineString.

    The finest cell decides, by one public table for all engines, since no double lies exactly on a
    slanting line: a point counts if its cell holds a piece of a line. Decoded points lie on a line,
    to the last digits of a double, evenly by length.

    Parameters
    lines: the network of roads, rails or rivers.
    columns: the names of x and y.
    cells: per side of the bounding box.
    outside: the policy for a point in a cell without any piece. "drop" does not count it; "nearest"
        counts it in the nearest cell that holds a piece, if that is within `reach`, and else drops
        it. Left out: "drop", but "nearest" for journeys, whose receivers stray from the road.
    reach: the farthest that a point may be moved, centre to centre, in units of the coordinates;
        the bounding box is wider by it on every side. Left out: the area of the roads' convex hull
        over their length, in a grid of square blocks half of a block; at least 1.5 cells.
    box: lowest x and y, highest x and y, in place of the bounding box; cuts off the lines beyond.

    >>> import shapely
    >>> Roads(shapely.LineString([(0, 0), (4, 4), (4, 0)]), cells=2).measure_of_cells().round(1)
    array([[2.8, 0. ],
           [2. , 4.8]])
    """

    _noun: ClassVar[str] = "lines"
    reach: float | None
    # Whether `outside` was left out: what becomes of points is for the mechanism to say.
    _open: bool = field(compare=False)

    def __init__(
        self,
        lines: Any,
        *,
        columns: Sequence[str] = ("lon", "lat"),
        cells: int = 1024,
        outside: Literal["drop", "nearest"] | None = None,
        reach: float | None = None,
        box: Sequence[float] | None = None,
    ) -> None:
        if outside is not None:
            policy(outside, ("drop", "nearest"), "Roads")
        if reach is not None and outside == "drop":
            raise ConfigError(
                "reach of Roads is for outside='nearest'; with outside='drop' the cell decides."
            )
        near = outside == "nearest" or reach is not None
        far = _distance(reach) if reach is not None else 0.0
        shape = shapes.lines(lines)
        about: dict[str, Any] = {"columns": columns, "cells": cells, "outside": "drop"}
        place = _box("Roads", shape, box, far, **about)
        if reach is not None and far < min(np.subtract(place.high, place.low)) / place.side:
            raise ConfigError(
                "reach of Roads must be at least the width of a cell, or no point could be moved."
            )
        if near and reach is None:
            far = _usual_reach(shape, place)
            place = _box("Roads", shape, box, far, **about)
        _set(
            self,
            wkb=shapes.to_bytes(shape),
            box=place,
            outside="nearest" if near else "drop",
            reach=far or None,
            _open=outside is None and reach is None,
        )

    @classmethod
    def read(cls, path: str | Path, *, nodes: str | Path | None = None, **options: Any) -> Roads:
        """Read lines from a file, or edges between nodes.

        Parameters
        path: a GeoJSON or GeoParquet file; with `nodes` a table (CSV or Parquet) whose first two
            columns are the ids of an edge's ends.
        nodes: a table with a node's id in its first column, and its coordinates in the columns of
            the domain or in x and y.
        options: the keyword parameters of Roads.
        """
        if nodes is None:
            return cls(files.lines(Path(path)), **options)
        columns = options.get("columns", ("lon", "lat"))
        return cls(files.edges(Path(path), Path(nodes), columns), **options)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, reach={self.reach})"

    @property
    def lines(self) -> Geometry:
        """The shapely geometry."""
        return self._geometry

    def for_journeys(self) -> Roads:
        """These roads, and points near them where nothing else was said."""
        # With one cell or two a side no reach is as wide as a cell.
        return self.near() if self._open and self.side > 2 else self

    def as_kept(self, kept: Any) -> Roads:
        """These roads, with what was left out as `kept` ones have it."""
        alike = self._open and isinstance(kept, Roads) and kept.near() == self.near()
        return kept if alike else self

    def near(self) -> Roads:
        """These roads, with the points that lie within reach of them."""
        if self.outside == "nearest":
            return self
        bounds = (*self.low, *self.high)
        box = None if bounds == self._geometry.bounds else bounds
        own: dict[str, Any] = {"columns": self.columns, "cells": self.side, "box": box}
        found = Roads(self._geometry, outside="nearest", **own)
        _set(found, _open=self._open)
        return found

    @property
    def _farthest(self) -> float:
        return self.reach or 0.0

    def _cut(self, grid: Grid) -> Lengths:
        return lengths(self.lines, grid)

    def to_dict(self) -> dict[str, Any]:
        """The roads in plain values of TOML or JSON."""
        return super().to_dict() | ({} if self.reach is None else {"reach": self.reach})


def _distance(reach: float) -> float:
    if isinstance(reach, bool) or not isinstance(reach, numbers.Real) or not 0 < reach < 1e30:
        raise ConfigError("reach of Roads must be a positive number, in units of the coordinates.")
    return float(reach)


def _usual_reach(shape: Geometry, place: Box) -> float:
    """Half a usual block, by area and length; at least 1.5 cells.

    Streets a and b apart have 1 / a + 1 / b of length for each unit of area, and no point between
    them is farther from a street than half of the shorter side, which is less.
    """
    inside = shapes.within(shape, of_box(place).outline)
    block = shapes.library().convex_hull(inside).area / inside.length
    # As the box is wider by twice the reach, by rounding too.
    cell = 1.5 * max(np.subtract(place.high, place.low)) / max(place.side - 3, 1)
    return float(max(block, cell))


def _set(frozen: OnBox, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


def _box(
    name: str, shape: Geometry, box: Sequence[float] | None, margin: float = 0.0, **options: Any
) -> Box:
    """The declared box, or the bounding box with a margin."""
    columns = options["columns"]
    if isinstance(columns, str) or not isinstance(columns, Sequence) or len(columns) != 2:
        raise ConfigError(
            f"columns of {name} must be two names, of x and of y, for example columns=('lon', "
            f"'lat')."
        )
    if whole("cells", options["cells"]) > _MOST:
        raise ConfigError(f"cells of {name} must be at most {_MOST:,} per side.")
    if box is None:
        west, south, east, north = shape.bounds
        bounds = (west - margin, south - margin, east + margin, north + margin)
        wrong = f"The bounding box of {name} has no width or no height; declare a wider box=."
    else:
        bounds = reals(box, f"box of {name}")
        wrong = f"box of {name} must be four numbers: lowest x, lowest y, highest x, highest y."
    if len(bounds) != 4 or not (bounds[0] < bounds[2] and bounds[1] < bounds[3]):
        raise ConfigError(wrong)
    if box is not None and shapes.within(shape, bounds).is_empty:
        raise ConfigError(f"box of {name} must hold a part of the geometry.")
    place = Box(low=bounds[:2], high=bounds[2:], **options)
    if not np.isfinite(place.side / np.subtract(place.high, place.low)).all():
        raise ConfigError(
            f"The cells of {name} are too narrow for floating-point numbers; declare a wider box=."
        )
    return place


def measure_of_cells(points: Box | Measured) -> np.ndarray:
    """The volume, area or length in each cell: public.

    It is zero where a cell holds nothing of the domain.

    >>> measure_of_cells(Box(low=(0, 0), high=(1, 4), columns=("x", "y"), cells=2))
    array([[1., 1.],
           [1., 1.]])
    """
    if not isinstance(points, Box):
        return points.measure_of_cells()
    volume = math.prod(
        (high - low) / points.side for low, high in zip(points.low, points.high, strict=True)
    )
    # One number in memory, however many cells there are.
    return np.broadcast_to(volume, points.shape)


def from_dict(plain: dict[str, Any]) -> Schema | Box | Region | Roads:
    """Build the domain that `to_dict` wrote.

    >>> import shapely
    >>> triangle = Region(shapely.Polygon([(0, 0), (1, 0), (0, 1)]))
    >>> from_dict(triangle.to_dict()) == triangle
    True
    """
    values = dict(plain) if isinstance(plain, dict) else {}
    kind = values.pop("kind", None)
    if kind not in ("Region", "Roads"):
        return domain.from_dict(plain)
    owner: Any = Region if kind == "Region" else Roads
    try:
        return owner(shapes.from_text(values.pop(owner._noun)), **values)
    except ConfigError as error:
        raise ConfigError(f"A stored {kind} cannot be used: {error}") from None
    except (TypeError, KeyError):
        raise ConfigError(f"A stored {kind} must be as to_dict() writes it.") from None
