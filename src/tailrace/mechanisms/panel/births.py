"""Synthetic people who are born, pause and leave.

They follow the estimates (`presence.py`) release by release, by public numbers alone:

- A row is born from the outside prefix, with a new id. It is null while its person is absent, and
  ends once its last k-1 symbols are all absent: who comes back later is born again.
- The target of every prefix is its estimate, not the people before plus a change, so that errors of
  rounding and clipping are fed back. Births make up for the running sum of the estimated ones.
- Rare cells are mostly noise, and noise cannot be negative twice: without a threshold, people who
  do not exist leave and are born. A pattern of absence in the first release below 2 standard
  deviations, an exit below 1.5, and births whose running sum is below 1.5 of its own count as none
  for now; what was held back stays in the targets of later releases.
"""

from __future__ import annotations

import numpy as np

from tailrace.mechanisms.panel.presence import Presence
from tailrace.models.postprocess import on_simplex, rounded

# Standard deviations. A prototype chose them on generated panels: without thresholds the bias of
# "at least once in three steps" is 1.4 to 2 standard errors. Kept after a look at generated panels
# of seeds 0 to 2; `benchmarks/panel_joiners.py`, has others.
RARE_PATTERN, RARE_EXIT, RARE_BIRTHS = 2.0, 1.5, 1.5


def created(noisy: np.ndarray, presence: Presence) -> np.ndarray:
    """(windows,) the first people, by noisy counts."""
    kept = (presence.patterns == 0) | (noisy >= RARE_PATTERN * presence.first**0.5)
    kept[-1] = False
    people = np.zeros(len(noisy), np.int64)
    people[kept] = rounded(on_simplex(noisy[kept].astype(float), float(noisy[kept].sum())))
    return people


def extended(
    people: np.ndarray, estimates: np.ndarray, presence: Presence, start: np.ndarray
) -> np.ndarray:
    """(windows,) the people of the next release.

    people: (releases, windows) those so far.
    estimates: (releases, windows) up to the next release.
    start: (prefixes,) public numbers in [0, 1) that round the shares.
    """
    size, release = presence.symbols, len(people)
    spread = presence.later[release - 1]
    rows = np.zeros((size ** (presence.window - 1), size), np.int64)
    ending = people[-1].reshape(size, -1).sum(axis=0)[:-1]
    rare = RARE_EXIT * (spread.differences / size) ** 0.5
    rows[:-1] = _shared(estimates[-1].reshape(-1, size)[:-1, :-1], ending, rare, start[:-1])
    births, so_far = (part[1:, -size:-1].sum(axis=0) for part in (estimates, people))
    noise = sum((size - 1) * one.births for one in presence.later[:release]) ** 0.5
    if births.sum() >= RARE_BIRTHS * noise:
        wanted = births - so_far
        rows[-1, :-1] = rounded(on_simplex(wanted, float(wanted.sum())))
    return rows.ravel()


def _shared(target: np.ndarray, totals: np.ndarray, rare: float, start: np.ndarray) -> np.ndarray:
    """Give each prefix's people the values of their target.

    Whoever is left leaves. Where these are too few to believe in, or less than none, everybody
    stays, and the difference goes to values by their shares among all, which stay as they are.
    """
    left = totals - target.sum(axis=1)
    among = np.maximum(target.sum(axis=0), 0.0)
    among = among / among.sum() if among.sum() else np.full(len(among), 1 / len(among))
    shares = target + np.where(left >= rare, 0.0, left)[:, None] * among
    for row in np.flatnonzero((shares < 0).any(axis=1)):
        shares[row] = on_simplex(shares[row], float(np.clip(shares[row].sum(), 0, totals[row])))
    # Rounded up or down at random, evenly.
    edges = np.floor(np.cumsum(shares, axis=1) + start[:, None]).astype(np.int64)
    edges = np.minimum(edges, totals[:, None])
    edges[left < rare, -1] = totals[left < rare]
    return np.diff(edges, axis=1, prepend=0, append=totals[:, None])
