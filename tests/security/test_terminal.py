"""What reaches a terminal, a log or a spreadsheet: plain text, whatever names and values hold;
never a trace.
"""

import ast
import contextlib
import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from processes import CALL, call, python, variables
from tailrace import (
    Categorical,
    ConfigError,
    DataError,
    Event,
    HistogramStream,
    Noise,
    PureDP,
    Schema,
    Stream,
)
from tailrace.cli import app, say
from tailrace.config import load
from tailrace.sinks import CsvFolder

CLEAR = "\x1b[2J\x1b[31m\x9b\x07\u202ered\u2028\x7f\udce9"
FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"]
SECRET = "open-sesame"
TOML = """
[stream]
path = "ward.tail"
population = "ward"
[mechanism]
kind = "HistogramStream"
horizon = 5
privacy = { kind = "PureDP", epsilon = 500 }
unit = { kind = "Event" }
[schema]
sex = { kind = "Categorical", values = ["f", "=m"] }
[source]
kind = "Folder"
path = "incoming"
files = "*.csv"
"""


@pytest.fixture
def ward(tmp_path, monkeypatch):
    """A folder with a configuration and one file, which is also the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "stream.toml").write_text(TOML)
    (tmp_path / "incoming" / "a.csv").write_text("sex\nf\n=m\n")
    return tmp_path


def unseen(text):
    """Letters that are not for reading, apart from the ends of lines."""
    return [letter for letter in text if letter != "\n" and say.plain(letter) != letter]


def test_names_that_hold_control_characters_are_shown_and_do_nothing(ward):
    odd = "x\x1b[2J\u202e\nReleased step 9.csv"
    (ward / "incoming" / odd).write_text("sex\nf\n")
    (ward / "stream.toml").write_text(
        TOML.replace('population = "ward"', r'population = "w\u001b[31m\u007f\u202e"')
    )
    calls = [call("run", "stream.toml"), call("check", "stream.toml", f"incoming/{odd}")]
    for more in ([], ["--json"]):
        calls += [
            call("status", "stream.toml", "--private", *more),
            call("ledger", "show", "stream.toml", *more),
        ]
    calls += [
        call("run", f"{odd}.toml", code=3),
        call("run", "stream.toml", odd, code=2),
        call(odd, code=2),
    ]
    for done in calls:
        assert unseen(done.output) == []
        assert "Released step 9" not in done.output.splitlines()


def test_a_header_with_control_characters_is_shown_and_does_nothing(ward):
    (ward / "like.csv").write_text("\x1b[2Jsex,\u202eage\n1,2\n")
    done = call("init", "--to", "new.toml", "--like", "like.csv", code=3)
    assert unseen(done.output) == [] and r"\x1b[2Jsex" in done.output


@pytest.mark.parametrize(
    "text", [CLEAR, "a\rb", "a\nb", "\ud83d", "".join(map(chr, range(0x2100)))]
)
def test_plain_text_holds_no_control_character(text):
    assert unseen(say.plain(text)) == [] and "\n" not in say.plain(text)
    assert say.plain("naïve 東京 𝄞") == "naïve 東京 𝄞"


def test_a_password_in_json_leaves_json(capsys):
    value = {
        "a": 'postgresql://me:se"cr\\et@host/ward',
        "b": 'password=x"y',
        "c": ["plain@host", "a://b:c@d"],
    }
    say.as_json(value)
    say.as_json(value, indent=None)
    shown = capsys.readouterr().out
    whole, line = shown.rsplit("\n", 2)[:2]
    assert json.loads(whole) == json.loads(line) and 'se\\"cr' not in shown and "***@host" in shown


def test_only_one_file_of_the_command_line_prints():
    folder = Path(say.__file__).parent
    for path in folder.glob("*.py"):
        names = [
            node.attr
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute)
        ]
        calls = [
            node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)
        ]
        if path.name != "say.py":
            assert not {"echo", "prompt", "secho", "confirm"} & set(names) and "print" not in [
                *names,
                *calls,
            ], path.name


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_a_terminal_that_cannot_show_a_letter_gets_its_number(ward, encoding):
    (ward / "stream.toml").write_text(TOML.replace('population = "ward"', 'population = "東京 𝄞"'))
    call("run", "stream.toml")
    given = {"env": variables(PYTHONIOENCODING=encoding), "text": False}
    done = python("-c", CALL, "status", "stream.toml", **given)
    assert (done.returncode, done.stderr) == (0, b"") and rb"\u6771\u4eac" in done.stdout


def test_a_password_is_never_echoed(ward, caplog):
    url = f"postgresql://me:{SECRET}@127.0.0.1:1/ward"
    sink = f'[[sink]]\nkind = "SqlTable"\nurl = "{url}"\ntable = "ward"\n'
    source = TOML.replace(
        'kind = "Folder"\npath = "incoming"\nfiles = "*.csv"', f'kind = "SqlTable"\nurl = "{url}"'
    )
    texts = [
        TOML + sink,
        TOML + sink + sink,
        TOML + sink.replace("url", "uri"),
        TOML + sink.replace("SqlTable", url),
        TOML + sink.replace("postgresql", "mysql"),
        TOML + f'[[sink]]\n"{url}" = 1\n',
        TOML.replace("[schema]", f'[schema]\n"{url}" = 3'),
        source,
        source + 'table = "t"\ntime = "day"\n[calendar]\nstart = 2026-01-01\nperiod = "1 day"\n',
        source + "table = 3\n",
    ]
    for text in texts:
        (ward / "stream.toml").write_text(text)
        for command in (
            ["run"],
            ["status"],
            ["run", "--json"],
            ["check", "incoming/a.csv"],
            ["ledger", "show"],
        ):
            done = CliRunner().invoke(app, [*command[:1], "stream.toml", *command[1:]])
            assert SECRET not in done.output
        said = None
        with contextlib.suppress(ConfigError):
            said = load("stream.toml")
        assert SECRET not in repr(said)
    assert (
        SECRET
        not in call("run", "a", url, code=2).output
        + call("ledger", "show", "--ledger", url, code=5).output
    )
    assert SECRET not in caplog.text


class PanicException(BaseException):
    """As Polars raises it, which is no Exception."""


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (PanicException("row 7 holds a secret"), 4, "Polars broke down"),
        (MemoryError("secret"), 1, "not enough memory"),
        (UnicodeEncodeError("ascii", "secret", 0, 1, "no"), 70, "A fault of Tailrace itself"),
        (KeyboardInterrupt(), 130, "Stopped."),
    ],
)
def test_what_is_no_ordinary_error_is_one_sentence_too(ward, monkeypatch, error, code, said):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr("tailrace.sources.reading.Reader.read", fails)
    done = call("check", "stream.toml", "incoming/a.csv", code=code if code != 1 else 4)
    assert (
        said if code != 1 else "too large for the memory"
    ) in done.output and "secret" not in done.output
    monkeypatch.setattr("tailrace.cli.check._examined", fails)
    assert said in call("check", "stream.toml", "incoming/a.csv", code=code).output


def test_a_real_panic_of_polars_is_one_sentence(ward):
    assert not issubclass(pl.exceptions.PanicException, Exception)
    with pytest.raises(DataError, match="Polars breaks down"), told_of("a.csv"):
        raise pl.exceptions.PanicException("index out of bounds: 7")


def told_of(name):
    from tailrace.sources.files import told

    return told(Path(name))


@pytest.mark.parametrize("ending", ["\r", "\r\r", "\x85", "\x0b", "\x1e", "\u2028", "\0"])
def test_init_shows_names_of_columns_and_never_a_row(ward, ending):
    """A file whose lines do not end where ours do has a first line with everything in it."""
    (ward / "like.csv").write_bytes(ending.join(["sex,age", "secret,41", "secret,42"]).encode())
    done = CliRunner().invoke(app, ["init", "--to", "new.toml", "--like", "like.csv"])
    assert done.exit_code == 4 and "secret" not in done.output


def test_a_first_line_without_end_is_not_read_to_its_end(ward):
    (ward / "like.csv").write_bytes(b"sex," * 400_000 + b"\nsecret\n")
    assert "does not end" in call("init", "--to", "new.toml", "--like", "like.csv", code=4).output


def formulas(text):
    """Cells of a CSV that a spreadsheet would run."""
    rows = csv.reader(io.StringIO(text, newline=""))
    return [
        cell
        for row in rows
        for cell in row
        if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    ]


@pytest.fixture(scope="module")
def release():
    space = Schema(**{"=name": Categorical(FORMULAS), "number": Categorical(["a"])})
    mechanism = HistogramStream(domain=space, privacy=PureDP(epsilon=500), unit=Event(), horizon=3)
    with Stream(mechanism, noise=Noise.insecure(1)) as stream:
        return stream.push(pl.DataFrame({"=name": FORMULAS, "number": ["a"] * len(FORMULAS)}))


def test_no_csv_of_a_sink_holds_a_formula(tmp_path, release):
    CsvFolder(tmp_path / "marked").put(release)
    CsvFolder(tmp_path / "left", formulas=True).put(release)
    for name in ("table", "added", "removed"):
        assert (
            formulas((tmp_path / "marked" / "000001" / f"{name}.csv").read_bytes().decode()) == []
        )
    left = formulas((tmp_path / "left" / "000001" / "table.csv").read_bytes().decode())
    assert sorted({*left}) == sorted({"=name", *FORMULAS})
    assert "has a ' in front" in (tmp_path / "marked" / "README.md").read_text()
    assert "has a ' in front" not in (tmp_path / "left" / "README.md").read_text()


def test_numbers_below_zero_are_no_formulas(tmp_path):
    from tailrace.sinks.folders import csv_of

    frame = pl.DataFrame({"x": [-1.5, None], "y": [-2, 3], "-z": ["-1", None]})
    assert csv_of(frame) == b"x,y,'-z\n-1.5,-2,'-1\n,3,\n"
    assert csv_of(frame, formulas=True) == frame.write_csv().encode()


def test_exports_hold_no_formula_unless_they_are_asked_for(ward):
    (ward / "stream.toml").write_text(
        TOML + '[[sink]]\nkind = "CsvFolder"\npath = "left"\nformulas = true\n'
    )
    call("run", "stream.toml")
    call("export", "stream.toml", "--to", "marked.csv")
    call("export", "stream.toml", "--to", "left.csv", "--formulas")
    call("export", "stream.toml", "--to", "left.parquet")
    assert (
        "'=m" in (ward / "marked.csv").read_text()
        and formulas((ward / "marked.csv").read_text()) == []
    )
    for name in ("left.csv", "left/000001/table.csv"):
        assert formulas((ward / name).read_text()) == ["=m"]
    assert "=m" in pl.read_parquet(ward / "left.parquet")["sex"].to_list()
    (ward / "stream.toml").write_text(
        TOML + '[[sink]]\nkind = "CsvFolder"\npath = "left"\nformulas = "yes"\n'
    )
    assert "[[sink]] formulas must be true or false." in call("run", "stream.toml", code=3).output


def test_json_is_ascii_without_control_characters(ward):
    (ward / "stream.toml").write_text(
        TOML.replace('population = "ward"', r'population = "w\u007f\u001b[31m東"')
    )
    call("run", "stream.toml")
    text = call("status", "stream.toml", "--json").output
    assert (
        text.isascii()
        and unseen(text) == []
        and json.loads(text)["population"] == "w\x7f\x1b[31m東"
    )
