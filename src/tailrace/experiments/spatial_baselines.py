"""PrivStream's three baselines: an offline PrivTree, run in three ways.

Each yields the steps asked for, with the synthetic points there. Offline is one step of
`papers.privstream`, with its corrected constants: half of epsilon for the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tailrace.counters import Simple
from tailrace.counting.plan import Counts
from tailrace.domain.geometry.partition import Ground
from tailrace.experiments.spatial_data import Steps, in_cells, present
from tailrace.mechanisms.base import Table
from tailrace.noise import Draws, Noise
from tailrace.papers import privstream
from tailrace.papers.privtree.stream import PrivTreeStream, PrivTreeView
from tailrace.privacy.loss import PureDP
from tailrace.privacy.unit import Event, Unit
from tailrace.stream.state import no_rows

Points = Iterator[tuple[int, np.ndarray]]


def offline(domain: Ground, epsilon: float, unit: Unit | None = None) -> PrivTreeStream:
    """A tree and counts at its leaves, once."""
    privacy = PureDP(epsilon=epsilon)
    return privstream(domain=domain, privacy=privacy, unit=unit or Event(), horizon=1)


def grown(made: PrivTreeStream, points: np.ndarray, noise: Draws) -> PrivTreeView:
    """The tree of some points."""
    counts = made.plan(None).tally(in_cells(made.domain, points))
    state = made.measure(made.init(), Counts(counts, 0 * counts), noise).state
    view = made.view(state.public)
    assert view is not None
    return view


def coordinates(table: Table, domain: Ground) -> np.ndarray:
    """(points, 2) of a synthetic table."""
    return np.stack([table.columns[name] for name in domain.columns], axis=1)


def rerun(
    stream: Steps, domain: Ground, *, epsilon: float, steps: Sequence[int], seed: int, **more: Any
) -> Points:
    """Baseline 1: all data, anew at every step with all of epsilon. NOT private over time."""
    made = offline(domain, epsilon, **more)
    noise, rng = Noise.insecure(seed), np.random.default_rng(seed)
    for step in steps:
        view = grown(made, present(stream, step), noise.at(step))
        yield step, coordinates(made.sample(view, no_rows(made), rng).table, domain)


def differential(
    stream: Steps, domain: Ground, *, epsilon: float, steps: Sequence[int], seed: int, **more: Any
) -> Points:
    """Baseline 2: a step's insertions alone, scaled to the number of points there are.

    The true number, as in the paper.
    """
    made = offline(domain, epsilon, **more)
    noise, rng = Noise.insecure(seed), np.random.default_rng(seed)
    for step in steps:
        adds = stream[step - 1][0]
        view = grown(made, adds, noise.at(step))
        found = coordinates(made.sample(view, no_rows(made), rng).table, domain)
        many = len(found) * len(present(stream, step)) // max(len(adds), 1)
        yield step, found[rng.integers(0, len(found), many)] if len(found) else found


def fixed(
    stream: Steps,
    domain: Ground,
    *,
    epsilon: float,
    begin: int,
    steps: Sequence[int],
    seed: int,
    **more: Any,
) -> Points:
    """Baseline 3: the tree of the first release for ever, its leaves counted with all of epsilon.

    The paper's counter, the simple one.
    """
    made = offline(domain, epsilon, **more)
    noise, rng, tally = Noise.insecure(seed), np.random.default_rng(seed), made.plan(None).tally
    view = grown(made, present(stream, begin), noise.at(begin))
    counter = Simple(privacy=PureDP(epsilon=epsilon), horizon=len(stream))
    state, table, since = counter.init(len(view.leaves)), no_rows(made), 0 * view.leaves.count
    for step, parts in enumerate(stream[begin:], start=begin + 1):
        adds, deletes = (tally(in_cells(domain, points)) for points in parts)
        net = np.add.reduceat(adds - deletes, view.start)
        state, since = counter.step(state, net, noise.at("leaves", step))
        if step in steps:
            many = np.ceil(np.maximum(view.leaves.count + since, 0)).astype(np.int64)
            table = made.sample(replace(view, points=many), table, rng).table
            yield step, coordinates(table, domain)
