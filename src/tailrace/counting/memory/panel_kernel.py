"""Compiled loops that follow a panel's units.

What a unit is remembered by is its code and count. Windows: `code` holds the last values, `count`
how many of them are known. Weights: `code` is twice the weight, plus 1 where the last value was the
one that is counted.

A unit is silent at a step if what it reports, if anything, is what its policy takes it to report
anyway. Its state then changes by a rule that needs no row of it: so silent units are counted by
their states, and a unit's row says what it was at the last step at which it was not silent.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

CARRY, CATEGORY, DROP = 0, 1, 2


class Rule(NamedTuple):
    """What is remembered, and what becomes of missing reports."""

    weight: bool
    window: int
    values: int
    counted: int
    missing: int


@njit(cache=True, inline="always")
def _before(high, low, other_high, other_low):
    return high < other_high or (high == other_high and low < other_low)


@njit(cache=True)
def _number(code, count, rule):
    """The number of a state: windows by length, then by code."""
    if rule.weight:
        return code
    place, size = np.int64(0), np.int64(1)
    for _ in range(count):
        place, size = place + size, size * rule.values
    return place + code


@njit(cache=True)
def _moved(code, count, value, rule, tally, many):
    """The state after a value, `many` times counted."""
    if rule.weight:
        one = value == rule.counted
        reached = code // 2 + one
        if one:
            tally[reached] += many
        return 2 * reached + one, np.int64(1)
    kept = max(rule.window - 1, 1)
    if count >= rule.window - 1:
        tally[code % rule.values ** (rule.window - 1) * rule.values + value] += many
    return (code * rule.values + value) % rule.values**kept, min(count + 1, kept)


@njit(cache=True)
def _usual(code, rule):
    """The value of a silent unit."""
    if rule.weight:
        carried = rule.missing == CARRY and code % 2 == 1
        return np.int64(rule.counted if carried else -1)
    return np.int64(code % rule.values if rule.missing == CARRY else rule.values - 1)


@njit(cache=True)
def pass_silently(states, numbers, rule, tally, after):
    """Move all silent units on by one step.

    `states` counts them by state, numbers[i] = (code, count) of state i; `after` is added to.
    """
    for state in range(len(states)):
        if states[state]:
            code, count = numbers[state, 0], numbers[state, 1]
            code, count = _moved(code, count, _usual(code, rule), rule, tally, states[state])
            after[_number(code, count, rule)] += states[state]


@njit(cache=True)
def counted(codes, counts, rule, states):
    """Count units by state."""
    for i in range(len(codes)):
        states[_number(codes[i], np.int64(counts[i]), rule)] += 1


@njit(cache=True)
def follow(old, counts, now, rule, first, step, tally, states, after):
    """Follow the units of one slice that report.

    The old rows are (high, low, code) with their counts, the step's (high, low, cell), each sorted
    by unit; no other unit has old rows.

    A unit is decided from its own rows alone. `tally` is added to. Units that are not silent leave
    `states`, counted before the step, for `after`. Returns their rows (high, low, code, count), the
    step in the upper half of the code.
    """
    old_high, old_low, old_code = old
    now_high, now_low, now_cell = now
    bound = len(now_high)
    new_high, new_low = np.empty(bound, np.uint64), np.empty(bound, np.uint64)
    new_code, new_count = np.empty(bound, np.int64), np.empty(bound, np.uint32)
    nothing = np.zeros(len(tally), np.int64)
    kept = max(rule.window - 1, 1)
    i = j = rows = 0
    while j < len(now_high):
        high, low = now_high[j], now_low[j]
        while i < len(old_high) and _before(old_high[i], old_low[i], high, low):
            i += 1
        known = i < len(old_high) and old_high[i] == high and old_low[i] == low
        code, count = np.int64(0), np.int64(0)
        if known:
            code, count = old_code[i] & 0xFFFFFFFF, np.int64(counts[i])
            silent = step - 1 - (old_code[i] >> 32)
            if rule.weight and rule.missing == CARRY:
                code += 2 * silent * (code % 2)
            elif rule.missing != DROP:
                # After so many steps a silent unit's state stays as it is.
                for _ in range(min(silent, kept)):
                    code, count = _moved(
                        code, count, _usual(code, rule), rule, nothing, np.int64(0)
                    )
        value, agreed = np.int64(-1), True
        while j < len(now_high) and now_high[j] == high and now_low[j] == low:
            agreed &= value < 0 or value == now_cell[j]
            value = now_cell[j]
            j += 1
        if not agreed:
            # Two reports that contradict each other are none.
            value = np.int64(-1)
        if rule.missing == DROP and (value < 0 or not (known or first)):
            continue
        if rule.missing == CARRY and value < 0 and not known:
            continue
        if known and rule.missing != DROP:
            usual = _usual(code, rule)
            silent = value < 0 or value == usual
            if rule.weight:
                silent = value < 0 or (value == rule.counted) == (usual == rule.counted)
            if silent:
                continue
            states[_number(code, count, rule)] -= 1
        if not known and rule.weight:
            tally[0] += 1
        if not known and not rule.weight and rule.missing == CATEGORY:
            # It has had the last value, "missing", all along.
            code, count = np.int64(rule.values**kept - 1), np.int64(kept)
        if value < 0:
            value = _usual(code, rule)
        code, count = _moved(code, count, value, rule, tally, np.int64(1))
        if rule.missing != DROP:
            after[_number(code, count, rule)] += 1
        new_high[rows], new_low[rows] = high, low
        new_code[rows], new_count[rows] = (np.int64(step) << 32) | code, count
        rows += 1
    return new_high[:rows], new_low[:rows], new_code[:rows], new_count[:rows]
