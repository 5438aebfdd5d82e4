"""Trajectories as published, where that loses more than it claims. Plain functions for audits: no
Stream accepts them.
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
    """(cells, cells) transitions, of which each of a trajectory's t counts 1 / t: lines 3 to 7 of
    Algorithm 17.
    """
    counts = np.zeros((cells, cells))
    for trajectory in trajectories:
        for one, other in itertools.pairwise(trajectory):
            counts[one, other] += 1 / (len(trajectory) - 1)
    return counts


def published_transitions(
    trajectories: Sequences, *, edges: np.ndarray, epsilon: Fraction, noise: Draws, grid: int = 1000
) -> np.ndarray:
    """Kumar's dissertation, Algorithm 17, as printed: the shares of the transitions from each cell
    (docs/explanation/corrections.md).

    Line 10 sets c^ to the noise and forgets the counts; line 12 sets it to max(c, 0) and forgets
    the noise: exact shares are released.
    """
    counts = transition_counts(trajectories, len(edges))
    noisy = noise.laplace(grid / epsilon, counts.shape) / grid * edges  # line 10
    noisy = np.maximum(counts, 0) * edges  # line 12
    return _shares(noisy, edges)


def published_lengths(trajectories: Sequences, *, edges: np.ndarray, first: int, last: int) -> int:
    """Algorithm 20, lines 4 to 7, with the w of Algorithm 21, line 8, as printed: the number of
    cells on the most probable path by the true shares, not by the noisy ones
    (docs/explanation/corrections.md)."""
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
    """Algorithm 17 with the noise that its text means, kept in a dictionary of what was counted:
    the keys tell what was.

    The text says "for all e in E", and Algorithm 18 and 19 the same of pairs; code that walks over
    observed keys is an infinite leak.
    """
    counts = transition_counts(
        trajectories, 1 + max((cell for one in trajectories for cell in one), default=0)
    )
    keys = [(int(one), int(other)) for one, other in zip(*np.nonzero(counts), strict=True)]
    drawn = noise.laplace(grid / epsilon, len(keys)) / grid
    return {key: counts[key] + extra for key, extra in zip(keys, drawn, strict=True)}


def published_discretisation(draw: Callable[[Draws], T], noise: Draws) -> tuple[T, T]:
    """The trees that Algorithm 21, as printed, draws: one on line 4, and another on line 10, each
    within epsilon_1.

    The sum that is claimed counts epsilon_1 once: with shares .3, .4, .3 the loss is 1.3 epsilon.
    """
    return draw(noise.at("line 4")), draw(noise.at("line 10"))


def _shares(counts: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Each row divided by its sum; evenly where that is 0."""
    sums = counts.sum(axis=1, keepdims=True)
    return np.where(
        sums > 0, counts / np.where(sums > 0, sums, 1), edges / edges.sum(axis=1, keepdims=True)
    )
