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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tailrace.counting.marginals import Marginals
from tailrace.mechanisms.tabular.raking import Raking

# Shares are raked to a stretch's columns where its events are at most this many times its net gain.
_GROWING = 1.5
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
    gain: expected net counts of the open epoch's stretches, per cell; none: it has no stretch yet.
    open: per workload, for any cell: the gain's variance, and its covariances with share and count.
    """

    share: np.ndarray  # (cells,)
    count: np.ndarray  # (cells,)
    error: np.ndarray  # (workloads, 3)
    drift: np.ndarray  # (workloads, 2)
    draws: np.ndarray  # (workloads,)
    gain: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (cells,)
    open: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))  # (workloads, 3)


@dataclass(frozen=True)
class Noisy:
    """Noisy net counts of one workload in one epoch."""

    counts: np.ndarray  # of the workload's shape
    variance: float  # of each


@dataclass(frozen=True)
class Epoch:
    """Estimated totals of an epoch, or of a stretch of it."""

    records: float  # insertions less deletions
    events: float  # insertions and deletions
    before: float  # records at its beginning


def untracked(marginals: Marginals) -> Track:
    """The state before any measurement."""
    cells, many = np.zeros(marginals.size), len(marginals.cliques)
    return Track(cells, cells, np.zeros((many, 3)), np.zeros((many, 2)), np.zeros(many, np.int64))


def advanced(
    track: Track, raking: Raking, stretch: Epoch, columns: Mapping[int, Noisy], model: np.ndarray
) -> Track:
    """Advance the filter by a stretch whose columns were measured.

    `model` holds the model's shares of all workloads: the prior of those never measured.
    """
    marginals, split = raking.marginals, raking.split
    share, count = track.share.copy(), track.count.copy()
    error, drift, draws = track.error.copy(), track.drift.copy(), track.draws.copy()
    begun = len(track.gain) > 0
    gain = track.gain.copy() if begun else np.zeros(marginals.size)
    opened = track.open.copy() if begun else np.zeros((len(draws), 3))
    never = draws[raking.owner] == 0
    share[never] = model[never]
    if not begun:
        count[never] = stretch.before * model[never]
    earlier = count.copy()
    moves = _moving(track, marginals)
    n, events = stretch.records, max(stretch.events, abs(stretch.records), 1.0)
    grown = np.zeros(split)
    for j, noisy in columns.items():
        shares, cells = marginals.part(share, j), noisy.counts.size
        if not draws[j]:
            error[j] = _first(stretch, noisy.counts - n * shares, noisy.variance)
        own, both, held = error[j]
        own, chance = own + moves[j], events / cells + moves[j] * (events**2 - n**2)
        both, held = both + n * own, held + 2 * n * both + n**2 * own + chance
        beyond, expected = noisy.counts - n * shares, n**2 * own + chance + noisy.variance
        to_share, to_count = n * own / expected, (n * both + chance) / expected
        if draws[j]:
            drift[j] += (
                float((beyond**2).mean()) - expected + moves[j] * events**2,
                events**2,
            )
        marginals.part(grown, j)[...] = n * shares + to_count * beyond
        shares += to_share * beyond
        error[j] = (
            own - to_share**2 * expected,
            both - to_share * to_count * expected,
            held - to_count**2 * expected,
        )
        draws[j] += 1
    count[:split] += grown
    added = _added(raking, stretch, share, earlier, count[:split], grown)
    count[split:] += added[split:]
    several = slice(raking.singles, None)
    own, both, held = error[several].T
    spread, with_share, with_count = opened[several].T
    own = own + moves[several]
    chance = events / marginals.sizes[several] + moves[several] * (events**2 - n**2)
    more = n**2 * own + chance
    opened[several] = np.stack(
        [
            spread + 2 * n * with_share + more,
            with_share + n * own,
            with_count + n * both + n * with_share + more,
        ],
        axis=1,
    )
    error[several] = np.stack([own, both + n * own, held + 2 * n * both + more], axis=1)
    gain = gain + np.concatenate([grown, added[split:]])
    return Track(share, count, error, drift, draws, gain, opened)


def _added(
    raking: Raking,
    stretch: Epoch,
    share: np.ndarray,
    earlier: np.ndarray,
    columns: np.ndarray,
    grown: np.ndarray,
) -> np.ndarray:
    """(cells,) expected net counts of a stretch, that agree with its columns'.

    Where few records left, shares are raked to the stretch's columns. Else its net counts are
    differences: of the table raked to its columns after the stretch, and to those before.
    """
    n = stretch.records
    if n > 0 and stretch.events <= _GROWING * n:
        return raking.raked(n * share, grown, n)
    after = raking.raked(earlier, columns, max(stretch.before + n, 0.0))
    return after - raking.raked(earlier, columns - grown, max(stretch.before, 0.0))


def corrected(
    track: Track, marginals: Marginals, epoch: Epoch, measured: Mapping[int, Noisy]
) -> Track:
    """Correct workloads of several columns by their epoch's noisy counts."""
    share, count = track.share.copy(), track.count.copy()
    error, drift, draws = track.error.copy(), track.drift.copy(), track.draws.copy()
    moves = _moving(track, marginals)
    n, events = epoch.records, max(epoch.events, abs(epoch.records), 1.0)
    for j, noisy in measured.items():
        beyond = noisy.counts - marginals.part(track.gain, j)
        (own, both, held), (spread, with_share, with_count) = error[j], track.open[j]
        if not draws[j]:
            own, both, held = _first(epoch, beyond, noisy.variance)
            more = n**2 * own + events / beyond.size
            spread, with_share, with_count = more, n * own, n * both + more
            both, held = both + n * own, held + 2 * n * both + more
        expected = spread + noisy.variance
        if draws[j]:
            drift[j] += (
                float((beyond**2).mean()) - expected + moves[j] * events**2,
                events**2,
            )
        to_share, to_count = with_share / expected, with_count / expected
        marginals.part(share, j)[...] += to_share * beyond
        marginals.part(count, j)[...] += to_count * beyond
        error[j] = (
            own - to_share**2 * expected,
            both - to_share * to_count * expected,
            held - to_count**2 * expected,
        )
        draws[j] += 1
    return replace(track, share=share, count=count, error=error, drift=drift, draws=draws)


def settled(track: Track, raking: Raking) -> Track:
    """The track at an epoch's close, without what only the open epoch needs."""
    known = track.draws[raking.owner] > 0
    share, count = np.where(known, track.share, 0.0), np.where(known, track.count, 0.0)
    return replace(track, share=share, count=count, gain=np.zeros(0), open=np.zeros((0, 3)))


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
