import math

import numpy as np
import pytest

from tailrace import ConfigError, DataError
from tailrace.counting.marginals import Marginals, all_ways, chosen
from tailrace.domain import Categorical, Integer, Schema

WARD = Schema(
    sex=Categorical(["f", "m"]),
    age=Integer(0, 4),
    year=Integer(2020, 2020),
    ill=Categorical([False, True]),
)


def test_the_cells_of_a_clique_lie_together_the_last_attribute_fastest():
    marginals = Marginals(shape=(2, 3, 4), cliques=((0, 2), (1,)))
    assert (
        marginals.size == 11
        and marginals.sizes.tolist() == [8, 3]
        and marginals.offsets.tolist() == [0, 8, 11]
    )
    flat = marginals.tally(np.array([[1, 2, 3], [1, 0, 2]]))
    assert np.flatnonzero(flat).tolist() == [6, 7, 8, 10]
    part = marginals.part(flat, 0)
    assert part.shape == (2, 4) and part.base is not None and part[1, 3] == 1
    assert marginals.index((1,)) == 1
    with pytest.raises(ConfigError, match="not among"):
        marginals.index((0, 1))


def test_all_ways_leave_out_attributes_of_one_value():
    assert all_ways(WARD.shape, 2).cliques == ((0, 1), (0, 3), (1, 3))
    assert all_ways(WARD.shape, 9).cliques == ((0, 1, 3),)
    assert len(all_ways((2,) * 22, 2).cliques) == 231
    with pytest.raises(ConfigError, match="nothing to count"):
        all_ways((1, 1), 2)
    for wrong in (0, -1, True, 1.0):
        with pytest.raises(ConfigError, match="whole number"):
            all_ways((2, 2), wrong)


def test_chosen_marginals_are_found_by_name():
    assert chosen(WARD, (("ill", "sex"), ("year", "age"), ("age",), ("sex", "ill"))).cliques == (
        (0, 3),
        (1,),
    )
    for wrong in ((("weight",),), (("sex", "sex"),), ((),), ("sex",)):
        with pytest.raises(
            ConfigError, match="different columns of the domain: sex, age, year, ill"
        ):
            chosen(WARD, wrong)
    for wrong in ((), (("year",),)):
        with pytest.raises(ConfigError, match="one or more marginals"):
            chosen(WARD, wrong)


def test_what_are_no_marginals_is_refused():
    for shape, cliques in (
        ((), ((0,),)),
        ((2, 0), ((0,),)),
        ((2, 2), ()),
        ((2, 2), ((),)),
        ((2, 2), ((1, 0),)),
        ((2, 2), ((0, 0),)),
        ((2, 2), ((0, 2),)),
        ((2, 2), ((-1,),)),
        ((2, 2), ((0,), (0,))),
    ):
        with pytest.raises(ConfigError):
            Marginals(shape, cliques)
    with pytest.raises(ConfigError, match="4,294,967,296 cells; at most 2,147,483,648"):
        Marginals((2**16, 2**16), ((0, 1),))


def test_digits_must_have_a_column_for_each_attribute():
    marginals = all_ways((2, 3), 1)
    for wrong in (np.zeros(3, np.int32), np.zeros((3, 1), np.int32)):
        with pytest.raises(DataError, match=r"\(rows, 2\)"):
            marginals.tally(wrong)


def test_a_number_outside_its_attribute_drops_the_row():
    marginals = all_ways((2, 3), 1)
    assert marginals.tally(np.array([[0, 3], [2, 0], [-1, 0], [0, -1], [1, 2]])).tolist() == [
        0,
        1,
        0,
        0,
        1,
    ]
    assert marginals.tally(np.zeros((0, 2), np.int32)).tolist() == [0] * 5


def test_many_rows_are_counted_by_blocks_and_the_counts_are_the_same():
    shape = (2, 3, 4, 5, 6, 7, 8)
    rng = np.random.default_rng(0)
    digits = np.stack([rng.integers(0, size, 60_000) for size in shape], axis=1)
    pairs = all_ways(shape, 2)
    assert pairs._covered(60_000) and not pairs._covered(100)
    for i, (a, b) in enumerate(pairs.cliques):
        expected = np.bincount(
            digits[:, a] * shape[b] + digits[:, b], minlength=shape[a] * shape[b]
        )
        assert pairs.part(pairs.tally(digits), i).ravel().tolist() == expected.tolist()


def test_a_small_table_is_its_own_covering_and_a_large_one_has_far_fewer_blocks_than_pairs():
    assert all_ways((2, 1, 3), 2).covering.cliques == ((0, 2),)
    wide = all_ways((2,) * 100, 2)
    assert len(wide.cliques) == 4950 and len(wide.covering.cliques) < 200
    assert max(math.prod(shape) for shape in wide.covering.shapes) <= 2**12


def test_marginals_are_values():
    one, other = all_ways((2, 3, 4), 2), all_ways((2, 3, 4), 2)
    assert (
        one.covering == other.covering
        and one == other
        and hash(one) == hash(other) != hash(all_ways((2, 3, 4), 1))
    )
