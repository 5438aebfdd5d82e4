"""Bound each unit to `records` rows of one snapshot.

Nothing is remembered from step to step.

**Privacy.**

1. One unit can add or remove its own rows of this snapshot.
2. Accepted are its cells that come first in the order of a keyed hash of unit and cell: a function
   of its own rows alone. So it changes the counts by its own accepted rows and by no others.
3. These are at most `records`. The key stays, so a unit whose rows stay keeps the same ones.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.counting.memory.batch import Batch, slice_bits
from tailrace.counting.memory.hashing import words
from tailrace.counting.plan import Counts, Plan
from tailrace.errors import ConfigError
from tailrace.privacy.unit import User, Window

_MOST = 2**31 - 1


def snapshot_counted(
    plan: Plan, unit: User | Window, frame: Any, *, folder: Path, key: bytes
) -> Counts:
    """Count one snapshot within the bound of each unit.

    `folder` takes the parts that do not fit in memory.
    """
    from tailrace.counting.memory import kernel

    if unit.records is None:
        raise ConfigError(
            "A snapshot is bounded for a unit with records=, for example User(column='id', "
            "records=1)."
        )
    k0, k1 = words(key)
    with ExitStack() as stack:
        batch, nobody = (stack.enter_context(closing(Batch(folder))) for _ in range(2))
        batch.read(plan.rows(frame), key)
        bits = slice_bits(batch.kept)
        none, tally = nobody.slice(0, 0), np.zeros(plan.size, np.int64)
        for s in range(1 << bits):
            rows = batch.slice(s, bits)
            accepted, deleted = np.empty(len(rows[0]), np.int64), np.empty(0, np.int64)
            limit = min(unit.records, _MOST)
            _, many, *_ = kernel.merge(
                none, np.empty(0, np.uint32), rows, none, limit, False, k0, k1, accepted, deleted
            )
            tally += plan.tally(accepted[:many])
    return Counts(tally, np.zeros_like(tally))
