"""Whatever the table: marginals are what a brute count says, add up over parts, agree with one
another, and so do their blocks.
"""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailrace.counting import marginals as module
from tailrace.counting.marginals import Marginals

shapes = st.lists(st.integers(1, 5), min_size=1, max_size=6).map(tuple)


@st.composite
def tables(draw):
    """Marginals of a shape, and some rows with a few dropped ones and what they stand for."""
    shape = draw(shapes)
    every = st.sets(st.integers(0, len(shape) - 1), min_size=1, max_size=3).map(
        lambda chosen: tuple(sorted(chosen))
    )
    cliques = draw(st.lists(every, min_size=1, max_size=8, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = draw(st.integers(0, 2500))  # more than the compiled loop takes at a time
    digits = np.stack([rng.integers(0, size, rows) for size in shape], axis=1).astype(np.int32)
    digits[rng.random(rows) < 0.1] = -1
    return Marginals(shape, tuple(cliques)), digits, rng.integers(0, 5, rows)


def brute(marginals, digits, rows):
    kept = (digits >= 0).all(axis=1)
    for clique in marginals.cliques:
        shape = [marginals.shape[a] for a in clique]
        numbers = np.ravel_multi_index(digits[kept][:, clique].T, shape)
        yield np.bincount(numbers, weights=rows[kept], minlength=math.prod(shape)).astype(np.int64)


@given(tables())
def test_the_tally_is_what_a_brute_count_says(table):
    marginals, digits, rows = table
    flat = marginals.tally(digits, rows)
    assert flat.tolist() == np.concatenate(list(brute(marginals, digits, rows))).tolist()
    ones = np.ones(len(digits), np.int64)
    assert marginals.tally(digits).tolist() == marginals.tally(digits, ones).tolist()
    assert (
        marginals.tally(np.asfortranarray(digits.astype(np.int64)), rows).tolist() == flat.tolist()
    )


@given(tables(), st.integers(1, 4))
def test_tallies_add_up_over_any_partition(table, parts):
    marginals, digits, rows = table
    which = np.arange(len(digits)) % parts
    split = sum(
        marginals.tally(digits[which == part], rows[which == part]) for part in range(parts)
    )
    assert np.array_equal(split, marginals.tally(digits, rows))


@given(tables())
def test_marginals_agree_with_one_another(table):
    """Two marginals have the same sums over what they do not share."""
    marginals, digits, rows = table
    flat = marginals.tally(digits, rows)
    for i, one in enumerate(marginals.cliques):
        for j, other in enumerate(marginals.cliques):
            shared = set(one) & set(other)
            left, right = (
                marginals.part(flat, k).sum(
                    axis=tuple(axis for axis, a in enumerate(clique) if a not in shared)
                )
                for k, clique in ((i, one), (j, other))
            )
            assert np.array_equal(left, right)


@given(tables(), st.sampled_from([1, 20, 2**12]))
def test_marginals_are_sums_of_their_covering(table, room):
    marginals, digits, rows = table
    blocks = Marginals(marginals.shape, module._blocks(marginals.shape, marginals.cliques, room))
    for clique in marginals.cliques:
        assert any(set(clique) <= set(block) for block in blocks.cliques)
    largest = max(room, *marginals.sizes)
    assert all(size <= largest for size in blocks.sizes)
    whole = Marginals(marginals.shape, marginals.cliques)
    whole.__dict__["covering"] = blocks
    assert np.array_equal(whole.summed(blocks.tally(digits, rows)), marginals.tally(digits, rows))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=9).map(tuple), st.integers(0, 2**32))
def test_digits_come_back_from_the_number_of_the_cell(shape, seed):
    from tailrace.domain import kernel

    rng = np.random.default_rng(seed)
    digits = np.stack([rng.integers(0, size, 30) for size in shape], axis=1)
    cells = np.ravel_multi_index(tuple(digits.T), shape).astype(np.int64)
    cells[:3] = -1
    digits[:3] = -1
    assert np.array_equal(kernel.split(cells, np.array(shape)), digits)
