"""Made-up rows, from anywhere in a mechanism's domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tailrace.domain import attributes_of
from tailrace.mechanisms.base import Mechanism


def made_up(
    mechanism: Mechanism, rng: np.random.Generator, *, rows: int, points: int, ids: Any = pl.Int64
) -> pl.DataFrame:
    """Rows of a step; each has its own person, a journey `points` rows."""
    # A region or road is read by the cells of its box.
    space: Any = getattr(mechanism.domain, "box", mechanism.domain)
    axes = {**dict(zip(space.columns, space.axes, strict=True)), **attributes_of(mechanism.domain)}
    columns = {
        name: axis.decode(rng.integers(0, axis.size, rows), rng) for name, axis in axes.items()
    }
    number = pl.Series(np.arange(rows))
    journey = getattr(mechanism, "trajectory", None)
    if journey is not None:
        columns |= {journey: number // points, getattr(mechanism, "order", ""): number % points}
    person = getattr(mechanism.unit, "column", None)
    frame = pl.DataFrame(columns)
    return frame if person is None else frame.with_columns(number.cast(ids).alias(person))
