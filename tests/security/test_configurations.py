"""Configurations written to do harm: each gives a stream, or is refused in one sentence; and none
costs more than its length.
"""

import random
import re
import sys

import pytest

from tailrace import ConfigError, Noise, Stream
from tailrace.config import load

MUTATED = 2_500
HEAD = '[stream]\npath = "ward.tail"\npopulation = "patients of the ward"\n'
SCHEMA = """
[schema]
age = { kind = "Integer", low = 0, high = 9, outside = "clip" }
bmi = { kind = "Real", edges = [10, 18.5, 60] }
sex = { kind = "Categorical", values = ["f", "m"], outside = "other" }
"""
BOX = '[box]\ncolumns = ["x", "y"]\nlow = [0, 0]\nhigh = [1, 1]\ncells = 8\n'
CALENDAR = '[calendar]\nstart = 2026-01-01\nperiod = "1 day"\ntimezone = "Europe/Berlin"\ngrace = "6 hours"\n'
FOLDER = '[source]\nkind = "Folder"\npath = "incoming"\nfiles = "*.csv"\ntime = "day"\nformat = "%d.%m.%Y"\n'
LINES = '[source]\nkind = "Lines"\n'
TABLE = '[source]\nkind = "SqlTable"\nurl = "sqlite:///ward.db"\ntable = "visits"\ntime = "day"\narrived = "came"\n'
SINKS = '[[sink]]\nkind = "CsvFolder"\npath = "public"\n[[sink]]\nkind = "SqlTable"\nurl = "sqlite:///o.db"\ntable = "t"\n'
PURE = 'privacy = { kind = "PureDP", epsilon = 1 }\n'
GAUSSIAN = 'privacy = { kind = "ZCDP", rho = 0.1 }\n'
EVENT = 'unit = { kind = "Event" }\n'
PERSON = 'unit = { kind = "User", column = "id", events = 3 }\n'
RECORD = 'unit = { kind = "User", column = "id", records = 1 }\n'
PANEL = 'unit = { kind = "User", column = "id" }\nneighbours = { kind = "AddRemove" }\nmissing = { kind = "Drop" }\n'
BASES = [
    HEAD
    + f'[mechanism]\nkind = "HistogramStream"\nhorizon = 30\n{PURE}{PERSON}counter = {{ kind = "Block", size = 8 }}\n'
    + SCHEMA
    + CALENDAR
    + FOLDER
    + SINKS,
    HEAD
    + f'[mechanism]\nkind = "SpatialStream"\nhorizon = 30\n{PURE}{EVENT}deletes = false\n'
    + BOX
    + CALENDAR
    + TABLE,
    HEAD
    + f'[mechanism]\nkind = "TabularStream"\nhorizon = 30\n{PURE}{EVENT}'
    + SCHEMA
    + CALENDAR
    + FOLDER,
    HEAD
    + f'[mechanism]\nkind = "PanelWindow"\nhorizon = 12\nwindow = 3\n{GAUSSIAN}{PANEL}'
    + '[schema]\npoor = { kind = "Categorical", values = [false, true] }\n'
    + LINES,
    HEAD
    + f'[mechanism]\nkind = "SnapshotHistogram"\nhorizon = 12\n{PURE}{RECORD}'
    + SCHEMA
    + LINES,
    HEAD
    + f'[mechanism]\nkind = "Trajectories"\ntrajectory = "trip"\norder = "at"\n{PURE}{EVENT}'
    + BOX
    + LINES,
]
VALUES = [
    *(
        "-1",
        "0",
        "1",
        "1.5",
        "nan",
        "inf",
        "-inf",
        "1e308",
        "1e-308",
        "9" * 400,
        "0x10",
        "true",
        '""',
        '"none"',
        "[]",
        "{}",
    ),
    *(
        '"\\u0000"',
        '"\\u001b[2J"',
        '"../../x"',
        '"/dev/zero"',
        '"a/b/c.csv"',
        "2026-01-01",
        "23:59:59",
        "[[[[]]]]",
        '["a"]',
    ),
    *(
        '{ kind = "Block" }',
        '{ kind = "PureDP", epsilon = -1 }',
        '{ kind = "Schema" }',
        '{ kind = "Box", cells = 3 }',
    ),
    *(
        '{ kind = "ApproxDP", epsilon = 1, delta = 2 }',
        "{ kind = 7 }",
        '"1/3"',
        '"1/0"',
        '"%Y"',
        "'\\'",
        '"%"',
        '"**"',
    ),
    *(
        '{ kind = "User", column = "id" }',
        '{ kind = "Window", steps = 3, column = "id", records = 1 }',
        "18446744073709551616",
    ),
]
LETTERS = "[]{}=,.\"'#\n\t\\%\x00\x1b\x7f\u202e\ud7ff𝄞aA0-_ "


def mutated(text, generator):
    """The text with one to three things changed, each in one of eight ways."""
    for _ in range(generator.randint(1, 3)):
        rows = text.split("\n")
        place = generator.randrange(len(rows))
        way = generator.randrange(8)
        if way == 0:
            del rows[place]
        elif way == 1:
            rows.insert(place, generator.choice(rows))
        elif way == 2 and "=" in rows[place]:
            rows[place] = f"{rows[place].split('=')[0]}= {generator.choice(VALUES)}"
        elif way == 3:
            rows[place] = re.sub(
                r"[\d.]+|\"[^\"]*\"|true|false",
                lambda _: generator.choice(VALUES),
                rows[place],
                count=1,
            )
        elif way == 4:
            rows[place] = rows[place].replace("=", f"{generator.choice(LETTERS)}=", 1)
        elif way == 5:
            other = generator.choice(generator.choice(BASES).split("\n"))
            rows[place] = other
        text = "\n".join(rows)
        if way == 6:
            at = generator.randrange(len(text) + 1)
            text = text[:at] + generator.choice(LETTERS) + text[at + generator.randrange(2) :]
        elif way == 7 and generator.random() < 0.2:
            text = text[: generator.randrange(len(text) + 1)]
    return text


@pytest.mark.parametrize("base", BASES)
def test_the_configurations_that_are_mutated_are_in_order(tmp_path, base):
    (tmp_path / "stream.toml").write_text(base)
    Stream(load(tmp_path / "stream.toml").mechanism, noise=Noise.insecure(1)).close()


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 10))]
)
def test_mutated_configurations_give_a_stream_or_one_sentence(tmp_path, part):
    generator, outcomes = random.Random(15 + part), {"stream": 0, "sentence": 0}
    file = tmp_path / "stream.toml"
    for _ in range(MUTATED // 10):
        text = mutated(generator.choice(BASES), generator)
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            Stream(load(file).mechanism, noise=Noise.insecure(1)).close()
            outcomes["stream"] += 1
        except ConfigError as error:
            said = str(error)
            assert said.isprintable() and said[-1] in ".?" and len(said) < 2_000, text
            outcomes["sentence"] += 1
        except Exception as error:
            raise AssertionError(text) from error
    assert min(outcomes.values()) > 10, outcomes


def work(folder, sinks):
    """How many calls it takes to load a configuration."""
    sink = '[[sink]]\nkind = "{}"\n{}\n'
    kinds = (
        ("CsvFolder", 'path = "out{}"'),
        ("SqlTable", 'url = "sqlite:///out.db"\ntable = "t{}"'),
    )
    texts = (sink.format(kinds[n % 2][0], kinds[n % 2][1].format(n)) for n in range(sinks))
    (folder / "stream.toml").write_text(BASES[0] + "".join(texts))
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        assert len(load(folder / "stream.toml").sinks) == sinks + 2
    finally:
        sys.setprofile(None)
    return calls


def test_four_times_as_many_sinks_take_four_times_the_work(tmp_path):
    work(tmp_path, 1)  # what is imported and remembered
    nothing = work(tmp_path, 1)
    assert work(tmp_path, 800) - nothing < 4.4 * (work(tmp_path, 200) - nothing)
