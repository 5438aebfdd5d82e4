"""The exact loss of a function or mechanism, by replay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tailrace.audit.parts import case_of
from tailrace.audit.verdict import audit
from tailrace.checks.meter import Meter
from tailrace.noise import Noise

# (x, published, ours)
Points = list[tuple[float | str, float, float]]


def replayed(run: Callable[[Any, Any], Any], world: Any, other: Any, kind: str) -> float:
    """The metered loss of a function (input, noise) -> released.

    Infinite where the same noisy numbers give other releases: something exact is among them.
    """
    meter = Meter(Noise.insecure(1))
    released = np.asarray(run(world, meter))
    meter.replay()
    same = np.array_equal(released, np.asarray(run(other, meter)))
    return float(getattr(meter.loss(), kind)) if same else math.inf


def metered(mechanism: Any) -> float:
    """The largest metered share of a mechanism's own claim."""
    return audit(case_of(mechanism, ""), runs=0, fault=None).metered.share
