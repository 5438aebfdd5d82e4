"""Questions that a plan asks, with true answers on stand-in data.

A question is a kind of count: one value of a column, a rectangle of the map. It is asked many times
of each release, and its error is the root mean square over all of them.
"""

from __future__ import annotations

import abc
import itertools
from collections import deque
from typing import Any, NamedTuple, Protocol

import narwhals as nw
import numpy as np
import polars as pl

from tailrace.counting.marginals import Marginals
from tailrace.domain import Box, Schema
from tailrace.mechanisms.base import Mechanism, Takes
from tailrace.mechanisms.histogram import HistogramStream, HistogramView
from tailrace.mechanisms.snapshot.histogram import SnapshotHistogram, SnapshotView
from tailrace.mechanisms.spatial.stream import SpatialStream
from tailrace.mechanisms.spatial.view import SpatialView
from tailrace.mechanisms.tabular.view import TabularView
from tailrace.mechanisms.tabular.workloads import Tabular
from tailrace.planning.facts import Batch

# Mechanisms whose views are asked; of others the synthetic rows are counted.
_ANSWERING = (HistogramStream, Tabular, SnapshotHistogram, SpatialStream)
# Named columns at most, pairs of columns, cells of a pair, rectangles of each size, and sides of
# districts: enough for a stable mean, few enough to be asked at every step shown.
_NAMED, _PAIRS, _CELLS, _RECTANGLES, _SIDE = 3, 30, 1 << 22, 40, 8
_SHARES = (0.01, 0.1)


class Answered(NamedTuple):
    """Released and true counts of one question."""

    shown: np.ndarray
    true: np.ndarray


class Questions(Protocol):
    """All that is asked of a mechanism, and the truth so far."""

    @property
    def names(self) -> tuple[str, ...]: ...
    def happened(self, batch: Batch) -> None:
        """Take a step's rows into the truth."""
        ...

    def answered(self, release: Any) -> list[Answered]:
        """Ask a view, or a frame of synthetic rows."""
        ...


def answers_itself(mechanism: Mechanism) -> bool:
    """Whether the view of a mechanism is asked, not its rows."""
    return isinstance(mechanism, _ANSWERING)


def questions_of(mechanism: Mechanism, rng: np.random.Generator) -> Questions:
    """The questions that fit a mechanism's data."""
    if hasattr(mechanism, "trajectory"):
        return OfJourneys(mechanism)
    if isinstance(mechanism.domain, Schema):
        return OfCells(mechanism)
    return OfPlaces(mechanism, rng)


def cliques_of(domain: Schema) -> dict[str, list[tuple[int, ...]]]:
    """The columns that each question is about, by its name."""
    columns = range(len(domain.columns))
    singles = [(column,) for column in columns]
    if len(columns) <= _NAMED:
        found = {f"one value of {domain.columns[column]}": [(column,)] for column in columns}
    else:
        found = {"one value of a column": singles}
    pairs = [
        (i, j)
        for i, j in itertools.combinations(columns, 2)
        if domain.shape[i] * domain.shape[j] <= _CELLS
    ]
    if pairs:
        some = np.unique(np.linspace(0, len(pairs) - 1, _PAIRS).astype(int))
        found["one pair of values of two columns"] = [pairs[place] for place in some]
    return found


class OfCells:
    """Values of columns, and pairs of them."""

    def __init__(self, mechanism: Mechanism):
        assert isinstance(mechanism.domain, Schema)
        self.domain, self.cliques = mechanism.domain, cliques_of(mechanism.domain)
        self.anew = mechanism.takes is Takes.Snapshots
        different = dict.fromkeys(itertools.chain.from_iterable(self.cliques.values()))
        self.marginals = Marginals(self.domain.shape, tuple(different))
        self.true = np.zeros(self.marginals.size, np.int64)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.cliques)

    def _tally(self, frame: pl.DataFrame) -> np.ndarray:
        digits = self.domain.digits(nw.from_native(frame, eager_only=True))
        return self.marginals.tally(digits[digits[:, 0] >= 0])

    def happened(self, batch: Batch) -> None:
        adds, deletes = batch
        self.true = self._tally(adds) + (0 if self.anew else self.true)
        if deletes is not None and len(deletes):
            self.true = self.true - self._tally(deletes)

    def answered(self, release: Any) -> list[Answered]:
        tally = self._tally(release) if isinstance(release, pl.DataFrame) else None
        found = []
        for cliques in self.cliques.values():
            shown = [
                self._shown(release, clique) if tally is None else self._part(tally, clique)
                for clique in cliques
            ]
            true = [self._part(self.true, clique) for clique in cliques]
            found.append(Answered(np.concatenate(shown), np.concatenate(true)))
        return found

    def _part(self, counts: np.ndarray, clique: tuple[int, ...]) -> np.ndarray:
        return self.marginals.part(counts, self.marginals.index(clique)).reshape(-1)

    def _shown(self, view: Any, clique: tuple[int, ...]) -> np.ndarray:
        names = [self.domain.columns[column] for column in clique]
        if isinstance(view, TabularView):
            return view.marginal(*names).values.reshape(-1)
        if isinstance(view, HistogramView):
            return view.marginal(*names)[0].reshape(-1)
        assert isinstance(view, SnapshotView)
        others = tuple(axis for axis in range(len(self.domain.shape)) if axis not in clique)
        return view.estimates.reshape(self.domain.shape).sum(axis=others).reshape(-1)


class _Present(abc.ABC):
    """True counts of what came and has not left, by rule or deleted."""

    def __init__(self, mechanism: Mechanism, shape: tuple[int, ...]):
        self.true = np.zeros(shape, np.int64)
        self.retention: int | None = getattr(mechanism, "retention", None)
        self.leaving: deque[np.ndarray] = deque()

    @abc.abstractmethod
    def _tally(self, frame: pl.DataFrame) -> np.ndarray:
        """Count the rows of a frame by cell."""

    def happened(self, batch: Batch) -> None:
        adds, deletes = batch
        came = self._tally(adds)
        self.true = self.true + came
        if deletes is not None:
            self.true = self.true - self._tally(deletes)
        if self.retention is not None:
            self.leaving.append(came)
            if len(self.leaving) > self.retention:
                self.true = self.true - self.leaving.popleft()


class OfPlaces(_Present):
    """Rectangles of the map, of any shape, where rows are."""

    def __init__(self, mechanism: Mechanism, rng: np.random.Generator):
        self.schema: Schema | None = getattr(mechanism.domain, "schema", None)
        values = 1 if self.schema is None else self.schema.size
        super().__init__(mechanism, (len(_SHARES) * _RECTANGLES, values))
        self.domain: Any = getattr(mechanism.domain, "ground", mechanism.domain)
        self.columns = list(self.domain.columns)
        self.rng, self.placed = rng, False
        self.low, self.high = np.zeros((2, len(self.true), len(self.columns)))

    def happened(self, batch: Batch) -> None:
        if not self.placed and len(batch[0]):
            self._place(batch[0])
        super().happened(batch)

    def _place(self, frame: pl.DataFrame) -> None:
        """Lay rectangles around rows, where somebody would ask."""
        self.placed = True
        low, high = np.array(self.domain.low, float), np.array(self.domain.high, float)
        points = frame.select(pl.col(self.columns).cast(pl.Float64)).to_numpy()
        many = len(self.true)
        centre = (points[self.rng.integers(0, len(points), many)] - low) / (high - low)
        share = np.repeat(_SHARES, _RECTANGLES)[:, None]
        part = share ** self.rng.dirichlet(np.full(len(low), 4.0), many)
        # Anywhere around the row, but inside of the map.
        corner = np.clip(centre - self.rng.random(part.shape) * part, 0, 1 - part)
        self.low = low + corner * (high - low)
        self.high = self.low + part * (high - low)

    @property
    def names(self) -> tuple[str, ...]:
        found = tuple(f"a rectangle of {100 * share:g} % of the area" for share in _SHARES)
        if self.schema is None:
            return found
        return (*found, *(f"{name}, with one value of each attribute" for name in found))

    def _tally(self, frame: pl.DataFrame) -> np.ndarray:
        rows = nw.from_native(frame, eager_only=True)
        value = np.zeros(len(frame), np.int64) if self.schema is None else self.schema.cells(rows)
        counted = value >= 0
        if not isinstance(self.domain, Box):
            counted &= self.domain.cells(rows) >= 0
        frame, value, values = frame.filter(counted), value[counted], self.true.shape[1]
        points = frame.select(pl.col(self.columns).cast(pl.Float64)).to_numpy()
        return np.array(
            [
                np.bincount(
                    value[((points >= low) & (points < high)).all(axis=1)], minlength=values
                )
                for low, high in zip(self.low, self.high, strict=True)
            ]
        )

    def answered(self, release: Any) -> list[Answered]:
        if isinstance(release, pl.DataFrame):
            shown = self._tally(release)
        else:
            assert isinstance(release, SpatialView)
            corners = zip(self.low, self.high, strict=True)
            parts = (release.asked(low, high, {}) for low, high in corners)
            shown = np.array([part @ release.held for part in parts])
        parts = zip(np.split(shown, len(_SHARES)), np.split(self.true, len(_SHARES)), strict=True)
        both = [*parts]
        every = [Answered(one.sum(axis=1), true.sum(axis=1)) for one, true in both]
        if self.schema is None:
            return every
        return [*every, *(Answered(one.ravel(), true.ravel()) for one, true in both)]


class OfJourneys(_Present):
    """Journeys by the districts that they begin in and pass."""

    names: tuple[str, ...] = (
        f"the journeys that pass through a district (one of {_SIDE} by {_SIDE})",
        f"the journeys that begin in a district (one of {_SIDE} by {_SIDE})",
    )

    def __init__(self, mechanism: Any):
        self.domain, self.journey, self.order = (
            mechanism.domain,
            mechanism.trajectory,
            mechanism.order,
        )
        super().__init__(mechanism, (2, _SIDE**2))

    def _tally(self, frame: pl.DataFrame) -> np.ndarray:
        """(2, districts) journeys that pass, and that begin."""
        low, high = self.domain.low, self.domain.high
        district = pl.lit(0)
        for axis, name in enumerate(self.domain.columns):
            width = (high[axis] - low[axis]) / _SIDE
            part = ((pl.col(name).cast(pl.Float64) - low[axis]) / width).floor()
            district = district * _SIDE + part.clip(0, _SIDE - 1).cast(pl.Int64)
        rows = frame.with_columns(_district=district).sort(self.journey, self.order)
        passed = rows.unique([self.journey, "_district"])["_district"]
        began = rows.unique(self.journey, keep="first", maintain_order=True)["_district"]
        return np.stack(
            [np.bincount(one.to_numpy(), minlength=_SIDE**2) for one in (passed, began)]
        )

    def answered(self, release: Any) -> list[Answered]:
        return [Answered(*both) for both in zip(self._tally(release), self.true, strict=True)]
