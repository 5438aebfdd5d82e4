"""Marginals of a calibrated junction tree, by elimination."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np

from tailrace.fit.paths import Paths
from tailrace.fit.tree import Tree, axes_of, stored
from tailrace.fit.triangulation import Clique


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
        from tailrace.fit.kernel import summed

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
