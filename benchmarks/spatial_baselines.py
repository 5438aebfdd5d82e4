"""The three baselines of PrivStream, for comparison only: the first is not private over time, the
second uses true totals.

Each is a generator of (step, synthetic points) at the steps asked for. "Offline" is PrivTree and a
count at its leaves, half of epsilon each, on one set of points: one step of `papers.privstream`
with its corrected constants.
"""

from collections.abc import Iterator, Sequence

import numpy as np

import spatial_data
from tailrace import Box, Event, Noise, PureDP, papers
from tailrace.counters import Simple
from tailrace.counting.plan import Counts
from tailrace.papers.privtree.stream import PrivTreeStream, PrivTreeView

Points = Iterator[tuple[int, np.ndarray]]


def rerun(
    stream: spatial_data.Steps, box: Box, *, epsilon: float, steps: Sequence[int], seed: int
) -> Points:
    """Baseline 1: offline on all data, anew at every step, each time with the whole of epsilon."""
    offline, noise, rng = _offline(box, epsilon), Noise.insecure(seed), np.random.default_rng(seed)
    for step in steps:
        there = spatial_data.present(stream, step)
        view = _once(offline, there, there[:0], noise.at(step))
        yield step, _spread(view, np.ceil(view.leaves.count), rng)


def each_step_alone(
    stream: spatial_data.Steps, box: Box, *, epsilon: float, steps: Sequence[int], seed: int
) -> Points:
    """Baseline 2: offline on the events of a step, scaled to the number of points there are."""
    offline, noise, rng = _offline(box, epsilon), Noise.insecure(seed), np.random.default_rng(seed)
    for step in steps:
        adds, deletes = stream[step - 1]
        view = _once(offline, adds, deletes, noise.at(step))
        factor = len(spatial_data.present(stream, step)) / max(len(adds) + len(deletes), 1)
        yield step, _spread(view, np.ceil(view.leaves.count * factor), rng)


def fixed_tree(
    stream: spatial_data.Steps,
    box: Box,
    *,
    epsilon: float,
    steps: Sequence[int],
    seed: int,
    begin: int,
) -> Points:
    """Baseline 3: offline at step `begin`, then simple counters with the whole of epsilon at the
    leaves that were found.
    """
    offline, noise, rng = _offline(box, epsilon), Noise.insecure(seed), np.random.default_rng(seed)
    there = spatial_data.present(stream, begin)
    view = _once(offline, there, there[:0], noise.at(begin))
    counter, released = Simple(privacy=PureDP(epsilon=epsilon)), view.leaves.count
    state, wanted = counter.init(len(released)), set(steps)
    for step in range(begin, max(steps) + 1):
        if step > begin:
            net = np.diff(
                _sums(offline, *stream[step - 1])[np.append(view.start, offline.domain.size)]
            )
            state, change = counter.step(state, net, noise.at(step))
            released = view.leaves.count + change
        if step in wanted:
            yield step, _spread(view, np.ceil(released), rng)


def _offline(box: Box, epsilon: float) -> PrivTreeStream:
    return papers.privstream(domain=box, privacy=PureDP(epsilon=epsilon), unit=Event(), horizon=1)


def _once(
    offline: PrivTreeStream, adds: np.ndarray, deletes: np.ndarray, noise: Noise
) -> PrivTreeView:
    counts = Counts(*(_tally(offline, points) for points in (adds, deletes)))
    view = offline.view(offline.measure(offline.init(), counts, noise).state.public)
    assert view is not None
    return view


def _tally(offline: PrivTreeStream, points: np.ndarray) -> np.ndarray:
    """How many points lie at each place."""
    box = offline.domain
    low, high = np.array(box.low), np.array(box.high)
    inside = ((points >= low) & (points <= high)).all(axis=1)
    axes = np.minimum(
        ((points[inside] - low) / (high - low) * box.side).astype(np.int64), box.side - 1
    )
    return offline.plan(None).tally(np.asarray(np.ravel_multi_index(tuple(axes.T), box.shape)))


def _sums(offline: PrivTreeStream, adds: np.ndarray, deletes: np.ndarray) -> np.ndarray:
    """The net number of points before each place."""
    return np.concatenate([[0], np.cumsum(_tally(offline, adds) - _tally(offline, deletes))])


def _spread(view: PrivTreeView, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """So many points in each leaf, evenly."""
    leaf = np.repeat(np.arange(len(counts)), np.maximum(counts, 0).astype(np.int64))
    low, high = view.leaves.low[leaf], view.leaves.high[leaf]
    return low + rng.random(low.shape) * (high - low)
