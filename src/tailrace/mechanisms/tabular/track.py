"""Counts of every workload so far, from noisy counts of some epochs: what was not measured is
imputed, and anew as more is known.

For each cell two numbers are followed: the share of an epoch's records that fall into it, and how
many records it holds. An epoch of n records adds n times the share, which itself drifts from epoch
to epoch. A noisy count of an epoch corrects both, by what is known of their errors (a Kalman
filter): where shares hardly drift, it also corrects what was imputed for epochs before, and epochs
are weighed by their size; where they drift much, noisy counts are simply added up. How much a
workload's shares drift is read off its own corrections, and off those of its columns; and what
several columns gain together is expected to agree with what each of them gains. Errors are taken to
be alike in all cells of a workload, so that they are three numbers for each. All of this is made of
released numbers, at no cost in privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tailrace.counting.marginals import Marginals

_RAKES = 2  # rounds of scaling to single columns
_KNOWN = 0.2  # of what columns move: what is left of it in workloads that are scaled to them
_SPREAD = (
    5.0  # the variance of a squared Laplace variable, in squared variances; 2 for a Gaussian one
)


@dataclass(frozen=True)
class Track:
    """Where every workload stands."""

    share: np.ndarray  # (cells,) of an epoch's records
    count: np.ndarray  # (cells,) of records so far
    error: (
        np.ndarray
    )  # (workloads, 3) of a cell: variance of the share, covariance of both, variance of the count
    # (workloads, 2) what corrections showed beyond noise, and the squared events in which they did
    drift: np.ndarray
    draws: np.ndarray  # (workloads,) how often it was measured


@dataclass(frozen=True)
class Noisy:
    """Noisy net counts of one workload in one epoch."""

    counts: np.ndarray  # of the workload's shape
    variance: float  # of each


@dataclass(frozen=True)
class Epoch:
    """What the clock says about the epoch that ends."""

    records: float  # insertions less deletions
    events: float  # insertions and deletions
    before: float  # records when it began


def untracked(marginals: Marginals) -> Track:
    """Before anything was measured."""
    cells, many = np.zeros(marginals.size), len(marginals.cliques)
    return Track(cells, cells, np.zeros((many, 3)), np.zeros((many, 2)), np.zeros(many, np.int64))


def tracked(
    track: Track,
    marginals: Marginals,
    epoch: Epoch,
    measured: Mapping[int, Noisy],
    model: np.ndarray,
) -> Track:
    """After an epoch in which some workloads were measured.

    `model` holds the shares of all workloads by the model so far: what is known of a workload
    before it is first measured.
    """
    share, count = track.share.copy(), track.count.copy()
    error, drift, draws = track.error.copy(), track.drift.copy(), track.draws.copy()
    for j, noisy in measured.items():
        if not draws[j]:
            marginals.part(share, j)[...] = marginals.part(model, j)
            marginals.part(count, j)[...] = epoch.before * marginals.part(model, j)
            error[j] = _first(
                epoch, noisy.counts - epoch.records * marginals.part(model, j), noisy.variance
            )
        draws[j] += 1
    n, events = epoch.records, max(epoch.events, abs(epoch.records), 1.0)
    moves, grown = _moving(track, marginals), {}
    for j in np.flatnonzero(draws).tolist():
        shares, counts = marginals.part(share, j), marginals.part(count, j)
        cells, moving = shares.size, float(moves[j])
        own, both, held = error[j]
        own, chance = own + moving, events / cells + moving * (events**2 - n**2)
        added = _raked(
            n * shares, [grown[column] for column in marginals.cliques[j] if column in grown]
        )
        both, held = both + n * own, held + 2 * n * both + n**2 * own + chance
        if j in measured:
            beyond = measured[j].counts - added
            expected = n**2 * own + chance + measured[j].variance
            to_share, to_count = n * own / expected, (n * both + chance) / expected
            if draws[j] > 1:
                drift[j] += (float((beyond**2).mean()) - expected + moving * events**2, events**2)
            shares += to_share * beyond
            added = added + to_count * beyond
            own, both, held = (
                own - to_share**2 * expected,
                both - to_share * to_count * expected,
                held - to_count**2 * expected,
            )
        counts += added
        if len(marginals.cliques[j]) == 1:
            grown[marginals.cliques[j][0]] = added
        error[j] = own, both, held
    return Track(share, count, error, drift, draws)


def _raked(added: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
    """What several columns are expected to gain together, scaled to what each gains by itself, axis
    after axis.

    Where records go, all in all, there is nothing to scale: counts would have to change their sign.
    """
    if added.ndim == 1 or len(columns) < added.ndim or added.sum() <= 0:
        return added
    found = np.maximum(added, 0.0)
    for _ in range(_RAKES):
        for axis, column in enumerate(columns):
            others = tuple(other for other in range(found.ndim) if other != axis)
            sums = found.sum(axis=others, keepdims=True)
            found = found * np.divide(
                np.maximum(column, 0.0).reshape(sums.shape),
                sums,
                out=np.zeros_like(sums),
                where=sums > 0,
            )
    return found


def unseen(
    track: Track, marginals: Marginals, records: float, events: float
) -> tuple[np.ndarray, np.ndarray]:
    """What the errors of counts are when so much has happened since the last epoch, none of it
    measured.

    (workloads,) the variance of any cell, infinite where nothing was ever measured; and
    (workloads,) what is added to it for a cell that holds all records, and for others in
    proportion: chance, and shares that move.
    """
    own, both, held = track.error.T
    moved = (
        2 * records * both
        + records**2 * own
        + _moving(track, marginals) * max(events**2, records**2)
    )
    moved = np.maximum(moved, 0.0)
    return np.where(track.draws > 0, held + moved, np.inf), marginals.sizes * moved + max(
        events, 0.0
    )


def _moving(track: Track, marginals: Marginals) -> np.ndarray:
    """(workloads,) the variance that a cell's share gains from one epoch to the next.

    Where several columns were seldom measured together, they move at least as they do one by one: a
    cell's share then moves with its column's, in proportion to the shares of the other columns'
    values.
    """
    found = np.maximum(track.drift[:, 0], 0.0) / np.maximum(track.drift[:, 1], 1.0)
    whole: dict[int, float] = {}  # by column: what all of its shares move, squared
    alike: dict[int, float] = {}  # and the chance that two records have the same value
    for j, (column, *others) in enumerate(marginals.cliques):
        if not others and track.draws[j]:
            shares = np.maximum(marginals.part(track.share, j), 0.0)
            whole[column] = found[j] * len(shares)
            alike[column] = float((shares**2).sum() / max(shares.sum(), 1e-9) ** 2)
    for j, clique in enumerate(marginals.cliques):
        if len(clique) > 1 and all(column in whole for column in clique):
            each = (
                whole[column] * math.prod(alike[other] for other in clique if other != column)
                for column in clique
            )
            found[j] = max(found[j], _KNOWN * sum(each) / marginals.sizes[j])
    return found


def _first(epoch: Epoch, beyond: np.ndarray, noise: float) -> tuple[float, float, float]:
    """The errors of a model by its first measurement, the same for all epochs before: rather too
    large, for they never grow again.
    """
    n, cells = epoch.records, beyond.size
    chance = noise + max(epoch.events, 0.0) / cells
    shown = (float((beyond**2).mean()) - chance + math.sqrt(_SPREAD / cells) * chance) / max(
        n**2, 1.0
    )
    own = min(max(shown, 1e-2 / cells**2), 2.0 / cells)  # no two distributions are farther apart
    return own, epoch.before * own, epoch.before**2 * own
