"""Synthetic rows: as many as asked for, near the model's marginals, and changed only as far as the
model changed.
"""

from itertools import combinations

import numpy as np
import pytest

from tailrace.domain import Integer, Schema
from tailrace.domain.digits import Digits
from tailrace.errors import ConfigError, DataError
from tailrace.mechanisms.base import Table
from tailrace.mechanisms.tabular.workloads import followed
from tailrace.models.tables import (
    JunctionTree,
    Measured,
    MultiplicativeWeights,
    TableModel,
    TreeModel,
)
from tailrace.models.tables import rows as dealing
from tailrace.models.tables.junction_tree import absorbed
from tailrace.models.tables.tree import tree_cliques, tree_of

SHAPE = (3, 4, 5, 2, 6)
CLIQUES = [(0, 1, 2), (2, 3), (1, 2, 4)]
INSIDE = [(0, 1), (0, 2), (1, 2), (2, 3), (1, 4), (2, 4)]
ACROSS = [(0, 3), (0, 4), (1, 3), (3, 4)]
NONE = np.zeros((0, len(SHAPE)), np.int32)


def resampled(model, previous, count, rng):
    """(stayed, new): which previous rows stay, and new rows."""
    gone, new = dealing.resampled(model, dealing.Rows.of(previous), count, rng)
    stayed = np.ones(len(previous), bool)
    stayed[gone] = False
    assert (np.diff(gone) > 0).all() and stayed.sum() == len(previous) - len(gone)
    return stayed, new


def tree_model(seed=3, shift=0.0):
    rng = np.random.default_rng(seed)
    tree = tree_of(SHAPE, tree_cliques(SHAPE, CLIQUES), CLIQUES)
    potentials = [(clique, rng.normal(size=tree.sizes(clique))) for clique in tree.potentials]
    other = np.random.default_rng(99)
    return TreeModel(
        tree,
        absorbed(
            tree,
            [
                (clique, table + shift * other.normal(size=table.shape))
                for clique, table in potentials
            ],
        ),
        1.0,
    )


def table_model():
    return TableModel(np.random.default_rng(5).dirichlet(np.full(720, 0.5)).reshape(SHAPE), 1.0)


def counted(rows, clique):
    sides = [SHAPE[one] for one in clique]
    cells = np.ravel_multi_index(tuple(rows[:, list(clique)].T), sides)
    return np.bincount(cells, minlength=int(np.prod(sides))).reshape(sides)


@pytest.mark.parametrize("count", [0, 1, 57, 5000])
@pytest.mark.parametrize("make", [tree_model, table_model])
def test_there_are_as_many_rows_as_asked_for(count, make):
    stayed, new = resampled(make(), NONE, count, np.random.default_rng(1))
    assert stayed.shape == (0,) and new.shape == (count, len(SHAPE))
    assert ((new >= 0) & (new < SHAPE)).all()
    for wanted in (0, 20, 9000):
        stayed, more = resampled(make(), new, wanted, np.random.default_rng(2))
        assert stayed.sum() + len(more) == wanted


def test_expected_counts_are_the_models_and_far_nearer_than_chance():
    """Inside a clique, a pair's counts vary by about one row; samples drawn one by one would vary
    by the root of the count.
    """
    model, rng, count, times = tree_model(), np.random.default_rng(11), 400, 400
    pairs = INSIDE + ACROSS
    expected = [count * table for table in model.marginals(pairs)]
    sums, squares = (
        [np.zeros(table.shape) for table in expected],
        [np.zeros(table.shape) for table in expected],
    )
    for _ in range(times):
        _, rows = resampled(model, NONE, count, rng)
        for place, pair in enumerate(pairs):
            away = counted(rows, pair) - expected[place]
            sums[place] += away
            squares[place] += away**2
    for place, pair in enumerate(pairs):
        variance = squares[place] / times
        chance = expected[place] * (1 - expected[place] / count)
        assert np.all(np.abs(sums[place]) / times < 0.25 + 5 * np.sqrt(variance / times)), pair
        if pair in INSIDE:
            assert variance.mean() < 0.6 and variance.mean() < chance.mean() / 20, pair
        else:
            assert variance.mean() < chance.mean(), pair


def test_columns_that_share_a_group_are_not_paired_up():
    """Given what they depend on, two columns are independent: rows that wait for a value are
    shuffled.
    """
    shares = np.array([0.5, 0.5])
    table = np.einsum("a,b->ab", shares, shares)
    fit = JunctionTree().fit(
        (2, 2, 2),
        [Measured((0, 1), 1000 * table, 1.0), Measured((1, 2), 1000 * table, 1.0)],
        total=1000,
    )
    correlations = []
    for seed in range(200):
        _, rows = resampled(fit, np.zeros((0, 3), np.int32), 200, np.random.default_rng(seed))
        correlations.append(np.mean((rows[:, 0] - 0.5) * (rows[:, 2] - 0.5)) * 4)
    assert abs(np.mean(correlations)) < 0.03 and 0.03 < np.std(correlations) < 0.2


@pytest.mark.parametrize("make", [tree_model, table_model])
@pytest.mark.parametrize("count", [30, 3000])
def test_an_unchanged_model_changes_no_rows(make, count):
    model, rng = make(), np.random.default_rng(4)
    rows = NONE
    for _ in range(2):
        stayed, new = resampled(model, rows, count, rng)
        rows = rng.permutation(np.concatenate([rows[stayed], new]))
    stayed, new = resampled(model, rows, count, rng)
    assert stayed.all() and not len(new)


def test_changes_follow_the_model():
    """Rows change by about as much as the model does, the result is as near to it as fresh rows,
    and none is worse off for staying.
    """
    first, rng, count = tree_model(), np.random.default_rng(6), 5000
    _, rows = resampled(first, NONE, count, rng)
    replaced = []
    for shift in (0.01, 0.1, 1.0):
        model = tree_model(shift=shift)
        stayed, new = resampled(model, rows, count, rng)
        replaced.append(len(new))
        after = np.concatenate([rows[stayed], new])
        for pair, expected in zip(INSIDE, model.marginals(INSIDE), strict=True):
            assert np.abs(counted(after, pair) - count * expected).max() < 6, (shift, pair)
        moved = max(
            count * np.abs(one - other).sum() / 2
            for one, other in zip(first.marginals(CLIQUES), model.marginals(CLIQUES), strict=True)
        )
        assert moved - 60 < len(new) < 4 * moved + 60, shift
    assert replaced[0] < replaced[1] < replaced[2] < count


def test_fewer_and_more_rows_change_only_the_difference():
    model, rng = tree_model(), np.random.default_rng(8)
    _, rows = resampled(model, NONE, 4000, rng)
    stayed, new = resampled(model, rows, 4100, rng)
    assert len(new) < 100 + 120 and stayed.sum() > 3880
    stayed, new = resampled(model, rows, 3900, rng)
    assert stayed.sum() > 3900 - 120


def test_cells_that_cannot_be_stay_empty():
    table = np.zeros((4, 5))
    table[0, 1], table[2, 3] = 0.5, 0.5
    _, rows = resampled(
        TableModel(table, 1.0), np.zeros((0, 2), np.int32), 101, np.random.default_rng(0)
    )
    assert {tuple(row) for row in rows.tolist()} == {(0, 1), (2, 3)}
    stayed, new = resampled(TableModel(table[::-1], 1.0), rows, 101, np.random.default_rng(0))
    assert not stayed.any() and {tuple(row) for row in new.tolist()} == {(3, 1), (1, 3)}


def test_rows_repeat_with_their_generator():
    one = resampled(tree_model(), NONE, 500, np.random.default_rng(1))[1]
    assert np.array_equal(one, resampled(tree_model(), NONE, 500, np.random.default_rng(1))[1])
    assert not np.array_equal(one, resampled(tree_model(), NONE, 500, np.random.default_rng(2))[1])


def test_other_shapes_are_refused():
    with pytest.raises(DataError, match="5 columns"):
        resampled(tree_model(), np.zeros((3, 4), np.int32), 3, np.random.default_rng(0))
    with pytest.raises(ConfigError):
        resampled(tree_model(), NONE, -1, np.random.default_rng(0))


def test_full_tables_keep_every_pair_near():
    fit = MultiplicativeWeights(rounds=20)
    measured = [
        Measured(pair, 5000 * table, 1.0)
        for pair, table in zip(INSIDE, tree_model().marginals(INSIDE), strict=True)
    ]
    model = fit.fit(SHAPE, measured, total=5000)
    _, rows = resampled(model, NONE, 5000, np.random.default_rng(9))
    pairs = list(combinations(range(5), 2))
    for pair, expected in zip(pairs, model.marginals(pairs), strict=True):
        assert np.abs(counted(rows, pair) - expected).max() < 12, pair


def test_rows_leave_the_same_whatever_tables_came_before():
    """A stream that was opened again draws as one that was not: rows that died, and counts that are
    brought on from table to table, change nothing.
    """
    schema = Schema(**{f"c{j}": Integer(0, size - 1) for j, size in enumerate(SHAPE)})
    codes, table = Digits(schema), Table.of(NONE, {f"c{j}": NONE[:, 0] for j in range(len(SHAPE))})
    for step, count in enumerate((3000, 3100, 3150, 2800, 3000, 3400)):
        model = tree_model(shift=0.05 * (step // 3))
        model = TreeModel(model.tree, model.values, float(count))
        read = Table(table.cells.copy(), dict(table.columns), table.numbers.copy(), table.born)
        one, other = (
            followed(codes, model, held, np.random.default_rng(step)) for held in (table, read)
        )
        assert np.array_equal(one.removed, other.removed) and len(one.table) == count
        assert np.array_equal(one.table.cells, other.table.cells)
        table = one.table
    assert len(table.died) > len(table)


def test_rows_agree_with_their_own_model_and_not_with_another():
    rng = np.random.default_rng(8)
    counts = rng.multinomial(4000, rng.dirichlet(np.ones(12))).reshape(3, 4).astype(float)
    model, other = (
        JunctionTree().fit((3, 4), [Measured((0, 1), found, 1.0)], total=4000)
        for found in (counts, np.full((3, 4), 4000 / 12))
    )
    none = dealing.Rows.of(np.zeros((0, 2), np.int32))
    _, rows = dealing.resampled(model, none, 4000, rng)
    same = dealing.Rows.of(rows)
    assert dealing.agrees(model, same) and not dealing.agrees(other, same)
