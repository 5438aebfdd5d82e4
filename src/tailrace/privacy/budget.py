"""Divide budgets among draws; restate the loss they prove.

Mechanisms ask here for every part of their budget; counters and atoms turn a part into a scale.

1. A loss that noise is drawn for is pure (epsilon, Laplace noise) or zCDP (rho, Gaussian noise).
2. Losses of draws on the same unit add up, each kind in its own number: epsilon + epsilon, rho +
   rho. So parts whose shares sum to one have the whole loss together.
3. A unit of m insertions and d deletions loses (m + d) epsilon, or (m^2 + d^2) rho, of one event's
   loss (proof: `noise/atoms.py`). So an event may lose the unit's budget divided by that.
4. An (epsilon, delta) budget is met by any epsilon-DP mechanism, and by rho-zCDP for the largest
   rho whose conversion at delta gives epsilon. Which one is drawn depends on public numbers only.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tailrace.privacy.loss import ZCDP, ApproxDP, Loss, Number, PureDP, exact

Drawn = PureDP | ZCDP


def part(loss: Drawn, share: Number) -> Drawn:
    """A share of a loss, or a multiple of it.

    >>> part(PureDP(epsilon=1), "1/4")
    PureDP(epsilon='0.25')
    """
    share = exact("share", share)
    if isinstance(loss, PureDP):
        return PureDP(epsilon=share * loss.epsilon)
    return ZCDP(rho=share * loss.rho)


def drawable(privacy: Loss) -> Drawn:
    """The loss to draw noise for: pure, or else zCDP."""
    return privacy if isinstance(privacy, PureDP) else privacy.zcdp_within()


def per_event(loss: Drawn, events: tuple[int, int]) -> Drawn:
    """The budget of one event of a unit's (insertions, deletions)."""
    inserted, deleted = events
    if isinstance(loss, PureDP):
        return PureDP(epsilon=loss.epsilon / (inserted + deleted))
    return ZCDP(rho=loss.rho / (inserted**2 + deleted**2))


def quieter(privacy: Loss, *, events: tuple[int, int], weight: int = 1) -> Drawn:
    """Pure or zCDP, whichever gives a count less variance.

    Pure where equal. `weight` is the number of counts that one event moves by one.

    >>> from tailrace import ApproxDP
    >>> quieter(ApproxDP(epsilon=1, delta=1e-6), events=(1, 0))
    PureDP(epsilon='1')
    >>> type(quieter(ApproxDP(epsilon=1, delta=1e-6), events=(1, 0), weight=99)).__name__
    'ZCDP'
    """
    pure = privacy.pure_within()
    if isinstance(privacy, PureDP):
        return pure
    gaussian, (inserted, deleted) = privacy.zcdp_within(), events
    squared = weight * (inserted**2 + deleted**2) / (2 * gaussian.rho)
    return gaussian if squared < 2 * (weight * (inserted + deleted) / pure.epsilon) ** 2 else pure


def split(privacy: Loss, shares: Mapping[str, int]) -> dict[str, Drawn]:
    """The budget of each part: its share of the whole.

    Under ApproxDP the parts are all pure or all zCDP, whichever has the lower sum of variances.

    >>> split(PureDP(epsilon=1), {"trips": 3, "moves": 1})
    {'trips': PureDP(epsilon='0.75'), 'moves': PureDP(epsilon='0.25')}
    """
    whole = sum(shares.values())
    parts = {name: Fraction(share, whole) for name, share in shares.items()}
    if not isinstance(privacy, ApproxDP):
        return {name: part(drawable(privacy), share) for name, share in parts.items()}
    epsilon, rho = privacy.epsilon, privacy.zcdp_within().rho
    laplace = sum(2 / (share * epsilon) ** 2 for share in parts.values())
    gaussian = sum(1 / (2 * rho * share) for share in parts.values())
    loss = PureDP(epsilon=epsilon) if laplace <= gaussian else ZCDP(rho=rho)
    return {name: part(loss, share) for name, share in parts.items()}


def restate(loss: Loss, privacy: Loss) -> Loss:
    """A proved loss in the form of the declared one."""
    if isinstance(privacy, ApproxDP) and isinstance(loss, ZCDP):
        return loss.as_approx(delta=privacy.delta)
    return loss
