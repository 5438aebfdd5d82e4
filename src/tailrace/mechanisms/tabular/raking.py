"""Expected counts of several columns, made to agree with each column's.

Post-processing. All workloads at once, as flat arrays: for each axis, the place of a cell's value
among the counts of single columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tailrace.counting.marginals import Marginals

# Rounds of raking to single columns; chosen by trial while building, no committed result.
_RAKES = 2
# Counts of a value are scaled up to this many times; chosen by reasoning: what was seen of a rare
# value is mostly noise.
_GREW = 5.0


@dataclass(frozen=True)
class Axis:
    """One axis of all workloads that have it."""

    cells: np.ndarray  # places of the cells among all workloads'
    group: np.ndarray  # of each cell: one for each workload and value
    source: np.ndarray  # of each group: the place of the value among the columns' cells


@dataclass(frozen=True)
class Raking:
    """How cells of several columns hang on those of single ones.

    Single columns come first among the marginals, every column among them.
    """

    marginals: Marginals

    @cached_property
    def singles(self) -> int:
        """The number of single columns."""
        return sum(len(clique) == 1 for clique in self.marginals.cliques)

    @cached_property
    def split(self) -> int:
        """The number of cells of single columns."""
        return int(self.marginals.offsets[self.singles])

    @cached_property
    def owner(self) -> np.ndarray:
        """(cells,) the workload of each cell."""
        return np.repeat(np.arange(len(self.marginals.cliques)), self.marginals.sizes)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Every axis of the workloads of several columns."""
        offsets, shapes = self.marginals.offsets, self.marginals.shapes
        first = {
            clique[0]: offsets[j] for j, clique in enumerate(self.marginals.cliques[: self.singles])
        }
        several = list(enumerate(self.marginals.cliques))[self.singles :]
        result = []
        for axis in range(max((len(clique) for _, clique in several), default=0)):
            cells, group, source, groups = [], [], [], 0
            for j, clique in several:
                if axis < len(clique):
                    sides = shapes[j]
                    digit = np.indices(sides)[axis].ravel()
                    cells.append(np.arange(offsets[j], offsets[j + 1]))
                    group.append(groups + digit)
                    source.append(first[clique[axis]] + np.arange(sides[axis]))
                    groups += sides[axis]
            result.append(Axis(*(np.concatenate(part) for part in (cells, group, source))))
        return tuple(result)

    def sums(self, flat: np.ndarray) -> np.ndarray:
        """(workloads,) the sum of each workload's cells."""
        return np.add.reduceat(flat, self.marginals.offsets[:-1])

    def variety(self, columns: np.ndarray) -> np.ndarray:
        """(columns,) the probability that two records differ, by (split,) counts."""
        alike = np.bincount(self.owner[: self.split], self._shares(columns) ** 2)
        return np.maximum(1 - alike, 0.0)

    def least(self, of_columns: np.ndarray) -> np.ndarray:
        """(workloads of several columns,) the least of each one's columns."""
        place = {clique[0]: j for j, clique in enumerate(self.marginals.cliques[: self.singles])}
        cliques = self.marginals.cliques[self.singles :]
        return np.array([min(of_columns[place[one]] for one in clique) for clique in cliques])

    def raked(self, counts: np.ndarray, columns: np.ndarray, total: float) -> np.ndarray:
        """Nonnegative counts of all workloads that agree with the columns'.

        A value of which the columns have many times the counts gets the rest as if columns were
        independent: a value never seen before has no other counts. Then rows and columns are scaled
        to the columns' counts in turn.

        Parameters
        counts: (cells,) of the workloads; those of single columns are not read.
        columns: (split,) counts of single columns, scaled here to `total`.
        """
        found, shares = np.maximum(counts, 0.0), self._shares(columns)
        if total <= 0:
            found[...] = 0.0
            return found
        found[: self.split] = total * shares
        missing, apart = [], np.ones_like(found)
        for axis in self.axes:
            own = shares[axis.source]
            missing.append(np.maximum(total * own - _GREW * self._grouped(axis, found), 0.0))
            apart[axis.cells] *= own[axis.group]
        more = np.zeros_like(found)
        for axis, lacking in zip(self.axes, missing, strict=True):
            own = shares[axis.source]
            each = np.divide(lacking, own, out=np.zeros_like(lacking), where=own > 0)
            more[axis.cells] += each[axis.group] * apart[axis.cells]
        found = found + more
        for _ in range(_RAKES):
            for axis in self.axes:
                sums = self._grouped(axis, found)
                factor = np.divide(
                    total * shares[axis.source], sums, out=np.zeros_like(sums), where=sums > 0
                )
                found[axis.cells] *= factor[axis.group]
        found[: self.split] = total * shares
        return found

    def _grouped(self, axis: Axis, found: np.ndarray) -> np.ndarray:
        return np.bincount(axis.group, found[axis.cells], minlength=len(axis.source))

    def _shares(self, columns: np.ndarray) -> np.ndarray:
        """(split,) nonnegative shares of each column's values; even where none has any."""
        held, owner = np.maximum(columns, 0.0), self.owner[: self.split]
        sums = np.bincount(owner, held, minlength=self.singles)[owner]
        return np.divide(held, sums, out=1 / self.marginals.sizes[owner], where=sums > 0)
