"""Many runs of a part with true noise, from one state on.

A run gives a row of numbers: all that is released from there on. A black box: only inputs and
releases are seen. `react` makes the inputs adaptive: they depend on what was released before.

Counters: all runs at once, a row each; an adaptive adversary feeds a counter its own estimates.
Mechanisms: run by run. The common past of both worlds is played once, with noise of its own, up to
the step at which they differ. An adaptive adversary keeps everybody else away from the step after a
release that rose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tailrace.checks.mechanism import memory_folder
from tailrace.checks.neighbours import Batches
from tailrace.counting.step import UnitMemory, count
from tailrace.mechanisms.base import Mechanism, Step, Takes
from tailrace.noise import Draws

# Plans of a step that are remembered with their counts; a plan that noise decides comes again.
_PLANS = 8
# Numbers of an array that are looked at one by one: more is slow, and one unit moves few.
_FIRST = 64


def counter_runs(
    counter: Any, *, event: int | None, steps: int, copies: int, noise: Draws, react: bool
) -> np.ndarray:
    """Estimates, also less what the adversary fed, and their steps: (copies, columns).

    event: the step, from 0, with one event more; None: the neighbouring world.
    """
    state, fed = counter.init(copies), np.zeros(copies, np.int64)
    estimate, said, seen = np.zeros(copies), [], []
    for t in range(steps):
        x = np.zeros(copies, np.int64)
        if react and t:
            # a counter says floats; far ones would not fit
            x = np.clip(np.floor(estimate), -(2**40), 2**40).astype(np.int64)
        fed += x
        state, estimate = counter.step(state, x + (t == event), noise.at(t))
        said.append(np.asarray(estimate, float))
        seen.append(said[-1] - fed)
    return np.column_stack([*seen, *np.diff(seen, axis=0), *(said if react else ())])


@dataclasses.dataclass(frozen=True)
class Worlds:
    """Two neighbouring streams, and where they first differ."""

    world: Batches
    other: Batches

    @property
    def start(self) -> int:
        """The first step, from 0, at which they differ."""
        pairs = zip(self.world, self.other, strict=True)
        return next((t for t, (a, b) in enumerate(pairs) if not _same(a, b)), 0)

    def runs(
        self, mechanism: Mechanism, *, copies: int, noise: Draws, react: bool, tell: Callable
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows of releases in both worlds: (copies, columns) each."""
        with memory_folder() as folder:
            pasts = [_Past(mechanism, self.world, self.start, Path(folder), noise.at("past"))]
            pasts.append(pasts[0].of(self.other))
            found, paths = [], []
            for name, past, other in zip("ab", pasts, (self.other, self.world), strict=True):
                rows, alone = [], _alone(past.stream, other) if react else None
                for run in range(copies):
                    path, row = past.run(noise.at(name, run), alone)
                    rows.append(row)
                    paths.append(path)
                    tell()
                found += rows
        train = np.arange(2 * copies) % copies % 2 == 0
        columns = _columns(found, train)
        if react:
            _centre(columns, paths, train)
        return columns[:copies], columns[copies:]


class _Past:
    """A state in mid-stream, from which runs go on."""

    def __init__(
        self, mechanism: Any, stream: Batches, start: int, folder: Path, noise: Draws | None
    ) -> None:
        self.mechanism, self.stream, self.start, self.folder = mechanism, stream, start, folder
        self.files = [0]
        self.counted: dict[tuple[int, ...], list[tuple[Any, Any]]] = {}
        self.state = mechanism.init()
        self.before: str | None = None
        for t in range(0 if noise is None else start):
            assert noise is not None
            self.state, self.before = self._step(
                self.state, t, stream[t], (), self.before, noise.at(t)
            )

    def of(self, stream: Batches) -> _Past:
        """The same past of the neighbouring stream."""
        other = _Past(self.mechanism, stream, self.start, self.folder, None)
        other.state, other.before, other.files = self.state, self.before, self.files
        return other

    def run(self, noise: Draws, alone: Batches | None) -> tuple[tuple[int, ...], list[Any]]:
        """The adversary's choices, and the numbers released at each step.

        alone: the batches with which it reacts, where it does.
        """
        state, before, path, released = self.state, self.before, (), []
        last = _numbers(self.state.public)
        for t in range(self.start, len(self.stream)):
            batch = alone[t] if alone is not None and path and path[-1] else self.stream[t]
            state, before = self._step(state, t, batch, path, before, noise.at(t))
            released.append(_numbers(state.public))
            if alone is not None:
                path = (*path, int(_total(released[-1]) > _total(last)))
                last = released[-1]
        return path, released

    def _step(
        self, state: Any, t: int, batch: Any, path: tuple[int, ...], before: Any, noise: Draws
    ) -> tuple[Any, str | None]:
        step, segment = Step(state, again=True), before
        for turn in range(self.mechanism.rounds):
            if not step.again:
                break
            plan = self.mechanism.plan(step.state.public)
            counts, segment = self._counts(plan, t, batch, (t, *path), before)
            step = self.mechanism.measure(step.state, counts, noise.at("round", turn))
        return step.state, segment

    def _counts(self, plan: Any, t: int, batch: Any, key: tuple[int, ...], before: Any) -> Any:
        """Counts of a step, from memory where its plan came before."""
        held = self.counted.setdefault(key, [])
        for known, found in held:
            one, other = (np.asarray(getattr(each, "groups", None)) for each in (known, plan))
            if known == plan and np.array_equal(one, other):
                return found
        self.files[0] += 1
        memory = UnitMemory(self.folder, bytes(16), before=before, after=str(self.files[0]))
        snapshot = self.mechanism.takes is Takes.Snapshots
        about = {"step": t + 1, "snapshot": snapshot, "memory": memory}
        held.append((plan, count(plan, self.mechanism.unit, *batch, **about)))
        del held[:-_PLANS]
        return held[-1][1]


def _same(one: Any, other: Any) -> bool:
    """Whether two batches hold the same rows, in order."""
    return all(
        (a is None or a.is_empty()) == (b is None or b.is_empty())
        and (a is None or b is None or a.equals(b))
        for a, b in zip(one, other, strict=True)
    )


def _alone(stream: Batches, other: Batches) -> Batches:
    """The rows of a stream that its neighbour lacks: all others stay away."""
    steps = zip(stream, other, strict=True)
    return [(_beyond(one[0], two[0]), _beyond(one[1], two[1])) for one, two in steps]


def _beyond(frame: pl.DataFrame | None, other: pl.DataFrame | None) -> pl.DataFrame | None:
    """The rows of a frame that the other world lacks."""
    if frame is None or other is None:
        return frame
    one, two = (
        rows.with_columns(pl.int_range(pl.len()).over(rows.columns).alias("again"))
        for rows in (frame, other.select(frame.columns))
    )
    return one.join(two, on=one.columns, how="anti", nulls_equal=True).drop("again")


def _numbers(part: Any) -> list[np.ndarray]:
    """All arrays of a public state, flat."""
    return [np.asarray(array, float).ravel() for array in _arrays(part)]


def _arrays(part: Any) -> Iterator[np.ndarray]:
    if isinstance(part, np.ndarray | np.generic | int | float):
        if np.asarray(part).dtype.kind in "biuf":
            yield np.asarray(part)
    elif isinstance(part, tuple | list):
        for inner in part:
            yield from _arrays(inner)
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            yield from _arrays(getattr(part, field.name))


def _total(numbers: list[np.ndarray]) -> float:
    return float(sum(np.nan_to_num(array).sum() for array in numbers))


def _columns(runs: list[list[list[np.ndarray]]], train: np.ndarray) -> np.ndarray:
    """Releases of runs as rows: numbers, their steps and totals.

    Arrays whose size noise decides are told by size and sums. The runs in `train` alone decide
    what is told, so that no event depends on the runs that test it.
    """
    found, before = [], {}
    for step in range(len(runs[0])):
        now, parts = [run[step] for run in runs], {}
        for leaf in range(
            min(len(numbers) for numbers, own in zip(now, train, strict=True) if own)
        ):
            arrays = [numbers[leaf] if leaf < len(numbers) else np.zeros(0) for numbers in now]
            sizes = np.array([len(array) for array in arrays])
            told = [sizes, [array.sum() for array in arrays], [np.abs(a).sum() for a in arrays]]
            parts[~leaf] = np.column_stack(told).astype(float)
            width = int(sizes[train][0])
            if (sizes[train] == width).all():
                even = [a if len(a) == width else np.resize(a, width) for a in arrays]
                parts[leaf] = np.stack(even)[:, :_FIRST]
        found += list(parts.values())
        steps = [(parts[name], before[name]) for name in parts if name in before]
        found += [one - other for one, other in steps if one.shape == other.shape]
        before = parts
    columns = np.nan_to_num(np.hstack(found), posinf=0, neginf=0)
    return columns[:, columns.min(axis=0) < columns.max(axis=0)]


def _centre(columns: np.ndarray, paths: list[tuple[int, ...]], train: np.ndarray) -> None:
    """Take off the mean of training runs with the same choices."""
    _, group = np.unique([str(path) for path in paths], return_inverse=True)
    many = np.maximum(np.bincount(group[train], minlength=group.max() + 1), 1)
    for column in columns.T:
        sums = np.bincount(group[train], column[train], minlength=len(many))
        column -= (sums / many)[group]
