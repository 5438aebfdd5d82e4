"""A Kalman filter of every workload's counts, over epochs.

Post-processing of released numbers, at no privacy cost.

1. State of a cell: its share of an epoch's records, and its count so far.
2. Prediction: an epoch of n records adds n times the share; the share drifts from epoch to epoch.
   Counts of several columns are raked to the counts of each column.
3. Update: a noisy count of an epoch corrects both. With little drift it also corrects the imputed
   counts of earlier epochs; with much drift noisy counts are simply added up.
4. Drift is estimated from the workload's own corrections and from those of its columns.
5. All cells of a workload share one error covariance: three numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tailrace.counting.marginals import Marginals

# Rounds of raking to single columns; chosen by trial while building, no committed result.
_RAKES = 2
# Part of the columns' drift left in workloads raked to them; chosen by trial while building, no
# committed result.
_KNOWN = 0.2
# Variance of a squared Laplace variable, in squared variances (2 for a Gaussian one).
_SPREAD = 5.0


@dataclass(frozen=True)
class Track:
    """The filter's state for every workload.

    share: of an epoch's records, per cell.
    count: of records so far, per cell.
    error: per workload, for any cell: variance of the share, covariance, variance of the count.
    drift: per workload: corrections beyond noise, and the squared events they were seen in.
    draws: how often each workload was measured.
    """

    share: np.ndarray  # (cells,)
    count: np.ndarray  # (cells,)
    error: np.ndarray  # (workloads, 3)
    drift: np.ndarray  # (workloads, 2)
    draws: np.ndarray  # (workloads,)


@dataclass(frozen=True)
class Noisy:
    """Noisy net counts of one workload in one epoch."""

    counts: np.ndarray  # of the workload's shape
    variance: float  # of each


@dataclass(frozen=True)
class Epoch:
    """Estimated totals of the epoch that ends."""

    records: float  # insertions less deletions
    events: float  # insertions and deletions
    before: float  # records at its beginning


def untracked(marginals: Marginals) -> Track:
    """The state before any measurement."""
    cells, many = np.zeros(marginals.size), len(marginals.cliques)
    return Track(cells, cells, np.zeros((many, 3)), np.zeros((many, 2)), np.zeros(many, np.int64))


def tracked(
    track: Track,
    marginals: Marginals,
    epoch: Epoch,
    measured: Mapping[int, Noisy],
    model: np.ndarray,
) -> Track:
    """Advance the filter by an epoch with some noisy workloads.

    `model` holds the model's shares of all workloads: the prior of one that is measured for the
    first time.
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
    """Rake expected gains to the gains of single columns.

    A net loss of records is left alone: raking it would change signs.
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
    """Variances after unmeasured records and events of an open epoch.

    Returns two arrays (workloads,): the variance of any cell, infinite where nothing was ever
    measured; and the further variance of a cell that holds all records, which other cells have in
    proportion to their counts (sampling, and drift of the shares).
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
    """(workloads,) drift variance of a cell's share per epoch.

    Columns that were seldom measured together drift at least as much as they do one by one: a
    cell's share drifts with its column's, in proportion to the shares of the other columns' values.
    """
    found = np.maximum(track.drift[:, 0], 0.0) / np.maximum(track.drift[:, 1], 1.0)
    # by column: the summed drift variance of its shares
    whole: dict[int, float] = {}
    # by column: the probability that two records have the same value
    alike: dict[int, float] = {}
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
    """Initial error covariance, from a workload's first measurement.

    The model's error is taken to be the same in all earlier epochs, and rather too large: it never
    grows again.
    """
    n, cells = epoch.records, beyond.size
    chance = noise + max(epoch.events, 0.0) / cells
    shown = (float((beyond**2).mean()) - chance + math.sqrt(_SPREAD / cells) * chance) / max(
        n**2, 1.0
    )
    # no two distributions have a larger mean squared distance than 2 / cells
    own = min(max(shown, 1e-2 / cells**2), 2.0 / cells)
    return own, epoch.before * own, epoch.before**2 * own
