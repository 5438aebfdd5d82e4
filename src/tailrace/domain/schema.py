"""A table's columns with their attributes: the domain of records."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from tailrace.calls import told
from tailrace.domain.amounts import Amount
from tailrace.domain.attributes import Categorical, Integer, Real
from tailrace.domain.columns import Product
from tailrace.errors import ConfigError

Attribute = Categorical | Integer | Real | Amount


@told
@dataclass(frozen=True, init=False, repr=False)
class Schema(Product):
    """Named attributes, in order: the domain of records.

    A cell is one value of each, the last attribute changing fastest.

    >>> from tailrace.domain import Categorical, Integer
    >>> Schema(age=Integer(0, 99), sex=Categorical(["f", "m"])).shape
    (100, 2)
    """

    columns: tuple[str, ...]
    attributes: tuple[Attribute, ...]

    def __init__(self, /, **attributes: Attribute) -> None:
        known = all(isinstance(a, Attribute) for a in attributes.values())
        if not attributes or not all(attributes) or not known:
            raise ConfigError(
                "Schema takes one or more named attributes, for example Schema(age=Integer(0, 99))."
            )
        object.__setattr__(self, "columns", tuple(attributes))
        object.__setattr__(self, "attributes", tuple(attributes.values()))

    def __repr__(self) -> str:
        parts = zip(self.columns, self.attributes, strict=True)
        return f"Schema({', '.join(f'{column}={attribute!r}' for column, attribute in parts)})"

    @functools.cached_property
    def amounts(self) -> dict[str, Amount]:
        """The columns that are added up."""
        pairs = zip(self.columns, self.attributes, strict=True)
        return {column: one for column, one in pairs if isinstance(one, Amount)}

    @functools.cached_property
    def bins(self) -> Schema:
        """The columns that are counted: all but amounts."""
        if not self.amounts:
            return self
        pairs = zip(self.columns, self.attributes, strict=True)
        counted = {column: one for column, one in pairs if column not in self.amounts}
        if not counted:
            raise ConfigError(
                "A Schema of amounts needs a column to count by, for example "
                "Schema(shop=Categorical(['a', 'b']), price=Amount(0, 500))."
            )
        return Schema(**counted)

    @property
    def axes(self) -> tuple[Attribute, ...]:
        return self.attributes

    @property
    def types(self) -> dict[str, nw.dtypes.DType]:
        """The types of decoded columns, missing values left apart."""
        return {name: a.dtype for name, a in zip(self.columns, self.attributes, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """The schema in plain values; attributes are an ordered list."""
        parts = zip(self.columns, self.attributes, strict=True)
        return {
            "kind": "Schema",
            "attributes": [{"column": column, **part.to_dict()} for column, part in parts],
        }
