"""The draws as compiled loops over random words.

Every loop works on one value at a time and says why it stopped: DONE, DRY (the buffer ended within
a value: the same words are read again after a refill, so no value is favoured by where a buffer
ends) or TIE (a word equals a table's word: the caller resolves it exactly and calls again with the
answer). Integers only.
"""

import numpy as np
from numba import njit

DONE, DRY, TIE = 0, 1, 2
_TIED = -1
_SHIFT = np.uint64(54)  # 64 - GUIDE_BITS


@njit(cache=True, inline="always")
def _lookup(word, words, guide):
    """Number of entries above `word`, or _TIED."""
    k = guide[word >> _SHIFT]
    while k < len(words) and word < words[k]:
        k += 1
    if k < len(words) and word == words[k]:
        return _TIED
    return k


@njit(cache=True)
def _settled(position, tie_positions, tie_values):
    """The resolved value of the word at `position`, or _TIED."""
    for i in range(len(tie_positions)):
        if tie_positions[i] == position:
            return tie_values[i]
    return _TIED


@njit(cache=True, inline="always")
def _survives(n, buffer, position, coins, tie_positions, tie_values):
    """Toss one coin per byte of n.

    Returns (1 with probability exp(-n rate) else 0, or the stop code negated; next position; tied
    coin).
    """
    byte = 0
    while n > 0:
        value = np.int64(n & np.uint64(255))
        if value > 0:
            if position >= len(buffer):
                return -DRY, position, 0
            word, threshold = buffer[position], coins[byte * 256 + value]
            if word == threshold:
                settled = _settled(position, tie_positions, tie_values)
                if settled == _TIED:
                    return -TIE, position, byte * 256 + value
                if settled == 0:
                    return 0, position + 1, 0
            elif word > threshold:
                return 0, position + 1, 0
            position += 1
        n >>= np.uint64(8)
        byte += 1
    return 1, position, 0


@njit(cache=True)
def laplace(out, start, buffer, position, tie_positions, tie_values, words, offsets, guides):
    """Differences of two geometric variables, drawn digit by digit.

    Returns (index, position, stop, tied position, tied table).
    """
    digits = len(offsets) - 1
    for i in range(start, len(out)):
        begin, value = position, np.int64(0)
        for sign in (1, -1):
            unit = np.int64(sign)
            for d in range(digits):
                table = words[offsets[d] : offsets[d + 1]]
                while True:
                    if position >= len(buffer):
                        return i, begin, DRY, 0, 0
                    k = _lookup(buffer[position], table, guides[d])
                    if k == _TIED:
                        k = _settled(position, tie_positions, tie_values)
                        if k == _TIED:
                            return i, begin, TIE, position, d
                    position += 1
                    value += unit * k
                    if d < digits - 1 or k < len(table):
                        break
                unit <<= 12  # DIGIT_BITS
        out[i] = value
    return len(out), position, DONE, 0, 0


@njit(cache=True)
def gaussian(
    out, start, buffer, position, tie_positions, tie_values, words, guide, coins, width_bits
):
    """Draw a cell, a place in it, and a sign.

    A coin pays for the weight lost inside the cell; minus zero is drawn again.
    """
    width = np.uint64(1) << np.uint64(width_bits)
    for i in range(start, len(out)):
        while True:
            begin = position
            if position + 2 > len(buffer):
                return i, begin, DRY, 0, 0
            cell = _lookup(buffer[position], words, guide)
            if cell == _TIED:
                cell = _settled(position, tie_positions, tie_values)
                if cell == _TIED:
                    return i, begin, TIE, position, 0
            word = buffer[position + 1]
            position += 2
            low = word & (width - np.uint64(1))
            edge = np.uint64(cell) << np.uint64(width_bits)
            kept, position, tied = _survives(
                low * (np.uint64(2) * edge + low),
                buffer,
                position,
                coins,
                tie_positions,
                tie_values,
            )
            if kept < 0:
                return i, begin, -kept, position, 1 + tied
            negative = (word >> np.uint64(63)) == np.uint64(1)
            value = np.int64(edge + low)
            if kept == 1 and not (negative and value == 0):
                out[i] = -value if negative else value
                break
    return len(out), position, DONE, 0, 0


@njit(cache=True)
def survive(out, start, buffer, position, tie_positions, tie_values, n, coins):
    """out[i] = 1 with probability exp(-n[i] rate)."""
    for i in range(start, len(out)):
        begin = position
        kept, position, tied = _survives(n[i], buffer, position, coins, tie_positions, tie_values)
        if kept < 0:
            return i, begin, -kept, position, tied
        out[i] = kept
    return len(out), position, DONE, 0, 0


@njit(cache=True)
def choose(out, start, buffer, position, tie_positions, tie_values, gaps, coins):
    """out[i] = j with probability proportional to exp(-gaps[j] rate).

    Propose any j, keep it with that probability.
    """
    count = np.uint64(len(gaps))
    excess = (np.uint64(0) - count) % count  # 2^64 mod count: words below it would favour small j
    for i in range(start, len(out)):
        while True:
            begin = position
            if position >= len(buffer):
                return i, begin, DRY, 0, 0
            word = buffer[position]
            position += 1
            if word < excess:
                continue
            j = np.int64(word % count)
            kept, position, tied = _survives(
                gaps[j], buffer, position, coins, tie_positions, tie_values
            )
            if kept < 0:
                return i, begin, -kept, position, tied
            if kept == 1:
                out[i] = j
                break
    return len(out), position, DONE, 0, 0
