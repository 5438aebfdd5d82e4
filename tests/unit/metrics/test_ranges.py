"""Range queries: against counting one by one, and the numbers of the paper's metric."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.errors import ConfigError, DataError
from tailrace.metrics import (
    RangeError,
    Rectangles,
    count,
    random_rectangles,
    relative_error,
    standard_queries,
)


def one_by_one(points, rectangles):
    inside = (points[:, None] >= rectangles.low) & (points[:, None] <= rectangles.high)
    return inside.all(axis=2).sum(axis=0)


@given(
    st.integers(1, 4),
    st.integers(0, 300),
    st.sampled_from(["even", "lumps", "grid"]),
    st.integers(0, 2**32),
)
def test_counts_are_those_of_counting_one_by_one(dimensions, size, kind, seed):
    rng = np.random.default_rng(seed)
    points = rng.random((size, dimensions))
    if kind == "lumps":
        points = 0.3 + 1e-9 * rng.integers(0, 3, (size, dimensions)) + (rng.random((size, 1)) < 0.1)
    if kind == "grid":
        points = np.round(points * 4) / 4  # points on the edges of rectangles, and of cells
    corners = rng.random((2, 200, dimensions)) * 1.4 - 0.2
    corners[:, :100] = np.round(corners[:, :100] * 4) / 4
    rectangles = Rectangles(corners.min(axis=0), corners.max(axis=0))
    assert np.array_equal(count(points, rectangles), one_by_one(points, rectangles))


def test_points_that_are_nowhere_are_in_no_rectangle():
    everything = Rectangles(np.full((1, 2), -np.inf), np.full((1, 2), np.inf))
    points = np.array([[0.0, 0.0], [np.nan, 0.0], [np.inf, 1.0], [3.0, 3.0]])
    assert count(points, everything).tolist() == [2]
    assert count(points[:1], Rectangles([[1.0, 1.0]], [[0.0, 0.0]])).tolist() == [0], (
        "corners the wrong way round"
    )
    assert count(np.full((5, 2), 7.0), everything).tolist() == [5], "all points in one place"


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_rectangles_have_the_volume_and_shape_asked_for(dimensions):
    low, high = np.arange(dimensions) - 1.0, np.arange(dimensions) + 3.0
    for rectangles, (least, most), number in zip(
        standard_queries(np.random.default_rng(0), low=low, high=high).values(),
        [(0.0001, 0.001), (0.001, 0.01), (0.01, 0.1)],
        [10_000, 5_000, 1_000],
        strict=True,
    ):
        assert len(rectangles) == number
        sides = (rectangles.high - rectangles.low) / (high - low)
        volumes = sides.prod(axis=1)
        assert volumes.min() >= least * 0.999 and volumes.max() <= most * 1.001
        assert volumes.mean() == pytest.approx((least + most) / 2, rel=0.05)
        assert (sides.max(axis=1) <= 2.001 * sides.min(axis=1)).all()
        assert (rectangles.low >= low).all() and (rectangles.high <= high + 1e-12).all()


def test_the_error_is_relative_to_the_truth_or_to_the_floor():
    true = np.repeat([[0.25], [0.75]], [1998, 2], axis=0)
    rectangles = Rectangles(
        [[0.0], [0.7], [0.9]], [[0.5], [0.8], [1.0]]
    )  # 1998, 2 (the floor exactly) and 0 points
    synthetic = np.repeat([[0.25], [0.75], [0.95]], [999, 3, 1], axis=0)
    error = relative_error(true, synthetic, rectangles)
    assert error.every == pytest.approx((0.5 + 0.5 + 0.5) / 3)
    assert error.held == pytest.approx(0.5) and error.share == pytest.approx(2 / 3)
    assert relative_error(true, np.empty((0, 1)), rectangles) == RangeError(
        pytest.approx(2 / 3), 1.0, pytest.approx(2 / 3)
    )
    assert np.isnan(relative_error(true[:0], synthetic, rectangles).every)
    assert np.isnan(relative_error(true, synthetic, Rectangles([[0.9]], [[1.0]])).held)


def test_the_paper_s_queries_on_a_hundred_thousand_points_take_well_under_a_second():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.random((50_000, 2)), rng.normal(0.5, 0.02, (50_000, 2))])
    queries = standard_queries(rng, low=(0, 0), high=(1, 1))
    count(points[:10], queries["large"])  # compiled
    start = time.perf_counter()
    for rectangles in queries.values():
        count(points, rectangles)
    assert time.perf_counter() - start < 1


def test_arrays_of_another_shape_are_refused():
    with pytest.raises(ConfigError, match="one shape"):
        Rectangles([[0.0, 0.0]], [[1.0]])
    with pytest.raises(DataError, match="2 dimensions"):
        count(np.zeros((3, 1)), Rectangles([[0.0, 0.0]], [[1.0, 1.0]]))
    assert (
        len(
            random_rectangles(
                np.random.default_rng(0), low=[0], high=[1], number=0, least=0.1, most=0.2
            )
        )
        == 0
    )
