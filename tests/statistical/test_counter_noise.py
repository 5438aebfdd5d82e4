"""Every counter's noise has the scale it claims: accepted as claimed, rejected 10 % off, at every
time.
"""

import numpy as np

from tailrace import Noise

HORIZONS = (12,)
COPIES = 20_000
LIMIT = 5.6  # of a standard normal variable: 1e-6 over 12 times and 40 counters


def test_scale(counter):
    noise, state, squares = Noise.insecure(1), counter.init(COPIES), []
    for t in range(counter.horizon):
        state, estimate = counter.step(state, np.zeros(COPIES, np.int64), noise.at(t))
        squares.append(estimate.astype(float) ** 2)
    seen = np.mean(squares, axis=1)
    error = np.std(squares, axis=1) / np.sqrt(COPIES)
    claimed = counter.variance(np.arange(1, counter.horizon + 1))
    assert (np.abs(seen - claimed) < LIMIT * error).all()
    for wrong in (0.9, 1.1):
        assert (np.abs(seen - wrong**2 * claimed) > LIMIT * error).all()
