"""A Kalman filter of every workload's counts, over epochs.

Post-processing of released numbers, at no privacy cost.

1. State of a cell: its share of an epoch's records, its count so far, its gain in the open epoch.
2. Prediction: a stretch of n records adds n times the share; the share drifts from stretch to
   stretch. Counts of several columns are raked to those of each column (`raking.py`).
3. Update: a noisy count corrects all three, of columns at every stretch, of several columns when
   the epoch ends. With little drift it also corrects the imputed counts of earlier epochs; with
   much drift noisy counts are simply added up.
4. Drift is estimated from the workload's own corrections and from those of its columns.
5. All cells of a workload share one error covariance: three numbers, and three of the gain.
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
# A workload is taken up where its distance from the model's is this part of the records (1-norm);
# chosen by reasoning: a variation of .02, of the size of errors.
_SHOWN = 0.04
# Variance of a squared Laplace variable, in squared variances (2 for a Gaussian one).
_SPREAD = 5.0
# Deviations beyond which corrections show drift.
_CLEAR = 2.0


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
    track: Track,
    raking: Raking,
    stretch: Epoch,
    columns: Mapping[int, Noisy],
    model: np.ndarray,
    misfit: float = 0.0,
) -> Track:
    """Advance the filter by a stretch whose columns were measured.

    `model` holds the model's shares of all workloads, the prior of those never measured, and
    `misfit` its squared error for one of these, summed over cells.
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
        unsure = (draws == 0) * misfit / marginals.sizes
        error += np.outer(unsure, [1.0, stretch.before, stretch.before**2])
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
    own, loose = own + moves[several], _loose(raking, grown, count[:split])
    part = n * loose
    chance = events / marginals.sizes[several] + moves[several] * (events**2 - n**2) * loose**2
    more = part**2 * own + chance
    opened[several] = np.stack(
        [
            spread + 2 * part * with_share + more,
            with_share + part * own,
            with_count + part * both + part * with_share + more,
        ],
        axis=1,
    )
    error[several] = np.stack([own, both + part * own, held + 2 * part * both + more], axis=1)
    gain = gain + np.concatenate([grown, added[split:]])
    return Track(share, count, error, drift, draws, gain, opened)


def _loose(raking: Raking, grown: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(workloads of several columns,) the part of a share's error that raking leaves.

    Columns that hardly vary in a stretch determine its counts. The variety of a column is the
    probability that two records differ; its loss, against the whole table, is what is gained.
    """
    few, all_records = raking.variety(grown), raking.variety(columns)
    left = np.minimum(np.divide(few, all_records, out=np.ones_like(few), where=all_records > 0), 1)
    return raking.least(left)


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


def traced(track: Track, raking: Raking, model: np.ndarray, total: float) -> Track:
    """Take up workloads that columns have shown, stretch by stretch, to be unlike the model.

    They were never measured. But where columns drift, sums of stretches are far from independent,
    even if every stretch is not.
    """
    said = raking.raked(total * model, track.count[: raking.split], total)
    apart = raking.sums(np.abs(track.count - said))
    noise = raking.marginals.sizes * np.sqrt(2 / math.pi * np.maximum(track.error[:, 2], 0.0))
    shown = (track.draws == 0) & (apart > np.maximum(_SHOWN * total, noise))
    return replace(track, draws=track.draws + shown)


def settled(track: Track, raking: Raking) -> Track:
    """The track at an epoch's close, without what only the open epoch needs."""
    known = track.draws > 0
    here = known[raking.owner]
    return replace(
        track,
        share=np.where(here, track.share, 0.0),
        count=np.where(here, track.count, 0.0),
        error=np.where(known[:, None], track.error, 0.0),
        gain=np.zeros(0),
        open=np.zeros((0, 3)),
    )


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


def drifting(track: Track, raking: Raking, noise: np.ndarray) -> float:
    """By how much a column's shares drift from stretch to stretch.

    In the 1-norm, the mean over columns. `noise` is the variance of each column's counts: what
    noise and sampling could have made of the corrections does not count as drift.
    """
    beyond, squares = track.drift[: raking.singles].T
    squares, cells = np.maximum(squares, 1.0), raking.marginals.sizes[: raking.singles]
    chance = np.sqrt(_SPREAD / cells) * (noise + np.sqrt(squares) / cells)
    variance = np.maximum(beyond - _CLEAR * chance, 0.0) / squares
    return float((cells * np.sqrt(2 / math.pi * variance)).mean())


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
