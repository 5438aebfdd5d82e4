"""What each counter promises of itself: sizes, noise terms, sentences."""

from fractions import Fraction

import numpy as np
import pytest

from tailrace import ZCDP, ApproxDP, ConfigError, DataError, HorizonReached, Noise, PureDP
from tailrace.audit import proved_loss
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
    best,
)
from tailrace.counters.choice import mean_squared_error

HORIZONS = (1, 2, 3, 4, 7, 13, 20)
PURE = PureDP(epsilon=0.5)


def test_the_noise_proves_the_loss_from_outside(counter):
    """`audit.proved_loss` knows nothing of levels and scales: it asks the counter how it responds
    to noise.
    """
    loss = counter.loss()
    claimed = loss.rho if not isinstance(loss, PureDP) else loss.epsilon
    assert proved_loss(counter, counter.horizon) <= float(claimed) * (1 + 1e-9)


@pytest.mark.parametrize("horizon", [1, 2, 4, 8, 12, 365, 1024])
def test_the_binary_tree_takes_bit_length_levels(horizon):
    tree = BinaryTree(privacy=PURE, horizon=horizon)
    assert tree.atoms.scale == horizon.bit_length() / Fraction(1, 2)
    t = np.arange(1, horizon + 1)
    assert np.allclose(tree.variance(t) / tree.atoms.variance(), [int(i).bit_count() for i in t])


def test_a_wrong_scale_is_seen_from_outside():
    class Forgetful(BinaryTree):
        @property
        def atoms(self):
            return type(super().atoms)(self.privacy, super().atoms.weight - 1)

    assert proved_loss(Forgetful(privacy=PURE, horizon=4), 4) == pytest.approx(1.5 * 0.5)
    assert proved_loss(Forgetful(privacy=ZCDP(rho=0.1), horizon=4), 4) == pytest.approx(1.5 * 0.1)


def test_block_terms_are_blocks_plus_steps():
    block = Block(size=8, privacy=PURE, horizon=100)
    t = np.arange(1, 101)
    assert np.array_equal(block.atoms_between(t, 0 * t), t // 8 + t % 8)
    assert block.atoms.scale == 4
    assert Block(size=8, privacy=PURE, horizon=7).atoms.scale == 2, "no block ends: one atom"


@pytest.mark.parametrize(("squares", "terms"), [(True, (500, 2276)), (False, (221, 866))])
def test_noise_terms_of_the_unbounded_blocks(squares, terms):
    """The counts that docs/explanation/corrections.md states."""
    counter = UnboundedBlock(squares=squares, privacy=PURE)
    t = np.array([10_000, 100_000])
    assert tuple(counter.atoms_between(t, 0 * t)) == terms


def test_kary_digits_add_up():
    tree = KaryTree(arity=5, levels=3, privacy=PURE, horizon=200)
    t = np.arange(201)
    digits = tree._digits(t)
    assert np.array_equal(
        sum(digit * size for digit, size in zip(digits, tree.sizes, strict=True)), t
    )
    assert max(int(np.abs(digit).max()) for digit in digits[:-1]) == 2


def test_variance_from_first_principles(counter):
    """The exact variance, from the response to each draw."""
    from tailrace.audit import response
    from tailrace.noise import gaussian_variance, laplace_variance

    lines, draws = response(counter, counter.horizon)
    each = np.array(
        [
            laplace_variance(Fraction(p)) if kind == "laplace" else gaussian_variance(Fraction(p))
            for kind, p in draws
        ]
    )
    covariance = (lines * each) @ lines.T
    t = np.arange(1, counter.horizon + 1)
    late, early = np.meshgrid(t, t)
    expected = np.diag(covariance)[:, None] + np.diag(covariance)[None, :] - 2 * covariance
    assert np.allclose(counter.variance(t), np.diag(covariance), rtol=1e-9)
    assert np.allclose(
        counter.variance(late, early), expected, rtol=1e-6, atol=1e-6 * np.diag(covariance).max()
    )


def test_sqrt_toeplitz_unit_noise_variance():
    counter = SqrtToeplitz(privacy=ZCDP(rho=0.5), horizon=1024)
    assert float(counter.variance(1024)) == pytest.approx(10.7, abs=0.05)


def test_sqrt_toeplitz_is_unbiased_at_a_million_per_step():
    counter = SqrtToeplitz(privacy=ZCDP(rho=0.5), horizon=300)
    state, noise = counter.init(1), Noise.insecure(0)
    for t in range(1, 301):
        state, estimate = counter.step(state, np.array([10**6]), noise.at(t))
        assert abs(estimate[0] - 10**6 * t) < 6 * np.sqrt(counter.variance(t))


@pytest.mark.parametrize("rho", ["1e-17", "1e-9", "1e6"])
def test_sqrt_toeplitz_keeps_within_the_range_of_the_sampler(rho):
    counter = SqrtToeplitz(privacy=ZCDP(rho=rho), horizon=50)
    _state, _estimate = counter.step(counter.init(3), np.array([1, 2, 3]), Noise.insecure(0))
    assert counter.loss() == ZCDP(rho=rho)
    assert proved_loss(counter, 50) == pytest.approx(float(rho), rel=1e-6)


def test_noise_that_is_missing_is_seen_from_outside():
    class Silent(Simple):
        def step(self, state, x, noise, rows=None):
            return super().step(state, x, Spy(None), rows)

    class OnceOnly(Simple):
        def step(self, state, x, noise, rows=None):
            return super().step(state, x, Spy(None) if state.clock.any() else noise, rows)

    for privacy in (PURE, ZCDP(rho=1)):
        assert proved_loss(Silent(privacy=privacy), 3) == np.inf
        assert proved_loss(OnceOnly(privacy=privacy), 3) == np.inf


def test_finished_epochs_are_let_go():
    counter = Hybrid(privacy=PURE)
    state = counter.init(2)
    for t in range(200):
        state, _ = counter.step(state, np.array([1, 1]), Noise.insecure(t))
    assert int(state.oldest) == 7 and len(state.running) == 1
    grown = counter.grow(state, 1)
    assert int(grown.oldest) == 0 and len(grown.running) == 8


@pytest.mark.parametrize("number", [np.int64, np.int32, np.uint8, np.int8])
def test_numpy_integers_are_whole_numbers_too(number):
    assert BinaryTree(privacy=PURE, horizon=number(100)) == BinaryTree(privacy=PURE, horizon=100)
    assert Block(size=number(100)).sizes == (1, 100)
    assert best(privacy=PURE, horizon=number(100)) == best(privacy=PURE, horizon=100)
    assert (
        KaryTree(arity=number(101), levels=number(4), privacy=PURE, horizon=10).sizes[-1] == 101**3
    )
    assert Simple(privacy=PURE).loss(number(100), number(100)) == PureDP(epsilon=100)
    assert Simple(privacy=ZCDP(rho=1)).loss(number(100)) == ZCDP(rho=10_000)


def test_losses_of_units_with_several_events():
    for counter in (Simple(privacy=PURE), BinaryTree(privacy=PURE, horizon=9)):
        assert counter.loss(events=3, deletes=2) == PureDP(epsilon=2.5)
    for counter in (
        BinaryTree(privacy=ZCDP(rho=0.1), horizon=9),
        SqrtToeplitz(privacy=ZCDP(rho=0.1), horizon=9),
    ):
        assert counter.loss(events=1, deletes=1) == ZCDP(rho=0.2), (
            "2 rho, not the 4 rho of group privacy"
        )
        assert counter.loss(events=3, deletes=2) == ZCDP(rho=1.3)
    approx = Simple(privacy=ApproxDP(epsilon=1, delta=1e-6)).loss(events=1, deletes=1)
    assert approx == ZCDP(rho=2 * ApproxDP(epsilon=1, delta=1e-6).zcdp_within().rho).as_approx(
        delta=1e-6
    )


@pytest.mark.parametrize(("horizon", "limit"), [(128, 0.82), (1000, 0.50), (4096, 0.33)])
def test_best_beats_simple_at_the_same_epsilon(horizon, limit):
    ours = best(privacy=PURE, horizon=horizon)
    assert ours.loss() == PURE
    assert (
        mean_squared_error(ours) ** 0.5
        <= limit * mean_squared_error(Simple(privacy=PURE, horizon=horizon)) ** 0.5
    )


@pytest.mark.parametrize(("horizon", "limit"), [(1000, 0.43), (4096, 0.245)])
def test_best_beats_simple_at_the_same_epsilon_with_a_delta(horizon, limit):
    ours = best(privacy=ApproxDP(epsilon=0.5, delta=1e-6), horizon=horizon)
    assert ours.loss().epsilon <= Fraction(1, 2)
    assert (
        mean_squared_error(ours) ** 0.5
        <= limit * mean_squared_error(Simple(privacy=PURE, horizon=horizon)) ** 0.5
    )


def test_simple_is_best_over_short_horizons_as_its_page_says():
    assert "up to 33 steps at epsilon = 0.5" in " ".join(Simple.__doc__.split())
    assert isinstance(best(privacy=PURE, horizon=33), Simple)
    assert not isinstance(best(privacy=PURE, horizon=34), Simple)


def test_best_without_end_and_under_every_loss():
    for privacy in (PURE, ZCDP(rho=0.1), ApproxDP(epsilon=1, delta=1e-9)):
        for horizon in (1, 2, 3, 50, None):
            counter = best(privacy=privacy, horizon=horizon)
            assert counter.horizon == horizon
            assert mean_squared_error(counter) <= mean_squared_error(
                Simple(privacy=privacy.pure_within(), horizon=horizon)
            )


def test_the_mean_over_long_horizons_is_taken_at_points_in_step_with_no_tree():
    tree = BinaryTree(privacy=PURE, horizon=2**15)
    assert mean_squared_error(tree) == pytest.approx(
        float(tree.variance(np.arange(1, 2**15 + 1)).mean()), rel=0.005
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Simple(privacy=1.0), "privacy must be PureDP"),  # type: ignore[arg-type]
        (lambda: Simple(privacy=PURE, horizon=0), "horizon must be a whole number of at least 1"),
        (lambda: Simple(privacy=PURE, horizon=2.0), "horizon must be a whole number"),  # type: ignore[arg-type]
        (lambda: Block(size=1), "use counters.Simple"),
        (lambda: Block(size=0), "size must be a whole number"),
        (lambda: Block(privacy=PURE).init(1), "Block needs horizon="),
        (lambda: BinaryTree(privacy=PURE).init(1), "BinaryTree needs horizon="),
        (lambda: KaryTree(privacy=PURE).init(1), "KaryTree needs horizon="),
        (lambda: KaryTree(arity=4), "odd with subtraction"),
        (lambda: KaryTree(levels=0), "levels must be"),
        (lambda: KaryTree(privacy=ZCDP(rho=1)), "takes PureDP only"),
        (lambda: SqrtToeplitz(privacy=PURE), "cannot give PureDP"),
        (lambda: SqrtToeplitz(privacy=ZCDP(rho=1)).init(1), "SqrtToeplitz needs horizon="),
        (lambda: Unbounded(counter=SqrtToeplitz(), privacy=PURE), "cannot give PureDP"),
        (
            lambda: Unbounded(counter=Block(privacy=PURE), privacy=PURE),
            "without privacy= and horizon=",
        ),
        (lambda: Unbounded(counter=3, privacy=PURE), "without privacy= and horizon="),
        (lambda: Hybrid(first=0), "first must be"),
        (lambda: Simple().loss(), "has no budget yet"),
        (lambda: Simple(privacy=PURE).loss(0, 0), "at least one of the two"),
        (lambda: Simple(privacy=PURE).loss(-1, 2), "at least 0"),
        (lambda: BinaryTree(privacy=PURE, horizon=5).variance(6), "beyond the horizon of 5 steps"),
        (lambda: Simple(privacy=PURE).variance(1.5), "whole numbers of at least 0"),
        (lambda: Simple(privacy=PURE).variance(-1), "whole numbers of at least 0"),
        (lambda: best(privacy=None, horizon=3), "privacy must be"),  # type: ignore[arg-type]
        (lambda: best(privacy=PURE, horizon=0), "horizon must be"),
        (lambda: [best(privacy=PURE, horizon=h) for h in (5, 5.0)], "horizon must be"),
        (lambda: Simple(privacy=PURE).loss("1"), "events must be a whole number"),
        (lambda: Simple(privacy=PURE).loss(1.5), "events must be a whole number"),
        (lambda: Simple(privacy=PureDP(epsilon=5000), horizon=3), "beyond the sampler's range"),
        (
            lambda: BinaryTree(privacy=PureDP(epsilon="1e-9"), horizon=9),
            "beyond the sampler's range",
        ),
        (lambda: SqrtToeplitz(privacy=ZCDP(rho="1e-29"), horizon=9), "beyond the sampler's range"),
        (lambda: KaryTree(levels=200), "levels must be at most 60"),
        (lambda: Block(size=10**30), "size must be a whole number"),
        (lambda: Unbounded(counter=Block, privacy=PURE), "without privacy= and horizon="),
        (lambda: Simple(privacy=PURE).variance([1, 2], [1, 2, 3]), "shapes that go together"),
    ],
)
def test_bad_configurations_are_refused_in_one_sentence(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("x", "rows", "message"),
    [
        (np.array([1.0, 2.0, 3.0]), None, "integer counts"),
        (np.array([1, 2, 2**63], np.uint64), None, "signed integer counts"),
        ([[1], [1, 2], 3], None, "ragged"),
        (np.array([1, 2]), None, "one count for each of the 3 rows"),
        (np.array([1]), np.array([3]), "row numbers from 0 to 2"),
        (np.array([1]), np.array([-1]), "row numbers from 0 to 2"),
        (np.array([1, 1]), np.array([1, 1]), "names a row twice"),
        (np.array([1]), np.array([0.0]), "one-dimensional array of row numbers"),
        (np.array([1]), np.array([[0]]), "one-dimensional array of row numbers"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(x, rows, message):
    counter = Simple(privacy=PURE)
    with pytest.raises(DataError, match=message):
        counter.step(counter.init(3), x, Noise.fresh(), rows)


@pytest.mark.parametrize("rows", [-1, 1.0, True])
def test_the_number_of_rows_is_whole(rows):
    with pytest.raises(DataError, match="number of rows"):
        Simple(privacy=PURE).init(rows)


def test_one_row_past_its_horizon_refuses_the_step_and_draws_nothing():
    counter, noise = Simple(privacy=PURE, horizon=1), Noise.fresh()
    state, _ = counter.step(counter.init(2), np.array([1]), noise.at(1), np.array([0]))
    with pytest.raises(HorizonReached, match="all 1 steps of its horizon"):
        counter.step(state, np.array([1, 1]), noise.at(2))
    counter.step(state, np.array([1]), noise.at(2), np.array([1]))
