"""What holds for every stream: sums without noise, order of rows, splitting of rows, restarts of
the process.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from samples import examples
from tailrace import ZCDP, Noise, PureDP
from tailrace.checks import Spy
from tailrace.counters import (
    BinaryTree,
    Block,
    Hybrid,
    KaryTree,
    Simple,
    SqrtToeplitz,
    Unbounded,
    UnboundedBlock,
)
from tailrace.storage.codec import pack, unpack

PURE, ZERO = PureDP(epsilon=1), ZCDP(rho=0.5)


@st.composite
def counters(draw):
    horizon = draw(st.integers(1, 40))
    return draw(
        st.sampled_from(
            [
                Simple(privacy=PURE, horizon=horizon),
                Block(size=draw(st.integers(2, 12)), privacy=PURE, horizon=horizon),
                BinaryTree(privacy=ZERO, horizon=horizon),
                KaryTree(
                    arity=draw(st.sampled_from([3, 5, 7])),
                    levels=draw(st.integers(1, 4)),
                    privacy=PURE,
                    horizon=horizon,
                ),
                KaryTree(
                    arity=draw(st.integers(2, 6)), subtract=False, privacy=ZERO, horizon=horizon
                ),
                UnboundedBlock(privacy=PURE, squares=draw(st.booleans()), horizon=horizon),
                Hybrid(privacy=PURE, first=draw(st.integers(1, 5)), horizon=horizon),
                SqrtToeplitz(privacy=ZERO, horizon=horizon),
                Unbounded(counter=SqrtToeplitz(), privacy=ZERO, horizon=horizon),
            ]
        )
    )


@st.composite
def runs(draw):
    """A counter, and for each step the rows fed and their counts."""
    counter, rows = draw(counters()), draw(st.integers(1, 5))
    count = st.integers(-(10**6), 10**6)
    some = st.sets(st.integers(0, rows - 1)).map(sorted)
    feed = some.flatmap(
        lambda fed: st.tuples(st.just(fed), st.lists(count, min_size=len(fed), max_size=len(fed)))
    )
    return counter, rows, draw(st.lists(feed, max_size=counter.horizon))


def play(counter, rows, steps, noise, order=lambda fed: fed, between=lambda state: state):
    state, out = counter.init(rows), []
    for t, (fed, x) in enumerate(steps):
        place = order(np.arange(len(fed)))
        index, values = np.array(fed, np.int64)[place], np.array(x, np.int64)[place]
        state, estimate = counter.step(state, values, noise.at(t), index)
        state = between(state)
        out.append(estimate[np.argsort(place)])
    return state, out


@examples(200)
@given(runs())
def test_without_noise_estimates_are_running_sums(run):
    counter, rows, steps = run
    totals = np.zeros(rows)
    _, out = play(counter, rows, steps, Spy(None))
    for (fed, x), estimate in zip(steps, out, strict=True):
        totals[fed] += x
        assert np.allclose(estimate, totals[fed], rtol=1e-9, atol=1e-6)


@examples(100)
@given(runs())
def test_saving_and_loading_between_steps_changes_nothing(run):
    counter, rows, steps = run
    _, straight = play(counter, rows, steps, Noise.insecure(1))
    _, resumed = play(
        counter,
        rows,
        steps,
        Noise.insecure(1),
        between=lambda state: unpack(pack(state), like=counter.init(0)),
    )
    assert all(np.array_equal(a, b) for a, b in zip(straight, resumed, strict=True))


@examples(100)
@given(runs())
def test_the_order_of_rows_does_not_matter_without_noise(run):
    counter, rows, steps = run
    _, straight = play(counter, rows, steps, Spy(None))
    _, reversed_ = play(counter, rows, steps, Spy(None), order=lambda place: place[::-1])
    assert all(np.allclose(a, b) for a, b in zip(straight, reversed_, strict=True))


@examples(100)
@given(counters(), st.data())
def test_variance_is_symmetric_zero_on_the_diagonal_and_obeys_the_triangle(counter, data):
    """Standard deviations of differences are a metric: the noise of t - s is that of t - r and r -
    s together.
    """
    r, s, t = (data.draw(st.integers(0, counter.horizon)) for _ in range(3))
    deviation = lambda a, b: float(np.sqrt(counter.variance(a, b)))  # noqa: E731
    assert deviation(s, t) == deviation(t, s)
    assert deviation(t, t) == 0
    assert deviation(s, t) <= deviation(s, r) + deviation(r, t) + 1e-9
