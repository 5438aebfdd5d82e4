"""The loss of tabular streams from outside: a shift of their noise hides an event, and costs no
more than was promised.

Two runs see data that differ in one unit. The second is made to choose the same workloads; wherever
else a release of it differs from the first, the noise of that draw is shifted back; then all
releases are the same, and so are models and ends of epochs. The shifts, each divided by its scale,
and the logarithms of the ratios of the choices' probabilities add up to the loss of the unit.
"""

from fractions import Fraction

import numpy as np
import pytest

from tailrace import Event, Integer, Noise, PureDP, Schema, Selection, TabularStream, User, counters
from tailrace.counting.plan import Counts
from tailrace.mechanisms.base import State
from tailrace.papers import TabularSteps
from tailrace.storage.codec import pack

TABLE = Schema(a=Integer(0, 2), b=Integer(0, 1), c=Integer(0, 3), d=Integer(0, 1))
STEPS = 6


class Run:
    """What one step's noise is asked for: choices with their scores, and draws with their scales
    and shifts.
    """

    def __init__(self, *, forced=None, shifts=None):
        self.choices, self.scores, self.scales, self.rates = [], [], [], []
        self.forced, self.shifts = forced, shifts or {}


class Watched:
    """Noise that keeps what is asked of it, chooses what it is told to, and adds shifts."""

    def __init__(self, source, run, path=()):
        self.source, self.run, self.path = source, run, path

    def at(self, *path):
        return Watched(self.source.at(*path), self.run, self.path + path)

    def laplace(self, scale, shape):
        name = self.path[:2] if self.path[0] == "cells" else self.path[:1]
        self.run.scales.append((name, Fraction(scale)))
        return self.source.laplace(scale, shape) + self.run.shifts.get(name, 0)

    def choose(self, scores, rate):
        drawn = self.source.choose(scores, rate)
        turn = len(self.run.choices)
        self.run.choices.append(drawn if self.run.forced is None else self.run.forced[turn])
        self.run.rates.append(Fraction(rate))
        exponents = float(rate) * (scores - scores.max())
        self.run.scores.append(exponents - np.log(np.exp(exponents).sum()))
        return self.run.choices[-1]


def counts_of(mechanism, batch):
    return Counts(*(mechanism.marginals.tally(rows) for rows in batch))


def stepped(mechanism, state, batch, step, run):
    noise = Watched(Noise.insecure(3).at(step), run)
    return mechanism.measure(state, counts_of(mechanism, batch), noise).state


def shifts_of(mechanism, apart, choices):
    """By draw, what hides the difference of two exact counts; a choice is a place among the
    workloads left.
    """
    marginals = mechanism.marginals
    if isinstance(mechanism, TabularStream):
        return {("cells", j): marginals.part(apart, j) for j in range(len(marginals.cliques))}
    left = list(range(len(marginals.cliques)))
    chosen = [left.pop(place) for place in choices]
    return {("cells", turn): marginals.part(apart, j).reshape(-1) for turn, j in enumerate(chosen)}


def loss_of(mechanism, batches, others, clock):
    """(exact cost of the shifts, of one event in the choices, logarithm of the choices' ratio) that
    make the releases of `others` those of `batches`.
    """
    mine, theirs, cost, ratio = mechanism.init(), mechanism.init(), Fraction(0), 0.0
    chosen = Fraction(0)
    for step, (batch, other) in enumerate(zip(batches, others, strict=True), start=1):
        first = Run()
        after = stepped(mechanism, mine, batch, step, first)
        moved = stepped(mechanism, theirs, other, step, Run(forced=first.choices))
        shifts = {
            ("total",) if clock == "total" else ("clock",): _clock(
                after.public, moved.public, clock
            )
        }
        apart = _open(mine, counts_of(mechanism, batch)) - _open(
            theirs, counts_of(mechanism, other)
        )
        shifts |= shifts_of(mechanism, apart, first.choices)
        second = Run(forced=first.choices, shifts=shifts)
        theirs, mine = stepped(mechanism, theirs, other, step, second), after
        assert pack(mine.public) == pack(theirs.public), "the shift hides the unit"
        for name, scale in second.scales:
            cost += int(np.abs(shifts[name]).sum()) / scale
        chosen += 2 * sum(first.rates) * bool(apart.any())
        pairs = zip(first.scores, second.scores, first.choices, strict=True)
        ratio += sum(float(p[place] - q[place]) for p, q, place in pairs)
    return cost, chosen, ratio


def _clock(public, moved, clock):
    now, then = (np.atleast_1d(getattr(found, clock)) for found in (public, moved))
    return np.rint(now - then).astype(np.int64)


def _open(state: State, counts):
    """Exact net counts that the step's measurements see."""
    return counts.net + getattr(state.private, "buffer", 0)


def rows_of(seed, deletes):
    rng = np.random.default_rng(seed)

    def rows(many):
        a = rng.integers(0, 3, many)
        return np.stack(
            [a, a > 0, rng.integers(0, 4, many), rng.integers(0, 2, many)], axis=1
        ).astype(np.int32)

    adds = [rows(150) for _ in range(STEPS)]
    gone = [adds[step - 1][:40] if deletes and step else rows(0) for step in range(STEPS)]
    return list(zip(adds, gone, strict=True))


def with_events(batches, events):
    """The same and further rows: (step, 0 for an insertion or 1 for a deletion)."""
    others = [list(batch) for batch in batches]
    for step, kind in events:
        others[step][kind] = np.vstack([others[step][kind], np.array([[2, 0, 3, 1]], np.int32)])
    return others


def streams(**changes):
    about = {
        "domain": TABLE,
        "privacy": PureDP(epsilon=2),
        "unit": Event(),
        "horizon": STEPS,
        **changes,
    }
    yield TabularStream(**about, selection=Selection(chosen=2, churn=0.3, clock="1/4")), "clock"
    yield TabularStream(**about, selection=Selection(chosen=100, churn=0.3)), "clock"
    yield TabularSteps(**about, chosen=2, counter=counters.Simple(), total="1/4"), "total"
    yield TabularSteps(**about, chosen=2, counter=counters.Simple(), apart=True), "total"


NAMES = ["chosen", "all", "steps", "apart"]


@pytest.mark.parametrize("kind", [0, 1], ids=["insertion", "deletion"])
@pytest.mark.parametrize("at", range(STEPS))
@pytest.mark.parametrize(("mechanism", "clock"), list(streams()), ids=NAMES)
def test_an_event_costs_what_is_promised(mechanism, clock, at, kind):
    batches = rows_of(at, deletes=True)
    cost, chosen, ratio = loss_of(mechanism, batches, with_events(batches, [(at, kind)]), clock)
    assert cost + chosen == mechanism.guarantee.loss.epsilon
    assert abs(ratio) <= chosen * (1 + 1e-9)


@pytest.mark.parametrize(
    ("mechanism", "clock"), list(streams(unit=User(column="id", events=2))), ids=NAMES
)
@pytest.mark.parametrize(
    "events",
    [[(1, 0), (1, 0), (1, 1), (1, 1)], [(0, 0), (2, 0), (3, 1), (5, 1)], [(4, 0), (5, 1)]],
    ids=["at once", "spread", "one record"],
)
def test_a_person_costs_no_more_than_is_promised(mechanism, clock, events):
    batches = rows_of(7, deletes=True)
    cost, chosen, ratio = loss_of(mechanism, batches, with_events(batches, events), clock)
    assert abs(ratio) <= 4 * chosen * (1 + 1e-9)
    assert float(cost) + abs(ratio) <= float(mechanism.guarantee.loss.epsilon) * (1 + 1e-12)
