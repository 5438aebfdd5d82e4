"""A junction tree with potentials, in flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from tailrace.fit.triangulation import Clique, Shape, in_tree_order


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
