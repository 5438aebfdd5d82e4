"""Exact integer noise: the only randomness that meets private data.

A `Noise` is a secret and a path. `noise.at("step", 7, "cells")` is a child whose random words come
from AES-256-CTR under a key that is a keyed hash of secret and path; paths are typed and one to
one. Drawing twice from one path raises: the same noise on two data sets reveals their difference.
After a fork, a child process that draws from `Noise.fresh()` continues from a new secret, so that
parent and child never share noise.

| draw                   | distribution of integers, exactly                    |
|------------------------|------------------------------------------------------|
| `laplace(scale)`       | P(y) proportional to exp(-abs(y) / scale)            |
| `gaussian(variance)`   | P(y) proportional to exp(-y^2 / (2 variance))        |
| `survive(n, rate)`     | True with probability exp(-n rate), n >= 0           |
| `coin(excess, scale)`  | True with probability P(excess + Lap(scale) > 0)     |
| `choose(scores, rate)` | j with probability proportional to exp(rate score_j) |

Why these are the distributions:
1. `tables.py` draws any discrete variable exactly.
2. Laplace: the difference of independent geometric A, B with ratio q. P(A - B = y) is the sum over
   b of (1-q)^2 q^(2b + abs(y)), proportional to q^abs(y).
3. Gaussian: cell k >= 0 has probability proportional to exp(-(wk)^2 / 2v), the place r < w in it is
   uniform, and y = wk + r is kept with probability exp(-(y^2 - (wk)^2) / 2v): the product is
   proportional to exp(-y^2 / 2v). A fair sign follows, and minus zero is drawn again, so that zero
   is not counted twice.
4. Survive: exp(-n r) is the product over the bytes b_i of n of exp(-b_i 256^i r): one coin per
   byte, all must fall True.
5. Coin: the tail of the continuous Laplace distribution at excess is exp(-abs(excess) / scale) / 2,
   or 1 minus that.
6. Choose: propose j uniformly, keep it with exp(-rate gap_j), the gap to the highest score.

Parameters are exact fractions (a decimal is read as written) with scales from 1/1000 to 10^9. The
running time of `gaussian`, `coin` and `choose` depends on the draw, and that of the last two also
on the data: publish on a clock tick, not when a draw ends.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError, DataError, NoiseReused, StateError
from tailrace.noise.words import Part, Words, encode, key
from tailrace.privacy.loss import Number, exact

if TYPE_CHECKING:
    from tailrace.noise.tables import Table

SMALLEST, LARGEST = Fraction(1, 1000), Fraction(10**9)
# Words per refill; chosen by trial while building, no committed result.
_CHUNK = 1 << 16
# The least variance that is told. By reasoning: noise of a very large budget is never seen, but
# estimates divide by its variance, and a smaller one could become 0.
_NEVER = 1e-30

_forks = 0


def _after_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_after_fork)

Shape = int | tuple[int, ...]


class Draws(Protocol):
    """The draws that counters and mechanisms use."""

    def at(self, *path: Part) -> Draws: ...
    def laplace(self, scale: Number, shape: Shape) -> np.ndarray: ...
    def laplace_by(self, scale: Number, keys: Sequence[str], *, kept: bool = False) -> np.ndarray:
        """A draw for each of some private keys, in order.

        Which keys there are may depend on data: a proof of its own must allow it. `kept`: the one
        draw of a key, at whichever step the key first comes.
        """
        ...

    def gaussian(self, variance: Number, shape: Shape) -> np.ndarray: ...
    def survive(self, n: np.ndarray, rate: Number) -> np.ndarray: ...
    def coin(self, excess: np.ndarray, scale: Number) -> np.ndarray: ...
    def choose(self, scores: np.ndarray, rate: Number) -> int: ...


class _Root:
    """The secret of a family of paths, and paths drawn."""

    def __init__(self, secret: bytes, kind: str) -> None:
        self.kind = kind
        self.drawn: dict[bytes, object] = {}
        self._secret = secret
        self._forks = _forks

    def secret(self) -> bytes:
        if self._forks != _forks and self.kind == "fresh":
            self._secret, self._forks = os.urandom(32), _forks
        return self._secret

    def claim(self, path: bytes) -> None:
        mine = object()
        # one atomic operation, so that two threads cannot both pass
        if self.drawn.setdefault(path, mine) is not mine:
            raise NoiseReused(
                "This noise path was drawn from before: give every draw a path of its own with "
                "noise.at(...)."
            )


@told
class Noise:
    """Exact integer noise at a path.

    >>> noise = Noise.insecure(1)
    >>> noise.at("step", 1).laplace(2, 4).dtype
    dtype('int64')
    >>> noise.at("step", 1).laplace(2, 4)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tailrace.errors.NoiseReused: This noise path was drawn from before: give every draw a path...
    """

    def __init__(self, root: _Root, path: tuple[Part, ...] = ()) -> None:
        if not isinstance(root, _Root):
            raise ConfigError(
                "Make noise with Noise.fresh(), or with Noise.insecure(seed) in a test."
            )
        self._root = root
        self.path = path

    @classmethod
    def fresh(cls) -> Noise:
        """Noise from the operating system's entropy."""
        return cls(_Root(os.urandom(32), "fresh"))

    @classmethod
    def insecure(cls, seed: int) -> Noise:
        """Repeatable noise for tests: it protects nobody."""
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
            raise ConfigError(
                "Noise.insecure takes a whole number as its seed, for example Noise.insecure(1)."
            )
        hashed = hashlib.blake2b(str(seed).encode(), digest_size=32, person=b"tailrace seed")
        return cls(_Root(hashed.digest(), "insecure"))

    @classmethod
    def kept(cls, secret: bytes, kind: str) -> Noise:
        """Noise from a stream's secret, to finish a cut-off step."""
        return cls(_Root(secret, kind))

    @property
    def kind(self) -> str:
        """'fresh' or 'insecure'."""
        return self._root.kind

    @property
    def secret(self) -> bytes:
        """The secret, for the stream's private directory alone."""
        return self._root.secret()

    def nonce(self) -> str:
        """A name for one attempt at a step."""
        fresh = os.urandom(16) if self.kind == "fresh" else self.keyed_hash(b"nonce")[:16]
        return fresh.hex()

    def keyed_hash(self, purpose: bytes) -> bytes:
        """32 bytes from secret and path, for tags and keys."""
        return key(self._root.secret(), encode((*self.path, "hash")), purpose)

    def generator(self) -> np.random.Generator:
        """An ordinary generator from this path, for sampling after noise."""
        return np.random.default_rng(np.frombuffer(self._words().take(4).tobytes(), np.uint32))

    def at(self, *path: Part) -> Noise:
        """The child at `path`, made of whole numbers and texts.

        `at(1)` and `at("1")` differ; `at("a").at(1)` is `at("a", 1)`.
        """
        parts = tuple(int(part) if isinstance(part, np.integer) else part for part in path)
        if not parts or not all(_names(part) for part in parts):
            raise ConfigError(
                "A noise path is made of texts and whole numbers, at least one, for example "
                "noise.at('step', 7)."
            )
        return Noise(self._root, self.path + parts)

    def laplace(self, scale: Number, shape: Shape) -> np.ndarray:
        """int64 draws with P(y) proportional to exp(-abs(y) / scale)."""
        from tailrace.noise import kernel, tables

        digits = tables.geometric_digits(_scale("scale", scale))
        offsets = np.cumsum([0] + [len(table.words) for table in digits])
        words = np.concatenate([table.words for table in digits])
        guides = np.stack([table.guide for table in digits])
        return _filled(
            self._words(),
            _empty(shape),
            kernel.laplace,
            (words, offsets, guides),
            digits.__getitem__,
            each=2 * len(digits),
        )

    def laplace_by(
        self,
        scale: Number,
        keys: Sequence[str],
        *,
        kept: bool = False,  # noqa: ARG002
    ) -> np.ndarray:
        """A draw for each of some private keys, in order."""
        return self.laplace(scale, len(keys))

    def gaussian(self, variance: Number, shape: Shape) -> np.ndarray:
        """int64 draws with P(y) proportional to exp(-y^2 / (2 variance))."""
        from tailrace.noise import kernel, tables

        spread = exact("variance", variance)
        if not drawable(spread, gaussian=True):
            raise ConfigError(
                "variance must lie between the squares of 1/1000 and 1,000,000,000; rescale the "
                "counts."
            )
        width_bits, cells = tables.gaussian_cells(spread)
        rate = 1 / (2 * spread)
        return _filled(
            self._words(),
            _empty(shape),
            kernel.gaussian,
            (cells.words, cells.guide, tables.coin_words(rate), width_bits),
            lambda index: cells if index == 0 else tables.coin_of(index - 1, rate),
            each=2 if width_bits == 0 else 5,
        )

    def survive(self, n: np.ndarray, rate: Number) -> np.ndarray:
        """True with probability exp(-n rate), for each nonnegative integer n."""
        steps, per = _integers("n", n), exact("rate", rate)
        if steps.size and steps.min() < 0:
            raise DataError("n must not be negative: exp(-n rate) is no probability then.")
        return _survived(self._words(), steps, per)

    def coin(self, excess: np.ndarray, scale: Number) -> np.ndarray:
        """True with probability P(excess + Lap(scale) > 0).

        One draw for each integer excess: the split coin of PrivTree. Values on a finer public grid
        come in as integers on it, with the scale in the same unit.
        """
        above, rate = _integers("excess", excess), 1 / _scale("scale", scale)
        words = self._words()
        heads = (words.take(above.size) & np.uint64(1)).astype(np.bool_).reshape(above.shape)
        # right at -2^63 too: modulo 2^64
        kept = _survived(words, np.where(above > 0, above, -above), rate)
        return (kept & heads) ^ (above > 0)

    def choose(self, scores: np.ndarray, rate: Number) -> int:
        """Draw index j with probability proportional to exp(rate scores[j]).

        The exponential mechanism over integer scores. With scores of sensitivity D this is 2 D rate
        differentially private (D rate where all scores move the same way).
        """
        from tailrace.noise import kernel, tables

        values, per = _integers("scores", scores), exact("rate", rate)
        if values.ndim != 1 or values.size == 0:
            raise DataError("scores must be a one-dimensional array with at least one entry.")
        # modulo 2^64, right whatever the signs
        gaps = values.max().astype(np.uint64) - values.astype(np.uint64)
        coins, coin = tables.coin_words(per), lambda index: tables.coin_of(index, per)
        out = np.empty(1, np.int64)
        return int(_filled(self._words(), out, kernel.choose, (gaps, coins), coin, each=64)[0])

    def __repr__(self) -> str:
        return f"<{self.kind} noise at {self.path!r}>"

    def __reduce__(self) -> Any:
        raise StateError(
            "Noise cannot be copied or pickled: the copy would draw the same noise again. Make a "
            "new one."
        )

    def _words(self) -> Words:
        encoded = encode(self.path)
        secret = self._root.secret()
        self._root.claim(encoded)
        return Words(secret, encoded)


def _survived(words: Words, steps: np.ndarray, rate: Fraction) -> np.ndarray:
    from tailrace.noise import kernel, tables

    flat = np.ascontiguousarray(steps).reshape(-1).astype(np.uint64)
    coins, coin = tables.coin_words(rate), lambda index: tables.coin_of(index, rate)
    out = np.empty(steps.shape, np.bool_)
    return _filled(words, out, kernel.survive, (flat, coins), coin, each=3)


def _filled(
    words: Words,
    out: np.ndarray,
    kernel: Callable[..., Any],
    arguments: tuple[Any, ...],
    table_of: Callable[[int], Table],
    *,
    each: int,
) -> np.ndarray:
    """Run `kernel` over `out` until it is full.

    More words when it runs dry (about `each` per draw), an exact answer when it meets a tie.
    """
    flat = out.reshape(-1)
    buffer = words.take(min(_CHUNK, each * flat.size + 16))
    first, index, position = 0, 0, 0  # `first`: place of buffer[0] in the endless sequence
    ties: dict[int, int] = {}
    while True:
        tie_positions = np.array([place - first for place in ties], np.int64)
        tie_values = np.array(list(ties.values()), np.int64)
        index, position, stop, tied, table = kernel(
            flat, index, buffer, position, tie_positions, tie_values, *arguments
        )
        if stop == _DONE:
            return out
        if stop == _TIE:
            place = first + tied
            ties[place] = table_of(table).resolve(int(buffer[tied]), words.after(place))
        else:
            more = words.take(min(_CHUNK, each * (flat.size - index) + 16))
            buffer, first, position = np.concatenate([buffer[position:], more]), first + position, 0
            # As all words come: for another kind of array the loop is compiled again.
            buffer.setflags(write=False)
            ties = {place: value for place, value in ties.items() if place >= first}


# kernel.DONE, kernel.TIE, here so that importing Noise does not import numba
_DONE, _TIE = 0, 2


def _scale(name: str, value: Number) -> Fraction:
    number = exact(name, value)
    if not drawable(number):
        raise ConfigError(f"{name} must lie between 1/1000 and 1,000,000,000; rescale the counts.")
    return number


def drawable(scale: Fraction, *, gaussian: bool = False) -> bool:
    """Whether a Laplace scale or Gaussian variance can be drawn."""
    power = 2 if gaussian else 1
    return SMALLEST**power <= scale <= LARGEST**power


def check_drawable(scale: Fraction, *, gaussian: bool = False) -> None:
    """Refuse a budget whose noise cannot be drawn."""
    if drawable(scale, gaussian=gaussian):
        return
    if scale > 1:
        raise ConfigError(
            "privacy= is too small for all that it pays for: its noise lies beyond the sampler's "
            "range, 1,000,000,000. Use a larger epsilon or rho, or divide it among fewer steps, "
            "releases or parts."
        )
    raise ConfigError(
        "privacy= is too large to protect anybody: its noise lies beyond the sampler's range, "
        "1/1000. Use a smaller epsilon or rho."
    )


def _empty(shape: Shape) -> np.ndarray:
    for side in shape if isinstance(shape, tuple) else (shape,):
        if not isinstance(side, int | np.integer) or isinstance(side, bool) or side < 0:
            raise ConfigError("shape must be a whole number of at least 0, or a tuple of them.")
    return np.empty(shape, np.int64)


def _names(part: object) -> bool:
    """Whether `part` is a text or a number below 2^64."""
    if type(part) is int:
        return abs(part) < 1 << 64
    return type(part) is str and not any("\ud800" <= letter <= "\udfff" for letter in part)


def _integers(name: str, values: np.ndarray) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.dtype == np.uint64:
        raise DataError(
            f"{name} must hold integers that fit in 64 bits with a sign: exact noise is added on "
            f"integers only."
        )
    return array.astype(np.int64, copy=False)


def laplace_variance(scale: Fraction) -> float:
    """The exact variance of `laplace(scale)`."""
    rate = float(1 / scale)
    return max(2 * math.exp(-rate) / math.expm1(-rate) ** 2, _NEVER)


def gaussian_variance(variance: Fraction) -> float:
    """The exact variance of `gaussian`, a hair below its parameter."""
    spread = float(variance)
    if spread > 50:  # the difference is then below exp(-2 pi^2 50)
        return spread
    y = np.arange(1, math.ceil(40 * math.sqrt(spread)) + 2, dtype=float)
    weights = np.exp(-(y**2) / (2 * spread))
    return max(float(2 * (y**2 * weights).sum() / (1 + 2 * weights.sum())), _NEVER)
