"""The conformance suite over every counter, and proof that each check can fail."""

import dataclasses
import inspect

import numpy as np
import pytest

from tailrace import ZCDP, NoiseReused, PureDP, checks, counters
from tailrace.counters.ladder import LadderCounter

HORIZONS = (1, 2, 5, 32, None)


def test_conformance(counter):
    checks.check_counter(counter)


def test_every_counter_of_the_package_is_in_the_suite(request):
    classes = {cls for _, cls in inspect.getmembers(counters, inspect.isclass) if dataclasses.is_dataclass(cls)}
    conftest = request.config.pluginmanager.get_plugin(str(request.config.rootpath / "tests" / "conftest.py"))
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
    return Sound.step(self, state, np.resize(x, len(state.clock) if rows is None else len(rows)), noise, rows)


def starts_at_one(self, rows):
    return dataclasses.replace(Sound.init(self, rows), total=np.ones(rows, np.int64))


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (tampered(mutates_its_state), "step does not change its state or input"),
        (tampered(clips), "without noise the estimates are the running sums"),
        (tampered(draws_elsewhere), "without noise the estimates are the running sums"),
        (tampered(draws_by_data), "do not depend on data"),
        (tampered(keeps_a_diary), "size of a state does not depend on data"),
        (mutant(step=ignores_the_horizon), "past the horizon"),
        (mutant(step=takes_any_length), "wrong shape raises DataError"),
        (mutant(init=starts_at_one), "without noise the estimates are the running sums"),
        (mutant(grow=lambda self, state, rows: self.init(len(state.clock) + rows)), "go on as without it"),
        (mutant(loss=lambda self, events=1, deletes=0: PureDP(epsilon=2)), "one event loses no more than the budget"),
        (mutant(loss=lambda self, events=1, deletes=0: PureDP(epsilon=1)), "more events lose more"),
        (mutant(loss=lambda self, events=1, deletes=0: ZCDP(rho=1)), "of the kind that was asked for"),
        (
            mutant(variance=lambda self, t, since=0: 0.8 * Sound.variance(self, t, since)),
            "is the variance of the estimates",
        ),
        (mutant(variance=lambda self, t, since=0: Sound.variance(self, t)), "nothing lies between a time and itself"),
        (mutant(variance=lambda self, t, since=0: 0 * Sound.variance(self, t)), "every estimate has noise"),
    ],
)
def test_a_broken_counter_is_caught_by_the_promise_it_breaks(broken, promise):
    with pytest.raises(AssertionError, match=promise):
        checks.check_counter(broken)


def test_reused_noise_is_caught():
    with pytest.raises(NoiseReused, match="drawn from before"):
        checks.check_counter(tampered(draws_again))
