"""Rows of a table too wide to number its cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.domain.columns import Frame
from tailrace.domain.schema import Schema
from tailrace.errors import ConfigError


@dataclass(frozen=True)
class Digits:
    """The rows of a schema of any width, by the numbers of their values.

    `cells` is an array (rows, attributes).

    >>> import polars as pl
    >>> from tailrace.domain import Categorical, Integer
    >>> ward = Digits(Schema(sex=Categorical(["f", "m"]), age=Integer(0, 99)))
    >>> ward.cells(nw.from_native(pl.DataFrame({"sex": ["m", "?"], "age": [30, 40]})))
    array([[ 1, 30],
           [-1, -1]], dtype=int32)
    """

    schema: Schema

    @property
    def columns(self) -> tuple[str, ...]:
        return self.schema.columns

    @property
    def size(self) -> int:
        return self.schema.size

    @property
    def types(self) -> dict[str, nw.dtypes.DType]:
        return self.schema.types

    def check(self, frame: Frame) -> None:
        self.schema.check(frame)

    def cell(self, frame: Frame) -> nw.Expr:  # noqa: ARG002
        """Refused: no one number says which row it is."""
        raise ConfigError(
            "Rows known by the numbers of their values have no one number: plan with the Schema "
            "itself."
        )

    def cells(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        """(rows, attributes) int32; all -1 where the row is dropped."""
        return self.schema.digits(frame)

    def settle(self, cells: np.ndarray) -> np.ndarray:
        return cells

    def decode(self, cells: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Values of each row in the user's types."""
        return self.schema.decode_digits(np.ascontiguousarray(np.transpose(cells)), rng)
