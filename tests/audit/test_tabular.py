"""Streaming MWEM and the tabular stream as published lose more than they claim, on the audits d0 to
d3; the corrected ones do not.
"""

import math

import numpy as np
import pytest

from tailrace import Event, Integer, Noise, PureDP, Schema, papers
from tailrace.audit import attack
from tailrace.audit.gallery import (
    published_exponential_mechanism,
    published_mwem_selection,
    published_mwem_step,
    published_workload_selection,
)
from tailrace.counting.plan import Counts
from tailrace.mechanisms.tabular.workloads import scores

QUERIES = 1000
BITS = Schema(a=Integer(0, 1), b=Integer(0, 1))


def steps(**changes):
    given = {
        "domain": BITS,
        "privacy": PureDP(epsilon=1),
        "unit": Event(),
        "horizon": 10,
        "chosen": 1,
    } | changes
    return papers.streaming_mwem(**given)


def corrected_selection(distances, rate):
    """Log-probabilities of the corrected choice: exp(rate score)."""
    exponents = rate * distances
    return exponents - np.logaddexp.reduce(exponents)


def test_the_printed_exponential_mechanism_picks_the_worst():
    utilities = np.array([10.0, 0.0])
    printed = np.exp(published_exponential_mechanism(utilities, epsilon=1, sensitivity=1))
    assert printed[0] == pytest.approx(0.0067, abs=1e-4)
    assert Noise.insecure(1).at("choice").choose(np.array([10, 0]), 0.5) == 0


def errors(a):
    """Query i counts rows whose attribute i is 0; the rows are (0, 1, ..., 1) and the model is off
    by a. One row of zeros more.
    """
    world, neighbour = np.full(QUERIES, a), np.full(QUERIES, a - 1)
    neighbour[0] = a + 1
    return world, neighbour


def test_printed_mwem_spends_half_as_much_again():
    world, neighbour = errors(5)
    logs = [published_mwem_selection(each, epsilon=1, rounds=1) for each in (world, neighbour)]
    selection = (logs[1] - logs[0]).max()
    assert selection == pytest.approx(0.998, abs=1e-3)
    assert selection + 0.5 > 1.49  # with Laplace noise of scale 2 k / epsilon


@pytest.mark.parametrize("k", [1, 3])
def test_corrected_selection_stays_within_its_budget(k):
    made = papers.tabular_stream(
        domain=Schema(**{name: Integer(0, 1) for name in "abcd"}),
        privacy=PureDP(epsilon=1),
        unit=Event(),
        horizon=10,
        chosen=k,
    )
    world, neighbour = errors(50)
    logs = [corrected_selection(each, float(made.choice.rate)) for each in (world, neighbour)]
    each = np.abs(logs[1] - logs[0]).max()
    budget = made.choice.loss(1, 0).epsilon / k
    assert (
        0.99 * budget < each <= budget
    )  # the attack comes near to it, so it would see an exponent that is twice as large
    assert k * each + float(made.counting.loss(1, 0).epsilon) * k < 1


def test_a_quarter_is_not_the_sensitivity_of_pairs_with_a_single_value():
    world, neighbour = ([np.array([float(e)]) for e in each] for each in errors(5))
    logs = [published_workload_selection(each, epsilon=1, rounds=1) for each in (world, neighbour)]
    assert (logs[1] - logs[0]).max() == pytest.approx(1.994, abs=1e-3)  # of a budget of 1/2


def test_printed_bias_prefers_a_perfect_fit():
    fitted, off = np.zeros(4), np.full(50 * 41, 1e5 / (50 * 41))
    log = published_workload_selection([fitted, off], epsilon=1, rounds=1)
    assert log[0] > math.log(0.999)


def test_one_row_moves_our_scores_by_at_most_one():
    made = papers.tabular_stream(
        domain=Schema(a=Integer(0, 1), b=Integer(0, 2), one=Integer(5, 5), c=Integer(0, 4)),
        privacy=PureDP(epsilon=1),
        unit=Event(),
        horizon=10,
    )
    assert all(2 not in clique for clique in made.marginals.cliques)  # a single value tells nothing
    rng = np.random.default_rng(3)
    most = 0
    for _ in range(200):
        digits = np.column_stack([rng.integers(0, size, 20) for size in made.domain.shape])
        expected = rng.normal(3, 5, made.marginals.size)
        fewer, more = (
            scores(made.marginals, made.marginals.tally(rows), expected, 2.5)
            for rows in (digits[1:], digits)
        )
        most = max(most, int(np.abs(more - fewer).max()))
    assert most == 1


def test_the_printed_total_is_the_true_one():
    model, batch = np.ones(4), np.array([20, 10, 10, 10])
    totals = [
        published_mwem_step(model, 0, 20.0, batch + extra).sum()
        for extra in (0, np.array([1, 0, 0, 0]))
    ]
    assert totals == pytest.approx([50, 51])  # with probability one


def released_totals(made):
    def run(inputs, noise):
        out = np.empty(inputs.shape[1])
        for copy in range(inputs.shape[1]):
            cells = np.zeros(4, np.int64)
            cells[0] = inputs[0, copy]
            step = made.measure(made.init(), Counts(cells, np.zeros_like(cells)), noise.at(copy))
            out[copy] = float(step.state.public.total)
        return out[None]

    return run


def test_our_total_is_noisy():
    made = steps()
    found = attack(
        released_totals(made),
        world=np.array([51]),
        neighbour=np.array([50]),
        event=lambda out: out[0] >= 51,
        claimed=float(made.totals.loss(1, 0).epsilon),
        copies=600,
        noise=Noise.insecure(7),
    )
    assert not found.refuted
    assert abs(found.estimate) < 1


def test_an_empty_batch_is_a_step_like_any_other():
    made = steps()
    nothing = np.zeros(4, np.int64)
    step = made.measure(made.init(), Counts(nothing, nothing), Noise.insecure(1))
    assert np.isfinite(step.state.public.total)
