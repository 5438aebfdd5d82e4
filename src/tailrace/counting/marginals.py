"""Marginals of a table, counted in one pass.

Counts of all marginals are one flat array. Marginals that share attributes are counted together: a
*covering* is fewer and larger marginals, each still small, of which the others are sums. A row of
22 attributes lies in one cell of each of its 231 pairs, but of far fewer blocks that cover them.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from tailrace.domain import Schema
from tailrace.errors import ConfigError, DataError
from tailrace.privacy.loss import whole

# Cells of one array of counts.
_MOST = 2**31
# Cells of a block. Chosen by reasoning: few enough to stay in a nearest cache, and to be
# fetched from an engine.
_BLOCK = 2**12


@dataclass(frozen=True)
class Marginals:
    """Some marginals of a table, by their cliques.

    A clique is the indices of a marginal's attributes. Counts of all of them are one flat array:
    first the cells of the first clique, its last attribute changing fastest, and so on.

    >>> pairs = Marginals(shape=(2, 3, 2), cliques=((0, 1), (1, 2)))
    >>> pairs.part(pairs.tally(np.array([[0, 2, 1], [1, 2, 1], [-1, -1, -1]])), 1)
    array([[0, 0],
           [0, 0],
           [0, 2]])
    """

    shape: tuple[int, ...]
    cliques: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.shape or any(size < 1 for size in self.shape):
            raise ConfigError("shape must be the number of values of each attribute.")
        for clique in self.cliques:
            ascending = all(a < b for a, b in itertools.pairwise(clique))
            if not clique or not ascending or clique[0] < 0 or clique[-1] >= len(self.shape):
                raise ConfigError("A clique must be indices of one or more attributes, ascending.")
        if not self.cliques or len(set(self.cliques)) != len(self.cliques):
            raise ConfigError("cliques must be one or more different cliques.")
        if self.size > _MOST:
            raise ConfigError(
                f"These marginals have {self.size:,} cells; at most {_MOST:,} can be counted: use "
                "fewer or coarser attributes."
            )

    @functools.cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's marginal."""
        return tuple(tuple(self.shape[a] for a in clique) for clique in self.cliques)

    @functools.cached_property
    def size(self) -> int:
        """The cells of all marginals together."""
        return sum(map(math.prod, self.shapes))

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """The cells of each marginal."""
        return np.array([math.prod(shape) for shape in self.shapes], np.int64)

    @functools.cached_property
    def offsets(self) -> np.ndarray:
        """Where each marginal begins in the flat array.

        The last entry is the end: the cells of marginal i are `offsets[i]:offsets[i + 1]`.
        """
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def part(self, flat: np.ndarray, i: int) -> np.ndarray:
        """Marginal i of a flat array, as a shaped view."""
        return flat[self.offsets[i] : self.offsets[i + 1]].reshape(self.shapes[i])

    def index(self, clique: tuple[int, ...]) -> int:
        """The number of the marginal of this clique."""
        if clique not in self._indices:
            raise ConfigError("This clique is not among the marginals.")
        return self._indices[clique]

    def tally(self, digits: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """The flat counts of some rows.

        Parameters
        digits: (n, attributes) the numbers of the rows' values. A row with a number outside its
            attribute, -1 above all, is dropped.
        rows: how many rows each entry stands for; None: one.
        """
        from tailrace.domain import kernel

        if digits.ndim != 2 or digits.shape[1] != len(self.shape):
            raise DataError(
                f"digits must be an array (rows, {len(self.shape)}): one number for each attribute."
            )
        here = np.ascontiguousarray(digits, np.int32)
        weights = np.zeros(0, np.int64) if rows is None else np.ascontiguousarray(rows, np.int64)
        if self._covered(len(digits)):
            return self.summed(kernel.marginals(here, weights, *self.covering._layout))
        return kernel.marginals(here, weights, *self._layout)

    def _covered(self, rows: int) -> bool:
        """Whether so many rows are counted faster by blocks.

        A row's count in a block costs two of a marginal's, and a block's cell that is summed up
        costs eight: chosen by trial while building (benchmarks/tabular_counting.py times the
        counting).
        """
        if rows * len(self.cliques) <= 8 * self.size:
            # Without looking for blocks.
            return False
        summing = int(self.covering.sizes[self._block].sum())
        return rows * (len(self.cliques) - 2 * len(self.covering.cliques)) > 8 * summing

    @functools.cached_property
    def covering(self) -> Marginals:
        """Blocks that hold every clique: one where few cells."""
        attributes = sorted({a for clique in self.cliques for a in clique})
        if math.prod(self.shape[a] for a in attributes) <= max(_BLOCK, self.size):
            return Marginals(self.shape, (tuple(attributes),))
        return Marginals(self.shape, _blocks(self.shape, self.cliques, _BLOCK))

    def summed(self, blocks: np.ndarray) -> np.ndarray:
        """The flat counts, from those of the covering."""
        flat = np.empty(self.size, np.int64)
        for i, (clique, b) in enumerate(zip(self.cliques, self._block, strict=True)):
            block = enumerate(self.covering.cliques[b])
            others = tuple(axis for axis, a in block if a not in clique)
            self.part(flat, i)[...] = self.covering.part(blocks, b).sum(axis=others)
        return flat

    def query(self, digits: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """One query for the covering's counts, where rows lie.

        `digits` has columns `digit0`, ... of rows that are counted. The columns are `cell` and
        `rows`; cells without rows are left out.
        """
        return self.covering._stacked(digits).group_by("cell").agg(nw.len().alias("rows"))

    def _stacked(self, digits: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The cells of all rows in all marginals, one column.

        Databases are asked in SQL: one text is quicker read than many expressions, and narwhals
        unpivots on DuckDB's default connection, where the rows of any other one are not found.
        """
        native: Any = digits.to_native()
        names, numbers, texts = [f"marginal{i}" for i in range(len(self.cliques))], [], []
        layout = zip(names, self.offsets[:-1].tolist(), self.cliques, self._strides, strict=True)
        for name, offset, clique, strides in layout:
            terms = list(zip(clique, strides, strict=True))
            numbers.append(
                sum((nw.col(f"digit{a}") * s for a, s in terms), nw.lit(offset)).alias(name)
            )
            written = (f"{s} * digit{a}" for a, s in terms)
            texts.append(f"{' + '.join((str(offset), *written))} as {name}")
        listed = ", ".join(names)
        if digits.implementation.is_duckdb():
            numbered = native.project(", ".join(texts))
            return nw.from_native(numbered.project(f"unnest([{listed}]) as cell"))
        columns = digits.select(*numbers).unpivot(variable_name="marginal", value_name="cell")
        return columns.select("cell")

    @functools.cached_property
    def _indices(self) -> dict[tuple[int, ...], int]:
        return {clique: i for i, clique in enumerate(self.cliques)}

    @functools.cached_property
    def _block(self) -> list[int]:
        """The smallest block of the covering that holds each clique."""
        found = sorted((int(size), b) for b, size in enumerate(self.covering.sizes))
        held = [(b, set(self.covering.cliques[b])) for _, b in found]
        return [next(b for b, block in held if block.issuperset(clique)) for clique in self.cliques]

    @functools.cached_property
    def _layout(self) -> tuple[np.ndarray, ...]:
        """The arrays of the compiled loop.

        The shape, the offsets, and for each clique a stretch of attributes with their strides.
        """
        starts = np.cumsum([0, *map(len, self.cliques)])
        members, strides = (list(itertools.chain(*part)) for part in (self.cliques, self._strides))
        parts = (self.shape, self.offsets, starts, members, strides)
        return tuple(np.array(part, np.int64) for part in parts)

    @functools.cached_property
    def _strides(self) -> list[tuple[int, ...]]:
        """The stride of each attribute in its marginal's cells."""
        return [
            tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))
            for shape in self.shapes
        ]


def all_ways(shape: tuple[int, ...], ways: int) -> Marginals:
    """All marginals of `ways` attributes.

    An attribute of one value is public and is left out.

    >>> all_ways((2, 1, 3, 2), 2).cliques
    ((0, 2), (0, 3), (2, 3))
    """
    whole("The number of attributes of each marginal", ways)
    telling = [a for a, size in enumerate(shape) if size > 1]
    if not telling:
        raise ConfigError("Every attribute has one value: there is nothing to count.")
    return Marginals(tuple(shape), tuple(itertools.combinations(telling, min(ways, len(telling)))))


def chosen(schema: Schema, columns: tuple[tuple[str, ...], ...]) -> Marginals:
    """The marginals of these columns of a schema.

    An attribute of one value is left out, and a marginal named twice is counted once.

    >>> from tailrace.domain import Integer
    >>> schema = Schema(age=Integer(0, 9), sex=Integer(0, 1), year=Integer(5, 5))
    >>> chosen(schema, (("sex", "age"), ("age", "year"))).cliques
    ((0, 1), (0,))
    """
    shape, found = schema.shape, []
    for names in columns:
        different = not isinstance(names, str) and names and len(set(names)) == len(names)
        if not different or set(names) - set(schema.columns):
            raise ConfigError(
                "A marginal is a list of different columns of the domain: "
                f"{', '.join(schema.columns)}."
            )
        found.append(tuple(sorted(a for a in map(schema.columns.index, names) if shape[a] > 1)))
    cliques = tuple(dict.fromkeys(clique for clique in found if clique))
    if not cliques:
        raise ConfigError("Name one or more marginals, of attributes with more than one value.")
    return Marginals(shape, cliques)


def _blocks(
    shape: tuple[int, ...], cliques: tuple[tuple[int, ...], ...], most: int
) -> tuple[tuple[int, ...], ...]:
    """Blocks of at most `most` cells that hold every clique.

    They are found greedily: a block begins with a clique and takes the attribute that completes
    most cliques for its size, while there is room. A block of one clique may be larger.
    """
    member = np.zeros((len(cliques), len(shape)), bool)
    for i, clique in enumerate(cliques):
        member[i, list(clique)] = True
    logs, room = np.log2(np.maximum(shape, 2)), math.log2(most)
    blocks = []
    while len(member):
        inside = member[0].copy()
        while True:
            missing = member & ~inside
            one = missing.sum(axis=1) == 1
            gains = missing[one].sum(axis=0) / logs
            gains[logs[inside].sum() + logs > room + 1e-9] = 0
            if not gains.any():
                break
            inside[np.argmax(gains)] = True
        blocks.append(tuple(np.flatnonzero(inside).tolist()))
        member = member[(member & ~inside).any(axis=1)]
    return tuple(dict.fromkeys(blocks))
