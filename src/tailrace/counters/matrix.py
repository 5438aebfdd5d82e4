"""Running sums by a square root of the prefix-sum matrix.

Let A be the matrix of prefix sums, C a lower triangular factor. The counter releases y = C x + z
and decodes with A C^-1. `SqrtToeplitz` takes the square root itself: f_0 = 1, f_k = f_{k-1} (1 -
1/(2k)), C the Toeplitz matrix of f, C C = A. Its columns grow shorter towards the horizon T, so
late events are hidden better than they need be. `SqrtEven` divides column s by its length: every
event moves the measurements equally far. Use it for short, known horizons.

Privacy: the declared rho (or the rho it converts to) per event over T, neighbours add/remove of one
insertion or deletion.
1. C is rounded down to multiples of 2^-b, and everything is counted in that unit: y = C_r x + z are
   integers, on one lattice in both worlds.
2. An event at step s shifts y by column s of C_r. Let w be the largest squared length of a column;
   for Toeplitz that of the first, whose beginning every other column is.
3. z is discrete Gaussian of variance w / (2 rho), so the shift loses at most rho.
4. y_t needs inputs up to t only, so inputs may depend on past outputs. Decoding, in floats, is
   post-processing.
Accuracy: variance w |(A C_r^-1)_t|^2 / (2 rho). Toeplitz: up to rounding S_T S_t / (2 rho) with S_t
= sum_{k<t} f_k^2 ~ ln(t)/pi + 1.07; unit-noise maximum 10.7 at T = 1024. Even: the root mean square
over all steps is .967 (T = 2), .955 (4), .951 (12) of Toeplitz's; no counter of this kind can be
below .965, .949, .941. Unbiased, because they decode with the rounded matrix.
Source: Henzinger-Upadhyay-Upadhyay 2023; Fichtenberger-Henzinger-Upadhyay 2023; Denisov, McMahan,
Rush, Smith, Thakurta 2022 (optimal factorisations have columns of equal length).
Departs: exact on a lattice where the texts take continuous noise. b is 20, or less where the noise
is so wide that a unit of 2^-20 would leave the sampler's range. Memory: inputs and outputs of every
step, 16 T bytes a row, and for `SqrtEven` two T x T matrices.
"""

from __future__ import annotations

import abc
import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tailrace.calls import told
from tailrace.counters.base import bounded, configured, fed, row_count, times
from tailrace.errors import ConfigError
from tailrace.noise import LARGEST, Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.loss import Loss, PureDP

# By reasoning: sums up to 2^43 still fit into 64 bits on this lattice.
_UNIT_BITS = 20
# Steps of SqrtEven at most. By reasoning: its two square matrices then take 64 MB.
_LONGEST = 2000


@dataclass(frozen=True)
class History:
    """All inputs and outputs of each row.

    Toeplitz keeps the newest first, Even the oldest.
    """

    clock: np.ndarray  # (rows,) steps taken
    inputs: np.ndarray  # (steps, rows) exact counts
    outputs: np.ndarray  # (steps, rows) y in lattice units


@dataclass(frozen=True, kw_only=True)
class MatrixCounter(abc.ABC):
    """A counter by factorisation: a subclass names its matrices."""

    privacy: Loss | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        configured(self)
        if isinstance(self.privacy, PureDP):
            raise ConfigError(
                f"{type(self).__name__} needs Gaussian noise, which cannot give PureDP: use "
                "privacy=ZCDP(rho=...) or ApproxDP(epsilon=..., delta=...), or a pure counter such "
                "as KaryTree."
            )
        if self.horizon is not None and self.privacy is not None:
            self.atoms.check()

    @staticmethod
    @abc.abstractmethod
    def factor(horizon: int, unit_bits: int) -> tuple[np.ndarray, np.ndarray]:
        """C_r in lattice units, and A C_r^-1 in floats.

        For Toeplitz their first columns.
        """

    @property
    def _steps(self) -> int:
        return bounded(self.horizon, type(self).__name__)

    @property
    def unit_bits(self) -> int:
        """b, where the lattice is 2^-b."""
        bits = _UNIT_BITS
        while bits > 0 and self._atoms(bits).scale > LARGEST**2:
            bits -= 1
        return bits

    @property
    def atoms(self) -> Atoms:
        return self._atoms(self.unit_bits)

    def _atoms(self, bits: int) -> Atoms:
        return Atoms(self.privacy, _weight(type(self), self._steps, bits))

    def init(self, rows: int) -> History:
        none = np.zeros((0, row_count(rows)), np.int64)
        bounded(self.horizon, type(self).__name__)
        return History(np.zeros(none.shape[1], np.int64), none, none)

    def grow(self, state: History, rows: int) -> History:
        wider = ((0, 0), (0, row_count(rows)))
        return History(
            np.pad(state.clock, wider[1]), np.pad(state.inputs, wider), np.pad(state.outputs, wider)
        )

    def loss(self, events: int = 1, deletes: int = 0) -> Loss:
        return self.atoms.loss(events, deletes)

    def variance(self, t: ArrayLike, since: ArrayLike = 0) -> np.ndarray:
        decode = matrices(type(self), self._steps, self.unit_bits)[1]
        squares = self._squares(decode, *times(t, since, self.horizon))
        return self.atoms.variance() * 0.25**self.unit_bits * squares

    @staticmethod
    @abc.abstractmethod
    def _squares(decode: np.ndarray, late: np.ndarray, early: np.ndarray) -> np.ndarray:
        """Squared distances of two rows of A C_r^-1."""


@functools.lru_cache(maxsize=64)
def matrices(
    kind: type[MatrixCounter], horizon: int, unit_bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """The factors of a kind of counter, kept."""
    return kind.factor(horizon, unit_bits)


@functools.lru_cache(maxsize=1024)
def _weight(kind: type[MatrixCounter], horizon: int, unit_bits: int) -> int:
    """The largest squared length of a column of C_r, exactly."""
    columns = np.atleast_2d(matrices(kind, horizon, unit_bits)[0].T)
    return max(sum(int(entry) ** 2 for entry in column) for column in columns)


@told
@dataclass(frozen=True, kw_only=True)
class SqrtToeplitz(MatrixCounter):
    """The square-root factorisation over the horizon; ZCDP or ApproxDP.

    >>> from tailrace import ZCDP
    >>> round(float(SqrtToeplitz(privacy=ZCDP(rho=0.5), horizon=1024).variance(1024)), 1)
    10.7
    """

    @staticmethod
    def factor(horizon: int, unit_bits: int) -> tuple[np.ndarray, np.ndarray]:
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

    def step(
        self, state: History, x: np.ndarray, noise: Draws, rows: np.ndarray | None = None
    ) -> tuple[History, np.ndarray]:
        index, x = fed(state.clock, x, rows, self.horizon)
        clock = state.clock.copy()
        clock[index] += 1
        inputs = _push(state.inputs, x, index, int(clock.max(initial=0)))
        encode, decode = matrices(type(self), self._steps, self.unit_bits)
        y = encode[: len(inputs)] @ inputs[:, index] + self.atoms.draw(noise.at("fresh"), len(x))
        outputs = _push(state.outputs, y, index, len(inputs))
        estimates = decode[: len(outputs)] @ outputs[:, index]
        return History(clock, inputs, outputs), estimates * 0.5**self.unit_bits

    @staticmethod
    def _squares(decode: np.ndarray, late: np.ndarray, early: np.ndarray) -> np.ndarray:
        late, early = np.maximum(late, early), np.minimum(late, early)
        squares = np.concatenate([[0.0], np.cumsum(decode**2)])
        # y_1 .. y_early enter both estimates, with two weights; the rest only the later one
        shared = [
            ((decode[a - b : a] - decode[:b]) ** 2).sum() if b else 0.0
            for a, b in zip(late.flat, early.flat, strict=True)
        ]
        return np.reshape(shared, late.shape) + squares[late - early]


def _push(
    history: np.ndarray, newest: np.ndarray, index: slice | np.ndarray, steps: int
) -> np.ndarray:
    """Put `newest` before the history of the fed rows."""
    pushed = np.pad(history, ((0, steps - len(history)), (0, 0)))
    pushed[1:, index] = pushed[:-1, index].copy()
    pushed[:1, index] = newest
    return pushed


@told
@dataclass(frozen=True, kw_only=True)
class SqrtEven(MatrixCounter):
    """The square-root factorisation with columns of equal length.

    For short, known horizons; ZCDP or ApproxDP.

    >>> from tailrace import ZCDP
    >>> round(float(SqrtEven(privacy=ZCDP(rho=0.5), horizon=12).variance(12)), 2)
    2.58
    """

    def __post_init__(self) -> None:
        configured(self)
        if self.horizon is not None and self.horizon > _LONGEST:
            raise ConfigError(
                f"SqrtEven takes a horizon of at most {_LONGEST:,} steps: use SqrtToeplitz."
            )
        super().__post_init__()

    @staticmethod
    def factor(horizon: int, unit_bits: int) -> tuple[np.ndarray, np.ndarray]:
        column = matrices(SqrtToeplitz, horizon, _UNIT_BITS)[0] * 0.5**_UNIT_BITS
        ages = np.subtract.outer(np.arange(horizon), np.arange(horizon))
        square = np.where(ages >= 0, column[np.abs(ages)], 0.0)
        even = square / np.sqrt((square**2).sum(axis=0))
        encode = np.floor(even * 2.0**unit_bits).astype(np.int64)
        sums = np.tril(np.ones((horizon, horizon)))
        return encode, np.tril(np.linalg.solve((encode * 0.5**unit_bits).T, sums.T).T)

    def step(
        self, state: History, x: np.ndarray, noise: Draws, rows: np.ndarray | None = None
    ) -> tuple[History, np.ndarray]:
        index, x = fed(state.clock, x, rows, self.horizon)
        clock = state.clock.copy()
        clock[index] += 1
        steps = int(clock.max(initial=0))
        encode, decode = matrices(type(self), self._steps, self.unit_bits)
        now = clock[index] - 1
        places = np.arange(len(clock)) if isinstance(index, slice) else index
        inputs, outputs = (
            np.pad(part, ((0, steps - len(part)), (0, 0))) for part in (state.inputs, state.outputs)
        )
        inputs[now, places] = x
        sums = np.einsum("rs,sr->r", encode[now, :steps], inputs[:, places])
        outputs[now, places] = sums + self.atoms.draw(noise.at("fresh"), len(x))
        estimates = np.einsum("rs,sr->r", decode[now, :steps], outputs[:, places])
        return History(clock, inputs, outputs), estimates * 0.5**self.unit_bits

    @staticmethod
    def _squares(decode: np.ndarray, late: np.ndarray, early: np.ndarray) -> np.ndarray:
        lines = np.vstack([np.zeros(len(decode)), decode])
        return ((lines[late] - lines[early]) ** 2).sum(axis=-1)
