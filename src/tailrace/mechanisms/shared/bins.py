"""Questions to bins, and synthetic rows that follow released bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrace.domain import Attribute, Categorical, Integer, Real, Schema
from tailrace.domain.attributes import listed
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Sample, Table
from tailrace.models.postprocess import on_simplex, rounded


def weights(domain: Schema, where: dict[str, Any]) -> np.ndarray:
    """The share of each bin that conditions select.

    A tuple is a range (of whole numbers, both ends included, or of reals), a list is any of its
    values. A bin of reals that a range covers in part counts in part.
    """
    unknown = [column for column in where if column not in domain.columns]
    if unknown:
        raise ConfigError(
            f"The domain has no column '{unknown[0]}': it has {', '.join(domain.columns)}."
        )
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
    # which of a bin's rows leave is decided by chance, not by age
    order = rng.permutation(len(previous.cells))
    rank = np.empty(len(order), np.int64)
    rank[order] = _rank_within(previous.cells[order])
    stayed = rank < wanted[previous.cells]
    missing = wanted - np.bincount(previous.cells[stayed], minlength=len(wanted))
    new = np.repeat(np.arange(len(wanted)), missing)
    values = domain.decode(new, rng)
    columns = {
        name: np.concatenate([previous.columns[name][stayed], values[name]])
        for name in domain.columns
    }
    return Sample(Table(np.concatenate([previous.cells[stayed], new]), columns), stayed)


def _chosen(column: str, attribute: Attribute, wanted: Any) -> np.ndarray:
    """The share of each value that one condition selects."""
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


def _rank_within(cells: np.ndarray) -> np.ndarray:
    """The rank of each row among its cell's rows."""
    by_cell = np.argsort(cells, kind="stable")
    counts = np.bincount(cells, minlength=1)
    starts = np.cumsum(counts) - counts
    rank = np.empty(len(cells), np.int64)
    rank[by_cell] = np.arange(len(cells)) - np.repeat(starts, counts)
    return rank
