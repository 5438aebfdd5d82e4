from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from samples import examples
from tailrace import ZCDP, ApproxDP, PureDP

amounts = st.fractions(min_value=Fraction(1, 10**6), max_value=1000)
deltas = st.fractions(min_value=Fraction(1, 10**15), max_value=Fraction(1, 100))


@examples(200)
@given(amounts, deltas)
def test_a_budget_holds_what_it_was_calibrated_to(epsilon, delta):
    assert (
        ApproxDP(epsilon=epsilon, delta=delta).zcdp_within().as_approx(delta=delta).epsilon
        <= epsilon
    )


@examples(200)
@given(amounts, amounts, deltas)
def test_conversion_is_monotone_and_never_worse_than_the_textbook(rho, more, delta):
    import math

    assume(rho < more)
    small, large = ZCDP(rho=rho).as_approx(delta=delta), ZCDP(rho=more).as_approx(delta=delta)
    assert small.epsilon <= large.epsilon
    assert (
        float(small.epsilon)
        <= float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / float(delta))) + 1e-9
    )


@given(amounts, amounts, st.integers(1, 50))
def test_groups_and_compositions_of_exact_losses(a, b, m):
    for loss in (PureDP(epsilon=a), ZCDP(rho=a)):
        other = PureDP(epsilon=b) if isinstance(loss, PureDP) else ZCDP(rho=b)
        assert loss & other == other & loss
        assert (loss & other).group(m) == loss.group(m) & other.group(m)
        assert loss.group(m).group(2) == loss.group(2 * m)
        assert eval(repr(loss)) == loss


@given(amounts)
def test_what_is_within_converts_back_to_no_more(rho):
    assert ZCDP(rho=rho).pure_within().as_zcdp().rho <= rho
