"""The halving tree, least squares on it, combined releases, windows of units, and range counts,
against plain references.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samples import examples
from tailrace import Integer, Noise, PureDP, Schema, SnapshotHistogram, Window
from tailrace.counting.memory.snapshot import snapshot_counted
from tailrace.counting.plan import Counts, Plan
from tailrace.domain.halving import halving
from tailrace.mechanisms.snapshot import levels
from tailrace.mechanisms.snapshot.levels import Quadtree
from tailrace.mechanisms.snapshot.tracking import Tracking, fold
from tailrace.metrics.snapshots import Ranges, answers, random_ranges, ranges_of_size
from tailrace.papers.snapshot_policies import (
    DSFT,
    BudgetAbsorption,
    BudgetDistribution,
    EveryStep,
    FixedSampling,
)
from tailrace.papers.snapshot_policies.static import Hierarchy, LaplaceBins
from tailrace.privacy.loss import ZCDP

SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)
# of at most 81 cells, for references that solve dense systems
FEW = st.one_of(
    st.lists(st.integers(1, 9), min_size=1, max_size=2),
    st.lists(st.integers(1, 3), min_size=3, max_size=4),
).map(tuple)
SEEDS = st.integers(0, 2**32 - 1)


@given(SHAPES, SEEDS)
def test_details_are_an_orthonormal_basis(shape, seed):
    tree, rng = halving(shape), np.random.default_rng(seed)
    one, two = rng.normal(size=(2, int(np.prod(shape))))
    first, second = (np.concatenate(tree.details(x)) for x in (one, two))
    assert len(first) == len(one)
    assert first @ second == pytest.approx(one @ two, abs=1e-9)
    assert np.allclose(tree.cells(tree.details(one)), one)


@given(SHAPES)
def test_every_level_of_the_tree_holds_every_cell_once(shape):
    tree = halving(shape)
    assert sorted(tree.order) == list(range(int(np.prod(shape))))
    for size in tree.size:
        assert size.sum() == len(tree.order)
    assert (tree.size[-1] == 1).all()
    assert [len(tree.size[depth]) for depth in tree.rounds][-1] == len(tree.order)


def matrix(tree, depths):
    """The sums of each depth as rows of a matrix, cells in their own order."""
    cells = len(tree.order)
    found = {}
    for depth in depths:
        node = np.repeat(np.arange(len(tree.size[depth])), tree.size[depth])
        rows = np.zeros((len(tree.size[depth]), cells))
        rows[node, tree.order] = 1
        found[depth] = rows
    return found


@examples(40)
@given(
    FEW,
    SEEDS,
    st.sampled_from([Quadtree(), Hierarchy(fan_out=2), Hierarchy(fan_out=4), LaplaceBins()]),
)
def test_consistency_is_weighted_least_squares(shape, seed, static):
    tree, rng = halving(shape), np.random.default_rng(seed)
    depths = list(static.levels(tree))
    assert sum(static.levels(tree).values()) == 1
    rows = matrix(tree, depths)
    variance = {
        depth: float(v) for depth, v in zip(depths, rng.uniform(0.5, 4, len(depths)), strict=True)
    }
    noisy = {depth: rng.normal(0, 5, len(rows[depth])) for depth in depths}
    stacked = np.concatenate([rows[d] / variance[d] ** 0.5 for d in depths])
    wanted = np.linalg.lstsq(
        stacked, np.concatenate([noisy[d] / variance[d] ** 0.5 for d in depths]), rcond=None
    )[0]
    assert np.allclose(levels.consistent(tree, noisy, variance), wanted, atol=1e-6)


@given(
    st.sampled_from([(8,), (4, 4), (16,), (2, 8)]),
    st.sampled_from([Quadtree(), Hierarchy(fan_out=2), LaplaceBins()]),
)
def test_variances_of_details_are_exact_where_nodes_are_of_one_size(shape, static):
    tree, loss = halving(shape), ZCDP(rho=0.01)
    each = levels.noise_variance(static, tree, loss, 3)
    precision = sum(rows.T @ rows / each[depth] for depth, rows in matrix(tree, each).items())
    covariance = np.linalg.inv(precision)
    basis = np.stack(
        [np.concatenate(tree.details(row)) for row in np.eye(len(tree.order))]
    )  # (cells, details)
    found = levels.variances(static, tree, loss, 3)
    many = [1, *(len(tree.whose(depth)) for depth in range(tree.depth))]
    assert np.allclose(
        basis.T @ covariance @ basis, np.diag(np.repeat(found, many)), atol=1e-6 * covariance.max()
    )


@given(SHAPES, SEEDS)
def test_a_leaf_of_a_low_tree_is_even(shape, seed):
    tree, rng = halving(shape), np.random.default_rng(seed)
    low = Quadtree(height=1)
    counts = rng.integers(0, 50, int(np.prod(shape)))
    found = levels.measure(low, tree, counts, PureDP(epsilon=10), 1, Noise.insecure(seed))
    last = max(low.levels(tree))
    node = np.repeat(np.arange(len(tree.size[last])), tree.size[last])
    spread = [np.ptp(found[tree.order][node == n]) for n in range(node.max() + 1)]
    assert np.max(spread) < 1e-9


@given(SHAPES, SEEDS)
def test_a_combination_lies_between_the_release_and_the_estimate_before(shape, seed):
    tree, rng = halving(shape), np.random.default_rng(seed)
    before, fresh = rng.normal(10, 5, (2, int(np.prod(shape))))
    noise = rng.uniform(0.1, 10, 1 + tree.depth)
    cells, errors = fold(tree, before, fresh, noise)
    moved = np.concatenate(tree.details(cells)) - np.concatenate(tree.details(before))
    offered = np.concatenate(tree.details(fresh)) - np.concatenate(tree.details(before))
    assert (moved * offered >= -1e-9).all()
    assert (np.abs(moved) <= np.abs(offered) + 1e-9).all()
    assert (errors >= 0).all()
    same, _ = fold(tree, fresh, fresh, noise)
    assert np.allclose(same, fresh)


@given(
    st.sampled_from(
        [
            EveryStep(),
            FixedSampling(releases=3),
            Tracking(),
            BudgetDistribution(),
            BudgetAbsorption(),
            DSFT(threshold=0.1),
        ]
    ),
    st.integers(1, 12),
    SEEDS,
)
def test_no_window_spends_more_than_its_units(policy, width, seed):
    rng = np.random.default_rng(seed)
    mechanism = SnapshotHistogram(
        domain=Schema(x=Integer(0, 3)),
        privacy=PureDP(epsilon=1),
        unit=Window(steps=width, column="id", records=1),
        horizon=None,
        policy=policy,
        population=100,
    )
    units, noise, state, spent = (
        policy.split(mechanism.series).units,
        Noise.insecure(seed % 1000),
        mechanism.init(),
        [],
    )
    for t in range(40):
        counts = rng.integers(0, 10 ** int(rng.integers(1, 7)), 4)
        state = mechanism.measure(state, Counts(counts, np.zeros(4, np.int64)), noise.at(t)).state
        spent.append(int(state.public.pace.paid) if int(state.public.pace.last) == t + 1 else 0)
        assert sum(spent[-width:]) <= units


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 4)), max_size=60),
    st.integers(1, 4),
    st.integers(0, 5),
)
def test_a_person_changes_a_snapshot_by_that_persons_rows_and_by_so_many_at_most(
    rows, records, person
):
    import tempfile
    from pathlib import Path

    import polars as pl

    plan, unit = (
        Plan(Schema(x=Integer(0, 4)), key="id"),
        Window(steps=3, column="id", records=records),
    )

    def counted(some):
        frame = pl.DataFrame(
            {"id": [i for i, _ in some], "x": [x for _, x in some]},
            schema={"id": pl.Int64, "x": pl.Int64},
        )
        with tempfile.TemporaryDirectory() as folder:
            return snapshot_counted(plan, unit, frame, folder=Path(folder), key=bytes(16)).adds

    having, without = counted(rows), counted([row for row in rows if row[0] != person])
    mine = sum(i == person and x >= 0 for i, x in rows)
    assert (having >= without).all()
    assert (having - without).sum() == min(mine, records)
    assert np.array_equal(having, counted(rows[::-1])), "in any order"


@given(SHAPES, SEEDS)
def test_range_counts_are_sums_of_their_cells(shape, seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(-5, 50, shape)
    for queries in (random_ranges(rng, shape, 20), ranges_of_size(rng, shape, 20, share=0.2)):
        assert isinstance(queries, Ranges)
        for low, high, found in zip(
            queries.low, queries.high, answers(table, queries, shape), strict=True
        ):
            assert (
                found == table[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))].sum()
            )
