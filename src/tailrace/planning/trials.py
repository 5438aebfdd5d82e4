"""Errors of a mechanism, measured by running it on stand-in data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tailrace.mechanisms.base import Mechanism, Takes
from tailrace.noise import Noise
from tailrace.planning.course import Course
from tailrace.planning.facts import Batch, StandIn
from tailrace.planning.questions import Questions, answers_itself, questions_of
from tailrace.stream.stream import Stream

# Steps shown: more cannot be told apart.
SHOWN = 12
# Nine in ten errors are smaller.
_MOST = 90


def steps_shown(steps: int, first: int = 1, most: int = SHOWN) -> np.ndarray:
    """Evenly spaced steps, with both ends."""
    return np.unique(np.linspace(min(first, steps), steps, most).astype(int))


def tried(
    mechanism: Mechanism,
    data: StandIn,
    *,
    steps: int,
    runs: int,
    seed: int,
    progress: Callable[[], None] = lambda: None,
) -> tuple[Course, ...]:
    """Run a mechanism on stand-in data, each run on others."""
    steps = 1 if mechanism.takes is Takes.Once else steps
    shown, names = steps_shown(steps), ()
    # By question and step shown: errors and true counts of all runs.
    found: dict[tuple[int, int], list[tuple[np.ndarray, np.ndarray]]] = {}
    for run in range(runs):
        secret = Noise.insecure(seed + run)
        asked = questions_of(mechanism, secret.at("questions").generator())
        names = asked.names
        rng = secret.at("stand-in").generator()
        batches = _followed(data.batches(mechanism, steps, rng), asked)
        for step, release in _releases(mechanism, batches, secret.at("noise"), set(shown.tolist())):
            for number, answer in enumerate(asked.answered(release)):
                pair = (answer.shown - answer.true, answer.true)
                found.setdefault((number, step), []).append(pair)
        progress()
    return tuple(_course(name, number, shown, found) for number, name in enumerate(names))


def _course(name: str, number: int, shown: np.ndarray, found: dict[Any, Any]) -> Course:
    """Errors of one question at the steps that were measured."""
    steps = [step for step in shown.tolist() if (number, step) in found]
    error, most, nothing, typical = [], [], [], 0.0
    for step in steps:
        off, true = (
            np.concatenate([pair[part] for pair in found[number, step]]) for part in (0, 1)
        )
        error.append(float(np.sqrt((off**2.0).mean())))
        most.append(float(np.percentile(np.abs(off), _MOST)))
        nothing.append(float(np.sqrt((true**2.0).mean())))
        typical = float(true[true > 0].mean()) if (true > 0).any() else 0.0
    return Course(
        name, np.array(steps, int), np.array(error), np.array(most), typical, np.array(nothing)
    )


def _followed(batches: Iterator[Batch], asked: Questions) -> Iterator[Batch]:
    """The batches, each taken into the truth before it is released."""
    for batch in batches:
        asked.happened(batch)
        yield batch


def _releases(
    mechanism: Mechanism, batches: Iterator[Batch], noise: Noise, shown: set[int]
) -> Iterator[tuple[int, Any]]:
    """The view or the synthetic rows at the steps shown."""
    if not answers_itself(mechanism):
        with Stream(mechanism, noise=noise) as stream:
            for step, (adds, deletes) in enumerate(batches, 1):
                release = stream.push(adds, deletes)
                if step in shown:
                    yield step, release.table
        return
    state = mechanism.init()
    for step, (adds, deletes) in enumerate(batches, 1):
        again, turn = True, 0
        while again:
            # Stand-in people keep their bound by themselves.
            counting: Any = mechanism.plan(state.public)
            counts = counting.counts(adds, deletes)
            made = mechanism.measure(state, counts, noise.at(step, turn))
            state, again, turn = made.state, made.again, turn + 1
        view = mechanism.view(state.public) if step in shown else None
        if view is not None:
            yield step, view
