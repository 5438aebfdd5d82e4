"""Keyed hashes of unit ids, the same from every engine.

A row without an id has the hash (0, 0).

An id is its text, whatever the type of its column, which a data frame may have guessed from another
row's id. Text is compared as it stands, with two exceptions. Blanks around it mean nothing. And a
text that spells a whole number is this number: 7, "7", "007", "+7" and "7.0" are one unit, since a
reader that takes a column for numbers makes the same of them. An empty text is no id.
"""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.domain import cells
from tailrace.errors import ConfigError, DataError

if TYPE_CHECKING:
    import polars as pl

Key = tuple[np.uint64, np.uint64]
UNITS = np.dtype([("hi", "<u8"), ("lo", "<u8")])

_NOBODY, _INTEGER, _ABOVE, _LARGE, _TEXT = b"\0iuns"
# Doubles beyond it stand for several whole numbers.
_EXACT = 2**53
# Digits of a number; a longer one is a text.
_LONGEST = 4000
# Rows of Python objects held as bytes at a time.
_CHUNK = 1 << 18


def words(key: bytes) -> Key:
    """The 16 bytes of a key as SipHash takes them."""
    if not isinstance(key, bytes) or len(key) != 16:
        raise ConfigError("The key of a unit memory is 16 secret bytes.")
    return np.uint64(int.from_bytes(key[:8], "little")), np.uint64(
        int.from_bytes(key[8:], "little")
    )


def hash_units(ids: Any, key: bytes) -> np.ndarray:
    """Hash each id, keyed, to 128 bits: `hi` and `lo`.

    Ids are a NumPy or PyArrow array; (0, 0) where there is none. Hashes stay as they are.

    A column of floats is refused, as it cannot hold every id. In a column of objects a float beyond
    2**53, which may be several people's, is no id; nor is null, NaN, or an object that is no single
    value.

    >>> units = hash_units(np.array([1, None, " 1.0"], object), bytes(16))
    >>> bool(units[0] == units[2] == hash_units(np.array([1]), bytes(16))[0]), units[1].item()
    (True, (0, 0))
    """
    if type(ids).__module__.partition(".")[0] == "pyarrow":
        return _arrow(ids, words(key))
    ids = np.asarray(ids)
    return ids if ids.dtype == UNITS else _numpy(ids, words(key))


def recognised(ids: Any, key: bytes, known: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Hash ids as an earlier version's memory knows them.

    There "7" was another unit than 7.

    A unit that `known` does not find keeps the hash that it has there, of its text as it stood or
    of its number as text.
    """
    units = hash_units(ids, key)
    if units is ids:
        return units
    settled = known(units)
    text = _text(ids)
    number = text.str.strip_chars().str.replace(r"^\+?(-?)0*([0-9]+)(?:\.0*)?$", "${1}${2}")
    for spelling in (number, text):
        former = _as_it_stands(spelling.to_list(), words(key))
        found = known(former) & ~settled
        units[found] = former[found]
        settled |= found
    return units


def _text(ids: Any) -> pl.Series:
    import polars as pl

    if type(ids).__module__.partition(".")[0] == "pyarrow":
        return cells.text(pl.Series(ids))
    array = np.asarray(ids)
    return cells.text(pl.Series(array)) if array.dtype.kind in "iu" else cells.texts(array.tolist())


def _as_it_stands(texts: list[str | None], key: Key) -> np.ndarray:
    from tailrace.counting.memory import kernel

    data, offsets = _laid_out([(text or "").encode() for text in texts])
    tags = np.array([_NOBODY if text is None else _TEXT for text in texts], np.uint8)
    units = np.empty(len(tags), UNITS)
    kernel.hash_bytes(data, offsets, tags, *key, units["hi"], units["lo"])
    return units


def _numpy(ids: np.ndarray, key: Key) -> np.ndarray:
    if ids.ndim != 1:
        raise DataError("The ids of the units must be one column: one id per row.")
    if ids.dtype.kind in "iu":
        return _integers(ids, key)
    if ids.dtype.kind in "OUSTb":
        return _objects(ids, key)
    raise _type_error()


def _integers(ids: np.ndarray, key: Key) -> np.ndarray:
    tags = np.full(len(ids), _INTEGER, np.uint8)
    if ids.dtype == np.uint64:
        tags[ids >= 2**63] = _ABOVE
    wide = ids if ids.dtype == np.uint64 else ids.astype(np.int64, copy=False).view(np.uint64)
    return _of_words(np.ascontiguousarray(wide), tags, key)


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
        data, offsets = _laid_out(contents)
        units[start : start + len(values)] = _of_bytes(data, offsets, tags, key)
    return units


def _laid_out(contents: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Join contents, and say where each begins and ends."""
    offsets = np.zeros(len(contents) + 1, np.int64)
    np.cumsum([len(content) for content in contents], out=offsets[1:])
    return np.frombuffer(b"".join(contents), np.uint8), offsets


def _message(value: Any) -> tuple[bytes, int]:
    """The bytes hashed for one id, and its tag."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), _TEXT
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return _number(int(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return _number(int(value)) if abs(value) <= _EXACT else (b"", _NOBODY)
    if isinstance(value, decimal.Decimal) and value.is_finite() and value.adjusted() < _LONGEST:
        whole = value.to_integral_value()
        return _number(int(whole)) if whole == value else (str(value).encode(), _TEXT)
    text = str(value) if isinstance(value, uuid.UUID) else cells.written(value)
    return (b"", _NOBODY) if text is None or text == cells.UNREADABLE else (text.encode(), _TEXT)


def _number(number: int) -> tuple[bytes, int]:
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
        # A piece of a long column: only the names that it holds.
        if len(ids.dictionary) > len(ids):
            return _arrow(ids.dictionary_decode(), key)
        # The last one: nobody.
        names = np.append(_arrow(ids.dictionary, key), np.zeros(1, UNITS))
        return names[
            ids.indices.cast(pa.int64()).fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
        ]
    known = ids.is_valid().to_numpy(zero_copy_only=False)
    if types.is_null(kind):
        return np.zeros(len(ids), UNITS)
    if types.is_integer(kind):
        units = _integers(ids.fill_null(0).to_numpy(zero_copy_only=False), key)
        units[~known] = np.zeros(1, UNITS)
        return units
    if types.is_floating(kind) or types.is_nested(kind):
        raise _type_error()
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        return _objects(np.array([*ids.to_pylist(), None], object)[:-1], key)
    wide = ids.cast(pa.large_string())
    _, offsets, data = wide.buffers()
    places = (
        np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
        if offsets
        else np.zeros(1, int)
    )
    tags = np.where(known, np.uint8(_TEXT), np.uint8(_NOBODY))
    return _of_bytes(np.frombuffer(data or b"", np.uint8), places, tags, key)


def _of_words(values: np.ndarray, tags: np.ndarray, key: Key) -> np.ndarray:
    from tailrace.counting.memory import kernel

    units, high, low = np.empty(len(tags), UNITS), *np.empty((2, len(tags)), np.uint64)
    # Arrays of one kind, whatever came: for another the loop is compiled again.
    values = values.view()
    values.setflags(write=False)
    kernel.hash_words(values, tags, *key, high, low)
    units["hi"], units["lo"] = high, low
    return units


def _of_bytes(data: np.ndarray, offsets: np.ndarray, tags: np.ndarray, key: Key) -> np.ndarray:
    from tailrace.counting.memory import kernel

    units = np.empty(len(tags), UNITS)
    large = kernel.hash_ids(data, offsets, tags, *key, units["hi"], units["lo"])
    # Few or none: one at a time.
    for i in np.flatnonzero(large):
        text = (
            data[offsets[i] : offsets[i + 1]]
            .tobytes()
            .decode()
            .strip(cells.BLANKS)
            .partition(".")[0]
        )
        content, tag = _number(int(text)) if len(text) <= _LONGEST else (text.encode(), _TEXT)
        bytes_ = np.frombuffer(content, np.uint8)
        units["hi"][i], units["lo"][i] = kernel.of_bytes(bytes_, 0, len(bytes_), tag, *key)
    return units


def _type_error() -> DataError:
    return DataError(
        "The column of unit ids must hold integers or text: give each person one number or one "
        "name."
    )
