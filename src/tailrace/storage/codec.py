"""State as bytes and back: arrays by name, no code.

Bytes are read only into a shape that is already known.
"""

from __future__ import annotations

import dataclasses
import enum
import io
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from tailrace.errors import ConfigError, Corrupt, Mismatch

S = TypeVar("S")

_NARROW = (np.dtype(np.int8), np.dtype(np.int16), np.dtype(np.int32))
# The entry that says how many parts a tuple has.
_LENGTH = "length"


def pack(state: Any) -> bytes:
    """Pack a state into the bytes of an .npz file.

    A state is a frozen dataclass of arrays, dataclasses and tuples of dataclasses.
    """
    arrays: dict[str, np.ndarray] = {}
    _flatten("", state, arrays)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(data: bytes, *, like: S) -> S:
    """Unpack `data` into a state shaped as `like`.

    It must have the fields, types and shapes of `like`; a side of length 0 there may have any.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
            if not all(isinstance(array, np.ndarray) for array in arrays.values()):
                raise TypeError
    except Exception:
        # Whatever the readers of .npz and .zip make of damage, it is damage.
        raise Corrupt(
            "The saved state cannot be read: it is damaged or cut short. Restore the last good "
            "copy."
        ) from None
    state = _restore("", like, arrays)
    if arrays:
        raise Mismatch(
            "The saved state has parts that this configuration does not know: open it with the one "
            "it was made with."
        )
    return state


def _flatten(name: str, part: Any, arrays: dict[str, np.ndarray]) -> None:
    if isinstance(part, np.ndarray):
        arrays[name] = _narrow(part)
    elif isinstance(part, tuple):
        arrays[f"{name}/{_LENGTH}"] = np.array(len(part), np.int64)
        for place, item in enumerate(part):
            _flatten(f"{name}/{place}", item, arrays)
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            _flatten(f"{name}/{field.name}", getattr(part, field.name), arrays)
    else:
        raise ConfigError(
            "A state is made of arrays, dataclasses and tuples of dataclasses, and of nothing else."
        )


def _narrow(array: np.ndarray) -> np.ndarray:
    """The same integers in the smallest type.

    Most counts and most noise are small.
    """
    if array.dtype != np.int64 or not array.size:
        return array
    low, high = int(array.min()), int(array.max())
    for narrow in _NARROW:
        if np.iinfo(narrow).min <= low and high <= np.iinfo(narrow).max:
            return array.astype(narrow)
    return array


def _restore(
    name: str, like: Any, arrays: dict[str, np.ndarray], *, any_shape: bool = False
) -> Any:
    if isinstance(like, np.ndarray):
        array = _take(name, arrays)
        if like.dtype == np.int64 and array.dtype in _NARROW:
            array = array.astype(np.int64)
        fits = array.dtype == like.dtype and array.ndim == like.ndim
        if not fits or not (
            any_shape
            or all(side in (0, found) for side, found in zip(like.shape, array.shape, strict=True))
        ):
            raise _mismatch()
        return array
    if isinstance(like, tuple):
        stored = _take(f"{name}/{_LENGTH}", arrays)
        if (
            not like
            or stored.dtype.kind != "i"
            or stored.ndim != 0
            or not 0 <= (length := int(stored)) <= len(arrays)
        ):
            raise _mismatch()
        # The parts of a tuple may differ in size.
        return tuple(
            _restore(f"{name}/{place}", like[0], arrays, any_shape=True) for place in range(length)
        )
    return type(like)(
        **{
            field.name: _restore(
                f"{name}/{field.name}", getattr(like, field.name), arrays, any_shape=any_shape
            )
            for field in dataclasses.fields(like)
        }
    )


def _take(name: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    if name not in arrays:
        raise _mismatch()
    return arrays.pop(name)


def _mismatch() -> Mismatch:
    return Mismatch(
        "The saved state does not fit this configuration: open it with the one it was made with."
    )


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
        values = {
            field.name: to_plain(getattr(thing, field.name)) for field in dataclasses.fields(thing)
        }
        return {"kind": type(thing).__name__, **values}
    if isinstance(thing, Fraction):
        return str(thing)
    if isinstance(thing, list | tuple):
        return [to_plain(item) for item in thing]
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    raise ConfigError(
        f"A configuration is made of frozen dataclasses and plain values; {type(thing).__name__} "
        "is neither."
    )


def from_plain(plain: Any, kinds: Kinds) -> Any:
    """Make again what `to_plain` wrote, from known kinds."""
    if isinstance(plain, list):
        return tuple(from_plain(item, kinds) for item in plain)
    if not isinstance(plain, dict):
        return plain
    kind = str(plain.get("kind"))
    if kind not in kinds:
        raise ConfigError(
            "A stored configuration names a part that this version of Tailrace does not know."
        )
    # The part wrote itself, and reads itself.
    if "plain" in plain:
        return kinds[kind](plain["plain"])
    return kinds[kind](
        **{name: from_plain(value, kinds) for name, value in plain.items() if name != "kind"}
    )
