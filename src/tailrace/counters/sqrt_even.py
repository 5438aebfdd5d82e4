"""Running sums through the square root of the prefix-sum matrix, its columns made equally long: for
short, known horizons.

The columns of the square root C grow shorter towards the horizon, so late events are hidden better
than they need be. Here column s is divided by its length: every event moves the measurements
equally far, and the room is used. The counter releases y = C x + z and decodes with A C^-1 (A:
prefix sums).

Privacy: the declared rho (or what it converts to) per event over the horizon T, neighbours
add/remove of one insertion or deletion. C is rounded down to multiples of 2^-b and everything is
counted in that unit: y = C_r x + z are integers, in both worlds on one lattice, with z discrete
Gaussian of variance w / (2 rho), w the largest squared length of a column of C_r. y_t needs inputs
up to t only, so inputs may depend on past outputs. Decoding is done in floats: post-processing.
Accuracy: variance w |(A C_r^-1)_t|^2 / (2 rho). Over all steps its root mean square is .967 (T =
2), .955 (4), .951 (12) of `SqrtToeplitz`'s; no counter of this kind can be below .965, .949, .941.
Source: Denisov, McMahan, Rush, Smith, Thakurta 2022 (optimal factorisations have columns of equal
length); the normalised square root.
Departs: exact on a lattice where the texts take continuous noise.
Memory: inputs and outputs of every step, 16 T bytes a row, and two T x T matrices.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tailrace.calls import told
from tailrace.counters.feed import bounded, configured, fed, row_count, times
from tailrace.counters.sqrt_toeplitz import matrices as toeplitz
from tailrace.errors import ConfigError
from tailrace.noise import LARGEST, Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.loss import Loss, PureDP

_UNIT_BITS = 20
_LONGEST = 2000  # steps: the matrices are square


@dataclass(frozen=True)
class Diary:
    """Rows with all they were fed and all that was released of them, the oldest first."""

    clock: np.ndarray  # (rows,) steps taken
    inputs: np.ndarray  # (steps, rows) exact counts
    outputs: np.ndarray  # (steps, rows) y in lattice units


@told
@dataclass(frozen=True, kw_only=True)
class SqrtEven:
    """The square-root factorisation with columns of equal length; ZCDP or ApproxDP.

    >>> from tailrace import ZCDP
    >>> round(float(SqrtEven(privacy=ZCDP(rho=0.5), horizon=12).variance(12)), 2)
    2.58
    """

    privacy: Loss | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        configured(self)
        if isinstance(self.privacy, PureDP):
            raise ConfigError(
                "SqrtEven needs Gaussian noise, which cannot give PureDP: use "
                "privacy=ZCDP(rho=...) or "
                "ApproxDP(epsilon=..., delta=...), or a pure counter such as KaryTree."
            )
        if self.horizon is not None and self.horizon > _LONGEST:
            raise ConfigError(
                f"SqrtEven takes a horizon of at most {_LONGEST:,} steps: use SqrtToeplitz."
            )
        if self.horizon is not None and self.privacy is not None:
            self.atoms.check()

    @property
    def unit_bits(self) -> int:
        """b, where the lattice is 2^-b: 20, or the largest that the sampler's range allows."""
        horizon, bits = bounded(self.horizon, "SqrtEven"), _UNIT_BITS
        while bits > 0 and Atoms(self.privacy, squared_length(horizon, bits)).scale > LARGEST**2:
            bits -= 1
        return bits

    @property
    def atoms(self) -> Atoms:
        return Atoms(
            self.privacy, squared_length(bounded(self.horizon, "SqrtEven"), self.unit_bits)
        )

    def init(self, rows: int) -> Diary:
        count = row_count(rows)
        bounded(self.horizon, "SqrtEven")
        return Diary(
            np.zeros(count, np.int64),
            np.zeros((0, count), np.int64),
            np.zeros((0, count), np.int64),
        )

    def grow(self, state: Diary, rows: int) -> Diary:
        wider = ((0, 0), (0, row_count(rows)))
        return Diary(
            np.pad(state.clock, wider[1]), np.pad(state.inputs, wider), np.pad(state.outputs, wider)
        )

    def step(
        self, state: Diary, x: np.ndarray, noise: Draws, rows: np.ndarray | None = None
    ) -> tuple[Diary, np.ndarray]:
        index, x = fed(state.clock, x, rows, self.horizon)
        clock = state.clock.copy()
        clock[index] += 1
        steps = int(clock.max(initial=0))
        encode, decode = matrices(bounded(self.horizon, "SqrtEven"), self.unit_bits)
        now = clock[index] - 1
        places = np.arange(len(clock)) if isinstance(index, slice) else index
        inputs, outputs = (
            np.pad(part, ((0, steps - len(part)), (0, 0))) for part in (state.inputs, state.outputs)
        )
        inputs[now, places] = x
        sums = np.einsum("rs,sr->r", encode[now, :steps], inputs[:, places])
        outputs[now, places] = sums + self.atoms.draw(noise.at("fresh"), len(x))
        estimates = np.einsum("rs,sr->r", decode[now, :steps], outputs[:, places])
        return Diary(clock, inputs, outputs), estimates * 0.5**self.unit_bits

    def loss(self, events: int = 1, deletes: int = 0) -> Loss:
        return self.atoms.loss(events, deletes)

    def variance(self, t: ArrayLike, since: ArrayLike = 0) -> np.ndarray:
        late, early = times(t, since, self.horizon)
        decode = matrices(bounded(self.horizon, "SqrtEven"), self.unit_bits)[1]
        lines = np.vstack([np.zeros(len(decode)), decode])
        squares = ((lines[late] - lines[early]) ** 2).sum(axis=-1)
        return self.atoms.variance() * 0.25**self.unit_bits * squares


@functools.lru_cache(maxsize=64)
def matrices(horizon: int, unit_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """C_r in lattice units (integers) and A C_r^-1 (floats), both lower triangular."""
    column = toeplitz(horizon, _UNIT_BITS)[0] * 0.5**_UNIT_BITS
    ages = np.subtract.outer(np.arange(horizon), np.arange(horizon))
    square = np.where(ages >= 0, column[np.abs(ages)], 0.0)
    encode = np.floor(square / np.sqrt((square**2).sum(axis=0)) * 2.0**unit_bits).astype(np.int64)
    decode = np.linalg.solve((encode * 0.5**unit_bits).T, np.tril(np.ones((horizon, horizon))).T).T
    return encode, np.tril(decode)


@functools.lru_cache(maxsize=1024)
def squared_length(horizon: int, unit_bits: int) -> int:
    """The largest squared length of a column of C_r in squared lattice units, exactly."""
    return max(
        sum(int(entry) ** 2 for entry in column) for column in matrices(horizon, unit_bits)[0].T
    )
