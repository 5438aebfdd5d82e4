"""Frozen configurations as the plain values of a JSON file, and back, exactly: fractions as text, classes by name.

Nothing is imported or run by name: a reader passes the kinds it knows.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from tailrace.errors import ConfigError

Kinds = Mapping[str, Callable[..., Any]]


def to_plain(thing: Any) -> Any:
    """`thing` as dictionaries, lists, texts and numbers.

    >>> from tailrace import PureDP
    >>> to_plain(PureDP(epsilon=0.5))
    {'kind': 'PureDP', 'epsilon': '1/2'}
    """
    if hasattr(thing, "to_dict") and not isinstance(thing, type):
        return {"kind": type(thing).__name__, "plain": thing.to_dict()}
    if isinstance(thing, enum.Enum):
        return {"kind": thing.name}
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        values = {field.name: to_plain(getattr(thing, field.name)) for field in dataclasses.fields(thing)}
        return {"kind": type(thing).__name__, **values}
    if isinstance(thing, Fraction):
        return str(thing)
    if isinstance(thing, list | tuple):
        return [to_plain(item) for item in thing]
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    raise ConfigError(
        f"A configuration is made of frozen dataclasses and plain values; {type(thing).__name__} is neither."
    )


def from_plain(plain: Any, kinds: Kinds) -> Any:
    """What `to_plain` wrote, made again from the kinds that the reader knows."""
    if isinstance(plain, list):
        return tuple(from_plain(item, kinds) for item in plain)
    if not isinstance(plain, dict):
        return plain
    kind = str(plain.get("kind"))
    if kind not in kinds:
        raise ConfigError("A stored configuration names a part that this version of Tailrace does not know.")
    if "plain" in plain:  # the part wrote itself, and reads itself
        return kinds[kind](plain["plain"])
    return kinds[kind](**{name: from_plain(value, kinds) for name, value in plain.items() if name != "kind"})
