"""Baseline 1 of PrivStream, for comparison only: it is not private over time."""

from collections.abc import Iterator, Sequence

import numpy as np

from tailrace import Box, Event, Noise, PureDP, papers
from tailrace.counting.plan import Counts
from tailrace.experiments import spatial_data
from tailrace.papers.privtree.stream import PrivTreeStream


def rerun(
    stream: spatial_data.Steps, box: Box, *, epsilon: float, steps: Sequence[int], seed: int
) -> Iterator[tuple[int, np.ndarray]]:
    """PrivTree and a count at its leaves on all data, anew at every step.

    Each time with the whole of epsilon, half for the tree: one step of `papers.privstream` with its
    corrected constants. Yields the step and points spread evenly in the leaves.
    """
    offline = papers.privstream(
        domain=box, privacy=PureDP(epsilon=epsilon), unit=Event(), horizon=1
    )
    noise, rng = Noise.insecure(seed), np.random.default_rng(seed)
    for step in steps:
        counts = tally(offline, spatial_data.present(stream, step))
        state = offline.measure(offline.init(), Counts(counts, 0 * counts), noise.at(step)).state
        view = offline.view(state.public)
        assert view is not None
        many = np.maximum(np.ceil(view.leaves.count), 0).astype(np.int64)
        low, high = (np.repeat(side, many, axis=0) for side in (view.leaves.low, view.leaves.high))
        yield step, low + rng.random(low.shape) * (high - low)


def tally(offline: PrivTreeStream, points: np.ndarray) -> np.ndarray:
    """How many points lie at each place."""
    box = offline.domain
    low, high = np.array(box.low), np.array(box.high)
    inside = ((points >= low) & (points <= high)).all(axis=1)
    axes = np.minimum(
        ((points[inside] - low) / (high - low) * box.side).astype(np.int64), box.side - 1
    )
    return offline.plan(None).tally(np.asarray(np.ravel_multi_index(tuple(axes.T), box.shape)))
