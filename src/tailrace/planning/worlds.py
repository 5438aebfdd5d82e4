"""Made-up worlds that rows are drawn from: types and places.

Both have clusters, the k-th of weight 1 / k, and a few rows anywhere. To move is to replace some
clusters by others.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tailrace.domain import Schema
from tailrace.domain.geometry import Places
from tailrace.domain.geometry.points import OnBox

# The shape of a world, chosen by reasoning on how cities and registers look: benchmarks/plan.py
# measures how far predictions made with it are off on real data.
# The share of rows outside of all clusters.
_ANYWHERE = 0.03
# Columns of more values are ranges, in which neighbouring values belong together.
_FEW = 12
# The share of rows that have the value of their type, in a column of few values.
_TYPICAL = 0.8
# Standard deviations of a cluster, in widths of the map or of a range of values: least and most.
_NARROW, _WIDE = 0.005, 0.03
# The standard deviation of the clusters' centres, and the share of the map in which 60 of them hold
# half of the rows: measured on this world, at seeds 0 to 2.
_SPREAD, _CROWD = 0.15, 0.02
# How much the rows of a cluster waver, relative to all rows, and how much of it lasts to the next
# step: chosen on the places of sf_evictions.
_LOCAL, _LASTS = 2.0, 0.9
# Places from which points on roads and in regions are drawn.
_POOL = 4096


class World(Protocol):
    """A distribution of rows that may move."""

    def draw(self, many: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Columns of so many rows."""
        ...

    def move(self, share: float, uneven: float, rng: np.random.Generator) -> None:
        """Replace some clusters by others; some have more rows than before, some less."""
        ...


class _Clusters:
    """Weights of clusters, which waver around their own."""

    def __init__(self, clusters: int) -> None:
        self.own = _weights(clusters)
        self.waver = np.zeros(len(self.own))

    @property
    def weights(self) -> np.ndarray:
        found = self.own * np.exp(self.waver)
        return found / found.sum()

    def _other(self, share: float, uneven: float, rng: np.random.Generator) -> np.ndarray:
        """Waver on, and choose which clusters are replaced."""
        fresh = rng.normal(0, _LOCAL * uneven, len(self.own))
        self.waver = _LASTS * self.waver + (1 - _LASTS**2) ** 0.5 * fresh
        return np.flatnonzero(rng.random(len(self.own)) < share)


def _weights(clusters: int) -> np.ndarray:
    weights = 1 / np.arange(1, max(clusters, 1) + 1)
    return weights / weights.sum()


class Types(_Clusters):
    """Rows of some types: columns that hang together, and others."""

    def __init__(self, domain: Schema, clusters: int, matter: int, rng: np.random.Generator):
        super().__init__(clusters)
        self.domain, self.clusters = domain, clusters
        columns = len(domain.columns)
        self.matter = set(rng.permutation(columns)[:matter].tolist()) if columns > 1 else {0}
        shape = np.array(domain.shape)[:, None]
        # (columns, clusters) the usual code of each type.
        self.usual = rng.integers(0, shape, (columns, len(self.weights)))
        self.width = rng.uniform(_NARROW, _WIDE, (columns, len(self.weights)))
        # Of a column that hangs on nothing: the shares of its values.
        self.shares = [rng.permutation(_weights(size)) for size in domain.shape]

    def move(self, share: float, uneven: float, rng: np.random.Generator) -> None:
        other = self._other(share, uneven, rng)
        shape = np.array(self.domain.shape)[:, None]
        self.usual[:, other] = rng.integers(0, shape, (len(shape), len(other)))

    def draw(self, many: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return self.of(rng.choice(len(self.weights), many, p=self.weights), rng)

    def of(self, kind: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Columns of rows of given types."""
        many = len(kind)
        anywhere = rng.random(many) < (_ANYWHERE if self.clusters else 1.0)
        digits = []
        for column, size in enumerate(self.domain.shape):
            codes = self._codes(column, size, kind, rng)
            digits.append(np.where(anywhere, rng.integers(0, size, many), codes))
        return self.domain.decode_digits(digits, rng)

    def _codes(
        self, column: int, size: int, kind: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        many, usual = len(kind), self.usual[column, kind]
        if column not in self.matter:
            return rng.choice(size, many, p=self.shares[column])
        if size > _FEW:
            # Reflected at the ends.
            around = usual + rng.normal(0, 1, many) * self.width[column, kind] * size
            return np.rint(np.abs((np.abs(around) + size - 1) % (2 * size - 2) - size + 1)).astype(
                int
            )
        other = rng.choice(size, many, p=self.shares[column])
        return np.where(rng.random(many) < _TYPICAL, usual, other)


class Points(_Clusters):
    """Points in a box, in a region or on roads, crowded in clusters."""

    def __init__(self, domain: Any, clusters: int, crowd: float, rng: np.random.Generator):
        super().__init__(clusters)
        self.domain, self.clusters = domain, clusters
        self.scale = (crowd / _CROWD) ** 0.5
        self.low, self.high = np.array(domain.low, float), np.array(domain.high, float)
        self.pool = self._places(rng) if isinstance(domain, OnBox) else None
        self.centre = self._centres(len(self.weights), rng)
        self.width = self.scale * rng.uniform(_NARROW, _WIDE, len(self.weights))

    def move(self, share: float, uneven: float, rng: np.random.Generator) -> None:
        other = self._other(share, uneven, rng)
        self.centre[other] = self._centres(len(other), rng)

    def draw(self, many: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return self._columns(self._points(many, rng))

    def around(self, which: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Points of given clusters."""
        return self._columns(self._points(len(which), rng, which))

    def journeys(self, many: int, points: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Straight journeys of so many points between places."""
        begin, end = self._points(many, rng), self._points(many, rng)
        along = np.linspace(0, 1, points)[None, :, None]
        path = begin[:, None] + along * (end - begin)[:, None]
        path[:, 1:-1] += rng.normal(0, _NARROW, path[:, 1:-1].shape)
        return self._columns(_reflected(path.reshape(-1, path.shape[-1])))

    def _points(
        self, many: int, rng: np.random.Generator, which: np.ndarray | None = None
    ) -> np.ndarray:
        """(points, dimensions) between 0 and 1."""
        sides = len(self.low)
        if which is None:
            which = rng.choice(len(self.weights), many, p=self.weights)
        found = self.centre[which] + rng.normal(0, 1, (many, sides)) * self.width[which, None]
        anywhere = rng.random(many) < (_ANYWHERE if self.clusters else 1.0)
        found[anywhere] = rng.random((int(anywhere.sum()), sides))
        return _reflected(found)

    def _columns(self, found: np.ndarray) -> dict[str, np.ndarray]:
        if self.pool is not None:
            found = self.pool[_nearest(found, self.pool)]
        places = self.low + found * (self.high - self.low)
        return {name: places[:, axis] for axis, name in enumerate(self.domain.columns)}

    def _places(self, rng: np.random.Generator) -> np.ndarray:
        """Places of a region or of roads, between 0 and 1."""
        cells = rng.integers(0, self.domain.size, _POOL)
        columns = self.domain.decode(cells, rng)
        places = np.stack([columns[name] for name in self.domain.columns], axis=1)
        return (places - self.low) / (self.high - self.low)

    def _centres(self, many: int, rng: np.random.Generator) -> np.ndarray:
        if self.pool is not None:
            return self.pool[rng.integers(0, len(self.pool), many)]
        return np.clip(rng.normal(0.5, _SPREAD * self.scale, (many, len(self.low))), 0.05, 0.95)


class Described:
    """Points with attributes: those of a cluster mostly have the same values."""

    def __init__(self, domain: Places, clusters: int, crowd: float, rng: np.random.Generator):
        self.points = Points(domain.ground, clusters, crowd, rng)
        self.types = Types(domain.schema, clusters, len(domain.schema.columns), rng)

    def move(self, share: float, uneven: float, rng: np.random.Generator) -> None:
        self.points.move(share, uneven, rng)

    def draw(self, many: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        weights = self.points.weights
        which = rng.choice(len(weights), many, p=weights)
        return {**self.points.around(which, rng), **self.types.of(which, rng)}


def _reflected(points: np.ndarray) -> np.ndarray:
    """Points that would leave the unit square, mirrored at its sides."""
    return np.clip(1 - np.abs(1 - np.abs(points)), 0.0, 1.0)


def _nearest(points: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """(points,) the place of the pool that is nearest to each."""
    squares, found = (pool**2).sum(axis=1), []
    for piece in np.array_split(points, len(points) // 2048 + 1):
        found.append(np.argmin(squares - 2 * piece @ pool.T, axis=1))
    return np.concatenate(found)
