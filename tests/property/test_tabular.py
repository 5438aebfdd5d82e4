"""Tabular streams: whatever the configuration, the draws add up to the loss that was declared;
scores and tracks hold for all inputs.
"""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from samples import examples
from tailrace import ZCDP, ApproxDP, Event, Integer, PureDP, Schema, Selection, TabularStream, User
from tailrace.checks.spy import Spy
from tailrace.counting.marginals import Marginals
from tailrace.counting.plan import Counts
from tailrace.mechanisms.tabular.raking import Raking
from tailrace.mechanisms.tabular.track import (
    Epoch,
    Noisy,
    advanced,
    corrected,
    settled,
    untracked,
)
from tailrace.mechanisms.tabular.workloads import scores
from tailrace.noise import Noise
from tailrace.papers import TabularSteps

TABLE = Schema(a=Integer(0, 2), b=Integer(0, 1), c=Integer(0, 3), d=Integer(7, 7), e=Integer(0, 1))

losses = st.one_of(
    st.builds(lambda n: PureDP(epsilon=n / 8), st.integers(1, 80)),
    st.builds(lambda n: ZCDP(rho=n / 64), st.integers(1, 100)),
    st.builds(
        lambda n, d: ApproxDP(epsilon=n / 8, delta=10.0**-d),
        st.integers(1, 80),
        st.integers(3, 12),
    ),
)
units = st.one_of(
    st.just(Event()), st.builds(lambda m: User(column="id", events=m), st.integers(1, 6))
)
shares = st.integers(1, 19).map(lambda n: f"{n}/20")
common = st.fixed_dictionaries(
    {
        "domain": st.just(TABLE),
        "privacy": losses,
        "unit": units,
        "horizon": st.one_of(st.none(), st.integers(1, 40)),
        "deletes": st.booleans(),
        "workload": st.sampled_from([1, 2, 3, (("a", "b"), ("c",)), (("a", "d"),)]),
    }
)


def states_the_loss(mechanism):
    asked, loss = mechanism.privacy, mechanism.guarantee.loss
    if isinstance(asked, PureDP):
        return loss == asked
    if isinstance(asked, ZCDP):
        return asked.rho * (1 - 10**-6) <= loss.as_zcdp().rho <= asked.rho
    return (
        asked.epsilon * (1 - 10**-3) <= loss.epsilon <= asked.epsilon
        and getattr(loss, "delta", 0) <= asked.delta
    )


@examples(30)
@given(common, st.one_of(st.none(), st.integers(1, 12)), shares, shares)
def test_a_stream_loses_what_was_declared(about, chosen, clock, choice):
    mechanism = TabularStream(
        **about, selection=Selection(chosen=chosen, clock=clock, choice=choice)
    )
    assert states_the_loss(mechanism)
    inserted, deleted = (1, 0) if isinstance(about["unit"], Event) else (about["unit"].events,) * 2
    deleted *= about["deletes"]
    of = mechanism.budget
    parts = [atoms.loss(inserted, deleted) for atoms in of.singles]
    parts.append(mechanism.clock.loss(inserted, deleted))
    if of.several:
        parts.append(of.purse(0.0).whole)
    gaussian = any(isinstance(part, ZCDP) for part in parts)
    stated = mechanism.guarantee.loss
    together = sum(part.as_zcdp().rho if gaussian else part.epsilon for part in parts)
    assert together == (stated.as_zcdp().rho if gaussian else stated.epsilon)


@examples(30)
@given(common, st.integers(1, 12), shares, shares, st.booleans())
def test_steps_lose_what_was_declared(about, chosen, total, selection, apart):
    mechanism = TabularSteps(**about, chosen=chosen, total=total, selection=selection, apart=apart)
    assert states_the_loss(mechanism)


@examples(15)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.sampled_from([1, 2]), st.booleans())
def test_an_epoch_measures_each_column_once_and_spends_its_purse(seed, chosen, ways, deletes):
    """And with noise or without, with rows or without, releases are finite and no cell of a
    marginal is negative.
    """
    rng = np.random.default_rng(seed)
    mechanism = TabularStream(
        domain=TABLE,
        privacy=PureDP(epsilon=1),
        unit=Event(),
        horizon=4,
        workload=ways,
        deletes=deletes,
        selection=Selection(chosen=chosen, churn=0.3),
    )
    state, spy = mechanism.init(), Spy(Noise.insecure(seed) if seed % 3 else None)
    for step in range(4):
        rows = [
            rng.integers(0, TABLE.shape, (int(rng.integers(0, 60)), 5)).astype(np.int32)
            for _ in range(2)
        ]
        adds, gone = (mechanism.marginals.tally(part) for part in rows)
        before = state.public
        state = mechanism.measure(
            state, Counts(adds, gone if deletes else 0 * gone), spy.at("step", step)
        ).state
        drawn = [one for one in spy.record if one.path[1] == step and "clock" not in one.path]
        spent = sum(
            2 * one.parameter if one.kind == "choose" else 1 / one.parameter for one in drawn
        )
        ended = state.public.epoch > before.epoch
        promised = mechanism.guarantee.loss.epsilon - mechanism.budget.clock.epsilon
        assert promised * (1 - Fraction(1, 10**5)) * ended <= spent <= promised * ended
        more = state.public.track.draws - before.track.draws
        assert (more[:4] == ended).all() and set(more.tolist()) <= {0, 1}
        view = mechanism.view(state.public)
        if view is not None:
            found = view.marginal("a", "c")
            assert np.isfinite(found.values).all() and (found.values >= 0).all()
            assert (found.errors >= 0).all() and not np.isnan(found.errors).any()


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(0, 5))
def test_scores_move_by_no_more_than_a_units_events(seed, inserted, deleted):
    rng = np.random.default_rng(seed)
    marginals = Marginals((3, 2, 4), ((0,), (0, 1), (1, 2), (0, 1, 2)))
    exact, expected = rng.integers(-50, 50, marginals.size), rng.normal(0, 30, marginals.size)
    adds, gone = (
        marginals.tally(rng.integers(0, (3, 2, 4), (many, 3)).astype(np.int32))
        for many in (inserted, deleted)
    )
    first, then = (
        scores(marginals, counts, expected, 2.3) for counts in (exact, exact + adds - gone)
    )
    assert np.abs(first - then).max() <= inserted + deleted


numbers = st.floats(-1e6, 1e6)


@given(
    st.lists(st.tuples(numbers, numbers, st.booleans()), min_size=1, max_size=8),
    st.floats(1e-6, 1e8),
    st.integers(0, 2**32 - 1),
)
def test_a_track_stays_finite_and_its_errors_are_errors(epochs, noise, seed):
    """Whatever the clock says: variances are not negative, and no covariance is larger than they
    allow.
    """
    rng = np.random.default_rng(seed)
    raking = Raking(Marginals((7, 3), ((0,), (1,), (0, 1))))
    track = untracked(raking.marginals)
    model = np.concatenate([np.full(7, 1 / 7), np.full(3, 1 / 3), np.full(21, 1 / 21)])
    before = 0.0
    for records, more, measured in epochs:
        epoch = Epoch(records, max(abs(records), more), max(before, 0.0))
        spread = 1 + abs(records)
        columns = {j: Noisy(rng.normal(0, spread, size), noise) for j, size in enumerate((7, 3))}
        track = advanced(track, raking, epoch, columns, model)
        if measured:
            noisy = {2: Noisy(rng.normal(0, spread, (7, 3)), noise)}
            track = settled(corrected(track, raking.marginals, epoch, noisy), raking)
        before += records
        own, both, held = track.error[2]
        assert np.isfinite(track.count).all() and np.isfinite(track.share).all()
        assert own >= 0 and held >= -1e-9 * max(1.0, abs(before) ** 2)
        assert both**2 <= own * max(held, 0.0) * (1 + 1e-6) + 1e-6 * max(1.0, both**2)
