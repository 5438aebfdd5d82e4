"""Choose the counter with the lowest predicted error.

Privacy: the choice reads budgets and exact variances only, never data, so it costs nothing. `allot`
proves that the chosen counter loses at most the budget of the unit.
Source: ours; the variances are those that each counter states.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counters.base import Counter
from tailrace.counters.ladder import BinaryTree, Block, KaryTree, Simple, UnboundedBlock
from tailrace.counters.matrix import SqrtToeplitz
from tailrace.counters.unbounded import Hybrid, Unbounded
from tailrace.errors import ConfigError
from tailrace.privacy.budget import Drawn, part, per_event
from tailrace.privacy.loss import Loss, Number, PureDP, check_privacy, whole

# Steps over which counters without a horizon are compared; a convention.
ENDLESS = 4096
# Times at which a mean is taken, all of them up to here.
_POINTS = 20_000
# By reasoning: above, its 16 bytes per step and row and its quadratic set-up are too much.
_TOEPLITZ_REACH = 1 << 14


@told
def best(*, privacy: Loss, horizon: int | None) -> Counter[Any]:
    """The counter with the lowest predicted error.

    The mean squared error over t <= horizon; None: over the first 4,096 steps of an endless stream.

    Under ZCDP and ApproxDP pure counters compete too: their loss, epsilon = sqrt(2 rho) or epsilon
    itself, lies within the budget. SqrtToeplitz keeps 16 bytes for every step and row, so it
    competes up to 16,384 steps, and not on a stream without end.

    >>> from tailrace import ApproxDP, PureDP
    >>> best(privacy=PureDP(epsilon=1), horizon=30)
    Simple(privacy=PureDP(epsilon='1'), horizon=30)
    >>> type(best(privacy=ApproxDP(epsilon=0.5, delta=1e-6), horizon=4096)).__name__
    'SqrtToeplitz'
    """
    check_privacy(privacy)
    return _best(privacy, None if horizon is None else whole("horizon", horizon))


@functools.lru_cache(maxsize=256)
def _best(privacy: Loss, horizon: int | None) -> Counter[Any]:
    return min(candidates(privacy, horizon), key=mean_squared_error)


def check_counter(counter: object) -> None:
    """Refuse what is no counter."""
    parts = ("privacy", "horizon", "init", "step", "loss", "variance")
    if counter is not None and (
        isinstance(counter, type) or not all(hasattr(counter, part) for part in parts)
    ):
        raise ConfigError(
            "counter must be a counter without a budget, for example counters.Block(size=8), or "
            "None."
        )


@functools.lru_cache(maxsize=256)
def allot(
    counter: Any, *, privacy: Loss, horizon: int | None, events: tuple[int, int]
) -> Counter[Any]:
    """Give a counter the budget of one event.

    Its loss for (insertions, deletions) of one unit is then `privacy`. None: the best counter.

    The loss of a unit is (m + d) epsilon, or (m^2 + d^2) rho, of one event's; so the budget of one
    event is that part of the unit's. Under ApproxDP both are tried: the pure part of epsilon, and
    the zCDP part of the largest rho within.
    """
    budgets: list[Loss] = [per_event(privacy.pure_within(), events)]
    if not isinstance(privacy, PureDP):
        gaussian = per_event(privacy.zcdp_within(), events)
        budgets = [gaussian] if counter is not None else [*budgets, gaussian]
    if counter is not None:
        return replace(counter, privacy=budgets[0], horizon=horizon)
    return min(
        (best(privacy=budget, horizon=horizon) for budget in budgets), key=mean_squared_error
    )


@functools.lru_cache(maxsize=256)
def allot_parts(
    counter: Any,
    *,
    privacy: Loss,
    horizon: int | None,
    parts: tuple[tuple[Number, tuple[int, int]], ...],
) -> tuple[Counter[Any], ...]:
    """Give several counters their shares of the budget of a unit.

    A part is its share, and how far a unit raises and lowers the inputs of its counter. All are
    pure, or all zCDP, whichever has the lower error in the first part, so that losses add up.
    """
    kinds: list[Drawn] = [privacy.pure_within()]
    if not isinstance(privacy, PureDP):
        kinds = [privacy.zcdp_within()] if counter is not None else [*kinds, privacy.zcdp_within()]
    made = [
        tuple(
            allot(counter, privacy=part(kind, share), horizon=horizon, events=events)
            for share, events in parts
        )
        for kind in kinds
    ]
    return min(made, key=lambda several: mean_squared_error(several[0]))


def mean_squared_error(counter: Counter[Any], steps: int | None = None) -> float:
    """The predicted variance, averaged over t <= steps."""
    last = steps or counter.horizon or ENDLESS
    if last <= _POINTS:
        return float(counter.variance(np.arange(1, last + 1)).mean())
    # multiples of the golden ratio are in step with no tree
    spread = np.arange(_POINTS) * 0.6180339887498949 % 1.0
    return float(counter.variance(1 + (spread * last).astype(np.int64)).mean())


def candidates(privacy: Loss, horizon: int | None) -> Iterator[Counter[Any]]:
    """Every counter that `best` compares."""
    pure = privacy.pure_within()
    shapes = (
        list(_shapes(horizon))
        if horizon is not None
        else [UnboundedBlock(), UnboundedBlock(squares=True), Hybrid(), *_endless()]
    )
    for shape in [Simple(), *shapes]:
        yield replace(shape, privacy=pure, horizon=horizon)
        if not isinstance(privacy, PureDP) and not _subtracts(shape):
            yield replace(shape, privacy=privacy, horizon=horizon)
    if horizon is not None and horizon <= _TOEPLITZ_REACH and not isinstance(privacy, PureDP):
        yield SqrtToeplitz(privacy=privacy, horizon=horizon)


def _shapes(horizon: int) -> Iterator[Any]:
    yield BinaryTree()
    if horizon >= 4:
        yield Block()
    for levels in range(2, 7):
        for subtract in (False, True):
            root = ((2 if subtract else 1) * horizon) ** (1 / levels)
            for factor in (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4):
                arity = 2 * round((factor * root - 1) / 2) + 1 if subtract else round(factor * root)
                if arity >= 3 and arity ** (levels - 1) <= horizon:
                    yield KaryTree(arity=arity, levels=levels, subtract=subtract)


def _endless() -> Iterator[Any]:
    for first in (1, 32):
        yield Unbounded(counter=Block(), first=first)
        for levels in (2, 3, 4):
            yield Unbounded(counter=KaryTree(levels=levels), first=first)
            yield Unbounded(counter=KaryTree(levels=levels, subtract=False), first=first)


def _subtracts(shape: object) -> bool:
    return getattr(getattr(shape, "counter", shape), "subtract", False)
