"""The noise of transitions and of trips has the scale that is stated: it is accepted, and one that
is 10 % off is not.
"""

import numpy as np
import pytest

from tailrace import ZCDP, Box, Event, Noise, PureDP, User, papers
from tailrace.counting.journeys.masses import WHOLE, Masses
from tailrace.mechanisms.trajectories.layout import Leaves, layout_of

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=64)
LAYOUT = layout_of(SQUARE, Leaves(np.full(1024, 10), np.arange(1024)))


def made(privacy, unit=Event()):
    return papers.trajectories(
        domain=SQUARE, privacy=privacy, unit=unit, trajectory="trip", order="at"
    )


def stated(squares, variance, scale, kurtosis):
    """Whether the mean of squares, relative to the variance times the square of `scale`, is within
    six standard errors.
    """
    return abs(squares.mean() / (variance * scale**2) - 1) <= 6 * np.sqrt(
        (kurtosis - 1) / len(squares)
    )


@pytest.mark.parametrize("unit", [Event(), User(column="id")], ids=["trajectory", "person"])
@pytest.mark.parametrize(
    ("privacy", "variance", "kurtosis"),
    [(PureDP(epsilon=1), 2 / 0.4**2, 6), (ZCDP(rho=0.1), 1 / (2 * 0.04), 3)],
    ids=["laplace", "gaussian"],
)
def test_every_edge_has_the_noise_of_one_unit(privacy, variance, kurtosis, unit):
    """Scale 1 / epsilon_2 with epsilon_2 = .4 epsilon, or variance 1 / (2 rho_2), in units; also
    where nobody went.
    """
    mechanism = made(privacy, unit)
    size = len(LAYOUT.graph.targets) + LAYOUT.cells
    counts = np.random.default_rng(0).integers(0, 5, size) * WHOLE
    errors = []
    for i in range(4):
        noisy = mechanism.moves.measured(
            Masses.held(counts),
            layout=LAYOUT,
            budget=mechanism.budgets["moves"],
            noise=Noise.insecure(1).at(i),
        )
        errors.append((noisy.parts - counts) / WHOLE)
    squares = np.concatenate(errors) ** 2
    assert stated(squares, variance, 1.0, kurtosis)
    assert not stated(squares, variance, 1.1, kurtosis)
    assert not stated(squares, variance, 0.9, kurtosis)
    empty = squares[np.tile(counts == 0, 4)]
    assert stated(empty, variance, 1.0, kurtosis), "the same where there is nothing"


def test_trips_have_the_noise_of_their_half():
    """Scale 2 / epsilon_3 with epsilon_3 = .3 epsilon: on all groups, which with nobody in them are
    those that chance made.
    """
    mechanism = made(PureDP(epsilon=1))
    errors, groups = [], 0
    for i in range(3000):
        trips = mechanism.trips.measured(
            Masses.none(),
            layout=LAYOUT,
            budget=mechanism.budgets["trips"],
            noise=Noise.insecure(2).at(i),
        )
        errors.append(trips.counts)
        groups = max(groups, len(trips.parts))
        assert trips.pairs.sum() == LAYOUT.cells**2, "each pair of cells is in one group"
    squares = np.concatenate(errors) ** 2
    assert groups > 20 and len(squares) > 9000
    assert stated(squares, 2 * (2 / 0.3) ** 2, 1.0, 6)
    assert not stated(squares, 2 * (2 / 0.3) ** 2, 1.1, 6)
    assert not stated(squares, 2 * (2 / 0.3) ** 2, 0.9, 6)


@pytest.mark.slow
def test_an_empty_map_is_seldom_divided():
    """A coin of PrivTree at the clamp falls with probability 1 / 8 for fan-out 4, and 1 / 4 for
    fan-out 2: at the root 1 / 2.
    """
    mechanism, roots = made(PureDP(epsilon=1)), {"cells": 0, "trips": 0}
    for i in range(2000):
        noise = Noise.insecure(3).at(i)
        leaves = mechanism.cells.measured(
            Masses.none(), domain=SQUARE, budget=mechanism.budgets["cells"], noise=noise.at("cells")
        )
        trips = mechanism.trips.measured(
            Masses.none(), layout=LAYOUT, budget=mechanism.budgets["trips"], noise=noise.at("trips")
        )
        roots["cells"] += len(leaves.depth) > 1
        roots["trips"] += len(trips.parts) > 1
    for split in roots.values():
        assert abs(split / 2000 - 0.5) < 6 * np.sqrt(0.25 / 2000)
