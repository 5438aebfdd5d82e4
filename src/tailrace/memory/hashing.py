"""Who a row belongs to, as a keyed hash: the same id gives the same hash from every engine, and nobody is (0, 0).

The value of an id counts, not its storage: 7 is the same unit as int8, as uint64, and as the 7.0 of a column that a
data frame made float because an id was missing. Text is not a number: "7" is another unit than 7.
"""

from __future__ import annotations

import decimal
import uuid
from typing import Any

import numpy as np

from tailrace.errors import ConfigError, DataError

Key = tuple[np.uint64, np.uint64]
UNITS = np.dtype([("hi", "<u8"), ("lo", "<u8")])

_NOBODY, _INTEGER, _ABOVE, _LARGE, _FLOAT, _DECIMAL, _TEXT, _BYTES = b"\0iunfdsb"
_CHUNK = 1 << 18  # rows of Python objects held as bytes at a time


def words(key: bytes) -> Key:
    """The 16 bytes of a key as SipHash takes them."""
    if not isinstance(key, bytes) or len(key) != 16:
        raise ConfigError("The key of a unit memory is 16 secret bytes.")
    return np.uint64(int.from_bytes(key[:8], "little")), np.uint64(int.from_bytes(key[8:], "little"))


def hash_units(ids: Any, key: bytes) -> np.ndarray:
    """The 128-bit keyed hash of each id (NumPy or PyArrow array), as `hi` and `lo`; (0, 0) where there is no id.

    Integers, text, bytes, floats, decimals and UUIDs are ids; null, NaN and any other object in a column of objects are
    none. A column of another type is refused.

    >>> units = hash_units(np.array([1.0, float("nan"), 1.0]), bytes(16))
    >>> bool(units[0] == units[2] == hash_units(np.array([1]), bytes(16))[0]), units[1].item()
    (True, (0, 0))
    """
    if type(ids).__module__.partition(".")[0] == "pyarrow":
        return _arrow(ids, words(key))
    return _numpy(np.asarray(ids), words(key))


def _numpy(ids: np.ndarray, key: Key) -> np.ndarray:
    if ids.ndim != 1:
        raise DataError("The ids of the units must be one column: one id per row.")
    if ids.dtype.kind in "iub":
        return _integers(ids, key)
    if ids.dtype.kind == "f":
        return _floats(ids.astype(np.float64, copy=False), key)
    if ids.dtype.kind in "OUST":
        return _objects(ids, key)
    raise _type_error()


def _integers(ids: np.ndarray, key: Key) -> np.ndarray:
    tags = np.full(len(ids), _INTEGER, np.uint8)
    if ids.dtype == np.uint64:
        tags[ids >= 2**63] = _ABOVE
    wide = ids if ids.dtype == np.uint64 else ids.astype(np.int64, copy=False).view(np.uint64)
    return _of_words(np.ascontiguousarray(wide), tags, key)


def _floats(ids: np.ndarray, key: Key) -> np.ndarray:
    """Whole numbers as integers, others by their bits."""
    whole = np.floor(ids) == ids
    small = whole & (ids >= -(2.0**63)) & (ids < 2.0**63)
    large = whole & ~small & np.isfinite(ids)  # few or none: one at a time
    bits = np.where(small, 0.0, ids).view(np.uint64)
    bits[small] = ids[small].astype(np.int64).view(np.uint64)
    tags = np.where(small, np.uint8(_INTEGER), np.uint8(_FLOAT))
    tags[np.isnan(ids)] = _NOBODY
    units = _of_words(bits, tags, key)
    units[large] = _objects(ids[large].astype(object), key)
    return units


def _objects(ids: np.ndarray, key: Key) -> np.ndarray:
    units = np.empty(len(ids), UNITS)
    for start in range(0, len(ids), _CHUNK):
        values = ids[start : start + _CHUNK].tolist()
        if set(map(type, values)) == {str}:
            contents = [value.encode("utf-8", "surrogatepass") for value in values]
            tags = np.full(len(values), _TEXT, np.uint8)
        else:
            messages = [_message(value) for value in values]
            contents = [content for content, _ in messages]
            tags = np.array([tag for _, tag in messages], np.uint8)
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(content) for content in contents], out=offsets[1:])
        data = np.frombuffer(b"".join(contents), np.uint8)
        units[start : start + len(values)] = _of_bytes(data, offsets, tags, key)
    return units


def _message(value: Any) -> tuple[bytes, int]:
    """What is hashed of one id, and the tag of its kind."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), _TEXT
    if isinstance(value, (float, np.floating)):
        value = float(value)
        if not value.is_integer():
            return np.float64(value).tobytes(), _NOBODY if value != value else _FLOAT
    elif isinstance(value, decimal.Decimal):
        sign, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):  # NaN, infinity
            return b"", _NOBODY
        if value != value.to_integral_value() or value.adjusted() > 400:
            short = "".join(map(str, digits)).rstrip("0")
            return f"{sign} {short} {exponent + len(digits) - len(short)}".encode(), _DECIMAL
    elif isinstance(value, bytes):
        return value, _BYTES
    elif isinstance(value, uuid.UUID):
        return str(value).encode(), _TEXT  # as the engines that know no UUID hold it
    elif not isinstance(value, (int, np.integer, np.bool_)):
        return b"", _NOBODY
    number = int(value)
    if -(2**63) <= number < 2**63:
        return number.to_bytes(8, "little", signed=True), _INTEGER
    if 0 <= number < 2**64:
        return number.to_bytes(8, "little"), _ABOVE
    return number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True), _LARGE


def _arrow(ids: Any, key: Key) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.types as types

    if isinstance(ids, pa.ChunkedArray):
        units = [_arrow(chunk, key) for chunk in ids.chunks]
        return np.concatenate(units) if units else np.empty(0, UNITS)
    kind = ids.type
    if types.is_dictionary(kind):
        if len(ids.dictionary) > len(ids):  # a piece of a long column: only the names that it holds
            return _arrow(ids.dictionary_decode(), key)
        names = np.append(_arrow(ids.dictionary, key), np.zeros(1, UNITS))  # the last one: nobody
        return names[ids.indices.cast(pa.int64()).fill_null(len(names) - 1).to_numpy(zero_copy_only=False)]
    known = ids.is_valid().to_numpy(zero_copy_only=False)
    if types.is_null(kind):
        return np.zeros(len(ids), UNITS)
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind):
        plain = ids.cast(pa.uint8()) if types.is_boolean(kind) else ids
        units = _numpy(plain.fill_null(0).to_numpy(zero_copy_only=False), key)
        units[~known] = np.zeros(1, UNITS)
        return units
    if types.is_decimal(kind):
        return _objects(np.array(ids.to_pylist(), object), key)
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    if not text and not binary and not types.is_binary_view(kind):
        raise _type_error()
    wide = ids.cast(pa.large_string() if text else pa.large_binary())
    _, offsets, data = wide.buffers()
    places = (
        np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1] if offsets else np.zeros(1, int)
    )
    tags = np.where(known, np.uint8(_TEXT if text else _BYTES), np.uint8(_NOBODY))
    return _of_bytes(np.frombuffer(data or b"", np.uint8), places, tags, key)


def _of_words(values: np.ndarray, tags: np.ndarray, key: Key) -> np.ndarray:
    from tailrace.memory import kernel

    units = np.empty(len(tags), UNITS)
    kernel.hash_words(values, tags, *key, units["hi"], units["lo"])
    return units


def _of_bytes(data: np.ndarray, offsets: np.ndarray, tags: np.ndarray, key: Key) -> np.ndarray:
    from tailrace.memory import kernel

    units = np.empty(len(tags), UNITS)
    kernel.hash_bytes(data, offsets, tags, *key, units["hi"], units["lo"])
    return units


def _type_error() -> DataError:
    return DataError("The column of unit ids must hold integers or text: give each person one number or one name.")
