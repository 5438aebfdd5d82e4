"""Points on a line network: the domain of roads."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from tailrace.calls import told
from tailrace.domain.attributes import policy
from tailrace.domain.geometry import files, grid, lengths, shapes
from tailrace.domain.geometry.cells import OnBox, box_of, nonempty
from tailrace.errors import ConfigError


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
        counts it in the nearest cell that holds a piece, if that is within `reach`.
    reach: the farthest that a point may be moved, centre to centre, in units of the coordinates;
        the bounding box is wider by it on every side.
    box: lowest x and y, highest x and y, in place of the bounding box; cuts off the lines beyond.

    >>> import shapely
    >>> Roads(shapely.LineString([(0, 0), (4, 4), (4, 0)]), cells=2).measure_of_cells().round(1)
    array([[2.8, 0. ],
           [2. , 4.8]])
    """

    _noun: ClassVar[str] = "lines"
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
                "outside='nearest' of Roads needs reach=, the farthest that a point may be moved; "
                "with outside='drop' the cell decides."
            )
        far = _distance(reach) if reach is not None else 0.0
        shape = shapes.lines(lines)
        place = box_of(
            shape, "Roads", columns=columns, cells=cells, beyond="drop", box=box, margin=far
        )
        if reach is not None and far < min(np.subtract(place.high, place.low)) / place.side:
            raise ConfigError(
                "reach of Roads must be at least the width of a cell, or no point could be moved."
            )
        values = {"wkb": shapes.to_bytes(shape), "box": place, "outside": outside}
        for name, value in (values | {"reach": far or None}).items():
            object.__setattr__(self, name, value)

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
    def lines(self) -> Any:
        """The shapely geometry."""
        return self._geometry

    @property
    def _farthest(self) -> float:
        return self.reach or 0.0

    def _cut(self) -> lengths.Lengths:
        found = lengths.measured(self.lines, grid.of_box(self.box))
        return nonempty(found, "Roads")

    def to_dict(self) -> dict[str, Any]:
        """The roads in plain values of TOML or JSON."""
        return super().to_dict() | ({} if self.reach is None else {"reach": self.reach})


def _distance(reach: float) -> float:
    if isinstance(reach, bool) or not isinstance(reach, numbers.Real) or not 0 < reach < math.inf:
        raise ConfigError("reach of Roads must be a positive number, in units of the coordinates.")
    return float(reach)
