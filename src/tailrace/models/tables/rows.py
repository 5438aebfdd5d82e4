"""Synthetic rows of a model, changed as little as possible.

They are closer to the model's marginals than independent draws. Column by column, in the order of
the model's conditionals:

1. Rows that agree in the columns it depends on are a group.
2. A group's values get the counts that the model expects, to within about one row.
3. Rows keep their value while there is room for it.
4. A row that loses a value leaves, and a new one takes its place from that column on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrace.errors import ConfigError, DataError
from tailrace.models.tables.base import Clique, Model, Shape

# Rows stay as they are while every count is within this of its expectation, and this many times
# its root. By reasoning: rounding leaves one; a quarter of a deviation is below any noise.
_ROUNDING, _LOOSE = 3.0, 0.25


@dataclass(frozen=True)
class Coded:
    """Numbers of a row's values in some columns, as one code."""

    columns: Clique
    shape: Shape

    @property
    def strides(self) -> np.ndarray:
        sizes = [math.prod(self.shape[j + 1 :]) for j in range(len(self.shape))]
        return np.array(sizes, np.int64)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return rows[:, list(self.columns)] @ self.strides


@dataclass(frozen=True)
class Rows:
    """The rows there are, among all that were ever born.

    digits: (attributes, rows ever born).
    died: when each died; those after `now` live.
    tally: the number of living rows of each code.
    """

    digits: np.ndarray
    died: np.ndarray
    now: int
    tally: Callable[[Coded, int], np.ndarray]

    @classmethod
    def of(cls, rows: np.ndarray) -> Rows:
        """Rows that all live."""
        return cls(
            np.ascontiguousarray(rows.T, np.int32),
            np.ones(len(rows), np.int32),
            0,
            lambda codes, size: np.bincount(codes(rows), minlength=size),
        )


def agrees(model: Model, previous: Rows) -> bool:
    """Whether rows have a model's conditional distributions, within rounding.

    Each count of a value in its group is within three of what is expected, or a little more where
    that is large.
    """
    for conditional in model.conditionals():
        clique = (*conditional.given, conditional.attribute)
        codes = Coded(clique, tuple(model.shape[one] for one in clique))
        have = previous.tally(codes, codes.size).reshape(conditional.table.shape)
        expected = have.sum(axis=1, keepdims=True) * conditional.table
        if (np.abs(have - expected) > _ROUNDING + _LOOSE * np.sqrt(expected)).any():
            return False
    return True


def resampled(
    model: Model, previous: Rows, rows: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(gone, new): places of rows that leave, ascending, and new rows.

    Only counts of rows decide who leaves; one pass for each column finds those who do.
    """
    from tailrace.models.kernel import leaving
    from tailrace.models.tables.rows_kernel import dealt

    shape = model.shape
    if len(previous.digits) != len(shape):
        raise DataError(
            f"Synthetic rows have {len(shape)} columns, one for each attribute of the model."
        )
    if rows < 0:
        raise ConfigError("The number of synthetic rows cannot be negative.")
    gone, new = np.zeros(0, np.int64), np.zeros((0, len(shape)), np.int32)
    for step, conditional in enumerate(model.conditionals()):
        clique = (*conditional.given, conditional.attribute)
        sizes = tuple(shape[one] for one in clique)
        codes, given = Coded(clique, sizes), Coded(conditional.given, sizes[:-1])
        have = previous.tally(codes, codes.size).copy()
        np.subtract.at(have, codes(previous.digits[:, gone].T), 1)
        waiting = np.bincount(given(new), minlength=given.size) if step else np.zeros(1, np.int64)
        counts = have.reshape(-1, sizes[-1])
        keep, final = dealt(
            counts, waiting, conditional.table, np.array(sizes[:-1], np.int64), rows, step == 0, rng
        )
        due = (counts - keep).reshape(-1)
        if due.any():
            places = (np.array(clique), codes.strides)
            left = leaving(
                previous.digits, *places, previous.died, previous.now, gone, have, due, rng
            )
            gone = np.sort(np.append(gone, left))
            if step:
                new = np.concatenate([new, previous.digits[:, left].T])
        if not step:
            # The first column decides how many rows are new.
            new = np.zeros((rows - int(keep.sum()), len(shape)), np.int32)
        # Rows of a group that wait for a value are shuffled.
        mixed = rng.permutation(len(new))
        order = mixed[np.argsort(given(new[mixed]), kind="stable")]
        missing = (final - keep).reshape(-1)
        new[order, conditional.attribute] = np.repeat(np.arange(codes.size) % sizes[-1], missing)
    return gone, new
