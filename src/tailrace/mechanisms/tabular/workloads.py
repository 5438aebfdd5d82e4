"""Shared by tabular mechanisms: workloads, refusals, plans, synthetic rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrace.counting.marginals import Marginals, all_ways, chosen
from tailrace.counting.plan import Plan
from tailrace.domain import Schema
from tailrace.domain.digits import Digits
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Sample, Table
from tailrace.models.tables import HasMarginals, JunctionTree, Model
from tailrace.models.tables.rows import resampled
from tailrace.privacy.loss import whole
from tailrace.privacy.unit import Unit, User, check_events

Workload = int | tuple[tuple[str, ...], ...]
# Cells of a table whose rows are remembered by one number: an int64 must hold it.
_LARGEST = 1 << 62


def default_fit() -> JunctionTree:
    """A junction tree of 65,536 cells at most.

    The limit was chosen by trial while building (no committed result): larger trees were slower and
    little better.
    """
    return JunctionTree(limit=2**16)


def asked(domain: Any, workload: Any) -> Workload:
    """Check a workload: a number, or tuples of column names."""
    if not isinstance(domain, Schema):
        raise ConfigError(
            "domain must be a Schema of attributes, for example Schema(age=Integer(0, 99))."
        )
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


def marginals_of(domain: Schema, workload: Workload) -> Marginals:
    """The marginals of a workload."""
    return (
        all_ways(domain.shape, workload) if isinstance(workload, int) else chosen(domain, workload)
    )


def check(mechanism: Any) -> None:
    """Refuse what a tabular mechanism cannot promise."""
    check_events(mechanism)
    if isinstance(mechanism.unit, User) and mechanism.domain.size >= _LARGEST:
        raise ConfigError(
            "The domain has 2**62 cells or more, too many to remember whose rows are in which: "
            "protect Event(), or use fewer or coarser attributes."
        )


def check_fit(fit: Any, marginals: Marginals) -> None:
    """Refuse a wrong fit, and workloads too large for it."""
    if isinstance(fit, type) or not hasattr(fit, "unpack"):
        raise ConfigError(
            "fit must be a way to fit tables, for example JunctionTree() or "
            "MultiplicativeWeights()."
        )
    if any(fit.cells(marginals.shape, [clique]) > fit.limit for clique in marginals.cliques):
        raise ConfigError(
            f"fit may hold {fit.limit:,} cells, and a workload needs more: use fewer or coarser "
            f"columns, or a larger limit."
        )


def plan_of(domain: Schema, marginals: Marginals, unit: Unit) -> Plan:
    """The plan of every step."""
    return Plan(
        codes=domain, key=unit.column if isinstance(unit, User) else None, marginals=marginals
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
    """Synthetic rows of a model, few changed; no model: none."""
    before = previous.cells
    stayed, new = np.zeros(len(before), np.bool_), before[:0]
    if model is not None:
        stayed, new = resampled(model, before, round(model.total), rng)
    return changed(codes, previous, stayed, new, rng)


def changed(
    codes: Digits, previous: Table, stayed: np.ndarray, new: np.ndarray, rng: np.random.Generator
) -> Sample:
    """The rows that stayed, then the new ones."""
    values = codes.decode(new, rng)
    columns = {
        name: np.concatenate([previous.columns[name][stayed], values[name]])
        for name in codes.columns
    }
    return Sample(Table(np.concatenate([previous.cells[stayed], new]), columns), stayed)
