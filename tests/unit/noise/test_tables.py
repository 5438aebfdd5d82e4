import decimal
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tailrace.noise import tables

RATES = [
    Fraction(1, 10**9),
    Fraction(1, 4096),
    Fraction(1, 20),
    Fraction(1),
    Fraction(7, 3),
    Fraction(1000),
]


@pytest.mark.parametrize(
    "x",
    [
        Fraction(0),
        Fraction(1, 10**12),
        Fraction(1, 3),
        Fraction(1),
        Fraction(355, 113),
        Fraction(60),
        Fraction(10**9),
    ],
)
@pytest.mark.parametrize("bits", [64, 128, 320])
def test_exp_bounds_hold_and_are_tight(x, bits):
    low, high = tables.exp_bounds(x, bits)
    assert 0 <= high - low <= 2
    finer_low, finer_high = tables.exp_bounds(x, bits + 200)
    assert low << 200 <= finer_high and finer_low <= high << 200, (
        "both intervals hold the true value"
    )
    if 0 < x < 30:
        assert low / 2**bits == pytest.approx(math.exp(-x), rel=1e-9)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(
    "family",
    [tables.geometric, lambda rate: tables.truncated_geometric(rate, 16), tables.half_gaussian],
)
def test_survival_bounds_enclose_each_other_at_any_precision(rate, family):
    if family is tables.half_gaussian and rate < Fraction(1, 10**5):
        # narrower weights are never tabulated: cells are at least 1/128 of the deviation wide
        rate = Fraction(1, 10**4)
    survival = family(rate)
    low, high = survival(12, 128)
    finer_low, finer_high = survival(12, 320)
    for a, b, c, d in zip(low, high, finer_low, finer_high, strict=True):
        assert a <= b and c <= d
        assert a << 192 <= d and c <= b << 192, "the intervals overlap: both hold the true value"
        assert (d - c) <= (b - a) << 192


def test_survival_functions_are_what_they_say():
    low, _ = tables.geometric(Fraction(1, 5))(6, 128)
    assert [value / 2**128 for value in low] == pytest.approx(
        [math.exp(-(j + 1) / 5) for j in range(6)]
    )
    low, _ = tables.truncated_geometric(Fraction(1, 5), 4)(3, 128)
    weights = [math.exp(-j / 5) for j in range(4)]
    assert [value / 2**128 for value in low] == pytest.approx(
        [sum(weights[j + 1 :]) / sum(weights) for j in range(3)]
    )
    low, _ = tables.half_gaussian(Fraction(1, 50))(6, 128)
    weights = [math.exp(-(j**2) / 50) for j in range(200)]
    assert [value / 2**128 for value in low] == pytest.approx(
        [sum(weights[j + 1 :]) / sum(weights) for j in range(6)]
    )


@pytest.mark.parametrize(
    "scale",
    [
        Fraction(1, 1000),
        Fraction(1, 2),
        Fraction(20),
        Fraction(1024),
        Fraction(10**6),
        Fraction(10**9),
    ],
)
def test_every_table_of_the_samplers_is_decreasing_and_its_guide_safe(scale):
    width_bits, cells = tables.gaussian_cells(scale**2)
    assert cells.words[-1] == 0, "no word lies beyond an endless table"
    assert width_bits == 0 or 64 <= scale / 2**width_bits < 128
    for table in (*tables.geometric_digits(scale), cells):
        words = table.words.astype(object)
        assert all(a >= b for a, b in itertools.pairwise(words))
        for bucket in (0, 1, 511, 1023):
            largest = (bucket + 1 << 54) - 1
            assert all(largest < word for word in words[: table.guide[bucket]])


def test_resolve_reads_on_until_it_knows():
    table = tables.tabulate(tables.geometric(Fraction(1, 3)), 20, finite=True)
    for j in (0, 5, 19):
        word = int(table.words[j])
        low, _ = tables.geometric(Fraction(1, 3))(20, 192)
        next_words = low[j] >> 64 & (1 << 64) - 1  # the 64 bits of S(j) that follow
        assert table.resolve(word, iter([next_words - 100, 0])) == j + 1, (
            "just below S(j): U < S(j)"
        )
        assert table.resolve(word, iter([next_words + 100, 0])) == j, "just above"
        assert table.resolve(word, iter([next_words, 0, 0])) == j + 1, (
            "still tied: a third word decides"
        )


def test_a_tie_falls_with_the_probability_of_the_bits_that_follow():
    table = tables.coin_of(1, Fraction(1, 3))
    survival = tables.geometric(Fraction(1, 3))(1, 128)[0][0]
    rest = (survival & (1 << 64) - 1) / 2**64
    rng = np.random.default_rng(0)
    kept = [
        table.resolve(
            int(table.words[0]), iter(map(int, rng.integers(0, 2**64, 3, dtype=np.uint64)))
        )
        for _ in range(4000)
    ]
    assert np.mean(kept) == pytest.approx(rest, abs=5 * 0.5 / math.sqrt(4000))


def test_the_tail_of_an_endless_table_is_followed():
    table = tables.gaussian_cells(Fraction(1, 4))[1]
    assert table.resolve(0, iter([0, 0, 0, 0, 5])) > len(table.words)


def taylor(x, terms=200):
    """Fractions just below and above exp(-x): one over the exponential series, with and without a
    bound of its rest.
    """
    total, term = Fraction(0), Fraction(1)
    for k in range(terms):
        total += term
        term = term * x / (k + 1)
    return 1 / (total + 2 * term), 1 / total


@pytest.mark.parametrize(
    "x", [Fraction(1, 3), Fraction(1, 7), Fraction(22, 7), Fraction(10**9 + 7, 10**9)]
)
@pytest.mark.parametrize("bits", [64, 128, 320])
@pytest.mark.parametrize("hostile", [False, True])
def test_exp_bounds_hold_the_true_value_whatever_the_calling_program_does_to_decimals(
    x, bits, hostile
):
    below, above = taylor(x)
    with decimal.localcontext() as context:
        if hostile:
            context.prec, context.rounding = 1, decimal.ROUND_UP
            context.traps[decimal.Inexact] = True
        low, high = tables.exp_bounds(x, bits)
    assert Fraction(low, 2**bits) <= below
    assert above <= Fraction(high, 2**bits)
    assert high - low <= 2
