"""Distance of a synthetic table from the true one, by columns.

For each of them: the total variation, half the sum over cells of the differences of shares. It is
the share of rows that would have to move. Numbers with many values are cut into bins that hold
equal parts of the true rows; a missing value is a cell of its own.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from tailrace.calls import told
from tailrace.errors import DataError
from tailrace.privacy.loss import whole
from tailrace.stream.release import Release, kind_of

if TYPE_CHECKING:
    import polars as pl


@told
def compare(real: Any, synthetic: Any, *, bins: int = 20) -> Any:
    """PRIVATE: compare a release, or any table, with the true table.

    Returns a row for each column and pair, the farthest first: `columns`, `cells` (how many
    there are), `variation` (the total variation, from 0 to 1) and `largest` (the largest difference
    of a cell's share). It is a frame of the kind of `real`.

    Parameters
        real: the true rows, a frame of any engine.
        synthetic: a release, or a frame with some of its columns.
        bins: the most values of a number that are told apart.

    >>> import polars as pl
    >>> real = pl.DataFrame({"sex": ["f", "f", "m", "m"]})
    >>> compare(real, pl.DataFrame({"sex": ["f", "m", "m", "m"]})).row(0)
    ('sex', 2, 0.25, 0.25)
    """
    import polars as pl

    most = whole("bins", bins)
    true, made = _opened("real", real), _opened("synthetic", synthetic)
    columns = [name for name in made.columns if name in true.columns]
    if not columns or not len(true) or not len(made):
        raise DataError("real and synthetic must be tables with rows and a column in common.")
    codes = {name: _coded(true[name], made[name], most) for name in columns}
    sets = [(name,) for name in columns] + list(itertools.combinations(columns, 2))
    rows = [(", ".join(one), *_far([codes[name] for name in one])) for one in sets]
    names = ["columns", "cells", "variation", "largest"]
    found = pl.DataFrame(rows, schema=names, orient="row").sort("variation", descending=True)
    return kind_of(None if isinstance(real, Release) else real).given(found)


def _opened(name: str, table: Any) -> pl.DataFrame:
    if isinstance(table, Release):
        table = table.table
    try:
        opened = nw.from_native(table)
        eager = opened.collect() if isinstance(opened, nw.LazyFrame) else opened
        return eager.to_polars()
    except Exception:
        raise DataError(f"{name} must be a data frame, or a release.") from None


def _coded(true: pl.Series, made: pl.Series, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """A code for each value of both: equal values have equal codes."""
    import polars as pl

    if true.dtype.is_numeric() and made.dtype.is_numeric() and true.n_unique() > bins:
        values, others = (one.cast(pl.Float64).fill_nan(None) for one in (true, made))
        known = values.drop_nulls().to_numpy()
        inner = np.linspace(0, 1, bins + 1)[1:-1]
        edges = np.unique(np.quantile(known, inner)) if len(known) else np.zeros(0)
        found = [
            np.where(one.is_null(), -1, np.searchsorted(edges, one.fill_null(0.0), side="right"))
            for one in (values, others)
        ]
        return found[0], found[1]
    both = pl.concat([one.cast(pl.String, strict=False) for one in (true, made)])
    codes = both.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return codes[: len(true)], codes[len(true) :]


def _far(codes: list[tuple[np.ndarray, np.ndarray]]) -> tuple[int, float, float]:
    """Cells, total variation and largest difference of the columns together."""
    sides = [np.stack([one[side] for one in codes], axis=1) for side in (0, 1)]
    _, cells = np.unique(np.concatenate(sides), axis=0, return_inverse=True)
    cells = cells.reshape(-1)
    many = int(cells.max()) + 1
    true, made = (
        np.bincount(part, minlength=many) / len(part)
        for part in (cells[: len(sides[0])], cells[len(sides[0]) :])
    )
    off = np.abs(true - made)
    return many, float(off.sum() / 2), float(off.max())
