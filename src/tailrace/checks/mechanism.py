"""Check the promises of a mechanism, ours or plugged in.

`check_mechanism(mechanism, batches)` plays `batches`, a list of (rows added, rows deleted) of any
engine, and raises `AssertionError` with a sentence that names the broken promise:

>>> import polars as pl
>>> from tailrace import Categorical, Event, HistogramStream, PureDP, Schema
>>> sex = Schema(sex=Categorical(["f", "m"]))
>>> ward = HistogramStream(domain=sex, privacy=PureDP(epsilon=1), unit=Event(), horizon=9)
>>> check_mechanism(ward, [(pl.DataFrame({"sex": ["f", "f", "m"]}), None)] * 3)
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.checks.meter import Measured, Meter
from tailrace.checks.neighbours import Batches, Neighbours, held, neighbours
from tailrace.checks.spy import Spy
from tailrace.counting.memory import hash_units
from tailrace.counting.parts import bounded
from tailrace.counting.plan import Plan, opened
from tailrace.counting.step import UnitMemory, count
from tailrace.mechanisms.base import Mechanism, OncePlan, State, Step, Takes
from tailrace.noise import Draws, Noise
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import ZCDP
from tailrace.storage.codec import pack, unpack
from tailrace.stream.state import no_rows

_KEY = bytes(16)
ADDITIVE = "counts of parts add up to the counts of the whole"


def check_mechanism(mechanism: Mechanism, batches: Batches) -> None:
    """Run every check; raises `AssertionError` at the first broken promise."""
    for check in CHECKS:
        check(mechanism, batches)


def memory_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for unit memories, in shared memory where possible."""
    shared = Path("/dev/shm")
    fast = shared.is_dir() and os.access(shared, os.W_OK)
    return tempfile.TemporaryDirectory(prefix="tailrace-", dir=shared if fast else None)


class _Counting:
    """Counts steps as a stream does, with a unit memory.

    All rounds of a step count from the memory of the step before.
    """

    def __init__(self, mechanism: Mechanism, folder: str) -> None:
        self._unit, self._snapshot = mechanism.unit, mechanism.takes is Takes.Snapshots
        self._folder, self._files, self._step = Path(folder), 0, 0
        self._before: str | None = None
        self._after: str | None = None

    def counts(self, plan: Plan | OncePlan, batch: tuple[Any, Any], *, step: int) -> Any:
        if step != self._step:
            self._before, self._step = self._after, step
        self._files += 1
        memory = UnitMemory(self._folder, _KEY, before=self._before, after=str(self._files))
        about = {"step": step, "snapshot": self._snapshot, "memory": memory}
        counts, self._after = count(plan, self._unit, *batch, **about)
        return counts


def _rounds(
    mechanism: Mechanism, batches: Batches, noise: Draws
) -> Iterator[list[tuple[State, Any, State]]]:
    """Play steps; yields each step's rounds as (before, counts, after)."""
    state = mechanism.init()
    with memory_folder() as folder:
        counting = _Counting(mechanism, folder)
        for t, batch in enumerate(batches):
            step, rounds = Step(state, again=True), []
            for turn in range(mechanism.rounds):
                if not step.again:
                    break
                before = step.state
                counts = counting.counts(mechanism.plan(before.public), batch, step=t + 1)
                step = mechanism.measure(before, counts, noise.at("step", t, "round", turn))
                rounds.append((before, counts, step.state))
            state = step.state
            yield rounds


def _run(mechanism: Mechanism, batches: Batches, noise: Draws) -> list[State]:
    """The state before the first step, and after each."""
    return [mechanism.init(), *(rounds[-1][2] for rounds in _rounds(mechanism, batches, noise))]


def _rows(frame: Any) -> list[Any]:
    """Cut a frame into three parts, its rows shuffled."""
    rows = held(frame)
    if rows is None:
        return [None]
    order = np.random.default_rng(0).permutation(len(rows))
    return [nw.to_native(rows[part.tolist()]) for part in np.array_split(order, 3)]


def _elsewhere(frame: Any) -> dict[str, Any]:
    """The same rows on every other engine, Spark apart."""
    rows = opened(frame)
    if not isinstance(rows, nw.DataFrame):
        return {}
    frames = {"Polars": rows.to_polars(), "lazy Polars": rows.to_polars().lazy()}
    if importlib.util.find_spec("pyarrow"):
        frames["PyArrow"] = rows.to_arrow()
        if importlib.util.find_spec("pandas"):
            # integers with nulls must not become floats
            frames["pandas"] = rows.to_arrow().to_pandas(integer_object_nulls=True)
        if importlib.util.find_spec("duckdb"):
            import duckdb

            frames["DuckDB"] = duckdb.from_arrow(rows.to_arrow())
    return frames


def check_guarantee(mechanism: Mechanism, batches: Batches) -> None:  # noqa: ARG001
    """The guarantee covers the declared unit, within the declared loss."""
    guarantee = mechanism.guarantee
    assert isinstance(guarantee, Guarantee), "a mechanism states its guarantee"
    stated, declared = ((of.unit, of.neighbours, of.horizon) for of in (guarantee, mechanism))
    assert stated == declared, "the guarantee is for the declared unit"
    asked, given = mechanism.privacy, guarantee.loss
    if isinstance(asked, ZCDP):
        within = given.as_zcdp().rho <= asked.rho
    else:
        implied = "the guarantee is of a kind that the declared loss implies"
        assert not isinstance(given, ZCDP), implied
        within = given.epsilon <= asked.epsilon
    assert within, "the guarantee is within the declared loss"


def check_purity(mechanism: Mechanism, batches: Batches) -> None:
    """Measuring leaves state and counts as they were."""
    rounds = itertools.chain.from_iterable(_rounds(mechanism, batches, Noise.insecure(1)))
    for t, (state, counts, _) in enumerate(rounds):
        before = pack(state), pack(counts)
        mechanism.measure(state, counts, Noise.insecure(1).at("again", t))
        assert (pack(state), pack(counts)) == before, "measure does not change its state or counts"


def check_additivity(mechanism: Mechanism, batches: Batches) -> None:
    """Counts of parts add up; all engines count the same."""
    plan = mechanism.plan(mechanism.init().public)
    if not isinstance(plan, Plan) and not bounded(plan, mechanism.unit):
        _check_once(mechanism, batches)
        return
    if not isinstance(plan, Plan) or plan.memory is not None:
        _check_units(mechanism, batches)
        return
    for adds, deletes in batches:
        whole = plan.counts(adds, deletes)
        parts = [plan.counts(rows) for rows in _rows(adds)]
        parts += [plan.counts(None, rows) for rows in _rows(deletes)]
        assert pack(sum(parts[1:], parts[0])) == pack(whole), ADDITIVE
        for engine, frame in _elsewhere(adds).items():
            assert np.array_equal(plan.count(frame), whole.adds), f"counts are the same on {engine}"


def _check_once(mechanism: Mechanism, batches: Batches) -> None:
    """Additivity for plans of everything at once; parts split units."""
    run = _rounds(mechanism, batches, Noise.insecure(1))
    for rounds, (frame, _) in zip(run, batches, strict=True):
        for before, counts, _ in rounds:
            plan: Any = mechanism.plan(before.public)
            own = Plan(codes=mechanism.domain, key=plan.key)
            parts = [plan.counts(_units(own, frame, part)) for part in range(3)]
            assert pack(sum(parts[1:], parts[0])) == pack(counts), ADDITIVE
            assert pack(plan.counts(plan.read(frame))) == pack(counts), (
                "a frame that was read counts as before"
            )
            for engine, rows in _elsewhere(frame).items():
                assert pack(plan.counts(rows)) == pack(counts), f"counts are the same on {engine}"


def _check_units(mechanism: Mechanism, batches: Batches) -> None:
    """Additivity of a plan with a memory; parts split units."""
    run = [rounds[-1] for rounds in _rounds(mechanism, batches, Noise.insecure(1))]
    plans: list[Any] = [mechanism.plan(state.public) for state, _, _ in run]
    whole = [counts for _, counts, _ in run]
    own = Plan(codes=mechanism.domain, key=plans[0].key)

    def follow(frames: list[Any]) -> list[Any]:
        with memory_folder() as folder:
            counting, steps = _Counting(mechanism, folder), zip(plans, frames, strict=True)
            return [
                counting.counts(plan, (frame, None), step=step)
                for step, (plan, frame) in enumerate(steps, 1)
            ]

    def same(counts: list[Any]) -> bool:
        return all(pack(one) == pack(other) for one, other in zip(counts, whole, strict=True))

    parts = [follow([_units(own, frame, part) for frame, _ in batches]) for part in range(3)]
    together: list[Any] = [sum(counts[1:], counts[0]) for counts in zip(*parts, strict=True)]
    assert same(together), ADDITIVE
    there = [_elsewhere(frame) for frame, _ in batches]
    for engine in {engine for frames in there for engine in frames}:
        assert same(follow([frames.get(engine) for frames in there])), (
            f"counts are the same on {engine}"
        )


def _units(plan: Plan, frame: Any, part: int) -> Any:
    """The rows of a third of the units, shuffled."""
    rows = held(frame)
    if rows is None:
        return None
    units = [hash_units(ids, _KEY) for ids, _ in plan.rows(rows.to_native())]
    third = np.flatnonzero(np.concatenate(units)["lo"] % 3 == part)
    return nw.to_native(rows[np.random.default_rng(0).permutation(third).tolist()])


def check_replay(mechanism: Mechanism, batches: Batches) -> None:
    """A replay gives the same states; other noise does not."""
    first, second, other = (_run(mechanism, batches, Noise.insecure(seed)) for seed in (2, 2, 3))
    same = list(map(pack, first)) == list(map(pack, second))
    assert same, "a replay gives the same states"
    assert pack(first[-1].public) != pack(other[-1].public), "other noise gives other releases"


def check_paths(mechanism: Mechanism, batches: Batches) -> None:
    """Noise paths are fresh and below the step's path."""
    spy = Spy(Noise.insecure(4))
    _run(mechanism, batches, spy)
    assert spy.record, "a mechanism draws noise"
    below = all(drawn.path[:1] == ("step",) for drawn in spy.record)
    assert below, "draws lie below the path that measure is given"


def check_save_and_load(mechanism: Mechanism, batches: Batches) -> None:
    """A state survives saving and loading."""
    for state in _run(mechanism, batches, Noise.insecure(5)):
        again = unpack(pack(state), like=mechanism.init())
        assert pack(again) == pack(state), "a state is the same after saving and loading"


def check_barrier(mechanism: Mechanism, batches: Batches) -> None:
    """Plan, view and sample ignore the private part."""
    for state in _run(mechanism, batches, Noise.insecure(6)):
        scrambled = State(state.public, _scrambled(state.private))
        plan, again = (mechanism.plan(part.public) for part in (state, scrambled))
        assert plan == again, "the plan is a function of the public part"
        one, other = (_sampled(mechanism, part).columns for part in (state, scrambled))
        same = all(_same(values, other[name]) for name, values in one.items())
        assert same, "the sample is a function of the public part"


def check_changes(mechanism: Mechanism, batches: Batches) -> None:
    """Rows that stay come first in the next table, ordered."""
    table, rng = no_rows(mechanism), np.random.default_rng(7)
    for state in _run(mechanism, batches, Noise.insecure(8)):
        sample = mechanism.sample(mechanism.view(state.public), table, rng)
        stayed, kept = ~np.isin(table.numbers, sample.removed), len(table) - len(sample.removed)
        assert stayed.sum() == kept, "a row of the table before goes once"
        new = sample.table
        assert np.array_equal(new.cells[:kept], table.cells[stayed]), "rows that stay come first"
        for name, values in new.columns.items():
            assert _same(values[:kept], table.columns[name][stayed]), (
                "rows that stay keep their values"
            )
        numbers = np.append(table.numbers[stayed], np.arange(table.born, new.born))
        assert np.array_equal(new.numbers, numbers), "rows are numbered by birth"
        table = new


def _same(values: np.ndarray, others: np.ndarray) -> bool:
    """Whether two columns are equal; missing numbers are equal."""
    return np.array_equal(values, others, equal_nan=values.dtype.kind == "f")


def _sampled(mechanism: Mechanism, state: State) -> Any:
    view = mechanism.view(state.public)
    return mechanism.sample(view, no_rows(mechanism), np.random.default_rng(9)).table


def _scrambled(part: Any) -> Any:
    """The same shape, other content."""
    if isinstance(part, np.ndarray):
        return part + np.ones((), part.dtype)
    if isinstance(part, tuple):
        return tuple(_scrambled(item) for item in part)
    return dataclasses.replace(
        part, **{f.name: _scrambled(getattr(part, f.name)) for f in dataclasses.fields(part)}
    )


def check_empty(mechanism: Mechanism, batches: Batches) -> None:
    """An empty batch draws noise at the same steps."""
    spies = [Spy(Noise.insecure(10)), Spy(Noise.insecure(10))]
    for spy, rows in zip(spies, (batches, [(None, None)] * len(batches)), strict=True):
        _run(mechanism, rows, spy)
    full, empty = ({drawn.path[:2] for drawn in spy.record} for spy in spies)
    assert full == empty, "an empty batch draws noise too"


def check_loss(mechanism: Mechanism, batches: Batches) -> None:
    """Neighbours of `batches` cost no more than claimed (`meter.py`)."""
    for pair in neighbours(mechanism, batches):
        for (words, _, claim), measured in zip(pair.others, metered(mechanism, pair), strict=True):
            assert measured.within(claim), f"the loss stays within the claim ({words})"


def metered(mechanism: Mechanism, pair: Neighbours, *, seed: int = 12) -> Iterator[Measured]:
    """The measured loss of each neighbour of a stream."""
    meter = Meter(Spy(None) if pair.quiet else Noise.insecure(seed))
    released = [
        [pack(after.public) for _, _, after in rounds]
        for rounds in _rounds(mechanism, pair.stream, meter)
    ]
    for words, other, _ in pair.others:
        meter.replay()
        for rounds, before in zip(_rounds(mechanism, other, meter), released, strict=True):
            same = [pack(after.public) for _, _, after in rounds] == before
            assert same, f"the same noisy numbers give the same public state ({words})"
        yield meter.loss()


CHECKS: tuple[Callable[[Mechanism, Batches], None], ...] = (
    check_guarantee,
    check_purity,
    check_additivity,
    check_replay,
    check_paths,
    check_save_and_load,
    check_barrier,
    check_changes,
    check_empty,
    check_loss,
)
