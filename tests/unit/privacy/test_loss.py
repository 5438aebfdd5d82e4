import decimal
import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tailrace import ZCDP, ApproxDP, ConfigError, PureDP

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "dp_accounting.json").read_text())[
    "rows"
]


@pytest.mark.parametrize(
    "value", [0.1, "0.1", "1/10", Decimal("0.1"), np.float64(0.1), np.float32(0.1), Fraction(1, 10)]
)
def test_decimals_are_read_as_written(value):
    assert PureDP(epsilon=value).epsilon == Fraction(1, 10)


@pytest.mark.parametrize(
    "value", [0, -1, float("nan"), float("inf"), True, None, "one", "1/0", [1]]
)
@pytest.mark.parametrize(("kind", "name"), [(PureDP, "epsilon"), (ZCDP, "rho")])
def test_a_loss_that_is_no_positive_number_is_refused_in_one_sentence(kind, name, value):
    with pytest.raises(ConfigError, match=rf"{name} must be a finite number above 0") as error:
        kind(**{name: value})
    assert str(error.value).count(".\n") == 0


@pytest.mark.parametrize("delta", [0, 1, 1.5, -1e-6, float("nan")])
def test_delta_lies_between_0_and_1(delta):
    with pytest.raises(ConfigError, match="delta must be a finite number above 0 and below 1"):
        ApproxDP(epsilon=1, delta=delta)


def test_losses_take_keywords_only():
    with pytest.raises(ConfigError, match="PureDP takes its arguments by name"):
        PureDP(1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("row", VECTORS)
def test_zcdp_conversion_agrees_with_dp_accounting(row):
    ours = ZCDP(rho=row["rho"]).as_approx(delta=row["delta"])
    assert float(ours.epsilon) == pytest.approx(row["epsilon"], rel=2e-5)
    assert float(ours.epsilon) <= row["epsilon"] * (
        1 + 1e-9
    )  # we search a continuum of orders, it a list


@pytest.mark.parametrize("row", VECTORS)
def test_the_largest_rho_within_a_budget_converts_back_to_it_and_no_more(row):
    budget = ApproxDP(epsilon=row["epsilon"], delta=row["delta"])
    rho = budget.zcdp_within()
    assert rho.as_approx(delta=row["delta"]).epsilon <= budget.epsilon
    assert (
        ZCDP(rho=rho.rho * Fraction(1_000_001, 1_000_000)).as_approx(delta=row["delta"]).epsilon
        > budget.epsilon
    )


def test_pure_to_zcdp_is_half_the_square_and_back_rounds_down():
    assert PureDP(epsilon=0.5).as_zcdp() == ZCDP(rho=Fraction(1, 8))
    back = ZCDP(rho=0.1).pure_within()
    assert back.as_zcdp().rho <= Fraction(1, 10)
    assert PureDP(epsilon=back.epsilon + Fraction(1, 10**11)).as_zcdp().rho > Fraction(1, 10)


def test_groups_multiply_epsilon_and_square_in_rho():
    assert PureDP(epsilon=0.1).group(3) == PureDP(epsilon=0.3)
    assert ZCDP(rho=0.1).group(3) == ZCDP(rho=0.9)
    proved = ZCDP(rho=0.1).as_approx(delta=1e-6)
    assert proved.group(3) == ZCDP(rho=0.9).as_approx(delta=1e-6)
    lemma = ApproxDP(epsilon=1, delta=1e-6).group(2)
    assert lemma.epsilon == 2
    assert float(lemma.delta) == pytest.approx(2 * np.e * 1e-6)
    assert float(lemma.delta) >= 2 * np.e * 1e-6


def test_a_group_whose_delta_would_reach_one_is_refused():
    with pytest.raises(ConfigError, match="its delta would reach 1"):
        ApproxDP(epsilon=1, delta=1e-3).group(10)


@pytest.mark.parametrize("m", [0, -1, 1.5, True])
def test_a_group_has_a_whole_number_of_events(m):
    with pytest.raises(ConfigError, match="m must be a whole number of at least 1"):
        PureDP(epsilon=1).group(m)


def test_composition():
    pure, zero = PureDP(epsilon=0.5), ZCDP(rho=0.1)
    assert pure & pure == PureDP(epsilon=1)
    assert zero & zero == ZCDP(rho=0.2)
    assert pure & zero == zero & pure == ZCDP(rho=Fraction(1, 8) + Fraction(1, 10))
    proved = zero.as_approx(delta=1e-6)
    assert proved & proved == ZCDP(rho=0.2).as_approx(delta=1e-6)
    assert proved & zero == zero & proved == ZCDP(rho=0.2).as_approx(delta=1e-6)
    assert proved & pure == pure & proved == ZCDP(rho=0.225).as_approx(delta=1e-6)
    asked = ApproxDP(epsilon=1, delta=1e-6)
    assert asked & asked == ApproxDP(epsilon=2, delta=2e-6)
    assert asked & pure == ApproxDP(epsilon=1.5, delta=1e-6)
    assert (proved & asked).delta == Fraction(2, 10**6)
    assert (proved & zero.as_approx(delta=1e-9)).delta == Fraction(1, 10**6) + Fraction(1, 10**9)


def test_gaussian_noise_cannot_serve_a_pure_budget():
    with pytest.raises(ConfigError, match="Gaussian noise cannot give PureDP"):
        PureDP(epsilon=1).zcdp_within()


def test_an_approximate_loss_implies_no_zcdp_unless_it_came_from_one():
    with pytest.raises(ConfigError, match="implies no zCDP loss"):
        ApproxDP(epsilon=1, delta=1e-6).as_zcdp()
    assert ZCDP(rho=0.1).as_approx(delta=1e-6).as_approx(delta=1e-9) == ZCDP(rho=0.1).as_approx(
        delta=1e-9
    )


def test_a_generous_delta_still_gives_a_positive_epsilon():
    assert 0 < ZCDP(rho=1e-9).as_approx(delta=0.5).epsilon < Fraction(1, 10**9)


@pytest.mark.parametrize(
    "loss",
    [
        PureDP(epsilon=0.1),
        PureDP(epsilon="1/3"),
        ZCDP(rho=1e-9),
        ApproxDP(epsilon=2, delta=1e-12),
        ZCDP(rho=0.1).as_approx(delta=1e-6),
    ],
)
def test_what_a_loss_prints_makes_it_again(loss):
    assert eval(repr(loss)) == loss


PRECISELY = ZCDP(rho=0.5).as_approx(delta=1e-6)


def test_the_calling_programs_decimals_change_no_number():
    with decimal.localcontext() as context:
        context.prec, context.rounding = 2, decimal.ROUND_DOWN
        assert str(PureDP(epsilon="1.0049")) == "epsilon = 1.0049"
        assert ZCDP(rho=0.5).as_approx(delta=1e-6) == PRECISELY
        assert repr(PureDP(epsilon=120)) == "PureDP(epsilon='120')"


@pytest.mark.parametrize("value", [10**400, "1e100000000", "1e-31", 1e-300, 10**5000], ids=range(5))
def test_numbers_of_no_use_are_refused_at_once(value):
    with pytest.raises(ConfigError, match="at most 1e30"):
        PureDP(epsilon=value)


@pytest.mark.parametrize("epsilon", ["1e-6", "1e-13", "1e-20"])
def test_tiny_budgets_can_be_calibrated(epsilon):
    budget = ApproxDP(epsilon=epsilon, delta=1e-6)
    assert budget.zcdp_within().as_approx(delta=1e-6).epsilon <= budget.epsilon


def test_a_loss_composes_with_losses_only():
    for loss in (PureDP(epsilon=1), ZCDP(rho=1), ApproxDP(epsilon=1, delta=1e-6)):
        with pytest.raises(ConfigError, match="a loss composes with must be PureDP"):
            loss & None


def test_pure_is_approximate_with_any_delta():
    assert PureDP(epsilon=1).as_approx(delta=1e-6) == ApproxDP(epsilon=1, delta=1e-6)
