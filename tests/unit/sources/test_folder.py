"""Files cut by the times of their rows: which step a row goes to, when files come late, grow,
change and are asked for again.
"""

import os
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from tailrace import Categorical, Corrupt, DataError, Integer, Schema, StateError
from tailrace.calendar import Calendar
from tailrace.sources import Reader, Shelf, TimedFiles, Used, files
from tailrace.storage import durable

NUMBERED = Schema(number=Integer(0, 999))
DAYS = Calendar(start="2026-01-01", period="1 day")
START = datetime(2026, 1, 1, tzinfo=UTC)


def day(step):
    """The date of a step."""
    return (START + timedelta(days=step - 1)).date().isoformat()


def table(*rows, columns="number,day"):
    return "\n".join([columns, *(",".join(map(str, row)) for row in rows)]) + "\n"


@pytest.fixture
def inbox(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def make(tmp_path, inbox):
    """A source that knows no more than what is written down: as a new process would make it."""

    def make(late="next", calendar=DAYS, files="*.csv", deletes=None, domain=NUMBERED, **columns):
        reader = Reader(domain=domain, **{"time": "day", **columns})
        shelf = Shelf(path=inbox, files=files, deletes=deletes)
        return TimedFiles(
            shelf=shelf,
            reader=reader,
            calendar=calendar,
            used=Used(tmp_path / "used.json"),
            late=late,
        )

    return make


def numbers(frame):
    return None if frame is None else sorted(int(number) for number in frame["number"])


def adds(source, step):
    return numbers(source.batch(step).adds) or []


def test_each_row_goes_to_the_step_of_its_time(inbox, make):
    (inbox / "a.csv").write_text(
        table((1, day(1)), (3, day(3)), (30, f"{day(3)}T23:59:59.999Z"), (4, f"{day(4)} 00:00"))
    )
    (inbox / "b.csv").write_text(table((10, day(1)), (0, day(0)), (99, "soon"), (98, "")))
    source = make()
    assert [adds(source, step) for step in (1, 2, 3, 4, 5)] == [[1, 10], [], [3, 30], [4], []]
    assert source.batch(6).deletes is None


def test_a_step_is_ready_when_it_is_closed_by_the_clock(make):
    source = make(calendar=Calendar(start="2026-01-01", period="1 day", grace="2 hours"))
    source.clock = lambda: START + timedelta(days=3, hours=1)
    assert [source.ready(step) for step in (1, 2, 3, 4)] == [True, True, False, False]
    source.clock = lambda: START + timedelta(days=3, hours=2)
    assert source.ready(3) and not source.ready(4) and not source.over


@pytest.mark.parametrize(("late", "second"), [("next", [1, 2]), ("drop", [2])])
def test_rows_of_closed_steps_in_a_new_file_are_late(inbox, make, late, second):
    (inbox / "a.csv").write_text(table((10, day(1))))
    source = make(late)
    assert adds(source, 1) == [10]
    (inbox / "b.csv").write_text(table((1, day(1)), (2, day(2)), (3, day(3)), (0, day(-4))))
    assert adds(source, 2) == second
    assert adds(make(late), 2) == second  # asked again by a new process
    assert [adds(make(late), step) for step in (3, 4)] == [[3], []]


def test_a_file_may_grow_and_what_is_closed_stays_closed(inbox, make):
    path = inbox / "a.csv"
    path.write_text(table((1, day(1)), (2, day(2))))
    source = make()
    assert adds(source, 1) == [1]
    with path.open("a") as file:
        file.write(f"11,{day(1)}\n22,{day(2)}\n33,{day(3)}\n")
    assert adds(source, 2) == [2, 22]
    assert not source.used.files["a.csv"].differs(path)
    with path.open("a") as file:
        file.write(f"44,{day(3)}\n")
    assert [adds(make(), step) for step in (3, 4)] == [[33, 44], []]


def test_growing_within_one_tick_of_the_clock_is_seen(inbox, make):
    path = inbox / "a.csv"
    path.write_text(table((1, day(1))))
    tick = path.stat().st_mtime_ns
    source = make()
    assert adds(source, 1) == [1]
    path.write_text(table((1, day(1)), (2, day(2))))
    os.utime(path, ns=(tick, tick))
    assert adds(source, 2) == [2]


def test_a_file_changed_in_the_middle_is_shown_as_changed_and_closed_steps_are_not_read_again(
    inbox, make
):
    path = inbox / "a.csv"
    path.write_text(table((1, day(1)), (3, day(3))))
    source = make()
    assert adds(source, 1) == [1]
    path.write_text(table((7, day(1)), (8, day(2)), (9, day(3))))
    assert source.used.files["a.csv"].differs(path)
    assert [adds(source, step) for step in (2, 3)] == [[8], [9]]
    assert source.used.files["a.csv"].changed
    with path.open("a") as file:
        file.write("5,soon\n")
    assert source.used.files["a.csv"].differs(path), "and it stays so"


def test_a_file_that_was_used_up_is_not_opened_again(inbox, make, monkeypatch):
    (inbox / "a.csv").write_text(table((1, day(1))))
    assert adds(make(), 1) == [1]
    monkeypatch.setattr(
        "tailrace.sources.folder.Seen.at", lambda path: pytest.fail(f"{path} was opened")
    )
    assert make().batch(2).adds is None


def test_rows_appear_when_the_form_of_times_is_mended(inbox, make):
    (inbox / "a.csv").write_text(table((1, "1.1.2026"), (3, "3.1.2026")))
    wrong = make()
    assert [adds(wrong, step) for step in (1, 2)] == [[], []]
    mended = make(format="%d.%m.%Y")
    assert [adds(mended, step) for step in (3, 4)] == [[3], []]
    assert not mended.used.files["a.csv"].changed


def test_a_file_is_known_by_its_name_when_it_goes_and_comes_back(inbox, make):
    path = inbox / "a.csv"
    path.write_text(table((1, day(1)), (3, day(3))))
    source = make()
    assert adds(source, 1) == [1]
    kept = path.read_bytes()
    path.unlink()
    assert adds(source, 2) == []
    path.write_bytes(kept)
    assert adds(source, 3) == [3]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_step_asked_for_again_after_a_crash_has_the_same_rows(inbox, make, monkeypatch, when):
    (inbox / "a.csv").write_text(table((1, day(1))))
    assert adds(make(), 1) == [1]
    (inbox / "b.csv").write_text(table((10, day(1)), (2, day(2)), (3, day(3))))

    def crash(name):
        if name == f"files used, {when}":
            raise KeyboardInterrupt

    monkeypatch.setattr(durable, "hook", crash)
    with pytest.raises(KeyboardInterrupt):
        make().batch(2)
    monkeypatch.setattr(durable, "hook", None)
    assert adds(make(), 2) == [2, 10]
    assert adds(make(), 2) == [2, 10]
    assert adds(make(), 3) == [3]
    assert not list(inbox.parent.glob(".*.partial"))


def test_what_could_not_be_written_down_is_written_down_the_next_time(
    inbox, make, tmp_path, monkeypatch
):
    (inbox / "a.csv").write_text(table((1, day(1)), (2, day(2))))
    source = make()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("tailrace.sources.used.write_file", full)
        with pytest.raises(StateError, match=r"^used.json cannot be written"):
            source.batch(1)
    assert not (tmp_path / "used.json").exists()
    assert adds(source, 1) == [1]
    assert Used(tmp_path / "used.json").files["a.csv"].since == 1


def test_another_process_may_have_used_files_in_the_meantime(inbox, make):
    (inbox / "a.csv").write_text(table((1, day(1))))
    early = make()
    assert adds(early, 1) == [1]
    (inbox / "b.csv").write_text(table((10, day(1)), (3, day(3))))
    assert adds(make(), 2) == [10]
    assert adds(early, 3) == [3], "and not the late rows once more"


def test_a_stream_whose_memory_of_files_is_lost_would_count_them_twice(inbox, make, tmp_path):
    (inbox / "a.csv").write_text(table((1, day(1))))
    source = make()
    assert adds(source, 1) == [1]
    (tmp_path / "used.json").unlink()
    with pytest.raises(StateError, match=r"^private/used.json is missing"):
        source.batch(2)
    (tmp_path / "used.json").write_text("{}")  # as the sentence says
    assert adds(source, 2) == [1]
    (tmp_path / "used.json").write_text('{"a.csv": 1}')
    with pytest.raises(Corrupt, match=r"^used.json is damaged"):
        source.batch(3)


def test_even_a_step_without_files_is_remembered(make, tmp_path):
    assert adds(make(), 1) == []
    assert (tmp_path / "used.json").read_text() == "{}"
    assert adds(make(), 2) == []


def test_deletes_come_from_files_of_their_own(inbox, make):
    (inbox / "gone").mkdir()
    (inbox / "a.csv").write_text(table((1, day(1)), (2, day(2))))
    (inbox / "gone" / "a.csv").write_text(table((8, day(1)), (9, day(2))))
    batch = make(deletes="gone/*.csv").batch(1)
    assert (numbers(batch.adds), numbers(batch.deletes)) == ([1], [8])
    deep = make(files="**/*.csv", deletes="gone/**/*.csv").batch(2)
    assert (numbers(deep.adds), numbers(deep.deletes)) == ([2], [9])


def test_deletes_come_from_a_column(inbox, make):
    rows = [(1, day(1), "insert"), (2, day(1), "delete"), (3, day(1), "?"), (4, day(2), "delete")]
    (inbox / "a.csv").write_text(table(*rows, columns="number,day,op"))
    source = make(op="op")
    batches = [source.batch(step) for step in (1, 2, 3)]
    assert [numbers(batch.adds) for batch in batches[:2]] == [[1], []]
    assert [numbers(batch.deletes) for batch in batches[:2]] == [[2], [4]]


def test_files_of_every_format_come_together(inbox, make):
    """Whatever types they hold: numbers, text, ids."""
    day_one = datetime(2026, 1, 1, 5)
    pl.DataFrame(
        {"number": pl.Series([1], dtype=pl.Int8), "id": [" 7"], "day": [day_one]}
    ).write_parquet(inbox / "a.parquet")
    pl.DataFrame({"number": [2.0], "id": [7], "day": [day_one.date()]}).write_parquet(
        inbox / "b.parquet"
    )
    pl.DataFrame({"number": [None], "id": [None], "day": [None]}).write_parquet(inbox / "c.parquet")
    pl.DataFrame({"number": ["3"], "id": ["7"], "day": [day(1)]}).write_parquet(inbox / "d.parquet")
    (inbox / "e.csv").write_text(table((4, day(1), "7.0"), columns="number,day,id"))
    (inbox / "f.csv").touch()
    batch = make(files="*", key="id").batch(1)
    assert sorted(batch.adds.rows()) == [(1.0, " 7"), (2.0, "7"), (3.0, "7"), (4.0, "7.0")]


def test_only_finished_files_of_the_pattern_are_read(inbox, make):
    for name in ("sub/b.csv", ".hidden.csv", ".git/c.csv", "d.txt", "e.CSV"):
        (inbox / name).parent.mkdir(exist_ok=True)
        (inbox / name).write_text(table((1, day(1))))
    (inbox / "folder.csv").mkdir()
    names = {
        files: [file.name for file in make(files=files).shelf.found()]
        for files in ("*.csv", "**/*.csv", "*")
    }
    assert names == {"*.csv": [], "**/*.csv": ["sub/b.csv"], "*": ["e.CSV"]}


def test_what_is_wrong_with_a_file_names_it(inbox, make):
    pl.DataFrame({"number": [[1]], "day": [day(1)]}).write_parquet(inbox / "a.parquet")
    with pytest.raises(
        DataError, match=r"^a.parquet: Column 'number' must hold whole numbers; convert"
    ):
        make(files="*.parquet").batch(1)
    (inbox / "b.csv").symlink_to(inbox / "nowhere.csv")
    with pytest.raises(DataError, match=r"^b.csv is a link"):
        make().batch(1)
    source = make()
    source.shelf = Shelf(path=inbox / "none", files="*.csv")
    with pytest.raises(DataError, match=r"^There is no folder none"):
        source.batch(1)


def test_a_file_that_cannot_be_read_leaves_nothing_noted(inbox, make, tmp_path):
    (inbox / "a.csv").write_text(table((1, day(1))))
    (inbox / "b.csv").write_text("number\n1\n")
    source = make(domain=Schema(number=Integer(0, 9), sex=Categorical(["f"])))
    with pytest.raises(DataError):
        source.batch(1)
    assert not (tmp_path / "used.json").exists()


def test_of_a_growing_file_only_open_and_new_rows_are_parsed(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    path, parsed, read = tmp_path / "in" / "a.csv", [], files.read

    def noted(path, data, columns, **written):
        frame = read(path, data, columns, **written)
        parsed.append(len(frame))
        return frame

    monkeypatch.setattr(files, "read", noted)
    for day in range(1, 21):
        with path.open("a") as file:
            file.write("number,day\n" if day == 1 else "")
            file.write(f"{day},2026-01-{day:02d}T12:00\n" * 100)
            # Written before the day is over: the next step's.
            file.write(f"{day},2026-01-{day + 1:02d}T00:01\n" * 5)
        reader = Reader(domain=Schema(number=Integer(0, 99)), time="day")
        source = TimedFiles(
            shelf=Shelf(path=tmp_path / "in"),
            reader=reader,
            calendar=Calendar(start="2026-01-01", period="1 day"),
            used=Used(tmp_path / "kept.json"),
            late="next",
        )
        assert len(source.batch(day).adds) == (100 if day == 1 else 105)
    assert parsed[0] == 105 and max(parsed[1:]) <= 215, "yesterday's, and what is new"


def test_a_file_that_was_changed_is_parsed_whole_again(tmp_path):
    (tmp_path / "in").mkdir()
    made = {
        "shelf": Shelf(path=tmp_path / "in"),
        "reader": Reader(domain=Schema(number=Integer(0, 99)), time="day"),
        "calendar": Calendar(start="2026-01-01", period="1 day"),
        "late": "drop",
    }
    (tmp_path / "in" / "a.csv").write_text("number,day\n1,2026-01-01\n1,2026-01-01\n")
    for step, text in ((1, None), (2, "number,day\n2,2026-01-02\n3,2026-01-02\n")):
        if text is not None:
            (tmp_path / "in" / "a.csv").write_text(text)
        source = TimedFiles(**made, used=Used(tmp_path / "kept.json"))
        assert len(source.batch(step).adds) == 2
    assert Used(tmp_path / "kept.json").files["a.csv"].changed
