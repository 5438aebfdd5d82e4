"""Points along lines, as a compiled loop."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def along(offsets, x, y, steps, phases):
    """(offsets, x, y) of points along lines.

    From vertex k - 1 to k of a line there are `steps[k]` points, in the mean; the first one of a
    line comes after a part `phases` of a step.
    """
    ends, room = np.zeros(len(offsets), np.int64), len(offsets)
    for line in range(len(offsets) - 1):
        room += int(steps[offsets[line] : offsets[line + 1]].sum()) + 1
    across, up, many = np.empty(room), np.empty(room), 0
    for line in range(len(offsets) - 1):
        left = phases[line]
        for k in range(offsets[line] + 1, offsets[line + 1]):
            while left < steps[k]:
                part = left / steps[k]
                across[many] = x[k - 1] + part * (x[k] - x[k - 1])
                up[many] = y[k - 1] + part * (y[k] - y[k - 1])
                many += 1
                left += 1.0
            left -= steps[k]
        ends[line + 1] = many
    return ends, across[:many], up[:many]
