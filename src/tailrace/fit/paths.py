"""Counts of two attributes that no tree clique holds together.

One attribute is carried along the tree to the other. From an attribute outwards, each clique is
entered through its separator from the clique before. The joint counts of the attribute and of that
separator are enough to go on from there, and serve every attribute that lies further out.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tailrace.fit.triangulation import Clique

if TYPE_CHECKING:
    from tailrace.fit.answers import Answers


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
