"""The compiled loop that follows a panel's units."""

import numpy as np
from numba import njit

CARRY, CATEGORY, DROP = 0, 1, 2


@njit(cache=True, inline="always")
def _before(high, low, other_high, other_low):
    return high < other_high or (high == other_high and low < other_low)


@njit(cache=True)
def follow(old, counts, now, weight, window, values, counted, missing, first, tally):
    """Follow the units of one slice.

    The old rows are (high, low, code) with their counts, the step's (high, low, cell), each sorted
    by unit.

    A unit is decided from its own rows alone. `tally` is added to; returns the new rows (high, low,
    code, count). Windows: `code` holds the last values, `count` how many of them are known.
    Weights: `code` is twice the weight, plus 1 where the last value was the one that is counted.
    """
    old_high, old_low, old_code = old
    now_high, now_low, now_cell = now
    bound = len(old_high) + len(now_high)
    new_high, new_low = np.empty(bound, np.uint64), np.empty(bound, np.uint64)
    new_code, new_count = np.empty(bound, np.int64), np.empty(bound, np.uint32)
    kept = max(window - 1, 1)
    prefixes, codes = values ** (window - 1), values**kept
    i = j = rows = 0
    while i < len(old_high) or j < len(now_high):
        high = low = np.uint64(0xFFFFFFFFFFFFFFFF)
        if i < len(old_high):
            high, low = old_high[i], old_low[i]
        if j < len(now_high) and _before(now_high[j], now_low[j], high, low):
            high, low = now_high[j], now_low[j]
        known = i < len(old_high) and old_high[i] == high and old_low[i] == low
        code, count = np.int64(0), np.int64(0)
        if known:
            code, count = old_code[i], np.int64(counts[i])
            i += 1
        value, agreed = np.int64(-1), True
        while j < len(now_high) and now_high[j] == high and now_low[j] == low:
            agreed &= value < 0 or value == now_cell[j]
            value = now_cell[j]
            j += 1
        if not agreed:
            # Two reports that contradict each other are none.
            value = np.int64(-1)
        if missing == DROP and (value < 0 or not (known or first)):
            continue
        if missing == CARRY and value < 0 and not known:
            continue
        if weight:
            one = value == counted or (value < 0 and missing == CARRY and code % 2 == 1)
            reached = code // 2 + one
            if not known:
                tally[0] += 1
            if one:
                tally[reached] += 1
            code = 2 * reached + one
            count = np.int64(1)
        else:
            if not known and missing == CATEGORY:
                # It has had the last value, "missing", all along.
                code, count = np.int64(codes - 1), np.int64(kept)
            if value < 0:
                value = code % values if missing == CARRY else np.int64(values - 1)
            if count >= window - 1:
                tally[code % prefixes * values + value] += 1
            code = (code * values + value) % codes
            count = min(count + 1, kept)
        new_high[rows], new_low[rows], new_code[rows], new_count[rows] = high, low, code, count
        rows += 1
    return new_high[:rows], new_low[:rows], new_code[:rows], new_count[:rows]
