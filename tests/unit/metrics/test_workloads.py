import numpy as np
import pytest

from tailrace import DataError
from tailrace.counting.marginals import Marginals, all_ways
from tailrace.metrics import workload_error

TWO = Marginals(shape=(2, 4), cliques=((0,), (1,)))


def test_errors_are_of_proportions_workload_by_workload():
    true = np.array([6, 2, 4, 2, 2, 0])
    synthetic = np.array([30, 10, 10, 10, 10, 10])  # another total: only proportions count
    error = workload_error(true, synthetic, TWO)
    assert np.allclose(error.absolute, [0, (0.25 + 0 + 0 + 0.25) / 4])
    assert np.allclose(
        error.relative, [0, (0.5 + 0 + 0) / 3]
    )  # the cell without true rows is left out
    assert np.allclose(error.variation, [0, 0.25])
    assert np.allclose(
        [error.average, error.largest, error.average_variation], [0.0625, 0.125, 0.125]
    )
    assert np.allclose([error.average_relative, error.largest_relative], [1 / 12, 1 / 6])


def test_each_workload_is_divided_by_its_own_total():
    true = np.array([6, 2, 4, 2, 2, 0])
    noisy = true * np.array([3.0, 3, 5, 5, 5, 5])  # as measurements may be: totals disagree
    error = workload_error(true, noisy, TWO)
    assert np.allclose([error.average, error.average_relative, error.average_variation], 0)


def test_the_formula_cell_by_cell():
    rng = np.random.default_rng(0)
    pairs = all_ways((3, 4, 2, 5), 2)
    f, g = (
        pairs.tally(np.stack([rng.integers(0, size, n) for size in pairs.shape], axis=1))
        for n in (80, 50)
    )
    error = workload_error(f, g, pairs)
    for i in range(len(pairs.cliques)):
        p, q = (pairs.part(flat, i).ravel() / pairs.part(flat, i).sum() for flat in (f, g))
        cells = [(abs(x - y), abs(x - y) / x if x else None) for x, y in zip(p, q, strict=True)]
        shares = [share for _, share in cells if share is not None]
        assert error.absolute[i] == pytest.approx(sum(off for off, _ in cells) / len(cells))
        assert error.relative[i] == pytest.approx(sum(shares) / len(shares))
        assert error.variation[i] == pytest.approx(sum(off for off, _ in cells) / 2)
    assert (
        error.largest >= error.average > 0 and error.largest_relative >= error.average_relative > 0
    )


def test_empty_tables():
    true, nothing = np.array([6, 2, 4, 2, 2, 0]), np.zeros(6, int)
    error = workload_error(true, nothing, TWO)
    assert (
        np.allclose(error.absolute, [0.5, 0.25])
        and np.allclose(error.relative, 1)
        and np.allclose(error.variation, 0.5)
    )
    assert np.isnan(workload_error(nothing, true, TWO).average)


def test_counts_must_be_those_of_the_marginals():
    with pytest.raises(DataError, match="flat arrays of 6 numbers"):
        workload_error(np.zeros(5), np.zeros(6), TWO)
    with pytest.raises(DataError, match="flat arrays of 6 numbers"):
        workload_error(np.zeros(6), np.zeros((2, 3)), TWO)
