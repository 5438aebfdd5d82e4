"""Compiled loops over the spelling of ids, in UTF-8.

They find the blanks around a text, and whole numbers.
"""

import numpy as np
from numba import njit

# Tags: no id, within int64, within uint64, beyond, no whole number.
NOBODY, INTEGER, ABOVE, LARGE, TEXT = b"\0iuns"
_MINUS, _PLUS, _POINT, _ZERO, _NINE = b"-+.09"
_HALF, _MOST = np.uint64(1 << 63), np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(cache=True, inline="always")
def plain(data, start, stop):
    """Whether a text clearly has no blanks and no number.

    Only the first and the last letter are looked at.
    """
    return stop > start and _NINE < data[start] < 0x80 and 32 < data[stop - 1] < 0x80


@njit(cache=True)
def spelt(data, start, stop):
    """Trim data[start:stop]; return its ends, tag and number.

    A whole number is digits, with or without a sign before and with or without a point and zeros
    after them.
    """
    width = 1
    while start < stop and width:
        width = _blank(data, start, stop)
        start += width
    width = 1
    while start < stop and width:
        width = _blank_before(data, start, stop)
        stop -= width
    if start == stop:
        return start, stop, NOBODY, np.uint64(0)
    tag, word = _whole(data, start, stop)
    return start, stop, tag, word


@njit(cache=True)
def _blank(data, at, stop):
    """Bytes of the blank at this place, or 0."""
    first = data[at]
    if first == 32 or 9 <= first <= 13:
        return 1
    if first == 0xC2 and at + 1 < stop and (data[at + 1] == 0x85 or data[at + 1] == 0xA0):
        return 2
    if (first == 0xE1 or first == 0xE2 or first == 0xE3) and at + 2 < stop:
        second, third = data[at + 1], data[at + 2]
        if first == 0xE1:
            return 3 if second == 0x9A and third == 0x80 else 0
        if first == 0xE3:
            return 3 if second == 0x80 and third == 0x80 else 0
        if second == 0x80:
            return (
                3 if 0x80 <= third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF else 0
            )
        return 3 if second == 0x81 and third == 0x9F else 0
    return 0


@njit(cache=True)
def _blank_before(data, start, stop):
    """Bytes of the blank that ends at `stop`, or 0."""
    for width in range(1, min(3, stop - start) + 1):
        if _blank(data, stop - width, stop) == width:
            return width
    return 0


@njit(cache=True)
def _whole(data, start, stop):
    """The tag of a trimmed text, and its whole number.

    The number is given as 64 bits.
    """
    at, minus, none = start, data[start] == _MINUS, np.uint64(0)
    if minus or data[start] == _PLUS:
        at += 1
    first, number, large = at, np.uint64(0), False
    while at < stop and _ZERO <= data[at] <= _NINE:
        digit = np.uint64(data[at] - _ZERO)
        large |= number > (_MOST - digit) // np.uint64(10)
        number = number * np.uint64(10) + digit
        at += 1
    if at == first:
        return TEXT, none
    if at < stop:
        if data[at] != _POINT:
            return TEXT, none
        for rest in range(at + 1, stop):
            if data[rest] != _ZERO:
                return TEXT, none
    if large or (minus and number > _HALF):
        return LARGE, none
    if minus:
        return INTEGER, np.uint64(0) - number
    return (ABOVE if number >= _HALF else INTEGER), number
