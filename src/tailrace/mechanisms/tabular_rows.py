"""Synthetic rows that follow a model from release to release."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrace.domain.digits import Digits
from tailrace.fit.rows import resampled
from tailrace.mechanisms.base import Sample, Table


def followed(codes: Digits, model: Any | None, previous: Table, rng: np.random.Generator) -> Sample:
    """As many rows as the model holds records, with as few changes to the previous ones as it allows; none without a model."""
    before = previous.cells
    stayed, new = np.zeros(len(before), np.bool_), before[:0]
    if model is not None:
        stayed, new = resampled(model, before, round(model.total), rng)
    return changed(codes, previous, stayed, new, rng)


def changed(codes: Digits, previous: Table, stayed: np.ndarray, new: np.ndarray, rng: np.random.Generator) -> Sample:
    """The rows that stayed, and the new ones after them."""
    values = codes.decode(new, rng)
    columns = {name: np.concatenate([previous.columns[name][stayed], values[name]]) for name in codes.columns}
    return Sample(Table(np.concatenate([previous.cells[stayed], new]), columns), stayed)
