"""A lower bound on the privacy loss, from many runs.

1. An event of probability P in one world and Q in its neighbour shows a loss of at least ln(P / Q).
2. Runs count the event. Clopper-Pearson limits turn each count into a bound on its probability.
3. The two give a lower bound on the loss, wrong with a probability of at most `alpha`.

A finding above the claim refutes it. One below does not prove it: proofs are in the docstrings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrace.audit.bounds import epsilon_shown, limits
from tailrace.noise import Noise

# (steps, copies) of input -> (steps, copies) of output
Mechanism = Callable[[np.ndarray, Noise], np.ndarray]


@dataclass(frozen=True)
class Finding:
    """The claim, the loss's lower bound, and its estimate."""

    claimed: float
    at_least: float
    estimate: float

    @property
    def refuted(self) -> bool:
        """Whether the loss exceeds the claim."""
        return self.at_least > self.claimed


def attack(
    mechanism: Mechanism,
    *,
    world: np.ndarray,
    neighbour: np.ndarray,
    event: Callable[[np.ndarray], np.ndarray],
    claimed: float,
    copies: int,
    noise: Noise,
    alpha: float = 1e-9,
) -> Finding:
    """Run both worlds and compare how often `event` happens.

    Parameters
    mechanism: (steps, copies) of input and noise -> (steps, copies) of output.
    world, neighbour: (steps,) inputs.
    event: output -> (copies,) whether it happened.
    claimed: epsilon.
    copies: independent runs of each world.
    alpha: probability that the lower bound is wrong.
    """
    hits = []
    for name, stream in (("world", world), ("neighbour", neighbour)):
        inputs = np.repeat(np.asarray(stream)[:, None], copies, axis=1)
        hits.append(int(event(mechanism(inputs, noise.at(name))).sum()))
    lower = limits(hits[0], copies, alpha / 2)[0]
    upper = limits(hits[1], copies, alpha / 2)[1]
    return Finding(
        claimed,
        epsilon_shown(lower, upper),
        math.log(hits[0] / hits[1]) if min(hits) else math.inf,
    )
