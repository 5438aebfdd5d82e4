"""Shares of boxes by the measure of a geometry."""

import numpy as np
import pytest

from tailrace.domain import Box

shapely = pytest.importorskip("shapely", reason="shapely is not installed")

from tailrace.domain.geometry import Region  # noqa: E402
from tailrace.domain.geometry.shares import shares  # noqa: E402

TRIANGLE = Region(shapely.Polygon([(0, 0), (8, 0), (0, 8)]), columns=("x", "y"), cells=64)


@pytest.mark.parametrize("seed", range(20))
def test_a_share_is_the_area_of_the_intersection(seed):
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.uniform(0, 8, (2, 2)), axis=0)
    lowest, highest = np.sort(rng.uniform(-1, 9, (2, 2)), axis=0)
    box = shapely.intersection(TRIANGLE.polygons, shapely.box(*low, *high))
    found = shares(TRIANGLE, low[None], high[None], lowest, highest)[0]
    if box.area < 0.5:
        return
    true = shapely.intersection(box, shapely.box(*lowest, *highest)).area / box.area
    assert found == pytest.approx(true, abs=0.03), "evenly inside cells of an eighth"


def test_whole_empty_and_inverted_rectangles():
    low, high = np.array([[0.0, 0.0], [6.0, 6.0]]), np.array([[4.0, 4.0], [8.0, 8.0]])
    assert shares(TRIANGLE, low, high, np.array([-1, -1]), np.array([9, 9])) == pytest.approx(
        [1, 0]
    )
    assert shares(TRIANGLE, low, high, np.array([3, 3]), np.array([2, 2])) == pytest.approx([0, 0])


def test_a_line_of_one_dimension():
    line = Box(low=(0,), high=(1,), columns=("x",))
    assert shares(
        line, np.array([[0.0]]), np.array([[0.5]]), np.array([0.25]), np.array([1.0])
    ) == pytest.approx([0.5])
