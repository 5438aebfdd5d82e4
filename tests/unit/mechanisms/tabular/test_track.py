"""What is known of every workload: exact without noise, as good as the best of its rivals with it,
and honest about its errors.
"""

import numpy as np
import pytest

from tailrace.counting.marginals import Marginals
from tailrace.mechanisms.tabular.raking import Raking
from tailrace.mechanisms.tabular.track import (
    Epoch,
    Noisy,
    advanced,
    corrected,
    settled,
    unseen,
    untracked,
)

ONE = Marginals((60,), ((0,),))
TWO = Marginals((60, 2), ((0,), (1,)))
EVEN = np.full(60, 1 / 60)


def tracked(track, marginals, epoch, measured, model):
    """The track after an epoch of one stretch."""
    raking = Raking(marginals)
    columns = {j: noisy for j, noisy in measured.items() if j < raking.singles}
    several = {j: noisy for j, noisy in measured.items() if j >= raking.singles}
    track = advanced(track, raking, epoch, columns, model)
    return settled(corrected(track, marginals, epoch, several), raking)


def played(counts, noise, rng, marginals=ONE, model=EVEN, skip=()):
    """The track after epochs of exact counts (epochs, cells), with Gaussian noise of this variance,
    and the noisy counts.
    """
    track, before, noisy = untracked(marginals), 0.0, []
    for number, exact in enumerate(counts):
        records = float(exact.sum())
        noisy.append(exact + rng.normal(0, np.sqrt(noise), exact.shape))
        measured = {} if number in skip else {0: Noisy(noisy[-1], max(noise, 1e-6))}
        track = tracked(track, marginals, Epoch(records, records, before), measured, model)
        before += records
    return track, np.array(noisy)


def shares(rng, many, moving):
    share = rng.dirichlet(np.ones(60))
    for _ in range(many):
        yield share
        share = np.abs(share + rng.normal(0, moving, 60))
        share /= share.sum()


SIZES = (500, 1000, 2000, 4000, 8000)


def stream(seed, moving):
    rng = np.random.default_rng(seed)
    return np.array(
        [rng.multinomial(n, p) for n, p in zip(SIZES, shares(rng, len(SIZES), moving), strict=True)]
    ), rng


@pytest.mark.parametrize("moving", [0.0, 0.01])
def test_without_noise_counts_add_up(moving):
    counts, rng = stream(1, moving)
    track, _ = played(counts, 0.0, rng)
    assert np.allclose(track.count, counts.sum(axis=0), atol=1e-3)
    assert track.draws[0] == len(SIZES)


def errors(moving, noise=60.0**2, runs=30):
    """Mean squared errors: of the track, of plain sums, of shares pooled by size; and what the
    track says of itself.
    """
    found = []
    for seed in range(runs):
        counts, rng = stream(seed, moving)
        track, noisy = played(counts, noise, rng)
        true, sizes = counts.sum(axis=0), np.array(SIZES, float)
        pooled = sizes @ noisy / (sizes**2).sum() * sizes.sum()
        rivals = (track.count, noisy.sum(axis=0), pooled)
        found.append(
            [*(float(((one - true) ** 2).mean()) for one in rivals), float(track.error[0, 2])]
        )
    return np.mean(found, axis=0)


def test_shares_that_stay_are_pooled():
    track, sums, pooled, said = errors(moving=0.0)
    assert track < 0.7 * sums and track < 1.2 * pooled
    assert 0.7 < track / said < 1.3


def test_shares_that_move_are_added_up():
    track, sums, pooled, said = errors(moving=0.03, noise=15.0**2)
    assert pooled > 2 * sums, "pooling would be wrong"
    assert track < sums
    assert 0.5 < track / said < 2


def test_what_was_not_measured_is_imputed_and_corrected_later():
    """Measured in the last of two equal epochs only: the first is taken to have been alike, if
    nothing speaks against it.
    """
    rng, apart = np.random.default_rng(3), (10, 6)
    marginals = Marginals(apart, ((0,), (1,), (0, 1)))
    counts = rng.multinomial(5000, rng.dirichlet(np.ones(60)), 2).reshape(2, *apart)
    rows, columns = counts[0].sum(axis=1) / 5000, counts[0].sum(axis=0) / 5000
    model = np.concatenate([rows, columns, np.outer(rows, columns).ravel()])
    track, true = untracked(marginals), counts.sum(axis=0)
    for number, exact in enumerate(counts):
        noisy = exact + rng.normal(0, 1, apart)
        measured = {0: Noisy(noisy.sum(axis=1), 6.0), 1: Noisy(noisy.sum(axis=0), 10.0)}
        measured |= {2: Noisy(noisy, 1.0)} if number else {}
        epoch = Epoch(5000.0, 5000.0, 5000.0 * number)
        track = tracked(track, marginals, epoch, measured, model)
    assert np.abs(marginals.part(track.count, 2) - true).sum() < 0.15 * 10_000
    first = 5000 * np.outer(rows, columns)
    assert np.abs(first + counts[1] - true).sum() > 0.2 * 10_000, "imputed once, it stays wrong"


def test_a_pair_that_is_not_measured_is_known_less_well():
    (once, _), (later, _) = moved_pair([]), moved_pair([(400, 400, 400)])
    assert later.error[2, 2] > once.error[2, 2]
    assert PAIR.part(later.count, 2).sum() == pytest.approx(2400, rel=0.01)


def test_a_model_that_was_right_is_kept_to():
    """The first measurement is all noise, beside a model that is right: little of it is taken."""
    rng = np.random.default_rng(4)
    counts = np.array([rng.multinomial(1000, EVEN) for _ in range(2)])
    track, noisy = played(counts, 200.0**2, rng, skip={0})
    true = counts.sum(axis=0)
    assert ((track.count - true) ** 2).mean() < 0.5 * ((noisy[1] + counts[0] - true) ** 2).mean()


def test_records_that_are_replaced_are_followed():
    """As many come as go: the number stays, the shares do not."""
    rng = np.random.default_rng(5)
    first, then = (
        rng.multinomial(5000, rng.dirichlet(np.ones(60))),
        rng.multinomial(5000, rng.dirichlet(np.ones(60))),
    )
    track = tracked(
        untracked(ONE),
        ONE,
        Epoch(5000.0, 5000.0, 0.0),
        {0: Noisy(first + rng.normal(0, 3, 60), 9.0)},
        EVEN,
    )
    track = tracked(
        track,
        ONE,
        Epoch(0.0, 10_000.0, 5000.0),
        {0: Noisy(then - first + rng.normal(0, 3, 60), 9.0)},
        EVEN,
    )
    assert np.abs(track.count - then).mean() < 6


def test_workloads_that_were_never_measured_stay_unknown():
    rng = np.random.default_rng(6)
    model = np.concatenate([EVEN, [0.5, 0.5]])
    track = tracked(
        untracked(TWO),
        TWO,
        Epoch(100.0, 100.0, 0.0),
        {0: Noisy(rng.multinomial(100, EVEN), 1.0)},
        model,
    )
    assert (
        track.draws.tolist() == [1, 0]
        and not track.error[1].any()
        and not TWO.part(track.count, 1).any()
    )


def test_an_epoch_without_records_is_no_trouble():
    track = tracked(untracked(ONE), ONE, Epoch(0.0, 0.0, 0.0), {0: Noisy(np.zeros(60), 4.0)}, EVEN)
    track = tracked(track, ONE, Epoch(-3.0, 0.0, 0.0), {0: Noisy(np.ones(60), 4.0)}, EVEN)
    assert np.isfinite(track.count).all() and (track.error[0, [0, 2]] > 0).all()


PAIR = Marginals((3, 2), ((0,), (1,), (0, 1)))
ONCE = (
    np.array([[30, 10], [20, 20], [10, 30]]) * 10.0
)  # a pair that is measured in the first epoch only


def moved_pair(shifts):
    """The track after epochs whose first column's counts are `shifts`, times one conditional share
    of the second.
    """
    track, before = untracked(PAIR), 0.0
    given = ONCE / ONCE.sum(axis=1, keepdims=True)
    even = np.concatenate([np.full(3, 1 / 3), np.full(2, 1 / 2), np.full(6, 1 / 6)])
    pairs = [ONCE, *(np.array(column, float)[:, None] * given for column in shifts)]
    for number, pair in enumerate(pairs):
        measured = {0: Noisy(pair.sum(axis=1), 1e-6), 1: Noisy(pair.sum(axis=0), 1e-6)}
        if not number:
            measured[2] = Noisy(pair, 1e-6)
        track = tracked(track, PAIR, Epoch(pair.sum(), pair.sum(), before), measured, even)
        before += pair.sum()
    return track, sum(pairs)


def test_a_pair_that_is_not_measured_grows_as_its_columns_do():
    track, true = moved_pair([(900, 200, 100), (0, 100, 1500)])
    assert np.allclose(PAIR.part(track.count, 2), true, rtol=0.02)


def test_a_pair_that_is_not_measured_shrinks_when_records_go():
    track, true = moved_pair([(400, 400, 400), (-100, -100, -100)])
    assert np.allclose(PAIR.part(track.count, 2), true, rtol=0.02)


def test_a_pair_whose_columns_move_is_known_less_well():
    still, _ = moved_pair([(400, 400, 400), (400, 400, 400)])
    moving, _ = moved_pair([(700, 400, 100), (100, 400, 700)])
    assert moving.error[2, 2] > 2 * still.error[2, 2]


def test_a_pair_is_known_where_one_of_its_columns_hardly_varies():
    """All records of a stretch have one value: then the pair is what the other column is."""
    (known, true), (moving, _) = (
        moved_pair([(0, 1200, 0), (0, 0, 1200)]),
        moved_pair([(700, 400, 100), (100, 400, 700)]),
    )
    assert known.error[2, 2] < 0.5 * moving.error[2, 2]
    assert np.allclose(PAIR.part(known.count, 2), true, rtol=0.02)


def test_what_came_since_makes_counts_less_sure_in_proportion():
    track, _ = moved_pair([(900, 200, 100), (0, 100, 1500)])
    (now, none), (later, since) = (unseen(track, PAIR, events, events) for events in (0.0, 500.0))
    assert np.allclose(now, track.error[:, 2]) and not none.any()
    assert (later > now).all() and (since > 500).all()
    assert np.isinf(unseen(untracked(PAIR), PAIR, 0.0, 0.0)[0]).all()
