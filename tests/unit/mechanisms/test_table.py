"""Tables of rows by birth: a step costs what it changes, and older tables stay."""

import numpy as np
import pytest

from tailrace.domain import Integer, Schema
from tailrace.mechanisms.base import Table
from tailrace.mechanisms.shared.bins import resampled

NONE = np.zeros(0, np.int64)


def modulo(cells):
    return cells % 5


def table_of(cells):
    return Table.of(cells, {"x": cells * 2.0, "name": cells.astype(str).astype(object)})


def plain(table):
    rows = zip(table.numbers, table.cells, table.columns["x"], table.columns["name"], strict=True)
    return [tuple(map(str, row)) for row in rows]


@pytest.mark.parametrize("by_number", [True, False])
def test_tables_change_as_lists_do_and_older_ones_stay(by_number):
    rng = np.random.default_rng(1)
    table = table_of(rng.integers(0, 9, 3000))
    shown, born, kept = plain(table), 3000, []
    for _ in range(40):
        gone = rng.random(len(table)) < 0.1
        cells = rng.integers(0, 9, rng.integers(0, 400))
        kept.append((table, shown))
        assert np.array_equal(table.tally(modulo, 5), np.bincount(table.cells % 5, minlength=5))
        going = table.numbers[gone] if by_number else gone
        before, new = table, table_of(cells)
        sample = table.after(going, cells, new.columns)
        table = sample.table
        assert np.array_equal(sample.removed, before.numbers[gone])
        assert plain(before.numbered(sample.removed)) == [
            row for row, goes in zip(shown, gone, strict=True) if goes
        ]
        added = [(str(int(row[0]) + born), *row[1:]) for row in plain(new)]
        assert plain(table.since(before.born)) == added
        shown = [row for row, goes in zip(shown, gone, strict=True) if not goes] + added
        born += len(cells)
        assert (table.born, len(table)) == (born, len(shown))
        assert plain(table) == shown
    # Each was looked at only now, after all that followed it.
    for older, rows in kept:
        fresh = Table.__new__(Table)
        fresh.__dict__.update(older.__dict__)
        for made in ("_living", "cells", "columns", "numbers"):
            fresh.__dict__.pop(made, None)
        assert plain(fresh) == rows


def test_a_table_may_have_two_next_ones():
    table = table_of(np.arange(6))
    one = table.after(np.array([2]), np.array([7]), table_of(np.array([7])).columns).table
    other = table.after(np.array([3]), np.array([8]), table_of(np.array([8])).columns).table
    again = one.after(np.array([6]), NONE, table_of(NONE).columns).table
    assert table.cells.tolist() == [0, 1, 2, 3, 4, 5]
    assert one.cells.tolist() == [0, 1, 3, 4, 5, 7]
    assert other.cells.tolist() == [0, 1, 2, 4, 5, 8]
    assert again.cells.tolist() == [0, 1, 3, 4, 5]


def test_a_step_moves_only_what_it_changes():
    table = table_of(np.arange(100_000))
    table = table.after(np.zeros(len(table), bool), np.arange(9), table_of(np.arange(9)).columns)
    held = table.table.births
    arrays = (held.cells, held.numbers, held.died, *held.columns.values())
    new = table_of(np.arange(500))
    later = table.table.after(np.arange(0, 1000, 2), new.cells, new.columns).table
    assert later.births is held
    assert all(
        a is b
        for a, b in zip(
            arrays, (held.cells, held.numbers, held.died, *held.columns.values()), strict=True
        )
    )
    assert not {"cells", "columns", "numbers"} & set(later.__dict__)


def test_dead_rows_never_outnumber_living_ones():
    table = table_of(np.arange(20_000))
    for _ in range(30):
        new = table_of(np.arange(1500))
        table = table.after(table.numbers[:1500], new.cells, new.columns).table
        assert len(table) == 20_000
        assert len(table.died) <= 2 * len(table) + 1500


def test_arrays_from_elsewhere_are_left_alone():
    cells, values = np.arange(3), np.arange(3.0)
    for array in (cells, values):
        array.setflags(write=False)
    table = Table.of(cells, {"x": values})
    fewer = table.after(np.array([1]), NONE, {"x": np.zeros(0)}).table
    more = fewer.after(np.array([0]), np.array([7]), {"x": np.array([7.0])}).table
    assert (fewer.cells.tolist(), more.columns["x"].tolist()) == ([0, 2], [2.0, 7.0])


def test_values_of_a_wider_type_are_kept_whole():
    table = Table.of(np.arange(2), {"x": np.array(["a", "b"])})
    later = table.after(NONE, np.arange(1), {"x": np.array(["longer"])}).table
    assert later.columns["x"].tolist() == ["a", "b", "longer"]


def test_every_row_of_a_bin_is_as_likely_to_leave():
    domain = Schema(a=Integer(0, 2))
    cells = np.array([0, 1, 1, 0, 1, 1, 1, 2])
    left, runs = np.zeros(8), 4000
    for seed in range(runs):
        previous = Table.of(cells, {"a": cells})
        # A dead row is no candidate, and a row born later is.
        previous = previous.after(np.array([2]), np.array([1]), {"a": np.array([1])}).table
        sample = resampled(domain, np.array([2.0, 3.0, 2.0]), previous, np.random.default_rng(seed))
        assert sorted(sample.table.cells.tolist()) == [0, 0, 1, 1, 1, 2, 2]
        assert set(sample.removed.tolist()) < {1, 4, 5, 6, 8} and len(sample.removed) == 2
        left += np.bincount(np.searchsorted([0, 1, 3, 4, 5, 6, 7, 8], sample.removed), minlength=8)
    share = left[[1, 3, 4, 5, 7]] / runs
    assert np.abs(share - 0.4).max() < 5 * np.sqrt(0.24 / runs)


def test_rows_leave_the_same_whatever_tables_came_before():
    """A stream that was opened again draws as one that was not."""
    domain, rng = Schema(a=Integer(0, 9)), np.random.default_rng(3)
    table = Table.of(NONE, {"a": NONE})
    for step in range(12):
        read = Table(table.cells.copy(), dict(table.columns), table.numbers.copy(), table.born)
        estimates = rng.integers(0, 500, 10).astype(float)
        one, other = (
            resampled(domain, estimates, held, np.random.default_rng(step))
            for held in (table, read)
        )
        assert np.array_equal(one.removed, other.removed)
        assert np.array_equal(one.table.cells, other.table.cells)
        assert np.array_equal(one.table.numbers, other.table.numbers)
        table = one.table
