"""Messages and draws of conditioned walks, as compiled loops.

walks.py says what they are and why they are right.

1. With `logs`, chances and messages are logarithms: slower, for what is too unlikely for doubles.
2. Where the next move does not depend on the last one, a cell has one message, and `turning` is
   None. Otherwise it has one for each direction (turning_kernel.py), and `plain` is None. The
   compiler leaves out the code of the one that is None.
3. A place is a cell times the `width` of its messages, plus the direction.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from tailrace.models.walks import turning_kernel
from tailrace.models.walks.paths_kernel import outward
from tailrace.models.walks.turning_kernel import DIRECTIONS, LOW

# The smallest positive double: the most that a vanishing product loses.
_SMALLEST = 2.0**-1074
# The share of a walk's probability that may have vanished.
_SURE = 2.0**-50


class Asked(NamedTuple):
    """The walks to draw, an entry for each walk."""

    first: np.ndarray
    last: np.ndarray
    moves: np.ndarray
    offsets: np.ndarray  # where its cells begin, and the end of all
    uniforms: np.ndarray  # one for each cell of each walk


class _End(NamedTuple):
    """One end of walks, and the cells around it."""

    message: np.ndarray  # of the end, with no moves left: (width,)
    lost: float  # the most that a move loses of a message
    need: np.ndarray  # the most moves left at each cell
    upto: np.ndarray  # how many cells lie within h hops of the end
    extent: np.ndarray  # how many cells layer j has room for
    cells: np.ndarray  # the end first, in the order of their hops
    local: np.ndarray  # the number among `cells` of each cell of the graph, or -1


@njit(cache=True, nogil=True)
def _windows(starts, targets, hops, walks, first, moves, need, queue):
    """Set `need` to the most moves left at each cell.

    It is -1 before. Over all walks that can visit the cell it is the largest of a walk's moves less
    the hops from its first cell, found level by level: walks with most moves come first. A cell
    with more hops to the end than that is on no walk, and neither is a cell reached through it
    alone.
    """
    many, at, place = 0, 0, 0
    for left in range(moves[walks[0]], -1, -1):
        while place < len(walks) and moves[walks[place]] == left:
            cell = first[walks[place]]
            place += 1
            if need[cell] < 0 and 0 <= hops[cell] <= left:
                need[cell], queue[many] = left, cell
                many += 1
        while at < many and need[queue[at]] == left:
            cell = queue[at]
            at += 1
            for edge in range(starts[cell], starts[cell + np.uint32(1)]):
                other = targets[edge]
                if need[other] < 0 and 0 <= hops[other] <= left - 1:
                    need[other], queue[many] = left - 1, other
                    many += 1


@njit(cache=True, nogil=True)
def _localised(graph, cells, local, hops, starts, targets, chances):
    """The edges among `cells`, which `local` numbers from 0.

    `local` is -1 for all other cells. Returns the most edges of a cell, and how many hops farther
    from the end an edge may lead.
    """
    edges, most, farther = 0, 0, 0
    for i in range(len(cells)):
        starts[i] = edges
        for edge in range(graph[0][cells[i]], graph[0][cells[i] + 1]):
            other = local[graph[1][edge]]
            if other >= 0:
                targets[edges], chances[edges] = other, graph[2][edge]
                edges += 1
                farther = max(farther, hops[cells[other]] - hops[cells[i]])
        most = max(most, edges - starts[i])
    starts[len(cells)] = edges
    return most, farther


@njit(cache=True, nogil=True)
def _advance(edges, need, moves, inside, before, after, scale, logs):
    """The messages of one more move; returns the largest.

    Only for the cells that need them, among the first `inside`.
    """
    starts, targets, chances = edges
    peak = 0.0
    for cell in range(np.uint32(inside)):
        if need[cell] < moves:
            continue
        message = 0.0
        if logs:
            highest = -np.inf
            for edge in range(starts[cell], starts[cell + np.uint32(1)]):
                highest = max(highest, chances[edge] + before[targets[edge]])
            if highest > -np.inf:
                for edge in range(starts[cell], starts[cell + np.uint32(1)]):
                    message += np.exp(chances[edge] + before[targets[edge]] - highest)
            after[cell] = highest + np.log(message) if message > 0 else -np.inf
        else:
            for edge in range(starts[cell], starts[cell + np.uint32(1)]):
                message += chances[edge] * before[targets[edge]]
            after[cell] = message * scale
            peak = max(peak, after[cell])
    after[inside:] = -np.inf if logs else 0.0
    return peak


@njit(cache=True, nogil=True)
def _drawn(edges, cell, before, uniform, logs):
    """Draw the next cell, by chance times message."""
    starts, targets, chances = edges
    total, highest, chosen = 0.0, -np.inf, -1
    if logs:
        for edge in range(starts[cell], starts[cell + np.uint32(1)]):
            highest = max(highest, chances[edge] + before[targets[edge]])
    for turn in range(2):
        rest = uniform * total
        for edge in range(starts[cell], starts[cell + np.uint32(1)]):
            message = before[targets[edge]]
            part = np.exp(chances[edge] + message - highest) if logs else chances[edge] * message
            total += part
            rest -= part
            if turn and part > 0:
                chosen = targets[edge]
                if rest < 0:
                    break
    return chosen


@njit(cache=True, nogil=True)
def _layers(plain, turning, need, upto, base, top, layers, places, state, logs):
    """Fill the layers of messages from base + 1 on.

    Layer j holds the messages of j moves, up to `top`. Layer `base` is there already, and a layer
    has room for all that the next one reads. `state` holds for each layer its largest message, and
    a bound on the loss of any of its messages: earlier losses, since the chances of a cell sum to 1
    at most, and the products lost in this layer.
    """
    for j in range(base + 1, top + 1):
        before = layers[places[j - base - 1] : places[j - base]]
        after = layers[places[j - base] : places[j - base + 1]]
        largest = state[j - 1, 0]
        scale = 2.0 ** min(-np.floor(np.log2(largest)), 512) if 0 < largest < LOW else 1.0
        if plain is not None:
            state[j, 0] = _advance(plain, need, j, upto[j], before, after, scale, logs)
        if turning is not None:
            state[j, 0] = turning_kernel.advance(
                turning, need, j, upto[j], before, after, scale, logs
            )
        state[j, 1] = (state[j - 1, 1] + state[0, 1]) * scale


@njit(cache=True, nogil=True)
def _begun(walk, asked, message, vanished, drawn, width, logs):
    """Put down a walk's first place, if probable enough."""
    out, done = drawn
    out[asked.offsets[walk]] = asked.first[walk] * width
    done[walk] = message > -np.inf if logs else message > 0 and message * _SURE >= vanished


@njit(cache=True, nogil=True)
def _group(plain, turning, end, walks, asked, drawn, layers, room, logs):
    """Draw the walks to one end; returns the layers' memory.

    Where all layers together need more than `room`, only the first layer of each segment is kept,
    and those between are made again while the walks go down.
    """
    last, lost, need, upto, extent, cells, local = end
    first, _, moves, offsets, uniforms = asked
    out, done = drawn
    most, width = len(upto) - 1, len(last)
    length = most if extent.sum() * width <= room else np.int64(np.ceil(np.sqrt(most)))
    segments = (most + length - 1) // length
    state = np.zeros((most + 1, 2))
    state[0, 0], state[0, 1] = 1.0, lost
    kept = np.full((segments, len(cells) * width), -np.inf if logs else 0.0)
    for d in range(width):
        kept[0, d] = last[d]
    places = np.zeros(length + 2, np.int64)
    # Up, to keep the first layer of each segment, then down, to draw.
    for turn in range(2 * segments - 1):
        segment = min(turn, 2 * (segments - 1) - turn)
        base, top = segment * length, min((segment + 1) * length, most)
        for j in range(base, top + 1):
            places[j - base + 1] = places[j - base] + extent[j] * width
        if len(layers) < places[top - base + 1]:
            layers = np.zeros(2 * places[top - base + 1])
        for i in range(places[1]):
            layers[i] = kept[segment, i]
        _layers(plain, turning, need, upto, base, top, layers, places, state, logs)
        if turn < segments - 1:
            for i in range(extent[top] * width):
                kept[segment + 1, i] = layers[places[top - base] + i]
            continue
        for walk in walks:
            if base < moves[walk] <= top and local[first[walk]] >= 0:
                at, cell = moves[walk] - base, local[first[walk]]
                message = vanished = 0.0
                if plain is not None:
                    message, vanished = layers[places[at] + cell], state[moves[walk], 1]
                if turning is not None:
                    before = layers[places[at - 1] : places[at]]
                    message = turning_kernel.beginning(turning, cell, before, logs)
                    vanished = state[moves[walk] - 1, 1] + lost
                _begun(walk, asked, message, vanished, drawn, width, logs)
            if not done[walk]:
                continue
            highest = min(moves[walk], top)
            at = offsets[walk] + moves[walk] - highest
            place = local[out[at] // width] * np.int64(width) + out[at] % width
            for left in range(highest, base, -1):
                before = layers[places[left - base - 1] : places[left - base]]
                if plain is not None:
                    place = np.int64(_drawn(plain, place, before, uniforms[at], logs))
                if turning is not None:
                    begins, uniform = left == moves[walk], uniforms[at]
                    place = turning_kernel.drawn(turning, place, begins, before, uniform, logs)
                at += 1
                out[at] = np.int64(cells[place // width]) * width + place % width
    return layers


@njit(cache=True, nogil=True)
def _extent(upto, farther):
    """The cells of each layer: all that the next reads."""
    most, extent = len(upto) - 1, np.empty(len(upto), np.int64)
    for j in range(most + 1):
        extent[j] = upto[min(j + farther + 1, most)]
    return extent


@njit(cache=True, nogil=True)
def draw(graph, chances, turning, groups, members, asked, drawn, near, layers, room, logs):
    """Draw the walks of all groups; returns the layers' memory.

    Parameters
    graph: starts and targets, forwards and backwards.
    chances: those of the edges, or None where walks turn.
    turning: targets and weights of slots, messages of ends, mixing, and the most that a message
        loses; or None.
    members: the walks of each group, those with most moves first.
    drawn: the places, from the offset of each walk on, and whether it is done (False before), for
        which it must have enough probability.
    near: room for the edges around one end.
    layers: room for messages, which must be finite (or -inf, with `logs`).
    """
    first, last, moves, _, _ = asked
    forward, back = graph
    cells, width = len(forward[0]) - 1, DIRECTIONS if chances is None else 1
    hops, need = np.full(cells, -1, np.int32), np.full(cells, -1, np.int32)
    order, queue = np.empty(cells, np.uint32), np.empty(cells, np.uint32)
    local, visited = np.full(cells, -1, np.int32), np.empty(cells, np.uint32)
    windows = np.empty(cells, np.int32)
    for group in range(len(groups) - 1):
        walks = members[groups[group] : groups[group + 1]]
        end, most, many = last[walks[0]], moves[walks[0]], 0
        found = outward(back[0], back[1], end, most, hops, order)
        _windows(forward[0], forward[1], hops, walks, first, moves, need, queue)
        upto = np.zeros(most + 1, np.int64)
        # Cells come in the order of their hops.
        for cell in order[:found]:
            if need[cell] >= 0:
                visited[many], windows[many], local[cell] = cell, need[cell], many
                many += 1
            upto[hops[cell]] = many
        for h in range(1, most + 1):
            upto[h] = max(upto[h], upto[h - 1])
        for walk in walks:
            if moves[walk] == 0 and first[walk] == end:
                _begun(walk, asked, 1.0, 0.0, drawn, width, logs)
        if most and many:
            inside = visited[:many]
            if chances is not None:
                edges = forward[0], forward[1], chances
                degree, farther = _localised(edges, inside, local, hops, near[0], near[1], near[2])
                message, lost = np.full(1, 0.0 if logs else 1.0), degree * _SMALLEST
                extent = _extent(upto, farther)
                around = _End(message, lost, windows, upto, extent, inside, local)
                layers = _group(near, None, around, walks, asked, drawn, layers, room, logs)
            if turning is not None:
                farther = turning_kernel.localised(turning, inside, local, hops, near, logs)
                extent = _extent(upto, farther)
                around = _End(turning[2][end], turning[4], windows, upto, extent, inside, local)
                edges = near[0], near[1], turning[3]
                layers = _group(None, edges, around, walks, asked, drawn, layers, room, logs)
        for cell in order[:found]:
            hops[cell] = need[cell] = local[cell] = -1
    return layers
