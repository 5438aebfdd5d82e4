"""Files that are used whole: one for each period, by its name, or one for each step, in the order
of names.
"""

from datetime import UTC, datetime, timedelta

import pytest

from tailrace import DataError, Integer, Schema, StateError
from tailrace.calendar import Calendar
from tailrace.sources import NamedFiles, OrderedFiles, Reader, Shelf, Used, named_shelf

NUMBERED = Schema(number=Integer(0, 999))
DAYS = Calendar(start="2026-01-01", period="1 day", timezone="Europe/Berlin")


@pytest.fixture
def put(tmp_path):
    """Write a file of numbers into the folder."""

    def put(name, *rows, columns="number"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([columns, *map(str, rows)]) + "\n")
        return path

    put("notes.csv", 500)
    return put


@pytest.fixture
def named(tmp_path):
    def make(name="%Y-%m-%d.csv", late="next", calendar=DAYS, deletes=None, **columns):
        return NamedFiles(
            path=tmp_path / "in",
            name=name,
            deletes=deletes,
            reader=Reader(domain=NUMBERED, **columns),
            calendar=calendar,
            used=Used(tmp_path / "used.json"),
            late=late,
        )

    return make


@pytest.fixture
def ordered(tmp_path):
    def make(files="*.csv", deletes=None, **columns):
        shelf = Shelf(path=tmp_path / "in", files=files, deletes=deletes)
        return OrderedFiles(
            shelf=shelf,
            reader=Reader(domain=NUMBERED, **columns),
            used=Used(tmp_path / "used.json"),
        )

    return make


def read(source, step):
    """The numbers inserted and deleted."""
    batch = source.batch(step)
    return [
        frame if frame is None else sorted(int(n) for n in frame["number"])
        for frame in (batch.adds, batch.deletes)
    ]


def adds(source, step):
    return read(source, step)[0] or []


def test_a_file_goes_to_the_period_that_its_name_says(put, named):
    put("2026-01-01.csv", 1, 2)
    put("2026-01-03.csv", 3)
    put("2025-12-31.csv", 99)
    put("2026-02-30.csv", 98)
    put("2026-01-02.csv.csv", 97)
    assert [adds(named(), step) for step in (1, 2, 3, 4)] == [[1, 2], [], [3], []]
    assert named().ready(3) and not named().over


def test_names_are_local_times(put, named):
    hours = Calendar(start="2026-01-01T00:00", period="6 hours", timezone="America/New_York")
    put("20260101-05.csv", 5)
    put("20260101-06.csv", 6)
    source = named("%Y%m%d-%H.csv", calendar=hours)
    assert [adds(source, step) for step in (1, 2)] == [[5], [6]]
    source.clock = lambda: datetime(2026, 1, 1, 5, tzinfo=UTC) + timedelta(hours=6)
    assert source.ready(1) and not source.ready(2)


def test_names_may_stand_in_folders_and_hold_signs(put, named):
    put("2026/01/cases [a] 01.csv", 2)
    put("2026/01/.cases [a] 01.csv", 3)
    put("2026/01/01/cases [a] 01.csv", 4)
    assert adds(named("%Y/%m/cases [a] %d.csv"), 1) == [2]
    assert adds(named("%Y/%m/cases a %d.csv"), 1) == []


@pytest.mark.parametrize(("late", "third"), [("next", [1, 3]), ("drop", [3])])
def test_a_file_that_comes_after_its_period(put, named, late, third):
    assert [adds(named(late=late), step) for step in (1, 2)] == [[], []]
    put("2026-01-01.csv", 1)
    put("2026-01-03.csv", 3)
    assert adds(named(late=late), 3) == third
    assert adds(named(late=late), 3) == third  # cut off, and asked for again
    assert adds(named(late=late), 4) == []


def test_a_named_file_changed_after_use_is_passed_over_and_shown(put, named):
    path = put("2026-01-01.csv", 1)
    source = named()
    assert adds(source, 1) == [1]
    assert not source.used.files["2026-01-01.csv"].differs(path)
    put("2026-01-01.csv", 1, 2)
    assert adds(source, 2) == []
    assert source.used.files["2026-01-01.csv"].differs(path), "what was added is not read either"


def test_named_deletes(put, named):
    put("2026-01-01.csv", 1)
    put("gone-2026-01-01.csv", 9)
    put("gone-2026-01-03.csv", 8)
    source = named(deletes="gone-%Y-%m-%d.csv")
    assert [read(source, step) for step in (1, 2, 3)] == [[[1], [9]], [None, None], [[], [8]]]


def test_an_op_column_in_whole_files(put, named):
    put("2026-01-01.csv", "1,insert", "2,delete", "3,else", columns="number,op")
    assert read(named(op="op"), 1) == [[1], [2]]


def test_a_named_file_of_the_wrong_shape_is_refused_and_not_noted(put, named, tmp_path):
    put("2026-01-01.csv", 1, columns="age")
    with pytest.raises(DataError, match=r"^2026-01-01.csv has no column 'number'"):
        named().batch(1)
    assert not (tmp_path / "used.json").exists()


def test_a_named_shelf_holds_what_its_source_would_read(put, tmp_path):
    put("gone/2026.csv")
    put("a-2026.csv")
    shelf = named_shelf(tmp_path / "in", "a-%Y.csv", "gone/%Y.csv")
    assert [(file.name, file.deletes) for file in shelf.found()] == [
        ("a-2026.csv", False),
        ("gone/2026.csv", True),
    ]


def test_each_file_is_a_step_in_the_order_of_names(put, ordered, tmp_path):
    (tmp_path / "in" / "notes.csv").unlink()
    put("b.csv", 2)
    put("a.csv", 1)
    source = ordered()
    assert [source.ready(step) and adds(source, step) for step in (1, 2)] == [[1], [2]]
    assert not source.ready(3)
    with pytest.raises(StateError, match="no file for step 3"):
        source.batch(3)
    put("c.csv", 3)
    assert source.ready(3) and adds(source, 3) == [3]


def test_order_is_by_the_whole_name_and_no_file_is_skipped(put, ordered, tmp_path):
    (tmp_path / "in" / "notes.csv").unlink()
    put("a/b.csv", 2)
    put("a-1.csv", 1)
    put("a.csv", 0)
    source = ordered("**/*.csv")
    assert [adds(source, step) for step in (1, 2, 3)] == [[1], [0], [2]]
    assert not source.ready(4)


def test_a_step_that_was_cut_off_takes_the_same_file(put, ordered, tmp_path):
    (tmp_path / "in" / "notes.csv").unlink()
    put("b.csv", 2)
    put("c.csv", 3)
    assert adds(ordered(), 1) == [2]
    put("a.csv", 1)  # comes too late for its place in the order
    assert adds(ordered(), 1) == [2]
    assert [ordered().ready(2), adds(ordered(), 2), ordered().ready(3)] == [True, [3], False]


def test_deletes_of_the_same_name_belong_to_a_file_and_count_once(put, ordered, tmp_path):
    (tmp_path / "in" / "notes.csv").unlink()
    put("x/a.csv", 1)
    put("y/a.csv", 2)
    put("z/b.csv", 3)
    put("gone/a.csv", 9)
    source = ordered("**/*.csv", deletes="gone/*.csv")
    assert [read(source, step) for step in (1, 2, 3)] == [[[1], [9]], [[2], []], [[3], []]]
    assert read(ordered("**/*.csv", deletes="gone/*.csv"), 3) == [[3], []]
    assert not source.ready(4)


def test_files_are_not_begun_again_where_it_is_lost_which_were_used(put, ordered, named, tmp_path):
    for source in (ordered(), named()):
        with pytest.raises(StateError, match=r"^private/used.json is missing"):
            source.batch(2)
    with pytest.raises(StateError, match=r"^private/used.json is missing"):
        ordered().ready(2)
