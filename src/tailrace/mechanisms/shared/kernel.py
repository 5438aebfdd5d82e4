"""Choose rows that leave, as a compiled loop."""

import numpy as np
from numba import njit


@njit(cache=True)
def leaving(digits, strides, died, now, left, due, rng):
    """Choose `due` living rows of each code by chance.

    Returns their places among all rows ever born; every row of a code is equally likely.

    A row's code is its `digits`, (attributes, rows), times `strides`; `left` has the number of
    living rows of each code. Rows are taken in order of birth: one leaves with the probability that
    the rest of its code is due to leave, so exactly `due` do. Both arrays are used up.
    """
    gone, many = np.empty(due.sum(), np.int64), 0
    for row in range(len(died)):
        code = np.int64(0)
        for j in range(len(strides)):
            if strides[j]:
                code += strides[j] * digits[j, row]
        if due[code] and died[row] > now:
            if rng.random() * left[code] < due[code]:
                gone[many] = row
                many += 1
                due[code] -= 1
            left[code] -= 1
    return gone
