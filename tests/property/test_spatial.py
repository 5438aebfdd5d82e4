"""Points of a spatial stream: every box of the partition holds its count to within one, whatever
was there before.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailrace.domain.geometry import kernel as nodes
from tailrace.mechanisms.spatial import kernel
from tailrace.mechanisms.spatial.kernel import placed

DEEPEST = 6


@st.composite
def trees(draw):
    """A tree in preorder with consistent counts, some of them zero."""
    inner, counts = [], []

    def grow(depth, count):
        split = depth < DEEPEST and draw(st.booleans())
        inner.append(split)
        counts.append(count)
        if split:
            share = draw(st.sampled_from([0.0, 0.03, 0.3, 0.5, 0.8, 1.0]))
            grow(depth + 1, count * share)
            grow(depth + 1, count - count * share)

    grow(0, draw(st.floats(0, 200)))
    return np.array(inner), np.array(counts)


@given(trees(), trees(), st.integers(0, 2**32 - 1))
def test_every_node_holds_its_count_to_within_one(first, then, seed):
    rng, places = np.random.default_rng(seed), 1 << DEEPEST
    area = rng.choice([0.0, 1.0, 2.0], places, p=[0.2, 0.4, 0.4])
    area[0] = 1.0
    before = np.concatenate([[0.0], np.cumsum(area)])
    have = np.zeros(0, np.int64)
    for inner, counts in (first, then, then):
        second, depth, start = nodes.lay_out(inner, DEEPEST)
        end = start + (1 << (DEEPEST - depth))
        missing = before[end] - before[start] <= 0
        held = np.where(
            missing, 0.0, counts
        )  # nodes without area hold nothing, and their siblings all
        for i in np.flatnonzero(inner):
            a, b = i + 1, second[i]
            total = held[i]
            held[a] = 0.0 if missing[a] else total if missing[b] else min(held[a], total)
            held[b] = total - held[a]
        ahead = np.searchsorted(have, np.arange(places + 1))
        state = rng.bit_generator.state
        gone, new = placed(inner, second, held, have, False, before, DEEPEST, rng)
        rng.bit_generator.state = state
        again = placed(inner, second, held, ahead, True, before, DEEPEST, rng)
        assert np.array_equal(gone, again[0]) and np.array_equal(new, again[1])
        assert len(np.unique(gone)) == len(gone)
        stayed = len(have) - len(gone)
        have = np.sort(np.concatenate([np.delete(have, gone), new]))
        found = np.searchsorted(have, end) - np.searchsorted(have, start)
        assert len(have) == round(held[0])
        assert (np.abs(found - held) < 1 + 1e-6).all()
        assert (area[have] > 0).all()
    assert stayed == len(have)  # the same counts again: nothing moves


@given(trees(), st.integers(0, 2**32 - 1))
def test_released_counts_add_up_and_are_not_negative(tree, seed):
    inner, _ = tree
    rng = np.random.default_rng(seed)
    second, depth, _ = nodes.lay_out(inner, DEEPEST)
    own, noise = rng.normal(0, 50, len(inner)), rng.integers(0, 5, len(inner)).astype(float)
    area = rng.choice([0.0, 1.0], len(inner)) * 0.5**depth
    estimate, variance = kernel.inherited(own, noise, inner, second, area)
    parents = np.flatnonzero(inner)
    assert np.isclose(estimate[0], own.sum())
    assert np.allclose(
        estimate[parents], estimate[parents + 1] + estimate[second[parents]], atol=1e-6
    )
    counts = kernel.released(100.0, estimate, variance, inner, ~inner, second, area, 2.0, 4.0)
    assert (counts >= 0).all()
    assert np.allclose(counts[parents], counts[parents + 1] + counts[second[parents]])
