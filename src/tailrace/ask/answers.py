"""Answers from any view, through what views have in common.

| a view has                  | answers                                             |
|-----------------------------|-----------------------------------------------------|
| `count(**where)`            | records by columns (histograms, tables, snapshots)  |
| `count(low=, high=)`        | points or journeys by coordinates; with attributes   |
| `estimate(query)`           | people of a panel by their values at the step       |
| `marginal(*columns)`        | combinations of values; else counted one by one     |
| `amounts`                   | totals and means by group                           |
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.domain import Categorical, Integer, Schema, attributes_of
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.panel.queries import AtLeast, Weighted
from tailrace.mechanisms.shared.totals import GroupTotals

if TYPE_CHECKING:
    import polars as pl

# Cells of a marginal that are counted one by one, where a view has no marginals.
_MANY = 100_000


@dataclass(frozen=True, eq=False)
class Marginal:
    """Estimated counts of combinations of values, with standard errors.

    columns: their names.
    labels: by column, its values in order.
    values: an axis per column.
    errors: of the same shape.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[Any, ...], ...]
    values: np.ndarray
    errors: np.ndarray
    frames: Callable[[pl.DataFrame], Any] | None = None

    def to_frame(self) -> Any:
        """A row for each combination: its values, `count` and `error`."""
        import polars as pl

        names = _beside(self.columns, "count", "error")
        codes = np.unravel_index(np.arange(self.values.size), self.values.shape)
        columns = {
            name: pl.Series(name, list(known), strict=False).gather(code)
            for name, known, code in zip(self.columns, self.labels, codes, strict=True)
        }
        made = pl.DataFrame(
            {**columns, names[0]: self.values.ravel(), names[1]: self.errors.ravel()}
        )
        return made if self.frames is None else self.frames(made)

    def __repr__(self) -> str:
        return f"<marginal of {', '.join(self.columns)}: {self.values.size} cells>"

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        return frame._repr_html_() if hasattr(frame, "_repr_html_") else repr(frame)


def count(view: Any, domain: Any, where: Mapping[str, Any]) -> Estimate:
    """Estimate how many records match."""
    for column in where:
        if column not in domain.columns:
            there = ", ".join(domain.columns)
            raise ConfigError(f"There is no column '{column}': ask of {there}.")
    if hasattr(view, "estimate"):
        return view.estimate(_held(view, domain, where))
    if isinstance(domain, Schema):
        return view.count(**where)
    return view.count(**_corners(domain, where))


def proportion(view: Any, domain: Any, where: Mapping[str, Any]) -> Estimate:
    """Estimate the share of records that match.

    With p of n records, p / n moves by at most (|dp| + p / n |dn|) / n to first order. So by
    Minkowski its standard error is at most the sum of theirs, whatever their correlation.
    """
    if hasattr(view, "proportion"):
        return view.proportion(_held(view, domain, where))
    part, whole = count(view, domain, where), count(view, domain, {})
    if whole.value <= 0:
        return Estimate(0.0, math.inf)
    share = part.value / whole.value
    return Estimate(share, (part.error + abs(share) * whole.error) / whole.value)


def _held(view: Any, domain: Schema, where: Mapping[str, Any]) -> Weighted:
    """The people of a panel who have one of some values at the step."""
    wanted = where.get(domain.columns[0], list(view.values))
    if isinstance(wanted, tuple) and len(wanted) == 2:
        chosen = [one is not None and wanted[0] <= one <= wanted[1] for one in view.values]
    else:
        several = list(wanted) if isinstance(wanted, list | tuple | set) else [wanted]
        if not set(several) <= set(view.values):
            there = ", ".join(str(value) for value in view.values)
            raise ConfigError(f"'{domain.columns[0]}' holds one of {there}: ask for these.")
        chosen = [one in several for one in view.values]
    return Weighted(np.array(chosen, float))


def _corners(domain: Any, where: Mapping[str, Any]) -> dict[str, Any]:
    """The box that ranges of coordinates make, else all of it, and attributes as asked."""
    box = getattr(domain, "box", domain)
    low, high = list(box.low), list(box.high)
    known = attributes_of(domain)
    for column, wanted in where.items():
        if column in known:
            continue
        if not isinstance(wanted, tuple) or len(wanted) != 2:
            raise ConfigError(f"Ask for a range of '{column}': {column} between LOW and HIGH.")
        place = box.columns.index(column)
        low[place], high[place] = max(low[place], wanted[0]), min(high[place], wanted[1])
        if low[place] > high[place]:
            raise ConfigError(f"The range of '{column}' lies outside the area, or is turned round.")
    own = {column: wanted for column, wanted in where.items() if column in known}
    return {"low": low, "high": high, **own}


def marginal(view: Any, domain: Any, columns: Sequence[str]) -> Marginal:
    """Estimate the count of every combination of values."""
    known = attributes_of(domain)
    if not columns or not set(columns) <= set(known):
        there = f"of {', '.join(known)}" if known else "a table, not of places"
        raise ConfigError(f"A marginal is asked for by columns {there}.")
    labels = tuple(labels_of(known[column]) for column in columns)
    if hasattr(view, "marginal"):
        found = view.marginal(*columns)
        values, errors = found if isinstance(found, tuple) else (found.values, found.errors)
        return Marginal(tuple(columns), labels, values, np.broadcast_to(errors, values.shape))
    ways = [conditions(known[column]) for column in columns]
    if math.prod(map(len, ways)) > _MANY:
        raise ConfigError(f"This marginal has more than {_MANY:,} cells: ask for fewer columns.")
    # A value for what lies outside cannot be asked for by itself.
    labels = tuple(known[: len(way)] for known, way in zip(labels, ways, strict=True))
    found = [
        count(view, domain, dict(zip(columns, cell, strict=True)))
        for cell in itertools.product(*ways)
    ]
    shape = tuple(map(len, ways))
    values, errors = (
        np.array([getattr(one, name) for one in found]).reshape(shape)
        for name in ("value", "error")
    )
    return Marginal(tuple(columns), labels, values, errors)


def with_amounts(view: Any) -> Any:
    """The view, if it adds up amounts."""
    if not getattr(view, "amounts", None):
        raise ConfigError("This stream adds up no amounts: declare one as Amount(low, high).")
    return view


def totals(view: Any, column: str) -> pl.DataFrame:
    """The total and the mean of an amount in each group, with standard errors."""
    import polars as pl

    found = with_amounts(view).totals(column)
    by, combinations = _groups(found)
    groups = [
        pl.Series(name, [one[place] for one in combinations], strict=False)
        for place, name in enumerate(by)
    ]
    names = _beside(by, "total", "error", "mean", "mean_error")
    numbers = (found.total, found.total_error, found.mean, found.mean_error)
    return pl.DataFrame([*groups, *map(pl.Series, names, numbers)])


def _groups(found: GroupTotals) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The columns that make groups, and the values of each group."""
    if found.groups is None:
        return (), [()]
    return found.groups.columns, [*itertools.product(*map(labels_of, found.groups.attributes))]


def labels_of(attribute: Any) -> tuple[Any, ...]:
    """The values of an attribute for people; None for what lies outside.

    >>> from tailrace import Real
    >>> labels_of(Real(edges=[0, 18, 65]))
    ('0 to 18', '18 to 65')
    """
    return tuple(
        f"{one[0]:g} to {one[1]:g}" if isinstance(one, tuple) else one
        for one in conditions(attribute)
    ) + ((None,) if attribute.outside == "other" else ())


def conditions(attribute: Any) -> list[Any]:
    """What to ask for each declared value: a value, or the range of a bin."""
    if isinstance(attribute, Categorical):
        return list(attribute.values)
    if isinstance(attribute, Integer):
        return list(range(attribute.low, attribute.high + 1))
    return list(itertools.pairwise(attribute.edges))


def measurements(view: Any, domain: Any) -> pl.DataFrame:
    """All noisy measurements of a view: what, cells, value, error."""
    import polars as pl

    found = [
        pl.DataFrame(
            {"what": [list(names)] * len(values), "cells": cells, "value": values, "error": errors},
            schema={
                "what": pl.List(pl.String),
                "cells": pl.List(pl.String),
                "value": pl.Float64,
                "error": pl.Float64,
            },
        )
        for names, cells, values, errors in measured(view, domain)
    ]
    return pl.concat(found)


Rows = tuple[Sequence[str], list[list[str]], np.ndarray, np.ndarray]


def measured(view: Any, domain: Any) -> list[Rows]:
    """Measurements by the columns that they count."""
    if hasattr(view, "leaves"):
        return [_leaves(view, domain)]
    if hasattr(view, "estimate"):
        return [_people(view, domain)]
    if hasattr(view, "noisy"):
        return _levels(view)
    sets = getattr(getattr(view, "marginals", None), "cliques", None)
    names = (
        [domain.columns]
        if sets is None
        else [[domain.columns[axis] for axis in one] for one in sets]
    )
    rows = []
    for columns in names:
        one = marginal(view, domain, columns)
        texts = [
            ["outside" if label is None else str(label) for label in known] for known in one.labels
        ]
        cells = [list(cell) for cell in itertools.product(*texts)]
        rows.append((columns, cells, one.values.ravel(), np.ravel(one.errors)))
    for column in getattr(view, "amounts", {}):
        found = view.totals(column)
        by, combinations = _groups(found)
        said = f"{found.amount.low:g} to {found.amount.high:g} by {found.amount.unit:g}"
        cells = [["outside" if v is None else str(v) for v in one] for one in combinations]
        names = [*by, f"total of {column}"]
        rows.append((names, [[*cell, said] for cell in cells], found.total, found.total_error))
    total = count(view, domain, {})
    return [((), [[]], np.array([total.value]), np.array([total.error])), *rows]


def _people(view: Any, domain: Any) -> Rows:
    """The people of a panel by their value at the step; or how often they had the second one."""
    try:
        found = [count(view, domain, {domain.columns[0]: value}) for value in view.values]
        cells = [[str(value)] for value in view.values]
    except ConfigError:
        often = range(view.step + 1)
        found = [view.estimate(AtLeast(times=times, of=view.step)) for times in often]
        cells = [[f"{view.values[1]} at least {times} of {view.step} times"] for times in often]
    return domain.columns, cells, *_pairs(found)


def _leaves(view: Any, domain: Any) -> Rows:
    leaves, known = view.leaves, attributes_of(domain)
    cells = [
        [f"{a:.10g} to {b:.10g}" for a, b in zip(low, high, strict=True)]
        for low, high in zip(leaves.low.tolist(), leaves.high.tolist(), strict=True)
    ]
    for axis, attribute in enumerate(known.values()):
        values = ["outside" if label is None else str(label) for label in labels_of(attribute)]
        ends = zip(leaves.first[:, axis].tolist(), leaves.last[:, axis].tolist(), strict=True)
        for cell, (first, last) in zip(cells, ends, strict=True):
            cell.append(", ".join(values[first:last]))
    return domain.columns, cells, leaves.count, leaves.error


def _levels(view: Any) -> list[Rows]:
    """The counts of journeys, each on its grids from coarse to fine."""
    return [
        (
            [name, "cell"],
            [[f"level {level}", str(cell)] for cell in range(len(counts))],
            counts,
            np.full(len(counts), scale * 2**0.5),
        )
        for name, noisy in view.noisy.items()
        for level, (counts, scale) in enumerate(zip(noisy.levels, noisy.scales, strict=True), 1)
    ]


def _pairs(found: Sequence[Estimate]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([one.value for one in found]), np.array([one.error for one in found])


def _beside(columns: Sequence[str], *names: str) -> list[str]:
    """Names of our own beside those of a domain."""
    found = []
    for name in names:
        while name in columns:
            name += "_"
        found.append(name)
    return found
