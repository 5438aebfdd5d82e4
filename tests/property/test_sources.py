"""Whatever comes, whenever it comes: the step of a row is written in its own cells and in when its
file appeared.
"""

import json
import shutil
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samples import examples
from tailrace import Integer, Schema
from tailrace.calendar import Calendar
from tailrace.sources import Lines, NamedFiles, Reader, Shelf, TimedFiles, Used, files

DAYS = Calendar(start="2026-01-01", period="1 day")
NUMBERED = Reader(domain=Schema(number=Integer(0, 99_999)), time="day")
LAST = 5
lateness = st.sampled_from(["next", "drop"])


def time_of(own):
    return "soon" if own is None else (date(2026, 1, 1) + timedelta(days=own - 1)).isoformat()


def goes(own, opened, written, late):
    """The step of a row of its own period `own`, in a file there since `opened`, written at step
    `written`: 0 for none.
    """
    if own is None or own < 1:
        return 0
    step = max(own, opened) if late == "next" else own if own >= opened else 0
    return step if step >= written else 0


owns = st.none() | st.integers(-1, LAST + 1)
# for each file: when it appears, and its rows: (own period, how many steps later they are appended)
histories = st.lists(
    st.tuples(st.integers(1, LAST), st.lists(st.tuples(owns, st.integers(0, 2)), max_size=5)),
    min_size=1,
    max_size=3,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("sources")


def fresh(place):
    shutil.rmtree(place)
    (place / "in").mkdir(parents=True)
    return place / "in"


def numbers(batch):
    return sorted(int(number) for number in batch.adds["number"]) if batch.adds is not None else []


@examples(150)
@given(histories, lateness, st.lists(st.booleans(), min_size=LAST, max_size=LAST), st.booleans())
def test_rows_of_growing_files_go_by_their_own_cells(place, history, late, restarts, again):
    inbox = fresh(place)
    rows = [
        (file * 100 + row, file, opened, own, opened + wait)
        for file, (opened, found) in enumerate(history)
        for row, (own, wait) in enumerate(found)
    ]

    def source():
        shelf = Shelf(path=inbox, files="*.csv")
        return TimedFiles(
            shelf=shelf, reader=NUMBERED, calendar=DAYS, used=Used(place / "used.json"), late=late
        )

    reading = source()
    for step in range(1, LAST + 1):
        for file, (opened, _) in enumerate(history):
            with (
                (inbox / f"{file}.csv").open("a")
                if opened <= step
                else (place / "nothing").open("w") as out
            ):
                if opened == step:
                    out.write("number,day\n")
                out.writelines(
                    f"{n},{time_of(own)}\n" for n, f, _, own, at in rows if (f, at) == (file, step)
                )
        if restarts[step - 1]:
            reading = source()
        expected = [
            n for n, _, opened, own, written in rows if goes(own, opened, written, late) == step
        ]
        assert numbers(reading.batch(step)) == sorted(expected)
        if again:
            assert numbers(source().batch(step)) == sorted(expected)
    assert not any(use.changed for use in reading.used.files.values())


@examples(100)
@given(
    st.lists(
        st.tuples(st.integers(-1, LAST + 1), st.integers(1, LAST)),
        max_size=6,
        unique_by=lambda file: file[0],
    ),
    lateness,
)
def test_named_files_go_by_their_names(place, files, late):
    inbox = fresh(place)
    for step in range(1, LAST + 1):
        for own, appears in files:
            if appears == step:
                (inbox / f"{time_of(own)}.csv").write_text(f"number,day\n{own + 10},\n")
        used = Used(place / "used.json")
        reader = Reader(domain=NUMBERED.domain)
        source = NamedFiles(
            path=inbox, name="%Y-%m-%d.csv", reader=reader, calendar=DAYS, used=used, late=late
        )
        expected = sorted(own + 10 for own, appears in files if goes(own, appears, 0, late) == step)
        assert numbers(source.batch(step)) == numbers(source.batch(step)) == expected


@examples(100)
@given(st.lists(owns, max_size=8), st.integers(0, LAST), st.randoms(use_true_random=False))
def test_lines_piped_again_in_any_order_and_number_count_once(rows, released, random):
    """What is released is passed over; what is not comes, whole."""
    lines = [
        json.dumps({"number": number, "day": time_of(own)}).encode()
        for number, own in enumerate(rows)
    ]
    random.shuffle(lines)
    clock = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=LAST)
    source = Lines(lines=lines, reader=NUMBERED, calendar=DAYS, clock=lambda: clock)
    for step in range(released + 1, LAST + 1):
        assert source.ready(step)
        assert numbers(source.batch(step)) == [
            number for number, own in enumerate(rows) if own == step
        ]
    assert not source.ready(LAST + 1)


def cells(batch):
    return [] if batch.adds is None else batch.adds.rows()


LINES = st.lists(
    st.tuples(owns, st.sampled_from(["", "\r", "\n", " \n", ',"', '"'])).map(
        lambda row: f"{time_of(row[0])},{1 + abs(row[0] or 0)}{row[1]}\n"
    ),
    max_size=12,
)


@examples(150)
@given(LINES, st.lists(st.integers(0, 200), min_size=LAST, max_size=LAST), lateness, st.booleans())
def test_a_growing_file_is_read_from_its_first_open_row_and_gives_the_same(
    place, lines, cuts, late, spoilt
):
    """Cut anywhere, also inside a line, and compared with reading the whole file at each step."""
    folder, data = fresh(place), ("day,number\n" + "".join(lines)).encode()
    found = {True: [], False: []}
    for tail, batches in found.items():
        (place / "kept.json").unlink(missing_ok=True)
        for step, cut in enumerate(sorted(cuts), start=1):
            grown = data[: len("day,number\n") + cut]
            if spoilt and step == LAST:
                grown = grown.replace(b",2", b",9")
            (folder / "a.csv").write_bytes(grown)
            with pytest.MonkeyPatch.context() as patch:
                if not tail:
                    patch.setattr(files, "is_csv", lambda path: False)
                source = TimedFiles(
                    shelf=Shelf(path=folder),
                    reader=NUMBERED,
                    calendar=DAYS,
                    used=Used(place / "kept.json"),
                    late=late,
                )
                batches.append(cells(source.batch(step)))
                assert cells(source.batch(step)) == batches[-1], "asked again"
    assert found[True] == found[False]
