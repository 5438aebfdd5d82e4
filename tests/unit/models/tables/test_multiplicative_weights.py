"""Multiplicative weights, and mbi's estimator as an oracle."""

import sys
from itertools import combinations

import numpy as np
import pytest

from tailrace.errors import ConfigError, Mismatch
from tailrace.models.tables import PGM, JunctionTree, Measured, MultiplicativeWeights

SHAPE = (3, 4, 2)
PAIRS = list(combinations(range(3), 2))


def measured(deviation, seed=0, total=1000.0):
    rng = np.random.default_rng(seed)
    counts = rng.dirichlet(np.ones(24)).reshape(SHAPE) * total
    found = []
    for pair in PAIRS:
        marginal = counts.sum(axis=tuple(axis for axis in range(3) if axis not in pair))
        found.append(
            Measured(
                pair, marginal + rng.normal(0, deviation, marginal.shape), max(deviation, 1.0) ** 2
            )
        )
    return found


def loss(model, found):
    marginals = model.marginals([one.clique for one in found])
    away = [
        ((mu - one.counts) ** 2 / one.variance).sum()
        for mu, one in zip(marginals, found, strict=True)
    ]
    return float(sum(away)) / 2


def test_weights_come_near_to_what_was_measured():
    found = measured(0.0)
    losses = [
        loss(MultiplicativeWeights(rounds=rounds).fit(SHAPE, found, total=1000), found)
        for rounds in (1, 10, 100, 2000)
    ]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0] / 10000


def test_weights_make_the_update_of_the_paper():
    """One round with one measurement: each cell times the exponential of what its marginal misses,
    over twice the total.
    """
    found = Measured((1,), np.array([4.0, 1.0, 1.0, 2.0]), 1.0)
    model = MultiplicativeWeights(rounds=1).fit(SHAPE, [found], total=8)
    weights = np.exp((found.counts - 2) / 16)
    np.testing.assert_allclose(model.marginals([(1,)])[0], 8 * weights / weights.sum())
    np.testing.assert_allclose(model.marginals([(2, 0)])[0], 8 / 6)


def test_less_sure_measurements_move_less():
    sure, unsure = (
        Measured((0,), np.array([9.0, 0, 0]), 1.0),
        Measured((2,), np.array([9.0, 0]), 100.0),
    )
    model = MultiplicativeWeights(rounds=1).fit(SHAPE, [sure, unsure], total=9)
    first, second = model.marginals([(0,), (2,)])
    assert first[0] - 3 > 10 * (second[0] - 4.5) > 0


def test_weights_go_on_from_a_start():
    found = measured(5.0)
    half = MultiplicativeWeights(rounds=10).fit(SHAPE, found, total=1000)
    whole = MultiplicativeWeights(rounds=20).fit(SHAPE, found, total=1000)
    again = MultiplicativeWeights(rounds=10).fit(SHAPE, found, total=1000, start=half)
    np.testing.assert_allclose(again.probabilities, whole.probabilities)


def test_weights_of_noise_alone_do_not_overflow():
    model = MultiplicativeWeights().fit(
        SHAPE, [Measured((0, 1), np.full((3, 4), 1e9), 1e12)], total=1
    )
    assert np.isfinite(model.probabilities).all()
    assert MultiplicativeWeights().fit(SHAPE, measured(1.0), total=-5).total == 0


def test_the_full_table_has_a_limit():
    fit = MultiplicativeWeights(limit=24)
    assert fit.cells(SHAPE, []) == 24 and fit.cells((1000,) * 20, []) == 1000**20
    with pytest.raises(ConfigError, match="JunctionTree"):
        fit.fit((5, 5), [], total=1)
    with pytest.raises(ConfigError):
        MultiplicativeWeights(rounds=0)


def test_a_table_comes_back_from_what_it_packs():
    fit = MultiplicativeWeights()
    model = fit.fit(SHAPE, measured(5.0), total=1000)
    again = fit.unpack(SHAPE, *model.pack(), 1000.0)
    assert np.array_equal(again.probabilities, model.probabilities) and again.shape == SHAPE
    with pytest.raises(Mismatch):
        fit.unpack((4, 3, 2), *model.pack(), 1000.0)


def test_without_mbi_there_is_no_pgm(monkeypatch):
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(ConfigError, match=r"tailrace\[pgm\]"):
        PGM().fit(SHAPE, measured(5.0), total=1000)


@pytest.mark.slow
@pytest.mark.parametrize("each_cell", [False, True])
def test_a_junction_tree_finds_what_mbi_finds(each_cell):
    pytest.importorskip("mbi", reason="mbi is not installed")
    found = measured(8.0, seed=3)
    if each_cell:
        variances = np.random.default_rng(1).uniform(20, 90, 30)
        found = [
            Measured(one.clique, one.counts, variances[: one.counts.size].reshape(one.counts.shape))
            for one in found
        ]
    ours = JunctionTree(smoothing=1e-5, tolerance=1e-10, rounds=300).fit(SHAPE, found, total=1000)
    theirs = PGM(rounds=5000).fit(SHAPE, found, total=1000)
    assert loss(ours, found) == pytest.approx(loss(theirs, found), rel=1e-4)
    for one, other in zip(ours.marginals(PAIRS), theirs.marginals(PAIRS), strict=True):
        np.testing.assert_allclose(one, other, atol=0.2)
    moved = [Measured(found[0].clique, found[0].counts[::-1], found[0].variance)]
    one, other = (
        fit.fit(SHAPE, moved, total=1000, start=ours, keep=True)
        for fit in (JunctionTree(smoothing=1e-5, tolerance=1e-10, rounds=300), PGM(rounds=5000))
    )
    for mine, his in zip(one.marginals(PAIRS), other.marginals(PAIRS), strict=True):
        np.testing.assert_allclose(mine, his, atol=0.5)
    again = PGM(rounds=50).fit(SHAPE, found, total=1000, start=theirs)
    assert loss(again, found) <= loss(theirs, found) + 1e-6
    packed = PGM().unpack(SHAPE, *theirs.pack(), 1000.0)
    assert np.array_equal(packed.marginals(PAIRS)[0], theirs.marginals(PAIRS)[0])
