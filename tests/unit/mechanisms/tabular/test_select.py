"""The choice of workloads: what it loses, and what it looks at."""

from fractions import Fraction

import numpy as np
import pytest

from tailrace import ZCDP, Integer, Noise, PureDP, Schema
from tailrace.counting.marginals import Marginals, all_ways
from tailrace.mechanisms.tabular.budget import Choice
from tailrace.mechanisms.tabular.workloads import fits, scores, within
from tailrace.models.tables import JunctionTree


def log_probabilities(rate, values):
    exponents = float(rate) * values
    top = exponents.max()
    return exponents - top - np.log(np.exp(exponents - top).sum())


def renyi(p, q, alpha):
    return np.log(np.exp(alpha * p + (1 - alpha) * q).sum()) / (alpha - 1)


@pytest.mark.parametrize("events", [(1, 0), (1, 1), (3, 2)])
@pytest.mark.parametrize("rounds", [1, 3, 10])
def test_the_loss_is_the_budget(events, rounds):
    assert Choice(PureDP(epsilon="1/3"), rounds, events).loss(*events) == PureDP(epsilon="1/3")
    rho = Choice(ZCDP(rho="1/7"), rounds, events).loss(*events).rho
    assert Fraction(1, 7) * (1 - Fraction(1, 10**9)) < rho <= Fraction(1, 7)


def test_a_unit_of_more_events_loses_in_proportion_or_in_squares():
    pure, zero = Choice(PureDP(epsilon=1), 4, (1, 0)), Choice(ZCDP(rho=1), 4, (1, 0))
    assert pure.loss(2, 1) == PureDP(epsilon=3)
    assert zero.loss(2, 1).rho == 9 * zero.loss(1, 0).rho


@pytest.mark.parametrize("events", [(1, 0), (2, 1)])
@pytest.mark.parametrize(
    "privacy", [PureDP(epsilon=1), ZCDP(rho="1/8")], ids=lambda privacy: type(privacy).__name__
)
def test_no_two_neighbours_are_told_apart_by_more(events, privacy):
    """One round of one: the largest ratio, or divergence, over scores that move as much as the
    unit's events allow.
    """
    choice, moved, rng = Choice(privacy, 1, events), sum(events), np.random.default_rng(0)
    worst = 0.0
    for size in (2, 3, 10, 1000):
        for trial in range(50):
            values = rng.integers(-20, 20, size) * (trial % 3)
            shift = (
                rng.integers(-moved, moved + 1, size)
                if trial
                else np.where(np.arange(size) == 0, moved, -moved)
            )
            p, q = (log_probabilities(choice.rate, found) for found in (values, values + shift))
            if isinstance(privacy, PureDP):
                worst = max(worst, float(np.abs(p - q).max()) / float(privacy.epsilon))
            else:
                worst = max(
                    worst,
                    *(
                        renyi(p, q, alpha) / alpha / float(privacy.rho)
                        for alpha in (1.01, 2, 8, 40)
                    ),
                )
    assert 0.9 < worst <= 1 + 1e-9


def test_choices_have_the_probabilities_they_say():
    choice, values = Choice(PureDP(epsilon=2), 2, (1, 0)), np.array([3, 1, 0, -4])
    noise = Noise.insecure(1)
    drawn = np.bincount([choice.draw(values, noise.at(i)) for i in range(4000)], minlength=4)
    expected = 4000 * np.exp(log_probabilities(choice.rate, values))
    assert ((drawn - expected) ** 2 / expected).sum() < 30  # 3 degrees of freedom
    assert ((drawn - expected[::-1]) ** 2 / expected[::-1]).sum() > 30


PAIRS = all_ways((2, 3, 4), 2)


def test_a_score_is_an_integer_that_one_event_moves_by_at_most_one():
    rng = np.random.default_rng(2)
    for _ in range(20):
        exact, expected = rng.integers(-9, 9, PAIRS.size), rng.normal(0, 5, PAIRS.size)
        record = np.array([[rng.integers(0, size) for size in PAIRS.shape]])
        first, then = (
            scores(PAIRS, exact + sign * PAIRS.tally(record), expected, 1.7) for sign in (0, 1)
        )
        assert first.dtype == np.int64 and np.abs(first - then).max() <= 1


def test_a_workload_that_fits_perfectly_scores_below_one_that_does_not():
    """As published, small workloads would win whatever their error (privacy d2')."""
    two = Marginals((2, 2, 50, 41), ((0, 1), (2, 3)))
    exact = np.zeros(two.size, np.int64)
    two.part(exact, 1)[0, 0] = 100_000
    found = scores(two, exact, np.zeros(two.size), 10.0)
    assert found.tolist() == [-40, 100_000 - 20_500]


def test_workloads_are_taken_in_order_while_there_is_room():
    shape = Schema(a=Integer(0, 9), b=Integer(0, 9), c=Integer(0, 9), d=Integer(0, 1)).shape
    pairs = all_ways(shape, 2)
    fit = JunctionTree(limit=250)
    assert fits(fit, pairs, [pairs.index((0, 1)), pairs.index((1, 2))])
    order = [
        pairs.index(pair) for pair in ((0, 1), (1, 2), (0, 2), (2, 3))
    ]  # the third would close a cycle
    assert within(fit, pairs, order) == [order[0], order[1], order[3]]
