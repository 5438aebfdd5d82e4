"""Points along lines: evenly, between both ends, and closer together where there are more."""

import itertools

import numpy as np
import pytest

from tailrace import Box
from tailrace.mechanisms.trajectories.layout import even_layout
from tailrace.mechanisms.trajectories.lines import Lines
from tailrace.mechanisms.trajectories.walks import Walks

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=64)


def straight(many):
    """Lines along the lower edge of the square, through all sixteen cells."""
    layout = even_layout(SQUARE, 16)
    x, y = (layout.middle // 4).astype(int).T
    row = np.flatnonzero(y == 0)
    row = row[np.argsort(x[row])]
    walks = Walks(np.arange(0, 16 * many + 1, 16), np.tile(row, many), np.ones(16 * many, bool))
    lines = Lines.of(walks, layout, layout.middle[walks.cells].T)
    ends = np.array([[2 * 64 + 2], [62 * 64 + 2]]).repeat(many, axis=1)
    return layout, row, lines, ends


def test_points_lie_evenly_between_both_ends_and_are_as_many_as_released():
    layout, row, lines, ends = straight(200)
    points = np.zeros(layout.cells)
    points[row] = 100.0
    offsets, places = lines.points(layout, ends, points, np.random.default_rng(1))
    assert (places[offsets[:-1]] == ends[0]).all() and (places[offsets[1:] - 1] == ends[1]).all()
    # The cells of both ends have no further points: there are more ends than were released.
    assert len(places) == pytest.approx(400 + 14 * 100, rel=0.03)
    column, level = np.divmod(places, 64)
    assert (level == 2).all()
    for first, last in itertools.pairwise(offsets):
        # Hardly any inner points lie in the cells of both ends.
        inner = column[first + 1 : last - 1]
        gaps = np.diff(inner[(inner >= 4) & (inner < 56)])
        assert (gaps > 0).all() and np.ptp(gaps) <= 1


def test_where_more_points_are_released_they_lie_closer_together():
    layout, row, lines, ends = straight(200)
    points = np.zeros(layout.cells)
    points[row] = np.where(np.arange(16) < 8, 200.0, 50.0)
    _, places = lines.points(layout, ends, points, np.random.default_rng(1))
    # Seven cells on each side, and the ends.
    left = (places // 64 < 32).sum() / len(places)
    assert left == pytest.approx((7 * 200 + 200) / (7 * 250 + 400), abs=0.02)


def test_some_lines_are_picked_whole():
    _, _, lines, _ = straight(5)
    some = lines.pick(np.array([1, 4]))
    assert some.offsets.tolist() == [0, 16, 32]
    assert np.array_equal(some.x[16:], lines.x[64:]) and some.lengths[16] == 0
