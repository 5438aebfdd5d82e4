"""A table's columns with their attributes: the domain of records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.calls import told
from tailrace.domain import columns as read
from tailrace.domain.attributes import Attribute
from tailrace.errors import ConfigError


@told
@dataclass(frozen=True, init=False, repr=False)
class Schema:
    """Named attributes, in order: the domain of records.

    A cell is one value of each, the last attribute changing fastest.

    >>> from tailrace.domain import Categorical, Integer
    >>> Schema(age=Integer(0, 99), sex=Categorical(["f", "m"])).shape
    (100, 2)
    """

    columns: tuple[str, ...]
    attributes: tuple[Attribute, ...]

    def __init__(self, /, **attributes: Attribute) -> None:
        if (
            not attributes
            or not all(attributes)
            or not all(isinstance(a, Attribute) for a in attributes.values())
        ):
            raise ConfigError(
                "Schema takes one or more named attributes, for example Schema(age=Integer(0, 99))."
            )
        object.__setattr__(self, "columns", tuple(attributes))
        object.__setattr__(self, "attributes", tuple(attributes.values()))

    def __repr__(self) -> str:
        parts = zip(self.columns, self.attributes, strict=True)
        return f"Schema({', '.join(f'{column}={attribute!r}' for column, attribute in parts)})"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def size(self) -> int:
        """The number of cells, perhaps too many to count."""
        return math.prod(self.shape)

    @property
    def types(self) -> dict[str, nw.dtypes.DType]:
        """The types of decoded columns, from the domain alone.

        Missing values are left apart.
        """
        return {
            column: attribute.dtype
            for column, attribute in zip(self.columns, self.attributes, strict=True)
        }

    def check(self, frame: read.Frame) -> None:
        """Refuse a frame that lacks columns, or their types."""
        read.checked(frame, self.columns, self.attributes)

    def cell(self, frame: read.Frame) -> nw.Expr:
        """Each row's cell as an expression; null where dropped."""
        return read.cell(frame, self.columns, self.attributes)

    def cells(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        """Each in-memory row's cell, int64; -1 where dropped."""
        return read.cells(frame, self.columns, self.attributes)

    def codes(self, frame: read.Frame) -> list[nw.Expr]:
        """Each attribute's code as an expression; null where dropped."""
        return read.codes(frame, self.columns, self.attributes)

    def digits(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        """Each in-memory row's codes, (rows, attributes) int32.

        All are -1 where the row is dropped.

        Unlike cells they have no bound on the number of attributes.
        """
        return read.digits(frame, self.columns, self.attributes)

    def settle(self, cells: np.ndarray) -> np.ndarray:
        """The cells as they are: the expression leaves nothing open."""
        return cells

    def decode(self, cells: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Values of each cell in the user's types.

        `rng` places numbers inside their bins.
        """
        return read.decode(cells, self.columns, self.attributes, rng)

    def to_dict(self) -> dict[str, Any]:
        """The schema in plain values, for TOML or JSON.

        Attributes are a list, since the order of columns matters.
        """
        parts = zip(self.columns, self.attributes, strict=True)
        return {
            "kind": "Schema",
            "attributes": [{"column": column, **part.to_dict()} for column, part in parts],
        }
