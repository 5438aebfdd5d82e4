"""Running sums through the square root of the prefix-sum matrix: the most accurate counter under
Gaussian noise.

With f_0 = 1, f_k = f_{k-1} (1 - 1/(2k)) and C the lower triangular Toeplitz matrix of f, C C x are
the prefix sums of x. The counter releases y = C x + z and decodes.

Privacy: the declared rho (or what it converts to) per event over the horizon T, neighbours
add/remove of one insertion or deletion. C is rounded down to multiples of 2^-b and everything is
counted in that unit: y = C_r x + z are integers, in both worlds on one lattice, with z discrete
Gaussian of variance |c|^2 / (2 rho), c the first column of C_r: an event at time s shifts y by the
first T - s + 1 entries of c. y_t needs inputs up to t only, so inputs may depend on past outputs.
Decoding multiplies y by A C_r^-1 (A: prefix sums) in floats: post-processing.
Accuracy: variance |c|^2 |(A C_r^-1)_t|^2 / (2 rho), up to rounding S_T S_t / (2 rho) with S_t =
sum_{k<t} f_k^2 ~ ln(t)/pi + 1.07; unit-noise maximum 10.7 at T = 1024. Unbiased, because it decodes
with the rounded matrix.
Source: Henzinger-Upadhyay-Upadhyay 2023; Fichtenberger-Henzinger-Upadhyay 2023.
Departs: exact on a lattice where the texts take continuous noise. b is 20, or less where the noise
is so wide that a unit of 2^-20 would leave the sampler's range. Memory: inputs and outputs of every
step, 16 T bytes a row.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tailrace.calls import told
from tailrace.counters.feed import bounded, configured, fed, row_count, times
from tailrace.errors import ConfigError
from tailrace.noise import LARGEST, Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.loss import Loss, PureDP

_UNIT_BITS = 20


@dataclass(frozen=True)
class History:
    """Rows with all they were fed and all that was released of them, the newest first."""

    clock: np.ndarray  # (rows,) steps taken
    inputs: np.ndarray  # (steps, rows) exact counts
    outputs: np.ndarray  # (steps, rows) y in lattice units


@told
@dataclass(frozen=True, kw_only=True)
class SqrtToeplitz:
    """The square-root factorisation over the horizon; ZCDP or ApproxDP.

    >>> from tailrace import ZCDP
    >>> round(float(SqrtToeplitz(privacy=ZCDP(rho=0.5), horizon=1024).variance(1024)), 1)
    10.7
    """

    privacy: Loss | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        configured(self)
        if isinstance(self.privacy, PureDP):
            raise ConfigError(
                "SqrtToeplitz needs Gaussian noise, which cannot give PureDP: use "
                "privacy=ZCDP(rho=...) or "
                "ApproxDP(epsilon=..., delta=...), or a pure counter such as KaryTree."
            )
        if self.horizon is not None and self.privacy is not None:
            self.atoms.check()

    @property
    def unit_bits(self) -> int:
        """b, where the lattice is 2^-b: 20, or the largest that the sampler's range allows."""
        horizon, bits = bounded(self.horizon, "SqrtToeplitz"), _UNIT_BITS
        while bits > 0 and Atoms(self.privacy, squared_norm(horizon, bits)).scale > LARGEST**2:
            bits -= 1
        return bits

    @property
    def atoms(self) -> Atoms:
        return Atoms(
            self.privacy, squared_norm(bounded(self.horizon, "SqrtToeplitz"), self.unit_bits)
        )

    def init(self, rows: int) -> History:
        count = row_count(rows)
        bounded(self.horizon, "SqrtToeplitz")
        return History(
            np.zeros(count, np.int64),
            np.zeros((0, count), np.int64),
            np.zeros((0, count), np.int64),
        )

    def grow(self, state: History, rows: int) -> History:
        wider = ((0, 0), (0, row_count(rows)))
        return History(
            np.pad(state.clock, wider[1]), np.pad(state.inputs, wider), np.pad(state.outputs, wider)
        )

    def step(
        self, state: History, x: np.ndarray, noise: Draws, rows: np.ndarray | None = None
    ) -> tuple[History, np.ndarray]:
        index, x = fed(state.clock, x, rows, self.horizon)
        clock = state.clock.copy()
        clock[index] += 1
        inputs = _push(state.inputs, x, index, int(clock.max(initial=0)))
        encode, decode = matrices(bounded(self.horizon, "SqrtToeplitz"), self.unit_bits)
        y = encode[: len(inputs)] @ inputs[:, index] + self.atoms.draw(noise.at("fresh"), len(x))
        outputs = _push(state.outputs, y, index, len(inputs))
        return History(clock, inputs, outputs), decode[: len(outputs)] @ outputs[
            :, index
        ] * 0.5**self.unit_bits

    def loss(self, events: int = 1, deletes: int = 0) -> Loss:
        return self.atoms.loss(events, deletes)

    def variance(self, t: ArrayLike, since: ArrayLike = 0) -> np.ndarray:
        late, early = times(t, since, self.horizon)
        late, early = np.maximum(late, early), np.minimum(late, early)
        decode = matrices(bounded(self.horizon, "SqrtToeplitz"), self.unit_bits)[1]
        squares = np.concatenate([[0.0], np.cumsum(decode**2)])
        # y_1 .. y_early enter both estimates, with two weights; the rest only the later one
        shared = [
            ((decode[a - b : a] - decode[:b]) ** 2).sum() if b else 0.0
            for a, b in zip(late.flat, early.flat, strict=True)
        ]
        return (
            self.atoms.variance()
            * 0.25**self.unit_bits
            * (np.reshape(shared, late.shape) + squares[late - early])
        )


def _push(
    history: np.ndarray, newest: np.ndarray, index: slice | np.ndarray, steps: int
) -> np.ndarray:
    """`history` of at least `steps` entries with `newest` put before those of the fed rows."""
    pushed = np.pad(history, ((0, steps - len(history)), (0, 0)))
    pushed[1:, index] = pushed[:-1, index].copy()
    pushed[:1, index] = newest
    return pushed


@functools.lru_cache(maxsize=32)
def matrices(horizon: int, unit_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """First columns of C_r in lattice units (integers) and of A C_r^-1 (floats)."""
    spare = 64
    exact, encode = 1 << (unit_bits + spare), []
    for k in range(1, horizon + 1):
        encode.append(exact >> spare)
        exact = exact * (2 * k - 1) // (2 * k)
    column = np.array(encode, np.int64)
    ratio, inverse = column / 2.0**unit_bits, np.zeros(horizon)
    inverse[0] = 1.0
    for k in range(1, horizon):
        inverse[k] = -ratio[1 : k + 1] @ inverse[k - 1 :: -1]
    return column, np.cumsum(inverse)


@functools.lru_cache(maxsize=1024)
def squared_norm(horizon: int, unit_bits: int) -> int:
    """|c|^2 in squared lattice units, exactly."""
    return sum(int(entry) ** 2 for entry in matrices(horizon, unit_bits)[0])
