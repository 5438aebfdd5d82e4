"""Domains that a configuration reads from a file.

`[region]` and `[roads]` name it, relative to their own file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tailrace.domain.geometry import Region, Roads


@dataclass(frozen=True, kw_only=True)
class RegionFile:
    """Polygons in GeoJSON or GeoParquet."""

    path: str
    columns: Sequence[str] = ("lon", "lat")
    cells: int = 1024
    outside: Literal["drop", "nearest"] = "drop"

    def opened(self, folder: Path) -> Region:
        return Region.read(
            folder / self.path, columns=self.columns, cells=self.cells, outside=self.outside
        )


@dataclass(frozen=True, kw_only=True)
class RoadsFile:
    """Lines in GeoJSON or GeoParquet, or a table of edges beside one of `nodes`."""

    path: str
    nodes: str | None = None
    columns: Sequence[str] = ("lon", "lat")
    cells: int = 1024
    outside: Literal["drop", "nearest"] = "drop"
    reach: float | None = None

    def opened(self, folder: Path) -> Roads:
        return Roads.read(
            folder / self.path,
            nodes=None if self.nodes is None else folder / self.nodes,
            columns=self.columns,
            cells=self.cells,
            outside=self.outside,
            reach=self.reach,
        )


FILES: dict[type, type[Any]] = {Region: RegionFile, Roads: RoadsFile}
