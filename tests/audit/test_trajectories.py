"""Trajectories as published lose more than they claim (g2, g4, the tree drawn twice); the corrected
ones do not.
"""

import math

import numpy as np
import pytest

from tailrace import Box, Event, Noise, PureDP, papers
from tailrace.audit import attack
from tailrace.audit.gallery import (
    noise_on_observed_edges,
    published_discretisation,
    published_lengths,
    published_transitions,
)
from tailrace.checks.spy import Spy
from tailrace.counting.journeys.masses import WHOLE, Masses
from tailrace.counting.journeys.reading import Journeys
from tailrace.mechanisms.trajectories.layout import Leaves, layout_of
from tailrace.papers.privtree.splits import SplitCoin, kappa

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
EVERYWHERE, COPIES = np.ones((3, 3), bool), 10_000


def mechanism(epsilon=1, domain=SQUARE, **options):
    common = {"domain": domain, "privacy": PureDP(epsilon=epsilon), "unit": Event()}
    return papers.trajectories(**common, trajectory="trip", order="at", **options)


def journeys(*cells):
    ends = np.cumsum([len(one) for one in cells], dtype=np.int64)
    return Journeys(
        np.concatenate([np.asarray(one, np.int64) for one in cells]),
        ends,
        np.ones(len(cells), np.int64),
        np.zeros((2, len(cells))),
    )


class Told:
    """Noise whose coins fall as they are told, and that writes down how likely they fell so."""

    def __init__(self, split):
        self.split, self.path, self.log = split, (), [0.0]

    def at(self, *path):
        child = Told(self.split)
        child.path, child.log = self.path + path, self.log
        return child

    def coin(self, excess, scale):
        fell = np.asarray(self.split(self.path, len(excess)), bool)
        self.log[0] += float(log_probability(excess, float(scale), fell).sum())
        return fell


def log_probability(excess, scale, fell):
    tail = -np.abs(excess) / scale - math.log(2)  # of the less likely side
    return np.where(fell == (excess > 0), np.log1p(-np.exp(tail)), tail)


@pytest.mark.parametrize("seed", range(3))
def test_g2_as_printed_the_shares_are_exact(seed):
    """D0 = {(x, y)}, D1 adds (x, x): P[w(x, y) = 1] is 1 and 0."""
    shares = [
        published_transitions(data, edges=EVERYWHERE, epsilon=1, noise=Noise.insecure(seed))[0, 1]
        for data in ([[0, 1]], [[0, 1], [0, 0]])
    ]
    assert shares == [1.0, 0.5]


def test_g2_ours_loses_epsilon_on_the_same_event():
    """The same two worlds; the event is the noisy count of staying below 1/2 and that of the move
    above it.
    """
    made = mechanism(shares=(1, 1, 1))
    layout = layout_of(SQUARE, Leaves(np.ones(2, np.int64), np.arange(2)))
    places = [np.flatnonzero(layout.homes == leaf)[0] for leaf in range(2)]
    edge, stay = layout.graph.edge(np.array([0]), np.array([1]))[0], len(layout.graph.targets)
    budget = made.budgets["moves"]

    def noisy(worlds, noise):
        """(steps, copies) of trajectories that stay -> noisy counts of edge and stay, many at
        once.
        """
        data = journeys(*[[places[0], places[1]]] + [[places[0], places[0]]] * int(worlds[0, 0]))
        plan = made.plan(made.init().public)
        counts = type(plan)(plan.reading, layout, (made.moves,)).counts(data).parts[0]
        draws = [
            made.moves.measured(counts, layout=layout, budget=budget, noise=noise.at(i)).parts
            for i in range(COPIES)
        ]
        return np.stack(draws)[:, [edge, stay]].T / WHOLE

    def event(outputs):
        return (outputs[0] > 0.5) & (outputs[1] <= 0)

    found = attack(
        noisy,
        world=np.array([0]),
        neighbour=np.array([1]),
        event=event,
        claimed=float(budget.epsilon),
        copies=COPIES,
        noise=Noise.insecure(3),
    )
    assert not found.refuted and abs(found.estimate) < 1.2 * float(budget.epsilon)


def test_g2_as_printed_lengths_follow_the_true_shares():
    """From 0 to 2: straight, or by way of 1. One more trajectory changes the most probable path,
    and with it every length.
    """
    world, neighbour = ([[0, 2], *[[0, 1, 2]] * many] for many in (2, 3))
    lengths = [
        published_lengths(data, edges=EVERYWHERE, first=0, last=2)
        for data in (world, neighbour, [])
    ]
    assert len(set(lengths[:2])) == 2, "certain in one world, impossible in the other"
    assert lengths[2] == 2


def test_g2_ours_measures_lengths_on_the_noisy_chances():
    """Whatever the data were, the same release gives the same lengths: no later step sees a
    count.
    """
    made = mechanism(epsilon=5)
    state = made.init()
    data = journeys([0, 9, 18, 27], [5, 6, 7], [63])
    for turn in range(2):
        counts = made.plan(state.public).counts(data)
        state = made.measure(state, counts, Noise.insecure(4).at(turn)).state
    view = made.view(state.public)
    ends = np.array([[0], [view.layout.cells - 1]])
    rng = np.random.default_rng
    assert view.trips is state.public.trips
    first, second = (
        made.lengths.draw(made.view(state.public).chances, view.layout, ends, rng(1))
        for _ in range(2)
    )
    assert np.array_equal(first, second)


def test_g4_noise_on_observed_edges_alone_tells_what_was_observed():
    keys = [
        set(noise_on_observed_edges(data, epsilon=1, noise=Noise.insecure(5)))
        for data in ([], [[0, 1]])
    ]
    assert keys == [set(), {(0, 1)}]


def test_g4_ours_draws_noise_for_every_edge_of_the_public_graph():
    made, layout = mechanism(), layout_of(SQUARE, Leaves(np.full(64, 6), np.arange(64)))
    for data in (journeys([0]), journeys([0, 1, 2, 3, 2, 1]), Journeys.none()):
        plan = made.plan(made.init().public)
        counts = type(plan)(plan.reading, layout, (made.moves,)).counts(data).parts[0]
        spy = Spy(Noise.insecure(6))
        made.moves.measured(counts, layout=layout, budget=made.budgets["moves"], noise=spy)
        (drawn,) = spy.record
        assert (
            drawn.shape == (len(layout.graph.targets) + 64,)
            and drawn.parameter == WHOLE / made.budgets["moves"].epsilon
        )
        assert len(layout.graph.targets) == 2 * (2 * 7 * 8 + 2 * 7 * 7), (
            "all neighbours, corners too"
        )


def deep_path(made):
    """All mass at one place, so that every node above it stands a penalty above the next: the last
    one at the threshold.
    """
    penalty = made.cells.coin(made.budgets["cells"]).penalty
    return lambda depth: Masses(np.zeros(1, np.int64), np.array([depth * penalty]))


def tree_loss(made, base, more, split, twice=False):
    """The log-ratio of the trees that the coins are told to draw, with and without one more
    unit.
    """
    logs = []
    for masses in (base + more, base):
        noise = Told(split)

        def draw(source, masses=masses):
            return made.cells.measured(
                masses, domain=SQUARE, budget=made.budgets["cells"], noise=source
            )

        published_discretisation(draw, noise) if twice else draw(noise)
        logs.append(noise.log[0])
    return logs[0] - logs[1]


def test_algorithm_16_run_twice_loses_more_than_epsilon_1():
    made = mechanism()
    claimed, unit = (
        float(made.budgets["cells"].epsilon),
        Masses(np.zeros(1, np.int64), np.array([WHOLE])),
    )
    down = lambda path, nodes: np.arange(nodes) == 0  # noqa: E731
    worst = [
        max(tree_loss(made, deep_path(made)(d), unit, down, twice) for d in range(7))
        for twice in (False, True)
    ]
    assert 0.8 * claimed < worst[0] <= claimed, (
        "drawn once it stays within epsilon_1, and comes near"
    )
    assert worst[1] > 1.6 * claimed, (
        "drawn twice it does not: 1.3 epsilon in all, where 1 is claimed"
    )


def test_ours_draws_the_cells_once():
    made, spy = mechanism(), Spy(Noise.insecure(7))
    step = made.measure(
        made.init(), made.plan(made.init().public).counts(journeys([0, 9, 18])), spy
    )
    first = [drawn.path for drawn in spy.record]
    made.measure(step.state, made.plan(step.state.public).counts(journeys([0, 9, 18])), spy)
    later = [drawn.path for drawn in spy.record[len(first) :]]
    assert (
        first
        and all(path[0] == "cells" for path in first)
        and not any(path[0] == "cells" for path in later)
    )


STATES, DEPTH = 30_000, 6


def adversarial(rng, coin):
    """(states, places) parts: nothing, crowds, and mass that puts nodes of a path near the
    threshold; and a unit spread at will.
    """
    places = 1 << DEPTH
    kind = rng.integers(0, 4, STATES)
    base = rng.exponential(rng.choice([0.01, 0.3, 3], (STATES, 1)), (STATES, places)) * coin.penalty
    base[kind == 0] = 0
    spread = rng.random((STATES, places)) < 0.5 ** rng.integers(1, 7, (STATES, 1))
    base = np.where(spread, base, 0)
    path = (
        rng.uniform(0, DEPTH + 1, STATES) * coin.penalty
    )  # at one place: a penalty a level above the threshold
    base[kind == 1] = 0
    base[kind <= 1, 0] += path[kind <= 1]
    weights = rng.dirichlet(np.ones(places), STATES) * (
        rng.random((STATES, places)) < 0.5 ** rng.integers(1, 7, (STATES, 1))
    )
    weights[np.arange(STATES), rng.integers(0, places, STATES) * (rng.random(STATES) < 0.5)] += (
        rng.choice([0.01, 1, 100], STATES)
    )
    unit = np.floor(weights / weights.sum(axis=1, keepdims=True) * WHOLE)
    return base.astype(np.int64), unit.astype(np.int64)


@pytest.mark.parametrize("epsilon", [1, 0.05])
@pytest.mark.parametrize("fan_out", [2, 4])
def test_no_state_and_no_tree_loses_more_than_is_proved_for_fractions(fan_out, epsilon):
    """Any masses, any tree, any way to spread one unit: the log-ratio of all coins lies in [-1 /
    lambda, kappa / lambda].
    """
    rng = np.random.default_rng(8)
    coin = SplitCoin(fan_out, 0, PureDP(epsilon=epsilon), 1, grid=WHOLE)
    each = fan_out.bit_length() - 1
    base, unit = adversarial(rng, coin)
    assert (unit.sum(axis=1) <= WHOLE).all() and (unit >= 0).all()
    loss, alive = np.zeros(STATES), np.ones((STATES, 1), bool)
    down = rng.random(STATES) < 0.5  # splits towards the first place, or by chance
    for depth in range(DEPTH // each):
        nodes = 1 << depth * each
        fell = rng.random((STATES, nodes)) < rng.uniform(0.2, 1, (STATES, 1))
        fell[down] = np.arange(nodes) == 0
        logs = []
        for masses in (base + unit, base):
            parts = masses.reshape(STATES, nodes, -1).sum(axis=2)
            noise = Recorded(fell)
            coin.draw_parts(noise, parts, depth)
            logs.append(np.where(alive, noise.log, 0).sum(axis=1))
        loss += logs[0] - logs[1]
        alive = np.repeat(alive & fell, fan_out, axis=1)
    scale, bound = float(coin.scale), float(kappa(fan_out))
    assert loss.max() <= bound / scale + 1e-9
    assert loss.min() >= -1 / scale - 1e-9
    assert loss.max() * scale > 0.8 * bound, (
        "the bound is met closely: it is not slack by a mistake"
    )
    assert loss.min() * scale < -0.9


class Recorded:
    """Coins that fell so, with how likely they did."""

    def __init__(self, fell):
        self.fell, self.log = fell, np.zeros(0)

    def coin(self, excess, scale):
        self.log = log_probability(excess, float(scale), self.fell)
        return self.fell


def test_a_tree_that_pays_for_half_is_caught_by_the_same_states():
    """A mutant with half the scale loses twice as much on the path."""
    made = mechanism()
    half = SplitCoin(2, 0, PureDP(epsilon=2 * made.budgets["cells"].epsilon), 1, grid=WHOLE)
    path = np.array([d * half.penalty for d in range(7)])
    losses = []
    for d in range(7):
        total = 0.0
        for depth in range(
            d + 2
        ):  # the last one lies a penalty below the threshold, where the slope is steepest
            logs = []
            for parts in (path[d] + WHOLE, path[d]):
                noise = Recorded(np.ones(1, bool))
                half.draw_parts(noise, np.array([parts]), depth)
                logs.append(noise.log.sum())
            total += logs[0] - logs[1]
        losses.append(total)
    assert max(losses) > 1.5 * float(made.budgets["cells"].epsilon)
