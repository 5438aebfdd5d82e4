"""The streams that benchmarks run on are what they say, and the baselines follow the data."""

import numpy as np
import pytest

from runner import NotHereError
from tailrace.experiments import spatial_baselines, spatial_data


def test_circles_move_from_the_inner_ring_to_the_outer():
    stream = spatial_data.circles()
    assert len(stream) == 100 and all(len(adds) + len(deletes) == 500 for adds, deletes in stream)
    for step, radius in ((50, 0.2), (100, None)):
        distance = np.linalg.norm(spatial_data.present(stream, step) - 0.5, axis=1)
        assert len(distance) == 25_000
        if radius:
            assert np.abs(distance - radius).max() < 0.06
        else:
            assert (distance > 0.3).mean() == 0.5


def test_the_city_forgets_after_sixty_steps():
    stream = spatial_data.city()
    assert len(stream) == 200 and all(len(adds) == 500 for adds, _ in stream)
    assert all(np.array_equal(stream[t][1], stream[t - 60][0]) for t in range(60, 200))
    places = spatial_data.present(stream, 200)
    last = np.concatenate([adds for adds, _ in stream[140:]])
    assert np.array_equal(np.sort(places, axis=0), np.sort(last, axis=0))
    assert places.min() >= 0 and places.max() <= 1


def test_real_streams_have_the_known_numbers_where_they_are_there():
    try:
        gowalla, uber = spatial_data.gowalla(), spatial_data.uber()
    except NotHereError as missing:
        pytest.skip(f"{missing} is not here")
    assert len(gowalla) == 300 and sum(len(adds) for adds, _ in gowalla) == 138_624
    assert len(spatial_data.present(gowalla, 120)) == 24_913, (
        "from October 2009 on, as the authors have it"
    )
    assert len(uber) == 168 and sum(len(adds) for adds, _ in uber) == 4_301_626
    assert min(len(adds) for adds, _ in uber) == 2_455


def test_the_baseline_holds_about_as_many_points_as_there_are():
    stream, box = spatial_data.circles(steps=10, events=400), spatial_data.SQUARE
    found = dict(spatial_baselines.rerun(stream, box, epsilon=4.0, steps=[6, 10], seed=0))
    assert list(found) == [6, 10]
    for points in found.values():
        assert len(points) == pytest.approx(2000, rel=0.2) and points.shape[1] == 2
