"""Counters whose noise climbs a ladder of interval sizes.

Let sizes 1 = s_0 | s_1 | ... | s_L, each a multiple of the one before. At time t the interval of
the largest size s_i that divides t ends, and its sum is an atom: it gets one noise. The estimate of
the prefix t adds the atoms of its greedy partition, so that with N(t) the noise of the estimate

    N(t) = N(t - s_i) + fresh noise.

A row therefore needs its exact sum and, for every level, the noise at the last multiple of that
size: `carried`. Time per step does not grow with t.

With subtraction (`ahead` = m > 0, all sizes powers of an odd arity k = 2m + 1), t is written with
digits from -m to m: a prefix that ends in the second half of an interval is the whole interval less
the part still to come. The noise of the m intervals to come is drawn when the half is passed
(`pending`) and handed back one by one. Where all digits below a size are 0, t is a multiple of it:
`carried` is taken from the estimate there, with or without subtraction.

Proved for every ladder: the declared loss per event over the horizon, neighbours add/remove of one
insertion or deletion.
1. Element 1 lies in one atom of each size that is ever used, and no element in more: let w be the
   number of sizes s_i with s_i <= T, or with (s_i + 1) / 2 <= T under subtraction (then the atom of
   size s_i is used from the middle on). So an event shifts at most w atoms by one.
2. Every atom has noise Lap(w/epsilon), or N(0, w/(2 rho)) under ZCDP and ApproxDP, on integers.
3. Without subtraction an atom is complete when it is drawn, so inputs may depend on past outputs.
   With it, see `KaryTree`.
The published counters have continuous Laplace noise.
"""

from __future__ import annotations

import abc
import functools
import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tailrace.calls import told
from tailrace.counters.base import Fed, bounded, configured, fed, row_count, times
from tailrace.errors import ConfigError
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.loss import Loss, PureDP

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


@told
@dataclass(frozen=True, kw_only=True)
class Simple(LadderCounter):
    """One noise per step; the horizon is optional.

    Privacy: w = 1, over any horizon: an element lies in one atom, its own step.
    Accuracy: variance t times that of one draw. Best of all pure counters over short horizons: up
    to 33 steps at epsilon = 0.5.
    Source: Chan-Shi-Song 2011, "Simple Counting Mechanism II"; PrivStream, Algorithm 8.
    Departs: none but the noise.

    >>> from tailrace import PureDP
    >>> Simple(privacy=PureDP(epsilon=0.5)).loss(events=1, deletes=1)
    PureDP(epsilon='1')
    """

    @property
    def sizes(self) -> Sizes:
        return (1,)


@told
@dataclass(frozen=True, kw_only=True)
class Block(LadderCounter):
    """Blocks of `size` steps; None: the root of the horizon.

    The horizon is optional where size is given.

    Privacy: w = 2, the step and the block (the last element of a block lies only in the block's).
    Accuracy: variance (blocks finished + steps inside the block) times that of one draw; with
    blocks of sqrt(T), O(sqrt(T)).
    Source: Chan-Shi-Song 2011, "Two-Level Counting Mechanism"; PrivStream, Algorithm 9.
    Departs: a horizon below the block size has w = 1, since no block ever ends.

    >>> Block(horizon=100).sizes
    (1, 10)
    """

    size: int | None = None

    def __post_init__(self) -> None:
        configured(self, "size")
        if self.size == 1:
            raise ConfigError(
                "A block of 1 step is the Simple counter: use counters.Simple, or a size of at "
                "least 2."
            )
        super().__post_init__()

    @property
    def sizes(self) -> Sizes:
        return 1, self.size or max(2, round(bounded(self.horizon, "Block") ** 0.5))


@told
@dataclass(frozen=True, kw_only=True)
class BinaryTree(LadderCounter):
    """A binary tree over the horizon.

    Privacy: w = bit_length(T): element 1 lies in the atoms [1,1], [1,2], [1,4], ...
    Accuracy: variance popcount(t) w^2 2/epsilon^2, or popcount(t) w/(2 rho): O(log^1.5 T) error.
    Source: Chan-Shi-Song 2011, "Binary Counting Mechanism"; PrivStream, Algorithm 10.
    Departs: the published scale log2(T)/epsilon is too small by one level and loses w/log2(T) times
    epsilon (2 at T = 2; no noise at all at T = 1). `audit.gallery` holds the published one, and the
    audit that catches it.

    >>> BinaryTree(horizon=12).sizes
    (1, 2, 4, 8)
    """

    @property
    def sizes(self) -> Sizes:
        levels = bounded(self.horizon, "BinaryTree").bit_length()
        return tuple(1 << level for level in range(levels))


@told
@dataclass(frozen=True, kw_only=True)
class KaryTree(LadderCounter):
    """A tree of `levels` levels of `arity`, with subtraction or without.

    None: about the root of order `levels` of the horizon; with subtraction of twice the horizon,
    and odd.

    Privacy: w = the levels in use; pure DP with subtraction.
    1. An estimate then uses noise of atoms whose interval has not ended yet. For a fixed stream all
       estimates together are a function of the noisy atoms, so they are epsilon-DP.
    2. Each depends only on the past of the stream, and pure DP of every fixed stream carries over
       to inputs that depend on past outputs: for a fixed output the inputs are fixed neighbours.
    3. Step 2 fails for Renyi losses and the noise is not rotation invariant, so Gaussian noise is
       taken only without subtraction.
    Accuracy: variance (sum over levels of abs(digit)) w^2 2/epsilon^2 with digits from -(k-1)/2 to
    (k-1)/2: about k/4 atoms a level where the plain tree has k/2.
    Source: Andersson-Pagh-Steiner-Torkamani, "Count on Your Elders: Laplace vs Gaussian Noise"
    (k-ary trees with subtraction, Laplace); without it and with three levels of arity T^(1/3).
    Departs: the number of levels is fixed first and the top level has as many atoms as the horizon
    needs.

    >>> KaryTree(horizon=1000).sizes, KaryTree(horizon=1000, subtract=False).sizes
    ((1, 13, 169), (1, 10, 100))
    """

    arity: int | None = None
    levels: int = 3
    subtract: bool = True

    def __post_init__(self) -> None:
        configured(self, "arity", "levels")
        if self.levels > 60:
            raise ConfigError("levels must be at most 60: no stream is long enough for more.")
        if self.arity is not None and (self.arity < 2 or (self.subtract and self.arity % 2 == 0)):
            raise ConfigError(
                "arity must be at least 2, and odd with subtraction (the digits then run from "
                "-(k-1)/2 to (k-1)/2)."
            )
        if self.subtract and self.privacy is not None and not isinstance(self.privacy, PureDP):
            raise ConfigError(
                "KaryTree with subtraction takes PureDP only (Gaussian noise is not proved for "
                "it): use privacy=PureDP(epsilon=...), or subtract=False."
            )
        super().__post_init__()

    @property
    def sizes(self) -> Sizes:
        arity = self.arity
        if arity is None:
            steps = (2 if self.subtract else 1) * bounded(self.horizon, "KaryTree")
            root = steps ** (1 / self.levels)
            arity = max(3, 2 * round((root - 1) / 2) + 1) if self.subtract else max(2, round(root))
        return tuple(arity**level for level in range(self.levels))

    @property
    def ahead(self) -> int:
        return (self.sizes[1] - 1) // 2 if self.subtract and self.levels > 1 else 0


@told
@dataclass(frozen=True, kw_only=True)
class UnboundedBlock(LadderCounter):
    """Blocks of growing size, for a stream without end.

    Parts of 4^j steps in blocks of 2^j; as published with `squares`: parts of b^2 steps in blocks
    of b, from b = 2.

    Privacy: w = 2 over the whole stream: parts and blocks are public, a block ends with its part,
    and an element lies in its step and its block.
    Accuracy: noise terms at t = 10,000 / 100,000: 500 / 2,276 for parts of b^2 steps (error
    O(t^(1/3)), not the published t^(1/4)); 221 / 866 for parts of 4^j steps, which is O(t^(1/4)).
    `tests/unit/counters` checks all four.
    Source: the tabular stream's Algorithm 4 (dissertation, Algorithm 15): parts of 4, 9, 16, ...
    steps in blocks of 2, 3, 4, ...: `squares=True`.
    Departs: the default parts.
    """

    squares: bool = False

    @property
    def sizes(self) -> Sizes:
        return 1, 2  # a step and a block; how long a block is, `ends` knows

    def ends(self, t: np.ndarray) -> list[tuple[int, np.ndarray]]:
        start, block = self._part(t)
        at_end = (t - start) % block == 0
        return [(0, np.flatnonzero(~at_end)), (1, np.flatnonzero(at_end))]

    def atoms_between(self, t: np.ndarray, since: np.ndarray) -> np.ndarray:
        # Noise after a step is noise at the block's start plus the steps'; noise at a block's end
        # is noise at its start plus one. Walk both back, the later one first, until they meet.
        late, early, count = t.copy(), since.copy(), np.zeros(t.shape, np.int64)
        while (apart := late != early).any():
            late, early = np.maximum(late, early), np.minimum(late, early)
            start, block = self._part(late)
            at_end = (late - start) % block == 0
            late = np.where(apart, late - np.where(at_end, block, 1), late)
            count += apart
        return count

    def _part(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The time before t's part begins, and its block size."""
        last = int(t.max(initial=1))
        starts, blocks = _parts(self.squares, 1 << last.bit_length())
        part = np.maximum(np.searchsorted(starts, t, side="left") - 1, 0)
        return starts[part], blocks[part]


@functools.cache
def _parts(squares: bool, reach: int) -> tuple[np.ndarray, np.ndarray]:
    starts, blocks = [0], [2 if squares else 1]
    while starts[-1] < reach:
        starts.append(starts[-1] + blocks[-1] ** 2)
        blocks.append(blocks[-1] + 1 if squares else 2 * blocks[-1])
    return np.array(starts), np.array(blocks)
