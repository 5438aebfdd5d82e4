"""The conformance suite over every counter, and mutants that each of its checks must catch."""

import dataclasses
import inspect

import numpy as np
import pytest

from tailrace import ZCDP, Noise, NoiseReused, PureDP, checks, counters
from tailrace.counters.ladder import LadderCounter

HORIZONS = (1, 2, 5, 32, None)


def test_conformance(counter):
    checks.check_counter(counter)


def test_every_counter_of_the_package_is_in_the_suite(request):
    classes = {
        cls
        for _, cls in inspect.getmembers(counters, inspect.isclass)
        if dataclasses.is_dataclass(cls)
    }
    conftest = request.config.pluginmanager.get_plugin(
        str(request.config.rootpath / "tests" / "conftest.py")
    )
    assert classes == {type(counter) for counter in conftest.every_counter(5)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sound(LadderCounter):
    """A plug-in counter to break."""

    @property
    def sizes(self):
        return 1, 4


SOUND = Sound(privacy=PureDP(epsilon=1), horizon=20)


def test_a_plug_in_counter_passes():
    checks.check_counter(SOUND)


def mutant(**methods):
    return dataclasses.dataclass(frozen=True, kw_only=True)(type("Mutant", (Sound,), methods))(
        privacy=PureDP(epsilon=1), horizon=20
    )


def tampered(change):
    """A step that does the right thing and then `change`s something."""

    def step(self, state, x, noise, rows=None):
        new, estimates = Sound.step(self, state, x, noise, rows)
        return change(new, estimates, state, x, noise) or (new, estimates)

    return mutant(step=step)


def mutates_its_state(new, estimates, state, x, noise):
    state.total[...] += 1


def clips(new, estimates, state, x, noise):
    return new, np.maximum(estimates, 0)


def draws_by_data(new, estimates, state, x, noise):
    if x.sum() > 30:
        noise.at("extra").laplace(1, 1)


def draws_elsewhere(new, estimates, state, x, noise):
    return new, estimates + np.random.default_rng().integers(0, 2, len(estimates))


def draws_again(new, estimates, state, x, noise):
    noise.at("fresh").laplace(1, len(x))


def keeps_a_diary(new, estimates, state, x, noise):
    if len(x) and abs(x).max() > 10**5:
        return dataclasses.replace(new, carried=np.pad(new.carried, ((0, 1), (0, 0)))), estimates
    return None


def ignores_the_horizon(self, state, x, noise, rows=None):
    return Sound.step(Sound(privacy=self.privacy, horizon=99), state, x, noise, rows)


def takes_any_length(self, state, x, noise, rows=None):
    return Sound.step(
        self, state, np.resize(x, len(state.clock) if rows is None else len(rows)), noise, rows
    )


def starts_at_one(self, rows):
    return dataclasses.replace(Sound.init(self, rows), total=np.ones(rows, np.int64))


def forgets_rows(new, estimates, state, x, noise):
    """The first row stays at time 0 when only some rows are fed."""
    if len(x) < len(state.clock):
        return dataclasses.replace(new, total=np.zeros_like(new.total)), estimates
    return None


def grows_in_place(self, state, rows):
    state.total[...] += 1
    return Sound.grow(self, state, rows)


def grows_at_one(self, state, rows):
    grown = Sound.grow(self, state, rows)
    total = grown.total.copy()
    total[len(state.total) :] = 1
    return dataclasses.replace(grown, total=total)


def counts_calls(new, estimates, state, x, noise):
    CALLS.append(1)
    return new, estimates + (isinstance(noise, Noise) and len(CALLS) % 7 == 0)


def same_noise_always(self, state, x, noise, rows=None):
    same = noise if isinstance(noise, checks.Spy) else Noise.insecure(0).at(int(state.clock.sum()))
    return Sound.step(self, state, x, same, rows)


def no_noise(self, state, x, noise, rows=None):
    return Sound.step(self, state, x, checks.Spy(None), rows)


def draws_above(self, state, x, noise, rows=None):
    top = (
        checks.Spy(None, (), noise.record).at(str(len(noise.record)))
        if isinstance(noise, checks.Spy)
        else noise
    )
    return Sound.step(self, state, x, top, rows)


def drifts(new, estimates, state, x, noise):
    return (new, estimates + (1 if len(x) > 1000 else 0))


def keeps_everything(self, rows):
    return dataclasses.replace(Sound.init(self, rows), carried=np.zeros((500, rows), np.int64))


def draws_before_looking(self, state, x, noise, rows=None):
    noise.at("early").laplace(1, 1)
    return Sound.step(self, state, x, noise, rows)


CALLS = []


def test_a_counter_that_is_not_frozen_or_not_equal_to_its_copy_is_caught():
    class Open:
        privacy, horizon = PureDP(epsilon=1), 20

    with pytest.raises(AssertionError, match="a counter is a frozen dataclass"):
        checks.check_counter(Open())
    different = dataclasses.dataclass(frozen=True, kw_only=True, eq=False)(
        type("Different", (Sound,), {"__eq__": object.__eq__, "__hash__": object.__hash__})
    )
    with pytest.raises(AssertionError, match="a counter equals its copy"):
        checks.check_counter(different(privacy=PureDP(epsilon=1), horizon=20))


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (tampered(forgets_rows), "each row counts what it was fed"),
        (mutant(grow=grows_in_place), "grow does not change its state"),
        (mutant(grow=grows_at_one), "a grown row starts at time 0"),
        (tampered(counts_calls), "a replay gives the same|without noise|go on as"),
        (mutant(step=same_noise_always), "other noise gives other estimates"),
        (mutant(step=no_noise), "other noise gives other estimates"),
        (mutant(step=draws_above), "draws lie below the path"),
        (tampered(drifts), "estimates are unbiased"),
        (mutant(init=keeps_everything), "a state stays small"),
        (mutant(step=draws_before_looking), "past the horizon no noise|wrong shape draws no noise"),
        (tampered(mutates_its_state), "step does not change its state or input"),
        (tampered(clips), "without noise the estimates are the running sums"),
        (tampered(draws_elsewhere), "without noise the estimates are the running sums"),
        (tampered(draws_by_data), "do not depend on data"),
        (tampered(keeps_a_diary), "size of a state does not depend on data"),
        (mutant(step=ignores_the_horizon), "past the horizon"),
        (mutant(step=takes_any_length), "wrong shape raises DataError"),
        (mutant(init=starts_at_one), "without noise the estimates are the running sums"),
        (
            mutant(grow=lambda self, state, rows: self.init(len(state.clock) + rows)),
            "go on as without it",
        ),
        (
            mutant(loss=lambda self, events=1, deletes=0: PureDP(epsilon=2)),
            "one event loses no more than the budget",
        ),
        (mutant(loss=lambda self, events=1, deletes=0: PureDP(epsilon=1)), "more events lose more"),
        (
            mutant(loss=lambda self, events=1, deletes=0: ZCDP(rho=1)),
            "of the budget's kind",
        ),
        (
            mutant(variance=lambda self, t, since=0: 0.8 * Sound.variance(self, t, since)),
            "is the variance of the estimates",
        ),
        (
            mutant(variance=lambda self, t, since=0: Sound.variance(self, t)),
            "nothing lies between a time and itself",
        ),
        (
            mutant(variance=lambda self, t, since=0: 0 * Sound.variance(self, t)),
            "every estimate has noise",
        ),
    ],
)
def test_a_broken_counter_is_caught_by_the_promise_it_breaks(broken, promise):
    with pytest.raises(AssertionError, match=promise):
        checks.check_counter(broken)


def test_reused_noise_is_caught():
    with pytest.raises(NoiseReused, match="drawn from before"):
        checks.check_counter(tampered(draws_again))
