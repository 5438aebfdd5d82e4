"""Places with attributes: their cells, and the partition that has a map for every value."""

import narwhals as nw
import numpy as np
import polars as pl
import pytest
import shapely

from tailrace import (
    Amount,
    Box,
    Categorical,
    ConfigError,
    Event,
    Integer,
    Places,
    PureDP,
    Real,
    Region,
    Schema,
    SpatialStream,
    TabularStream,
    papers,
)
from tailrace.counting.plan import Plan
from tailrace.domain import attributes_of
from tailrace.domain.geometry import from_dict, measure_of_cells
from tailrace.domain.geometry.partition import Partition, area_before, lay_out

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
TRIANGLE = Region(shapely.Polygon([(0, 0), (1, 0), (0, 1)]), columns=("x", "y"), cells=8)
KINDS = Schema(kind=Categorical(["a", "b", "c"], outside="other"), level=Integer(1, 3))
ROWS = pl.DataFrame(
    {
        "x": [0.1, 0.9, 0.9, 2.0, 0.1, None],
        "y": [0.1, 0.9, 0.9, 0.5, 0.1, 0.5],
        "kind": ["a", "c", "?", "a", "b", "a"],
        "level": [1, 3, 2, 1, 9, 1],
    }
)


@pytest.mark.parametrize("ground", [SQUARE, TRIANGLE], ids=["box", "region"])
def test_a_row_counts_where_its_place_and_all_its_values_do(ground):
    places, rows = Places(ground, KINDS), nw.from_native(ROWS, eager_only=True)
    found, values = places.cells(rows), KINDS.cells(rows)
    own = ground.cells(rows)
    both = np.where((own < 0) | (values < 0), -1, values * ground.size + own)
    assert found.tolist() == both.tolist()
    assert (found >= 0).tolist() == [True, *[ground is SQUARE] * 2, False, False, False]
    there = nw.from_native(ROWS.lazy())
    cells = there.select(places.cell(there).fill_null(-1).alias("cell")).collect()
    assert places.settle(cells["cell"].to_numpy()).tolist() == found.tolist()


@pytest.mark.parametrize("ground", [SQUARE, TRIANGLE], ids=["box", "region"])
def test_what_is_decoded_lies_in_its_cell(ground):
    places = Places(ground, KINDS)
    cells = np.flatnonzero(measure_of_cells(places).ravel())
    rows = places.decode(cells, np.random.default_rng(0))
    assert list(rows) == list(places.columns) == list(places.types)
    frame = nw.from_native(pl.DataFrame(rows, strict=False), eager_only=True)
    assert places.cells(frame).tolist() == cells.tolist()


def test_stored_places_are_the_same():
    for ground in (SQUARE, TRIANGLE):
        places = Places(ground, KINDS)
        assert from_dict(places.to_dict()) == places
        assert hash(from_dict(places.to_dict())) == hash(places)
    with pytest.raises(ConfigError, match="as to_dict"):
        from_dict({"kind": "Places", "ground": SQUARE.to_dict()})
    assert list(attributes_of(Places(SQUARE, KINDS))) == ["kind", "level"]
    assert attributes_of(SQUARE) == {}


@pytest.mark.parametrize("shape", [(2,), (3,), (5,), (3, 3), (1, 7)])
def test_leaves_of_values_are_ranges_and_cover_each_cell_once(shape):
    schema = Schema(**{f"a{i}": Integer(1, size) for i, size in enumerate(shape)})
    places = Places(SQUARE, schema)
    partition = Partition(places)
    assert partition.coded == sum((size - 1).bit_length() for size in shape)
    assert partition.depth == partition.coded + 6
    assert len(np.unique(partition.places)) == places.size
    assert (partition.cells[partition.places] == np.arange(places.size)).all()
    # Every node of a depth is a box of codes and cells, and all of them cover each cell once.
    for depth in range(partition.depth + 1):
        index = np.arange(1 << depth)
        first, last = partition.rectangles(np.full(len(index), depth), index)
        held = (last - first).prod(axis=1)
        assert held.sum() == places.size
        node = partition.places >> (partition.depth - depth)
        assert np.bincount(node, minlength=len(index)).tolist() == held.tolist()
    # Before the ground is halved, every combination of values has a node of its own.
    first, last = partition.codes(
        np.full(1 << partition.coded, partition.coded), np.arange(1 << partition.coded)
    )
    assert set(map(tuple, (last - first)[(last > first).all(axis=1)])) == {(1,) * len(shape)}


def test_a_half_that_is_a_value_begins_with_its_share_of_the_values():
    places = Places(SQUARE, Schema(kind=Categorical(["a", "b", "c"])))
    # The whole, {a, b}, its halves, and {c} with the half that holds nothing.
    inner = np.array([True, True, False, False, True, False, False])
    area = lay_out(inner, places).area
    assert (area / area[0]).tolist() == pytest.approx([1, 2 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 0])
    assert area_before(places)[-1] == pytest.approx(3)


def test_a_ground_alone_has_the_partition_that_it_had():
    alone, beside = Partition(SQUARE), Partition(Places(SQUARE, Schema(kind=Integer(0, 0))))
    assert beside.places.tolist() == alone.places.tolist() and alone.coded == 0
    assert alone.places[:4].tolist() == [0, 1, 4, 5]


WHOLE = {"privacy": PureDP(epsilon=1), "unit": Event(), "horizon": 3}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Places(KINDS, SQUARE), "Places takes a Box, Region or Roads and a Schema"),
        (lambda: Places(SQUARE, Integer(0, 3)), "Places takes a Box, Region or Roads and a Schema"),
        (lambda: Places(SQUARE, Schema(x=Integer(0, 3))), "'x', which holds coordinates"),
        (lambda: Places(SQUARE, Schema(low=Integer(0, 3))), "takes for a corner: rename"),
        (lambda: Places(SQUARE, Schema(a=Amount(0, 3))), "the amount 'a', which HistogramStream"),
        (
            lambda: Places(SQUARE, Schema(a=Categorical(["b"], outside="other", growing=2))),
            "the growing list 'a', which HistogramStream takes",
        ),
        (
            lambda: Partition(Places(SQUARE, Schema(a=Integer(0, 999)))),
            "1,000 combinations of values, too many for a map of each.* TabularStream",
        ),
        (
            lambda: SpatialStream(
                domain=Places(
                    Box(low=(0, 0), high=(1, 1), columns=("x", "y")), Schema(a=Integer(1, 20))
                ),
                **WHOLE,
            ),
            "20 combinations of values, which with 1,024 cells a side.*use cells=512",
        ),
        (lambda: TabularStream(domain=Places(SQUARE, KINDS), **WHOLE), "domain must be a Schema"),
        (lambda: papers.privstream(domain=Places(SQUARE, KINDS), **WHOLE), "has attributes"),
    ],
)
def test_what_does_not_fit_is_told(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


def test_cells_of_20_values_fit_as_told():
    box = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=512)
    assert Partition(Places(box, Schema(a=Integer(1, 20)))).depth == 23
    assert Plan(Places(SQUARE, Schema(a=Real(edges=[0, 1, 2])))).size == 128
