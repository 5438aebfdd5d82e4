"""Counters, and noise in floats."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.audit import gallery
from tailrace.audit.bounds import epsilon_shown, limits
from tailrace.audit.losses.replaying import Points, replayed
from tailrace.audit.runs import counter_runs
from tailrace.audit.search import shown
from tailrace.counters import BinaryTree, UnboundedBlock
from tailrace.noise import Noise
from tailrace.privacy.loss import PureDP

_ONE = Fraction(1)


def binary_tree() -> Points:
    points: Points = []
    for horizon in (1, 2, 4, 8, 12, 16, 64, 365, 1024):
        one = np.zeros((horizon, 1), np.int64)
        one[0] = 1

        def published(x: np.ndarray, noise: Any) -> np.ndarray:
            return gallery.published_binary_tree(x, epsilon=_ONE, noise=noise)

        def ours(x: np.ndarray, noise: Any, horizon: int = horizon) -> np.ndarray:
            counter = BinaryTree(privacy=PureDP(epsilon=1), horizon=horizon)
            state, said = counter.init(1), []
            for t, inputs in enumerate(x):
                state, estimate = counter.step(state, inputs, noise.at(t))
                said.append(estimate)
            return np.array(said)

        lost = replayed(published, one, 0 * one, "epsilon")
        points.append((horizon, lost, replayed(ours, one, 0 * one, "epsilon")))
    return points


def binary_tree_noise() -> Iterator[tuple[str, float, float]]:
    for horizon in (2, 8, 12, 365, 1024):
        yield f"T = {horizon}", math.log2(horizon), float(horizon.bit_length())


def own_output() -> Points:
    """Delta of the password counter; epsilon of ours, attacked the same way."""
    rng = Noise.insecure(1).at("passwords").generator()
    told, runs = 0, 500
    for _ in range(runs):
        counter = gallery.PasswordCounter(20, rng)
        told += counter.step(2, counter.step(1, 1)) == 1
    ours, claim = BinaryTree(privacy=PureDP(epsilon=1), horizon=4), 1.0
    worlds = [
        counter_runs(
            ours, event=at, steps=4, copies=40_000, noise=Noise.insecure(2).at(name), react=True
        )
        for name, at in (("a", 0), ("b", None))
    ]
    found = shown(*worlds, kind="epsilon", alpha=1e-6)
    return [("fed its own output", told / runs * 2.0**20, found.at_least / claim)]


def endless_block() -> Points:
    """Noise terms of a prefix, as multiples of t^(1/4)."""
    squares, powers = (UnboundedBlock(squares=s, privacy=PureDP(epsilon=1)) for s in (True, False))
    points: Points = []
    for t in (100, 1000, 10_000, 100_000):
        grown = float(squares.variance(1)) ** 0.5 * t**0.25
        terms = (float(one.variance(t)) ** 0.5 / grown for one in (squares, powers))
        points.append((t, next(terms), next(terms)))
    return points


def float_noise() -> Points:
    """The event "no multiple of 2^-53", of 0 and of 1 with Laplace noise in floats; measured."""
    rng, runs = Noise.insecure(1).at("floats").generator(), 200_000
    hits = []
    for count in (0.0, 1.0):
        values = (count + rng.laplace(0, 1, runs)) * 2.0**53
        hits.append(int((values != np.floor(values)).sum()))
    lost = epsilon_shown(limits(hits[0], runs, 1e-4)[0], limits(hits[1], runs, 1e-4)[1])
    exact = [count + Noise.insecure(2).at(count).laplace(1, 1000) for count in (0, 1)]
    ours = 0.0 if all(values.dtype.kind == "i" for values in exact) else math.inf
    return [("0 or 1, epsilon = 1", lost, ours)]
