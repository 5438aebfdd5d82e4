"""The contract of a domain, and how it is stored."""

from __future__ import annotations

from typing import Any, Protocol

import narwhals as nw
import numpy as np

from tailrace.domain.amounts import Amount
from tailrace.domain.attributes import Categorical, Integer, Real
from tailrace.domain.box import Box
from tailrace.domain.columns import Frame
from tailrace.domain.schema import Attribute, Schema
from tailrace.errors import ConfigError


class Codes(Protocol):
    """Rows as cell numbers below `size`, and back."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def size(self) -> int: ...
    @property
    def types(self) -> dict[str, nw.dtypes.DType]: ...
    def check(self, frame: Frame) -> None: ...
    def cell(self, frame: Frame) -> nw.Expr: ...
    def cells(self, frame: nw.DataFrame[Any]) -> np.ndarray: ...
    def settle(self, cells: np.ndarray) -> np.ndarray:
        """Turn the cells of an expression into those of `cells`."""
        ...

    def decode(self, cells: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]: ...


_ATTRIBUTES = {kind.__name__: kind for kind in (Categorical, Integer, Real, Amount)}


def from_dict(plain: dict[str, Any]) -> Schema | Box:
    """The domain that `to_dict` wrote.

    >>> from_dict(Box(low=(0,), high=(1,), columns=("x",)).to_dict()).columns
    ('x',)
    """
    try:
        values = dict(plain)
        kind = values.pop("kind")
        if kind == "Box":
            return Box(**values)
        if kind == "Schema" and set(values) == {"attributes"}:
            return _schema([dict(part) for part in values["attributes"]])
    except ConfigError as error:
        raise ConfigError(f"A stored domain cannot be used: {error}") from None
    except (TypeError, ValueError, KeyError):
        pass
    raise ConfigError(
        "A stored domain must be a Schema with its attributes or a Box, as to_dict() writes them."
    ) from None


def _schema(parts: list[dict[str, Any]]) -> Schema:
    columns = [part.pop("column") for part in parts]
    if len(set(columns)) != len(columns):
        raise ConfigError("A stored Schema names a column twice.")
    return Schema(
        **{c: _ATTRIBUTES[part.pop("kind")](**part) for c, part in zip(columns, parts, strict=True)}
    )


def attributes_of(domain: Any) -> dict[str, Attribute]:
    """The attributes of a domain by column; of points none but those declared beside.

    >>> attributes_of(Box(low=(0,), high=(1,), columns=("x",)))
    {}
    """
    schema = domain if isinstance(domain, Schema) else getattr(domain, "schema", None)
    if schema is None:
        return {}
    return dict(zip(schema.columns, schema.attributes, strict=True))
