"""A lower bound on the privacy loss, from many runs.

1. An event of probability P in one world and Q in its neighbour shows a loss of at least ln(P / Q).
2. Runs count the event. An exact Chernoff bound turns each count into a bound on its probability.
3. The two give a lower bound on the loss, wrong with a probability of at most `alpha`.

A finding above the claim refutes it. One below does not prove it: proofs are in the docstrings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
    lower = _limit(hits[0], copies, alpha / 2, up=False)
    upper = _limit(hits[1], copies, alpha / 2, up=True)
    return Finding(
        claimed,
        math.log(lower / upper) if lower > 0 else -math.inf,
        math.log(hits[0] / hits[1]) if min(hits) else math.inf,
    )


def _limit(hits: int, trials: int, alpha: float, *, up: bool) -> float:
    """A Chernoff bound on a hit's probability, by bisection."""
    seen = hits / trials
    inside, outside = seen, 1.0 if up else 0.0
    for _ in range(200):
        middle = (inside + outside) / 2
        if trials * _divergence(seen, middle) <= -math.log(alpha):
            inside = middle
        else:
            outside = middle
    return outside


def _divergence(p: float, q: float) -> float:
    """The relative entropy of coins with probabilities p and q."""
    if q in (0.0, 1.0):
        return 0.0 if p == q else math.inf
    heads = p * math.log(p / q) if p > 0 else 0.0
    tails = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return heads + tails
