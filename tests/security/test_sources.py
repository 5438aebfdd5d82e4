"""Sources under attack: no file but a plain one of the folder, no cut but the first one, no damage
that is not a sentence.
"""

import json
import os
import random
import shutil
import sqlite3

import polars as pl
import pytest
from typer.testing import CliRunner

from processes import python
from tailrace import (
    Categorical,
    ConfigError,
    DataError,
    Event,
    HistogramStream,
    Mismatch,
    Noise,
    PureDP,
    Schema,
    Stream,
)
from tailrace.calendar import Calendar
from tailrace.cli import app
from tailrace.pipeline import run
from tailrace.sources import (
    Frames,
    NamedFiles,
    OrderedFiles,
    Reader,
    Shelf,
    SqlTable,
    TimedFiles,
    Used,
)
from tailrace.sources.used import Seen
from tailrace.stream.verify import public_table

WARD = Schema(sex=Categorical(["f", "m"]))
DAYS = Calendar(start="2026-01-01", period="1 day")
PARQUETS = 60
TABLES = {
    "stream": 'path = "ward.tail"\npopulation = "ward"',
    "mechanism": 'kind = "HistogramStream"\nhorizon = 9\nprivacy = { kind = "PureDP", epsilon = 500 }\n'
    'unit = { kind = "Event" }\ndeletes = true',
    "schema": 'sex = { kind = "Categorical", values = ["f", "m"] }',
    "calendar": 'start = 2026-01-01\nperiod = "1 day"\nlate = "drop"',
    "source": 'kind = "Folder"\npath = "incoming"\nfiles = "*.csv"\ntime = "day"\nformat = "%d.%m.%Y"\nop = "op"',
}


def configure(folder, **tables):
    texts = {**TABLES, **tables}
    (folder / "stream.toml").write_text(
        "\n".join(f"[{name}]\n{text}" for name, text in texts.items() if text)
    )


def call(folder, *arguments, code=0):
    done = CliRunner().invoke(app, [arguments[0], str(folder / "stream.toml"), *arguments[1:]])
    assert done.exit_code == code, done.output
    return done.output


def mechanism():
    return HistogramStream(domain=WARD, privacy=PureDP(epsilon=500), unit=Event(), horizon=9)


# Plain files, of the folder.


@pytest.fixture
def inbox(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def ordered(inbox, files="*.csv"):
    return OrderedFiles(
        shelf=Shelf(path=inbox, files=files),
        reader=Reader(domain=WARD),
        used=Used(inbox.parent / "files.json"),
    )


def test_a_pipe_is_no_file_and_is_not_waited_for(inbox):
    os.mkfifo(inbox / "a.csv")
    with pytest.raises(DataError, match=r"a\.csv is no plain file"):
        ordered(inbox).batch(1)
    with pytest.raises(DataError, match=r"a\.csv is no plain file"):
        Seen.at(inbox / "a.csv")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/stdin"])
def test_a_device_is_no_file(inbox, device):
    (inbox / "a.csv").symlink_to(device)
    with pytest.raises(DataError, match=r"a\.csv is (a link|no plain file)"):
        ordered(inbox).batch(1)
    if device != "/dev/stdin":  # which may be a file
        with pytest.raises(DataError, match=r"a\.csv is no plain file"):
            Seen.at(inbox / "a.csv")


@pytest.mark.parametrize("pattern", ["../*.csv", "sub/../../*.csv", "/etc/*.csv", "**/../*.csv"])
def test_a_pattern_stays_in_its_folder(inbox, tmp_path, pattern):
    (tmp_path / "other.csv").write_text("sex\nf\n")
    with pytest.raises(ConfigError, match="stays inside its folder"):
        Shelf(path=inbox, files=pattern)
    with pytest.raises(ConfigError, match="stays inside its folder"):
        Shelf(path=inbox, deletes=pattern)
    for key in ("files", "deletes"):
        configure(
            tmp_path,
            source=TABLES["source"].replace(
                'files = "*.csv"', f'files = "*.csv"\ndeletes = "{pattern}"'
            ),
        )
        if key == "files":
            configure(tmp_path, source=TABLES["source"].replace("*.csv", pattern))
        said = call(tmp_path, "run", code=3)
        assert f"[source] {key} must be a pattern inside the folder of path" in said
    assert not (tmp_path / "ward.tail").exists()


def test_a_link_is_not_followed_out_of_the_folder_nor_to_a_file_that_counts_already(
    inbox, tmp_path
):
    (tmp_path / "secret.csv").write_text("sex\nf\n")
    (inbox / "b.csv").write_text("sex\nf\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "c.csv").write_text("sex\nf\n")
    for target, name, pattern in (
        (tmp_path / "secret.csv", "a.csv", "*.csv"),
        (inbox / "b.csv", "latest.csv", "*.csv"),
        (tmp_path / "out", "sub", "sub/*.csv"),
    ):
        (inbox / name).symlink_to(target)
        with pytest.raises(DataError, match="is a link, or lies behind one"):
            ordered(inbox, pattern).batch(1)
        (inbox / name).unlink()
    assert ordered(inbox).batch(1).adds.height == 1


def test_a_folder_may_be_a_link_itself(inbox, tmp_path):
    (inbox / "b.csv").write_text("sex\nf\n")
    (tmp_path / "door").symlink_to(inbox)
    assert ordered(tmp_path / "door").batch(1).adds.height == 1


def test_a_file_that_is_too_large_for_memory_is_not_read(inbox, monkeypatch):
    with (inbox / "a.csv").open("wb") as file:
        file.truncate(1 << 42)  # with nothing in it
    with pytest.raises(
        DataError, match=r"a\.csv is too large for the memory of this machine: split it"
    ):
        ordered(inbox).batch(1)
    (inbox / "a.csv").write_text("sex\nf\n")

    def short(*_):
        raise MemoryError

    for place in ("files._csv", "reading.Reader.read"):
        with monkeypatch.context() as patch:
            patch.setattr(f"tailrace.sources.{place}", short)
            with pytest.raises(DataError, match=r"a\.csv is too large"):
                ordered(inbox).batch(1)


def test_files_that_are_not_utf_8_or_empty_are_told(tmp_path):
    configure(tmp_path, calendar=None, source='kind = "Folder"\npath = "incoming"\nfiles = "*.csv"')
    (tmp_path / "incoming").mkdir()
    for encoding in ("latin-1", "utf-16"):
        (tmp_path / "a.csv").write_bytes("sex,größe\nf,1\n".encode(encoding))
        assert "a.csv is not UTF-8, by its first line" in call(
            tmp_path, "check", str(tmp_path / "a.csv"), code=4
        )
    (tmp_path / "a.csv").write_bytes("sex,note\nf,ö\nö,x\n".encode("latin-1"))
    assert "1 (50.0%): save it as UTF-8" in call(tmp_path, "check", str(tmp_path / "a.csv"))
    (tmp_path / "a.csv").write_bytes(b"")
    assert "there are no rows in it" in call(tmp_path, "check", str(tmp_path / "a.csv"))
    (tmp_path / "a.parquet").write_bytes(b"")
    assert "a.parquet cannot be read as Parquet" in call(
        tmp_path, "check", str(tmp_path / "a.parquet"), code=4
    )


# The cut.


def people(folder, step):
    return public_table(folder / "ward.tail/releases", step).height


@pytest.fixture
def begun(tmp_path):
    """A stream of which two days are released; every column and file offers another way to cut the
    same row.
    """
    configure(tmp_path, mechanism=TABLES["mechanism"].replace("horizon = 9", "horizon = 2"))
    (tmp_path / "incoming" / "deep").mkdir(parents=True)
    row = "sex,day,other,op,kind\nf,1.2.2026,2.1.2026,insert,delete\n"
    for name in ("incoming/a.csv", "incoming/deep/b.csv"):
        (tmp_path / name).write_text(row)
    assert "Released steps 1 to 2" in call(tmp_path, "run")
    return tmp_path


CHANGES = [
    ("time", 'time = "day"', 'time = "other"'),
    ("format", '"%d.%m.%Y"', '"%m.%d.%Y"'),
    ("format", '\nformat = "%d.%m.%Y"', ""),
    ("op", 'op = "op"', 'op = "kind"'),
    ("op", '\nop = "op"', ""),
    ("path", 'path = "incoming"', 'path = "incoming/deep"'),
    ("files", '"*.csv"', '"**/*.csv"'),
    ("files", '"*.csv"', '"a*.csv"'),
    ("op", 'op = "op"', 'deletes = "deep/*.csv"'),
    ("kind", 'kind = "Folder"\npath = "incoming"\nfiles = "*.csv"', 'kind = "Lines"'),
]


@pytest.mark.parametrize(("key", "before", "after"), CHANGES)
def test_another_cut_is_refused(begun, key, before, after):
    assert before in TABLES["source"]
    configure(
        begun,
        mechanism=TABLES["mechanism"].replace("horizon = 9", "horizon = 2"),
        source=TABLES["source"].replace(before, after),
    )
    said = call(begun, "run", code=5)
    assert "is not the one that earlier steps were cut by, so rows could count twice" in said
    assert said.startswith(f"The source's {key} ")
    assert sorted(json.loads((begun / "ward.tail/private/files.json").read_text())) == ["a.csv"], (
        "nothing was noted"
    )


def test_a_row_is_released_once_whatever_is_tried(tmp_path):
    """The row of the review: read by another column it would go to a second step."""
    configure(tmp_path)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming/a.csv").write_text("sex,day,other,op\nf,1.1.2026,3.1.2026,insert\n")
    source = Stepwise(tmp_path, TABLES["source"])
    assert source.released(2) == [1, 1]
    with pytest.raises(Mismatch, match="The source's time"):
        Stepwise(tmp_path, TABLES["source"].replace('"day"', '"other"')).released(4)
    assert source.released(4) == [1, 1, 1, 1]


class Stepwise:
    """A configuration whose steps close one by one, as if days passed."""

    def __init__(self, folder, source):
        self.folder, self.source = folder, source

    def released(self, steps):
        from tailrace.config import load
        from tailrace.config.opening import open_source, open_stream

        configure(self.folder, source=self.source)
        config = load(self.folder / "stream.toml")
        with open_stream(config) as stream:
            source = open_source(config)
            source.clock = lambda: DAYS.closes(steps) if steps else DAYS.begin(1)
            list(run(stream, source))
            return [people(self.folder, step) for step in range(1, stream.step + 1)]


def test_a_folder_may_move_with_the_files_used_so_far(tmp_path):
    configure(tmp_path)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming/a.csv").write_text("sex,day,op\nf,1.1.2026,insert\n")
    assert Stepwise(tmp_path, TABLES["source"]).released(1) == [1]
    elsewhere = TABLES["source"].replace('"incoming"', '"elsewhere"')
    shutil.copytree(tmp_path / "incoming", tmp_path / "elsewhere")
    (tmp_path / "elsewhere/a.csv").rename(tmp_path / "elsewhere/b.csv")
    with pytest.raises(Mismatch, match="move all files used so far along under their names"):
        Stepwise(tmp_path, elsewhere).released(2)
    (tmp_path / "elsewhere/b.csv").rename(tmp_path / "elsewhere/a.csv")
    assert Stepwise(tmp_path, elsewhere).released(2) == [1, 1]
    (tmp_path / "elsewhere/a.csv").unlink()  # as archives do
    assert Stepwise(tmp_path, elsewhere).released(3) == [1, 1, 1], (
        "the new folder is now the stream's"
    )
    whole = tmp_path.with_name(f"{tmp_path.name}-moved")
    tmp_path.rename(whole)
    assert Stepwise(whole, elsewhere).released(4) == [1, 1, 1, 1], "stream and files moved together"
    whole.rename(tmp_path)


def test_a_stream_without_a_release_takes_another_cut(tmp_path):
    configure(tmp_path)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming/a.csv").write_text("sex,day,other,op\nf,1.1.2025,1.1.2026,insert\n")
    assert Stepwise(tmp_path, TABLES["source"]).released(0) == []
    assert Stepwise(tmp_path, TABLES["source"].replace('"day"', '"other"')).released(1) == [1]


def test_a_stream_of_an_earlier_version_takes_the_cut_it_finds(tmp_path):
    configure(tmp_path)
    (tmp_path / "incoming").mkdir()
    assert Stepwise(tmp_path, TABLES["source"]).released(1) == [0]
    with sqlite3.connect(tmp_path / "ward.tail/private/state.db") as database:
        assert database.execute("DELETE FROM value WHERE name = 'cut'").rowcount == 1
    other = TABLES["source"].replace('"day"', '"other"')
    assert Stepwise(tmp_path, other).released(2) == [0, 0]
    with pytest.raises(Mismatch, match="The source's time"):
        Stepwise(tmp_path, TABLES["source"]).released(3)


def test_a_fork_keeps_the_cut(tmp_path):
    configure(tmp_path)
    (tmp_path / "incoming").mkdir()
    Stepwise(tmp_path, TABLES["source"]).released(1)
    with (
        Stream.fork(tmp_path / "ward.tail", tmp_path / "fork.tail") as fork,
        pytest.raises(Mismatch, match="The source's kind"),
    ):
        fork.bind({"kind": "Lines"})


def sources(folder, **changes):
    """One of each kind, cut by the same calendar."""
    options = {
        "time": "day",
        "format": None,
        "op": None,
        "arrived": "came",
        "timezone": "UTC",
        **changes,
    }
    shelf = Shelf(path=folder, files=options.pop("files", "*.csv"))
    name, table = options.pop("name", "%Y-%m-%d.csv"), options.pop("table", "visits")
    late, calendar = options.pop("late", "next"), options.pop("calendar", DAYS)
    reader = Reader(domain=WARD, **options)
    common = {"reader": reader, "used": Used(folder / "private" / "files.json")}
    return {
        "timed": TimedFiles(shelf=shelf, calendar=calendar, late=late, **common),
        "named": NamedFiles(path=folder, name=name, calendar=calendar, late=late, **common),
        "ordered": OrderedFiles(shelf=shelf, **common),
        "sql": SqlTable("sqlite:///ward.db", table, reader=reader, calendar=calendar, late=late),
    }


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({"time": "other"}, "timed sql"),
        ({"format": "%d.%m.%Y"}, "timed sql"),
        ({"op": "op"}, "timed named ordered sql"),
        ({"arrived": "entered"}, "sql"),
        ({"timezone": "Europe/Berlin"}, "timed sql"),
        ({"late": "drop"}, "timed named sql"),
        ({"calendar": Calendar(start="2026-01-01", period="2 days")}, "timed named sql"),
        ({"files": "*.parquet"}, "timed ordered"),
        ({"name": "%d-%m-%Y.csv"}, "named"),
        ({"table": "others"}, "sql"),
    ],
)
def test_all_that_decides_the_step_of_a_row_is_in_the_cut(tmp_path, changes, kinds):
    before, after = sources(tmp_path), sources(tmp_path, **changes)
    for kind in kinds.split():
        with Stream(mechanism(), noise=Noise.insecure(1)) as stream:
            stream.bind(before[kind].cut)
            stream.push(None)
            stream.bind(sources(tmp_path)[kind].cut)
            with pytest.raises(Mismatch, match="so rows could count twice"):
                next(run(stream, after[kind]), None)


def test_a_database_may_move_and_change_its_password(tmp_path):
    one = sources(tmp_path)["sql"]
    other = SqlTable(
        "postgresql://me:secret@host/x", "visits", reader=one.reader, calendar=DAYS, late="next"
    )
    assert one.cut == other.cut and "secret" not in str(other.cut)
    assert not hasattr(Frames([]), "cut"), "frames are cut by whoever gives them"


# Damage.

READ = """
import sys
from pathlib import Path
from tailrace import Categorical, DataError, Integer, Schema
from tailrace.sources import Reader
from tailrace.sources.files import names_in, read, told
reader = Reader(domain=Schema(sex=Categorical(["f", "m"]), age=Integer(0, 99)), time="day")
for name in sys.argv[1:]:
    path = Path(name)
    print(path.stem, flush=True)
    for call in (lambda: names_in(path), lambda: read(path, path.read_bytes(), reader.columns)):
        try:
            found = call()
            if not isinstance(found, list):
                with told(path):
                    reader.read(found)
        except DataError as error:
            assert path.name in str(error), error
print("done")
"""


def test_damaged_parquet_files_are_told_and_end_nothing(tmp_path):
    """Cut, with bits turned, with their ends exchanged; in a process of its own, which an abort
    would end.
    """
    generator = random.Random(15)
    table = pl.DataFrame(
        {"sex": ["f", "m"] * 500, "age": range(1000), "day": ["2026-01-01"] * 1000}
    )
    forms = [{"compression": kind} for kind in ("lz4", "zstd", "uncompressed", "snappy")]
    paths = []
    for number in range(PARQUETS):
        path = tmp_path / f"{number}.parquet"
        table.write_parquet(path, **forms[number % 4])
        path.write_bytes(damaged(bytearray(path.read_bytes()), number, generator))
        paths.append(path)
    done = python("-c", READ, *paths)
    assert done.stdout.splitlines() == [*map(str, range(PARQUETS)), "done"], done.stderr
    assert "Traceback" not in done.stderr


def damaged(data, number, generator):
    if number % 5 == 0:
        return data[: generator.randrange(len(data))]
    if number % 5 == 1:
        place = generator.randrange(len(data))
        return data[:place] + generator.randbytes(8) + data[place:]
    if number % 5 == 2:  # in the footer, which says where everything is
        for _ in range(4):
            data[-1 - generator.randrange(min(400, len(data)))] ^= 1 << generator.randrange(8)
        return data
    for _ in range(20):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return data
