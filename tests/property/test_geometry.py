"""Whatever the geometry, its cells hold what shapely finds in them, and what is decoded lies on it
and in its cell.
"""

import json
import math

import narwhals as nw
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from samples import examples
from tailrace import ConfigError
from tailrace.domain.geometry import Region, Roads, from_dict

shapely = pytest.importorskip("shapely", reason="geometry needs shapely")
pl = pytest.importorskip("polars")

sides = st.sampled_from([1, 2, 3, 7, 32])
places = st.sampled_from(
    [(0.0, 0.0, 1.0), (-74.0, 40.5, 0.01), (1e6, -2e6, 300.0), (-180.0, -60.0, 30.0)]
)
grids = st.integers(0, 8).map(float)  # many borders on the edges of cells
anywhere = st.floats(0, 8, allow_subnormal=False)


@st.composite
def stars(draw):
    """A polygon around a centre, thin or thick, often with a hole."""
    turns = sorted(draw(st.lists(st.integers(0, 71), min_size=3, max_size=12, unique=True)))
    assume(max(np.diff([*turns, turns[0] + 72])) < 36)
    radii = [draw(st.sampled_from([0.02, 0.5, 1.0, 2.0]) | st.floats(0.05, 3)) for _ in turns]
    ring = np.array(
        [
            (r * math.cos(t * math.pi / 36), r * math.sin(t * math.pi / 36))
            for r, t in zip(radii, turns, strict=True)
        ]
    )
    hole = [ring * draw(st.floats(0.1, 0.9))] if draw(st.booleans()) else []
    return shapely.Polygon(ring, hole)


@st.composite
def blocks(draw):
    """Rectangles with whole corners, merged: right angles, holes and several parts."""
    corners = draw(st.lists(st.tuples(grids, grids, grids, grids), min_size=1, max_size=6))
    boxes = [shapely.box(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in corners]
    return shapely.union_all([box for box in boxes if box.area > 0])


@st.composite
def networks(draw):
    points = st.tuples(grids | anywhere, grids | anywhere)
    return shapely.MultiLineString(
        draw(st.lists(st.lists(points, min_size=2, max_size=5), min_size=1, max_size=5))
    )


@st.composite
def domains(draw):
    shape, side, (x, y, scale) = draw(stars() | blocks() | networks()), draw(sides), draw(places)
    assume(not shape.is_empty)
    shape = shapely.transform(shape, lambda points: points * scale + [x, y])
    kind = Region if shapely.get_dimensions(shape) == 2 else Roads
    try:
        domain = kind(shape, cells=side)
        domain.measure_of_cells()
        return domain
    except ConfigError:  # no width, or too thin
        assume(False)


def parts(domain):
    """What shapely finds in each cell; the edges are as near to those of the grid as doubles
    are.
    """
    shape = domain.polygons if isinstance(domain, Region) else domain.lines
    x, y = (
        np.linspace(low, high, domain.side + 1)
        for low, high in zip(domain.low, domain.high, strict=True)
    )
    i, j = np.divmod(np.arange(domain.size), domain.side)
    return shapely.intersection(shape, shapely.box(x[i], y[j], x[i + 1], y[j + 1]))


@examples(150)
@given(domains())
def test_cells_hold_what_shapely_finds(domain):
    measure = domain.measure_of_cells().reshape(-1)
    assert (measure >= 0).all()
    if isinstance(domain, Region):
        cell = math.prod(np.subtract(domain.high, domain.low)) / domain.size
        assert np.allclose(measure, shapely.area(parts(domain)), rtol=1e-8, atol=1e-8 * cell)
        assert math.isclose(
            measure.sum(), domain.polygons.area, rel_tol=1e-6, abs_tol=1e-8 * cell * domain.size
        )
    else:
        step = min(np.subtract(domain.high, domain.low)) / domain.side
        once = shapely.union_all(domain.lines)  # stretches that overlap, once
        lengths = shapely.length(shapely.intersection(once, shapely.box(*domain.low, *domain.high)))
        assert measure.sum() >= lengths - 1e-6 * step * domain.size
        assert measure.sum() <= domain.lines.length * (1 + 1e-6)
        x, y = (
            np.linspace(low, high, domain.side + 1)
            for low, high in zip(domain.low, domain.high, strict=True)
        )
        i, j = np.divmod(np.flatnonzero(measure), domain.side)
        cells = shapely.box(x[i], y[j], x[i + 1], y[j + 1])
        assert shapely.distance(domain.lines, cells).max() <= 1e-6 * step


@examples(150)
@given(domains(), st.integers(0, 2**32))
def test_what_is_decoded_lies_on_the_geometry_in_its_cell(domain, seed):
    rng = np.random.default_rng(seed)
    cells = rng.choice(np.flatnonzero(domain.measure_of_cells()), 60)
    points = domain.decode(cells, rng)
    assert domain.cells(nw.from_native(pl.DataFrame(points))).tolist() == cells.tolist()
    if isinstance(domain, Region):
        assert shapely.intersects_xy(domain.polygons, *points.values()).all()
    else:
        last = np.spacing(np.abs([domain.low, domain.high]).max())
        assert shapely.distance(shapely.points(*points.values()), domain.lines).max() <= 4 * last


@examples(100)
@given(domains(), st.lists(st.tuples(st.floats(), st.floats()), max_size=20), st.integers(0, 2**32))
def test_a_row_counts_in_its_own_cell_or_not_at_all_and_nearest_moves_only_the_others(
    domain, wild, seed
):
    rng = np.random.default_rng(seed)
    near = rng.uniform(domain.low, domain.high, (50, 2))
    points = np.concatenate([near, np.array(wild, float).reshape(-1, 2)])
    frame = nw.from_native(pl.DataFrame({"lon": points[:, 0], "lat": points[:, 1]}))
    cells, own = domain.cells(frame), domain.box.cells(frame)
    held = domain.measure_of_cells().reshape(-1) > 0
    assert cells.tolist() == np.where((own >= 0) & held[own], own, -1).tolist()
    options = {"outside": "nearest"} | ({} if isinstance(domain, Region) else {"reach": 1e12})
    shape, box = (
        domain.polygons if isinstance(domain, Region) else domain.lines,
        (*domain.low, *domain.high),
    )
    moved = type(domain)(shape, cells=domain.side, box=box, **options).cells(frame)
    assert (moved[cells >= 0] == cells[cells >= 0]).all()
    assert (moved[:50] >= 0).all() and held[moved[moved >= 0]].all()


@given(domains())
def test_a_stored_domain_is_the_same_domain(domain):
    again = from_dict(json.loads(json.dumps(domain.to_dict())))
    assert again == domain and hash(again) == hash(domain)
    assert (again.measure_of_cells() == domain.measure_of_cells()).all()
