"""Choose rows that leave, as a compiled loop."""

import numpy as np
from numba import njit

# Rows whose codes are made at once, so that this is vectorised. By reasoning: they stay in cache.
_TOGETHER = 4096


@njit(cache=True)
def leaving(digits, chosen, strides, died, now, gone, left, due, rng):
    """Choose `due` living rows of each code by chance.

    Returns their places among all rows ever born; every row of a code is equally likely.

    A row's code is its digits of the `chosen` attributes times `strides`. Rows live that die after
    `now` and are not `gone` (places, ascending); `left` has their number by code. Rows are taken in
    order of birth: one leaves with the probability that the rest of its code is due to leave, so
    exactly `due` do. Both arrays are used up.
    """
    found, many, passed = np.empty(due.sum(), np.int64), 0, 0
    open_here, codes = due > 0, np.empty(_TOGETHER, np.int32)
    for begin in range(0, len(died), _TOGETHER):
        size = min(_TOGETHER, len(died) - begin)
        codes[:] = 0
        for j in range(len(chosen)):
            column, stride = digits[chosen[j], begin : begin + size], strides[j]
            for i in range(size):
                codes[i] += stride * column[i]
        for i in range(size):
            code, row = codes[i], begin + i
            if not open_here[code] or died[row] <= now:
                continue
            while passed < len(gone) and gone[passed] < row:
                passed += 1
            if passed < len(gone) and gone[passed] == row:
                continue
            if rng.random() * left[code] < due[code]:
                found[many] = row
                many += 1
                due[code] -= 1
                open_here[code] = due[code] > 0
            left[code] -= 1
    return found
