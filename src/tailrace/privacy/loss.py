"""Privacy losses as exact numbers, and the conversions between them.

A loss is what one protected unit may lose over a whole stream. Parameters are fractions: a decimal
is read as it is written (`epsilon=0.1` is 1/10, not the nearest double). Whatever is derived is
rounded against us: a loss up, a budget down.

| from             | to               | how                                                      |
|------------------|------------------|----------------------------------------------------------|
| epsilon          | rho              | rho = epsilon^2 / 2 (Bun-Steinke 2016)                   |
| rho              | (epsilon, delta) | minimum over the order alpha of a closed form (below)    |
| (epsilon, delta) | the largest rho  | maximum over alpha of the same form, solved for rho      |
| one event        | m events         | m epsilon; m^2 rho; (epsilon, delta) through its own rho |

The form, for any order alpha > 1 (Canonne-Kamath-Steinke 2020, Proposition 12):

    epsilon = alpha rho + ln((alpha - 1) / alpha) - (ln delta + ln alpha) / (alpha - 1)

Each alpha alone gives a valid bound, so the search for the best one may use floats; the bound at
the chosen alpha is evaluated in 50-digit decimals and rounded outward, so what is returned is
proved, not approximated.
"""

from __future__ import annotations

import decimal
import functools
import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from tailrace.calls import told
from tailrace.errors import ConfigError

Number = int | float | str | Decimal | Fraction

# Significant digits of derived numbers; the coarser budget leaves room for the loss to round up.
_LOSS_DIGITS, _BUDGET_DIGITS = 20, 12
_PRECISE = decimal.Context(prec=50, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


def exact(name: str, value: Number, *, below: int | None = None) -> Fraction:
    """A positive number as the fraction its decimals say.

    >>> exact("epsilon", 0.1)
    Fraction(1, 10)
    """
    limit = "above 0" if below is None else f"above 0 and below {below}"
    wanted = ConfigError(
        f"{name} must be a finite number {limit}, for example {name}=0.5 (at most 1e30, at least "
        f"1e-30)."
    )
    if isinstance(value, Fraction):
        number = value
    else:
        if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal | str):
            raise wanted
        try:
            text = str(value)
            if len(text) > 400 or ("/" not in text and abs(Decimal(text).adjusted()) > 40):
                raise wanted  # before a fraction of a million digits is made of it
            number = Fraction(text)
        except (ValueError, ArithmeticError):
            raise wanted from None
    if not Fraction(1, 10**30) <= number <= 10**30 or (below is not None and number >= below):
        raise wanted
    return number


def number_text(value: Fraction, digits: int | None = None) -> str:
    """`value` as a decimal, rounded up to `digits` significant digits.

    None: exactly, as p/q where the decimals do not end.
    """
    if digits is None:
        # Decimals end where the denominator has no other primes than 2 and 5.
        if 10**50 % value.denominator or value.denominator > 10**15:
            return str(value)
        return _readable(_decimal(value))
    context = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING)
    return _readable(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


def _readable(value: Decimal) -> str:
    """`value` in full, or with an exponent where shorter."""
    # Exactly, whatever decimal context the calling program has set.
    plain = value.normalize(_PRECISE)
    return f"{plain:f}" if -5 <= plain.adjusted() < 15 else f"{plain:e}"


@told
@dataclass(frozen=True, kw_only=True)
class PureDP:
    """Pure DP: no outcome becomes over e^epsilon times likelier.

    >>> PureDP(epsilon=0.1).group(3)
    PureDP(epsilon='0.3')
    """

    epsilon: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", exact("epsilon", epsilon))

    def __repr__(self) -> str:
        return f"PureDP(epsilon={number_text(self.epsilon)!r})"

    def __str__(self) -> str:
        return f"epsilon = {number_text(self.epsilon, 6)}"

    def as_zcdp(self) -> ZCDP:
        """The zCDP loss that follows: rho = epsilon^2 / 2."""
        return ZCDP(rho=self.epsilon**2 / 2)

    def as_approx(self, *, delta: Number) -> ApproxDP:
        """The same epsilon, with a delta that is not needed."""
        return ApproxDP(epsilon=self.epsilon, delta=delta)

    def pure_within(self) -> PureDP:
        """The largest pure loss within this one: itself."""
        return self

    def zcdp_within(self) -> ZCDP:
        """Refused: no zCDP loss implies a pure one."""
        raise ConfigError(
            "Gaussian noise cannot give PureDP: use privacy=ZCDP(rho=...) or ApproxDP(epsilon=..., "
            "delta=...), or a counter that takes Laplace noise."
        )

    def group(self, m: int) -> PureDP:
        """The loss of m events together: m epsilon."""
        return PureDP(epsilon=whole("m", m) * self.epsilon)

    def __and__(self, other: Loss) -> Loss:
        check_privacy(other, "what a loss composes with")
        if isinstance(other, PureDP):
            return PureDP(epsilon=self.epsilon + other.epsilon)
        return other & self


@told
@dataclass(frozen=True, kw_only=True)
class ZCDP:
    """Zero-concentrated DP: Renyi divergences of order alpha <= alpha rho.

    >>> print(ZCDP(rho=0.5).as_approx(delta=1e-6))
    epsilon = 5.22154, delta = 1e-6
    """

    rho: Fraction

    def __init__(self, *, rho: Number) -> None:
        object.__setattr__(self, "rho", exact("rho", rho))

    def __repr__(self) -> str:
        return f"ZCDP(rho={number_text(self.rho)!r})"

    def __str__(self) -> str:
        return f"rho = {number_text(self.rho, 6)}"

    def as_zcdp(self) -> ZCDP:
        """Itself."""
        return self

    def as_approx(self, *, delta: Number) -> ApproxDP:
        """The (epsilon, delta) loss that follows, at the best order."""
        small = exact("delta", delta, below=1)
        rho, log_delta = float(self.rho), _log(small)
        order = _best_order(
            lambda a: a * rho + math.log1p(-1 / a) - (log_delta + math.log(a)) / (a - 1)
        )
        alpha, log_ratio, rest = _order_terms(order, small)
        bound = _PRECISE.subtract(_PRECISE.fma(alpha, _decimal(self.rho), log_ratio), rest)
        # at a generous delta the bound can fall below zero, where (0, delta) would hold: any
        # positive epsilon is then an upper bound
        epsilon = max(_outward(bound, up=True), Fraction(1, 10**30))
        return ApproxDP(epsilon=epsilon, delta=small, rho=self.rho)

    def pure_within(self) -> PureDP:
        """The largest pure loss within: sqrt(2 rho), rounded down."""
        return PureDP(epsilon=_outward(_PRECISE.sqrt(_decimal(2 * self.rho)), up=False))

    def zcdp_within(self) -> ZCDP:
        """The largest zCDP loss within this one: itself."""
        return self

    def group(self, m: int) -> ZCDP:
        """The loss of m events together: m^2 rho."""
        return ZCDP(rho=whole("m", m) ** 2 * self.rho)

    def __and__(self, other: Loss) -> Loss:
        check_privacy(other, "what a loss composes with")
        if isinstance(other, ApproxDP):
            return other & self
        return ZCDP(rho=self.rho + other.as_zcdp().rho)


@told
@dataclass(frozen=True, kw_only=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy.

    `rho` is set by `ZCDP.as_approx`, never by hand, and remembers what was proved: groups and
    compositions then go through it, which is tighter.

    >>> ApproxDP(epsilon=1, delta=1e-6).zcdp_within()
    ZCDP(rho='0.0243559703595')
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None = field(compare=False)

    def __init__(self, *, epsilon: Number, delta: Number, rho: Number | None = None) -> None:
        object.__setattr__(self, "epsilon", exact("epsilon", epsilon))
        object.__setattr__(self, "delta", exact("delta", delta, below=1))
        object.__setattr__(self, "rho", None if rho is None else exact("rho", rho))

    def __repr__(self) -> str:
        named = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        parts = (f"{name}={number_text(v)!r}" for name, v in named.items() if v is not None)
        return f"ApproxDP({', '.join(parts)})"

    def __str__(self) -> str:
        return f"epsilon = {number_text(self.epsilon, 6)}, delta = {number_text(self.delta, 6)}"

    def as_zcdp(self) -> ZCDP:
        """The zCDP loss it was converted from; otherwise refused."""
        if self.rho is None:
            raise ConfigError(
                "An (epsilon, delta) loss implies no zCDP loss unless it was converted from one."
            )
        return ZCDP(rho=self.rho)

    def as_approx(self, *, delta: Number) -> ApproxDP:
        """The promise at another delta, through rho; otherwise refused."""
        same = exact("delta", delta, below=1) == self.delta
        return self if same else self.as_zcdp().as_approx(delta=delta)

    def pure_within(self) -> PureDP:
        """The largest pure loss within this one: epsilon itself."""
        return PureDP(epsilon=self.epsilon)

    def zcdp_within(self) -> ZCDP:
        """The largest rho whose conversion at delta stays within epsilon."""
        return _largest_zcdp(self)

    def group(self, m: int) -> ApproxDP:
        """The loss of m events together.

        That of m^2 rho at the same delta, or (m epsilon, m e^((m-1) epsilon) delta).
        """
        whole("m", m)
        if self.rho is not None:
            return self.as_zcdp().group(m).as_approx(delta=self.delta)
        if m == 1:
            return ApproxDP(epsilon=self.epsilon, delta=self.delta)
        factor = _PRECISE.exp(_decimal((m - 1) * self.epsilon))
        growth = _PRECISE.multiply(factor, _decimal(m * self.delta))
        if growth >= 1:
            raise ConfigError(
                f"A group of {m} gets no (epsilon, delta) protection: its delta would reach 1."
            )
        return ApproxDP(epsilon=m * self.epsilon, delta=_outward(growth, up=True))

    def __and__(self, other: Loss) -> Loss:
        check_privacy(other, "what a loss composes with")
        if isinstance(other, PureDP) and self.rho is None:
            return ApproxDP(epsilon=self.epsilon + other.epsilon, delta=self.delta)
        if self.rho is not None and not (
            isinstance(other, ApproxDP) and (other.rho is None or other.delta != self.delta)
        ):
            return ZCDP(rho=self.rho + other.as_zcdp().rho).as_approx(delta=self.delta)
        if not isinstance(other, ApproxDP):
            other = other.as_zcdp().as_approx(delta=self.delta)
        return ApproxDP(epsilon=self.epsilon + other.epsilon, delta=self.delta + other.delta)


Loss = PureDP | ZCDP | ApproxDP


@functools.lru_cache(maxsize=256)
def _largest_zcdp(budget: ApproxDP) -> ZCDP:
    epsilon, log_delta = float(budget.epsilon), _log(budget.delta)
    order = _best_order(
        lambda a: -(epsilon - math.log1p(-1 / a) + (log_delta + math.log(a)) / (a - 1)) / a
    )
    alpha, log_ratio, rest = _order_terms(order, budget.delta)
    above = _PRECISE.add(_PRECISE.subtract(_decimal(budget.epsilon), log_ratio), rest)
    within = ZCDP(rho=_outward(_PRECISE.divide(above, alpha), up=False))
    # only where rounding left no room at all
    while within.as_approx(delta=budget.delta).epsilon > budget.epsilon:
        within = ZCDP(rho=within.rho * Fraction(10**12 - 1, 10**12))
    return within


def whole(name: str, value: int, *, least: int = 1) -> int:
    """`value` as an int of at least `least`."""
    integral = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    # Below 2^62 no clock overflows.
    if not integral or not least <= value < 1 << 62:
        raise ConfigError(f"{name} must be a whole number of at least {least}.")
    return int(value)


def real(name: str, value: float, *, least: float = -1e30, most: float = 1e30) -> float:
    """`value` as a float from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not least <= value <= most:
        raise ConfigError(f"{name} must be a number from {least:g} to {most:g}.")
    return float(value)


def _decimal(value: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def _outward(value: Decimal, *, up: bool) -> Fraction:
    """Round a loss up, or a budget down.

    The 1e-40 covers the rounding of the 50-digit steps before.
    """
    slack = _PRECISE.multiply(Decimal("1e-40"), max(abs(value), Decimal(1)))
    guarded = _PRECISE.add(value, slack) if up else _PRECISE.subtract(value, slack)
    loss, budget = (_LOSS_DIGITS, decimal.ROUND_CEILING), (_BUDGET_DIGITS, decimal.ROUND_FLOOR)
    return Fraction(decimal.Context(*(loss if up else budget)).plus(guarded))


def _order_terms(order: float, delta: Fraction) -> tuple[Decimal, Decimal, Decimal]:
    """The three terms of the form, to 50 digits."""
    alpha = Decimal(order)
    above = _PRECISE.subtract(alpha, Decimal(1))
    log_alpha = _PRECISE.ln(alpha)
    log_ratio = _PRECISE.subtract(_PRECISE.ln(above), log_alpha)
    rest = _PRECISE.divide(_PRECISE.add(_PRECISE.ln(_decimal(delta)), log_alpha), above)
    return alpha, log_ratio, rest


def _best_order(cost: Callable[[float], float]) -> float:
    """The order alpha > 1 of least `cost`."""
    grid = [-20 + 0.25 * i for i in range(241)]
    best = min(range(len(grid)), key=lambda i: cost(1 + math.exp(grid[i])))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if cost(1 + math.exp(left)) < cost(1 + math.exp(right)):
            high = right
        else:
            low = left
    return 1 + math.exp((low + high) / 2)


def check_privacy(privacy: object, name: str = "privacy") -> None:
    """Refuse what is no loss."""
    if not isinstance(privacy, Loss):
        raise ConfigError(
            f"{name} must be PureDP(epsilon=...), ZCDP(rho=...) or ApproxDP(epsilon=..., "
            "delta=...)."
        )
