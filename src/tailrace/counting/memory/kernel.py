"""Compiled loops of the unit memory: hash, partition, merge.

The hash is SipHash-2-4 with 128 bits.

An id of text that spells a whole number is this number (`spelling_kernel.py`), so that it is hashed
as integers are.

A message is hashed with one more byte at its end, its tag, which names the kind of message:
so no integer is ever taken for a text, and the hash that orders rows shares no message with the one
that names units.
"""

import numpy as np
from numba import njit

from tailrace.counting.memory.spelling_kernel import LARGE, NOBODY, TEXT, plain, spelt

# The tag of (unit, cell), "o"; the tags of ids are in hashing.py.
ORDER = 111
# The cell of the row that counts a unit's deleted inserts.
GONE = -1
_END = np.iinfo(np.int64).max


@njit(cache=True, inline="always")
def _rotated(x, by):
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@njit(cache=True)
def _rounds(v0, v1, v2, v3, count):
    for _ in range(count):
        v0 += v1
        v1 = _rotated(v1, 13) ^ v0
        v0 = _rotated(v0, 32)
        v2 += v3
        v3 = _rotated(v3, 16) ^ v2
        v0 += v3
        v3 = _rotated(v3, 21) ^ v0
        v2 += v1
        v1 = _rotated(v1, 17) ^ v2
        v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@njit(cache=True)
def _begun(k0, k1):
    # 0xEE here, 0xEE and 0xDD at the end make the variant of 128 bits.
    return (
        k0 ^ np.uint64(0x736F6D6570736575),
        k1 ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE),
        k0 ^ np.uint64(0x6C7967656E657261),
        k1 ^ np.uint64(0x7465646279746573),
    )


@njit(cache=True)
def _absorbed(v0, v1, v2, v3, word):
    v0, v1, v2, v3 = _rounds(v0, v1, v2, v3 ^ word, 2)
    return v0 ^ word, v1, v2, v3


@njit(cache=True)
def _finished(v0, v1, v2, v3):
    v0, v1, v2, v3 = _rounds(v0, v1, v2 ^ np.uint64(0xEE), v3, 4)
    high = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _rounds(v0, v1 ^ np.uint64(0xDD), v2, v3, 4)
    return high, v0 ^ v1 ^ v2 ^ v3


@njit(cache=True)
def of_bytes(data, start, stop, tag, k0, k1):
    """Hash data[start:stop] and the tag to two words.

    They are the first and the last 8 bytes of the official output.
    """
    v0, v1, v2, v3 = _begun(k0, k1)
    length = stop - start + 1
    word, filled = np.uint64(0), 0
    for i in range(length):
        byte = np.uint64(data[start + i]) if i < length - 1 else np.uint64(tag)
        word |= byte << np.uint64(8 * filled)
        filled += 1
        if filled == 8:
            v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, word)
            word, filled = np.uint64(0), 0
    word |= np.uint64(length & 255) << np.uint64(56)
    v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, word)
    return _finished(v0, v1, v2, v3)


@njit(cache=True)
def of_word(word, tag, k0, k1):
    """Hash 8 bytes and the tag."""
    v0, v1, v2, v3 = _begun(k0, k1)
    v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, word)
    v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, np.uint64(tag) | np.uint64(9 << 56))
    return _finished(v0, v1, v2, v3)


@njit(cache=True)
def place(high, low, cell, k0, k1):
    """The place of an insert in its unit's order."""
    v0, v1, v2, v3 = _begun(k0, k1)
    v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, high)
    v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, low)
    v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, np.uint64(cell))
    v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, np.uint64(ORDER) | np.uint64(25 << 56))
    return _finished(v0, v1, v2, v3)[0]


@njit(cache=True)
def hash_bytes(data, offsets, tags, k0, k1, high, low):
    """Hash data[offsets[i]:offsets[i + 1]] with tags[i].

    Tag 0 is nobody, (0, 0).
    """
    for i in range(len(tags)):
        high[i], low[i] = np.uint64(0), np.uint64(0)
        if tags[i] != 0:
            high[i], low[i] = of_bytes(data, offsets[i], offsets[i + 1], tags[i], k0, k1)


@njit(cache=True)
def hash_ids(data, offsets, tags, k0, k1, high, low):
    """Hash ids as text, without the blanks around it.

    A whole number is hashed as an integer.

    Returns which rows spell one beyond 64 bits, and are left to others.
    """
    large = np.zeros(len(tags), np.bool_)
    for i in range(len(tags)):
        high[i], low[i] = np.uint64(0), np.uint64(0)
        start, stop, tag, word = offsets[i], offsets[i + 1], np.int64(tags[i]), np.uint64(0)
        if tag == TEXT and not plain(data, start, stop):
            start, stop, tag, word = spelt(data, start, stop)
            large[i] = tag == LARGE
            if tag != TEXT:
                if tag != NOBODY and tag != LARGE:
                    high[i], low[i] = of_word(word, tag, k0, k1)
                continue
        if tag != NOBODY:
            high[i], low[i] = of_bytes(data, start, stop, tag, k0, k1)
    return large


@njit(cache=True)
def hash_words(words, tags, k0, k1, high, low):
    """Hash the eight bytes of words[i] with tags[i].

    Tag 0 is nobody, (0, 0).
    """
    for i in range(len(tags)):
        high[i], low[i] = np.uint64(0), np.uint64(0)
        if tags[i] != 0:
            high[i], low[i] = of_word(words[i], tags[i], k0, k1)


@njit(cache=True)
def partition(high, low, cells, skip, bits, order):
    """Fill `order` with the rows of each bucket in turn.

    A bucket is `bits` of the hash, after the first `skip`. Returns each bucket's start, and the
    end.

    A row of nobody or outside the domain is in no bucket.
    """
    starts = np.zeros((1 << bits) + 2, np.int64)
    for i in range(len(cells)):
        if cells[i] >= 0 and (high[i] | low[i]) != 0:
            starts[_bucket(high[i], skip, bits) + 2] += 1
    for b in range(1 << bits):
        starts[b + 2] += starts[b + 1]
    for i in range(len(cells)):
        if cells[i] >= 0 and (high[i] | low[i]) != 0:
            # A start moves on with its bucket, and ends as the start of the next.
            b = _bucket(high[i], skip, bits) + 1
            order[starts[b]] = i
            starts[b] += 1
    return starts[:-1]


@njit(cache=True)
def _bucket(high, skip, bits):
    # No shift by 64.
    return np.int64((high << np.uint64(skip)) >> np.uint64(64 - bits)) if bits > 0 else np.int64(0)


@njit(cache=True)
def settle(high, low, cells):
    """Sort nearly sorted rows in place; False: given up."""
    moves = 64 * len(cells)
    for i in range(1, len(cells)):
        a, b, c = high[i], low[i], cells[i]
        j = i - 1
        while j >= 0 and (
            _before(a, b, high[j], low[j]) or (a == high[j] and b == low[j] and c < cells[j])
        ):
            high[j + 1], low[j + 1], cells[j + 1] = high[j], low[j], cells[j]
            j -= 1
        high[j + 1], low[j + 1], cells[j + 1] = a, b, c
        moves -= i - 1 - j
        if moves < 0:
            return False
    return True


@njit(cache=True, inline="always")
def _before(high, low, other_high, other_low):
    return high < other_high or (high == other_high and low < other_low)


@njit(cache=True)
def _accept(cells, adds, room, high, low, k0, k1):
    """Cut `adds` per cell to `room` in all, by hash."""
    places, heap = np.empty(len(cells), np.uint64), np.empty(len(cells), np.int64)
    for n in range(len(cells)):
        places[n], heap[n] = place(high, low, cells[n], k0, k1), n
    for root in range(len(cells) // 2 - 1, -1, -1):
        _sift(places, heap, root, len(cells))
    for many in range(len(cells), 0, -1):
        n = heap[0]
        adds[n] = min(adds[n], room)
        room -= adds[n]
        heap[0] = heap[many - 1]
        _sift(places, heap, np.int64(0), many - 1)


@njit(cache=True)
def _sift(places, heap, root, many):
    """Let the root of a heap sink; two equal places go by cell.

    Written out: sorting by numpy's names takes a second to compile.
    """
    while 2 * root + 1 < many:
        child = 2 * root + 1
        if child + 1 < many and _sooner(places, heap[child + 1], heap[child]):
            child += 1
        if not _sooner(places, heap[child], heap[root]):
            break
        heap[root], heap[child] = heap[child], heap[root]
        root = child


@njit(cache=True, inline="always")
def _sooner(places, one, other):
    return places[one] < places[other] or (places[one] == places[other] and one < other)


@njit(cache=True)
def merge(old, counts, adds, deletes, limit, forever, k0, k1, accepted, deleted):
    """Merge old rows with the step's inserts and deletes.

    Each is one slice (high, low, cell), sorted by all three.

    A unit is decided from its own rows alone. `accepted` and `deleted` are filled with cells;
    returns the rows (high, low, cell, count) of the units that changed, how many of either were
    filled, and how many old rows are replaced. A unit with nothing left has one row, of no count.
    `forever`: a deleted insert still counts.
    """
    old_high, old_low, old_cell = old
    add_high, add_low, add_cell = adds
    del_high, del_low, del_cell = deletes
    bound = len(old_high) + len(add_high) + len(del_high)
    new_high, new_low = np.empty(bound, np.uint64), np.empty(bound, np.uint64)
    new_cell, new_count = np.empty(bound, np.int64), np.empty(bound, np.uint32)
    # Of one unit, per cell. As long as the slice: only the pages touched take memory.
    cells, before = np.empty(bound, np.int64), np.empty(bound, np.int64)
    wanted, unwanted = np.empty(bound, np.int64), np.empty(bound, np.int64)
    i = j = k = rows = inserts = removals = replaced = 0
    while i < len(old_high) or j < len(add_high) or k < len(del_high):
        high = low = np.uint64(0xFFFFFFFFFFFFFFFF)
        if i < len(old_high):
            high, low = old_high[i], old_low[i]
        if j < len(add_high) and _before(add_high[j], add_low[j], high, low):
            high, low = add_high[j], add_low[j]
        if k < len(del_high) and _before(del_high[k], del_low[k], high, low):
            high, low = del_high[k], del_low[k]
        # the unit's rows end here (written out: an array passed to a function is counted, which
        # costs more than the loop)
        i_end, j_end, k_end = i, j, k
        while i_end < len(old_high) and old_high[i_end] == high and old_low[i_end] == low:
            i_end += 1
        while j_end < len(add_high) and add_high[j_end] == high and add_low[j_end] == low:
            j_end += 1
        while k_end < len(del_high) and del_high[k_end] == high and del_low[k_end] == low:
            k_end += 1
        gone = n = live = freed = asked = 0
        had, done = i_end - i, inserts + removals
        if i < i_end and old_cell[i] == GONE:
            gone = np.int64(counts[i])
            had -= gone == 0
            i += 1
        while i < i_end or j < j_end or k < k_end:
            cell = old_cell[i] if i < i_end else _END
            cell = min(cell, add_cell[j]) if j < j_end else cell
            cell = min(cell, del_cell[k]) if k < k_end else cell
            cells[n], before[n], wanted[n], unwanted[n] = cell, 0, 0, 0
            while i < i_end and old_cell[i] == cell:
                before[n] += np.int64(counts[i])
                i += 1
            while j < j_end and add_cell[j] == cell:
                wanted[n] += 1
                j += 1
            while k < k_end and del_cell[k] == cell:
                unwanted[n] += 1
                k += 1
            live += before[n]
            freed += min(before[n], unwanted[n])
            asked += wanted[n]
            n += 1
        # over the horizon, what was ever accepted is used up; at any one time, deletes of earlier
        # records come first
        room = limit - gone - live if forever else limit - live + freed
        if asked > room:
            _accept(cells[:n], wanted[:n], max(room, 0), high, low, k0, k1)
        for c in range(n):
            held = before[c] + wanted[c]
            dropped = min(held, unwanted[c])
            for _ in range(wanted[c]):
                accepted[inserts] = cells[c]
                inserts += 1
            for _ in range(dropped):
                deleted[removals] = cells[c]
                removals += 1
            gone += dropped
            before[c] = held - dropped
        if inserts + removals == done:
            continue
        replaced, first = replaced + had, rows
        if forever and gone > 0:
            new_high[rows], new_low[rows], new_cell[rows], new_count[rows] = high, low, GONE, gone
            rows += 1
        for c in range(n):
            if before[c] > 0:
                new_high[rows], new_low[rows] = high, low
                new_cell[rows], new_count[rows] = cells[c], before[c]
                rows += 1
        if rows == first and had > 0:
            new_high[rows], new_low[rows], new_cell[rows], new_count[rows] = high, low, GONE, 0
            rows += 1
    new = new_high[:rows], new_low[:rows], new_cell[:rows], new_count[:rows]
    return new, inserts, removals, replaced


@njit(cache=True)
def cut(high, low, cells, limit, k0, k1, kept):
    """Mark the first `limit` rows of each unit, in its order.

    Rows are sorted by unit and cell. A bound accepts the first rows of a unit, at most `limit`: so
    those of all parts of a step are among the first ones of each part.
    """
    some, many = np.empty(len(cells), np.int64), np.empty(len(cells), np.int64)
    i = 0
    while i < len(cells):
        n, end = 0, i
        while end < len(cells) and high[end] == high[i] and low[end] == low[i]:
            if end == i or cells[end] != cells[end - 1]:
                some[n], many[n] = cells[end], 0
                n += 1
            many[n - 1] += 1
            end += 1
        if end - i > limit:
            _accept(some[:n], many[:n], limit, high[i], low[i], k0, k1)
        n, left = -1, 0
        for row in range(i, end):
            if row == i or cells[row] != cells[row - 1]:
                n += 1
                left = many[n]
            kept[row] = left > 0
            left -= 1
        i = end


@njit(cache=True)
def cut_alike(high, low, cells, limit, kept):
    """Mark the first `limit` rows of each unit and cell."""
    run = 0
    for row in range(len(cells)):
        same = row > 0 and high[row] == high[row - 1] and low[row] == low[row - 1]
        run = run + 1 if same and cells[row] == cells[row - 1] else 1
        kept[row] = run <= limit


@njit(cache=True)
def cut_ends(high, low, cells, kept):
    """Mark the lowest and the highest cell of each unit, once each."""
    start = 0
    for row in range(len(cells)):
        if high[row] != high[start] or low[row] != low[start]:
            start = row
        after = row + 1
        last = after == len(cells) or high[row] != high[after] or low[row] != low[after]
        kept[row] = row == start or (last and cells[row] != cells[start])
