"""Places with attributes: a map for each combination of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.calls import told
from tailrace.domain import Box, Frame, Schema
from tailrace.domain.geometry import points
from tailrace.domain.geometry.points import Region, Roads, measure_of_cells
from tailrace.domain.growing import growing_column
from tailrace.errors import ConfigError

# What `count` of a view calls the corners of a rectangle.
_CORNERS = ("low", "high")


@told
@dataclass(frozen=True, repr=False)
class Places:
    """Points on a box, region or roads, with attributes.

    A cell is a value of each attribute and a cell of the ground. A row counts if its place and all
    its attributes do, each by its own policy.

    Parameters
    ground: where points may lie.
    schema: their attributes.

    >>> from tailrace.domain import Categorical, Integer
    >>> city = Box(low=(0, 0), high=(9, 9), columns=("x", "y"), cells=64)
    >>> calls = Schema(kind=Categorical(["fire", "police"]), priority=Integer(1, 3))
    >>> Places(city, calls).columns
    ('x', 'y', 'kind', 'priority')
    """

    ground: Box | Region | Roads
    schema: Schema

    def __post_init__(self) -> None:
        fits = isinstance(self.ground, Box | Region | Roads) and isinstance(self.schema, Schema)
        if not fits:
            raise ConfigError(
                "Places takes a Box, Region or Roads and a Schema of the attributes, for example "
                "Places(city, Schema(kind=Categorical(['fire', 'police'])))."
            )
        for column in self.schema.columns:
            if column in self.ground.columns:
                raise ConfigError(
                    f"schema of Places has the column '{column}', which holds coordinates: name "
                    "the attributes only."
                )
            if column in _CORNERS:
                raise ConfigError(
                    f"schema of Places has the column '{column}', which a view takes for a corner: "
                    "rename it."
                )
        if self.schema.amounts:
            raise ConfigError(
                f"schema of Places has the amount '{next(iter(self.schema.amounts))}', which "
                "HistogramStream adds up; here use an Integer, or a Real with edges."
            )
        if (column := growing_column(self.schema)) is not None:
            raise ConfigError(
                f"schema of Places has the growing list '{column}', which HistogramStream takes: "
                "declare all values here."
            )

    def __repr__(self) -> str:
        return f"Places({self.ground!r}, {self.schema!r})"

    @property
    def box(self) -> Box:
        """The box around the ground."""
        return self.ground if isinstance(self.ground, Box) else self.ground.box

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.ground.columns, *self.schema.columns)

    @property
    def size(self) -> int:
        """The number of cells, those without any ground included."""
        return self.schema.size * self.ground.size

    @property
    def types(self) -> dict[str, nw.dtypes.DType]:
        """The types of decoded columns, fixed by the domain."""
        return {**self.ground.types, **self.schema.types}

    def measure_of_cells(self) -> np.ndarray:
        """The area or length in each cell, by values and places."""
        ground = measure_of_cells(self.ground).reshape(-1)
        return np.broadcast_to(ground, (self.schema.size, self.ground.size))

    def check(self, frame: Frame) -> None:
        """Refuse a frame that lacks columns, or has nested ones."""
        self.ground.check(frame)
        self.schema.check(frame)

    def cell(self, frame: Frame) -> nw.Expr:
        """Each row's cell as an expression; `settle` says where it counts."""
        return self.schema.cell(frame) * self.ground.size + self.ground.cell(frame)

    def settle(self, cells: np.ndarray) -> np.ndarray:
        """Map cells to those that count, by the ground's public table."""
        values, places = np.divmod(cells, self.ground.size)
        return self._joined(values, np.where(cells < 0, -1, self.ground.settle(places)))

    def cells(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        """Each in-memory row's cell, int64; -1 where dropped."""
        return self._joined(self.schema.cells(frame), self.ground.cells(frame))

    def _joined(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        return np.where((values < 0) | (places < 0), -1, values * self.ground.size + places)

    def decode(self, cells: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """A point in each cell, drawn evenly, with its attributes."""
        values, places = np.divmod(np.asarray(cells, np.int64), self.ground.size)
        return {**self.ground.decode(places, rng), **self.schema.decode(values, rng)}

    def to_dict(self) -> dict[str, Any]:
        """The places in plain values of TOML or JSON."""
        return {"kind": "Places", "ground": self.ground.to_dict(), "schema": self.schema.to_dict()}


def from_dict(plain: dict[str, Any]) -> Schema | Box | Region | Roads | Places:
    """Build the domain that `to_dict` wrote.

    >>> city = Box(low=(0, 0), high=(9, 9), columns=("x", "y"), cells=64)
    >>> from_dict(city.to_dict()) == city
    True
    """
    if not isinstance(plain, dict) or plain.get("kind") != "Places":
        return points.from_dict(plain)
    try:
        parts: Any = (from_dict(plain["ground"]), from_dict(plain["schema"]))
        if set(plain) == {"kind", "ground", "schema"}:
            return Places(*parts)
    except KeyError:
        pass
    raise ConfigError("Stored Places must be as to_dict() writes them.")
