"""State as bytes and back: arrays by name, no code, and only into a shape that is already known."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from typing import Any, TypeVar

import numpy as np

from tailrace.errors import ConfigError, Corrupt, Mismatch

S = TypeVar("S")

_LENGTH = "length"  # the entry that says how many parts a tuple has


def pack(state: Any) -> bytes:
    """`state`, a frozen dataclass of arrays, dataclasses and tuples of dataclasses, as the bytes of an .npz file."""
    arrays: dict[str, np.ndarray] = {}
    _flatten("", state, arrays)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(data: bytes, *, like: S) -> S:
    """The state in `data`, which must have the fields, types and dimensions of `like`; lengths may differ."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile):
        raise Corrupt(
            "The saved state cannot be read: it is damaged or cut short. Restore the last good copy."
        ) from None
    state = _restore("", like, arrays)
    if arrays:
        raise Mismatch(
            "The saved state has parts that this configuration does not know: open it with the one it was made with."
        )
    return state


def _flatten(name: str, part: Any, arrays: dict[str, np.ndarray]) -> None:
    if isinstance(part, np.ndarray):
        arrays[name] = part
    elif isinstance(part, tuple):
        arrays[f"{name}/{_LENGTH}"] = np.array(len(part), np.int64)
        for place, item in enumerate(part):
            _flatten(f"{name}/{place}", item, arrays)
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            _flatten(f"{name}/{field.name}", getattr(part, field.name), arrays)
    else:
        raise ConfigError("A state is made of arrays, dataclasses and tuples of dataclasses, and of nothing else.")


def _restore(name: str, like: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(like, np.ndarray):
        array = _take(name, arrays)
        if array.dtype != like.dtype or array.ndim != like.ndim:
            raise _mismatch()
        return array
    if isinstance(like, tuple):
        length = int(_take(f"{name}/{_LENGTH}", arrays))
        if not like or length < 0:
            raise _mismatch()
        return tuple(_restore(f"{name}/{place}", like[0], arrays) for place in range(length))
    return type(like)(
        **{
            field.name: _restore(f"{name}/{field.name}", getattr(like, field.name), arrays)
            for field in dataclasses.fields(like)
        }
    )


def _take(name: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    if name not in arrays:
        raise _mismatch()
    return arrays.pop(name)


def _mismatch() -> Mismatch:
    return Mismatch("The saved state does not fit this configuration: open it with the one it was made with.")
