"""Share out synthetic people who neither come nor go."""

from __future__ import annotations

import numpy as np

from tailrace.models.postprocess import on_simplex, rounded


def created(
    noisy: np.ndarray, *, people: int | None, padding: int
) -> tuple[np.ndarray, np.ndarray]:
    """The first histogram of synthetic people, and the first estimates.

    The estimates are as measured, whatever their public sum is: `known`.
    """
    total = float(noisy.sum() if people is None else people + padding * len(noisy))
    return rounded(on_simplex(noisy.astype(float), total)), (noisy - padding).astype(float)


def known(estimates: np.ndarray, people: int | None) -> np.ndarray:
    """(releases, windows) the estimates, the first moved to a public sum."""
    if people is None or not len(estimates):
        return estimates
    moved = estimates.copy()
    moved[0] += (people - moved[0].sum()) / moved.shape[1]
    return moved


def together(before: np.ndarray, noisy: np.ndarray, size: int, *, raw_bins: bool) -> np.ndarray:
    """`size` times the counts of windows, by prefix and new answers."""
    # In each prefix.
    ending = before.reshape(size, -1).sum(axis=0)[:, None]
    if raw_bins:
        return ending + size * noisy - noisy.sum(axis=1, keepdims=True)
    one, other = np.triu_indices(size, 1)
    more = np.zeros((len(noisy), size), np.int64)
    for place, (i, j) in enumerate(zip(one, other, strict=True)):
        more[:, i] += noisy[:, place]
        more[:, j] -= noisy[:, place]
    return ending + more


def centred(noisy: np.ndarray, size: int) -> np.ndarray:
    """(prefixes, values) counts less their mean, from differences of pairs."""
    return together(np.zeros(size * len(noisy)), noisy, size, raw_bins=False) / size


def divided(wanted: np.ndarray, totals: np.ndarray, start: np.ndarray) -> np.ndarray:
    """How many people of each prefix take each value, nearest to what is wanted."""
    for row in np.flatnonzero((wanted < 0).any(axis=1)):
        wanted[row] = on_simplex(wanted[row], float(totals[row]))
    edges = np.floor(np.cumsum(wanted, axis=1) + start[:, None]).astype(np.int64)
    edges = np.clip(edges, 0, totals[:, None])
    edges[:, -1] = totals
    return np.diff(edges, axis=1, prepend=0)


def shared(shares: np.ndarray, start: np.ndarray) -> np.ndarray:
    """How many people of each prefix take each value, by `together`.

    The nearest shares, rounded up or down at random, evenly.
    """
    size = shares.shape[1]
    wanted, totals = shares / size, shares.sum(axis=1) // size
    for row in np.flatnonzero((shares < 0).any(axis=1)):
        wanted[row] = on_simplex(wanted[row], float(totals[row]))
    edges = np.cumsum(wanted, axis=1)
    whole = np.floor(edges + (np.floor(start * size) + 0.5)[:, None] / size).astype(np.int64)
    whole = np.clip(whole, 0, totals[:, None])
    whole[:, -1] = totals
    return np.diff(whole, axis=1, prepend=0)
