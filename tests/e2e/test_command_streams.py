"""A stream by the command line: made, checked, run, shown, exported, charged."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from samples import FOLDER
from tailrace.storage.store import loses_commits
from tailrace.stream.verify import public_table

COMMANDS = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()
ROWS = """day,note,sex
2026-01-01,,f
2026-01-01,,m
2026-01-03,a,f
2026-01-03,b,secret
not a day,,f
2025-12-31,,m
2026-01-03,,
"""
FLAGS = {
    "--kind": "histogram",
    "--population": "ward",
    "--path": "ward.tail",
    "--unit": "event",
    "--column": "sex=category f m",
    "--epsilon": "1",
    "--horizon": "5",
    "--folder": "incoming",
    "--time": "day",
    "--start": "2026-01-01",
    "--period": "1 day",
    "--timezone": "UTC",
}


def words(flags):
    return [word for pair in flags.items() for word in pair]


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_documented(value):
    """Every key of what is printed as JSON stands in the reference; names of files are no keys."""
    for key, inner in value.items():
        parts = (
            list(inner.values())
            if key == "files"
            else inner
            if isinstance(inner, list)
            else [inner]
        )
        assert f"`{key}`" in COMMANDS, key
        for part in parts:
            if isinstance(part, dict):
                assert_documented(part)


def counts(folder, step):
    table = public_table(folder / "ward.tail" / "releases", step)
    return dict(table.group_by("sex").len().iter_rows())


@pytest.fixture
def ward(configure, tmp_path):
    """A configuration, and a file."""
    configure(tmp_path)
    (tmp_path / "incoming" / "a.csv").write_text(ROWS)
    return tmp_path


@pytest.fixture(scope="module")
def once(tailrace, configure, tmp_path_factory):
    """The same after a run, to be copied: stream, ledger and all, since a part would be refused."""
    folder = tmp_path_factory.mktemp("once")
    configure(folder)
    (folder / "incoming" / "a.csv").write_text(ROWS)
    tailrace("run", "stream.toml", cwd=folder)
    return folder


@pytest.fixture
def released(once, tmp_path):
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag != "--time"])
def test_init_without_a_terminal_names_the_flag_that_is_missing(tailrace, tmp_path, flag):
    flags = {name: value for name, value in FLAGS.items() if name != flag}
    said = tailrace("init", *words(flags), cwd=tmp_path, code=3).stderr
    assert flag in said and len(said.splitlines()) == 1
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            {"--start": "2026-01-01", "--time": None, "--period": None, "--timezone": None},
            "--start needs to know when",
        ),
        ({"--epsilon": "much"}, "epsilon must be a finite number above 0"),
        ({"--unit": "people"}, "unit is 'event', or 'user COLUMN EVENTS'"),
        ({"--column": "sex"}, "--column takes NAME=KIND"),
        ({"--column": "sex=colour red"}, "There is no attribute 'colour'"),
        ({"--csv": "incoming"}, "[[sink]] path must not be read by [source]"),
        ({"--timezone": "Mars"}, "timezone must be an IANA name"),
        ({"--format": "dots"}, "must say how a time is written"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_init_writes_nothing_that_cannot_be_used(tailrace, tmp_path, flags, said):
    given = {name: value for name, value in {**FLAGS, **flags}.items() if value is not None}
    wrong = tailrace("init", *words(given), cwd=tmp_path, code=3).stderr
    assert said in wrong and len(wrong.splitlines()) == 1 and ".partial" not in wrong
    assert left(tmp_path) == []


def test_init_offers_column_names_and_reads_no_rows(tailrace, tmp_path):
    (tmp_path / "a.csv").write_bytes(b"day;sex\n\xff\xfe secret")
    done = tailrace("init", "--like", "a.csv", *words(FLAGS), cwd=tmp_path)
    assert "Columns: 1 day, 2 sex." in done.stdout and "secret" not in done.stdout
    wrong = tailrace(
        "init",
        "--like",
        "a.csv",
        "--to",
        "b.toml",
        *words({**FLAGS, "--time": "date"}),
        cwd=tmp_path,
        code=3,
    )
    assert "--time: There is no such column in that file: it has day, sex." in wrong.stderr
    assert (
        "stream.toml is there already"
        in tailrace("init", *words(FLAGS), cwd=tmp_path, code=3).stderr
    )
    assert (
        "cannot be opened"
        in tailrace("init", "--like", "b.csv", "--to", "b.toml", cwd=tmp_path, code=4).stderr
    )
    assert left(tmp_path) == ["a.csv", "stream.toml"]


def test_what_init_writes_is_what_was_said_and_every_line_is_explained(tailrace, tmp_path):
    from tailrace import ApproxDP, Categorical, Schema, User
    from tailrace.config import load

    flags = {**FLAGS, "--unit": "user id 3", "--delta": "1e-9", "--csv": "public"}
    tailrace("init", *words(flags), cwd=tmp_path)
    config = load(tmp_path / "stream.toml")
    assert config.mechanism.unit == User(column="id", events=3)
    assert config.mechanism.privacy == ApproxDP(epsilon=1, delta="1e-9")
    assert config.mechanism.domain == Schema(sex=Categorical(["f", "m"]))
    assert (config.calendar.start, config.calendar.period, config.source.time) == (
        "2026-01-01",
        "1 day",
        "day",
    )
    assert [sink.path for sink in config.sinks] == [tmp_path / "public"]
    keys = [
        line
        for line in (tmp_path / "stream.toml").read_text().splitlines()
        if re.match(r"\w+ = ", line)
    ]
    assert all("  # " in line for line in keys if not line.startswith("sex"))


def test_check_counts_exactly_says_that_this_is_private_and_leaves_nothing(tailrace, ward):
    shown = tailrace("check", "stream.toml", "incoming/a.csv", cwd=ward).stdout
    assert shown.splitlines()[0].startswith("PRIVATE")
    assert "secret" not in shown
    found = json.loads(
        tailrace("check", "stream.toml", "incoming/a.csv", "--json", cwd=ward).stdout
    )
    assert_documented(found)
    assert found["private"].startswith("PRIVATE")
    assert found["files"] == {
        "incoming/a.csv": {
            "rows": 7,
            "columns": [{"name": "sex", "missing": 1, "unreadable": 0, "outside": 1}],
            "outside": 1,
            "garbled": 0,
            "untimed": 1,
            "unordered": 0,
            "unnamed": 0,
            "early": 1,
            "unknown_op": 0,
            "deletes": 0,
            "duplicates": 0,
            "counted": 3,
            "steps": [1, 3],
        }
    }
    assert left(ward) == ["incoming", "stream.toml"], "no stream, no charge"


def test_a_run_releases_what_the_calendar_has_closed_and_then_nothing(tailrace, ward):
    done = tailrace("run", "stream.toml", cwd=ward)
    assert done.stdout.startswith(
        "Released steps 1 to 5 of 5 into ward.tail/releases.\nWhoever sees"
    )
    assert done.stderr == "", "no progress where nobody looks"
    totals = [counts(ward, step) for step in range(1, 6)]
    assert totals == [{"f": 1, "m": 1}] * 2 + [{"f": 2, "m": 1}] * 3
    assert "stands at step 5 of 5, the last" in tailrace("run", "stream.toml", cwd=ward).stdout
    assert tailrace("run", "stream.toml", "--json", cwd=ward).stdout == ""
    assert "Released" not in tailrace("run", "stream.toml", "--watch", cwd=ward).stdout, (
        "and does not wait for ever"
    )


def test_nothing_is_ready_before_the_first_step_has_closed(tailrace, configure, ward):
    configure(ward, calendar='start = 2126-01-01\nperiod = "1 day"\ngrace = "2 hours"')
    done = tailrace("run", "stream.toml", cwd=ward)
    assert done.stdout == (
        "Nothing to release: ward.tail stands at step 0 of 5; step 1 closes at 2126-01-02 02:00 "
        "UTC.\n"
    )
    status = json.loads(tailrace("status", "stream.toml", "--json", cwd=ward).stdout)
    assert (status["step"], status["period"], status["next_step_closes"]) == (
        0,
        None,
        "2126-01-02T02:00:00+00:00",
    )
    assert (
        "the last one is 0"
        in tailrace("export", "stream.toml", "--to", "a.csv", cwd=ward, code=5).stderr
    )


def test_a_later_run_goes_on_with_the_next_file(tailrace, configure, ward):
    configure(ward, calendar=None, source=FOLDER)
    assert tailrace("run", "stream.toml", "--json", cwd=ward).stdout.splitlines() == [
        '{"step": 1, "period": null, "entry": "ward.tail/releases/log/000001.json"}'
    ]
    assert (
        "Nothing to release: ward.tail stands at step 1 of 5."
        in tailrace("run", "stream.toml", cwd=ward).stdout
    )
    for name in ("b", "c"):
        (ward / "incoming" / f"{name}.csv").write_text("sex\nf\n")
    lines = tailrace("run", "stream.toml", "--json", cwd=ward).stdout.splitlines()
    assert [json.loads(line)["step"] for line in lines] == [2, 3]
    assert counts(ward, 3) == {"f": 5, "m": 2}


@pytest.mark.slow
def test_a_run_that_waited_for_another_does_not_use_its_files_again(process, configure, ward):
    """Between reading the configuration and opening the stream, another process releases a step."""
    configure(ward, calendar=None, source=FOLDER)
    script = """
import pathlib, subprocess, sys, tailrace.cli.run as running
opened = running.open_stream
def open_stream(config, held):
    subprocess.run([sys.executable, "-c", "from tailrace.cli import app; app()", *sys.argv[1:]], check=True)
    pathlib.Path("incoming/b.csv").write_text("sex\\nf\\n")
    return opened(config, held)
running.open_stream = open_stream
from tailrace.cli import app; app()
"""
    process("run", "stream.toml", cwd=ward, script=script)
    assert counts(ward, 1) == {"f": 3, "m": 2}
    assert counts(ward, 2) == {"f": 4, "m": 2}


HOLD = "import sys, tailrace; stream = tailrace.Stream.open('ward.tail'); print('open', flush=True); sys.stdin.readline()"


def test_while_another_process_has_it_open_it_can_be_seen_but_not_run(tailrace, released):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLD], cwd=released, text=True, **pipes) as holder:
        assert holder.stdout.readline() == "open\n"
        assert (
            json.loads(tailrace("status", "stream.toml", "--json", cwd=released).stdout)["step"]
            == 5
        )
        assert "ward.tail" in tailrace("status", "ward.tail", "--json", cwd=released).stdout, (
            "by its folder too"
        )
        tailrace("export", "stream.toml", "--to", "out.csv", cwd=released)
        said = tailrace("run", "stream.toml", cwd=released, code=5).stderr
        assert (
            said
            == "ward.tail is open in another process: close it there first, a stream has one writer.\n"
        )
        holder.stdin.write("\n")


def test_status_says_what_is_public_and_nothing_else(tailrace, released):
    found = json.loads(tailrace("status", "stream.toml", "--json", cwd=released).stdout)
    assert found.pop("guarantee").startswith("Whoever sees everything published over 5 steps")
    flaw = found.pop("sqlite")  # depends on the version that Python came with
    assert (flaw is not None) == loses_commits() and (flaw or sqlite3.sqlite_version).startswith(
        sqlite3.sqlite_version
    )
    assert found == {
        "stream": "ward.tail",
        "step": 5,
        "horizon": 5,
        "period": "2026-01-05",
        "next_step_closes": None,
        "population": "ward",
        "ledger": "tailrace.ledger",
        "late_steps": 0,
        "sinks_lacking": None,
        "warning": None,
        "ledger_step": 5,
        "cap": None,
    }
    shown = tailrace("status", "stream.toml", cwd=released).stdout
    assert "PRIVATE" not in shown and "a.csv" not in shown


def test_private_status_shows_files_that_were_changed_or_went_or_wait(tailrace, ward):
    for name in ("b", "gone"):
        (ward / "incoming" / f"{name}.csv").write_text(ROWS)
    tailrace("run", "stream.toml", cwd=ward)
    (ward / "incoming" / "b.csv").write_text(ROWS.replace("f", "m"))
    (ward / "incoming" / "gone.csv").unlink()
    (ward / "incoming" / "late[old].csv").write_text("DAY\n")
    status = json.loads(tailrace("status", "stream.toml", "--private", "--json", cwd=ward).stdout)
    assert_documented(status)
    found = status["private"]
    assert found["note"].startswith("PRIVATE")
    states = {
        name: (one["since"], one["state"], one["rows"], one["dropped"])
        for name, one in found["files"].items()
    }
    assert states == {
        "a.csv": (1, "used", 7, 4),
        "b.csv": (1, "changed after use: closed steps keep what they had", 7, 4),
        "gone.csv": (1, "gone", None, None),
        "late[old].csv": (None, "not used yet", None, None),
    }
    assert "has no column 'sex'" in found["files"]["late[old].csv"]["problem"]
    shown = tailrace("status", "stream.toml", "--private", cwd=ward).stdout
    assert "PRIVATE" in shown and "changed after use" in shown and "late[old].csv" in shown
    assert (
        "name the stream.toml"
        in tailrace("status", "ward.tail", "--private", cwd=ward, code=3).stderr
    )


def test_export_writes_a_table_once(tailrace, released):
    assert (
        "step 5" in tailrace("export", "stream.toml", "--to", "last.parquet", cwd=released).stdout
    )
    tailrace("export", "ward.tail", "--to", "first.csv", "--step", "1", cwd=released)
    last = pl.read_parquet(released / "last.parquet")
    assert dict(last.group_by("sex").len().iter_rows()) == {"f": 2, "m": 1}
    assert sorted((released / "first.csv").read_text().splitlines()) == ['"f"', '"m"', '"sex"']
    (released / "first.csv").write_text("mine")
    for arguments, code, said in (
        (("--to", "first.csv"), 3, "first.csv is there already: choose another name with --to."),
        (("--to", "a.csv", "--step", "6"), 5, "There is no release of step 6: the last one is 5."),
        (("--to", "a.xlsx"), 3, "a.xlsx must end in .csv, .parquet, .geojson or .geoparquet."),
    ):
        assert (
            tailrace("export", "stream.toml", *arguments, cwd=released, code=code).stderr
            == f"{said}\n"
        )
    assert (released / "first.csv").read_text() == "mine"
    assert not [name for name in left(released) if name.startswith(("a.", "."))]


def test_a_stream_beyond_the_cap_is_refused_and_leaves_nothing(tailrace, configure, ward):
    assert (
        "may lose epsilon = 600 for"
        in tailrace("ledger", "cap", "ward", "--epsilon", "600", cwd=ward).stdout
    )
    tailrace("run", "stream.toml", cwd=ward)
    other = 'path = "other.tail"\npopulation = "ward"'
    configure(ward, name="other.toml", stream=other)
    said = tailrace("run", "other.toml", cwd=ward, code=6).stderr
    assert (
        "a cap of epsilon = 600, of which epsilon = 500 is spent" in said
        and len(said.splitlines()) == 1
    )
    assert left(ward) == ["incoming", "other.toml", "stream.toml", "tailrace.ledger", "ward.tail"]
    lower = tailrace("ledger", "cap", "ward", "--epsilon", "400", cwd=ward, code=6).stderr
    assert "have spent epsilon = 500, which is more than a cap of epsilon = 400" in lower
    book = json.loads(tailrace("ledger", "show", "--json", cwd=ward).stdout)
    assert_documented(book)
    assert [(cap["population"], cap["cap"], cap["spent"]) for cap in book["caps"]] == [
        ("ward", "epsilon = 600", "epsilon = 500")
    ]
    assert [(one["stream"], one["step"], one["fork"]) for one in book["streams"]] == [
        ("ward.tail", 5, False)
    ]
    tailrace("ledger", "cap", "ward", "--epsilon", "1000", cwd=ward)
    tailrace("run", "other.toml", cwd=ward)
    shown = tailrace("ledger", "show", "--ledger", "tailrace.ledger", cwd=ward).stdout
    assert "other.tail" in shown and "epsilon = 1000" in shown


def test_a_ledger_may_lie_elsewhere_and_is_missed_when_it_is_gone(tailrace, configure, ward):
    (ward / "books").mkdir()
    configure(
        ward,
        stream='path = "ward.tail"\npopulation = "[red]ward[/red]"\nledger = "books/city.ledger"',
    )
    tailrace("run", "stream.toml", cwd=ward)
    assert "[red]ward[/red]" in tailrace("status", "stream.toml", cwd=ward).stdout, (
        "a name is no markup"
    )
    assert (
        "Caps: none."
        in tailrace("ledger", "show", "--ledger", "books/city.ledger", cwd=ward).stdout
    )
    (ward / "books" / "city.ledger").unlink()
    for command in ("run", "status"):
        assert (
            "has no ledger at city.ledger"
            in tailrace(command, "stream.toml", cwd=ward, code=5).stderr
        )


def test_a_configuration_that_was_changed_is_refused_until_it_is_changed_back(
    tailrace, configure, released
):
    for part, change in (
        ("population", {"stream": 'path = "ward.tail"\npopulation = "town"'}),
        ("mechanism", {"schema": 'sex = { kind = "Categorical", values = ["f", "m", "x"] }'}),
        ("calendar", {"calendar": 'start = 2026-01-01\nperiod = "2 days"'}),
        ("calendar", {"calendar": 'start = 2026-01-01\nperiod = "1 day"\nlate = "drop"'}),
    ):
        configure(released, **change)
        said = tailrace("run", "stream.toml", cwd=released, code=5).stderr
        assert said.startswith(
            f"stream.toml asks for another {part} than the one that ward.tail was made with"
        )
    configure(released)
    tailrace("run", "stream.toml", cwd=released)


def test_what_is_damaged_is_refused_in_one_sentence(tailrace, released):
    for name, command in (
        ("ward.tail/releases/guarantee.json", ("status", "stream.toml")),
        ("ward.tail/private/files.json", ("status", "stream.toml", "--private")),
        ("ward.tail/private/key", ("run", "stream.toml")),
        ("ward.tail/private/state.db", ("run", "stream.toml")),
        ("ward.tail/private/state.db", ("status", "stream.toml")),
        ("tailrace.ledger", ("run", "stream.toml")),
        ("tailrace.ledger", ("ledger", "show")),
    ):
        whole = (released / name).read_bytes()
        (released / name).write_bytes(b"no such thing" * 20_000)
        said = tailrace(*command, cwd=released, code=5).stderr
        assert "damaged" in said and len(said.splitlines()) == 1, name
        (released / name).write_bytes(whole)
    tailrace("run", "stream.toml", cwd=released)


def test_a_stream_whose_rows_cannot_be_read_is_neither_made_nor_charged(tailrace, configure, ward):
    configure(ward, schema='SEX = { kind = "Categorical", values = ["f", "m"] }')
    assert "has no column 'SEX'" in tailrace("run", "stream.toml", cwd=ward, code=4).stderr
    configure(ward, source='kind = "Folder"\npath = "elsewhere"\nfiles = "*.csv"\ntime = "day"')
    assert "There is no folder elsewhere" in tailrace("run", "stream.toml", cwd=ward, code=4).stderr
    assert left(ward) == ["incoming", "stream.toml"]
    configure(ward)
    assert "Released steps 1 to 5" in tailrace("run", "stream.toml", cwd=ward).stdout
