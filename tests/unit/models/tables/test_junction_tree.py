"""Fits on junction trees: what they find, what they refuse, and how they start from one another."""

from itertools import combinations, compress

import numpy as np
import pytest

from tailrace.errors import ConfigError, DataError, Mismatch
from tailrace.models.tables import JunctionTree, Measured, junction_tree, kernel
from tailrace.models.tables.tree import tree_cells, tree_cliques

EXACT = JunctionTree(smoothing=1e-5, tolerance=1e-10, rounds=300)
SHAPE = (3, 4, 2, 5)


def table(seed, shape=SHAPE, total=1000.0):
    size = int(np.prod(shape))
    return np.random.default_rng(seed).dirichlet(np.ones(size)).reshape(shape) * total


def measured(counts, cliques, deviation=5.0, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for clique in cliques:
        marginal = counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in clique))
        found.append(
            Measured(
                clique,
                marginal + rng.normal(0, deviation, marginal.shape),
                max(deviation, 1e-3) ** 2,
            )
        )
    return found


def loss(model, found):
    marginals = model.marginals([one.clique for one in found])
    return (
        sum(
            float(((mu - one.counts) ** 2).sum() / one.variance)
            for mu, one in zip(marginals, found, strict=True)
        )
        / 2
    )


def test_marginals_measured_without_noise_are_met():
    counts, cliques = table(1), [(0, 1), (1, 2), (2, 3), (0, 3)]
    model = JunctionTree(smoothing=1e-3).fit(SHAPE, measured(counts, cliques, 0.0), total=1000)
    for clique, found in zip(cliques, model.marginals(cliques), strict=True):
        expected = counts.sum(axis=tuple(axis for axis in range(4) if axis not in clique))
        np.testing.assert_allclose(found, expected, atol=0.02)


def test_what_was_not_measured_is_even_and_independent():
    model = EXACT.fit(SHAPE, [Measured((0,), np.array([5.0, 3.0, 2.0]), 1.0)], total=10)
    np.testing.assert_allclose(
        model.marginals([(0, 3)])[0], np.outer([5, 3, 2], np.full(5, 0.2)), atol=1e-3
    )
    nothing = EXACT.fit(SHAPE, [], total=24)
    np.testing.assert_allclose(nothing.marginals([(0, 2)])[0], 4.0)


def test_two_measurements_of_a_clique_count_by_how_sure_they_are():
    one, other = np.array([8.0, 2.0]), np.array([5.0, 5.0])
    model = EXACT.fit((2,), [Measured((0,), one, 1.0), Measured((0,), other, 2.0)], total=10)
    np.testing.assert_allclose(model.marginals([(0,)])[0], (2 * one + other) / 3, atol=1e-3)


def test_the_order_of_a_cliques_attributes_is_its_own():
    found = measured(table(2), [(0, 1), (1, 3)])
    turned = [
        Measured(one.clique[::-1], one.counts.T, np.full(one.counts.T.shape, one.variance))
        for one in found
    ]
    one, other = EXACT.fit(SHAPE, found, total=1000), EXACT.fit(SHAPE, turned, total=1000)
    np.testing.assert_allclose(
        one.marginals([(3, 0)])[0], other.marginals([(0, 3)])[0].T, rtol=1e-6, atol=1e-6
    )


def test_impossible_measurements_are_met_as_nearly_as_a_table_can():
    """Negative counts become empty cells, and what is above the total is shared out."""
    model = EXACT.fit((3,), [Measured((0,), np.array([-4.0, 6.0, 7.0]), 1.0)], total=10)
    np.testing.assert_allclose(model.marginals([(0,)])[0], [0.0, 4.5, 5.5], atol=1e-2)


@pytest.mark.parametrize("deviation", [1.0, 20.0, 400.0])
def test_the_loss_falls_in_every_round(monkeypatch, deviation):
    cliques = list(combinations(range(4), 2))
    seen, point_at = [], junction_tree.point_at
    monkeypatch.setattr(
        junction_tree, "point_at", lambda *given: seen.append(point_at(*given)) or seen[-1]
    )
    found = measured(table(3, total=5e4), cliques, deviation)
    model = JunctionTree(tolerance=1e-6).fit(SHAPE, found, total=5e4)
    kept = [seen[0].loss]
    for point in seen[1:]:
        kept += [point.loss] if point.loss < kept[-1] else []
    assert len(kept) > 3 and len(kept) >= len(seen) / 2
    assert np.array_equal(
        model.values, next(point.potentials for point in seen if point.loss == kept[-1])
    )


def test_a_step_that_does_not_help_is_not_taken(monkeypatch):
    """Where a step, a quarter of it and a sixteenth all raise the loss, the next round starts from
    the same place.
    """
    steps = kernel.conjugate_step
    monkeypatch.setattr(kernel, "conjugate_step", lambda *given: (-steps(*given)[0], 1e9))
    model = JunctionTree().fit(SHAPE, measured(table(3), [(0, 1), (1, 2)]), total=1000)
    assert not model.values.any()


def test_a_warm_start_ends_where_a_cold_one_does():
    cliques = [(0, 1), (1, 2), (2, 3), (0, 3)]
    fit = JunctionTree(tolerance=1e-10, rounds=300)
    cold = fit.fit(SHAPE, measured(table(4), cliques, seed=1), total=1000)
    other = fit.fit(SHAPE, measured(table(5), [(0, 1, 2), (2, 3), (1, 3)], seed=2), total=300)
    warm = fit.fit(SHAPE, measured(table(4), cliques, seed=1), total=1000, start=other)
    for one, two in zip(warm.marginals(cliques), cold.marginals(cliques), strict=True):
        np.testing.assert_allclose(one, two, atol=0.01)


def test_a_warm_start_is_nearer_from_the_first():
    """Potentials of cliques that are measured again are taken over whole, of others what each
    attribute does alone.
    """
    counts = table(6)
    start = EXACT.fit(SHAPE, measured(counts, [(0, 1), (1, 2), (0, 3)], 0.1), total=1000)
    again = measured(counts, [(0, 1, 2), (2, 3)], 0.1)
    once = JunctionTree(rounds=1)
    assert (
        loss(once.fit(SHAPE, again, total=1000, start=start), again)
        < loss(once.fit(SHAPE, again, total=1000), again) / 2
    )


def test_a_fit_that_keeps_its_start_moves_only_what_is_measured():
    """The new model is the start times factors of the measured cells, so given those cells nothing
    else moved.
    """
    start = EXACT.fit(SHAPE, measured(table(6), [(0, 1), (1, 2), (2, 3)], 0.1), total=1000)
    again = measured(table(9), [(0, 1)], 0.1)
    model = EXACT.fit(SHAPE, again, total=2000, start=start, keep=True)
    every = (0, 1, 2, 3)
    (one,), (other,) = start.marginals([every]), model.marginals([every])
    np.testing.assert_allclose(
        one / one.sum(axis=(2, 3), keepdims=True),
        other / other.sum(axis=(2, 3), keepdims=True),
        rtol=1e-6,
    )
    doubled = [Measured((0, 1), 2 * again[0].counts, again[0].variance)]
    twice = EXACT.fit(SHAPE, doubled, total=2000, start=start, keep=True)
    np.testing.assert_allclose(twice.marginals([(0, 1)])[0], doubled[0].counts, atol=0.5)
    forgotten = EXACT.fit(SHAPE, doubled, total=2000, start=start)
    assert np.ptp(forgotten.marginals([(2, 3)])[0] / twice.marginals([(2, 3)])[0]) > 0.2


def test_where_there_is_no_room_for_all_the_weakest_tie_goes():
    strong, weak = (
        np.array([[400.0, 100.0], [100.0, 400.0]]),
        np.array([[260.0, 240.0], [240.0, 260.0]]),
    )
    found = [
        Measured((0, 1), strong, 1.0),
        Measured((1, 2), weak, 1.0),
        Measured((0, 3), strong, 1.0),
    ]
    start = EXACT.fit((2, 2, 2, 2), found, total=1000)
    small = JunctionTree(smoothing=1e-5, tolerance=1e-10, rounds=300, limit=12)
    model = small.fit(
        (2, 2, 2, 2), [Measured((2, 3), strong, 1.0)], total=1000, start=start, keep=True
    )
    assert tree_cells((2, 2, 2, 2), model.tree.potentials) <= 12
    assert set(model.tree.potentials) == {(0, 1), (0, 3), (2, 3)}
    for clique in ((0, 1), (0, 3), (2, 3)):
        np.testing.assert_allclose(model.marginals([clique])[0], strong, atol=1)


def test_fits_that_keep_their_start_stay_bounded():
    model, cliques = None, [(0, 1), (1, 2), (2, 3), (0, 3)]
    for seed in range(40):
        one = measured(table(7), [cliques[seed % 4]], 5.0, seed=seed)
        model = JunctionTree().fit(SHAPE, one, total=1000, start=model, keep=True)
    assert np.abs(model.values).max() < 60
    assert loss(model, measured(table(7), cliques, 5.0, seed=39)) < 120


def test_a_cell_that_vanished_comes_back():
    fit = JunctionTree(smoothing=1e-4, tolerance=1e-6)
    empty, back = (
        np.array([[500.0, -30.0], [300.0, 200.0]]),
        np.array([[300.0, 200.0], [300.0, 200.0]]),
    )
    model = None
    for _ in range(20):
        model = fit.fit((2, 2), [Measured((0, 1), empty, 1.0)], total=1000, start=model)
    assert model.marginals([(0, 1)])[0][0, 1] < 0.01
    model = JunctionTree().fit((2, 2), [Measured((0, 1), back, 1.0)], total=1000, start=model)
    np.testing.assert_allclose(model.marginals([(0, 1)])[0], back, atol=2)


def test_potentials_stay_bounded_over_many_fits():
    cliques, model = [(0, 1), (1, 2), (2, 3), (0, 3)], None
    for seed in range(40):
        model = JunctionTree().fit(
            SHAPE, measured(table(7), cliques, 5.0, seed=seed), total=1000, start=model
        )
    assert np.abs(model.values).max() < 30
    assert loss(model, measured(table(7), cliques, 5.0, seed=39)) < 40


def test_fits_are_repeatable():
    found = measured(table(8), [(0, 1), (1, 2), (2, 3)])
    one, other = (
        JunctionTree().fit(SHAPE, found, total=1000),
        JunctionTree().fit(SHAPE, found, total=1000),
    )
    assert np.array_equal(one.values, other.values)


def test_smoothing_pulls_towards_an_even_table():
    found = [Measured((0,), np.array([90.0, 10.0]), 100.0)]
    firsts = [
        JunctionTree(smoothing=s).fit((2,), found, total=100).marginals([(0,)])[0][0]
        for s in (0.01, 1.0, 10.0)
    ]
    assert 90 > firsts[0] > firsts[1] > firsts[2] > 50


def test_a_total_of_nothing_gives_nothing():
    model = JunctionTree().fit(SHAPE, measured(table(1), [(0, 1)]), total=-3.0)
    assert model.total == 0 and not model.marginals([(0, 1), (0, 3)])[1].any()


def test_cells_and_the_limit():
    ring = [(0, 1), (1, 2), (2, 3), (0, 3)]
    fit = JunctionTree(limit=60)
    assert fit.cells(SHAPE, ring[:3]) == 12 + 8 + 10
    assert fit.cells(SHAPE, ring) == tree_cells(SHAPE, ring) == 3 * 4 * 2 + 3 * 2 * 5
    fit.fit(SHAPE, measured(table(1), ring), total=1000)
    with pytest.raises(ConfigError, match="over 53 cells"):
        JunctionTree(limit=53).fit(SHAPE, measured(table(1), ring), total=1000)
    assert fit.cells((2,) * 80, [tuple(range(80))]) == 2**80


def test_elimination_finds_the_cliques_of_a_chordal_graph():
    triangles = [(i, i + 1, i + 2) for i in range(8)]
    assert set(tree_cliques((2, 3, 4, 5, 2, 3, 4, 5, 2, 3), triangles)) == set(triangles)


@pytest.mark.parametrize(
    ("clique", "counts", "variance", "error"),
    [
        ((0, 4), np.zeros((3, 5)), 1.0, ConfigError),
        ((0, 0), np.zeros((3, 3)), 1.0, ConfigError),
        ((0, 1), np.zeros((4, 3)), 1.0, DataError),
        ((0, 1), np.zeros((3, 4)), 0.0, ConfigError),
        ((0, 1), np.zeros((3, 4)), np.inf, ConfigError),
    ],
)
def test_measurements_of_another_shape_are_refused(clique, counts, variance, error):
    with pytest.raises(error):
        JunctionTree().fit(SHAPE, [Measured(clique, counts, variance)], total=10)


def test_a_start_of_another_schema_is_refused():
    start = JunctionTree().fit((3, 4), [], total=1)
    with pytest.raises(ConfigError, match="schema"):
        JunctionTree().fit(SHAPE, [], total=1, start=start)


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"rounds": 0}, {"smoothing": 0.0}, {"tolerance": -1.0}]
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError):
        JunctionTree(**wrong)


def test_a_damaged_model_is_refused():
    structure, values = (
        JunctionTree().fit(SHAPE, measured(table(1), [(0, 1), (1, 2)]), total=1000).pack()
    )
    wrong = [
        (structure[:-1], values),
        (structure, values[:-1]),
        (structure[:1], values),
        (structure + 1, values),
    ]
    wrong += [(np.append(structure, 0), values), (np.zeros(2, np.int64), values[:0])]
    for numbers, flat in wrong:
        with pytest.raises(Mismatch):
            JunctionTree().unpack(SHAPE, numbers, flat, 1000.0)


def test_room_asks_for_all_what_cells_says_of_each():
    """`room` shortens the way; it ends where eliminating for every clique ends."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        columns = int(rng.integers(3, 12))
        shape = tuple(rng.integers(2, 9, columns).tolist())
        pairs = rng.permutation(list(combinations(range(columns), 2)))
        pairs = [tuple(pair) for pair in pairs.tolist()]
        fit = JunctionTree(limit=int(rng.integers(sum(shape) + 64, 2000)))
        held = list(compress(pairs, fit.room(shape, (), pairs, together=True)))
        one_by_one = []
        for pair in pairs:
            if fit.cells(shape, [*one_by_one, pair]) <= fit.limit:
                one_by_one.append(pair)
        assert held == one_by_one and fit.cells(shape, held) <= fit.limit
        alone = fit.room(shape, held[:3], pairs)
        assert alone == [fit.cells(shape, [*held[:3], pair]) <= fit.limit for pair in pairs]


def test_bounded_work_goes_on_to_the_same_model():
    """A fit cut into pieces says that it is not done, and ends where a whole one ends."""
    cliques, fit = [(0, 1), (1, 2), (2, 3), (0, 2)], JunctionTree(tolerance=1e-4)
    found = measured(table(7), cliques)
    whole, model = fit.fit(SHAPE, found, total=1000.0), None
    pieces = []
    while len(pieces) < 100 and (model is None or not model.settled):
        model = fit.fit(SHAPE, found, total=1000.0, start=model, work=1)
        pieces.append(model)
    assert 2 < len(pieces) < 100 and model.settled and whole.settled
    for one, other in zip(whole.marginals(cliques), model.marginals(cliques), strict=True):
        assert np.allclose(one, other, atol=0.5)
