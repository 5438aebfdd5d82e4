"""Check the promises of a counter, ours or plugged in.

`check_counter(counter)` raises `AssertionError` with a sentence that names the broken promise. The
test suite runs it over every counter of the package; a plug-in runs it over its own:

>>> from tailrace import PureDP, counters
>>> check_counter(counters.Block(size=4, privacy=PureDP(epsilon=1), horizon=20))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.checks.meter import Measured, Meter
from tailrace.checks.spy import Spy
from tailrace.counters import Counter
from tailrace.errors import DataError, HorizonReached
from tailrace.noise import Draws, Noise
from tailrace.privacy.loss import ZCDP, Loss
from tailrace.storage.codec import pack, unpack

AnyCounter = Counter[Any]
# Steps of an endless counter, and half of the most: more would be slow.
_STEPS = 40


def check_counter(counter: AnyCounter, *, rows: int = 5) -> None:
    """Run every check; raises `AssertionError` at the first broken promise."""
    for check in COUNTER_CHECKS:
        check(counter, rows)


def _steps(counter: AnyCounter) -> int:
    return min(counter.horizon or _STEPS, 2 * _STEPS)


def _input(counter: AnyCounter, rows: int, seed: int = 0) -> np.ndarray:
    """(steps, rows) counts with deletions."""
    return np.random.default_rng(seed).integers(-3, 9, (_steps(counter), rows))


def _run(counter: AnyCounter, inputs: np.ndarray, noise: Draws) -> tuple[Any, np.ndarray]:
    state, estimates = counter.init(inputs.shape[1]), []
    for t, x in enumerate(inputs):
        state, estimate = counter.step(state, x, noise.at("step", t))
        estimates.append(estimate)
    return state, np.array(estimates)


def check_frozen(counter: AnyCounter, rows: int) -> None:  # noqa: ARG001
    """The configuration is frozen, and equal to its copy."""
    params = getattr(counter, "__dataclass_params__", None)
    assert params is not None and params.frozen, "a counter is a frozen dataclass"
    copy: Any = dataclasses.replace(counter)  # type: ignore[type-var]
    assert hash(counter) == hash(copy) and counter == copy, "a counter equals its copy"


def check_exact_without_noise(counter: AnyCounter, rows: int) -> None:
    """With silent noise the estimates are the prefix sums."""
    inputs = _input(counter, rows)
    _, estimates = _run(counter, inputs, Spy(None))
    exact = np.allclose(estimates, np.cumsum(inputs, axis=0), rtol=1e-9, atol=1e-9)
    assert exact, "without noise the estimates are the running sums"


def check_clocks(counter: AnyCounter, rows: int) -> None:
    """Each row has its own clock, still when not fed."""
    rng, noise = np.random.default_rng(1), Spy(None)
    state, totals = counter.init(rows), np.zeros(rows)
    for t in range(_steps(counter)):
        fed = rng.permutation(rows)[: rng.integers(0, rows + 1)]
        x = rng.integers(-3, 9, len(fed))
        state, estimate = counter.step(state, x, noise.at("step", t), fed)
        totals[fed] += x
        exact = np.allclose(estimate, totals[fed], rtol=1e-9, atol=1e-9)
        assert exact, "each row counts what it was fed, in the order of rows="


def check_purity(counter: AnyCounter, rows: int) -> None:
    """A step leaves its arguments as they were."""
    inputs = _input(counter, rows)
    state = counter.init(rows)
    for t, x in enumerate(inputs):
        before, x_before = pack(state), x.copy()
        state_after, _ = counter.step(state, x, Noise.insecure(t))
        same = pack(state) == before and (x == x_before).all()
        assert same, "step does not change its state or input"
        state = state_after


def check_growth(counter: AnyCounter, rows: int) -> None:
    """`grow` adds rows at time 0, and changes no other."""
    inputs = _input(counter, rows)
    half = len(inputs) // 2
    state, _ = _run(counter, inputs[:half], Noise.insecure(2))
    before = pack(state)
    grown = counter.grow(state, 3)
    assert pack(state) == before, "grow does not change its state"
    old = np.arange(rows)
    for t, x in enumerate(inputs[half:]):
        path = ("later", t)
        state, expected = counter.step(state, x, Noise.insecure(3).at(*path), old)
        grown, estimate = counter.step(grown, x, Noise.insecure(3).at(*path), old)
        assert np.array_equal(expected, estimate), "rows fed before grow() go on as without it"
    new = np.arange(rows, rows + 3)
    for t in range(len(inputs)):
        grown, estimate = counter.step(grown, np.full(3, t), Spy(None).at("new", t), new)
        exact = np.allclose(estimate, t * (t + 1) / 2, rtol=1e-9)
        assert exact, "a grown row starts at time 0 with a sum of 0"


def check_replay(counter: AnyCounter, rows: int) -> None:
    """A replay gives the same bits; other noise does not."""
    runs = [_run(counter, _input(counter, rows), Noise.insecure(seed)) for seed in (4, 4, 5)]
    (first, a), (second, b), (_, c) = runs
    same = pack(first) == pack(second) and np.array_equal(a, b)
    assert same, "a replay gives the same state and estimates"
    assert not np.array_equal(a, c), "other noise gives other estimates"


def check_paths(counter: AnyCounter, rows: int) -> None:
    """Noise paths are fresh, below the step's, independent of data."""
    first, second = Spy(Noise.insecure(6)), Spy(Noise.insecure(7))
    _run(counter, _input(counter, rows), first)
    _run(counter, 1000 * _input(counter, rows, seed=9), second)
    assert first.record, "a counter draws noise"
    below = all(drawn.path[:1] == ("step",) for drawn in first.record)
    assert below, "draws lie below the path a step is given"
    same = first.record == second.record
    assert same, "paths, parameters and shapes of the draws do not depend on data"


def check_save_and_load(counter: AnyCounter, rows: int) -> None:
    """A loaded state equals the saved one, and goes on."""
    inputs = _input(counter, rows)
    half = len(inputs) // 2
    state, _ = _run(counter, inputs[:half], Noise.insecure(8))
    loaded = unpack(pack(state), like=counter.init(0))
    assert pack(state) == pack(loaded), "a state is the same after saving and loading"
    for t, x in enumerate(inputs[half:]):
        state, expected = counter.step(state, x, Noise.insecure(9).at(t))
        loaded, estimate = counter.step(loaded, x, Noise.insecure(9).at(t))
        assert np.array_equal(expected, estimate), "a loaded state goes on as the saved one"


def check_bounded_state(counter: AnyCounter, rows: int) -> None:
    """A state's size depends on time and rows, not data.

    It stays within 64 values per row, and 2 more per row and step.
    """
    sizes = []
    for factor in (1, 10**6):
        state = counter.init(rows)
        for t, x in enumerate(factor * _input(counter, rows)):
            state, _ = counter.step(state, x, Noise.insecure(10).at(t))
            sizes.append(sum(array.size for array in _arrays(state)))
            assert sizes[-1] <= (64 + 2 * _steps(counter)) * rows + 64, "a state stays small"
    same = sizes[: len(sizes) // 2] == sizes[len(sizes) // 2 :]
    assert same, "the size of a state does not depend on data"


def _arrays(part: Any) -> list[np.ndarray]:
    if isinstance(part, np.ndarray):
        return [part]
    if not isinstance(part, tuple):
        part = [getattr(part, field.name) for field in dataclasses.fields(part)]
    return [array for inner in part for array in _arrays(inner)]


def check_variance(counter: AnyCounter, rows: int) -> None:  # noqa: ARG001
    """`variance` is the estimates' variance, within six standard errors."""
    copies, steps = 4000, _steps(counter)
    _, estimates = _run(counter, np.zeros((steps, copies), np.int64), Noise.insecure(11))
    t = np.arange(1, steps + 1)
    for since in (0, steps // 3):
        other = t != since
        moved = estimates - (estimates[since - 1] if since else 0)
        predicted = counter.variance(t, since)
        noisy = predicted.shape == t.shape and (predicted[other] > 0).all()
        assert noisy, "every estimate has noise"
        assert (predicted[~other] == 0).all(), "nothing lies between a time and itself"
        squares = (moved[other] ** 2).astype(float)
        off, error = np.abs(squares.mean(axis=1) - predicted[other]), squares.std(axis=1)
        right = (off < 6 * error / np.sqrt(copies)).all()
        assert right, "variance() is the variance of the estimates"
        off, error = np.abs(moved[other].mean(axis=1)), np.sqrt(predicted[other] / copies)
        assert (off < 6 * error).all(), "estimates are unbiased"


def check_loss(counter: AnyCounter, rows: int) -> None:  # noqa: ARG001
    """`loss` of one event is within budget; more events, more."""
    budget, one = counter.privacy, counter.loss()
    life, many = counter.loss(1, 1), counter.loss(3, 3)
    assert type(one) is type(budget), "loss() is of the budget's kind"
    assert _amount(one) <= _amount(budget), "one event loses no more than the budget"
    assert _amount(one) < _amount(life) < _amount(many), "more events lose more"


def check_metered_loss(counter: AnyCounter, rows: int) -> None:
    """The exact meter finds no more than `loss` says."""
    for _, measured, claim in metered_events(counter, rows):
        assert measured.within(claim), "an event loses no more than loss() says"


def metered_events(counter: AnyCounter, rows: int = 1) -> Iterator[tuple[str, Measured, Loss]]:
    """Words, measured loss and claim of events and lives."""
    steps = _steps(counter)
    nothing = np.zeros((steps, rows), np.int64)
    cases = []
    for first in sorted({0, min(1, steps - 1), steps // 2}):
        inserted, life = nothing.copy(), nothing.copy()
        inserted[first, 0] = life[first, 0] = 1
        life[-1, 0] -= 1
        words = f"an event at step {first + 1}"
        cases.append((words, inserted, counter.loss(1)))
        cases.append((f"{words} that is deleted at the end", life, counter.loss(1, 1)))
    meter = Meter(Noise.insecure(12))
    _, before = _run(counter, nothing, meter)
    for words, inputs, claim in cases:
        meter.replay()
        _, estimates = _run(counter, inputs, meter)
        assert np.array_equal(before, estimates), "the same noisy sums give the same estimates"
        yield words, meter.loss(), claim


def _amount(loss: Any) -> Fraction:
    return loss.rho if isinstance(loss, ZCDP) else loss.epsilon


def check_horizon(counter: AnyCounter, rows: int) -> None:
    """A step past the horizon is refused before any noise."""
    if counter.horizon is None:
        return
    state, spy = counter.init(rows), Spy(None)
    for t in range(counter.horizon):
        state, _ = counter.step(state, np.zeros(rows, np.int64), Spy(None).at(t))
    try:
        counter.step(state, np.zeros(rows, np.int64), spy)
    except HorizonReached:
        assert not spy.record, "past the horizon no noise is drawn"
        return
    raise AssertionError("a step past the horizon raises HorizonReached")


def check_shapes(counter: AnyCounter, rows: int) -> None:
    """Input of a wrong shape is refused before any noise."""
    spy = Spy(None)
    for x, fed in (
        (np.zeros(rows), None),
        (np.zeros(rows + 1, np.int64), None),
        (np.zeros((rows, 1), np.int64), None),
        (np.zeros(1, np.int64), np.array([rows])),
        (np.zeros(2, np.int64), np.array([0, 0])),
    ):
        try:
            counter.step(counter.init(rows), x, spy, fed)
        except DataError:
            assert not spy.record, "input of the wrong shape draws no noise"
        else:
            raise AssertionError("input of the wrong shape raises DataError")


COUNTER_CHECKS: tuple[Callable[[AnyCounter, int], None], ...] = (
    check_frozen,
    check_exact_without_noise,
    check_clocks,
    check_purity,
    check_growth,
    check_replay,
    check_paths,
    check_save_and_load,
    check_bounded_state,
    check_variance,
    check_loss,
    check_metered_loss,
    check_horizon,
    check_shapes,
)
