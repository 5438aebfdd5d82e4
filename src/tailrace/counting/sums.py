"""Sums of amounts by groups, counted in one pass.

Sums are of whole units, so they add up like counts: of any split of the rows, in any order.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np


@dataclass(frozen=True)
class Sums:
    """Sums of the codes of amounts, by the values of some attributes.

    Sums of all amounts are one flat array: first those of the first amount, a group for each
    combination of values, the last attribute changing fastest.

    shape: the number of values of each counted attribute.
    by: the attributes whose combinations are groups, ascending; none: one group.
    amounts: how many are added up.

    >>> Sums(shape=(2, 3), by=(0,), amounts=1).tally(
    ...     np.array([[0, 2], [1, 1], [1, 0], [-1, -1]]), np.array([[5], [7], [1], [-1]])
    ... )
    array([5, 8])
    """

    shape: tuple[int, ...]
    by: tuple[int, ...]
    amounts: int

    @functools.cached_property
    def groups(self) -> int:
        """The number of groups."""
        return math.prod(self.shape[a] for a in self.by)

    @property
    def size(self) -> int:
        """The sums of all amounts together."""
        return self.groups * self.amounts

    @functools.cached_property
    def _strides(self) -> list[tuple[int, int]]:
        """Each attribute of the groups, with its stride."""
        sizes = [self.shape[a] for a in self.by]
        return [(a, math.prod(sizes[place + 1 :])) for place, a in enumerate(self.by)]

    def tally(
        self, digits: np.ndarray, codes: np.ndarray, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """The flat sums of some rows.

        Parameters
        digits: (n, attributes) the numbers of the rows' values; -1 where dropped.
        codes: (n, amounts) the units of their amounts.
        rows: how many rows each entry stands for; None: one.
        """
        from tailrace.domain import kernel

        group = np.zeros(len(digits), np.int64)
        for a, stride in self._strides:
            group += stride * digits[:, a].astype(np.int64)
        group[(digits < 0).any(axis=1)] = -1
        many = np.ones(len(digits), np.int64) if rows is None else rows
        weights = (codes[:, i].astype(np.int64) * many for i in range(self.amounts))
        return np.concatenate([kernel.add_up(group, one, self.groups) for one in weights])

    def query(self, digits: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """One query for the sums, where rows lie.

        `digits` has columns `digit0`, ... of attributes and `amount0`, ... of amounts, of rows
        that are counted. The columns are `cell`, a group, and `amount0`, ...: sums.
        """
        terms = (nw.col(f"digit{a}") * stride for a, stride in self._strides)
        group = sum(terms, nw.col("amount0") * 0)
        names = [f"amount{i}" for i in range(self.amounts)]
        numbered = digits.select(group.alias("cell"), *map(nw.col, names))
        # Databases add up whole numbers in wider types than ours.
        return numbered.group_by("cell").agg(*(nw.col(n).sum().cast(nw.Int64) for n in names))

    def fetched(self, found: nw.DataFrame[Any]) -> np.ndarray:
        """The flat sums, from the rows of the query."""
        from tailrace.domain import kernel

        names = ("cell", *(f"amount{i}" for i in range(self.amounts)))
        cells, *sums = (found.get_column(n).to_numpy().astype(np.int64) for n in names)
        return np.concatenate([kernel.add_up(cells, one, self.groups) for one in sums])
