"""Survival tables: exact draws from a uniform number's bits.

A discrete variable K >= 0 is drawn from a uniform U in [0, 1) as

    K = number of j with U < S(j),        S(j) = P(K > j),

which has exactly the distribution P(K > j) = S(j). U is never rounded: it is an endless string of
random bits of which 64 are read first. S(j) is irrational, so some finite number of bits always
decides every comparison. A table holds floor(S(j) 2^64); a 64-bit word above or below it decides at
once, and only a word that equals it (probability 2^-64 per entry) needs more bits. Then `resolve`
reads further words and computes S(j) to as many bits as it takes, in integer arithmetic with lower
and upper bounds. No float is involved, and nothing is cut off: neither precision nor tail.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

Bounds = tuple[list[int], list[int]]  # lower and upper bounds of S(0), S(1), ... times 2^bits
Survival = Callable[[int, int], Bounds]  # (entries, bits) -> Bounds

WORD = 64
GUIDE_BITS = 10
# a geometric variable above the reach of one table is drawn in digits of base 2^12
DIGIT_BITS = 12
_REACH = 1 << DIGIT_BITS
# Bernoulli(exp(-n r)) is drawn as one coin per byte of n
_COIN_BYTES = 8


@dataclass(frozen=True)
class Table:
    """The words of a survival function.

    `guide` says where a search may start; the function itself settles the rare tie.
    """

    survival: Survival
    words: np.ndarray  # (entries,) uint64, decreasing: floor(S(j) 2^64)
    guide: np.ndarray  # (2^GUIDE_BITS,) int64: entries above every word with these leading bits
    finite: bool  # K cannot exceed the number of entries

    def resolve(self, word: int, more: Iterator[int]) -> int:
        """K for a U that starts with `word`, exactly."""
        bits, u, entries = WORD, word, len(self.words)
        while True:
            lower, upper = self.survival(entries, bits)
            k = 0
            while k < entries and u + 1 <= lower[k]:  # U < S(k) for certain
                k += 1
            if k == entries and self.finite:
                return k
            if k == entries:
                entries *= 2
            elif u >= upper[k]:  # U >= S(k) for certain
                return k
            else:
                bits, u = bits + WORD, (u << WORD) | next(more)


def tabulate(survival: Survival, entries: int, *, finite: bool) -> Table:
    """Tabulate a survival function, with enough bits."""
    bits = 2 * WORD
    while True:
        lower, upper = survival(entries, bits)
        first, other = ([end >> (bits - WORD) for end in ends] for ends in (lower, upper))
        if first == other:
            break
        bits += WORD
    words = np.array(first, dtype=np.uint64)
    buckets = np.arange(1 << GUIDE_BITS, dtype=np.uint64) << np.uint64(WORD - GUIDE_BITS)
    largest = buckets + np.uint64(2 ** (WORD - GUIDE_BITS) - 1)
    guide = entries - np.searchsorted(words[::-1], largest, side="right")
    return Table(survival, words, guide, finite)


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers below and above exp(-x) 2^bits, for x >= 0."""
    if x >= bits:  # exp(-x) < 2^-x
        return 0, 1
    digits = bits // 3 + 20  # log10(2) < 1/3
    floor, ceiling = (
        decimal.Context(digits, rounding, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
        for rounding in (decimal.ROUND_FLOOR, decimal.ROUND_CEILING)
    )
    top, bottom = Decimal(x.numerator), Decimal(x.denominator)
    # Decimal.exp is correctly rounded to nearest, so the true value lies strictly between its two
    # neighbours. Unary minus would round to the calling program's context; copy_negate does not.
    low = floor.next_minus(floor.exp(ceiling.divide(top, bottom).copy_negate()))
    high = ceiling.next_plus(ceiling.exp(floor.divide(top, bottom).copy_negate()))
    return math.floor(Fraction(low) * 2**bits), min(math.ceil(Fraction(high) * 2**bits), 1 << bits)


def _powers(q: tuple[int, int], entries: int, bits: int) -> Bounds:
    """Bounds of q, q^2, ..., q^entries."""
    lower, upper = [q[0]], [q[1]]
    for _ in range(entries - 1):
        lower.append((lower[-1] * q[0]) >> bits)
        upper.append(-((-upper[-1] * q[1]) >> bits))
    return lower, upper


def _ratio(lower: list[int], upper: list[int], total: tuple[int, int], bits: int) -> Bounds:
    """Bounds of numerators over a total."""
    lows = [max(low, 0) * 2**bits // total[1] for low in lower]
    return lows, [-(-high * 2**bits // total[0]) for high in upper]


def geometric(rate: Fraction) -> Survival:
    """P(K > j) = exp(-rate (j + 1)).

    K counts failures before a success of probability 1 - exp(-rate).
    """
    return lambda entries, bits: _powers(exp_bounds(rate, bits), entries, bits)


def truncated_geometric(rate: Fraction, base: int) -> Survival:
    """The same, given K < base."""

    def survival(entries: int, bits: int) -> Bounds:
        lower, upper = _powers(exp_bounds(rate, bits), base, bits)
        low_end, high_end = lower[-1], upper[-1]
        total = ((1 << bits) - high_end, (1 << bits) - low_end)
        lows = [low - high_end for low in lower[:entries]]
        highs = [high - low_end for high in upper[:entries]]
        return _ratio(lows, highs, total, bits)

    return survival


def half_gaussian(rate: Fraction) -> Survival:
    """P(K = j) proportional to exp(-rate j^2), j >= 0."""

    def survival(entries: int, bits: int) -> Bounds:
        q_low, q_high = exp_bounds(rate, bits)
        square = (q_low * q_low >> bits, -(-q_high * q_high >> bits))
        weights, step = [(1 << bits, 1 << bits)], (q_low, q_high)  # w_0 = 1, w_{j+1} = w_j q^(2j+1)
        while weights[-1][1] > 1 or 2 * step[1] > 1 << bits:
            low, high = weights[-1]
            weights.append((low * step[0] >> bits, -(-high * step[1] >> bits)))
            step = (step[0] * square[0] >> bits, -(-step[1] * square[1] >> bits))
        # the rest falls at least by half each time, and starts below one unit: two units bound it
        low_sums, high_sums = [0], [2]
        for low, high in reversed(weights):
            low_sums.append(low_sums[-1] + low)
            high_sums.append(high_sums[-1] + high)
        total = (low_sums.pop(), high_sums.pop())
        lower, upper = low_sums[::-1], high_sums[::-1]
        short = max(0, entries - len(lower))
        return _ratio((lower + [0] * short)[:entries], (upper + [2] * short)[:entries], total, bits)

    return survival


@functools.lru_cache(maxsize=64)
def geometric_digits(scale: Fraction) -> tuple[Table, ...]:
    """Tables of the digits of a geometric variable.

    Their draws d_0, d_1, ..., d_n make K = d_0 + 4096 d_1 + ... geometric with rate 1 / scale.

    The digits of a geometric variable are independent: P(K = d + 4096 k) factors into exp(-d /
    scale) times exp(-4096 k / scale). The last digit has no limit; its table ends where a draw
    starts again on top (a geometric variable has no memory).
    """
    rate, tables = 1 / scale, []
    while 4 / rate > _REACH:
        tables.append(tabulate(truncated_geometric(rate, _REACH), _REACH - 1, finite=True))
        rate *= _REACH
    entries = min(_REACH, max(1, math.ceil(45 / rate)))  # exp(-45) < 2^-64
    return *tables, tabulate(geometric(rate), entries, finite=True)


@functools.lru_cache(maxsize=64)
def gaussian_cells(variance: Fraction) -> tuple[int, Table]:
    """A cell's width in bits, and the table of cells.

    Cell k has the weight exp(-(k width)^2 / (2 variance)).
    """
    width_bits = max(0, (math.isqrt(math.floor(variance)) >> 6).bit_length() - 1)
    rate = Fraction(1 << (2 * width_bits)) / (2 * variance)
    entries = math.isqrt(math.ceil(45 / rate)) + 2  # the last word is then 0: see test_tables
    return width_bits, tabulate(half_gaussian(rate), entries, finite=False)


@functools.lru_cache(maxsize=64)
def coin_words(rate: Fraction) -> np.ndarray:
    """(8 * 256,) words of the coins exp(-d 256^i rate).

    For byte i and its value d.
    """
    words = []
    for i in range(_COIN_BYTES):
        powers = tabulate(geometric(rate * 256**i), 255, finite=True).words
        # d = 0 is skipped by the kernel
        words.append(np.concatenate([np.full(1, 2**WORD - 1, np.uint64), powers]))
    return np.concatenate(words)


def coin_of(index: int, rate: Fraction) -> Table:
    """The table behind one entry of `coin_words`."""
    return tabulate(geometric((index % 256) * 256 ** (index // 256) * rate), 1, finite=True)
