"""Points on land: the domain of places inside polygons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from tailrace.calls import told
from tailrace.domain.attributes import policy
from tailrace.domain.geometry import areas, files, grid, shapes
from tailrace.domain.geometry.cells import OnBox, box_of, nonempty


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
        place = box_of(shape, "Region", columns=columns, cells=cells, beyond=beyond, box=box)
        values = {"wkb": shapes.to_bytes(shape), "box": place, "outside": outside}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def read(cls, path: str | Path, **options: Any) -> Region:
        """Read the polygons of a GeoJSON or GeoParquet file, merged.

        `options` are the keyword parameters of Region.
        """
        return cls(files.polygons(Path(path)), **options)

    @property
    def polygons(self) -> Any:
        """The shapely geometry."""
        return self._geometry

    @property
    def _farthest(self) -> float:
        return math.inf if self.outside == "nearest" else 0.0

    def _cut(self) -> areas.Areas:
        found = areas.measured(self.polygons, grid.of_box(self.box))
        return nonempty(found, "Region")
