"""Rows known by the numbers of their values: of tables of any width, and through checks, releases
and the store.
"""

from dataclasses import replace

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from tailrace import (
    Categorical,
    ConfigError,
    Event,
    HistogramStream,
    Integer,
    Noise,
    PureDP,
    Real,
    Schema,
    Stream,
)
from tailrace.checks import check_mechanism
from tailrace.domain.digits import Digits
from tailrace.mechanisms.base import Table
from tailrace.stream.state import no_rows

WARD = Schema(
    sex=Categorical(["f", "m"], outside="other"),
    age=Integer(0, 4),
    weight=Real(edges=[0, 50, 100], outside="other"),
)
WIDE = Schema(**{f"c{i}": WARD.attributes[i % 3] for i in range(99)})


class WideHistogram(HistogramStream):
    """A histogram whose synthetic rows are known by their digits."""

    @property
    def rows(self):
        return Digits(self.domain)

    def sample(self, view, previous, rng):
        shape = self.domain.shape
        cells = np.ravel_multi_index(tuple(previous.cells.T), shape)
        known = Table(cells, previous.columns, previous.numbers, previous.born)
        made = super().sample(view, known, rng)
        digits = np.stack(np.unravel_index(made.table.cells, shape), axis=1).astype(np.int32)
        table = made.table
        known = Table(digits, table.columns, table.numbers, table.born)
        return replace(made, table=known)


def batch(seed, rows=60):
    rng = np.random.default_rng(seed)
    sexes, ages = rng.choice(["f", "m", "?"], rows), rng.integers(0, 6, rows)
    return pl.DataFrame({"sex": sexes, "age": ages, "weight": rng.normal(50, 40, rows)})


def test_digits_are_the_parts_of_the_cell_number():
    rows = nw.from_native(batch(0))
    cells, digits = WARD.cells(rows), WARD.digits(rows)
    assert digits.dtype == np.int32 and digits.shape == (60, 3) and 0 < (cells < 0).sum() < 60
    kept = cells >= 0
    assert np.ravel_multi_index(tuple(digits[kept].T), WARD.shape).tolist() == cells[kept].tolist()
    assert (digits[~kept] == -1).all()
    assert WARD.digits(rows.head(0)).shape == (0, 3)


def test_rows_of_a_wide_table_lead_back_to_their_digits():
    codes, rng = Digits(WIDE), np.random.default_rng(1)
    assert codes.size > 2**63 and codes.columns == WIDE.columns and codes.types == WIDE.types
    digits = np.stack([rng.integers(0, size, 200) for size in WIDE.shape], axis=1).astype(np.int32)
    columns = codes.decode(digits, rng)
    frame = pl.DataFrame(
        {name: pl.Series(name, values.tolist()) for name, values in columns.items()}
    )
    assert np.array_equal(codes.cells(nw.from_native(frame)), digits)


def test_no_one_number_says_which_row_it_is():
    with pytest.raises(ConfigError, match="no one number"):
        Digits(WARD).cell(nw.from_native(batch(0)))


def test_an_attribute_of_too_many_values_is_refused():
    frame = nw.from_native(pl.DataFrame({"age": [1]}))
    with pytest.raises(ConfigError, match="2\\*\\*31 values"):
        Schema(age=Integer(1, 2**31)).digits(frame)
    assert Schema(age=Integer(1, 2**31 - 1)).digits(frame).tolist() == [[0]]


def test_a_mechanism_may_know_its_rows_by_digits():
    mechanism = WideHistogram(domain=WARD, privacy=PureDP(epsilon=1), unit=Event(), horizon=5)
    check_mechanism(
        mechanism, [(batch(0), None), (batch(1), batch(0, 20)), (None, None), (batch(2, 0), None)]
    )


def test_releases_of_such_rows_are_kept_and_read_again():
    mechanism = WideHistogram(domain=WARD, privacy=PureDP(epsilon=1), unit=Event(), horizon=5)
    assert no_rows(mechanism).cells.shape == (0, 3)
    with Stream(mechanism, noise=Noise.insecure(1)) as stream:
        before, release = stream.push(batch(0)), stream.push(batch(1), batch(0, 30))
    assert len(release.rows) > 20 and release.rows.cells.shape[1] == 3
    stayed = len(release.rows) - len(release.added)
    assert 0 < stayed == len(before.rows) - len(release.removed)
    assert np.array_equal(release.rows.cells[stayed:], release.added.cells)
    frame = nw.from_native(release.table, eager_only=True)
    again = mechanism.rows.cells(frame)
    assert np.array_equal(again, release.rows.cells) and again.dtype == np.int32
