"""Belief propagation and descent on a junction tree, compiled.

Another tree is other numbers, not other code, so nothing is compiled anew when cliques change.
`tree` is the Arrays of tree.py.

1. Every table of the tree stands in one array, the cells of one clique after the other.
2. Small tables that lie in a clique (a potential, or the separator of a child) are its `parts`; all
   of them stand in a second array.
3. `strides` say how a small table lies in a large one: for each axis of the large one, by how much
   a step along it moves in the small one (0: not at all).
4. Attributes stand in the same order everywhere, so that the last stride is 0 or 1.
"""

from math import exp

import numpy as np
from numba import njit

# Sums in any order: several cells at a time.
LOOSE = {"reassoc", "nsz", "contract"}


@njit(cache=True)
def calibrate(tree, potentials, total, tables, marginals):
    """Calibrate the tree; return the log of the partition function.

    Expected counts of every clique go into `tables`, of every part into `marginals`; `potentials`
    are logarithms.

    1. Upwards, a clique hands its parent the log of its sum for each cell of its separator.
    2. Downwards, cells are scaled to the separator's counts.
    3. Only differences from the largest cell beside one are raised to powers, so nothing overflows.
    """
    messages, sums = np.zeros(tree.part_first[-1]), np.ones(tree.part_first[-1])
    first, last = np.zeros(1), np.ones(1)
    for clique in range(len(tree.above) - 1, -1, -1):
        table = tables[tree.first[clique] : tree.first[clique + 1]]
        _add_parts(tree, clique, potentials, messages, table)
        top, mass, lengths, strides = _separator(tree, clique, messages, sums, first, last)
        top[:] = -np.inf
        _raise(table, top, lengths, strides)
        for i in range(len(top)):
            top[i] = -top[i]
        _add(table, top, lengths, strides)
        for i in range(len(table)):
            table[i] = exp(table[i])
        mass[:] = 0.0
        _sum(table, mass, lengths, strides)
        for i in range(len(top)):
            top[i] = np.log(mass[i]) - top[i]
    partition = first[0]
    for clique in range(len(tree.above)):
        table = tables[tree.first[clique] : tree.first[clique + 1]]
        _, mass, lengths, strides = _separator(tree, clique, messages, sums, first, last)
        if clique:
            begin = tree.part_first[tree.above[clique]]
            for i in range(len(mass)):
                mass[i] = marginals[begin + i] / mass[i]
        else:
            mass[0] = total / mass[0]
        _scale(table, mass, lengths, strides)
        _sum_parts(tree, clique, table, marginals)
    return partition


@njit(cache=True)
def moved(tree, change, tables, marginals, scratch):
    """First-order change of the parts' counts, for changed potentials.

    That is the covariance, over the model, of each cell with the sum of all changes; found as
    calibration is, with means in place of powers.
    """
    means, result = np.zeros(len(change)), np.zeros(len(change))
    first, last = np.zeros(1), np.zeros(1)
    total = tables[tree.first[0] : tree.first[1]].sum()
    for clique in range(len(tree.above) - 1, -1, -1):
        table = scratch[tree.first[clique] : tree.first[clique + 1]]
        weight = tables[tree.first[clique] : tree.first[clique + 1]]
        _add_parts(tree, clique, change, means, table)
        for i in range(len(table)):
            table[i] *= weight[i]
        mean, _, lengths, strides = _separator(tree, clique, means, result, first, last)
        mean[:] = 0.0
        _sum(table, mean, lengths, strides)
        for i in range(len(mean)):
            mass = marginals[tree.part_first[tree.above[clique]] + i] if clique else total
            mean[i] = mean[i] / mass if mass > 0 else 0.0
    for clique in range(len(tree.above)):
        table = scratch[tree.first[clique] : tree.first[clique + 1]]
        weight = tables[tree.first[clique] : tree.first[clique + 1]]
        mean, outside, lengths, strides = _separator(tree, clique, means, result, first, last)
        # The part of the mean that all other cliques add, given the separator.
        for i in range(len(mean)):
            mass = marginals[tree.part_first[tree.above[clique]] + i] if clique else total
            mean[i] = (outside[i] / mass if mass > 0 else 0.0) - mean[i]
        _add_product(table, mean, weight, lengths, strides)
        _sum_parts(tree, clique, table, result)
    return result


@njit(cache=True)
def conjugate_step(tree, weights, ridge, penalty, gradient, tables, marginals, most, longest):
    """(step, promised): a change of potentials, and the expected gain.

    With covariance C and weights W, the step solves (W C + ridge + penalty) step = -gradient;
    `promised` is by how much the quadratic model says the loss will fall. Conjugate gradients work
    in the inner product of C, in which W C is symmetric, so each direction takes one product with
    C; there are at most `most` directions.
    """
    scratch = np.empty(len(tables))
    # `move` is C step.
    step, move = np.zeros(len(gradient)), np.zeros(len(gradient))
    left = -gradient
    left_move = moved(tree, left, tables, marginals, scratch)
    along, along_move = left.copy(), left_move.copy()
    size = _dot(left, left_move)
    small = 0.01 * size
    for _ in range(most):
        if not size > small:
            break
        bent = _dot(along, along_move) * (ridge + penalty)
        for i in range(len(weights)):
            bent += weights[i] * along_move[i] ** 2
        length = size / bent
        for i in range(len(step)):
            step[i] += length * along[i]
            move[i] += length * along_move[i]
            left[i] -= length * (weights[i] * along_move[i] + (ridge + penalty) * along[i])
        left_move = moved(tree, left, tables, marginals, scratch)
        before, size = size, _dot(left, left_move)
        for i in range(len(along)):
            along[i] = left[i] + size / before * along[i]
            along_move[i] = left_move[i] + size / before * along_move[i]
    promised = -_dot(gradient, move) - 0.5 * ridge * _dot(step, move)
    for i in range(len(step)):
        promised -= 0.5 * weights[i] * move[i] ** 2
        step[i] = min(step[i], longest)
    return step, promised


@njit(cache=True)
def loss_and_gradient(potentials, marginals, counts, weights, ridge):
    """The loss but for the partition function; its gradient."""
    gradient, loss = np.empty(len(weights)), ridge * _dot(potentials, marginals)
    for i in range(len(weights)):
        away = marginals[i] - counts[i]
        gradient[i] = weights[i] * away + ridge * potentials[i]
        loss += 0.5 * weights[i] * away * away
    return loss, gradient


@njit(cache=True, fastmath=LOOSE)
def _dot(one, other):
    result = 0.0
    for i in range(len(one)):
        result += one[i] * other[i]
    return result


@njit(cache=True)
def summed(table, lengths, strides, size):
    """Sum a table onto a smaller one of `size` cells."""
    result = np.zeros(size)
    _sum(table, result, lengths, strides)
    return result


@njit(cache=True)
def _separator(tree, clique, one, other, root_one, root_other):
    """A clique's separator in two arrays of parts.

    Its axes come with it. The root's separator is a single cell of its own.
    """
    low, high = tree.own_axes[clique], tree.own_axes[clique + 1]
    if clique == 0:
        return root_one, root_other, tree.lengths[low:high], tree.strides[low:high]
    begin, end = tree.part_first[tree.above[clique]], tree.part_first[tree.above[clique] + 1]
    return one[begin:end], other[begin:end], tree.lengths[low:high], tree.strides[low:high]


@njit(cache=True)
def _add_parts(tree, clique, own, messages, table):
    """Set a clique's table to the sum of its parts.

    Potentials stand in `own`, the separators of children in `messages`.
    """
    table[:] = 0.0
    for part in range(tree.parts[clique], tree.parts[clique + 1]):
        low, high = tree.axes[part], tree.axes[part + 1]
        values = (own if tree.child[part] < 0 else messages)[tree.part_first[part] :]
        _add(table, values, tree.lengths[low:high], tree.strides[low:high])


@njit(cache=True)
def _sum_parts(tree, clique, table, values):
    for part in range(tree.parts[clique], tree.parts[clique + 1]):
        low, high = tree.axes[part], tree.axes[part + 1]
        held = values[tree.part_first[part] : tree.part_first[part + 1]]
        held[:] = 0.0
        _sum(table, held, tree.lengths[low:high], tree.strides[low:high])


@njit(cache=True)
def _next(turns, place, lengths, strides):
    """The place after one turn of the outer axes."""
    for axis in range(len(turns) - 1, -1, -1):
        turns[axis] += 1
        place += strides[axis]
        if turns[axis] < lengths[axis]:
            break
        place -= turns[axis] * strides[axis]
        turns[axis] = 0
    return place


@njit(cache=True, fastmath=LOOSE)
def _sum(table, values, lengths, strides):
    """Add the large table up into the small one."""
    last = len(lengths) - 1
    begin, place, inner, turns = 0, np.int64(0), lengths[last], np.zeros(last - 1, np.int64)
    while begin < len(table):
        for turn in range(lengths[last - 1]):
            row, at = table[begin : begin + inner], place + turn * strides[last - 1]
            if strides[last]:
                held = values[at : at + inner]
                for i in range(inner):
                    held[i] += row[i]
            else:
                mass = 0.0
                for i in range(inner):
                    mass += row[i]
                values[at] += mass
            begin += inner
        place = _next(turns, place, lengths, strides)


@njit(cache=True, fastmath=LOOSE)
def _add(table, values, lengths, strides):
    """Add the small table to the large one."""
    last = len(lengths) - 1
    begin, place, inner, turns = 0, np.int64(0), lengths[last], np.zeros(last - 1, np.int64)
    while begin < len(table):
        for turn in range(lengths[last - 1]):
            row, at = table[begin : begin + inner], place + turn * strides[last - 1]
            if strides[last]:
                held = values[at : at + inner]
                for i in range(inner):
                    row[i] += held[i]
            else:
                value = values[at]
                for i in range(inner):
                    row[i] += value
            begin += inner
        place = _next(turns, place, lengths, strides)


@njit(cache=True, fastmath=LOOSE)
def _add_product(table, values, weight, lengths, strides):
    """Add the small table, times `weight`, to the large one."""
    last = len(lengths) - 1
    begin, place, inner, turns = 0, np.int64(0), lengths[last], np.zeros(last - 1, np.int64)
    while begin < len(table):
        for turn in range(lengths[last - 1]):
            row, at = table[begin : begin + inner], place + turn * strides[last - 1]
            by = weight[begin : begin + inner]
            if strides[last]:
                held = values[at : at + inner]
                for i in range(inner):
                    row[i] += held[i] * by[i]
            else:
                value = values[at]
                for i in range(inner):
                    row[i] += value * by[i]
            begin += inner
        place = _next(turns, place, lengths, strides)


@njit(cache=True, fastmath=LOOSE)
def _scale(table, values, lengths, strides):
    """Multiply the large table by the small one."""
    last = len(lengths) - 1
    begin, place, inner, turns = 0, np.int64(0), lengths[last], np.zeros(last - 1, np.int64)
    while begin < len(table):
        for turn in range(lengths[last - 1]):
            row, at = table[begin : begin + inner], place + turn * strides[last - 1]
            if strides[last]:
                held = values[at : at + inner]
                for i in range(inner):
                    row[i] *= held[i]
            else:
                value = values[at]
                for i in range(inner):
                    row[i] *= value
            begin += inner
        place = _next(turns, place, lengths, strides)


@njit(cache=True)
def _raise(table, values, lengths, strides):
    """Raise the small table to the largest of its cells."""
    last = len(lengths) - 1
    begin, place, inner, turns = 0, np.int64(0), lengths[last], np.zeros(last - 1, np.int64)
    while begin < len(table):
        for turn in range(lengths[last - 1]):
            row, at = table[begin : begin + inner], place + turn * strides[last - 1]
            if strides[last]:
                held = values[at : at + inner]
                for i in range(inner):
                    held[i] = row[i] if row[i] > held[i] else held[i]
            else:
                top = values[at]
                for i in range(inner):
                    top = row[i] if row[i] > top else top
                values[at] = top
            begin += inner
        place = _next(turns, place, lengths, strides)


@njit(cache=True)
def roomy(graph, sizes, more, limit, together):
    """Which sets of attributes a tree within the limit holds.

    Row k of `more` is a set. Beside the cliques of `graph` each is taken by itself, or, with
    `together`, beside those taken before it. A set that lies in a clique of the last triangulation
    is taken without another; where that was too bold in the end, every set gets its own.
    """
    count, found = len(sizes), np.zeros(len(more), np.bool_)
    within, first = _triangulated(graph, sizes, limit)
    for bold in (within, False):
        held, filled = graph, first
        for k in range(len(more)):
            trial, inside = held.copy(), bold
            for one in range(count):
                for other in range(count):
                    if more[k, one] and more[k, other] and one != other:
                        trial[one, other] = True
                        inside = inside and filled[one, other]
            grown = filled
            if not inside:
                inside, grown = _triangulated(trial, sizes, limit)
            found[k] = inside
            if inside and together:
                held, filled = trial, grown
        if not together or _triangulated(held, sizes, limit)[0]:
            break
    return found


@njit(cache=True)
def _triangulated(graph, sizes, limit):
    """(within, filled): whether an elimination keeps to the limit, and its graph."""
    count, filled = len(sizes), np.zeros_like(graph)
    cells, members, _ = eliminated(graph, sizes, True)
    if cells > limit:
        cells, members, _ = eliminated(graph, sizes, False)
    for turn in range(count):
        for one in range(count):
            for other in range(count):
                if members[turn, one] and members[turn, other]:
                    filled[one, other] = True
    return cells <= limit, filled


@njit(cache=True)
def eliminated(graph, sizes, by_fill):
    """(cells, members, maximal): cliques of a greedy elimination.

    The next attribute is the one that adds fewest edges (`by_fill`) or makes the smallest table;
    ties go to the other criterion, then to the lower number. Row i of `members` is the clique of
    the i-th attribute eliminated; `cells` counts those of the `maximal` cliques.
    """
    count = len(sizes)
    linked, members = graph.copy(), np.zeros((count, count), np.bool_)
    place, order = np.full(count, count, np.int64), np.empty(count, np.int64)
    fill, weight, stale = np.zeros(count, np.int64), np.zeros(count), np.ones(count, np.bool_)
    near = np.empty(count, np.int64)
    for turn in range(count):
        best = -1
        for one in range(count):
            if place[one] < count:
                continue
            if stale[one]:
                degree = _neighbours(linked, one, near)
                fill[one], weight[one], stale[one] = (
                    _missing(linked, near, degree),
                    sizes[one],
                    False,
                )
                for i in range(degree):
                    weight[one] *= sizes[near[i]]
            if best < 0 or _before(fill[one], weight[one], fill[best], weight[best], by_fill):
                best = one
        place[best], order[turn] = turn, best
        members[turn, best] = True
        degree = _neighbours(linked, best, near)
        for i in range(degree):
            one = near[i]
            members[turn, one] = True
            linked[one, best] = False
            for j in range(degree):
                if i != j:
                    linked[one, near[j]] = True
        for i in range(degree):
            stale[near[i]] = True
            for other in range(count):
                if linked[near[i], other]:
                    stale[other] = True
    return _maximal(members, place, order, sizes)


@njit(cache=True)
def _maximal(members, place, order, sizes):
    """Find the maximal cliques.

    A clique lies in another only where one eliminated before has just one attribute more, and hands
    it the rest.
    """
    count = len(sizes)
    maximal, width = np.ones(count, np.bool_), np.zeros(count, np.int64)
    for turn in range(count):
        width[turn] = members[turn].sum()
    for turn in range(count):
        following = count
        for one in range(count):
            if members[turn, one] and one != order[turn]:
                following = min(following, place[one])
        if following < count and width[following] + 1 == width[turn]:
            maximal[following] = False
    cells = 0.0
    for turn in range(count):
        if maximal[turn]:
            product = 1.0
            for one in range(count):
                if members[turn, one]:
                    product *= sizes[one]
            cells += product
    return cells, members, maximal


@njit(cache=True)
def _neighbours(linked, one, near):
    degree = 0
    for other in range(len(near)):
        if linked[one, other]:
            near[degree] = other
            degree += 1
    return degree


@njit(cache=True)
def _missing(linked, near, degree):
    missing = 0
    for i in range(degree):
        for j in range(i):
            if not linked[near[i], near[j]]:
                missing += 1
    return missing


@njit(cache=True)
def _before(fill, weight, other_fill, other_weight, by_fill):
    if by_fill:
        return fill < other_fill or (fill == other_fill and weight < other_weight)
    return weight < other_weight or (weight == other_weight and fill < other_fill)
