"""The meter: what it reads off replayed runs, exactly."""

from fractions import Fraction

import numpy as np
import pytest

from tailrace import ZCDP, ApproxDP, Noise, PureDP, counters
from tailrace.checks.meter import Measured, Meter, Tracked


def replayed(run, before, after):
    """What a program of `run(noise, data)` costs, and its outputs in both worlds."""
    meter = Meter(Noise.insecure(1))
    one = run(meter, before)
    meter.replay()
    return one, run(meter, after), meter.loss()


def test_the_second_world_gets_the_noisy_numbers_of_the_first_and_pays_for_the_shift():
    def run(noise, counts):
        return (
            counts + noise.laplace(4, 3),
            noise.at("g").gaussian(2, 3) + counts,
            9 - noise.at("m").laplace(2, ()),
        )

    before, after, loss = replayed(run, np.array([5, 0, 2]), np.array([5, 1, 0]))
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert not any(isinstance(value, Tracked) for value in before)
    assert loss == Measured(
        None, (Fraction(1, 4) ** 2 + Fraction(2, 4) ** 2) / 2 + Fraction(1 + 4, 4)
    )


def test_noise_that_is_subtracted_first_moves_what_it_was_subtracted_from():
    def run(noise, x):
        top, later = noise.laplace(1, 1), noise.at("later").laplace(1, (2, 1))
        return x[0] + (top - later.sum(axis=0)), x[1] + later[0], x[2] + later[1]

    loss = replayed(run, np.zeros((3, 1), int), np.array([[1], [0], [2]]))[2]
    assert loss.epsilon == 2 + abs(-1 - 2)  # later[1] by -2, and with it top by -3


def test_a_threshold_is_charged_once_and_positive_answers_for_both_moves():
    """Distances rise by one: the threshold rises, negative answers are free."""

    def run(noise, distances):
        threshold = noise.at("threshold").laplace(10, ())
        drawn = [noise.at("distance", t).laplace(30, ()) for t in range(len(distances))]
        return [bool(z - threshold >= 5 - d) for z, d in zip(drawn, distances, strict=True)]

    answers, again, up = replayed(run, [0] * 40, [1] * 40)
    assert answers == again and 0 < sum(answers) < 40
    down = replayed(run, [1] * 40, [0] * 40)[2]
    assert up.epsilon == Fraction(1, 10)  # the positive ones gain what they need
    positive = sum(replayed(run, [1] * 40, [0] * 40)[0])
    assert down.epsilon == Fraction(positive, 30)
    both = replayed(run, [0, 1] * 20, [1, 0] * 20)
    assert both[2].epsilon == Fraction(1, 10) + Fraction(2 * sum(both[0][1::2]), 30)
    assert both[2].rho == both[2].epsilon ** 2 / 2


def test_choices_and_coins_cost_their_odds():
    chosen = replayed(
        lambda noise, scores: noise.choose(scores, Fraction(1, 3)),
        np.array([4, 2]),
        np.array([3, 3]),
    )
    assert chosen[0] == chosen[1] and chosen[2].epsilon == Fraction(2, 3)
    assert chosen[2].rho == Fraction(2, 3) ** 2 / 8
    coins = replayed(
        lambda noise, excess: noise.coin(excess, 2), np.array([-40, 3]), np.array([-41, 3])
    )
    assert (
        np.array_equal(coins[0], coins[1])
        and 0 <= float(coins[2].epsilon) < 1e-8
        and not coins[2].exact
    )
    assert 0.49 < float(coins[2].rho * 8) ** 0.5 < 0.51  # the other outcome would have cost 1 / 2


@pytest.mark.parametrize(
    ("run", "promise"),
    [
        (lambda noise, x: x + noise.laplace(1, 1), "in the shape of the counts"),
        (lambda noise, x: x + noise.laplace(1, 3)[[0, 0, 1]], "added to one count"),
        (lambda noise, x: [x + drawn for drawn in [noise.laplace(1, 3)] * 2], "added to one count"),
        (lambda noise, x: x / 2 + noise.laplace(1, 3), "added to integers"),
        (lambda noise, x: [noise.laplace(1, 3), noise.laplace(1, 3)], "drawn from once"),
        (lambda noise, x: noise.laplace(1 + int(x[0]), 3), "released numbers only"),
        (lambda noise, x: noise.at("a" if x[0] else "b").laplace(1, 3), "released numbers only"),
        (
            lambda noise, x: x + noise.laplace(1, 3) if x[0] else noise.laplace(1, 3),
            "released numbers only",
        ),
    ],
)
def test_noise_that_is_used_otherwise_is_refused(run, promise):
    with pytest.raises(AssertionError, match=promise):
        replayed(run, np.zeros(3, int), np.ones(3, int))


def test_what_is_left_of_noise_is_an_ordinary_number():
    """Then it is the same in both worlds, and the sum is not: the suite sees that in the public
    state.
    """
    before, after, _ = replayed(
        lambda noise, x: x + np.repeat(noise.laplace(9, 1), 3), np.zeros(3, int), np.ones(3, int)
    )
    assert np.array_equal(after - before, np.ones(3))


def test_sums_in_place_are_seen():
    def run(noise, x):
        sums, drawn = x.copy(), noise.at("b").laplace(1, 2)
        sums += noise.laplace(1, 2)
        drawn += x
        return sums, drawn

    before, after, loss = replayed(run, np.zeros(2, int), np.ones(2, int))
    assert np.array_equal(before, after) and loss.epsilon == 4


def test_a_claim_of_another_kind_is_compared_through_what_it_was_made_of():
    moved = Measured(None, Fraction(1, 10))
    assert moved.share(PureDP(epsilon=9)) is None and not moved.within(PureDP(epsilon=9))
    assert (
        moved.share(ZCDP(rho=0.2))
        == Fraction(1, 2)
        == moved.share(ZCDP(rho=0.2).as_approx(delta=1e-6))
    )
    assert Measured(Fraction(1, 2), Fraction(1, 8)).share(
        ApproxDP(epsilon=1, delta=1e-6)
    ) == Fraction(1, 2)


@pytest.mark.parametrize("horizon", [1, 2, 5, 9, 14, 27])
@pytest.mark.parametrize("arity", [3, 5])
def test_a_counter_that_subtracts_costs_what_it_claims_and_no_less(arity, horizon):
    """Of all events, the worst costs the whole claim: no noise is wasted either."""
    counter = counters.KaryTree(privacy=PureDP(epsilon=1), arity=arity, levels=2, horizon=horizon)
    meter, shares = Meter(Noise.insecure(1)), []

    def run(event):
        state, found = counter.init(1), []
        for t in range(horizon):
            state, estimate = counter.step(state, np.array([int(t == event)]), meter.at(t))
            found.append(int(estimate[0]))
        return found

    before = run(None)
    for event in range(horizon):
        meter.replay()
        assert run(event) == before
        shares.append(meter.loss().share(counter.loss(1)))
    assert max(shares) == 1
