"""From measured cliques to a junction tree in flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from tailrace.errors import ConfigError
from tailrace.models.tables.base import Clique, Shape


def tree_cells(shape: Sequence[int], cliques: Iterable[Clique]) -> int:
    """The cells of all tables of the cliques' junction tree.

    >>> tree_cells((2, 3, 4), [(0, 1), (1, 2)])
    18
    """
    return int(_best(shape, cliques)[0])


def tree_cliques(shape: Sequence[int], cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """The cliques of a junction tree.

    Each given clique lies in one of them, each attribute in at least one.

    >>> tree_cliques((2, 2, 2, 2), [(0, 1), (1, 2), (2, 3), (0, 3)])
    ((0, 1, 3), (1, 2, 3))
    """
    _, members, maximal = _best(shape, cliques)
    return tuple(sorted(tuple(np.flatnonzero(row).tolist()) for row in members[maximal]))


def room(
    shape: Sequence[int],
    held: Iterable[Clique],
    more: Sequence[Clique],
    limit: int,
    *,
    together: bool,
) -> list[bool]:
    """Whether a tree within the limit holds each of `more` beside `held`.

    Each by itself, or with `together` beside those before it that do.

    >>> room((2, 2, 2), [(0, 1)], [(1, 2), (0, 2)], 8, together=False)
    [True, True]
    >>> room((2, 2, 2), [(0, 1)], [(1, 2), (0, 2)], 8, together=True)
    [True, True]
    >>> room((2, 2, 2), [(0, 1)], [(1, 2), (0, 2)], 7, together=True)
    [False, False]
    """
    from tailrace.models.tables.kernel import roomy

    asked = np.zeros((len(more), len(shape)), np.bool_)
    for row, clique in zip(asked, more, strict=True):
        row[list(clique)] = True
    graph, sizes = _graph(shape, held), np.asarray(shape, np.float64)
    return roomy(graph, sizes, asked, float(limit), together).tolist()


def in_tree_order(
    shape: Sequence[int], cliques: Sequence[Clique]
) -> tuple[list[Clique], list[int]]:
    """(cliques, parents) from the root down, largest table first.

    Whatever a clique shares with all before it, it shares with its parent, given by its place.
    Cliques without a common attribute share nothing.

    >>> in_tree_order((2, 2, 5), [(0, 1), (1, 2)])
    ([(1, 2), (0, 1)], [-1, 0])
    """
    held = np.zeros((len(cliques), len(shape)), bool)
    for row, clique in zip(held, cliques, strict=True):
        row[list(clique)] = True
    shared = held.astype(np.int64) @ held.T.astype(np.int64)
    cells = held @ np.log(np.asarray(shape, float))
    root = int(np.argmax(cells))
    order, parents = [root], [-1]
    # A place in `order`, and how much is shared there.
    nearest, overlap = np.zeros(len(cliques), np.int64), shared[root].copy()
    overlap[root] = -1
    for place in range(1, len(cliques)):
        chosen = int(np.argmax(overlap))
        order.append(chosen)
        parents.append(int(nearest[chosen]))
        overlap[chosen] = -1
        closer = (overlap >= 0) & (shared[chosen] > overlap)
        nearest[closer], overlap[closer] = place, shared[chosen][closer]
    return [cliques[place] for place in order], parents


def _best(shape: Sequence[int], cliques: Iterable[Clique]) -> tuple[float, np.ndarray, np.ndarray]:
    from tailrace.models.tables.kernel import eliminated

    graph, sizes = _graph(shape, cliques), np.asarray(shape, np.float64)
    by_fill, by_weight = eliminated(graph, sizes, True), eliminated(graph, sizes, False)
    return by_fill if by_fill[0] <= by_weight[0] else by_weight


def _graph(shape: Sequence[int], cliques: Iterable[Clique]) -> np.ndarray:
    """(attributes, attributes) whether two share a clique."""
    count = len(shape)
    graph = np.zeros((count, count), np.bool_)
    for clique in cliques:
        if not all(0 <= attribute < count for attribute in clique):
            raise ConfigError(
                f"A clique names an attribute outside of 0 to {count - 1}: use the schema's own "
                f"numbers."
            )
        for one in clique:
            for other in clique:
                graph[one, other] = one != other
    return graph


class Arrays(NamedTuple):
    """The tree in numbers, as kernel.py reads them.

    Arrays of starts have one more entry, the end.
    """

    first: np.ndarray  # where a clique's table starts
    above: np.ndarray  # its separator's number among the parts; -1 for the root
    own_axes: np.ndarray  # where the axes of its separator in its own table start
    parts: np.ndarray  # the number of its first part
    part_first: np.ndarray  # where a part starts
    child: np.ndarray  # whose separator a part is; -1 for a potential
    axes: np.ndarray  # where a part's axes in its clique's table start
    lengths: np.ndarray
    strides: np.ndarray


@dataclass(frozen=True, eq=False)
class Tree:
    """A junction tree: cliques from the root down.

    `separators` are what each shares with its parent. The attributes of all cliques are in `stored`
    order.
    """

    shape: Shape
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]
    separators: tuple[Clique, ...]
    potentials: tuple[Clique, ...]
    slices: tuple[slice, ...]  # where each potential stands among the parts
    arrays: Arrays

    def place(self, clique: Clique) -> int:
        """The smallest table that holds all of `clique`, or -1."""
        common = set.intersection(*(self._places[one] for one in clique)) if clique else {0}
        return min(common, key=lambda place: (self._cells[place], place), default=-1)

    @property
    def visits(self) -> int:
        """How often calibrating visits a cell: once for each part that lies over it."""
        return int(np.diff(self.arrays.first) @ (1 + np.diff(self.arrays.parts)))

    @cached_property
    def _places(self) -> list[set[int]]:
        return [
            {place for place, clique in enumerate(self.cliques) if one in clique}
            for one in range(len(self.shape))
        ]

    @cached_property
    def _cells(self) -> list[int]:
        return np.diff(self.arrays.first).tolist()

    def sizes(self, clique: Clique) -> tuple[int, ...]:
        """The lengths of the clique's axes."""
        return tuple(self.shape[attribute] for attribute in clique)


def stored(shape: Sequence[int], clique: Iterable[int]) -> Clique:
    """The clique's attributes, longest axis last: the kernel's order."""
    return tuple(sorted(clique, key=lambda attribute: (shape[attribute], attribute)))


def tree_of(shape: Sequence[int], cliques: Sequence[Clique], potentials: Sequence[Clique]) -> Tree:
    """The junction tree of maximal cliques, with potentials inside."""
    shape = tuple(shape)
    ordered, parents = in_tree_order(shape, cliques)
    held, potentials = (
        [stored(shape, clique) for clique in ordered],
        [stored(shape, clique) for clique in potentials],
    )
    separators: list[Clique] = [()]
    children: list[list[int]] = [[] for _ in held]
    owned: list[list[int]] = [[] for _ in held]
    for place in range(1, len(held)):
        separators.append(tuple(one for one in held[place] if one in held[parents[place]]))
        children[parents[place]].append(place)
    for number, clique in enumerate(potentials):
        owned[_holder(shape, held, clique)].append(number)
    above, slices = np.full(len(held), -1, np.int64), [slice(0)] * len(potentials)
    child, axes, part_first = [], [], [0]
    for place, clique in enumerate(held):
        for number in owned[place]:
            slices[number] = slice(
                part_first[-1], part_first[-1] + _cells(shape, potentials[number])
            )
            part_first.append(slices[number].stop)
            axes.append(axes_of(shape, clique, potentials[number]))
        for below in children[place]:
            above[below] = len(axes)
            part_first.append(part_first[-1] + _cells(shape, separators[below]))
            axes.append(axes_of(shape, clique, separators[below]))
        child += [-1] * len(owned[place]) + children[place]
    axes += [
        axes_of(shape, clique, separator)
        for clique, separator in zip(held, separators, strict=True)
    ]
    starts = _starts([len(lengths) for lengths, _ in axes])
    arrays = Arrays(
        first=_starts([_cells(shape, clique) for clique in held]),
        above=above,
        own_axes=starts[len(child) :],
        parts=_starts([len(own) + len(below) for own, below in zip(owned, children, strict=True)]),
        part_first=np.array(part_first, np.int64),
        child=np.array(child, np.int64),
        axes=starts[: len(child) + 1],
        lengths=np.array([length for lengths, _ in axes for length in lengths], np.int64),
        strides=np.array([stride for _, strides in axes for stride in strides], np.int64),
    )
    return Tree(
        shape,
        tuple(held),
        tuple(parents),
        tuple(separators),
        tuple(potentials),
        tuple(slices),
        arrays,
    )


def axes_of(shape: Sequence[int], clique: Clique, part: Clique) -> tuple[list[int], list[int]]:
    """(lengths, strides) of the clique's axes in the part's table.

    There are at least two axes, and neighbours that move as one are one axis.
    """
    steps, step = dict.fromkeys(clique, 0), 1
    for one in reversed(part):
        steps[one], step = step, step * shape[one]
    lengths, strides = [], []
    for one in clique:
        length, stride = shape[one], steps[one]
        if length == 1:
            continue
        if lengths and strides[-1] == length * stride:
            lengths[-1], strides[-1] = lengths[-1] * length, stride
        else:
            lengths.append(length)
            strides.append(stride)
    missing = max(2 - len(lengths), 0)
    return [1] * missing + lengths, [0] * missing + strides


def _holder(shape: Sequence[int], cliques: Sequence[Clique], clique: Clique) -> int:
    wanted = set(clique)
    places = [place for place, held in enumerate(cliques) if wanted.issubset(held)]
    return min(places, key=lambda place: (_cells(shape, cliques[place]), place), default=-1)


def _cells(shape: Sequence[int], clique: Clique) -> int:
    return prod(shape[one] for one in clique)


def _starts(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))]).astype(np.int64)


class _Route(NamedTuple):
    """The ways out from one attribute.

    `entry` gives for each clique the one before and their separator, `nearest` for each other
    attribute the first clique that holds it.
    """

    entry: dict[int, tuple[int, Clique]]
    nearest: dict[int, int]


class _Turn(NamedTuple):
    """A change from one separator of a clique to another.

    `order` brings the attributes that stay to the front, `shares` are the conditional shares of the
    others, `back` restores the order of the new separator.
    """

    order: list[int]
    shares: np.ndarray
    back: list[int]


class Paths:
    """Pairs of attributes of a tree; carried counts are kept."""

    def __init__(self, answers: Answers):
        self._answers, self._tree = answers, answers.tree
        self._routes: dict[int, _Route] = {}
        self._carried: dict[tuple[int, int], np.ndarray] = {}
        self._turns: dict[tuple[int, Clique, Clique], _Turn] = {}

    def pair(self, one: int, other: int) -> np.ndarray:
        """The expected counts of two attributes; the smaller is carried."""
        if self._tree.shape[one] > self._tree.shape[other]:
            return self.pair(other, one).T
        route = self._route(one)
        place = route.nearest[other]
        return self._carry(one, place) @ self._answers.conditional(
            place, (other,), route.entry[place][1]
        )

    def _route(self, one: int) -> _Route:
        if one not in self._routes:
            cliques = self._tree.cliques
            reached = [place for place, clique in enumerate(cliques) if one in clique]
            seen, route = set(reached), _Route({}, {})
            # The list grows while it is read.
            for place in reached:
                for beside, shared in self._answers.neighbours[place]:
                    if beside not in seen:
                        seen.add(beside)
                        reached.append(beside)
                        route.entry[beside] = (place, shared)
                        for other in cliques[beside]:
                            route.nearest.setdefault(other, beside)
            self._routes[one] = route
        return self._routes[one]

    def _carry(self, one: int, place: int) -> np.ndarray:
        """Joint counts of `one` and the separator entering `place`."""
        route, ahead = self._route(one), []
        while place in route.entry and (one, place) not in self._carried:
            ahead.append(place)
            place = route.entry[place][0]
        held = self._carried.get((one, place))
        for place in reversed(ahead):
            before, shared = route.entry[place]
            if held is None:
                held = self._answers.part(before, (one, *shared)).reshape(self._tree.shape[one], -1)
            else:
                held = self._onward(held, before, route.entry[before][1], shared)
            self._carried[one, place] = held
        assert held is not None
        return held

    def _onward(self, held: np.ndarray, place: int, entered: Clique, left: Clique) -> np.ndarray:
        """Turn counts joint with separator `entered` into ones with `left`."""
        turn = self._turn(place, entered, left)
        stays, _, new = turn.shares.shape
        if stays == 1:
            return held @ turn.shares[0]
        table = held.reshape(len(held), *self._tree.sizes(entered)).transpose(turn.order)
        result = table.reshape(stays, len(held), -1) @ turn.shares
        kept = [self._tree.shape[one] for one in entered if one in left]
        result = result.reshape(
            *kept, len(held), *(self._tree.shape[one] for one in left if one not in entered)
        )
        return result.transpose(turn.back).reshape(len(held), stays * new)

    def _turn(self, place: int, entered: Clique, left: Clique) -> _Turn:
        key = (place, entered, left)
        if key not in self._turns:
            stays = tuple(one for one in entered if one in left)
            gone = tuple(one for one in entered if one not in left)
            new = tuple(one for one in left if one not in entered)
            shares = self._answers.conditional(place, new, stays + gone)
            # -1 stands for the attribute that is carried.
            places = (*stays, -1, *new)
            self._turns[key] = _Turn(
                [
                    *(1 + entered.index(one) for one in stays),
                    0,
                    *(1 + entered.index(one) for one in gone),
                ],
                shares.reshape(prod(self._tree.sizes(stays)), -1, prod(self._tree.sizes(new))),
                [places.index(one) for one in (-1, *left)],
            )
        return self._turns[key]


class Answers:
    """Marginals of a calibrated tree; intermediate tables are kept."""

    def __init__(self, tree: Tree, tables: np.ndarray):
        self.tree = tree
        first = tree.arrays.first
        self._tables = [
            tables[first[place] : first[place + 1]] for place in range(len(tree.cliques))
        ]
        self._parts: dict[tuple[int, Clique], np.ndarray] = {}
        self._conditionals: dict[tuple[int, Clique, Clique], np.ndarray] = {}

    def marginal(self, clique: Sequence[int]) -> np.ndarray:
        """The expected counts of `clique`, in its own order."""
        clique = tuple(clique)
        place = self.tree.place(clique)
        if place >= 0:
            return self.part(place, clique).reshape(self.tree.sizes(clique)).copy()
        if len(clique) == 2:
            return self._paths.pair(*clique)
        return self._joint(clique)

    def shares(self, place: int, one: int, given: Clique) -> np.ndarray:
        """The distribution of `one` for each cell of `given`.

        All attributes lie in one tree clique; the distribution is even where nothing is expected.
        """
        joint = self.part(place, (*given, one)).reshape(-1, self.tree.shape[one])
        mass = joint.sum(axis=1, keepdims=True)
        return np.divide(joint, mass, out=np.full(joint.shape, 1 / joint.shape[1]), where=mass > 0)

    def part(self, place: int, part: Clique) -> np.ndarray:
        """Flat counts of attributes of one clique, as ordered."""
        from tailrace.models.tables.kernel import summed

        key = (place, part)
        if key not in self._parts:
            kept = stored(self.tree.shape, part)
            lengths, strides = axes_of(self.tree.shape, self.tree.cliques[place], kept)
            sizes = self.tree.sizes(kept)
            table = summed(
                self._tables[place],
                np.array(lengths, np.int64),
                np.array(strides, np.int64),
                prod(sizes),
            )
            self._parts[key] = (
                table.reshape(sizes).transpose([kept.index(one) for one in part]).ravel()
            )
        return self._parts[key]

    def conditional(self, place: int, rest: Clique, given: Clique) -> np.ndarray:
        """(cells of given, cells of rest): conditional shares."""
        key = (place, rest, given)
        if key not in self._conditionals:
            joint = self.part(place, given + rest).reshape(prod(self.tree.sizes(given)), -1)
            mass = joint.sum(axis=1, keepdims=True)
            self._conditionals[key] = np.divide(
                joint, mass, out=np.zeros_like(joint), where=mass > 0
            )
        return self._conditionals[key]

    @cached_property
    def neighbours(self) -> list[list[tuple[int, Clique]]]:
        """The (clique, separator) pairs beside each tree clique."""
        beside: list[list[tuple[int, Clique]]] = [[] for _ in self.tree.cliques]
        for place in range(1, len(self.tree.cliques)):
            parent, shared = self.tree.parents[place], self.tree.separators[place]
            beside[place].append((parent, shared))
            beside[parent].append((place, shared))
        return beside

    @cached_property
    def _paths(self) -> Paths:
        return Paths(self)

    def _joint(self, clique: Clique) -> np.ndarray:
        """Counts of attributes that lie in several cliques.

        Each branch of the tree hands up its own attributes, given its separator.
        """
        wanted = set(clique)
        cliques = self.tree.cliques
        root = max(
            range(len(cliques)), key=lambda place: (len(wanted & set(cliques[place])), -place)
        )
        attributes, table = self._branch(root, -1, (), wanted)
        return table.transpose([attributes.index(one) for one in clique])

    def _branch(
        self, place: int, above: int, shared: Clique, wanted: set[int]
    ) -> tuple[Clique, np.ndarray]:
        """(attributes, table): the `wanted` attributes of one branch.

        The table is conditional on `shared`; at the root it holds counts.
        """
        here = set(self.tree.cliques[place])
        below = [
            (through, self._branch(beside, place, through, wanted - here))
            for beside, through in self.neighbours[place]
            if beside != above and self._wants(beside, place, wanted - here)
        ]
        needed = {one for through, _ in below for one in through} | (wanted & here)
        rest = tuple(sorted(needed - set(shared)))
        table = self.conditional(place, rest, shared) if above >= 0 else self.part(place, rest)
        attributes, table = shared + rest, table.reshape(self.tree.sizes(shared + rest))
        while below:
            _, (others, branch) = below.pop()
            both = tuple(dict.fromkeys(attributes + others))
            needed = {one for through, _ in below for one in through} | wanted | set(shared)
            left = tuple(one for one in both if one in needed)
            terms = [[both.index(one) for one in part] for part in (attributes, others, left)]
            attributes, table = left, np.einsum(table, terms[0], branch, terms[1], terms[2])
        return attributes, table

    def _wants(self, place: int, above: int, wanted: set[int]) -> bool:
        """Whether a branch holds any of the wanted attributes."""
        waiting = [(place, above)]
        while waiting:
            place, above = waiting.pop()
            if wanted & set(self.tree.cliques[place]):
                return True
            waiting += [(beside, place) for beside, _ in self.neighbours[place] if beside != above]
        return False
