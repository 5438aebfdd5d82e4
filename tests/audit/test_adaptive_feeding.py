"""Counters keep their loss when what they are fed depends on what they said; a counter proved for
fixed streams need not.
"""

import numpy as np
import pytest

from tailrace import Noise, PureDP
from tailrace.audit import attack, response
from tailrace.audit.gallery import PasswordCounter
from tailrace.counters import KaryTree

HORIZONS = (12,)
RUNS = 4000


def adversary(outputs, rows):
    """The next input of each run, from all that was said."""
    if not outputs:
        return np.zeros(rows, np.int64)
    last = np.floor(outputs[-1]).astype(np.int64)
    return np.where(last > 0, 3 + last % 5, -2)


def play(counter, rows, noise, event_at):
    """Inputs and outputs of `rows` runs against the adversary, with one more event at a step."""
    state, inputs, outputs = counter.init(rows), [], []
    for t in range(counter.horizon):
        inputs.append(adversary(outputs, rows) + (t == event_at))
        state, estimate = counter.step(state, inputs[-1], noise.at(t))
        outputs.append(estimate)
    return np.array(inputs), np.array(outputs, float)


@pytest.mark.parametrize("event_at", [0, 5])
def test_output_dependent_feeding_costs_no_more_than_the_budget(counter, event_at):
    """For the same outputs the adversary chooses the same inputs, so only the event differs: an
    exact likelihood ratio.

    Each run's noise is recovered from its outputs in both worlds (a counter without subtraction
    draws as many numbers as it says, and its response is a square matrix). Laplace: no run's ratio
    exceeds epsilon. Gaussian: the mean ratio is the Renyi divergence of order 1, which rho bounds,
    and its variance is at most 2 rho.
    """
    lines, draws = response(counter, counter.horizon)
    if lines.shape[0] != lines.shape[1]:
        assert isinstance(getattr(counter, "counter", counter), KaryTree), (
            "only subtraction draws more than it says"
        )
        return
    inputs, outputs = play(counter, RUNS, Noise.insecure(1), event_at)
    neighbour = inputs.copy()
    neighbour[event_at] -= 1
    noise = [np.linalg.solve(lines, outputs - np.cumsum(x, axis=0)) for x in (inputs, neighbour)]
    parameter = np.array([value for _, value in draws])[:, None]
    loss = counter.loss()
    if draws[0][0] == "laplace":
        ratio = (np.abs(noise[1]) - np.abs(noise[0])) / parameter
        assert np.abs(ratio.sum(axis=0)).max() <= float(loss.epsilon) * (1 + 1e-9)
    else:
        ratio = ((noise[1] ** 2 - noise[0] ** 2) / (2 * parameter)).sum(axis=0)
        rho = float(loss.rho)
        assert ratio.mean() <= rho + 5 * np.sqrt(2 * rho / RUNS)
        assert ratio.var() <= 2 * rho * (1 + 5 * np.sqrt(2 / RUNS))


@pytest.mark.parametrize("horizon", [2, 3])
def test_subtraction_fed_by_its_own_output_keeps_epsilon(horizon):
    """Its noise cannot be read off its outputs, so it is attacked: every orthant of outputs, both
    ways.
    """
    counter = KaryTree(arity=3, levels=2, privacy=PureDP(epsilon=1), horizon=horizon)

    def run(world, noise):
        _, outputs = play(counter, world.shape[1], noise, event_at=int(world[0, 0]))
        return outputs

    for event_at in range(horizon):
        for pattern in range(1 << horizon):
            signs = np.array([1 if pattern >> t & 1 else -1 for t in range(horizon)])[:, None]
            finding = attack(
                run,
                world=np.array([event_at]),
                neighbour=np.array([-1]),
                event=lambda outputs, signs=signs: (signs * (outputs - 0.5) > 0).all(axis=0),
                claimed=1.0,
                copies=20_000,
                noise=Noise.insecure(1).at(event_at, pattern),
                alpha=1e-9,
            )
            assert not finding.refuted


def test_a_counter_private_on_fixed_streams_only_falls_to_its_own_output():
    """Fixed feed: at most one in 2^20 runs differs. Fed its own output: every run does."""
    rng, bits, runs = np.random.default_rng(0), 20, 2000
    fixed, fed_back = [], []
    for secret in (0, 1):
        for _ in range(runs):
            counter = PasswordCounter(bits, rng)
            counter.step(1, secret)
            fixed.append((secret, counter.step(2, 12345)))
            counter = PasswordCounter(bits, rng)
            password = counter.step(1, secret)
            fed_back.append((secret, counter.step(2, password)))
    assert sum(said for _, said in fixed) <= 1
    assert all(said == secret for secret, said in fed_back), "total variation 1"
