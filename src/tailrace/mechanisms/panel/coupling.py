"""Give synthetic people the values of a further column.

Each person has a group (its past in the new column) and a mate (its present values in the columns
before). Wanted are, as far as they agree, the new column's counts in each group and its counts
beside each mate; iterative fitting finds the table of least information that has both, and whole
people take the places of the table. All numbers are public.
"""

from __future__ import annotations

import numpy as np

# Rounds of fitting: by trial, more change no count of a generated panel by one.
_ROUNDS = 20


def coupled(
    groups: np.ndarray,
    mates: np.ndarray,
    wanted: np.ndarray,
    beside: np.ndarray,
    last: np.ndarray,
    *,
    seed: int,
    step: int,
) -> np.ndarray:
    """(people,) the choice of each.

    groups, mates: (people,) of each person.
    wanted: (groups, choices) how many of a group take a choice; scaled to its people.
    beside: (mates, values) how many people have a mate and a value now.
    last: (choices,) the value now of each choice; -1: absent, beside no mate.
    """
    from tailrace.mechanisms.panel import people_kernel as kernel

    many = np.zeros((len(wanted), len(beside)), np.int64)
    np.add.at(many, (groups, mates), 1)
    some = np.maximum(wanted, 0.0)
    allowed = np.isfinite(wanted)
    some = np.where(allowed, np.where(some.sum(axis=1, keepdims=True) > 0, some, 1.0), 0.0)
    some *= (many.sum(axis=1) / np.maximum(some.sum(axis=1), 1e-300))[:, None]
    table = some[:, None, :] * (many / np.maximum(many.sum(axis=1, keepdims=True), 1))[:, :, None]
    here = last >= 0
    onto = np.zeros((len(last), beside.shape[1]))
    onto[here, last[here]] = 1.0
    pairs = np.maximum(beside, 0.0)
    for _ in range(_ROUNDS):
        table *= _ratio(some, table.sum(axis=1))[:, None, :]
        now = np.einsum("gmc,cv->mv", table, onto)
        # As many beside each mate as there are.
        goal = pairs * _ratio(now.sum(axis=1), pairs.sum(axis=1))[:, None]
        goal = np.where(goal.sum(axis=1, keepdims=True) > 0, goal, now)
        table[:, :, here] *= (_ratio(goal, now) @ onto.T)[:, here]
        table *= _ratio(many, table.sum(axis=2))[:, :, None]
    flat, totals = table.reshape(-1, len(last)), many.reshape(-1)
    empty = (flat.sum(axis=1) == 0) & (totals > 0)
    flat[empty] = np.repeat(allowed, many.shape[1], axis=0)[empty]
    flat *= (totals / np.maximum(flat.sum(axis=1), 1e-300))[:, None]
    start = kernel.spread(seed, -step, len(flat)) * 2.0**-32
    edges = np.floor(np.cumsum(flat, axis=1) + start[:, None]).astype(np.int64)
    edges = np.minimum(edges, totals[:, None])
    edges[:, -1] = totals
    # The last choice may not be allowed: its place goes to the last that is.
    final = np.array([np.flatnonzero(row)[-1] for row in allowed])
    final = np.repeat(final, many.shape[1])
    edges = np.where(np.arange(len(last)) >= final[:, None], totals[:, None], edges)
    left, out = np.diff(edges, axis=1, prepend=0), np.zeros(len(groups), np.int32)
    place = (groups * many.shape[1] + mates).astype(np.int32)
    kernel.extend(place, left, seed, step, 1, len(flat), out)
    return out


def _ratio(wanted: np.ndarray, now: np.ndarray) -> np.ndarray:
    return np.divide(wanted, now, out=np.zeros_like(now, dtype=float), where=now > 0)
