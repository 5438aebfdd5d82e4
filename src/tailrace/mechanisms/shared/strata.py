"""A table drawn from a release alone, block by block.

The rows of a release are laid along the order of its cells, as many to each as were released. A
table of n rows divides that length into n even pieces and draws one row in each. So

1. every run of cells, and with it every node of a tree, has its share of n to within two rows:
   only the pieces at its two ends may fall on either side;
2. rows are drawn in blocks of BLOCK, each by a generator of its own (`stream/drawn.py`), keyed by
   the step, a digest of the released counts, and the number of the block. Whoever has the release
   draws the same table, in any order, in as many processes as there are blocks; a cell with half
   of all rows is just more blocks.

Nothing but a release is looked at, so drawing costs no privacy, and the key need not be secret.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass

import numpy as np

from tailrace.domain import Codes
from tailrace.domain.geometry.partition import area_before, partition_of
from tailrace.domain.schema import Schema
from tailrace.models.postprocess import on_simplex

# Rows of a block: some megabytes, and enough that the start of a generator costs nothing.
BLOCK = 1 << 16


@dataclass(frozen=True, eq=False)
class Strata:
    """Released counts of runs of cells, as rows are drawn from them.

    ends: (runs,) where each run ends in the order of cells: of the partition of places, or of a
        schema's cells by number.
    counts: (runs,) the rows of each, none below 0.
    """

    domain: Codes
    ends: np.ndarray
    counts: np.ndarray

    @classmethod
    def of_bins(cls, domain: Schema, estimates: np.ndarray) -> Strata:
        """Of the nearest nonnegative histogram, as `resampled` takes it."""
        counts = on_simplex(estimates, float(estimates.sum()))
        return cls(domain, np.arange(1, domain.size + 1), counts)

    @functools.cached_property
    def before(self) -> np.ndarray:
        """(runs + 1,) the count before each run, and that of all."""
        found = np.zeros(len(self.counts) + 1)
        np.cumsum(self.counts, out=found[1:])
        return found

    @property
    def rows(self) -> int:
        """The number of rows of the table."""
        return int(np.rint(self.before[-1]))

    @property
    def blocks(self) -> int:
        return -(-self.rows // BLOCK)

    def digest(self, step: int) -> str:
        """The name of the table of a step: equal where the release is."""
        hashed = hashlib.blake2b(f"{step} {self.domain!r}".encode(), digest_size=16)
        for part in (self.ends.astype("<i8"), self.before.astype("<f8")):
            hashed.update(np.ascontiguousarray(part).tobytes())
        return hashed.hexdigest()

    def block(self, number: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The rows of one block, by column."""
        rows = np.arange(number * BLOCK, min((number + 1) * BLOCK, self.rows))
        at = (rows + rng.random(len(rows))) * (self.before[-1] / self.rows)
        run = np.searchsorted(self.before, at, side="right") - 1
        # By rounding, beyond the last one that has rows.
        run = np.minimum(run, np.flatnonzero(np.diff(self.before))[-1])
        first, last = np.append(0, self.ends)[run], self.ends[run]
        part = (at - self.before[run]) / (self.before[run + 1] - self.before[run])
        area, cells = _laid(self.domain)
        goal = area[first] + part * (area[last] - area[first])
        place = np.clip(np.searchsorted(area, goal, side="right") - 1, first, last - 1)
        return self.domain.decode(place if cells is None else cells[place], rng)


def _laid(domain: Codes) -> tuple[np.ndarray, np.ndarray | None]:
    """The measure before each place, and the cell there (None: its own number)."""
    if isinstance(domain, Schema):
        return np.arange(domain.size + 1), None
    places: object = domain
    return area_before(places), partition_of(places).cells  # pyright: ignore[reportArgumentType]
