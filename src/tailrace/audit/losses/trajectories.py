"""Trajectories: exact shares, keys, and a tree drawn twice."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace import papers
from tailrace.audit import gallery
from tailrace.audit.losses.replaying import Points, metered
from tailrace.domain import Box
from tailrace.noise import Noise
from tailrace.privacy.loss import PureDP
from tailrace.privacy.unit import Event

_ONE = Fraction(1)


def _square() -> Any:
    box = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=4)
    about: dict[str, Any] = {"domain": box, "privacy": PureDP(epsilon=2), "unit": Event()}
    return papers.trajectories(**about, trajectory="trip", order="minute")


def exact_shares() -> Points:
    everywhere = np.ones((3, 3), bool)
    found = [
        gallery.published_transitions(data, edges=everywhere, epsilon=_ONE, noise=Noise.insecure(1))
        for data in ([[0, 1]], [[0, 1], [0, 0]])
    ]
    lost = math.inf if found[0][0, 1] == 1 and found[1][0, 1] != 1 else 0.0
    return [("(x, y), or also (x, x)", lost, metered(_square()))]


def exact_lengths() -> Points:
    lengths = [
        gallery.published_lengths(
            [[0, 2], *[[0, 1, 2]] * many], edges=np.ones((3, 3), bool), first=0, last=2
        )
        for many in (2, 3)
    ]
    return [
        ("2 or 3 by way of 1", math.inf if lengths[0] != lengths[1] else 0.0, metered(_square()))
    ]


def observed_edges() -> Points:
    keys = [
        set(gallery.noise_on_observed_edges(data, epsilon=_ONE, noise=Noise.insecure(5)))
        for data in ([], [[0, 1]])
    ]
    return [
        ("nobody, or one who moved", math.inf if keys[0] != keys[1] else 0.0, metered(_square()))
    ]


def drawn_twice() -> Points:
    """Shares .3, .4 and .3 of epsilon: the first is spent twice."""
    made = _square()
    budgets = [float(budget.epsilon) for budget in made.budgets.values()]
    lost = (budgets[0] + sum(budgets)) / sum(budgets)
    return [("epsilon_1 + epsilon_2 + epsilon_3", lost, metered(made))]
