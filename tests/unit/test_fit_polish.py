import numpy as np
import pytest

from tailrace.fit.polish import polished
from tailrace.marginals import Marginals, all_ways


def pairs():
    return all_ways((3, 2, 4, 2), 2)


def rows(many, seed=0):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, many)
    return np.column_stack([first, first % 2, rng.integers(0, 4, many), rng.integers(0, 2, many)])


def error(table, marginals, wanted, weights):
    squares = (marginals.tally(table) - wanted) ** 2
    return float(weights @ np.add.reduceat(squares, marginals.offsets[:-1]))


def test_every_pair_is_met_from_independent_columns():
    marginals, true = pairs(), rows(2000)
    wanted, weights = marginals.tally(true).astype(float), np.ones(6)
    rng = np.random.default_rng(1)
    shuffled = np.column_stack([rng.permutation(column) for column in true.T])
    before = np.abs(marginals.tally(shuffled) - wanted).mean()
    after = np.abs(marginals.tally(polished(shuffled, marginals, wanted, weights, rng, sweeps=30)) - wanted).mean()
    assert before > 40
    assert after < 1


def test_a_table_that_fits_stays_as_it_is():
    marginals, true = pairs(), rows(500)
    again = polished(
        true, marginals, marginals.tally(true).astype(float), np.ones(6), np.random.default_rng(1), sweeps=5
    )
    assert np.array_equal(again, true)


def test_each_sweep_brings_it_nearer_by_the_weights():
    marginals, weights = pairs(), np.array([1, 0, 3, 0.5, 0, 2])
    wanted = marginals.tally(rows(800, seed=2)) + np.random.default_rng(3).normal(0, 4, marginals.size)
    table, errors = rows(800), []
    for sweep in range(4):
        errors.append(error(table, marginals, wanted, weights))
        table = polished(table, marginals, wanted, weights, np.random.default_rng(sweep), sweeps=1)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 2


def test_what_has_no_weight_is_not_looked_at():
    marginals = Marginals(shape=(2, 2, 2), cliques=((0, 1), (1, 2)))
    table = np.zeros((50, 3), np.int32)
    wanted = np.full(8, 12.5)
    found = polished(table, marginals, wanted, np.array([1.0, 0.0]), np.random.default_rng(1), sweeps=20)
    assert not found[:, 2].any()
    assert np.abs(marginals.part(marginals.tally(found), 0) - 12.5).max() < 1


@pytest.mark.parametrize("clique", [(0,), (0, 1, 2)])
def test_marginals_of_one_and_of_three_columns(clique):
    marginals = Marginals(shape=(2, 3, 2), cliques=(clique,))
    wanted = np.round(np.random.default_rng(5).dirichlet(np.ones(marginals.size)) * 600)
    table = np.zeros((int(wanted.sum()), 3), np.int32)
    found = polished(table, marginals, wanted, np.ones(1), np.random.default_rng(1), sweeps=200)
    assert np.abs(marginals.tally(found) - wanted).max() <= 1


def test_nothing_to_do():
    marginals = pairs()
    assert (
        len(
            polished(
                np.zeros((0, 4), np.int32),
                marginals,
                np.zeros(marginals.size),
                np.ones(6),
                np.random.default_rng(1),
                sweeps=3,
            )
        )
        == 0
    )
    assert np.array_equal(
        polished(rows(9), marginals, np.zeros(marginals.size), np.zeros(6), np.random.default_rng(1), sweeps=3), rows(9)
    )
