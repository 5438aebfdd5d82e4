"""One cell changes the reading of its own row and of no other, whatever types a reader guesses from
it.

Each engine's own reader reads a CSV file, and the same file with one cell replaced: all other rows
must mean the same.
"""

import io
import tempfile
from pathlib import Path

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from samples import examples, unit_rows
from tailrace import Amount, Box, Categorical, DataError, Integer, Real, Schema, User
from tailrace.counting.journeys.reading import Reading
from tailrace.counting.memory import counted, hash_units
from tailrace.counting.plan import Plan
from tailrace.sources import files
from tailrace.sources.reading import Reader

KEY = bytes(16)
ATTRIBUTES = [
    Integer(0, 9, outside="clip"),
    Integer(0, 9, outside="other"),
    Real(edges=[0, 1.5, 20]),
    Amount(0, 20, unit=0.5),
    Amount(-2, 7, outside="drop"),
    Categorical([3, 1, 7], outside="other"),
    Categorical([True, False]),
    Categorical(["f", "m"], outside="other"),
    Categorical(["f", "m"], outside="other", growing=2),
    Categorical(["7", "1.5", "x", "true"], outside="other"),
    Categorical(["007", "3", "2026-01-01"]),
]
CELLS = st.sampled_from(
    [
        "0",
        "1",
        "3",
        "7",
        "007",
        "-2",
        "1.5",
        "7.0",
        "99",
        "",
        "x",
        "f",
        "m",
        "true",
        "false",
        "word",
        "2026-01-01",
        "1e1",
    ]
)
IDS = st.sampled_from(
    ["7", "8", "12", "007", "1152921504606846977", "1152921504606846976", "x", "q7", "-3"]
)


def of_pandas(text):
    return pd.read_csv(io.StringIO(text))


def of_pandas_by_chunk(text):
    """As pandas reads a file of more than a million rows: the type of each chunk is guessed by
    itself.
    """
    head, *lines = text.splitlines()
    half = len(lines) // 2 or 1
    chunks = [
        pd.read_csv(io.StringIO("\n".join([head, *part])))
        for part in (lines[:half], lines[half:])
        if part
    ]
    return pd.concat([chunk.astype(object) for chunk in chunks], ignore_index=True)


def of_polars(text):
    return pl.read_csv(io.StringIO(text), infer_schema_length=None)


def of_polars_lazy(text):
    return of_polars(text).lazy()


def of_pyarrow(text):
    return pyarrow.csv.read_csv(io.BytesIO(text.encode()))


def of_pandas_arrow(text):
    return pd.read_csv(io.StringIO(text), dtype_backend="pyarrow")


def of_duckdb(text):
    return duckdb.from_arrow(of_pyarrow(text))


def of_source(text):
    """All cells as text, as a folder's files are read."""
    return pl.read_csv(io.StringIO(text), infer_schema=False)


ENGINES = [
    of_pandas,
    of_pandas_by_chunk,
    of_polars,
    of_polars_lazy,
    of_pyarrow,
    of_pandas_arrow,
    of_duckdb,
    of_source,
]


def file(cells, column="x"):
    """A CSV file; the column `row` keeps lines without a cell from being skipped."""
    return "\n".join([f"row,{column}", *(f"{i},{cell}" for i, cell in enumerate(cells))])


def codes(schema, frame):
    rows = nw.from_native(frame)
    if isinstance(rows, nw.DataFrame):
        return schema.cells(rows).tolist()
    found = rows.select("row", schema.cell(rows).fill_null(-1).alias("cell")).sort("row").collect()
    return found["cell"].to_numpy().tolist()


@examples(25)
@given(st.sampled_from(ATTRIBUTES), st.lists(CELLS, min_size=2, max_size=6), CELLS, st.data())
def test_one_cell_changes_no_other_row_on_any_engine(attribute, cells, other, data):
    schema, at = Schema(x=attribute), data.draw(st.integers(0, len(cells) - 1))
    replaced = [*cells[:at], other, *cells[at + 1 :]]
    read = Reader(domain=schema).read(of_source(file(cells))).frame
    wanted = codes(schema, read.with_row_index("row"))
    for engine in ENGINES:
        assert codes(schema, engine(file(cells))) == wanted, engine.__name__
        found = codes(schema, engine(file(replaced)))
        assert found[:at] + found[at + 1 :] == wanted[:at] + wanted[at + 1 :], engine.__name__


def units(engine, cells):
    """Who each row belongs to, or None where the reader made floats of the ids."""
    plan, frame = Plan(Schema(row=Integer(0, 99)), key="id"), engine(file(cells, "id"))
    if engine is of_pandas and frame["id"].dtype.kind == "f":
        with pytest.raises(DataError, match="holds ids as floats"):
            unit_rows(plan, frame)
        return None
    return hash_units(unit_rows(plan, frame)[0], KEY).tolist()


@examples(25)
@given(st.lists(IDS | st.just(""), min_size=2, max_size=6), IDS | st.just(""), st.data())
@example(["7", "8"], "x", None)
def test_one_id_changes_nobody_else_on_any_engine(cells, other, data):
    at = 0 if data is None else data.draw(st.integers(0, len(cells) - 1))
    replaced = [*cells[:at], other, *cells[at + 1 :]]
    wanted = hash_units(np.array([cell or None for cell in cells], object), KEY).tolist()
    for engine in ENGINES:
        if engine is of_pandas_by_chunk and "" in (*cells, other):
            continue  # a chunk of integers with a missing one is float: such cells are tried below
        before, after = units(engine, cells), units(engine, replaced)
        assert before in (wanted, None), engine.__name__
        assert after is None or after[:at] + after[at + 1 :] == wanted[:at] + wanted[at + 1 :], (
            engine.__name__
        )


def test_objects_are_ids_one_by_one():
    """Integers, floats, text and nothing in one column, as pandas makes of its chunks; one float
    stands for many large ids.
    """
    ids = [7, "7", 7.0, " 007", None, float("nan"), 2**60 + 1, str(2**60 + 1), 2.0**60, "x"]
    frame = pd.DataFrame({"id": pd.Series(ids, dtype=object), "row": 0})
    found = hash_units(
        unit_rows(Plan(Schema(row=Integer(0, 99)), key="id"), frame)[0], KEY
    ).tolist()
    assert (
        len(set(found[:4])) == 1
        and found[6] == found[7] != found[9]
        and found[4] == found[5] == found[8] == (0, 0)
    )


SEX = Schema(sex=Categorical(["f", "m"]))


def bounded(frames, unit):
    """How many rows of each step the unit memory accepts."""
    plan, many = Plan(SEX, key="id"), []
    with tempfile.TemporaryDirectory() as folder:
        old = None
        for step, frame in enumerate(frames):
            new = Path(folder) / str(step)
            many.append(int(counted(plan, unit, frame, None, old=old, new=new, key=KEY).adds.sum()))
            old = new
    return many


def test_one_text_id_gives_nobody_a_second_identity():
    """1,000 people who come again, in the second step beside one whose id is text."""
    numbers = pd.DataFrame({"id": np.arange(1000), "sex": "f"})
    more = pd.concat([numbers.astype({"id": str}), pd.DataFrame({"id": ["A17"], "sex": ["f"]})])
    mixed = pd.concat([numbers.astype({"id": object}), pd.DataFrame({"id": ["A17"], "sex": ["f"]})])
    texts = pl.from_pandas(more)
    for second in (
        more,
        mixed,
        texts,
        texts.lazy(),
        texts.to_arrow(),
        duckdb.from_arrow(texts.to_arrow()),
    ):
        assert bounded([numbers, second], User(column="id", events=1)) == [1000, 1]


@pytest.mark.parametrize("kind", ["Int64", "string", object])
def test_a_missing_id_touches_nobody_else(kind):
    """Ids above 2**53 beside a missing one: floats would make one person of two, and are refused by
    their type.
    """
    ids = [2**60, 2**60 + 1, None, 2**60 + 1]
    whole = pd.Series(ids, dtype="Int64")
    frame = pd.DataFrame({"id": whole.astype(kind), "sex": "f"})
    assert bounded([frame, frame], User(column="id", events=1)) == [2, 0]
    floats = whole.astype("float64")
    for refused in (floats, pd.Series([np.nan] * 4), floats.astype("category")):
        with pytest.raises(DataError, match=r"^Column 'id' holds ids as floats.*text.*Int64"):
            unit_rows(Plan(SEX, key="id"), frame.assign(id=refused))


def test_one_word_among_numbers_is_one_row_that_is_not_counted():
    """As pandas reads 1,200,000 rows with one word: chunks of integers, and one of text."""
    ages = pd.concat(
        [pd.Series(np.arange(1000) % 10, dtype=object), pd.Series([*map(str, range(10)), "word"])]
    )
    plan = Plan(Schema(age=Integer(0, 9)))
    for values in (ages, ages.astype(str), ages.astype("category")):
        frame = pd.DataFrame({"age": values})
        texts = pl.DataFrame({"age": list(map(str, values))})
        for rows in (
            frame,
            texts,
            texts.lazy(),
            texts.to_arrow(),
            duckdb.from_arrow(texts.to_arrow()),
        ):
            assert plan.count(rows).tolist() == [101] * 10


TRIPS = Reading(Box(low=(0, 0), high=(4, 4), columns=("x", "y"), cells=4), "trip", "at", user="who")


@examples(15)
@given(
    st.lists(
        st.tuples(
            *(
                st.sampled_from(pool)
                for pool in (["7", "8"], ["1", "2"], ["3", "1", "2"], ["0", "1", "3"], ["0", "2"])
            )
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 4),
    st.sampled_from(["word", "x1", "true", "2026-01-01"]),
)
def test_one_cell_changes_no_other_trajectory(rows, column, word):
    """A row of a person of its own, with one odd cell, leaves the others' journeys as they are."""
    alone = ["99", "99", "1", "1", "1"]
    alone[column] = word
    text = ["who,trip,at,x,y", *(",".join(row) for row in rows)]

    def journeys(engine, lines):
        found = TRIPS.journeys(engine("\n".join(lines)))
        parts = zip(found.offsets[:-1], found.offsets[1:], found.among, strict=True)
        return sorted((found.cells[a:b].tolist(), int(many)) for a, b, many in parts)

    readable = column < 2 or word == "true" or (column == 2 and word == "2026-01-01")
    own = [([5], 1)] if readable else []
    for engine in ENGINES:
        if engine is of_pandas_by_chunk:
            continue
        assert journeys(engine, [*text, ",".join(alone)]) == sorted(
            journeys(of_source, text) + own
        ), engine.__name__


@pytest.mark.slow
def test_spark_reads_every_cell_by_itself(spark):
    cells = ["7", " 007 ", "7.0", "word", "", "true", "1e1", None, "-Infinity", "99"]
    rows = spark().createDataFrame(
        pd.DataFrame({"row": range(len(cells)), "x": pd.Series(cells, dtype=object)})
    )
    text = pa.table({"row": list(range(len(cells))), "x": pa.array(cells)})
    for attribute in ATTRIBUTES:
        assert codes(Schema(x=attribute), rows) == codes(Schema(x=attribute), text)
    plan = Plan(Schema(row=Integer(0, 99)), key="x")
    found, cells_of = unit_rows(plan, rows)
    order = np.argsort(cells_of)
    assert (
        hash_units(found, KEY)[order].tolist() == hash_units(unit_rows(plan, text)[0], KEY).tolist()
    )
    with pytest.raises(DataError, match="holds ids as floats"):
        unit_rows(plan, rows.selectExpr("row", "cast(row as double) as x"))


LETTERS = st.sampled_from(
    [
        "a",
        "1",
        ",",
        ",",
        "\n",
        "\n",
        " ",
        "\r\n",
        "\r",
        "\t",
        ";",
        "\0",
        "é",
        "\u00a0",
        "\u2003",
        "#",
    ]
)


@examples(400)
@given(st.lists(LETTERS, max_size=20), st.permutations("abcd"), st.integers(1, 4), st.booleans())
def test_lines_split_at_once_are_those_split_one_by_one(letters, wanted, many, broken):
    """So that a quote or a blank line, which decides how a file is split, changes no other row."""
    data = ("a,b,c,d\n" + "".join(letters)).encode()
    if broken:
        data = data.replace(b"\xc3\xa9", b"\xc3").replace(b"#", b"\xe2\x80")
    assume(files._is_plain(data))
    at_once, by_line = (
        split(data, ",", [*"abcd"], wanted[:many]) for split in (files._at_once, files._by_line)
    )
    assert at_once.equals(by_line) and at_once.schema == by_line.schema
