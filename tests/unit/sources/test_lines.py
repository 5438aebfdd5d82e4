"""JSON lines: live and not, whatever a line holds, and piped in again."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from processes import PATIENCE
from tailrace import Categorical, DataError, Integer, Schema
from tailrace.calendar import Calendar
from tailrace.sources import Lines, Reader

WARD = Schema(sex=Categorical(["f", "m"], outside="other"), age=Integer(0, 99, outside="clip"))
NUMBERED = Schema(number=Integer(0, 999))
DAYS = Calendar(start="2026-01-01", period="1 day")
END = datetime(2026, 1, 11, tzinfo=UTC)


def lines_of(*rows):
    return [
        f'{{"number": {number}, "day": "2026-01-{day:02d}"}}\n'.encode() for number, day in rows
    ]


def daily(lines, now=END, **options):
    reader = Reader(domain=NUMBERED, **{"time": "day", **options.pop("columns", {})})
    return Lines(lines=lines, reader=reader, calendar=DAYS, clock=lambda: now, **options)


def numbers(frame):
    return None if frame is None else sorted(int(number) for number in frame["number"])


def taken(source, steps=10):
    """The numbers of every step that is ready, as a run asks for them."""
    found = []
    for step in range(1, steps + 1):
        if not source.ready(step):
            break
        found.append(numbers(source.batch(step).adds))
    return found


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (b'{"sex": "f", "age": 41}', ("f", 41)),
        (b'\xef\xbb\xbf{"age": "41", "sex": " f "}', (" f ", 41)),
        (b'{"sex": "f"}', ("f", None)),
        (b'{"sex": null, "age": true, "more": {"age": 3}}', (None, 1)),
        (b'{"sex": ["f"], "age": {"years": 41}}', ("\x00", None)),
        (b'{"sex": "f", "age": 1e400, "sex": "m"}', ("m", float("inf"))),
        (b'{"sex": "f", "age": ' + b"9" * 5000 + b"}", ("f", float("inf"))),
        (b'{"sex": "f", "age": -Infinity}', ("f", float("-inf"))),
        (b'{"sex": "\\ud800", "age": 4.5}', ("\ufffd", 4.5)),
        (b'{"sex": "\xff", "age": 0}', ("\ufffd", 0)),
        (b"[1, 2]", (None, None)),
        (b"7", (None, None)),
        (b"not json", (None, None)),
        (b'{"sex": "f"', (None, None)),
        (b"[" * 100_000, (None, None)),
    ],
)
def test_the_cells_of_a_line(line, cells):
    source = Lines(lines=[line + b"\n", b"\n", b"  \r\n"], reader=Reader(domain=WARD))
    (row,) = source.batch(1).adds.rows() if source.ready(1) else ()
    assert [None if cell != cell else cell for cell in row] == list(cells)


def test_without_a_calendar_all_lines_are_one_step():
    source = Lines(lines=[b'{"number": 1}\n', b'{"number": 2}'], reader=Reader(domain=NUMBERED))
    assert source.ready(5)
    assert numbers(source.batch(5).adds) == [1, 2]
    assert source.ready(5) and numbers(source.batch(5).adds) == [1, 2], (
        "asked again: it could not be pushed"
    )
    assert not source.ready(6) and source.over


def test_no_lines_are_a_step_without_rows():
    source = Lines(lines=[], reader=Reader(domain=NUMBERED))
    assert source.ready(1) and numbers(source.batch(1).adds) == []


def test_rows_go_by_their_time_and_the_calendar_says_which_steps_are_ready():
    source = daily(lines_of((5, 5), (1, 1), (55, 5), (11, 11)))
    assert taken(source) == [[1], [], [], [], [5, 55], [], [], [], [], []]
    assert not source.ready(11)


def test_a_step_that_could_not_be_pushed_is_given_again():
    source = daily(lines_of((1, 1), (2, 2)))
    assert [numbers(source.batch(step).adds) for step in (1, 1, 2, 2, 3)] == [
        [1],
        [1],
        [2],
        [2],
        [],
    ]


def test_piping_again_changes_nothing_that_is_released():
    everything = lines_of((1, 1), (2, 2), (22, 2), (3, 3), (0, 1))
    whole = taken(daily(everything))
    for stop in (1, 2, 3):
        first = daily(everything, now=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=stop))
        before = taken(first)
        again = daily(everything)
        after = [
            numbers(again.batch(step).adds) for step in range(stop + 1, 11) if again.ready(step)
        ]
        assert before + after == whole


def test_deletes_by_a_column():
    lines = [
        b'{"number": 1, "day": "2026-01-01", "op": "insert"}',
        b'{"number": 2, "day": "2026-01-01", "op": "delete"}',
        b'{"number": 3, "day": "2026-01-01"}',
    ]
    source = daily(lines, columns={"op": "op"})
    batch = source.batch(1) if source.ready(1) else None
    assert batch is not None and (numbers(batch.adds), numbers(batch.deletes)) == ([1], [2])


class Pipe:
    """Lines that come when the test says so."""

    def __init__(self):
        self.more, self.taken, self.waiting = threading.Semaphore(0), threading.Semaphore(0), []

    def send(self, *lines):
        self.waiting.extend(lines)
        for _ in lines:
            self.more.release()
        for _ in lines:
            assert self.taken.acquire(timeout=PATIENCE)

    def __iter__(self):
        while True:
            self.more.acquire()
            if (line := self.waiting.pop(0)) is None:
                return
            yield line
            self.taken.release()  # asked for the next: this one is in


def test_live_lines_do_not_wait_for_the_end():
    pipe, now = Pipe(), [datetime(2026, 1, 1, 12, tzinfo=UTC)]
    source = daily(pipe, live=True)
    source.clock = lambda: now[0]
    pipe.send(*lines_of((1, 1), (2, 2)))
    assert not source.ready(1) and not source.over
    now[0] += timedelta(days=1)
    assert source.ready(1) and numbers(source.batch(1).adds) == [1]
    pipe.send(*lines_of((10, 1), (20, 2)))  # the first one is late
    now[0] += timedelta(days=1)
    assert source.ready(2) and numbers(source.batch(2).adds) == [2, 20]
    pipe.waiting.append(None)
    pipe.more.release()
    source._ended.wait(10)
    assert source.over and not source.ready(3)


def test_lines_that_are_not_live_wait_for_the_end():
    pipe = Pipe()
    source, answers = daily(pipe), []
    asking = threading.Thread(target=lambda: answers.append(source.ready(1)))
    asking.start()
    pipe.send(*lines_of((1, 1)))
    assert not answers
    pipe.waiting.append(None)
    pipe.more.release()
    asking.join(10)
    assert answers == [True] and numbers(source.batch(1).adds) == [1]


def test_input_that_breaks_off_is_no_end(capfd):
    def broken():
        yield from lines_of((1, 1))
        raise OSError(5, "Input/output error")

    with pytest.raises(
        DataError, match=r"^Standard input broke off before its end: pipe the rows in again.$"
    ):
        daily(broken()).ready(1)
    source = daily(broken(), live=True)
    source._ended.wait(10)
    assert source.over and source.ready(1)
    assert capfd.readouterr() == ("", "")
