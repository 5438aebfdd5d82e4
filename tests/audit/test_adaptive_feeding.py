"""Pure counters keep their loss when what they are fed depends on what they said; others need not."""

import numpy as np
import pytest

from tailrace import Noise, PureDP
from tailrace.audit.gallery import PasswordCounter
from tailrace.counters import BinaryTree, Block, Simple

EPSILON, STEPS, RUNS = 1, 20, 20_000


def log_likelihood(counter, inputs, outputs):
    """Of each run's outputs given its inputs, (steps, runs), from the counter's atoms; up to a constant."""
    totals = np.cumsum(inputs, axis=0)
    noise = np.concatenate([np.zeros((1, outputs.shape[1])), outputs - totals])
    result = np.zeros(outputs.shape[1])
    for t in range(1, len(outputs) + 1):
        size = max(size for size in counter.sizes if t % size == 0)
        result -= np.abs(noise[t] - noise[t - size]) / float(counter.atoms.scale)
    return result


@pytest.mark.parametrize("event_at", [0, 3, 7, 12])
@pytest.mark.parametrize(
    "counter",
    [
        Simple(privacy=PureDP(epsilon=EPSILON), horizon=STEPS),
        Block(size=4, privacy=PureDP(epsilon=EPSILON), horizon=STEPS),
        BinaryTree(privacy=PureDP(epsilon=EPSILON), horizon=STEPS),
    ],
    ids=lambda counter: type(counter).__name__,
)
def test_output_dependent_feeding_costs_no_more_than_epsilon(counter, event_at):
    """An adversary sees each output and chooses the next input; the two worlds differ in one event."""
    state, noise = counter.init(RUNS), Noise.insecure(1)
    inputs, outputs = [], []
    for t in range(STEPS):
        last = outputs[-1] if outputs else np.zeros(RUNS, np.int64)
        chosen = np.where(last > 0, 3 + last % 5, -2)  # depends on all that was said
        inputs.append(chosen + (t == event_at))
        state, estimate = counter.step(state, inputs[-1], noise.at(t))
        outputs.append(estimate)
    inputs, outputs = np.array(inputs), np.array(outputs)
    neighbour = inputs.copy()
    neighbour[event_at] -= 1  # for the same outputs the adversary chooses the same inputs: only the event differs
    ratio = log_likelihood(counter, inputs, outputs) - log_likelihood(counter, neighbour, outputs)
    assert np.abs(ratio).max() <= EPSILON * (1 + 1e-9)
    if event_at == 0 or not isinstance(counter, BinaryTree):
        assert np.abs(ratio).max() >= (0.5 if isinstance(counter, Block) and event_at in (3, 7) else 0.99) * EPSILON


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
