"""Find the few cells that a batch touched, compiled."""

import numpy as np
from numba import njit

_BLOCK = 64


@njit(cache=True)
def touched(adds, deletes):
    """The places where either is not 0, sorted."""
    found, many = np.empty(256, np.int64), 0
    for start in range(0, len(adds), _BLOCK):
        stop = min(start + _BLOCK, len(adds))
        something = np.int64(0)
        for i in range(start, stop):
            something |= adds[i] | deletes[i]
        if something == 0:
            continue
        for i in range(start, stop):
            if adds[i] | deletes[i]:
                if many == len(found):
                    found = np.concatenate((found, np.empty_like(found)))
                found[many] = i
                many += 1
    return found[:many].copy()
