from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from samples import examples
from tailrace import Noise
from tailrace.noise import tables
from tailrace.noise.words import encode

paths = st.lists(st.one_of(st.text(max_size=5), st.integers(-(10**20), 10**20)), max_size=4).map(
    tuple
)


@given(paths, paths)
def test_paths_are_one_to_one(a, b):
    same = len(a) == len(b) and all(
        type(x) is type(y) and x == y for x, y in zip(a, b, strict=True)
    )
    assert (encode(a) == encode(b)) == same


@given(paths, paths)
def test_no_path_is_the_beginning_of_another_by_accident(a, b):
    assert encode(a + b) == encode(a) + encode(b)
    assert not b or encode(a + b) != encode(a)


@examples(50)
@given(st.fractions(min_value=Fraction(1, 1000), max_value=10**9), st.integers(0, 2**32))
def test_any_rational_scale_can_be_drawn_and_stays_in_reach(scale, seed):
    noise = Noise.insecure(seed)
    assert np.abs(noise.at("l").laplace(scale, 50)).max() <= 60 * scale + 1
    assert np.abs(noise.at("g").gaussian(scale**2, 50)).max() <= 12 * scale + 1


@examples(200)
@given(
    st.fractions(min_value=Fraction(1, 50), max_value=20),
    st.lists(st.integers(0, 2**64 - 1), min_size=5, max_size=5),
)
def test_the_table_and_the_endless_comparison_agree(rate, words):
    """The fast path decides as the exact one would with all the bits."""
    table = tables.tabulate(tables.geometric(rate), 60, finite=True)
    fast = int((np.uint64(words[0]) < table.words).sum())
    if not (table.words == np.uint64(words[0])).any():
        assert table.resolve(words[0], iter(words[1:])) == fast
