"""Every source keeps its promises, and a broken one is caught by name."""

import itertools
import sqlite3
from pathlib import Path

import pytest

from tailrace import Calendar, Integer, Schema
from tailrace.checks import check_source
from tailrace.sources import (
    Batch,
    FolderSource,
    Frames,
    Given,
    Lines,
    Portion,
    Reader,
    SqlSource,
    Used,
)

ROWS = [(1, "2026-01-01"), (2, "2026-01-01"), (3, "2026-01-02")]
DAYS = Calendar(start="2026-01-01", period="1 day")
NUMBERED = Schema(number=Integer(0, 99))
TIMED = Reader(domain=NUMBERED, time="day")


def opened(settings, folder, calendar=DAYS, reader=TIMED):
    """As a new process opens it."""
    used = Used(folder / "used.json")
    return lambda: settings.open(Given(reader=reader, calendar=calendar, late="drop", used=used))


@pytest.fixture
def inbox(tmp_path):
    (tmp_path / "in").mkdir()
    for day, rows in itertools.groupby(ROWS, key=lambda row: row[1]):
        lines = [f"{number},{day}\n" for number, _ in rows]
        (tmp_path / "in" / f"{day}.csv").write_text("number,day\n" + "".join(lines))
    return tmp_path / "in"


def test_files_cut_by_time_keep_every_promise(inbox, tmp_path):
    settings = FolderSource(path=inbox, files="*.csv", time="day")
    check_source(opened(settings, tmp_path), rows=[2, 1, 0])


def test_files_named_for_their_period_keep_every_promise(inbox, tmp_path):
    settings = FolderSource(path=inbox, name="%Y-%m-%d.csv")
    reader = Reader(domain=NUMBERED)
    check_source(opened(settings, tmp_path, reader=reader), rows=[2, 1, 0])


def test_files_in_order_keep_every_promise(inbox, tmp_path):
    settings = FolderSource(path=inbox, files="*.csv")
    reader = Reader(domain=NUMBERED)
    check_source(opened(settings, tmp_path, calendar=None, reader=reader), rows=[2, 1])


def test_a_table_of_a_database_keeps_every_promise(tmp_path):
    with sqlite3.connect(tmp_path / "in.db") as database:
        database.execute("CREATE TABLE cases (number INTEGER, day TEXT)")
        database.executemany("INSERT INTO cases VALUES (?, ?)", ROWS)
    settings = SqlSource(url=f"sqlite:///{tmp_path}/in.db", table="cases", time="day")
    check_source(opened(settings, tmp_path), rows=[2, 1, 0])


def test_lines_keep_every_promise():
    lines = [f'{{"number": {number}, "day": "{day}"}}'.encode() for number, day in ROWS]
    check_source(lambda: Lines(lines=lines, reader=TIMED, calendar=DAYS), rows=[2, 1, 0])


class Fixed:
    """A source that is in order."""

    over = False
    steps = ({"number": [1, 2]}, {"number": [3]})

    def __init__(self):
        self.asked = 0

    @property
    def cut(self):
        return {"kind": "Fixed"}

    def ready(self, step):
        return True

    def batch(self, step):
        self.asked += 1
        return Batch(self.steps[step - 1])


class Twice(Fixed):
    """Counts the rows of earlier steps again."""

    def batch(self, step):
        return Batch({"number": [n for one in self.steps[:step] for n in one["number"]]})


class Consumed(Fixed):
    """Gives a step only once."""

    def batch(self, step):
        given = super().batch(step)
        return given if self.asked == step else Batch()


class Processes(Fixed):
    """Gives other rows to a new process."""

    made = itertools.count()

    def __init__(self):
        super().__init__()
        self.number = next(self.made)

    def batch(self, step):
        return Batch({"number": [n + self.number for n in self.steps[step - 1]["number"]]})


class Unstated(Fixed):
    """Says its cut in a value that JSON cannot keep."""

    @property
    def cut(self):
        return {"path": Path("in")}


class Drifting(Fixed):
    """Changes its cut while it reads."""

    @property
    def cut(self):
        return {"asked": self.asked}


class Vague(Fixed):
    """Is never ready."""

    def ready(self, step):
        return None


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (Twice, "exactly once: step 2 has 1 rows, not 3"),
        (Consumed, "asked for again"),
        (Processes, "a new process is given the same rows"),
        (Unstated, "plain values"),
        (Drifting, "the cut is fixed"),
        (Vague, "is ready"),
    ],
)
def test_a_broken_source_is_caught(made, sentence):
    check_source(Fixed, rows=[2, 1])
    with pytest.raises(AssertionError, match=sentence):
        check_source(made, rows=[2, 1])


def test_frames_keep_every_promise():
    check_source(lambda: Frames(Fixed.steps), rows=[2, 1])


class Fed:
    """A feed that is in order: a row of a later step comes first."""

    over = False
    came = ((2, 3), (1, 1), (1, 2))

    def ready(self, step):
        return True

    def more(self, step, note):
        for place in range(note or 0, len(self.came)):
            own, number = self.came[place]
            yield Portion({own: Batch({"number": [number]})}, place + 1)


class Forgetful(Fed):
    """Begins again whatever the note says."""

    def more(self, step, note):
        return super().more(step, None)


class Early(Fed):
    """Counts every row at once, so that a later step lacks its own."""

    def more(self, step, note):
        for portion in super().more(step, note):
            (batch,) = portion.batches.values()
            yield Portion({step: batch}, portion.note)


class Backwards(Fed):
    """Sends rows to steps that are released."""

    came = ((1, 1), (1, 2), (0, 3))


class Unplain(Fed):
    """Notes what JSON cannot keep."""

    def more(self, step, note):
        return (Portion(one.batches, (one.note,)) for one in super().more(step, None))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (Forgetful, "what a note tells of is not given again"),
        (Early, "exactly once: step 1 has 2 rows, not 3"),
        (Backwards, "no step that is released"),
        (Unplain, "a note is made of plain values"),
    ],
)
def test_a_broken_feed_is_caught(made, sentence):
    check_source(Fed, rows=[2, 1, 0])
    with pytest.raises(AssertionError, match=sentence):
        check_source(made, rows=[2, 1, 0])
