"""Running sums without end, in growing parts counted in blocks.

Privacy: the declared loss per event over the whole stream, neighbours add/remove of one insertion
or deletion. Parts and blocks are public, a block ends with its part, and an element lies in at most
two atoms, its step and its block: noise Lap(2/epsilon) or N(0, 2/(2 rho)). Inputs may depend on
past outputs.
Accuracy: noise terms at t = 10,000 / 100,000: 500 / 2,276 for parts of b^2 steps (error O(t^(1/3)),
not the published t^(1/4)); 221 / 866 for parts of 4^j steps in blocks of 2^j, which is O(t^(1/4)).
`tests/unit/counters` checks all four.
Source: the tabular stream's Algorithm 4 (dissertation, Algorithm 15): parts of 4, 9, 16, ... steps
in blocks of 2, 3, 4, ...: `squares=True`.
Departs: the default parts are 4^j steps in blocks of 2^j; integer noise; Gaussian noise under ZCDP
and ApproxDP.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from tailrace.calls import told
from tailrace.counters.ladder import LadderCounter, Sizes


@told
@dataclass(frozen=True, kw_only=True)
class UnboundedBlock(LadderCounter):
    """Blocks of growing size, for a stream without end.

    Parts of 4^j steps in blocks of 2^j; as published with `squares`: parts of b^2 steps in blocks
    of b, from b = 2.
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
