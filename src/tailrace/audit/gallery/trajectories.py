"""Trajectories as published, where they lose more than claimed.

Plain functions for audits: no Stream accepts them. Findings: docs/explanation/corrections.md.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf, log
from typing import TypeVar

import numpy as np

from tailrace.noise import Draws

Sequences = Sequence[Sequence[int]]  # of cells, a trajectory each
T = TypeVar("T")


def transition_counts(trajectories: Sequences, cells: int) -> np.ndarray:
    """(cells, cells) weighted transitions: Algorithm 17, lines 3 to 7.

    Each of a trajectory's t transitions counts 1 / t.
    """
    counts = np.zeros((cells, cells))
    for trajectory in trajectories:
        for one, other in itertools.pairwise(trajectory):
            counts[one, other] += 1 / (len(trajectory) - 1)
    return counts


def published_transitions(
    trajectories: Sequences, *, edges: np.ndarray, epsilon: Fraction, noise: Draws, grid: int = 1000
) -> np.ndarray:
    """Kumar's dissertation, Algorithm 17, as printed: shares of transitions.

    Line 10 sets c^ to the noise and forgets the counts; line 12 sets it to max(c, 0) and forgets
    the noise: exact shares are released.
    """
    counts = transition_counts(trajectories, len(edges))
    noisy = noise.laplace(grid / epsilon, counts.shape) / grid * edges  # line 10
    noisy = np.maximum(counts, 0) * edges  # line 12
    return _shares(noisy, edges)


def published_lengths(trajectories: Sequences, *, edges: np.ndarray, first: int, last: int) -> int:
    """Algorithm 20, lines 4-7, as printed: cells on a path.

    With the w of Algorithm 21, line 8, the most probable path is that of the true shares, not of
    the noisy ones.
    """
    shares = _shares(transition_counts(trajectories, len(edges)), edges)
    best, queue = {first: 0.0}, [(0.0, 1, first)]
    while queue:
        cost, length, cell = heapq.heappop(queue)
        if cell == last:
            return length
        for other in np.flatnonzero(shares[cell] > 0):
            further = cost - log(shares[cell, other])
            if further < best.get(int(other), inf):
                best[int(other)] = further
                heapq.heappush(queue, (further, length + 1, int(other)))
    return 0


def noise_on_observed_edges(
    trajectories: Sequences, *, epsilon: Fraction, noise: Draws, grid: int = 1000
) -> dict[tuple[int, int], float]:
    """Algorithm 17 with noise on observed transitions only.

    The text says "for all e in E", and Algorithms 18 and 19 the same of pairs. A dictionary of
    observed keys tells which transitions occurred: an infinite loss.
    """
    counts = transition_counts(
        trajectories, 1 + max((cell for one in trajectories for cell in one), default=0)
    )
    keys = [(int(one), int(other)) for one, other in zip(*np.nonzero(counts), strict=True)]
    drawn = noise.laplace(grid / epsilon, len(keys)) / grid
    return {key: counts[key] + extra for key, extra in zip(keys, drawn, strict=True)}


def published_discretisation(draw: Callable[[Draws], T], noise: Draws) -> tuple[T, T]:
    """The two trees that Algorithm 21 draws, as printed.

    Lines 4 and 10 each draw one within epsilon_1. The claimed sum counts epsilon_1 once: with
    shares .3, .4, .3 the loss is 1.3 epsilon.
    """
    return draw(noise.at("line 4")), draw(noise.at("line 10"))


def _shares(counts: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Rows divided by their sums; even where these are 0."""
    sums = counts.sum(axis=1, keepdims=True)
    return np.where(
        sums > 0, counts / np.where(sums > 0, sums, 1), edges / edges.sum(axis=1, keepdims=True)
    )
