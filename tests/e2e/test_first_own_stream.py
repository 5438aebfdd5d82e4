"""The page for newcomers is true: its five commands, read from the page, in a real terminal."""

import re
import signal
import stat
import tomllib
from functools import partial
from pathlib import Path

import pexpect
import polars as pl
import pytest

from processes import PATIENCE, variables
from tailrace.stream.verify import public_table

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "first-own-stream.md").read_text()
ANSWERS = (  # a question, and what is typed; an answer that cannot be read is asked for again
    ("What is one row\\?.*What is one row\\?", "histograms"),
    ("What is one row\\?", "histogram"),
    ("Whose data are these?", "patients of the ward"),
    ("Folder for the stream?", "ward.tail"),
    ("Which column says when a row happened?", "date"),
    ("Which column says when a row happened?", "day"),
    ("How are times written?", "day.month.year"),
    ("How are times written?", "%d.%m.%Y"),
    ("When does step 1 begin?", "January"),
    ("When does step 1 begin?", "2026-01-01"),
    ("How long is a step?", ""),  # the one that is offered
    ("In which time zone?", "Europe/Berlin"),
    ("Who is protected", "the patients"),
    ("Who is protected", "event"),
    (r"  age \[skip\]", "real 0 18 65 100 outside=clip"),
    (r"  sex \[skip\]", "categories f m"),
    (r"  sex \[skip\]", "category f m outside=other"),
    (r"  note \[skip\]", ""),
    ("Is a value spelt in other ways", "city: NYC = New York"),
    ("Is a value spelt in other ways", "none"),
    ("Epsilon over all steps?", "much"),
    ("Epsilon over all steps?", "1"),
    ("How many steps at most?", "-3"),
    ("How many steps at most?", "31"),
    ("Which column names a row", ""),
    (r"How are decimals written", "dots"),
    (r"How are decimals written", ""),
    (r"In which folder do files arrive\? \[incoming\]", ""),
)


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def command_and_output(block):
    """What is typed, with the lines that a backslash continues, and what the page says is
    printed.
    """
    typed, printed = re.fullmatch(r"\$ ((?:.*\\\n)*.*)\n((?:.*\n)*)", block).groups()
    return typed, printed.splitlines()


@pytest.fixture
def folder(tmp_path):
    """Where the newcomer sits: only the CSV file of the page is there."""
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "cases.csv").write_text(blocks("csv")[0])
    return tmp_path


def terminal(command, folder):
    given = variables(TERM="xterm", PYTHONIOENCODING="utf-8")
    del given["COLUMNS"]  # the terminal says how wide it is
    options = {
        "cwd": str(folder),
        "env": given,
        "dimensions": (50, 100),
        "encoding": "utf-8",
        "timeout": PATIENCE,
    }
    interruptible = partial(
        signal.signal, signal.SIGINT, signal.SIG_DFL
    )  # whatever started the tests
    return pexpect.spawn("/bin/sh", ["-c", command], preexec_fn=interruptible, **options)


def run(command, folder):
    """The exit code, and what is left on the screen, without colours."""
    child = terminal(command, folder)
    child.expect(pexpect.EOF)
    child.close()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", child.before)
    return child.exitstatus, [line.rstrip() for line in re.split(r"[\r\n]+", plain)]


def assert_printed(expected, lines):
    """Each line of the page, in this order; `...` stands for others, or for the rest of a line."""
    left = iter(lines)
    for line in expected:
        start = line.removesuffix("...").rstrip() if line.endswith("...") else None
        if line.strip() in ("...", ""):
            continue
        assert any(found.startswith(start) if start else found == line for found in left), line


def test_the_page_has_five_commands():
    typed = [command_and_output(block)[0] for block in blocks("console")]
    assert [command.split()[:2] for command in typed] == [
        ["tailrace", name] for name in ("init", "check", "run", "status", "export")
    ]


def test_the_commands_of_the_page_lead_from_the_csv_to_releases(folder):
    for block in blocks("console"):
        typed, printed = command_and_output(block)
        code, lines = run(typed, folder)
        assert code == 0, (typed, lines)
        assert_printed(printed, lines)
    assert sorted(path.name for path in folder.iterdir()) == [
        *("incoming", "january.csv", "stream.toml", "tailrace.ledger", "ward.tail")
    ]
    releases = folder / "ward.tail" / "releases"
    assert sorted(path.stem for path in (releases / "log").iterdir()) == [
        f"{day:06d}" for day in range(1, 32)
    ]
    assert stat.S_IMODE((folder / "ward.tail" / "private").stat().st_mode) == 0o700
    exported, released = (
        pl.read_csv(folder / "january.csv", schema={"sex": pl.String, "age": pl.Float64}),
        public_table(releases, 31),
    )
    assert exported.columns == ["sex", "age"] and len(exported) == len(released)
    assert set(exported["sex"]) <= {"f", "m", None} and exported["age"].is_between(0, 100).all()


def test_init_asks_for_what_is_not_said_and_writes_the_same_file(folder):
    typed, _ = command_and_output(blocks("console")[0])
    assert run(typed, folder)[0] == 0
    child = terminal("tailrace init --like incoming/cases.csv --to asked.toml", folder)
    for question, answer in ANSWERS:
        child.expect(question)
        child.sendline(answer)
    child.expect("Wrote asked.toml")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    asked, flagged = (
        (folder / name).read_text().splitlines() for name in ("asked.toml", "stream.toml")
    )
    assert sorted(asked) == sorted(flagged), (
        "the order of columns is that of the file, or that of the flags"
    )


HEADER = "case;call_date;Latitude (WGS 84);Longitude (WGS 84);why"
PLACES = (  # what the names of columns suggest is offered; what only the curator knows is not
    ("What is one row\\?.*What is one row\\?", "places"),
    (r"Whose data are these\? \(for example", "callers"),
    (r"Folder for the stream\?", ""),
    (r"when a row happened\? .*\[call_date\]", ""),
    (r"How are times written\?", "%d.%m.%Y %H:%M or ISO"),
    (r"When does step 1 begin\?", "2026-01-01"),
    (r"How long is a step\?", ""),
    (r"In which time zone\?", ""),
    (r"Who is protected.*\(for example", "user 1 2"),
    (r"x and y\? \['Longitude \(WGS 84\)' 'Latitude \(WGS 84\)'\]", "4 3"),
    (r"Which area: .*\(for example", "14 52 13 53"),
    (r"Which area: .*\(for example", "13 52 14 53"),
    (r"What else is published of each place\?", "reason"),
    (r"What else is published of each place\?", "5"),
    (r"  why \(for example", "category fire flood"),
    (r"Is a value spelt in other ways", "why: inundation = flood"),
    (r"And another one", ""),
    (r"Epsilon over all steps\?", ""),
    (r"How many steps at most\?", "31"),
    (r"Which column names a row.*\[none\]", "1"),
    (r"How are decimals written", "1,5"),
    (r"In which folder do files arrive\? \[\.\]", ""),
)
PANEL = (
    ("What is one row\\?.*What is one row\\?", "panel"),
    (r"Whose data are these\?", "workers"),
    (r"Folder for the stream\?", ""),
    (r"when a row happened\?", "2"),
    (r"How are times written\?", ""),
    (r"When does step 1 begin\?", "2026-01-01"),
    (r"How long is a step\?", "month"),
    (r"In which time zone\?", ""),
    (r"whose row it is", 'user "Person ID"'),
    (r"How many steps in a row", ""),
    (r"Which column is followed\? \[work\]", ""),
    (r"  work \(for example", "skip"),
    (r"  work \(for example", 'category job "no job" outside=other'),
    (r"Is a value spelt in other ways", "work: employed = a job"),
    (r"Is a value spelt in other ways", "work: employed = job, out of work = no job"),
    (r"And another one", "work: yes = job"),
    (r"And another one", ""),
    (r"Epsilon over all steps\?", ""),
    (r"Delta", "seldom"),
    (r"Delta", ""),
    (r"How many steps at most\?", "12"),
    (r"In which folder do files arrive\? \[\.\]", ""),
)


def answered(folder, header, answers):
    (folder / "calls.csv").write_text(f"{header}\n")
    child = terminal("tailrace init --like calls.csv", folder)
    for question, answer in answers:
        child.expect(question)
        child.sendline(answer)
    child.expect(pexpect.EOF)
    return tomllib.loads((folder / "stream.toml").read_text())


def test_init_offers_columns_by_their_names_and_takes_their_numbers(tmp_path):
    written = answered(tmp_path, HEADER, PLACES)
    given = {"time": "call_date", "format": ["%d.%m.%Y %H:%M", "ISO"], "id": "case"}
    # One file is read where others may come.
    given |= {"files": "calls.csv", "decimal": ","}
    assert written["source"] == {"kind": "Folder", "path": ".", **given}
    assert written["schema"]["why"]["values"] == ["fire", "flood"]
    assert written["aliases"] == {"why": {"inundation": "flood"}}
    assert written["box"]["columns"] == ["Longitude (WGS 84)", "Latitude (WGS 84)"]
    assert written["mechanism"]["unit"] == {"kind": "User", "column": "case", "events": 2}


def test_init_asks_for_other_spellings_and_never_loses_answers(tmp_path):
    written = answered(tmp_path, "Person ID,month,work", PANEL)
    assert written["aliases"] == {
        "work": {"employed": "job", "out of work": "no job", "yes": "job"}
    }
    assert list(written["schema"]) == ["work"]


UNSEEN = (
    ("What is one row\\?.*What is one row\\?", "histogram"),
    (r"Whose data are these\?", "callers"),
    (r"Folder for the stream\?", ""),
    (r"every file is a step\) \(for example day\)", ""),
    (r"every file is a step\) \(for example day\)", "none"),
    (r"Who is protected", "event"),
)


def test_a_file_is_no_single_step_by_an_empty_answer(tmp_path):
    """Where no name of a column says that it holds times, none is offered."""
    (tmp_path / "calls.csv").write_text("Meldezeit;Art\n", encoding="utf-8")
    child = terminal("tailrace init --like calls.csv", tmp_path)
    for question, answer in UNSEEN:
        child.expect(question, timeout=60)
        child.sendline(answer)
    child.close(force=True)


def test_a_question_that_is_not_answered_leaves_nothing(folder):
    child = terminal("exec tailrace init --like incoming/cases.csv", folder)
    child.expect("histogram.*What is one row")
    pressed = 1
    child.sendintr()
    while child.expect(["Stopped.", pexpect.TIMEOUT], timeout=5):
        child.sendintr()  # the first one may come just before Python begins to wait
        assert (pressed := pressed + 1) < 100
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert [path.name for path in folder.iterdir()] == ["incoming"]
