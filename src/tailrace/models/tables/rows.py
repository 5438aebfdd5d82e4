"""Synthetic rows of a model, changed as little as possible.

They are closer to the model's marginals than independent draws. Column by column, in the order of
the model's conditionals:

1. Rows that agree in the columns it depends on are a group.
2. A group's values get the counts that the model expects, to within about one row.
3. Rows keep their value while there is room for it.
4. A row that loses a value leaves, and a new one takes its place from that column on.
"""

from __future__ import annotations

import numpy as np

from tailrace.errors import ConfigError, DataError
from tailrace.models.tables.base import Model


def resampled(
    model: Model, previous: np.ndarray, rows: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(stayed, new): which previous rows stay, and new rows."""
    from tailrace.models.tables.rows_kernel import deal

    shape = model.shape
    if previous.ndim != 2 or previous.shape[1] != len(shape):
        raise DataError(
            f"Synthetic rows have {len(shape)} columns, one for each attribute of the model."
        )
    if rows < 0:
        raise ConfigError("The number of synthetic rows cannot be negative.")
    added = max(rows - len(previous), 0)
    digits = np.concatenate([previous.astype(np.int32), np.full((added, len(shape)), -1, np.int32)])
    kept = np.arange(len(digits)) < len(previous)
    source = np.arange(len(digits))
    for step, conditional in enumerate(model.conditionals()):
        given, sizes = list(conditional.given), [shape[one] for one in conditional.given]
        groups = np.zeros(len(digits), np.int64)
        for one, size in zip(given, sizes, strict=True):
            groups = groups * size + digits[:, one]
        values = np.where(kept, digits[:, conditional.attribute], -1).astype(np.int32)
        chosen = np.ascontiguousarray(digits[:, given])
        wanted = rows if step == 0 else -1
        kept &= deal(
            groups, conditional.table, chosen, np.array(sizes, np.int64), values, wanted, rng
        )
        digits[:, conditional.attribute] = values
        # The first column decides which rows are too many.
        if step == 0:
            there = values >= 0
            digits, kept, source = digits[there], kept[there], source[there]
    stayed = np.zeros(len(previous), bool)
    stayed[source[kept]] = True
    return stayed, digits[~kept]
