"""State as bytes and back: arrays by name, no code.

Bytes are read only into a shape that is already known.

    4 bytes     length of the header
    header      JSON: [name, how, type, type as written, shape] of each array that is written
    the rest    the arrays, one after the other, deflated

A state may be written since an earlier one: then only what changed is. `how` says so.

    "="    the whole array
    "0"    zeros of this shape, int64; nonzero places may follow as "@"
    "+"    what was appended to the earlier array, along its first axis
    "~"    differences of whole numbers
    "@"    places in the flattened array; the array after it has their values
    "-"    no array of this name any more
"""

from __future__ import annotations

import dataclasses
import enum
import io
import json
import math
import operator
import zlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from tailrace.errors import ConfigError, Corrupt, Mismatch

S = TypeVar("S")

_NARROW = (np.dtype(np.int8), np.dtype(np.int16), np.dtype(np.int32))
# The entry that says how many parts a tuple has.
_LENGTH = "length"
# The types of arrays that a state may hold: truth values and numbers.
_TYPES = {
    np.dtype(kind).str: np.dtype(kind)
    for kind in ("?", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f4", "<f8")
}
# The quickest; most of what it saves are zeros.
_LEVEL = 1
# Fewer changes than one in this many are written with their places.
_SPARSE = 8
# Zeros are left out of arrays with more numbers than this, and of none beyond the second.
_LONG, _LONGEST, _BLOCK = 1 << 12, 1 << 26, 64
# Deflate makes at most 1,032 bytes of one: more is not ours.
_INFLATED = 1100


def pack(state: Any, since: Any = None) -> bytes:
    """Pack a state into bytes; `since`: only what changed.

    A state is a frozen dataclass of arrays, dataclasses and tuples of dataclasses.
    """
    arrays = _flat(state)
    before = {} if since is None else _flat(since)
    header: list[Any] = [[name, "-", "|i1", "|i1", [0]] for name in before if name not in arrays]
    parts: list[bytes] = []
    for name, array in arrays.items():
        for how, part in _changes(before.get(name), array):
            narrow = _narrow(part)
            header.append([name, how, part.dtype.str, narrow.dtype.str, narrow.shape])
            parts.append(narrow.tobytes())
    said = json.dumps(header, separators=(",", ":")).encode()
    return len(said).to_bytes(4, "big") + said + zlib.compress(b"".join(parts), _LEVEL)


def unpack(data: bytes, *, like: S, since: S | None = None) -> S:
    """Unpack `data` into a state shaped as `like`.

    It must have the fields, types and shapes of `like`; a side of length 0 there may have any.
    `since` is the state that it was packed since.
    """
    before = {} if since is None else _flat(since)
    try:
        arrays = _numpy_archive(data) if data[:2] == b"PK" else _applied(data, before)
    except Exception:
        # Whatever the readers make of damage, it is damage.
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


def _changes(before: np.ndarray | None, now: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """How to make an array of the earlier one of its name."""
    if before is now:
        return []
    if before is None or before.dtype != now.dtype or before.shape[1:] != now.shape[1:]:
        return _without_zeros(now) or [("=", now)]
    if before.shape == now.shape:
        # By bytes: a missing number is equal to itself, and -0.0 is not 0.0.
        size, flat, old = now.dtype.itemsize, now.reshape(-1), before.reshape(-1)
        word = np.dtype(f"u{size}")
        places = np.flatnonzero(flat.view(word) != old.view(word))
        if not len(places):
            return []
        if _SPARSE * len(places) < flat.size:
            return [("@", places), ("@", flat[places])]
        new, was = _integers(now), _integers(before)
        return [("=", now)] if new is None or was is None else [("~", new - was)]
    many = len(before) if before.ndim else 0
    if before.ndim and len(now) > many and now[:many].tobytes() == before.tobytes():
        return [("+", now[many:])]
    return [("=", now)]


def _without_zeros(now: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The few numbers of a large array that are not 0, with their places."""
    if now.dtype != np.int64 or not _LONG < now.size <= _LONGEST:
        return []
    flat = now.reshape(-1)
    # By blocks, most of which hold nothing.
    whole = flat.size // _BLOCK * _BLOCK
    busy = np.flatnonzero(np.bitwise_or.reduce(flat[:whole].reshape(-1, _BLOCK), axis=1))
    places = (busy[:, None] * _BLOCK + np.arange(_BLOCK)).reshape(-1)
    places = np.concatenate([places, np.arange(whole, flat.size)])
    places = places[flat[places] != 0]
    if _SPARSE * len(places) >= flat.size:
        return []
    return [("0", np.array(now.shape)), ("@", places), ("@", flat[places])]


def _integers(array: np.ndarray) -> np.ndarray | None:
    """An array as int64, if it holds whole numbers that come back bit for bit."""
    if array.dtype == np.int64:
        return array
    if array.dtype != np.float64 or not (np.abs(array) < 2**53).all():
        return None
    whole = array.astype(np.int64)
    # -0.0 is equal to 0, and other bits.
    return whole if whole.astype(np.float64).tobytes() == array.tobytes() else None


def _applied(data: bytes, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays that `data` makes of the earlier ones."""
    end = 4 + int.from_bytes(data[:4], "big")
    header = json.loads(data[4:end])
    sizes = [
        _TYPES[kind].itemsize * math.prod(map(operator.index, shape)) for *_, kind, shape in header
    ]
    total = sum(sizes)
    if min(sizes, default=0) < 0 or total > _INFLATED * len(data) + 64:
        raise ValueError
    inflate = zlib.decompressobj()
    body = inflate.decompress(data[end:], total + 1)
    if len(body) != total or not inflate.eof or inflate.unused_data:
        raise ValueError
    at, places = 0, None
    for (name, how, kind, stored, shape), size in zip(header, sizes, strict=True):
        part = np.frombuffer(body, _TYPES[stored], math.prod(shape), at).reshape(shape)
        part, at = part.astype(_TYPES[kind]), at + size
        if how == "-":
            del arrays[name]
        elif how == "=":
            arrays[name] = part
        elif how == "0" and 0 <= math.prod(map(int, part)) <= _LONGEST:
            arrays[name] = np.zeros(tuple(map(int, part)), np.int64)
        elif how == "~" and part.shape == arrays[name].shape:
            arrays[name] = np.asarray(arrays[name] + part.astype(arrays[name].dtype))
        elif how == "+":
            arrays[name] = np.concatenate([arrays[name], part])
        elif how == "@" and places is None:
            places = part
            continue
        elif how == "@":
            flat = arrays[name].reshape(-1).copy()
            flat[places] = part
            arrays[name], places = flat.reshape(arrays[name].shape), None
        else:
            raise ValueError
    if places is not None:
        raise ValueError
    return arrays


def _numpy_archive(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, as states were kept before."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise TypeError
    # Whole numbers were written in the smallest type, and all were int64.
    return {
        name: array.astype(np.int64) if array.dtype in _NARROW else array
        for name, array in arrays.items()
    }


def _flat(state: Any) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    _flatten("", state, arrays)
    return arrays


def _flatten(name: str, part: Any, arrays: dict[str, np.ndarray]) -> None:
    if isinstance(part, np.ndarray) and part.dtype.str in _TYPES:
        arrays[name] = part
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
    """The same whole numbers in the smallest type.

    Most counts and most noise are small.
    """
    whole = _integers(array) if array.size else None
    if whole is None:
        return array
    low, high = int(whole.min()), int(whole.max())
    for narrow in _NARROW:
        if np.iinfo(narrow).min <= low and high <= np.iinfo(narrow).max:
            return whole.astype(narrow)
    return array


def _restore(
    name: str, like: Any, arrays: dict[str, np.ndarray], *, any_shape: bool = False
) -> Any:
    if isinstance(like, np.ndarray):
        array = _take(name, arrays)
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
            # An earlier version did not know a field that has a default.
            if f"{name}/{field.name}" in arrays or field.default_factory is dataclasses.MISSING
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
