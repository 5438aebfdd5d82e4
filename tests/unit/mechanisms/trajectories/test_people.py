"""Under `User` as many trajectories are released as there are, whatever a person has."""

import numpy as np
import pytest

from tailrace import Box, Noise, PureDP, Trajectories, User
from tailrace.counting.journeys.masses import WHOLE
from tailrace.counting.journeys.reading import Journeys
from tailrace.mechanisms.trajectories.counts import Octaves
from tailrace.mechanisms.trajectories.plan import Followed
from tailrace.mechanisms.trajectories.view import TrajectoriesView

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)


def mechanism(epsilon):
    parts = {"privacy": PureDP(epsilon=epsilon), "unit": User(column="id")}
    return Trajectories(domain=SQUARE, trajectory="trip", order="at", **parts)


def journeys(each):
    """People with so many trajectories each, all of one point."""
    among = np.repeat(each, each)
    many = len(among)
    cells = np.random.default_rng(0).integers(0, 256, many)
    return Journeys(cells, np.arange(1, many + 1), among, np.zeros((2, many)))


def numbered(made, found, seed):
    """A view of the released number alone."""
    state = made.init()
    counts = made.plan(state.public).counts(found)
    public = made.measure(state, counts, Noise.insecure(seed).at("x")).state.public
    return TrajectoriesView(None, made._first.noisy(public.parts))


def test_the_number_is_that_of_trajectories_and_not_of_people():
    each = 1 + np.random.default_rng(1).geometric(1 / 12, 2000)
    for seed in range(5):
        view = numbered(mechanism(10), journeys(each), seed)
        assert view.total.value == pytest.approx(each.sum(), rel=0.1)
        assert view.units == pytest.approx(2000, rel=0.1)


def test_octaves_that_hold_nobody_add_no_noise():
    view = numbered(mechanism(1), journeys(np.ones(3000, np.int64)), 3)
    assert view.total.value == pytest.approx(3000, abs=6 * view.total.error)
    assert view.total.error < 100


@pytest.mark.parametrize("many", [1, 2, 3, 4, 5, 8, 9, 1023, 1024, 1025, 5000])
def test_a_person_adds_at_most_a_whole(many):
    count = mechanism(1)._first.counts[0]
    assert isinstance(count.part, Octaves)
    masses = count.of(Followed(journeys(np.array([many])), None))
    bin_ = min((many - 1).bit_length(), 10)
    assert masses.codes.tolist() == [bin_]
    assert masses.parts.sum() <= WHOLE
    counted = masses.parts.sum() / WHOLE * 2**bin_
    assert counted == pytest.approx(min(many, 1024), rel=0.01)
