"""Sources and sinks by the command line: lines on standard input, SQLite in and out, deletes, late
rows, files mended in time.
"""

import json
import shutil
import sqlite3
import subprocess
import sys
import time

import polars as pl
import pytest

from processes import CALL, PATIENCE, run, variables
from tailrace.stream.verify import public_table

PEOPLE = 'kind = "HistogramStream"\nhorizon = 5\nprivacy = { kind = "PureDP", epsilon = 500 }\nunit = { kind = "Event" }\n'
LINES = [
    {"sex": "f", "day": "2026-01-01"},
    {"day": "2026-01-02T10:00:00+01:00", "sex": "m", "more": [1, 2]},
    {"sex": "f", "day": "2026-01-04"},
    {"sex": "secret", "day": "2026-01-04"},
    {"sex": "f"},
    {"sex": "f", "day": 7},
    [1, 2],
]


def counts(folder, step, where="ward.tail/releases"):
    table = (
        public_table(folder / where, step)
        if where.endswith("releases")
        else pl.read_parquet(folder / where / f"{step:06d}" / "table.parquet")
    )
    return dict(table.group_by("sex").len().iter_rows())


def piped(lines):
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def test_json_lines_are_cut_by_the_calendar_and_piping_them_again_changes_nothing(
    tailrace, configure, tmp_path
):
    configure(tmp_path, source='kind = "Lines"\ntime = "day"')
    text = piped(LINES) + '{"sex": "f", "day": \nno json at all\n'
    assert (
        "Released steps 1 to 5" in tailrace("run", "stream.toml", cwd=tmp_path, stdin=text).stdout
    )
    totals = [counts(tmp_path, step) for step in range(1, 6)]
    assert totals == [
        {"f": 1},
        {"f": 1, "m": 1},
        {"f": 1, "m": 1},
        {"f": 2, "m": 1},
        {"f": 2, "m": 1},
    ]
    assert "Nothing to release" in tailrace("run", "stream.toml", cwd=tmp_path, stdin=text).stdout
    assert counts(tmp_path, 5) == totals[-1]


def test_json_lines_without_a_calendar_are_one_step_a_run(tailrace, configure, tmp_path):
    configure(tmp_path, calendar=None, source='kind = "Lines"')
    for step in (1, 2):
        done = tailrace("run", "stream.toml", "--json", cwd=tmp_path, stdin=piped(LINES[:3]))
        assert [json.loads(line)["step"] for line in done.stdout.splitlines()] == [step]
        assert counts(tmp_path, step) == {"f": 2 * step, "m": step}


@pytest.mark.slow
def test_lines_that_keep_coming_are_released_by_the_clock(process, configure, tmp_path):
    """A producer that never closes the pipe; the process ends at the horizon. A step is long enough
    for a process to start on this machine.
    """
    (tmp_path / "other").mkdir()
    configure(tmp_path / "other")
    began = time.monotonic()
    process("run", "stream.toml", cwd=tmp_path / "other")
    period = max(5, int(3 * (time.monotonic() - began)))
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 0.8 * period))
    configure(
        tmp_path,
        calendar=f'start = {start}\nperiod = "{period} seconds"',
        mechanism=PEOPLE.replace("horizon = 5", "horizon = 3"),
        source='kind = "Lines"\ntime = "day"',
    )
    command = ["tailrace", "run", "stream.toml", "--watch", "--every", "0.2", "--json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, text=True, env=variables(), **pipes) as child:
        # in the last step
        later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1.6 * period))
        child.stdin.write(piped([{"sex": "f", "day": later}, {"sex": "m", "day": "1999-01-01"}]))
        child.stdin.flush()
        assert child.wait(timeout=PATIENCE) == 0, "although standard input is still open"
        assert [json.loads(line)["step"] for line in child.stdout] == [1, 2, 3]
        assert child.stderr.read() == ""
    assert counts(tmp_path, 3) == {"f": 1}


def test_standard_input_that_is_closed_is_one_sentence(configure, tmp_path):
    configure(tmp_path, source='kind = "Lines"\ntime = "day"')
    for command, code, said in (
        ("tailrace run stream.toml <&-", 4, "Standard input is closed"),
        ("tailrace init --to other.toml <&-", 3, "What is one row? Say it with --kind"),
    ):
        done = run("bash", "-c", command, cwd=tmp_path)
        assert done.returncode == code and done.stderr.startswith(said), done.stderr


@pytest.fixture
def database(tmp_path):
    with sqlite3.connect(tmp_path / "ward.db") as file:
        file.execute("CREATE TABLE cases (sex TEXT, day TEXT, entered TEXT, op TEXT)")
        rows = [
            ("f", "2026-01-01", "2026-01-01T08:00", "insert"),
            ("m", "2026-01-01", "2026-01-03T08:00", "insert"),  # late: counted in step 3
            ("f", "2026-01-02", "2026-01-02T08:00", "insert"),
            ("f", "2026-01-04", "2026-01-04T08:00", "delete"),
            ("f", "2026-01-04", "2026-01-04T08:00", "replace"),  # neither
            (None, "2026-01-04", "2026-01-04T08:00", "insert"),
        ]
        file.executemany("INSERT INTO cases VALUES (?, ?, ?, ?)", rows)
    return tmp_path


def test_from_a_sqlite_table_to_sqlite_csv_and_parquet(tailrace, configure, database):
    source = 'kind = "SqlTable"\nurl = "sqlite:///ward.db"\ntable = "cases"\ntime = "day"\narrived = "entered"\nop = "op"'
    sinks = [
        'kind = "SqlTable"\nurl = "sqlite:///out.db"\ntable = "public"',
        'kind = "CsvFolder"\npath = "csv"',
        'kind = "ParquetFolder"\npath = "parquet"',
    ]
    configure(database, source=source, sinks=sinks, mechanism=PEOPLE + "deletes = true")
    tailrace("run", "stream.toml", cwd=database)
    totals = [counts(database, step) for step in range(1, 6)]
    assert totals == [{"f": 1}, {"f": 2}, {"f": 2, "m": 1}, {"f": 1, "m": 1}, {"f": 1, "m": 1}]
    assert [counts(database, step, "parquet") for step in range(1, 6)] == totals
    with sqlite3.connect(database / "out.db") as out:
        found = out.execute(
            "SELECT step, sex, count(*) FROM public GROUP BY step, sex ORDER BY step, sex"
        ).fetchall()
    assert found == [
        (step, sex, count)
        for step, total in enumerate(totals, 1)
        for sex, count in sorted(total.items())
    ]
    for step, total in enumerate(totals, 1):
        lines = (
            (database / "csv" / f"{step:06d}" / "table.csv").read_text().replace('"', "").split()
        )
        assert {sex: lines.count(sex) for sex in total} == total

    for name in ("out.db", "csv/000002/table.csv", "csv/000002/release.json"):
        (database / name).unlink()
    tailrace(
        "run", "stream.toml", cwd=database, code=7
    )  # a folder of the step without what belongs to it
    with sqlite3.connect(database / "out.db") as out:
        (held,) = out.execute("SELECT count(*) FROM public_releases").fetchone()
    assert held == 5, "the other sinks are brought up to date"
    for leftover in (database / "csv" / "000002").iterdir():
        leftover.unlink()
    (database / "csv" / "000002").rmdir()
    assert "Nothing to release" in tailrace("run", "stream.toml", cwd=database).stdout
    assert (database / "csv" / "000002" / "table.csv").is_file(), "what a sink lacks is delivered"
    with sqlite3.connect(database / "out.db") as out:
        assert [
            step for (step,) in out.execute("SELECT step FROM public_releases ORDER BY step")
        ] == [1, 2, 3, 4, 5]


def test_two_streams_do_not_share_a_sink(tailrace, configure, tmp_path):
    for name in ("one", "two"):
        stream = f'path = "{name}.tail"\npopulation = "{name}"'
        configure(
            tmp_path,
            name=f"{name}.toml",
            stream=stream,
            sinks=['kind = "CsvFolder"\npath = "public"'],
        )
    (tmp_path / "incoming" / "a.csv").write_text("sex,day\nf,2026-01-01\n")
    tailrace("run", "one.toml", cwd=tmp_path)
    (tmp_path / "incoming" / "b.csv").write_text("sex,day\nm,2026-01-01\n")
    said = tailrace("run", "two.toml", cwd=tmp_path, code=7).stderr
    assert (
        "CsvFolder public: public/000001 holds a different release of step 1" in said
        and len(said.splitlines()) == 1
    )


def test_a_sqlite_source_that_is_not_there_or_of_the_wrong_shape(tailrace, configure, database):
    source = 'kind = "SqlTable"\nurl = "sqlite:///{}"\ntable = "{}"\ntime = "{}"'
    for place, code in (
        (("none.db", "cases", "day"), 5),
        (("ward.db", "c", "day"), 4),
        (("ward.db", "cases", "d"), 4),
    ):
        configure(database, source=source.format(*place))
        said = tailrace("run", "stream.toml", cwd=database, code=code).stderr
        assert len(said.splitlines()) == 1, said
    assert not (database / "ward.tail").exists() and not (database / "tailrace.ledger").exists(), (
        "nor charged"
    )


def test_deletes_come_in_a_second_file(tailrace, configure, tmp_path):
    configure(
        tmp_path,
        source='kind = "Folder"\npath = "incoming"\nfiles = "*.csv"\ndeletes = "gone/*.csv"\ntime = "day"',
        mechanism=PEOPLE + "deletes = true",
    )
    (tmp_path / "incoming" / "gone").mkdir()
    (tmp_path / "incoming" / "a.csv").write_text("sex,day\nf,2026-01-01\nf,2026-01-01\n")
    (tmp_path / "incoming" / "gone" / "a.csv").write_text("sex,day\nf,2026-01-02\n")
    tailrace("run", "stream.toml", cwd=tmp_path)
    assert [counts(tmp_path, step) for step in (1, 2, 5)] == [{"f": 2}, {"f": 1}, {"f": 1}]


@pytest.mark.slow
def test_watching_tells_once_of_a_file_that_cannot_be_read_and_goes_on_when_it_is_mended(
    configure, tmp_path
):
    configure(tmp_path)
    (tmp_path / "incoming" / "a.csv").write_text("SEX,day\nf,2026-01-01\n")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", CALL, "run", "stream.toml", "--watch", "--every", "0.2"]
    with subprocess.Popen(command, cwd=tmp_path, text=True, env=variables(), **pipes) as child:
        said = child.stderr.readline()
        assert (
            said
            == "a.csv has no column 'sex', which the configuration names. Looking again every 0.2 s.\n"
        )
        time.sleep(1)
        (tmp_path / "incoming" / "b.csv").write_text("sex,day\nf,2026-01-01\n")
        (tmp_path / "incoming" / "a.csv").unlink()
        assert child.wait(timeout=PATIENCE) == 0, "all steps of the horizon are released"
        assert child.stderr.read() == "", "once"
        assert child.stdout.read().splitlines() == [
            f"Released step {day} (2026-01-0{day})." for day in range(1, 6)
        ]
    assert counts(tmp_path, 5) == {"f": 1}


def test_rows_piped_again_after_a_cut_off_run_do_not_count_twice(
    tailrace, process, configure, tmp_path
):
    """Without a calendar nothing tells the rows apart, so the run that finishes the step takes no
    new ones.
    """
    configure(tmp_path, calendar=None, source='kind = "Lines"')
    rows = '{"sex": "f"}\n' * 40
    killed = (
        "import os; from tailrace.storage import durable; from tailrace.cli import app\n"
        "def stop(name):\n    if name == 'intent, after': os._exit(9)\n"
        "durable.hook = stop; app()"
    )
    process("run", "stream.toml", cwd=tmp_path, stdin=rows, script=killed, code=9)
    again = tailrace("run", "stream.toml", cwd=tmp_path, stdin=rows, code=5)
    assert "pipe in new rows only" in again.stderr
    tailrace("run", "stream.toml", cwd=tmp_path, stdin='{"sex": "m"}\n')
    tailrace("export", "stream.toml", "--to", "out.csv", cwd=tmp_path)
    lines = (tmp_path / "out.csv").read_text().split()
    assert (lines.count('"f"'), lines.count('"m"')) == (40, 1)


def test_releases_never_come_back_as_data(tailrace, configure, tmp_path):
    configure(tmp_path, calendar=None, source='kind = "Folder"\npath = "."\nfiles = "**/*.parquet"')
    assert "come back as data" in tailrace("run", "stream.toml", cwd=tmp_path, code=3).stderr
    configure(
        tmp_path,
        source='kind = "Folder"\npath = "incoming"\nfiles = "**/*.csv"\ntime = "day"',
        sinks=['kind = "CsvFolder"\npath = "incoming/out"'],
    )
    assert "come back as data" in tailrace("run", "stream.toml", cwd=tmp_path, code=3).stderr


def test_a_linked_stream_a_lost_promise_and_a_damaged_release(tailrace, configure, tmp_path):
    configure(tmp_path)
    (tmp_path / "incoming" / "all.csv").write_text("day,sex\n2026-01-01,f\n")
    tailrace("run", "stream.toml", cwd=tmp_path)
    releases = tmp_path / "ward.tail" / "releases"
    promise = (releases / "guarantee.json").read_bytes()
    shutil.rmtree(releases)
    tailrace("run", "stream.toml", cwd=tmp_path)
    assert (releases / "guarantee.json").read_bytes() == promise and (
        releases / "README.md"
    ).is_file()
    (releases / "added" / "000005.parquet").unlink()
    (releases / "added" / "000005.parquet").write_bytes(b"xx")
    assert (
        "000005.parquet or one before it is no Parquet file of ours"
        in tailrace("export", "stream.toml", "--to", "out.csv", cwd=tmp_path, code=5).stderr
    )
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ward.tail").rename(tmp_path / "elsewhere" / "ward.tail")
    (tmp_path / "tailrace.ledger").rename(tmp_path / "elsewhere" / "tailrace.ledger")
    (tmp_path / "ward.tail").symlink_to(tmp_path / "elsewhere" / "ward.tail")
    assert "ward" in tailrace("status", "stream.toml", cwd=tmp_path).stdout
