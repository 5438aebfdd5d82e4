"""What every mechanism must keep, built in or plugged in.

`check_mechanism(mechanism, batches)` plays `batches`, a list of (rows added, rows deleted) of any engine, and raises
`AssertionError` with a sentence that names the promise broken:

>>> import polars as pl
>>> from tailrace import Categorical, Event, HistogramStream, PureDP, Schema
>>> ward = HistogramStream(domain=Schema(sex=Categorical(["f", "m"])), privacy=PureDP(epsilon=1), unit=Event(), horizon=9)
>>> check_mechanism(ward, [(pl.DataFrame({"sex": ["f", "f", "m"]}), None)] * 3)
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np

from tailrace import keep
from tailrace.checks.spy import Spy
from tailrace.guarantee import Guarantee
from tailrace.loss import ZCDP
from tailrace.mechanisms.base import Mechanism, State, Step
from tailrace.noise import Draws, Noise
from tailrace.packing import pack, unpack
from tailrace.plan import Counts, opened

Batches = list[tuple[Any, Any]]


def check_mechanism(mechanism: Mechanism, batches: Batches) -> None:
    """Run every check of a mechanism on some batches; raises `AssertionError` at the first promise that is not kept."""
    for check in CHECKS:
        check(mechanism, batches)


def _step(mechanism: Mechanism, state: State, batch: tuple[Any, Any], noise: Draws) -> Step:
    """One step, with as many rounds as it asks for."""
    step = Step(state, again=True)
    for turn in range(mechanism.rounds):
        if not step.again:
            break
        counts = mechanism.plan(step.state.public).counts(*batch)
        step = mechanism.measure(step.state, counts, noise.at("round", turn))
    return step


def _run(mechanism: Mechanism, batches: Batches, noise: Draws) -> list[State]:
    states = [mechanism.init()]
    for t, batch in enumerate(batches):
        states.append(_step(mechanism, states[-1], batch, noise.at("step", t)).state)
    return states


def _rows(frame: Any) -> list[Any]:
    """An in-memory frame cut into parts: some rows each, in another order."""
    rows = opened(frame)
    if rows is None:
        return [None]
    held: nw.DataFrame[Any] = rows.collect() if isinstance(rows, nw.LazyFrame) else rows
    order = np.random.default_rng(0).permutation(len(held))
    return [nw.to_native(held[part.tolist()]) for part in np.array_split(order, 3)]


def _elsewhere(frame: Any) -> dict[str, Any]:
    """The same rows on the other engines that are installed (Spark needs a session: pass its frames as batches)."""
    rows = opened(frame)
    if not isinstance(rows, nw.DataFrame):
        return {}
    frames = {"Polars": rows.to_polars(), "lazy Polars": rows.to_polars().lazy()}
    if importlib.util.find_spec("pyarrow"):
        frames["PyArrow"] = rows.to_arrow()
        if importlib.util.find_spec("pandas"):
            frames["pandas"] = rows.to_pandas()
        if importlib.util.find_spec("duckdb"):
            import duckdb

            frames["DuckDB"] = duckdb.from_arrow(rows.to_arrow())
    return frames


def check_guarantee(mechanism: Mechanism, batches: Batches) -> None:  # noqa: ARG001
    """The guarantee is there, for the declared unit, relation and horizon, within the declared loss."""
    guarantee = mechanism.guarantee
    assert isinstance(guarantee, Guarantee), "a mechanism states its guarantee"
    stated = guarantee.unit, guarantee.neighbours, guarantee.horizon
    assert stated == (mechanism.unit, mechanism.neighbours, mechanism.horizon), "the guarantee is for the declared unit"
    asked, given = mechanism.privacy, guarantee.loss
    within = given.as_zcdp().rho <= asked.rho if isinstance(asked, ZCDP) else _epsilon(given) <= asked.epsilon
    assert within, "the guarantee is within the declared loss"


def _epsilon(loss: Any) -> Fraction:
    assert not isinstance(loss, ZCDP), "the guarantee is of a kind that the declared loss implies"
    return loss.epsilon


def check_purity(mechanism: Mechanism, batches: Batches) -> None:
    """Measuring leaves state and counts as they were."""
    state = mechanism.init()
    for t, batch in enumerate(batches):
        counts = mechanism.plan(state.public).counts(*batch)
        before = pack(state), pack(counts)
        after = mechanism.measure(state, counts, Noise.insecure(1).at(t)).state
        assert (pack(state), pack(counts)) == before, "measure does not change its state or counts"
        state = after


def check_additivity(mechanism: Mechanism, batches: Batches) -> None:
    """Counts add up over any partition of the rows, and are the same on every engine that is installed."""
    plan = mechanism.plan(mechanism.init().public)
    for adds, deletes in batches:
        whole = plan.counts(adds, deletes)
        parts = [plan.counts(rows) for rows in _rows(adds)] + [plan.counts(None, rows) for rows in _rows(deletes)]
        together = sum(parts[1:], parts[0])
        same = np.array_equal(whole.adds, together.adds) and np.array_equal(whole.deletes, together.deletes)
        assert same, "counts of parts add up to the counts of the whole"
        for engine, frame in _elsewhere(adds).items():
            assert np.array_equal(plan.count(frame), whole.adds), f"counts are the same on {engine}"


def check_replay(mechanism: Mechanism, batches: Batches) -> None:
    """The same batches and noise give the same states; other noise gives others."""
    first, second, other = (_run(mechanism, batches, Noise.insecure(seed)) for seed in (2, 2, 3))
    assert [pack(state) for state in first] == [pack(state) for state in second], "a replay gives the same states"
    assert pack(first[-1].public) != pack(other[-1].public), "other noise gives other releases"


def check_paths(mechanism: Mechanism, batches: Batches) -> None:
    """No noise path is used twice and every draw lies below the step's path."""
    spy = Spy(Noise.insecure(4))
    _run(mechanism, batches, spy)
    assert spy.record, "a mechanism draws noise"
    assert all(drawn.path[:1] == ("step",) for drawn in spy.record), "draws lie below the path that measure is given"


def check_save_and_load(mechanism: Mechanism, batches: Batches) -> None:
    """A state survives a round trip through bytes."""
    for state in _run(mechanism, batches, Noise.insecure(5)):
        again = unpack(pack(state), like=mechanism.init())
        assert pack(again) == pack(state), "a state is the same after saving and loading"


def check_barrier(mechanism: Mechanism, batches: Batches) -> None:
    """Scrambling the private part changes neither the plan, nor the view, nor the sample."""
    for state in _run(mechanism, batches, Noise.insecure(6)):
        scrambled = State(state.public, _scrambled(state.private))
        for part in (state, scrambled):
            assert mechanism.plan(part.public) == mechanism.plan(state.public), (
                "the plan is a function of the public part"
            )
        tables = [_sampled(mechanism, part) for part in (state, scrambled)]
        assert all(np.array_equal(tables[0].columns[name], tables[1].columns[name]) for name in tables[0].columns), (
            "the sample is a function of the public part"
        )


def check_changes(mechanism: Mechanism, batches: Batches) -> None:
    """The rows that stay are the first of the next table, in their order, so that changes can be applied."""
    table, rng = keep.beginning(mechanism).table, np.random.default_rng(7)
    for state in _run(mechanism, batches, Noise.insecure(8)):
        sample = mechanism.sample(mechanism.view(state.public), table, rng)
        assert sample.stayed.shape == table.cells.shape, "every row of the table before stays or goes"
        kept = int(sample.stayed.sum())
        assert np.array_equal(sample.table.cells[:kept], table.cells[sample.stayed]), "rows that stay come first"
        for name, values in sample.table.columns.items():
            assert list(values[:kept]) == list(table.columns[name][sample.stayed]), "rows that stay keep their values"
        table = sample.table


def _sampled(mechanism: Mechanism, state: State) -> Any:
    view = mechanism.view(state.public)
    return mechanism.sample(view, keep.beginning(mechanism).table, np.random.default_rng(9)).table


def _scrambled(part: Any) -> Any:
    """The same shape, other content."""
    if isinstance(part, np.ndarray):
        return part + np.ones((), part.dtype)
    if isinstance(part, tuple):
        return tuple(_scrambled(item) for item in part)
    return dataclasses.replace(part, **{f.name: _scrambled(getattr(part, f.name)) for f in dataclasses.fields(part)})


def check_empty(mechanism: Mechanism, batches: Batches) -> None:  # noqa: ARG001
    """A step without rows is a step like any other: noise is drawn."""
    spy = Spy(Noise.insecure(10))
    plan = mechanism.plan(mechanism.init().public)
    zeros = np.zeros(plan.codes.size, np.int64)
    mechanism.measure(mechanism.init(), Counts(zeros, zeros), spy.at("step"))
    assert spy.record, "an empty batch draws noise too"


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
)
