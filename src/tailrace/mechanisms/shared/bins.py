"""Questions to bins, and synthetic rows that follow released bins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tailrace.domain import Amount, Attribute, Categorical, Integer, Real, Schema
from tailrace.domain.attributes import listed
from tailrace.domain.growing import growing_column
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Sample, Table
from tailrace.mechanisms.shared.events import chosen
from tailrace.models.postprocess import on_simplex, rounded

# Bins at most. By reasoning: state takes some numbers for each, at a snapshot 120 MB under a
# schedule and 500 MB under `Adaptive`.
LARGEST = 10_000_000


def check_bins(domain: Schema, *, amounts: bool = False, growing: bool = False) -> None:
    """Refuse a domain whose cells cannot be bins."""
    check_schema(domain, amounts=amounts, growing=growing)
    if domain.bins.size > LARGEST:
        raise ConfigError(
            f"The domain has more than {LARGEST:,} bins: use fewer attributes or coarser edges."
        )


def check_schema(domain: Schema, *, amounts: bool = False, growing: bool = False) -> None:
    """Refuse a domain that is no schema, or has columns that do not fit.

    Those are amounts, and growing lists, where none can be.
    """
    if not isinstance(domain, Schema):
        raise ConfigError(
            "domain must be a Schema of attributes, for example Schema(age=Integer(0, 99))."
        )
    if not growing and (column := growing_column(domain)) is not None:
        raise ConfigError(
            f"domain has the growing list '{column}', which HistogramStream takes: declare all "
            "values here."
        )
    if domain.amounts and not amounts:
        raise ConfigError(
            f"domain has the amount '{next(iter(domain.amounts))}', which HistogramStream adds up; "
            "here use an Integer, or a Real with edges."
        )


def check_columns(domain: Schema, columns: Iterable[str]) -> None:
    """Refuse columns that the domain does not have."""
    for column in columns:
        if column not in domain.columns:
            raise ConfigError(
                f"The domain has no column '{column}': it has {', '.join(domain.columns)}."
            )


def axes_of(domain: Schema, columns: Sequence[str]) -> list[int]:
    """The places of different columns in the domain."""
    if not columns or not set(columns) <= set(domain.columns) or len(set(columns)) < len(columns):
        raise ConfigError(
            f"marginal takes different columns of the domain: {', '.join(domain.columns)}."
        )
    return [domain.columns.index(column) for column in columns]


def frozen(values: np.ndarray) -> np.ndarray:
    """The same values, for readers only."""
    shown = values.view()
    shown.setflags(write=False)
    return shown


def weights(domain: Schema, where: dict[str, Any]) -> np.ndarray:
    """The share of each bin that conditions select.

    A tuple is a range (of whole numbers, both ends included, or of reals), a list is any of its
    values. A bin of reals that a range covers in part counts in part.
    """
    check_columns(domain, where)
    asked = np.ones(1)
    for column, attribute in zip(domain.columns, domain.attributes, strict=True):
        try:
            chosen = (
                _chosen(column, attribute, where[column])
                if column in where
                else np.ones(attribute.size)
            )
        except TypeError:
            raise ConfigError(
                f"Ask for values of '{column}', or a range of them: {column}=(low, high)."
            ) from None
        asked = np.multiply.outer(asked, chosen).reshape(-1)
    return asked


def resampled(
    domain: Schema, estimates: np.ndarray, previous: Table, rng: np.random.Generator
) -> Sample:
    """Synthetic rows of the nearest nonnegative histogram, rounded.

    The total stays the same, and so do as many of the previous rows as possible.
    """
    wanted = rounded(on_simplex(estimates, float(estimates.sum())))
    have = previous.tally(_own, len(wanted))
    gone = chosen(previous, have, np.maximum(have - wanted, 0), rng)
    new = np.repeat(np.arange(len(wanted)), np.maximum(wanted - have, 0))
    return previous.after(gone, new, domain.decode(new, rng))


def _own(cells: np.ndarray) -> np.ndarray:
    """Rows of one cell are counted together."""
    return cells


def _chosen(column: str, attribute: Attribute, wanted: Any) -> np.ndarray:
    """The share of each value that one condition selects."""
    if isinstance(attribute, Amount):
        raise ConfigError(f"'{column}' is added up, and not counted: ask for its total or mean.")
    weights, pair = np.zeros(attribute.size), isinstance(wanted, tuple) and len(wanted) == 2
    if isinstance(attribute, Real):
        if not pair:
            raise ConfigError(f"Ask for a range of '{column}': {column}=(low, high).")
        edges = np.array(attribute.edges)
        overlap = np.clip(wanted[1], edges[:-1], edges[1:]) - np.clip(
            wanted[0], edges[:-1], edges[1:]
        )
        weights[: len(overlap)] = np.maximum(overlap, 0) / np.diff(edges)
        return weights
    values = (
        attribute.values
        if isinstance(attribute, Categorical)
        else range(attribute.low, attribute.high + 1)
    )
    if pair and isinstance(attribute, Integer):
        weights[
            [place for place, value in enumerate(values) if wanted[0] <= value <= wanted[1]]
        ] = 1.0
        return weights
    known = {value: place for place, value in enumerate(values)}
    for value in wanted if isinstance(wanted, list | tuple | set) else [wanted]:
        if value not in known:
            raise ConfigError(
                f"Column '{column}' has no such value in its domain, which has {listed(values)}."
            )
        weights[known[value]] = 1.0
    return weights
