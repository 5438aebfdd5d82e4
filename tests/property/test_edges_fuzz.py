"""Fuzzed input through the real edges: content follows the declared policy, a wrong shape is one
sentence, nothing else is seen.

The policy is written down once more here, in plain Python, cell by cell. More than 2,000 cases:
most through the sources and the plan, 300 through the whole command line with so little noise that
the releases show what was counted.
"""

import contextlib
import csv
import io
import itertools
import json
import math
import os
import re
import shutil
import tempfile
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from samples import examples
from tailrace import Categorical, DataError, Integer, Real, Schema
from tailrace.calendar import Calendar
from tailrace.cli import app
from tailrace.counting.plan import Plan
from tailrace.sources import Lines, Reader, Shelf, TimedFiles, Used
from tailrace.stream.verify import public_table

MARK = "Qz7mark"  # stands in cells, and must never be seen in a message
ZONE = ZoneInfo("Europe/Berlin")
DAYS = Calendar(start="2026-01-01", period="1 day", timezone="Europe/Berlin")
COLUMNS = ("sex", "age", "height", "smokes")
EVERY = (*COLUMNS, "day", "op", "note")
SEXES, AGES, EDGES = ["f", "m"], 6, [0.0, 1.0, 2.5]
TRUE, FALSE = {"true", "t", "yes", "y"}, {"false", "f", "no", "n"}
BLANKS = " \t\n\v\f\r\x85\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
POLICIES = [
    dict(zip(COLUMNS, outside, strict=True))
    for outside in (
        ("drop", "drop", "drop", "drop"),
        ("other", "clip", "clip", "other"),
        ("other", "other", "other", "drop"),
        ("drop", "clip", "other", "other"),
    )
]
policies = st.sampled_from(POLICIES)


# The policy.


def number(text):
    """What a text says as a number; NaN where it says none."""
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        return (
            float(text) if text.isascii() and not set(text) & set("_\x1c\x1d\x1e\x1f") else math.nan
        )
    except ValueError:
        return math.nan


def code(column, text, policy):
    """The code of a cell; None where its row is not counted."""
    bare, other = (text or "").strip(BLANKS), policy[column] == "other"
    if column == "sex":
        bare = "f" if bare in ("false", "False", "FALSE") else bare  # a reader may make false of f
        return SEXES.index(bare) if bare in SEXES else 2 if other else None
    if column == "smokes":
        true, false = (
            bare.lower() in TRUE or number(bare) == 1,
            bare.lower() in FALSE or number(bare) == 0,
        )
        return 0 if true else 1 if false else 2 if other else None
    value, high = number(bare), AGES - 1 if column == "age" else EDGES[-1]
    if policy[column] == "clip" and not math.isnan(value):
        value = min(max(value, 0), high)
        value = math.floor(value) if column == "age" else value
    if not 0 <= value <= high or (column == "age" and value % 1):
        return (AGES if column == "age" else len(EDGES) - 1) if other else None
    return (
        int(value)
        if column == "age"
        else min(sum(value >= edge for edge in EDGES), len(EDGES) - 1) - 1
    )


def step(text):
    """The step that a time lies in; 0 where there is none."""
    bare = (text or "").strip(BLANKS)
    try:
        moment = datetime.fromisoformat(
            bare if bare.isascii() and re.match(r"\d{4}-\d\d-\d\d", bare) else ""
        )
        moment = moment.replace(tzinfo=ZONE) if moment.tzinfo is None else moment
        return max((moment.astimezone(UTC).astimezone(ZONE).date() - date(2025, 12, 31)).days, 0)
    except (ValueError, OverflowError):
        return 0


def counts(rows, policy, which, op="insert"):
    """How many rows lie in each cell at these steps, in the order of cells."""
    found = Counter(
        tuple(code(column, row[column], policy) for column in COLUMNS)
        for row in rows
        if step(row["day"]) in which and (row.get("op", "insert") or "").strip(BLANKS).lower() == op
    )
    sizes = (2, AGES, len(EDGES) - 1, 2)
    wide = [size + (policy[column] == "other") for size, column in zip(sizes, COLUMNS, strict=True)]
    return [found[cell] for cell in itertools.product(*map(range, wide))]


def domain(policy):
    return Schema(
        sex=Categorical(SEXES, outside=policy["sex"]),
        age=Integer(0, AGES - 1, outside=policy["age"]),
        height=Real(edges=EDGES, outside=policy["height"]),
        smokes=Categorical([True, False], outside=policy["smokes"]),
    )


# Odd input.

signs = [
    "",
    " ",
    "NULL",
    "-",
    "\x00",
    "\x1b[31m",
    "\ufeff",
    "\u202e",
    "\u2028",
    "💥",
    "\u017f",
    "é",
    '"',
    "'",
    "\\",
    "=1+1",
]
marks = [
    MARK,
    f" {MARK}",
    f'"{MARK}',
    f"{MARK}," * 3,
    f"{MARK};{MARK}",
    f"{MARK}\t1",
    MARK * 20_000,
]
odd = st.sampled_from(signs + marks) | st.text(st.characters(codec="utf-8"), max_size=5)
extremes = [
    "nan",
    "NaN",
    "inf",
    "-Infinity",
    "1e400",
    "-1e400",
    "9" * 400,
    "0x1",
    "1_0",
    "1,5",
    "٣",
    "5.0",
    "-0",
    "2.50",
]
amounts = st.one_of(
    st.sampled_from(extremes),
    st.floats().map(repr),
    st.integers(-(2**70), 2**70).map(str),
    st.integers(0, 6).map(str),
)
offsets = st.integers(-56, 56).map(lambda quarters: timezone(timedelta(minutes=15 * quarters)))
moments = st.builds(
    lambda moment, offset, separator: moment.replace(tzinfo=offset).isoformat(separator),
    st.datetimes(datetime(2025, 12, 31), datetime(2026, 1, 4)),
    st.none() | offsets,
    st.sampled_from(" T"),
)
strange = [
    "2025-12-31T23:00:00Z",
    "2025-12-31T22:59:59.999999Z",
    "2026-02-30",
    "0000-01-01",
    "9999-12-31",
    "0001-01-01",
]
strange += ["20260101", "1.1.2026", "2026-01-01T24:00", "soon", "2026-1-1", "1767225600", ""]
times = st.one_of(
    moments, st.dates(date(2025, 12, 31), date(2026, 1, 4)).map(str), st.sampled_from(strange)
)
READABLE = {
    "sex": st.sampled_from(["f", "m", " f", "m\t"]),
    "age": st.sampled_from(["0", "3", "5.0", " 2", "1e0", "05"]),
    "height": st.sampled_from(["0", "0.5", "1", "2.50", "1e-3", "-0", "+1.7"]),
    "smokes": st.sampled_from(["true", "No", "1", "0.0", "Y", "F"]),
    "day": st.sampled_from(
        [
            "2026-01-01",
            "2026-01-02 12:30",
            "2026-01-01T23:30Z",
            "2025-12-31T23:00:00Z",
            "2026-01-03",
        ]
    ),
    "op": st.sampled_from(["insert", "Insert ", "delete"]),
    "note": st.sampled_from(marks),
}
WILD = {
    "sex": odd | st.sampled_from(["F", "x", "f m"]),
    "age": odd | amounts,
    "height": odd | amounts | st.floats(-1, 3).map(str),
    "smokes": odd | st.sampled_from(["2", "on", "-1"]),
    "day": odd | times,
    "op": odd | st.sampled_from(["upsert", " DELETE", MARK]),
    "note": odd,
}
spoiled = st.lists(st.sampled_from(EVERY), max_size=3)


@st.composite
def tables(draw):
    """Rows of readable texts, up to three cells of each of them replaced by anything."""
    rows = draw(st.lists(st.fixed_dictionaries(READABLE), max_size=5))
    return [row | {name: draw(WILD[name]) for name in draw(spoiled)} for row in rows]


@st.composite
def csv_files(draw):
    """Rows as programs write them, and as they are to be read."""
    rows = [
        {name: re.sub("[\r\n]", " ", text) for name, text in row.items()} for row in draw(tables())
    ]
    names, out = draw(st.permutations(EVERY)), io.StringIO()
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    end = draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    writer = csv.writer(
        out, delimiter=draw(st.sampled_from(",;\t")), quoting=quoting, lineterminator=end
    )
    writer.writerows([names, *([row[name] for name in names] for row in rows)])
    start, text = draw(st.sampled_from(["", "\ufeff"])), out.getvalue()
    return rows, (start + (text if draw(st.booleans()) else text.rstrip("\r\n"))).encode()


@st.composite
def parquet_files(draw):
    """The same with columns of any type that may hold what is wanted."""
    rows = draw(tables())
    columns = {name: pl.Series([row[name] for row in rows], dtype=pl.String) for name in EVERY}
    kind = draw(
        st.sampled_from(
            [pl.Float64, pl.Float32, pl.Int64, pl.Int8, pl.UInt16, pl.Decimal(20, 2), pl.Null]
        )
    )
    for name in draw(st.sets(st.sampled_from(["age", "height"]))):
        columns[name] = columns[name].str.strip_chars().cast(kind, strict=False)
    if draw(st.booleans()):
        columns["sex"] = columns["sex"].cast(pl.Categorical)
    if draw(st.booleans()):
        columns["day"] = columns["day"].str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False)
    frame, buffer = pl.DataFrame(columns), io.BytesIO()
    frame.write_parquet(buffer)
    held = [
        {name: None if cell is None else str(cell) for name, cell in row.items()}
        for row in frame.to_dicts()
    ]
    return held, buffer.getvalue()


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    odd,
    st.sampled_from(["\ud800", [MARK], {"a": MARK}]),
)


@st.composite
def json_lines(draw):
    """Objects of any values, with lines between them that are none, and the texts that they stand
    for.
    """
    rows = [{name: _valued(text) for name, text in row.items()} for row in draw(tables())]
    rows = [row | {name: draw(values) for name in draw(spoiled)} for row in rows]
    for row in rows:
        for name in draw(spoiled)[:1]:
            del row[name]
    junk = draw(
        st.lists(
            st.sampled_from(["", " ", "[]", "{", "7", MARK, '"f"', "{}x", "\x00", "[" * 5000]),
            max_size=2,
        )
    )
    read = [{name: _written(row.get(name)) for name in (*COLUMNS, "day")} for row in rows]
    return read, "\n".join(draw(st.permutations([*map(json.dumps, rows), *junk]))).encode()


def _valued(text):
    """A number or a boolean where a text says one, as programs write JSON."""
    with contextlib.suppress(ValueError):
        return json.loads(text.strip())
    return text


def _written(value):
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int | float) else MARK


# Through the sources.


@pytest.fixture(scope="module")
def place():
    """A folder in memory where there is one: every case writes durably."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="tailrace-fuzz-", dir=memory if memory.is_dir() else None
    ) as folder:
        yield Path(folder)


def fresh(place):
    shutil.rmtree(place)
    (place / "in").mkdir(parents=True)
    return place / "in"


def timed(place, reader):
    shelf = Shelf(path=place / "in", files="*")
    return TimedFiles(
        shelf=shelf, reader=reader, calendar=DAYS, used=Used(place / "used.json"), late="next"
    )


def check_counts(source, rows, policy):
    for which in (1, 2, 3):
        batch = (
            source.batch(which)
            if source.ready(which)
            else pytest.fail("The calendar says that it is time.")
        )
        found = Plan(domain(policy)).counts(batch.adds, batch.deletes)
        assert found.adds.tolist() == counts(rows, policy, {which})
        assert found.deletes.tolist() == counts(rows, policy, {which}, "delete")


@pytest.mark.slow
@examples(700)
@given(csv_files(), policies)
def test_csv_content_follows_the_policy(place, file, policy):
    (fresh(place) / "a.csv").write_bytes(file[1])
    check_counts(
        timed(place, Reader(domain=domain(policy), time="day", op="op", timezone="Europe/Berlin")),
        file[0],
        policy,
    )


@examples(300)
@given(parquet_files(), policies)
def test_parquet_content_follows_the_policy(place, file, policy):
    (fresh(place) / "a.parquet").write_bytes(file[1])
    check_counts(
        timed(place, Reader(domain=domain(policy), time="day", op="op", timezone="Europe/Berlin")),
        file[0],
        policy,
    )


@pytest.mark.slow
@examples(400)
@given(json_lines(), policies)
def test_json_content_follows_the_policy(lines, policy):
    reader = Reader(domain=domain(policy), time="day", timezone="Europe/Berlin")
    check_counts(Lines(lines=lines[1].split(b"\n"), reader=reader, calendar=DAYS), lines[0], policy)


# Wrong shapes.

nested = [[MARK]], [{"a": MARK}]
WRONG = {
    **dict.fromkeys(("sex", "age", "height", "smokes"), nested),
    "day": ([20260101], [0.5], [True], [MARK.encode()], *nested),
    "op": ([1], [True], [MARK.encode()], *nested),
}
FINE = {
    "sex": ["f"],
    "age": [1],
    "height": [1.5],
    "smokes": [True],
    "day": ["2026-01-01"],
    "op": ["insert"],
}


def parquet(columns):
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


@st.composite
def misshapen(draw):
    """A file that no row can be read from, and what its sentence must name."""
    column = draw(st.sampled_from((*COLUMNS, "day")))
    row = ",".join(draw(st.permutations([MARK, "f", "1", "2026-01-01", '"'])))
    names = draw(st.permutations([name for name in EVERY if name not in (column, "note")]))
    whole = {**FINE, "note": [MARK]}
    return draw(
        st.sampled_from(
            [
                ("z.csv", f"{','.join(names)}\n{row}\n".encode(), f"'{column}'"),
                ("z.csv", f"{','.join([*names, column, column])}\n{row}\n".encode(), f"'{column}'"),
                ("z.csv", f"{row}\n{row}\n".encode(), "column"),
                ("z.csv", f"\n{','.join(EVERY)}\n{row}\n".encode(), "first line"),
                ("z.csv", parquet(whole), "column"),
                ("z.parquet", parquet({name: whole[name] for name in names}), f"'{column}'"),
                (
                    "z.parquet",
                    parquet(whole | {column: draw(st.sampled_from(WRONG[column]))}),
                    f"'{column}'",
                ),
                ("z.parquet", parquet(whole)[: draw(st.integers(0, 200))], "damaged"),
                ("z.parquet", f"{','.join(EVERY)}\n{row}\n".encode(), "damaged"),
                ("z.parquet", MARK.encode() + draw(st.binary()), "damaged"),
            ]
        )
    )


def check_sentence(said, *parts):
    """One line for people, with the names that help and no value."""
    assert said.count("\n") == 0 and said.endswith(".") and said[:1].isalnum() and len(said) < 300
    assert all(part in said for part in parts)
    assert not re.search(f"{MARK}|Traceback|Error|Exception|polars|rows?\\b", said)


@examples(300)
@given(misshapen(), policies)
def test_a_wrong_shape_is_one_sentence_that_names_file_and_column(place, file, policy):
    name, data, named = file
    (fresh(place) / name).write_bytes(data)
    with pytest.raises(DataError) as refused:
        timed(place, Reader(domain=domain(policy), time="day", op="op")).batch(1)
    check_sentence(str(refused.value), name, named)
    assert refused.value.__context__ is None or refused.value.__suppress_context__
    assert not (place / "used.json").exists()


heads = st.sampled_from(
    [
        b"",
        b"\n",
        b"sex,age,height,smokes,day,op\n",
        b"\xef\xbb\xbfsex;age;height;smokes;day;op\r\n",
        b"PAR1",
    ]
)
scraps = st.lists(
    st.binary(max_size=8)
    | st.sampled_from([b",", b";", b"\n", b"\r", b'"', b"\x00", b"f", b"2026-01-01"])
)


@examples(400)
@given(heads, scraps.map(b"".join), st.sampled_from(["a.csv", "a.parquet", "lines"]), policies)
def test_any_bytes_are_rows_or_one_sentence(place, head, scrap, name, policy):
    reader = Reader(domain=domain(policy), time="day", op="op")
    if name == "lines":
        source = Lines(lines=(head + scrap).split(b"\n"), reader=reader, calendar=DAYS)
        assert source.ready(1) and len(source.batch(1).adds) == 0
        return
    (fresh(place) / name).write_bytes(head + scrap)
    try:
        batch = timed(place, reader).batch(1)
        assert int(Plan(reader.domain).count(batch.adds).sum()) <= (head + scrap).count(b"\n")
    except DataError as error:
        check_sentence(str(error), name)


# Through the whole command line.

SAID = {}  # what `tailrace run` says, which may not depend on data


def configure(place, policy, source):
    outside = {name: f'outside = "{policy[name]}"' for name in COLUMNS}
    (place / "stream.toml").write_text(f"""
[stream]
path = "ward.tail"
population = "ward"
[mechanism]
kind = "HistogramStream"
horizon = 2
privacy = {{ kind = "PureDP", epsilon = 200 }}
unit = {{ kind = "Event" }}
[schema]
sex = {{ kind = "Categorical", values = ["f", "m"], {outside["sex"]} }}
age = {{ kind = "Integer", low = 0, high = {AGES - 1}, {outside["age"]} }}
height = {{ kind = "Real", edges = {EDGES}, {outside["height"]} }}
smokes = {{ kind = "Categorical", values = [true, false], {outside["smokes"]} }}
[calendar]
start = 2026-01-01
period = "1 day"
timezone = "Europe/Berlin"
[source]
{source}
time = "day"
""")


@contextlib.contextmanager
def piped(place, data):
    """Bytes at this process's own standard input."""
    (place / "piped").write_bytes(data)
    before = os.dup(0)
    with (place / "piped").open("rb") as file:
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(before, 0)
            os.close(before)


def tailrace(place, command, *arguments, given=b""):
    """Run a command; how it ended, and what it said."""
    with piped(place, given):
        ended = CliRunner().invoke(app, [command, str(place / "stream.toml"), *map(str, arguments)])
    (place / "piped").unlink()
    assert ended.exception is None or isinstance(ended.exception, SystemExit)
    assert (
        MARK not in ended.stdout + ended.stderr and "Traceback" not in ended.stdout + ended.stderr
    )
    return ended.exit_code, ended.stdout, ended.stderr


def check_released(place, rows, policy, said):
    """The releases hold what the policy counts, and nothing else was said or left over."""
    code, out, err = said
    assert (code, err) == (0, "") and out == SAID.setdefault(tuple(policy.values()), out)
    for which in (1, 2):
        table = public_table(place / "ward.tail" / "releases", which)
        assert Plan(domain(policy)).count(table).tolist() == counts(
            rows, policy, range(1, which + 1)
        )
    assert not [path for path in place.rglob("*") if "partial" in path.name]


def without_ops(rows):
    return [{name: text for name, text in row.items() if name != "op"} for row in rows]


@pytest.mark.slow
@examples(140)
@given(csv_files() | parquet_files(), policies)
def test_files_through_the_command_line(place, file, policy):
    rows, data = without_ops(file[0]), file[1]
    path = fresh(place) / ("a.parquet" if data[:4] == b"PAR1" else "a.csv")
    path.write_bytes(data)
    configure(place, policy, f'kind = "Folder"\npath = "in"\nfiles = "*{path.suffix}"')
    code, out, err = tailrace(place, "check", path, "--json")
    found = json.loads(out)["files"][str(path)]
    assert (code, err) == (0, "")
    assert (found["rows"], found["counted"]) == (
        len(rows),
        sum(counts(rows, policy, range(1, 4_000_000))),
    )
    check_released(place, rows, policy, tailrace(place, "run"))
    assert tailrace(place, "run")[1].startswith(
        "Nothing to release: ward.tail stands at step 2 of 2"
    )


@pytest.mark.slow
@examples(60)
@given(json_lines(), policies)
def test_lines_through_the_command_line(place, lines, policy):
    fresh(place)
    configure(place, policy, 'kind = "Lines"')
    check_released(place, lines[0], policy, tailrace(place, "run", given=lines[1]))


@pytest.mark.slow
@examples(100)
@given(misshapen(), policies, st.data())
def test_a_wrong_shape_through_the_command_line(place, bad, policy, data):
    """A sentence and a code, and no charge; when the file is mended everything is counted, once."""
    name, content, named = bad
    rows, good = data.draw(csv_files() if name == "z.csv" else parquet_files())
    (fresh(place) / name).write_bytes(content)
    (place / "in" / f"a{Path(name).suffix}").write_bytes(good)
    configure(place, policy, f'kind = "Folder"\npath = "in"\nfiles = "*{Path(name).suffix}"')
    for command in (["check", place / "in" / name], ["run"]):
        code, out, err = tailrace(place, *command)
        assert (code, out) == (4, "")
        check_sentence(err.removesuffix("\n"), name, named)
        assert sorted(path.name for path in place.iterdir()) == ["in", "stream.toml"]
    (place / "in" / name).unlink()
    check_released(place, without_ops(rows), policy, tailrace(place, "run"))
