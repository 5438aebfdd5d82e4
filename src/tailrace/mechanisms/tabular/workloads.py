"""Shared by tabular mechanisms: workloads, refusals, scores, synthetic rows."""

from __future__ import annotations

import abc
import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tailrace.counting.marginals import Marginals, all_ways, chosen
from tailrace.counting.plan import Plan
from tailrace.domain import Schema
from tailrace.domain.digits import Digits
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Sample, Table
from tailrace.mechanisms.shared.bins import check_schema
from tailrace.mechanisms.shared.events import OfEvents, changed
from tailrace.models.tables import Fit, HasMarginals, JunctionTree, Model
from tailrace.models.tables.rows import Rows, agrees, resampled
from tailrace.privacy.loss import whole

Workload = int | tuple[tuple[str, ...], ...]
# Cells of a table whose rows are remembered by one number: an int64 must hold it.
_LARGEST = 1 << 62


def default_fit() -> JunctionTree:
    """A junction tree of 65,536 cells at most.

    The limit was chosen by trial while building (no committed result): larger trees were slower and
    little better.
    """
    return JunctionTree(limit=2**16)


def marginals_of(domain: Schema, workload: Workload) -> Marginals:
    """The marginals of a workload."""
    return (
        all_ways(domain.shape, workload) if isinstance(workload, int) else chosen(domain, workload)
    )


class Tabular(OfEvents):
    """The shared part of both tabular mechanisms."""

    domain: Schema
    workload: Workload
    fit: Fit

    def _check(self) -> None:
        """Refuse what a tabular mechanism cannot promise or fit."""
        check_schema(self.domain)
        object.__setattr__(self, "workload", _asked(self.workload))
        super()._check()
        if self._key is not None and self.domain.size >= _LARGEST:
            raise ConfigError(
                "The domain has 2**62 cells or more, too many to remember whose rows are in which: "
                "protect Event(), or use fewer or coarser attributes."
            )
        fit, marginals = self.fit, self.marginals
        if isinstance(fit, type) or not hasattr(fit, "unpack"):
            raise ConfigError(
                "fit must be a way to fit tables, for example JunctionTree() or "
                "MultiplicativeWeights()."
            )
        if any(fit.cells(marginals.shape, [clique]) > fit.limit for clique in marginals.cliques):
            raise ConfigError(
                f"fit may hold {fit.limit:,} cells, and a workload needs more: use fewer or "
                f"coarser columns, or a larger limit."
            )

    @functools.cached_property
    def rows(self) -> Digits:
        return Digits(self.domain)

    @functools.cached_property
    @abc.abstractmethod
    def marginals(self) -> Marginals:
        """The counted marginals."""

    def plan(self, public: Any) -> Plan:  # noqa: ARG002
        return Plan(codes=self.domain, key=self._key, marginals=self.marginals)


def _asked(workload: Any) -> Workload:
    """Check a workload: a number, or tuples of column names."""
    if isinstance(workload, int) and not isinstance(workload, bool):
        return whole("workload", workload)
    if (
        isinstance(workload, list | tuple)
        and workload
        and all(isinstance(names, list | tuple) for names in workload)
    ):
        return tuple(tuple(names) for names in workload)
    raise ConfigError(
        "workload must be the number of columns of each marginal, for example 2, or the columns of "
        'each: workload=(("age", "sex"), ("age", "city")).'
    )


def rows_in(marginals: Marginals, counts: np.ndarray) -> int:
    """The number of counted rows: one cell per marginal each."""
    return int(marginals.part(counts, 0).sum())


def flat(marginals: Marginals, model: HasMarginals, total: float | None = None) -> np.ndarray:
    """All marginals of a model, flat, rescaled to `total`."""
    found = np.concatenate([part.reshape(-1) for part in model.marginals(marginals.cliques)])
    return found if total is None else found * (total / model.total)


def followed(
    codes: Digits, model: Model | None, previous: Table, rng: np.random.Generator
) -> Sample:
    """Synthetic rows of a model, few changed; no model: none.

    Rows that agree with the model stay: only their number changes.
    """
    births = previous.births
    if model is None:
        return changed(codes, previous, np.zeros(len(previous), np.bool_), births.cells[:0], rng)
    rows = Rows(births.cells.T, previous.died, previous.now, previous.tally)
    many = round(model.total) - len(previous)
    if len(previous) and agrees(model, rows):
        _, new = resampled(model, Rows.of(births.cells[:0]), max(many, 0), rng)
        living = np.flatnonzero(previous.died > previous.now)
        gone = np.sort(rng.permutation(living)[: max(-many, 0)])
    else:
        gone, new = resampled(model, rows, round(model.total), rng)
    return previous.after(births.numbers[gone], new, codes.decode(new, rng))


def scores(
    marginals: Marginals, exact: np.ndarray, expected: np.ndarray, noise: float | np.ndarray
) -> np.ndarray:
    """Distance of each workload's exact counts from the expected ones.

    The 1-norm, less the part that noise and sampling explain: `noise` is the mean absolute noise of
    a cell (of each workload), sampling draws records from the expected shares. `expected` is public
    and is rounded to integers here.
    """
    distances = np.abs(exact - np.rint(expected).astype(np.int64))
    sums = np.add.reduceat(distances, marginals.offsets[:-1])
    chance = np.add.reduceat(np.sqrt(2 / math.pi * np.abs(expected)), marginals.offsets[:-1])
    return sums - np.rint(noise * marginals.sizes + chance).astype(np.int64)


def spanning(marginals: Marginals, order: Sequence[int]) -> list[int]:
    """Reorder workloads: first a spanning forest of the columns.

    Those come first that connect columns which no earlier one connected.
    """
    # component of each column
    part = list(range(len(marginals.shape)))
    first: list[int] = []
    for j in order:
        parts = {part[column] for column in marginals.cliques[j]}
        if len(parts) > 1:
            first.append(j)
            part = [min(parts) if one in parts else one for one in part]
    return [*first, *(j for j in order if j not in first)]


def within(fit: Fit, marginals: Marginals, order: Iterable[int]) -> list[int]:
    """The workloads a model can hold, taken greedily in order."""
    order = list(order)
    asked = [marginals.cliques[j] for j in order]
    return list(itertools.compress(order, fit.room(marginals.shape, (), asked, together=True)))


def beside(fit: Fit, marginals: Marginals, held: Iterable[int], more: Iterable[int]) -> list[int]:
    """Those of `more` that a model can hold beside `held`, each by itself."""
    more = list(more)
    cliques, asked = ([marginals.cliques[j] for j in part] for part in (held, more))
    return list(itertools.compress(more, fit.room(marginals.shape, cliques, asked)))


def fits(fit: Fit, marginals: Marginals, workloads: Iterable[int]) -> bool:
    """Whether one model can hold all these workloads."""
    return fit.cells(marginals.shape, [marginals.cliques[j] for j in workloads]) <= fit.limit
