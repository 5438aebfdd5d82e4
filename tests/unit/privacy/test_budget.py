"""Parts and multiples of a budget."""

from tailrace import ZCDP, PureDP
from tailrace.privacy.budget import part


def test_a_multiple_of_a_loss():
    assert part(PureDP(epsilon="1/10"), 3) == PureDP(epsilon="3/10")
    assert part(ZCDP(rho="1/10"), 3) == ZCDP(rho="3/10")
