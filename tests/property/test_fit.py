"""Junction trees against full tables: every sum, mean and marginal of a small model can be found by
brute force.
"""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.errors import ConfigError
from tailrace.models.tables import JunctionTree, Measured, MultiplicativeWeights, TreeModel
from tailrace.models.tables.junction_tree import absorbed, calibrated
from tailrace.models.tables.kernel import moved
from tailrace.models.tables.tree import in_tree_order, tree_cells, tree_cliques, tree_of

sides = st.lists(st.integers(1, 4), min_size=1, max_size=6).map(tuple)


@st.composite
def graphs(draw):
    """(shape, cliques): up to six attributes, some of a single value, and cliques of up to three of
    them in any order.
    """
    shape = draw(sides)
    clique = st.permutations(range(len(shape))).flatmap(
        lambda order: st.integers(0, 3).map(lambda n: tuple(order[:n]))
    )
    cliques = draw(st.lists(clique, max_size=6, unique_by=frozenset))
    return shape, cliques


@st.composite
def models(draw):
    """A model with random potentials, some of them extreme."""
    shape, cliques = draw(graphs())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tree = tree_of(shape, tree_cliques(shape, cliques), cliques)
    scale = draw(st.sampled_from([0.0, 1.0, 30.0, 1000.0]))
    potentials = [
        (clique, scale * rng.normal(size=tree.sizes(clique))) for clique in tree.potentials
    ]
    return TreeModel(tree, absorbed(tree, potentials), draw(st.sampled_from([1.0, 250.0])))


def full(model):
    """(counts of every cell, log of the partition function), from the potentials alone."""
    logs = np.zeros(model.shape)
    for clique, potential in model.potentials:
        logs += potential.transpose(np.argsort(clique)).reshape(
            [side if axis in clique else 1 for axis, side in enumerate(model.shape)]
        )
    top = logs.max()
    weights = np.exp(logs - top)
    return model.total * weights / weights.sum(), top + np.log(weights.sum())


def projected(table, clique):
    kept = sorted(clique)
    summed = table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in clique))
    return summed.transpose([kept.index(one) for one in clique])


@given(graphs())
def test_a_tree_holds_every_clique_and_what_two_share_lies_between_them(graph):
    shape, cliques = graph
    held = tree_cliques(shape, cliques)
    assert all(any(set(clique) <= set(one) for one in held) for clique in cliques)
    assert {one for clique in held for one in clique} == set(range(len(shape)))
    assert not any(set(one) < set(other) for one in held for other in held)
    ordered, parents = in_tree_order(shape, held)
    assert sorted(ordered) == sorted(held)
    for place in range(1, len(ordered)):
        before = {one for clique in ordered[:place] for one in clique}
        assert parents[place] < place and set(ordered[place]) & before <= set(
            ordered[parents[place]]
        )


@given(graphs(), st.randoms(use_true_random=False))
def test_cells_are_those_of_the_tree_in_whatever_order_cliques_come(graph, random):
    shape, cliques = graph
    cells = tree_cells(shape, cliques)
    assert cells == sum(
        prod(shape[one] for one in clique) for clique in tree_cliques(shape, cliques)
    )
    random.shuffle(cliques)
    assert JunctionTree().cells(shape, [clique[::-1] for clique in cliques]) == cells


@given(models(), st.randoms(use_true_random=False))
def test_marginals_and_partition_are_those_of_the_full_table(model, random):
    counts, partition = full(model)
    assert calibrated(model.tree, model.values, model.total)[2] == pytest.approx(
        partition, rel=1e-9, abs=1e-9
    )
    cliques = [
        clique for size in range(3) for clique in combinations(range(len(model.shape)), size)
    ]
    cliques += [
        tuple(random.sample(range(len(model.shape)), size)) for size in range(len(model.shape) + 1)
    ]
    for clique, found in zip(cliques, model.marginals(cliques), strict=True):
        assert found.min() >= 0 and found.sum() == pytest.approx(model.total)
        np.testing.assert_allclose(
            found, projected(counts, clique), rtol=1e-6, atol=1e-9 * model.total
        )


@pytest.mark.parametrize("clique", [(3, 4, 5), (5, 0, 3, 4), (4, 5, 6), (6, 3)])
def test_attributes_of_several_branches_are_joined(clique):
    """A clique in the middle, a branch at each of its three attributes, and one attribute beside
    them all.
    """
    shape, cliques = (3, 2, 4, 2, 3, 2, 2), [(0, 1, 2), (0, 3), (1, 4), (2, 5)]
    tree, rng = tree_of(shape, tree_cliques(shape, cliques), cliques), np.random.default_rng(1)
    potentials = [(one, rng.normal(size=tree.sizes(one))) for one in tree.potentials]
    model = TreeModel(tree, absorbed(tree, potentials), 100.0)
    np.testing.assert_allclose(model.marginals([clique])[0], projected(full(model)[0], clique))


@given(models(), st.integers(0, 2**32))
def test_moves_are_the_covariance(model, seed):
    tables, marginals, _ = calibrated(model.tree, model.values, model.total)
    change = np.zeros(len(model.values))
    for part in model.tree.slices:
        change[part] = np.random.default_rng(seed).normal(size=part.stop - part.start)
    found = moved(model.tree.arrays, change, tables, marginals, np.empty(len(tables)))
    counts, _ = full(model)
    added = np.zeros(model.shape)
    for clique, potential in TreeModel(model.tree, change, 1.0).potentials:
        added += potential.transpose(np.argsort(clique)).reshape(
            [side if axis in clique else 1 for axis, side in enumerate(model.shape)]
        )
    joint = counts * (added - (counts * added).sum() / model.total)
    for clique, part in zip(model.tree.potentials, model.tree.slices, strict=True):
        expected = projected(joint, clique).ravel()
        np.testing.assert_allclose(found[part], expected, rtol=1e-6, atol=1e-8 * model.total)


@given(models())
def test_conditionals_multiply_to_the_table(model):
    counts, _ = full(model)
    product, seen = np.full(model.shape, model.total), set()
    for conditional in model.conditionals():
        assert set(conditional.given) <= seen and conditional.attribute not in seen
        seen.add(conditional.attribute)
        axes = (*conditional.given, conditional.attribute)
        table = conditional.table.reshape([model.shape[one] for one in axes]).transpose(
            np.argsort(axes)
        )
        np.testing.assert_allclose(conditional.table.sum(axis=1), 1.0)
        product = product * table.reshape(
            [side if axis in axes else 1 for axis, side in enumerate(model.shape)]
        )
    assert seen == set(range(len(model.shape)))
    np.testing.assert_allclose(product, counts, rtol=1e-6, atol=1e-9 * model.total)


@given(models())
def test_a_model_comes_back_from_what_it_packs(model):
    structure, values = model.pack()
    assert structure.dtype == np.int64 and values.dtype == np.float64
    again = JunctionTree().unpack(model.shape, structure, values, model.total)
    pairs = list(combinations(range(len(model.shape)), 2))
    for found, expected in zip(again.marginals(pairs), model.marginals(pairs), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert [array.tolist() for array in again.pack()] == [structure.tolist(), values.tolist()]


def loss(model, measured, smoothing):
    """What JunctionTree says it lowers, from the full table."""
    found = model.marginals([one.clique for one in measured])
    away = (
        sum(
            float(((mu - one.counts) ** 2 / one.variance).sum())
            for mu, one in zip(found, measured, strict=True)
        )
        / 2
    )
    weights = [np.broadcast_to(one.variance, one.counts.shape).ravel() ** -0.5 for one in measured]
    shares = full(model)[0] / model.total
    entropy = float((shares * np.log(np.maximum(shares, 1e-300))).sum())
    return away + smoothing * np.concatenate(weights).mean() * model.total * entropy


@given(graphs(), st.integers(0, 2**32), st.booleans())
def test_a_fit_is_where_no_potential_helps(graph, seed, each_cell):
    """At the best potentials, the loss's gradient is orthogonal to every way to move; a start
    elsewhere leads to the same place.
    """
    shape, cliques = graph
    rng, total = np.random.default_rng(seed), 500.0
    cliques = [clique for clique in cliques if clique]
    measured = []
    for clique in cliques:
        sides = [shape[one] for one in clique]
        variance = rng.uniform(5, 50, sides) if each_cell else 20.0
        measured.append(
            Measured(
                clique,
                rng.dirichlet(np.ones(prod(sides))).reshape(sides) * total
                + rng.normal(0, 5, sides),
                variance,
            )
        )
    fit = JunctionTree(smoothing=0.5, tolerance=1e-12, rounds=300)
    model = fit.fit(shape, measured, total=total)
    for clique, found in zip(cliques, model.marginals(cliques), strict=True):
        assert found.sum() == pytest.approx(total), clique
    best = loss(model, measured, fit.smoothing) if measured else 0.0
    for _ in range(3):
        nudged = TreeModel(model.tree, model.values.copy(), total)
        for part in model.tree.slices:
            nudged.values[part] += rng.normal(0, 0.02, part.stop - part.start)
        assert loss(nudged, measured, fit.smoothing) >= best - 1e-6 if measured else True
    tree = tree_of(shape, tree_cliques(shape, cliques[:2]), cliques[:2])
    other = TreeModel(
        tree, absorbed(tree, [(c, rng.normal(size=tree.sizes(c))) for c in tree.potentials]), 1.0
    )
    again = fit.fit(shape, measured, total=total, start=other)
    for found, expected in zip(again.marginals(cliques), model.marginals(cliques), strict=True):
        np.testing.assert_allclose(found, expected, atol=0.05)


@given(graphs(), st.integers(0, 2**32))
def test_multiplicative_weights_keep_the_total_and_never_go_below_nothing(graph, seed):
    shape, cliques = graph
    rng = np.random.default_rng(seed)
    measured = [
        Measured(clique, rng.normal(0, 100, [shape[one] for one in clique]), 3.0)
        for clique in cliques
    ]
    model = MultiplicativeWeights(rounds=5).fit(shape, measured, total=40.0)
    for clique, found in zip(cliques, model.marginals(cliques), strict=True):
        assert found.shape == tuple(shape[one] for one in clique)
        assert found.min() >= 0 and found.sum() == pytest.approx(40.0)
    with pytest.raises(ConfigError):
        MultiplicativeWeights(limit=prod(shape)).fit((*shape, 2), measured, total=40.0)
