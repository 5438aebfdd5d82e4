"""Messages and draws of turning walks, as compiled loops.

second_order.py says what they are and why they are right; walks_kernel.py calls them.

1. Messages are rows, one for each cell, with one column for each direction that a walk may arrive
   in.
2. Edges are slots of their cell: slot s leads on in direction s mod 8.
3. A place is 8 times a cell plus the direction of arrival.
4. `edges` are, for the cells of one end, the places that slots lead to, and their weights; and the
   mixing.
"""

import numpy as np
from numba import njit

DIRECTIONS = 8
# A layer whose largest message lies below is scaled up.
LOW = 2.0**-64


@njit(cache=True, nogil=True)
def localised(turning, cells, local, hops, near, logs):
    """Write the edges among `cells` into `near`.

    Returns how many hops farther from the end an edge may lead. `local` numbers the cells from 0
    (-1: none of them). An edge that leads elsewhere leads to place 0 without any probability, where
    only finite numbers are ever read.
    """
    places, weights = near
    farther = 0
    for i in range(len(cells)):
        for slot in range(places.shape[1]):
            target = turning[0][cells[i], slot]
            other = local[target] if target >= 0 else -1
            if other >= 0:
                places[i, slot] = other * DIRECTIONS + slot % DIRECTIONS
                weights[i, slot] = turning[1][cells[i], slot]
                farther = max(farther, hops[cells[other]] - hops[cells[i]])
            else:
                places[i, slot], weights[i, slot] = 0, -np.inf if logs else 0.0
    return farther


@njit(cache=True, nogil=True, fastmath={"contract"})
def _advance(edges, need, moves, inside, before, after, scale):
    """As `advance`, with doubles; returns the largest first message.

    That is of direction 0, since looking for the largest of all costs time. The compiler makes
    vectors of the last loop, because its number of steps is that of the columns of `mixing`, which
    it does not know, and because all factors are read from one array, so that one look shows that
    they are not what is written to.
    """
    places, weights, mixing = edges
    peak, turn = 0.0, mixing.reshape(-1)
    for cell in range(np.uint32(inside)):
        if need[cell] < moves:
            continue
        near, weight, message = places[cell], weights[cell], after[cell]
        g0 = g1 = g2 = g3 = g4 = g5 = g6 = g7 = 0.0
        for s in range(0, places.shape[1], DIRECTIONS):
            g0 += weight[s] * before[near[s]]
            g1 += weight[s + 1] * before[near[s + 1]]
            g2 += weight[s + 2] * before[near[s + 2]]
            g3 += weight[s + 3] * before[near[s + 3]]
            g4 += weight[s + 4] * before[near[s + 4]]
            g5 += weight[s + 5] * before[near[s + 5]]
            g6 += weight[s + 6] * before[near[s + 6]]
            g7 += weight[s + 7] * before[near[s + 7]]
        for d in range(mixing.shape[1]):
            low = turn[d] * g0 + turn[8 + d] * g1 + turn[16 + d] * g2 + turn[24 + d] * g3
            high = turn[32 + d] * g4 + turn[40 + d] * g5 + turn[48 + d] * g6 + turn[56 + d] * g7
            message[d] = (low + high) * scale
        peak = max(peak, message[0])
    return peak


@njit(cache=True, nogil=True)
def _advance_logs(edges, need, moves, inside, before, after):
    """As `advance`, with logarithms."""
    places, weights, mixing = edges
    parts = np.empty(places.shape[1])
    for cell in range(np.uint32(inside)):
        if need[cell] < moves:
            continue
        for d in range(DIRECTIONS):
            for s in range(len(parts)):
                parts[s] = weights[cell, s] + before[places[cell, s]] + mixing[s % DIRECTIONS, d]
            after[cell, d] = _log_sum(parts)


@njit(cache=True, nogil=True)
def _log_sum(parts):
    highest, total = -np.inf, 0.0
    for part in parts:
        highest = max(highest, part)
    if highest == -np.inf:
        return highest
    for part in parts:
        total += np.exp(part - highest)
    return highest + np.log(total)


@njit(cache=True, nogil=True)
def advance(edges, need, moves, inside, before, after, scale, logs):
    """The messages of one more move; returns the largest.

    Only for the cells that need them, among the first `inside`. The returned number may be another
    message above LOW.
    """
    after = after.reshape(-1, DIRECTIONS)
    after[inside:] = -np.inf if logs else 0.0
    if logs:
        _advance_logs(edges, need, moves, inside, before, after)
        return 0.0
    peak = _advance(edges, need, moves, inside, before, after, scale)
    if peak < LOW:
        for cell in range(inside):
            if need[cell] >= moves:
                for d in range(DIRECTIONS):
                    peak = max(peak, after[cell, d])
    return peak


@njit(cache=True, nogil=True)
def beginning(edges, cell, before, logs):
    """The sum over first edges, which make no turn."""
    places, weights, _ = edges
    parts = np.empty(places.shape[1])
    for s in range(len(parts)):
        message = before[places[cell, s]]
        parts[s] = weights[cell, s] + message if logs else weights[cell, s] * message
    return _log_sum(parts) if logs else parts.sum()


@njit(cache=True, nogil=True)
def drawn(edges, place, begins, before, uniform, logs):
    """Draw the next place.

    In proportion to the weight of the edge, the factor of its turn (unless the walk begins here)
    and the message from there.
    """
    places, weights, mixing = edges
    cell, arrived = place // DIRECTIONS, place % DIRECTIONS
    highest, total, chosen = -np.inf, 0.0, -1
    parts = np.empty(places.shape[1])
    for s in range(len(parts)):
        message = before[places[cell, s]]
        if logs:
            parts[s] = (
                weights[cell, s] + message + (0.0 if begins else mixing[s % DIRECTIONS, arrived])
            )
            highest = max(highest, parts[s])
        else:
            parts[s] = (
                weights[cell, s] * message * (1.0 if begins else mixing[s % DIRECTIONS, arrived])
            )
    for s in range(len(parts)):
        if logs:
            parts[s] = np.exp(parts[s] - highest)
        total += parts[s]
    rest = uniform * total
    for s in range(len(parts)):
        rest -= parts[s]
        if parts[s] > 0:
            chosen = s
            if rest < 0:
                break
    return np.int64(places[cell, chosen])
