"""The loss of a counter when events move in time.

Privacy: rho per move, where an input of 1 at step s becomes one at step s', appears or disappears.
1. That is what replacing a person does to a counter of "who has reached b by now".
2. The measured atoms shift by the difference of two columns of the counter's encoding; an event
   that never happens is a column of zeros, or a counter of horizon 1 would have nothing to hide.
3. `squared_move` is the largest squared length over all pairs: more than one event's, less than
   two's. At a horizon of 12 it is 7 instead of 4 for the binary tree, 2.58 instead of 1.86 for the
   square root.
4. Gaussian noise of variance v loses (squared move) / (2 v).
Source: ours; the Gaussian mechanism under zCDP is Bun and Steinke 2016.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.counters.base import bounded
from tailrace.counters.ladder import BinaryTree
from tailrace.counters.matrix import SqrtEven, SqrtToeplitz, matrices
from tailrace.errors import ConfigError
from tailrace.privacy.loss import ZCDP


def loss_of_a_move(counter: Any) -> ZCDP:
    """The proved loss when an event moves, comes or goes."""
    return ZCDP(rho=squared_move(counter) / (2 * counter.atoms.scale))


def allot_move(counter: Any, *, rho: Fraction, horizon: int) -> Any:
    """The counter at which such an event loses `rho`."""
    made = replace(counter, privacy=ZCDP(rho=rho), horizon=horizon)
    # the lattice of a Toeplitz counter may grow coarser with the noise, once or twice at most
    while True:
        weight = Fraction(made.atoms.weight, squared_move(made))
        again = replace(counter, privacy=ZCDP(rho=rho * weight), horizon=horizon)
        if Fraction(again.atoms.weight, squared_move(again)) == weight:
            return again
        made = again


def squared_move(counter: Any) -> int:
    """The largest squared shift of atoms by such an event."""
    horizon = bounded(counter.horizon, type(counter).__name__)
    if isinstance(counter, SqrtToeplitz):
        return _toeplitz(horizon, counter.unit_bits)
    if isinstance(counter, SqrtEven):
        encode = matrices(SqrtEven, horizon, counter.unit_bits)[0]
        return _between(np.hstack([encode, np.zeros((horizon, 1), np.int64)]))
    if isinstance(counter, BinaryTree):
        return _tree(horizon)
    raise ConfigError(
        "Only SqrtToeplitz, SqrtEven and BinaryTree are proved for events that move in time."
    )


@functools.lru_cache(maxsize=1024)
def _tree(horizon: int) -> int:
    """The squared move of the binary tree.

    An atom ends at each t and holds the last lowbit(t) steps up to it: its ones.
    """
    ends = np.arange(1, horizon + 1)
    holds = (ends[:, None] - (ends & -ends)[:, None] < ends) & (ends <= ends[:, None])
    return _between(np.hstack([holds, np.zeros((horizon, 1), bool)]).astype(np.int64))


def _between(columns: np.ndarray) -> int:
    """The largest squared distance of two columns.

    The last column is that of an event that never happens.
    """
    together = columns.T @ columns
    squares = np.diag(together)
    return int((squares[:, None] + squares - 2 * together).max())


@functools.lru_cache(maxsize=1024)
def _toeplitz(horizon: int, unit_bits: int) -> int:
    """The squared move of the Toeplitz matrix.

    Column s is the first horizon - s entries of c, from row s on.
    """
    column = matrices(SqrtToeplitz, horizon, unit_bits)[0]
    squares = np.cumsum(column**2)[::-1]  # of column s
    worst = int(squares[0])
    for lag in range(1, horizon):
        shared = np.cumsum(column[lag:] * column[: horizon - lag])[::-1]  # of columns s and s + lag
        worst = max(worst, int((squares[: horizon - lag] + squares[lag:] - 2 * shared).max()))
    return worst
