"""The command line as a user meets it: a process, its exit code, what it prints and what it
leaves.
"""

import re
import resource
import signal
import subprocess
import time

import pytest
import typer

from processes import CALL, PATIENCE, python, run, variables
from tailrace.cli import app, say


def test_a_folder_that_cannot_be_written_is_one_sentence(tailrace, tmp_path):
    (tmp_path / "file").write_text("")
    wrong = tailrace("demo", "--to", "file/below", cwd=tmp_path, code=1)
    assert wrong.stderr.strip().splitlines() == [
        "The report cannot be written to file/below: choose a folder with --to."
    ]


def commands(group=None, words=()):
    """Every command of the app, as the words that call it."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        yield from (
            commands(command, (*words, name)) if hasattr(command, "commands") else [(*words, name)]
        )


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_help_shows_an_example_of_the_command(tailrace, tmp_path, words):
    shown = " ".join(tailrace(*words, "--help", cwd=tmp_path).stdout.split())
    assert f"Example: tailrace {' '.join(words)} " in shown


def test_help_lists_every_command(tailrace, tmp_path):
    shown = tailrace("--help", cwd=tmp_path).stdout
    assert all(words[0] in shown for words in commands())
    assert tailrace(cwd=tmp_path, code=2).stdout.split() == shown.split(), "nothing said: the same"


def test_the_version(process, tmp_path):
    assert re.fullmatch(r"tailrace \d+\.\d+\.\d+\n", process("--version", cwd=tmp_path).stdout)


def test_completion_prints_a_script_and_knows_the_commands(tmp_path):
    done = run("bash", "-c", "tailrace --show-completion; exit $?", cwd=tmp_path)
    assert (
        done.returncode == 0
        and "complete -o default -F _tailrace_completion tailrace" in done.stdout
    )
    words = {"COMP_WORDS": "tailrace st", "COMP_CWORD": "1"}
    offered = run("tailrace", env=variables(_TAILRACE_COMPLETE="complete_bash", **words))
    assert offered.stdout.split() == ["status"]


SLOW = ("polars", "numba", "pydantic", "scipy", "narwhals", "numpy", "psycopg", "rich.progress")


def test_help_does_not_import_the_slow_parts(tmp_path):
    code = "import atexit, sys; atexit.register(lambda: print('\\n', [name for name in SLOW if name in sys.modules]))\n"
    code = f"SLOW = {SLOW}\n{code}from tailrace.cli import app; app()"
    done = python("-c", code, "--help", cwd=tmp_path)
    assert "init" in done.stdout and done.stdout.splitlines()[-1].strip() == "[]"


def test_help_takes_little_longer_than_typer_itself(process, tmp_path):
    """By the processor's clock and as a ratio, so that a busy or slow machine does not matter."""

    def seconds(script):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(3):
            process("--help", cwd=tmp_path, script=script)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    assert seconds(CALL) < 2 * seconds("import typer.rich_utils")


# How to come to each exit code; a function takes the command line, a way to configure it, and a
# folder.


def done(process, configure, folder):
    configure(folder)
    process("run", "stream.toml", cwd=folder, code=0)


def not_written(process, configure, folder):
    done(process, configure, folder)
    said = process("export", "ward.tail", "--to", "nowhere/out.csv", cwd=folder, code=1).stderr
    assert (
        said
        == "nowhere/out.csv cannot be written: see whether its folder is there and may be written to.\n"
    )


def not_understood(process, configure, folder):
    process("nonsense", cwd=folder, code=2)
    process("run", cwd=folder, code=2)
    process("run", "stream.toml", "--every", "0", cwd=folder, code=2)


def not_configured(process, configure, folder):
    assert "cannot be read" in process("run", "stream.toml", cwd=folder, code=3).stderr
    configure(folder, schema="sex = 3")
    said = process("check", "stream.toml", "incoming/a.csv", cwd=folder, code=3).stderr
    assert re.fullmatch(r"stream\.toml, line \d+: \[schema\] sex .*\n", said)


def wrong_shape(process, configure, folder):
    configure(folder)
    (folder / "incoming" / "a.csv").write_text("SEX,day\nsecret,2026-01-01\n")
    for command in (["run", "stream.toml"], ["check", "stream.toml", "incoming/a.csv"]):
        said = process(*command, cwd=folder, code=4).stderr
        assert said == "a.csv has no column 'sex', which the configuration names.\n"


def not_usable(process, configure, folder):
    said = process("ledger", "show", cwd=folder, code=5).stderr
    assert said == "There is no ledger tailrace.ledger: say where it is with --ledger.\n"
    configure(folder)
    assert "is not there yet" in process("status", "stream.toml", cwd=folder, code=5).stderr


def beyond_the_cap(process, configure, folder):
    configure(folder)
    process("ledger", "cap", "ward", "--epsilon", "2", cwd=folder)
    assert "has a cap of epsilon = 2" in process("run", "stream.toml", cwd=folder, code=6).stderr


SINK = ['kind = "CsvFolder"\npath = "public"']


def not_taken(process, configure, folder):
    configure(folder, sinks=SINK)
    (folder / "public").write_text("in the way")
    done = process("run", "stream.toml", cwd=folder, code=7)
    assert "Released" in done.stdout and "1 of 1 sinks could not" in done.stderr


def late(process, configure, folder):
    not_taken(process, configure, folder)
    said = process("status", "stream.toml", "--fail-if-late", cwd=folder, code=8).stderr
    assert said == "CsvFolder public cannot be read.\n"


def missing(process, configure, folder):
    configure(folder)
    (folder / "incoming" / "a.csv").write_text("sex,day\nf,soon\n")
    shown = process("check", "stream.toml", "--strict", cwd=folder, code=9).stdout
    assert "Warning: " in shown and shown.startswith("PRIVATE")


def refuted(process, configure, folder):
    (folder / "weaker.py").write_text(
        "from fractions import Fraction\n"
        "from tailrace import PureDP, counters\n"
        "from tailrace.audit import Planted\n"
        "sound = counters.Simple(privacy=PureDP(epsilon=1), horizon=2)\n"
        "broken = Planted(sound, Fraction(1, 5))\n"
    )
    said = process("audit", "weaker:broken", "--runs", "0", cwd=folder, code=10).stderr
    assert said.endswith("Refuted: weaker:broken.\n")


def fault(process, configure, folder):
    script = "import tailrace.cli.ledger as standing\ndef show_ledger(*_, **__): raise RuntimeError('a secret')\n"
    script += "standing.show_ledger = show_ledger\nfrom tailrace.cli import app; app()"
    said = process("ledger", "show", cwd=folder, code=70, script=script).stderr
    assert "A fault of Tailrace itself (RuntimeError at" in said and "secret" not in said


def stopped(process, configure, folder):
    configure(folder, calendar='start = 2126-01-01\nperiod = "1 day"')
    child = subprocess.Popen(
        ["tailrace", "run", "stream.toml", "--watch", "--every", "5"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env=variables(),
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),  # whatever started the tests
    )
    while not (folder / "ward.tail").exists() and child.poll() is None:
        time.sleep(0.05)
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=PATIENCE)[1]
    assert (child.returncode, said) == (130, "Stopped. Nothing is lost: run again to go on.\n")


WAYS = {
    0: done,
    1: not_written,
    2: not_understood,
    3: not_configured,
    4: wrong_shape,
    5: not_usable,
    6: beyond_the_cap,
    7: not_taken,
    8: late,
    9: missing,
    10: refuted,
    70: fault,
    130: stopped,
}


# a few seconds of processes each
LONG = (1, 5, 6, 7, 8, 9, 10, 130)


@pytest.mark.parametrize(
    "code", [pytest.param(c, marks=pytest.mark.slow) if c in LONG else c for c in WAYS]
)
def test_each_exit_code(process, configure, tmp_path, code):
    WAYS[code](process, configure, tmp_path)


def test_no_other_exit_code_is_documented():
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", say.__doc__, re.M)} == set(WAYS)
