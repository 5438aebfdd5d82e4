"""Configurations that nobody meant to write: each loads, or is refused in one sentence that says
where.
"""

import json
import re
import tempfile
import tomllib
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from samples import examples, paths
from tailrace import (
    ApproxDP,
    Categorical,
    ConfigError,
    Event,
    HistogramStream,
    Integer,
    PureDP,
    Real,
    Schema,
    User,
)
from tailrace.calendar import Calendar
from tailrace.config import Config, load
from tailrace.config.lines import locate
from tailrace.config.template import Answers, write
from tailrace.sources import KINDS

WARD = """\
[stream]
path = "ward.tail"
population = "patients of the ward"
ledger = "tailrace.ledger"

[mechanism]
kind = "HistogramStream"
horizon = 30
privacy = { kind = "ApproxDP", epsilon = 1.0, delta = 1e-6 }
unit = { kind = "User", column = "patient", events = 3 }
deletes = true
counter = { kind = "Block", size = 8 }

[schema]
age = { kind = "Integer", low = 0, high = 99, outside = "clip" }
bmi = { kind = "Real", edges = [
  10, 18.5,
  25, 60,
] }
"sex" = { kind = "Categorical", values = ["f", "m"] }

[calendar]
start = 2026-01-01
period = "1 day"
timezone = "Europe/Berlin"
grace = "6 hours"
late = "next"

[source]
kind = "Folder"
path = "incoming"
files = "*.csv"
time = "day"
format = "%d.%m.%Y"
op = "op"

[[sink]]
kind = "CsvFolder"
path = "public"

[[sink]]
kind = "SqlTable"
url = "sqlite:///out.db"
table = "releases"
"""
LINES = WARD.splitlines()
SENTENCE = re.compile(r"stream\.toml(, line \d+)?: [^\n]+[.?]")
letters = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = letters.filter(str.strip).filter(lambda text: "\0" not in text)
words = st.sampled_from(sorted(set(re.findall(r"[\w.%*/:-]+", WARD))))
values = st.one_of(
    words.map(json.dumps),
    letters.map(lambda text: json.dumps(text, ensure_ascii=False).replace("\x7f", "")),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(str),
    st.sampled_from(
        ["true", "[]", "{}", '""', "[[1]]", '["a", 1]', "[[], {}]", "[nan, inf]", "1e400", "0x7f"]
    ),
    st.sampled_from(
        [
            "2026-01-01",
            "07:30:00",
            "1979-05-27T00:32:00-07:00",
            '{ kind = "Event" }',
            '{ kind = "Best" }',
        ]
    ),
    st.sampled_from(
        [
            '{ kind = "KaryTree" }',
            '{ kind = "Simple", privacy = 1 }',
            '{ kind = "User", column = "a" }',
        ]
    ),
)


def attempt(text):
    """The configuration, or the sentence; nothing else may come of it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stream.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        found = _result(file)
        assert isinstance(found, Config) or (SENTENCE.fullmatch(found) and folder not in found), (
            found
        )
        return found


def _result(file):
    try:
        return load(file)
    except ConfigError as error:
        return str(error)


@st.composite
def cut_up(draw):
    """The text with pieces deleted, doubled, moved or put in."""
    text = WARD
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(
            st.one_of(
                st.just(""),
                letters,
                words,
                st.sampled_from("[]{}=\"'.,#\n\\\r"),
                st.just(text[start:end] * 2),
            )
        )
        text = text[:start] + piece + text[end:]
    return text


@st.composite
def moved_lines(draw):
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 3))):
        line = lines.pop(draw(st.integers(0, len(lines) - 1)))
        for _ in range(draw(st.integers(0, 2))):
            lines.insert(draw(st.integers(0, len(lines))), line)
    return "\n".join(lines)


@examples(400)
@given(st.one_of(cut_up(), moved_lines()))
def test_any_text_loads_or_is_refused_in_one_sentence(text):
    attempt(text)


@examples(100)
@given(st.binary(max_size=40), st.integers(0, len(WARD)))
@example(b"\x00", 0)
@example(b"\r", 8)
@example(b"\xef\xbb\xbf", 0)
def test_any_bytes_load_or_are_refused_in_one_sentence(piece, place):
    attempt(WARD.encode()[:place] + piece + WARD.encode()[place:])


KEYS = sorted((path for path in locate(WARD) if isinstance(path[-1], str)), key=str)


@examples(200)
@given(
    st.sampled_from(
        [line for line, text in enumerate(LINES) if re.match(r'[\w"]+ = .*[^[]$', text)]
    ),
    values,
)
def test_a_value_that_does_not_fit_has_a_line(line, value):
    key = LINES[line].split(" = ")[0]
    found = attempt("\n".join([*LINES[:line], f"{key} = {value}", *LINES[line + 1 :]]))
    assert isinstance(found, Config) or ", line " in found


@examples(150)
@given(st.data())
def test_a_value_inside_a_table_that_does_not_fit_has_a_line(data):
    line = data.draw(
        st.sampled_from([line for line, text in enumerate(LINES) if "{" in text and "}" in text])
    )
    pairs = re.findall(r'\w+ = (?:\[[^]]*\]|"[^"]*"|[^,}\s]+)', LINES[line].partition("{")[2])
    pair = data.draw(st.sampled_from(pairs))
    changed = LINES[line].replace(pair, f"{pair.split(' = ')[0]} = {data.draw(values)}")
    found = attempt("\n".join([*LINES[:line], changed, *LINES[line + 1 :]]))
    assert isinstance(found, Config) or ", line " in found


@examples(200)
@given(
    st.sampled_from([line for line, text in enumerate(LINES) if re.match(r"\w+ = .*[^[]$", text)]),
    names,
)
def test_a_key_that_is_unknown_has_its_line(line, name):
    written = json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
    value = LINES[line].partition(" = ")[2]
    found = attempt("\n".join([*LINES[:line], f"{written} = {value}", *LINES[line + 1 :]]))
    table = next(text for text in reversed(LINES[:line]) if text.startswith("["))
    known = {path[-1] for path in KEYS}
    if table != "[schema]" and name not in known:
        assert (
            f"stream.toml, line {line + 1}: {table} has no key '" in found
            or "needs the key 'kind'" in found
        )


@st.composite
def documents(draw):
    """TOML in every way of writing it, with texts that look like TOML."""
    bare = st.sampled_from("abcd")
    key = st.one_of(bare, st.sampled_from(['"x.y"', "'#z'", '"]"', '"\\u00e9\\""', "' '"]))
    text = st.sampled_from(
        [
            '"#"',
            "'\"'",
            '"""\n[a]\n"" b = 1"""',
            "'''\n'']\n'''",
            '"""q"""""',
            '""',
            "''",
            '"\\\\"',
            '"\\"]"',
        ]
    )
    plain = st.one_of(text, st.sampled_from(["1", "-2.5e3", "true", "2026-01-01 10:00:00", "inf"]))
    gap = st.sampled_from(["", " ", "\n", "\n  # ], }\n", "\t"])

    def listed(inner):
        return st.builds(
            lambda items, g, comma: (
                f"[{g}" + f"{g},{g}".join(items) + (f"{g},{g}" if items and comma else "") + "]"
            ),
            st.lists(inner, max_size=3),
            gap,
            st.booleans(),
        )

    def inline(inner):
        pairs = st.lists(st.tuples(key, inner), max_size=3, unique_by=lambda pair: pair[0])
        return pairs.map(lambda found: "{ " + ", ".join(f"{k} = {v}" for k, v in found) + " }")

    value = st.recursive(plain, lambda inner: st.one_of(listed(inner), inline(inner)), max_leaves=8)
    dotted = st.lists(key, min_size=1, max_size=3).map(draw(st.sampled_from([".", " . "])).join)
    header = st.builds(
        lambda path, twice: f"[[{path}]]" if twice else f"[ {path} ]", dotted, st.booleans()
    )
    pair = st.builds(lambda path, written: f"{path} = {written}", dotted, value)
    return draw(st.sampled_from(["\n", "\n\n", " # [a]\n"])).join(
        draw(st.lists(st.one_of(pair, header), max_size=10))
    )


@examples(200)
@given(documents())
def test_every_path_of_a_document_has_its_line(text):
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # a key twice: such a text is never located
        return
    found, lines = locate(text), text.split("\n")
    assert set(found) == set(paths(read))
    for path, line in found.items():
        if isinstance(path[-1], str) and re.fullmatch("[a-d]", path[-1]):
            assert path[-1] in lines[line - 1]


epsilons = st.one_of(
    st.fractions("1/1000", 20), st.decimals("0.001", 20, places=3), st.floats(0.001, 20)
)
sets = st.lists(letters, min_size=1, max_size=4, unique=True)
policies = st.sampled_from(["drop", "clip", "other"])
numbers = st.floats(-1e300, 1e300)
attributes = st.one_of(
    st.builds(Categorical, sets, outside=st.sampled_from(["drop", "other"])),
    st.just(Categorical([True, False])),
    st.lists(st.integers(-(2**53) + 1, 2**53 - 1), min_size=1, max_size=4, unique=True).map(Categorical),
    st.builds(lambda low, more, outside: Integer(low, low + more, outside=outside), st.integers(-99, 99), st.integers(0, 20), policies),
    st.lists(numbers, min_size=2, max_size=5, unique=True).map(lambda edges: Real(edges=sorted(edges))),
)  # fmt: skip
calendars = st.builds(
    Calendar,
    start=st.one_of(st.dates(), st.datetimes()).filter(lambda start: 1 < start.year < 9900),
    period=st.sampled_from(["day", "2 weeks", "month", "6 hours"]),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]),
    grace=st.sampled_from(["0 hours", "1 day"]),
    late=st.sampled_from([None, "next", "drop"]),
)
timed = st.fixed_dictionaries(
    {"time": names}, optional={"format": names.map(lambda name: f"%d.%m.%Y {name}")}
)
sources = st.one_of(
    st.tuples(
        st.just({"kind": "Folder", "files": "*.csv"}), st.fixed_dictionaries({"path": names}), timed
    ),
    st.tuples(
        st.just({"kind": "Folder", "name": "%Y-%m-%d.csv"}), st.fixed_dictionaries({"path": names})
    ),
    st.tuples(st.just({"kind": "Lines"}), timed),
    st.tuples(
        st.just({"kind": "SqlTable", "url": "postgresql://host/ward"}),
        st.fixed_dictionaries({"table": names}, optional={"arrived": names}),
        timed,
    ),
).map(lambda parts: {key: value for part in parts for key, value in part.items()})


@examples(80)
@given(
    population=names,
    epsilon=epsilons,
    delta=st.one_of(st.none(), st.sampled_from([1e-6, "1e-9", "1/3000000"])),
    unit=st.one_of(st.just(Event()), st.builds(User, column=names, events=st.integers(1, 9))),
    horizon=st.one_of(st.none(), st.integers(1, 50)),
    deletes=st.booleans(),
    columns=st.dictionaries(names, attributes, min_size=1, max_size=3),
    calendar=calendars,
    source=sources,
    sinks=st.lists(names, max_size=2, unique=True),
)
def test_what_is_written_is_read_back(
    population, epsilon, delta, unit, horizon, deletes, columns, calendar, source, sinks
):
    repeated = source["kind"] == "Lines" or (
        source["kind"] == "SqlTable" and "arrived" not in source
    )
    if repeated and calendar.late == "next":
        calendar = Calendar(**{**vars(calendar), "late": None})
    answers = Answers(
        path="kept.tail",
        population=population,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        horizon=horizon,
        deletes=deletes,
        attributes=tuple(columns.items()),
        calendar=calendar,
        source=source,
        sinks=tuple(
            {"kind": "SqlTable", "url": "sqlite:////out.db", "table": table} for table in sinks
        ),
    )
    config = attempt(write(answers))
    assert isinstance(config, Config), config
    assert config.mechanism == HistogramStream(
        domain=Schema(**columns),
        privacy=PureDP(epsilon=epsilon)
        if delta is None
        else ApproxDP(epsilon=epsilon, delta=delta),
        unit=unit,
        horizon=horizon,
        deletes=deletes,
    )
    assert config.population == population
    assert config.calendar == (
        Calendar(**{**vars(calendar), "late": calendar.late or "drop"}) if repeated else calendar
    )
    read = {name: value for name, value in vars(config.source).items() if value is not None}
    apart = {"kind", "path", "decimal", "encoding"}
    assert type(config.source) is KINDS[source["kind"]]
    assert {name: read[name] for name in read.keys() - apart} == {
        name: source[name] for name in source.keys() - apart
    }
    assert [sink.table for sink in config.sinks] == sinks
