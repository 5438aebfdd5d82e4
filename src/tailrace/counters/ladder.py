"""Counters whose noise climbs a ladder of interval sizes.

Simple, Block, BinaryTree, KaryTree and UnboundedBlock share this.

Let sizes 1 = s_0 | s_1 | ... | s_L, each a multiple of the one before. At time t the interval of
the largest size s_i that divides t ends, and its sum is an atom: it gets one noise. The estimate of
the prefix t adds the atoms of its greedy partition, so that with N(t) the noise of the estimate

    N(t) = N(t - s_i) + fresh noise.

A row therefore needs its exact sum and, for every level, the noise at the last multiple of that
size: `carried`. Time per step does not grow with t.

With subtraction (`ahead` = m > 0, all sizes powers of an odd arity k = 2m + 1), t is written with
digits from -m to m: a prefix that ends in the second half of an interval is the whole interval less
what is still to come. The noise of the m intervals to come is drawn when the half is passed
(`pending`) and handed back one by one. Where all digits below a size are 0, t is a multiple of it:
`carried` is taken from the estimate there, with or without subtraction.

Privacy: the declared loss per event over the horizon, from the weight of `Atoms`: element 1 lies in
one atom of each size that is ever used, and no element in more: the number of sizes s_i with s_i <=
T, or with (s_i + 1) / 2 <= T under subtraction (then the atom of size s_i is used from the middle
on).
"""

from __future__ import annotations

import abc
import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tailrace.counters.feed import Fed, configured, fed, row_count, times
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.loss import Loss

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Ladder:
    """Rows on a ladder."""

    clock: np.ndarray  # (rows,) steps taken
    total: np.ndarray  # (rows,) exact sums
    carried: np.ndarray  # (levels, rows) noise of the estimate at the last multiple of each size
    pending: np.ndarray  # (levels - 1, ahead, rows) noise subtracted and still to be handed back


@dataclass(frozen=True, kw_only=True)
class LadderCounter(abc.ABC):
    """A counter on a ladder; a subclass names its sizes."""

    privacy: Loss | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        configured(self)
        self._check()

    def _check(self) -> None:
        """Refuse a budget that cannot be drawn."""
        if self.horizon is not None:
            self.atoms.check()

    @property
    @abc.abstractmethod
    def sizes(self) -> Sizes:
        """The sizes of atoms from 1, each dividing the next."""

    @property
    def ahead(self) -> int:
        """How many atoms a partition may subtract on a level."""
        return 0

    @property
    def atoms(self) -> Atoms:
        """The noise, for the atoms that hold one element."""
        first_use = [(size + 1) // 2 if self.ahead else size for size in self.sizes]
        return Atoms(
            self.privacy, sum(self.horizon is None or first <= self.horizon for first in first_use)
        )

    def ends(self, t: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """The levels whose atoms end at the times t.

        Each with its places in t: the largest size that divides t.
        """
        groups, places, times_left = [], np.arange(len(t)), t
        for level, size in enumerate(self.sizes[1:]):
            divides = times_left % size == 0
            groups.append((level, places[~divides]))
            places, times_left = places[divides], times_left[divides]
        return [*groups, (len(self.sizes) - 1, places)]

    def init(self, rows: int) -> Ladder:
        count, levels = row_count(rows), len(self.sizes)
        return Ladder(
            clock=np.zeros(count, np.int64),
            total=np.zeros(count, np.int64),
            carried=np.zeros((levels, count), np.int64),
            pending=np.zeros((levels - 1, self.ahead, count), np.int64),
        )

    def grow(self, state: Ladder, rows: int) -> Ladder:
        new = self.init(rows)
        return Ladder(
            clock=np.concatenate([state.clock, new.clock]),
            total=np.concatenate([state.total, new.total]),
            carried=np.concatenate([state.carried, new.carried], axis=1),
            pending=np.concatenate([state.pending, new.pending], axis=2),
        )

    def step(
        self, state: Ladder, x: np.ndarray, noise: Draws, rows: np.ndarray | None = None
    ) -> tuple[Ladder, np.ndarray]:
        index, x = fed(state.clock, x, rows, self.horizon)
        clock, total, carried = state.clock.copy(), state.total.copy(), state.carried.copy()
        pending = list(state.pending) if self.ahead else []
        clock[index] += 1
        total[index] += x
        estimates, fresh = np.empty(len(x), np.int64), self.atoms.draw(noise.at("fresh"), len(x))
        for ended, where in self._groups(clock[index] + self._middle):
            at, drawn = _rows(index, where), fresh[where]
            if self.ahead:
                drawn = self._handed(drawn, pending, ended, at, clock[at])
                for below in reversed(range(ended)):
                    to_come = self.atoms.draw(
                        noise.at("ahead", ended, below), (self.ahead, len(drawn))
                    )
                    pending[below] = _put(pending[below], at, to_come)
                    drawn = drawn - to_come.sum(axis=0)
            estimates[where] = (total[at] + carried[ended, at]) + drawn  # where noise meets the sum
        for size, where in self._groups(clock[index]):
            at = _rows(index, where)
            carried[: size + 1, at] = estimates[where] - total[at]
        kept = np.stack(pending) if pending else state.pending
        return Ladder(clock, total, carried, kept), estimates

    def _handed(
        self, fresh: np.ndarray, pending: list[np.ndarray], ended: int, at: Fed, clock: np.ndarray
    ) -> np.ndarray:
        """The noise of ending atoms: fresh, or drawn before."""
        if ended == len(pending):
            return fresh
        digit = (clock + self._middle) // self.sizes[ended] % (2 * self.ahead + 1) - self.ahead
        place = np.where(digit > 0, self.ahead, digit + self.ahead - 1)
        known = np.concatenate([pending[ended][:, at], fresh[None]])
        return known[place, np.arange(len(place))]

    def loss(self, events: int = 1, deletes: int = 0) -> Loss:
        return self.atoms.loss(events, deletes)

    def variance(self, t: ArrayLike, since: ArrayLike = 0) -> np.ndarray:
        return self.atoms.variance() * self.atoms_between(*times(t, since, self.horizon))

    def atoms_between(self, t: np.ndarray, since: np.ndarray) -> np.ndarray:
        """How many atoms tell the estimates of two prefixes apart.

        Above the first digit that differs the partitions agree; there they share all but the
        difference; below they share nothing.
        """
        count, same = np.zeros(t.shape, np.int64), np.ones(t.shape, np.bool_)
        for late, early in zip(
            reversed(self._digits(t)), reversed(self._digits(since)), strict=True
        ):
            count += np.where(same, np.abs(late - early), np.abs(late) + np.abs(early))
            same &= late == early
        return count

    def _digits(self, t: np.ndarray) -> list[np.ndarray]:
        """Atoms of each size in the partition of prefix t.

        From the smallest; negative: subtracted.
        """
        shifted, sizes = t + self._middle, self.sizes
        lower = [
            shifted // size % (above // size) - self.ahead
            for size, above in itertools.pairwise(sizes)
        ]
        return [*lower, shifted // sizes[-1]]

    @property
    def _middle(self) -> int:
        """The shift from digits -m..m to digits 0..2m."""
        return self.ahead * sum(self.sizes[:-1])

    def _groups(self, t: np.ndarray) -> list[tuple[int, Fed]]:
        """`ends` without empty groups.

        Rows in step make one group and no copies.
        """
        if len(t) and t.min() == t.max():
            return [(level, slice(None)) for level, places in self.ends(t[:1]) if len(places)]
        return [(level, places) for level, places in self.ends(t) if len(places)]


def _rows(index: Fed, where: Fed) -> Fed:
    """The rows at some places of those fed."""
    return where if isinstance(index, slice) else index[where]


def _put(columns: np.ndarray, at: Fed, values: np.ndarray) -> np.ndarray:
    """`columns` with those at `at` replaced.

    A new array, so that noise stays known as noise.
    """
    source = np.arange(columns.shape[1])
    source[at] = columns.shape[1] + np.arange(values.shape[1])
    return np.concatenate([columns, values], axis=1)[:, source]
