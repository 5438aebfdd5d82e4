"""The loss of a spatial stream from outside: a shift of its noise hides an event, and costs no more
than was promised.

Two runs see data that differ in one event. Wherever a release of the second differs from the first,
the noise of that draw is shifted back; then all releases, and so all trees and ends of epochs, are
the same. The shifts, each divided by its scale, add up to the loss of the event.
"""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tailrace import Box, Event, Integer, Noise, Places, PureDP, Schema
from tailrace.mechanisms.spatial.public import AdaTree
from tailrace.mechanisms.spatial.stream import SpatialStream
from tailrace.mechanisms.spatial.tree import counted
from tailrace.storage.codec import pack

BOX = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=32)
CITY = Places(BOX, Schema(kind=Integer(0, 2)))
STEPS = 6


class Shifted:
    """Noise with a shift for some draws; it keeps the scales."""

    def __init__(self, source, shifts, scales, name=""):
        self.source, self.shifts, self.scales, self.name = source, shifts, scales, name

    def at(self, *path):
        first = next((part for part in path if part in ("clock", "leaves")), self.name)
        return Shifted(self.source.at(*path), self.shifts, self.scales, first)

    def laplace(self, scale, shape):
        self.scales[self.name] = Fraction(scale)
        return self.source.laplace(scale, shape) + self.shifts.get(self.name, 0)


def frame(points):
    # Of three values, one that the place says.
    value = (points.sum(axis=1) * 9).astype(int) % 3
    return pl.DataFrame({"x": points[:, 0], "y": points[:, 1], "kind": value})


def stepped(mechanism, state, batch, step, shifts):
    """(state, the leaves' exact counts of the open epoch, scales by draw) after a step."""
    counts, scales = mechanism.plan(state.public).counts(*(frame(points) for points in batch)), {}
    standing = mechanism._epochs.standing(state.public)
    leaves = counted(standing.tree.leaf, standing.layout)
    first, last = standing.layout.first[leaves], standing.layout.last[leaves]
    exact = mechanism._with_events(state, counts).sums(first, last)
    noise = Shifted(Noise.insecure(3).at(step), shifts, scales)
    return mechanism.measure(state, counts, noise).state, exact, scales


def loss_of(mechanism, batches, others):
    """What the shifts cost that make the releases of `others` those of `batches`."""
    mine, theirs, cost = mechanism.init(), mechanism.init(), Fraction(0)
    for step, (batch, other) in enumerate(zip(batches, others, strict=True), start=1):
        mine, exact, scales = stepped(mechanism, mine, batch, step, {})
        moved, other_exact, _ = stepped(mechanism, theirs, other, step, {})
        clock = np.rint(mine.public.clock - moved.public.clock).astype(np.int64)
        shifts = {"clock": clock, "leaves": exact - other_exact}
        theirs, _, _ = stepped(mechanism, theirs, other, step, shifts)
        assert pack(mine.public) == pack(theirs.public), "the shift hides the event"
        cost += sum(
            (int(np.abs(shifts[name]).sum()) / scale for name, scale in scales.items()), Fraction(0)
        )
    return cost


def batches_of(seed, deletes):
    rng = np.random.default_rng(seed)
    adds = [rng.random((150, 2)) ** 2 for _ in range(STEPS)]
    gone = [adds[step - 1][:40] if deletes and step else np.zeros((0, 2)) for step in range(STEPS)]
    return list(zip(adds, gone, strict=True))


@pytest.mark.parametrize(
    ("kind", "retention"),
    [(0, None), (1, None), (0, 3)],
    ids=["insertion", "deletion", "with a retention"],
)
@pytest.mark.parametrize("domain", [BOX, CITY], ids=["places", "with attributes"])
@pytest.mark.parametrize("at", range(STEPS))
def test_an_event_costs_what_is_promised(at, domain, kind, retention):
    structure = AdaTree(churn=0.3, clock="1/4")
    mechanism = SpatialStream(
        domain=domain,
        privacy=PureDP(epsilon=2),
        unit=Event(),
        horizon=STEPS,
        retention=retention,
        structure=structure,
    )
    batches = batches_of(at, deletes=retention is None)
    others = [list(batch) for batch in batches]
    others[at][kind] = np.vstack([others[at][kind], [[0.3, 0.4]]])
    assert loss_of(mechanism, batches, others) == mechanism.guarantee.loss.epsilon == 2


def test_a_life_costs_two_events_and_no_more():
    mechanism = SpatialStream(domain=BOX, privacy=PureDP(epsilon=1), unit=Event(), horizon=STEPS)
    batches = batches_of(9, deletes=True)
    others = [list(batch) for batch in batches]
    others[1][0], others[4][1] = (
        np.vstack([part, [[0.3, 0.4]]]) for part in (others[1][0], others[4][1])
    )
    assert loss_of(mechanism, batches, others) <= mechanism.guarantee.of_life().epsilon == 2
