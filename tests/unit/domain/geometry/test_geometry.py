import json
import math
import sys

import narwhals as nw
import numpy as np
import pytest
from scipy import ndimage, stats

from samples import but_spark
from tailrace import ConfigError, DataError, StateError
from tailrace.counting.plan import Plan
from tailrace.domain import Box, Integer, Schema
from tailrace.domain.geometry import Region, Roads, from_dict, kernel, measure_of_cells

shapely = pytest.importorskip("shapely", reason="geometry needs shapely")

SQUARE = shapely.box(0, 0, 4, 4)
HOLED = shapely.Polygon(
    [(0, 0), (10, 0), (9, 7), (2, 10)], [[(2, 2), (4, 3), (3, 5)], [(5, 5), (7, 5.5), (6, 6.5)]]
)
PARTED = shapely.MultiPolygon(
    [HOLED, shapely.box(12, 1, 15, 2.5), shapely.Polygon([(11, 8), (14, 9), (13, 11.3)])]
)
SLIVER = shapely.Polygon([(0, 0), (10, 7.0001), (10, 7.0002)])
COMB = shapely.Polygon(
    [(0, 0), (8, 0), (8, 6), *((8 - i / 10, 1 + 5 * (i % 2)) for i in range(1, 80)), (0, 6)]
)
CROSS = shapely.MultiLineString(
    [[(0, 0), (8, 8)], [(0, 8), (8, 0), (8, 3)], [(1, 1.5), (1, 6.5), (7, 6.5)]]
)
ON_EDGES = shapely.MultiLineString([[(0, 0), (0, 8), (8, 8)], [(4, 0), (4, 8)], [(0, 2), (8, 2)]])
REGIONS = {"holed": HOLED, "parted": PARTED, "sliver": SLIVER, "comb": COMB, "square": SQUARE}
NETWORKS = {
    "cross": CROSS,
    "on edges": ON_EDGES,
    "line": shapely.LineString([(0, 0), (0.1, 7), (5, 0.3)]),
}


def made(shape, **options):
    return (Region if shapely.get_dimensions(shape) == 2 else Roads)(shape, **options)


def exact(shape, domain):
    """What shapely finds in every cell; it counts a line along an edge in both cells."""
    x, y = (
        np.linspace(low, high, domain.side + 1)
        for low, high in zip(domain.low, domain.high, strict=True)
    )
    i, j = np.divmod(np.arange(domain.size), domain.side)
    found = shapely.intersection(shape, shapely.box(x[i], y[j], x[i + 1], y[j + 1]))
    return (shapely.area if shapely.get_dimensions(shape) == 2 else shapely.length)(found).reshape(
        domain.shape
    )


def frame(columns):
    return nw.from_native(pytest.importorskip("polars").DataFrame(columns))


def living(domain):
    return np.flatnonzero(domain.measure_of_cells())


@pytest.mark.parametrize("cells", [1, 2, 8, 13])
@pytest.mark.parametrize("name", REGIONS)
def test_every_cell_holds_the_area_that_shapely_finds(name, cells):
    region = Region(REGIONS[name], cells=cells)
    measure = region.measure_of_cells()
    cell = math.prod(np.subtract(region.high, region.low)) / region.size
    assert np.allclose(measure, exact(REGIONS[name], region), rtol=1e-9, atol=2e-9 * cell)
    assert measure.sum() == pytest.approx(
        REGIONS[name].area, rel=1e-9, abs=1e-9 * cell * region.size
    )
    assert measure is region.measure_of_cells() and not measure.flags.writeable


@pytest.mark.parametrize("cells", [1, 2, 8, 13])
@pytest.mark.parametrize("name", ["cross", "line"])
def test_every_cell_holds_the_length_that_shapely_finds(name, cells):
    roads = Roads(NETWORKS[name], cells=cells, box=(-0.37, -0.41, 8.83, 8.29))
    assert np.allclose(roads.measure_of_cells(), exact(NETWORKS[name], roads), rtol=1e-9, atol=1e-8)


def test_a_line_along_an_edge_belongs_to_the_cell_that_counts_its_points():
    roads = Roads(ON_EDGES, cells=4)
    lengths = np.zeros((4, 4))
    lengths[0] += 2  # up the lowest x
    lengths[2] += 2  # up the edge between the second and the third column
    lengths[:, 1] += 2  # along the edge between the first and the second row
    lengths[:, 3] += 2  # along the highest y
    assert np.allclose(roads.measure_of_cells(), lengths)
    points = frame(roads.decode(np.repeat(living(roads), 50), np.random.default_rng(0)))
    assert (roads.cells(points) == np.repeat(living(roads), 50)).all()


def test_a_line_along_the_highest_edge_is_inside_however_its_place_is_rounded():
    roads = Roads(
        shapely.LineString([(1e6, -2e6), (1e6 + 1500, -2e6), (1e6 + 1500, -2e6 + 300)]), cells=7
    )
    assert 1500 * (7 / 1500) > 7
    assert roads.measure_of_cells().sum() == pytest.approx(1800)
    assert roads.measure_of_cells()[6].sum() == pytest.approx(1500 / 7 + 300)


def test_a_stretch_that_is_listed_twice_counts_once():
    there, back = [(0, 0), (3, 4), (6, 0)], [(-1, 0), (3, 4), (0, 0)]
    twice = shapely.MultiLineString([there, back, there, there[::-1], [(0, 0), (3, 4)]])
    assert Roads(twice, cells=5).measure_of_cells().sum() == pytest.approx(10 + math.hypot(4, 4))


def test_a_declared_box_cuts_off_what_it_does_not_hold():
    region = Region(PARTED, cells=7, box=(3, -2, 12.5, 6))
    held = shapely.intersection(PARTED, shapely.box(3, -2, 12.5, 6))
    assert np.allclose(region.measure_of_cells(), exact(PARTED, region), atol=1e-8)
    assert region.measure_of_cells().sum() == pytest.approx(held.area)
    assert (region.low, region.high) == ((3, -2), (12.5, 6))
    roads = Roads(CROSS, cells=7, box=(3, -2, 12.5, 6))
    assert np.allclose(roads.measure_of_cells(), exact(CROSS, roads), atol=1e-8)


def test_a_box_has_the_same_measure_everywhere_in_any_number_of_dimensions():
    box = Box(low=(0, 0, 0, 0), high=(1, 1, 2, 4), columns=tuple("abcd"), cells=1024)
    measure = measure_of_cells(box)
    assert measure.shape == box.shape and measure[5, 6, 7, 8] == 8 / 1024**4
    region = Region(SQUARE, cells=4)
    assert measure_of_cells(region) is region.measure_of_cells()
    assert np.allclose(region.measure_of_cells(), 1)


@pytest.mark.parametrize("cells", [1, 8, 31])
@pytest.mark.parametrize("name", [*REGIONS, *NETWORKS])
def test_what_is_decoded_lies_on_the_geometry_and_leads_back_to_its_cell(name, cells):
    shape = {**REGIONS, **NETWORKS}[name]
    domain = made(shape, cells=cells)
    drawn = np.random.default_rng(1).permutation(np.repeat(living(domain), 40))
    points = domain.decode(drawn, np.random.default_rng(2))
    assert list(points) == ["lon", "lat"] and all(
        values.dtype == np.float64 for values in points.values()
    )
    assert domain.cells(frame(points)).tolist() == drawn.tolist()
    if isinstance(domain, Region):
        assert shapely.intersects_xy(shape, *points.values()).all()
    else:
        assert shapely.distance(shapely.points(*points.values()), shape).max() < 1e-14


@pytest.mark.parametrize("share", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("name", [*REGIONS, *NETWORKS])
def test_a_point_at_the_very_edge_of_what_a_cell_holds_is_counted_in_it(name, share):
    class Extreme:
        def random(self, size):
            return np.full(size, share)

    shape = shapely.transform(
        {**REGIONS, **NETWORKS}[name], lambda points: points / 30 - [74.26, -40.48]
    )
    domain = made(shape, cells=100)
    points = domain.decode(living(domain), Extreme())
    assert domain.cells(frame(points)).tolist() == living(domain).tolist()
    if isinstance(domain, Region):
        assert shapely.intersects_xy(shape, *points.values()).all()


class Bent:
    """Draws that are not even, but by little."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def random(self, size):
        return self.rng.random(size) ** 1.1


def evenness(shape, domain, rng, draws=60_000):
    """The p-value of draws over the whole geometry against what shapely finds in a finer grid."""
    measure = domain.measure_of_cells().reshape(-1)
    cells = np.random.default_rng(5).choice(domain.size, draws, p=measure / measure.sum())
    points = domain.decode(cells, rng)
    fine = made(shape, cells=domain.side * 4, box=(*domain.low, *domain.high))
    counts = np.bincount(Box(**_grid(fine)).cells(frame(points)), minlength=fine.size)
    wanted = exact(shape, fine).reshape(-1)
    wanted *= draws / wanted.sum()
    usual = wanted >= 5
    both = [np.append(part[usual], part[~usual].sum() + 1e-9) for part in (counts, wanted)]
    return stats.chisquare(both[0], both[1] * both[0].sum() / both[1].sum()).pvalue


def _grid(domain):
    return {"low": domain.low, "high": domain.high, "columns": domain.columns, "cells": domain.side}


@pytest.mark.parametrize("cells", [1, 3, 8])
@pytest.mark.parametrize("name", ["holed", "parted", "comb", "cross", "line"])
def test_points_are_spread_evenly_by_area_or_length(name, cells):
    shape = {**REGIONS, **NETWORKS}[name]
    domain = made(
        shape, cells=cells, box=(-0.37, -0.41, 15.03, 11.39)
    )  # no line along an edge, which shapely counts twice
    assert evenness(shape, domain, np.random.default_rng(3)) > 1e-3
    assert evenness(shape, domain, Bent(3)) < 1e-6


def test_a_cell_without_a_part_of_the_geometry_has_no_points():
    region = Region(shapely.Polygon([(0, 0), (4, 0), (0, 4)]), cells=2)
    for cells in ([0, 3], [-1], [4]):
        with pytest.raises(DataError, match="holds a part of the geometry"):
            region.decode(np.array(cells), np.random.default_rng(0))
    assert region.decode(np.array([], int), np.random.default_rng(0))["lat"].tolist() == []


PLACES = {
    "lon": [
        1.0,
        3.9,
        2.1,
        4.0,
        None,
        math.nan,
        math.inf,
        -math.inf,
        -1.0,
        1e300,
        0.0,
        2.0,
        8.0,
        7.9,
    ],
    "lat": [1.0, 3.9, 2.1, 4.0, 1.0, 1.0, 1.0, 1.0, 9.0, 0.5, 4.0, None, 8.0, 0.1],
}


def engines():
    pa, pl, duckdb = (pytest.importorskip(name) for name in ("pyarrow", "polars", "duckdb"))
    pd = pytest.importorskip("pandas")
    rows = {"row": list(range(len(PLACES["lon"]))), **PLACES}
    table = pa.table(rows)
    yield from (table, pl.DataFrame(rows), pl.DataFrame(rows).lazy(), duckdb.from_arrow(table))
    yield from (table.to_pandas(), table.to_pandas(types_mapper=pd.ArrowDtype))


def of_spark(spark):
    yield spark().createDataFrame(next(engines()))


@pytest.mark.parametrize("kind", but_spark(["others", "pyspark"]))
def test_every_engine_gives_the_cells_of_the_kernel(spark, kind):
    triangle = shapely.Polygon([(0, 0), (8, 0), (0, 8)])
    domains = [
        *(Region(triangle, cells=4, outside=outside) for outside in ("drop", "nearest")),
        Roads(CROSS, cells=5),
        Roads(CROSS, cells=9, outside="nearest", reach=1.5),
    ]
    expected = [domain.cells(frame(PLACES)).tolist() for domain in domains]
    assert len({tuple(cells) for cells in expected}) == len(domains)
    for native in of_spark(spark) if kind == "pyspark" else engines():
        rows = nw.from_native(native)
        for domain, cells in zip(domains, expected, strict=True):
            found = (
                rows.select("row", domain.cell(rows).fill_null(-1).alias("cell")).lazy().collect()
            )
            order = np.argsort(found["row"].to_numpy().astype(np.int64))
            assert domain.settle(found["cell"].to_numpy().astype(np.int64)[order]).tolist() == cells
            if isinstance(rows, nw.DataFrame):
                assert domain.cells(rows).tolist() == cells


def test_a_point_off_the_region_is_dropped_or_counted_in_the_nearest_cell():
    points = frame({"lon": [0.5, 3.5, 3.5, 9.0, -5.0, None], "lat": [0.5, 3.5, 0.1, 9.0, 1.5, 1.0]})
    triangle = shapely.Polygon([(0, 0), (4, 0), (0, 4)])
    assert Region(triangle, cells=4).cells(points).tolist() == [0, -1, 12, -1, -1, -1]
    nearest = Region(triangle, cells=4, outside="nearest").cells(points).tolist()
    assert nearest[0] == 0 and nearest[2:] == [12, nearest[1], 1, -1]
    assert nearest[1] in (6, 9)  # the two are equally near
    assert Plan(Region(triangle, cells=4)).count(points.to_native()).tolist() == [
        1,
        *[0] * 11,
        1,
        0,
        0,
        0,
    ]


def test_a_point_off_the_roads_is_moved_no_farther_than_reach():
    line = shapely.LineString([(0, 0), (0, 10)])
    points = frame(
        {"lon": [0.0, 1.9, 3.2, -1.9, -2.1, 0.0], "lat": [5.0, 5.0, 5.0, 5.0, 5.0, 12.5]}
    )
    roads = Roads(line, cells=14, outside="nearest", reach=2)
    assert (roads.low, roads.high) == ((-2, -2), (2, 12))
    home = roads.cells(points)[0]
    assert roads.cells(points).tolist() == [home, home, -1, home, -1, -1]
    assert Roads(line, cells=14, box=(-2, -2, 2, 12)).cells(points).tolist() == [home, *[-1] * 5]
    wider = Roads(line, cells=14, outside="nearest", reach=1.5, box=(-2, -2, 2, 12))
    assert wider.cells(points).tolist() == [home, -1, -1, -1, -1, -1]
    assert wider.cells(frame({"lon": [1.3, -1.3, 1.0], "lat": [5.0, 5.0, 5.0]})).tolist() == [
        home,
        home,
        home,
    ]


def test_a_reach_that_is_left_out_is_half_a_usual_block_of_the_roads_alone():
    grid = [[(i, 0), (i, 40)] for i in range(41)] + [[(0, i), (40, i)] for i in range(41)]
    streets = shapely.MultiLineString(grid)
    roads = Roads(streets, cells=1024, outside="nearest")
    # A side of a block is 1: on either side of a street half of it is nearest to that street.
    assert roads.reach == pytest.approx(0.5, rel=0.03)
    assert roads.low == (-roads.reach, -roads.reach)
    middle = frame({"lon": [7.5, 7.5, -0.4, -0.9], "lat": [3.5, 3.0, 7.0, 7.0]})
    assert (roads.cells(middle) >= 0).tolist() == [True, True, True, False]
    cut = Roads(streets, cells=1024, outside="nearest", box=(0, 0, 8, 8))
    assert cut.reach == pytest.approx(0.5, rel=0.15) and cut.high == (8, 8)
    # Of wide cells it is a cell and a half: the neighbours of a road's cell lie within it.
    for cells in (4, 16):
        coarse = Roads(shapely.LineString([(0, 0), (9, 9)]), cells=cells, outside="nearest")
        assert coarse.reach >= 10 / cells and from_dict(coarse.to_dict()) == coarse
    assert Roads(streets, reach=0.3) == Roads(streets, outside="nearest", reach=0.3)


def test_what_was_left_out_is_for_the_mechanism_to_say():
    open_, drop = Roads(CROSS, cells=64), Roads(CROSS, cells=64, outside="drop")
    near = Roads(CROSS, cells=64, outside="nearest")
    assert open_ == drop and open_.outside == "drop" and drop.for_journeys() is drop
    assert open_.for_journeys() == near and near.for_journeys() is near
    # A configuration that leaves it out means what its stream was made with.
    assert open_.for_journeys().as_kept(drop) == drop
    assert near.as_kept(drop) == near and drop.as_kept(near) == drop
    assert open_.as_kept(Roads(CROSS, cells=32)) == open_
    declared = Roads(CROSS, cells=64, box=(0, 0, 9, 9)).for_journeys()
    assert (declared.low, declared.high) == ((0, 0), (9, 9))


@pytest.mark.parametrize(("width", "height"), [(1, 1), (0.3, 2.0), (7, 0.1)])
def test_the_nearest_cell_is_the_nearest(width, height):
    rng = np.random.default_rng(7)
    for held in (rng.random((40, 40)) < share for share in (0.001, 0.01, 0.1, 0.9)):
        found = kernel.nearest(held, width, height, math.inf)
        if not held.any():
            assert (found == -1).all()
            continue
        distances = ndimage.distance_transform_edt(~held, sampling=(width, height)).reshape(-1)
        i, j = np.divmod(np.arange(held.size), 40)
        k, m = np.divmod(found, 40)
        assert held.reshape(-1)[found].all()
        assert np.allclose(np.hypot((i - k) * width, (j - m) * height), distances)
        near = kernel.nearest(held, width, height, 3.0)
        assert ((near >= 0) == (distances <= 3.0)).all()


def test_domains_with_a_geometry_are_values():
    region, roads = Region(PARTED, cells=64), Roads(CROSS, cells=64, outside="nearest", reach=0.5)
    for domain, other in ((region, Region(PARTED, cells=65)), (roads, Roads(CROSS, cells=64))):
        domain.measure_of_cells()
        again = from_dict(json.loads(json.dumps(domain.to_dict(), sort_keys=True)))
        assert (
            again == domain and hash(again) == hash(domain) and again.to_dict() == domain.to_dict()
        )
        assert again != other and len({again, domain, other}) == 2
        assert (again.measure_of_cells() == domain.measure_of_cells()).all()
        with pytest.raises(AttributeError):
            domain.box = None
    assert shapely.equals_exact(region.polygons, PARTED, 0) and shapely.equals_exact(
        roads.lines, CROSS, 0
    )
    assert repr(region) == (
        "Region(<3 polygons>, low=(0.0, 0.0), high=(15.0, 11.3), columns=('lon', 'lat'), cells=64, "
        "outside='drop')"
    )
    assert "<3 lines>" in repr(roads) and "reach=0.5" in repr(roads)
    assert region.types == {"lon": nw.Float64(), "lat": nw.Float64()}
    assert (region.shape, region.size, region.side) == ((64, 64), 4096, 64)
    assert from_dict(Schema(a=Integer(0, 1)).to_dict()) == Schema(a=Integer(0, 1))


def test_an_awkward_decimal_is_stored_to_the_last_bit():
    shape = shapely.Polygon([(0.1, 0.2), (math.nextafter(1 / 3, 1), 0.2), (-0.0, 1 / 7)])
    assert from_dict(Region(shape).to_dict()).polygons.exterior.coords[1] == (
        math.nextafter(1 / 3, 1),
        0.2,
    )
    assert Region(shape) == Region(shapely.transform(shape, lambda points: points + 0.0))
    assert Region(shapely.force_3d(shape, 5.0)) == Region(shape)


def features(*geometries):
    made = [{"type": "Feature", "properties": {}, "geometry": geometry} for geometry in geometries]
    return {"type": "FeatureCollection", "features": made}


def plain(shape):
    return json.loads(shapely.to_geojson(shape))


def test_geojson_is_read_in_each_of_its_forms(tmp_path):
    path = tmp_path / "place.geojson"
    both = shapely.GeometryCollection([SQUARE, CROSS])
    for content, shape in (
        (plain(PARTED), PARTED),
        (features(plain(PARTED))["features"][0], PARTED),
        (features(plain(SQUARE), None, plain(shapely.box(4, 0, 6, 4))), shapely.box(0, 0, 6, 4)),
        (plain(both), SQUARE),
    ):
        path.write_text(json.dumps(content))
        region = Region.read(path, cells=16, columns=("x", "y"), outside="nearest")
        assert shapely.equals(region.polygons, shape) and (region.side, region.columns) == (
            16,
            ("x", "y"),
        )
    assert shapely.equals(Roads.read(str(path)).lines, CROSS)
    path.write_text(json.dumps(features(plain(CROSS), plain(shapely.LineString([(9, 9), (9, 8)])))))
    assert Roads.read(path, outside="nearest", reach=1).lines.length == pytest.approx(
        CROSS.length + 1
    )


@pytest.mark.parametrize("described", [True, False])
def test_geoparquet_is_read_with_and_without_its_metadata(tmp_path, described):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column = "outline" if described else "geometry"
    table = pa.table(
        {"name": ["a", "b", "c"], column: [shapely.to_wkb(SQUARE), None, shapely.to_wkb(CROSS)]}
    )
    if described:
        geo = {
            "version": "1.1.0",
            "primary_column": column,
            "columns": {column: {"encoding": "WKB"}},
        }
        table = table.replace_schema_metadata({b"geo": json.dumps(geo)})
    pq.write_table(table, tmp_path / "place.parquet")
    assert shapely.equals(Region.read(tmp_path / "place.parquet").polygons, SQUARE)
    assert shapely.equals(Roads.read(tmp_path / "place.parquet").lines, CROSS)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("names", "columns"), [(("lon", "lat"), ("lon", "lat")), (("x", "y"), ("east", "north"))]
)
def test_nodes_and_edges_are_read_from_tables(tmp_path, kind, names, columns):
    pl = pytest.importorskip("polars")
    nodes = pl.DataFrame(
        {"node": ["a", "b", "c"], names[1]: [0.0, 4.0, 0.0], names[0]: [0.0, 3.0, 3.0]}
    )
    edges = pl.DataFrame(
        {"u": ["a", "b", "b", "c"], "v": ["b", "a", "c", "c"], "length": [5.0, 5.0, 4.0, 0.0]}
    )
    for table, name in ((nodes, "nodes"), (edges, "edges")):
        getattr(table, f"write_{kind}")(tmp_path / f"{name}.{kind}")
    roads = Roads.read(
        tmp_path / f"edges.{kind}", nodes=tmp_path / f"nodes.{kind}", columns=columns, cells=4
    )
    assert roads.columns == columns and roads.high == (3, 4)
    assert roads.measure_of_cells().sum() == pytest.approx(9)


def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "torn.geojson").write_text('{"type": "Feature", "geom')
    (tmp_path / "other.geojson").write_text('{"kind": 5}')
    (tmp_path / "odd.geojson").write_text('{"type": "Polygon", "coordinates": [["a"]]}')
    (tmp_path / "list.geojson").write_text("[1]")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    (tmp_path / "lines.geojson").write_text(json.dumps(plain(CROSS)))
    (tmp_path / "crossing.geojson").write_text(
        json.dumps(plain(shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])))
    )
    for name, kind, words in (
        ("absent.geojson", StateError, "absent.geojson cannot be read"),
        ("torn.geojson", StateError, "damaged"),
        ("other.geojson", StateError, "damaged"),
        ("odd.geojson", StateError, "damaged"),
        ("list.geojson", StateError, "damaged"),
        ("torn.parquet", StateError, "damaged|cannot be read"),
        ("lines.geojson", StateError, "holds no polygons"),
        ("crossing.geojson", ConfigError, "not valid"),
        ("place.shp", ConfigError, ".geojson"),
    ):
        with pytest.raises(kind, match=words) as caught:
            Region.read(tmp_path / name)
        assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_tables_that_are_no_network_are_refused(tmp_path):
    pl = pytest.importorskip("polars")
    good = {
        "nodes": {"id": [1, 2], "lon": [0.0, 1.0], "lat": [0.0, 1.0]},
        "edges": {"u": [1], "v": [2]},
    }
    for change, kind, words in (
        ({"edges": {"u": [1], "v": [3]}}, StateError, "must join two nodes"),
        ({"edges": {"u": [], "v": []}}, StateError, "must join two nodes"),
        ({"edges": {"u": [1]}}, StateError, "in its first two"),
        ({"nodes": {"id": [1, 1], "lon": [0.0, 1.0], "lat": [0.0, 1.0]}}, StateError, "distinct"),
        ({"nodes": {"id": [1, 2], "a": [0.0, 1.0], "b": [0.0, 1.0]}}, StateError, "in x and y"),
        (
            {"nodes": {"id": [1, 2], "lon": ["a", "b"], "lat": [0.0, 1.0]}},
            StateError,
            "must be numbers",
        ),
        ({"edges": {"u": [1], "v": [1]}}, ConfigError, "must have points"),
    ):
        for name, columns in {**good, **change}.items():
            pl.DataFrame(columns).write_csv(tmp_path / f"{name}.csv")
        with pytest.raises(kind, match=words):
            Roads.read(tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv")
    with pytest.raises(ConfigError, match=r"\.csv or \.parquet"):
        Roads.read(tmp_path / "edges.xlsx", nodes=tmp_path / "nodes.csv")
    with pytest.raises(StateError, match="cannot be read as a table"):
        Roads.read(tmp_path / "absent.csv", nodes=tmp_path / "nodes.csv")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Region(CROSS), "Polygon or MultiPolygon"),
        (lambda: Region("POLYGON"), "Polygon or MultiPolygon"),
        (lambda: Region(shapely.Polygon()), "must have points"),
        (lambda: Region(shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])), "must be valid"),
        (lambda: Region(shapely.Polygon([(0, 0), (math.inf, 1), (1, 0)])), "finite"),
        (lambda: Region(SQUARE, outside="clip"), "'drop', 'nearest'"),
        (lambda: Region(SQUARE, columns="ab"), "two names"),
        (lambda: Region(SQUARE, columns=("a", "b", "c")), "two names"),
        (lambda: Region(SQUARE, columns=("a", "a")), "different names"),
        (lambda: Region(SQUARE, cells=0), "cells"),
        (lambda: Region(SQUARE, cells=5000), "at most 4,096"),
        (lambda: Region(SQUARE, box=(0, 0, 1)), "four numbers"),
        (lambda: Region(SQUARE, box=(1, 0, 0, 1)), "four numbers"),
        (lambda: Region(SQUARE, box=(0, 0, math.nan, 1)), "finite numbers"),
        (lambda: Region(SQUARE, box=(5, 5, 6, 6)), "must hold a part"),
        (lambda: Region(SQUARE, box=(4, 4, 6, 6)), "must hold a part"),
        (lambda: Region(SQUARE, box=(0, 0, 1e9, 1e9)).measure_of_cells(), "too small or too thin"),
        (lambda: Roads(SQUARE), "LineString or MultiLineString"),
        (lambda: Roads(shapely.LineString([(0, 0), (0, 0)])), "must have a length"),
        (lambda: Roads(shapely.LineString([(0, 0), (0, 1)])), "no width or no height"),
        (lambda: Roads(shapely.LineString([(0, 0), (1, 3e-308)])), "too narrow"),
        (lambda: Roads(CROSS, outside="drop", reach=1), "the cell decides"),
        (lambda: Roads(CROSS, outside="clip"), "'drop', 'nearest'"),
        (lambda: Roads(CROSS, outside="nearest", reach=-1), "positive number"),
        (lambda: Roads(CROSS, outside="nearest", reach=0), "positive number"),
        (lambda: Roads(CROSS, outside="nearest", reach="1"), "positive number"),
        (lambda: Roads(CROSS, outside="nearest", reach=1e-4), "at least the width of a cell"),
        (lambda: from_dict({"kind": "Region"}), "stored Region"),
        (lambda: from_dict({"kind": "Region", "polygons": "xyz"}), "hexadecimal"),
        (lambda: from_dict({"kind": "Region", "polygons": "00ff"}), "hexadecimal"),
        (lambda: from_dict({"kind": "Roads", "lines": CROSS.wkb_hex, "speed": 5}), "stored Roads"),
        (lambda: from_dict({"kind": "Sphere"}), "stored domain"),
    ],
)
def test_what_cannot_be_a_geometry_is_refused_in_one_sentence(make, words):
    with pytest.raises(ConfigError, match=words) as caught:
        make()
    assert caught.value.__cause__ is None


def test_a_wrong_column_is_refused():
    region = Region(SQUARE, cells=4)
    with pytest.raises(DataError, match="no column 'lat'"):
        region.check(frame({"lon": [1.0]}))
    with pytest.raises(DataError, match="must hold numbers"):
        region.check(frame({"lon": [1.0], "lat": [[1.0]]}))


def test_without_shapely_the_package_to_install_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "shapely", None)
    with pytest.raises(ConfigError, match=r"pip install 'tailrace\[geo\]'"):
        Region(SQUARE)
