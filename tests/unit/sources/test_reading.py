"""Cells as they are written, and what the domain makes of them: every kind of attribute, in every
type of column.
"""

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samples import unit_rows
from tailrace import Box, Categorical, DataError, Integer, Real, Schema
from tailrace.counting.memory import hash_units
from tailrace.counting.plan import Plan
from tailrace.sources.reading import Reader, text_frame

KINDS = {
    "sex": Categorical(["f", "m"]),
    "ward": Categorical([3, 70], outside="other"),
    "smokes": Categorical([True, False]),
    "age": Integer(0, 99, outside="clip"),
    "height": Real(edges=[0, 1, 2.5], outside="other"),
}
READ = {
    "sex": {
        "f": 0,
        " m\t": 1,
        "F": -1,
        "": -1,
        "female": -1,
        "\u00a0f\u2003": 0,
        "f\x00": -1,
        None: -1,
    }
    | {"M": -1, "no": -1, "False": 0, "true": -1, "0": -1},
    "ward": {
        "3": 0,
        "70.0": 1,
        "7e1": 1,
        "03": 0,
        "4": 2,
        "three": 2,
        "3,0": 2,
        "nan": 2,
        None: 2,
        "1_0": 2,
    },
    "smokes": {
        "true": 0,
        "Yes": 0,
        "T": 0,
        "1": 0,
        "1.0": 0,
        "FALSE": 1,
        "n": 1,
        "0": 1,
        "2": -1,
        "": -1,
        None: -1,
    },
    "age": {
        "true": 1,
        "yes": -1,
        "41": 41,
        "-5": 0,
        "1e99": 99,
        "9" * 500: 99,
        "-inf": 0,
        "41.9": 41,
        "NaN": -1,
        "0x10": -1,
        None: -1,
        "\uff14": -1,
    },
    "height": {
        "0": 0,
        "2.5": 1,
        "1e0": 1,
        ".5": 0,
        "-0.0": 0,
        "2.6": 2,
        "inf": 2,
        "": 2,
        "1 0": 2,
        "1e-400": 0,
        None: 2,
    },
}


def cells(name, values):
    domain = Schema(**{name: KINDS[name]})
    frame = values if isinstance(values, pl.DataFrame) else pl.DataFrame({name: values})
    return domain.cells(
        nw.from_native(Reader(domain=domain).read(frame).frame, eager_only=True)
    ).tolist()


@pytest.mark.parametrize("name", KINDS)
def test_text_is_read_cell_by_cell_as_the_attribute_says(name):
    expected = READ[name]
    texts = pl.Series(name, list(expected), dtype=pl.String)
    assert dict(zip(expected, cells(name, texts), strict=True)) == expected
    assert cells(name, texts.cast(pl.Categorical)) == list(expected.values())
    for text, code in expected.items():  # alone, too
        assert cells(name, pl.Series(name, [text], dtype=pl.String)) == [code]


@pytest.mark.parametrize(
    ("name", "values", "codes"),
    [
        ("sex", pl.Series(["m", "f", None], dtype=pl.Enum(["m", "f"])), [1, 0, -1]),
        ("sex", pl.Series([None, None]), [-1, -1]),
        ("ward", pl.Series([3, 70, 4], dtype=pl.UInt8), [0, 1, 2]),
        ("smokes", [True, False, None], [0, 1, -1]),
        ("age", pl.Series([7, 2**63, None], dtype=pl.UInt64), [7, 99, -1]),
        ("age", pl.Series([Decimal("7.25"), Decimal("-1e20")]), [7, 0]),
        ("age", pl.Series([7, 10**30], dtype=pl.Int128), [7, 99]),
        ("height", pl.Series([0.5, math.nan, math.inf], dtype=pl.Float32), [0, 2, 2]),
        ("height", pl.Series([2, -1], dtype=pl.Int8), [1, 2]),
        ("height", [None], [2]),
        ("sex", [0, 1], [-1, -1]),
        ("sex", [True, False], [-1, 0]),
        ("sex", [b"f", b"\xff"], [0, -1]),
        ("ward", [True], [2]),
        ("smokes", [1, 0, 2], [0, 1, -1]),
        ("age", [True], [1]),
        ("age", [date(2026, 1, 1)], [-1]),
        ("height", [time(1)], [2]),
        ("height", [timedelta(1)], [2]),
    ],
)
def test_columns_that_hold_values_are_read_too(name, values, codes):
    assert cells(name, values) == codes


@pytest.mark.parametrize(
    ("name", "values", "holds"),
    [
        ("sex", [["f"]], "text"),
        ("age", [{"a": 1}], "whole numbers"),
        ("height", [[1.0]], "numbers"),
    ],
)
def test_a_column_whose_cells_could_never_be_read_is_refused_by_name(name, values, holds):
    for column in (pl.Series(name, values), pl.Series(name, values)[:0]):
        with pytest.raises(DataError) as refused:
            cells(name, column)
        assert (
            str(refused.value)
            == f"Column '{name}' must hold {holds}; convert it before it is pushed."
        )


def test_what_was_read_has_the_same_types_from_every_format():
    domain, reader = Schema(**KINDS), Reader(domain=Schema(**KINDS), key="id")
    text = pl.DataFrame({name: pl.Series([None], dtype=pl.String) for name in reader.columns})
    values = pl.DataFrame(
        {"sex": ["f"], "ward": [3], "smokes": [True], "age": [Decimal(3)], "height": [1], "id": [7]}
    )
    nothing = pl.DataFrame({name: [None] for name in reader.columns})
    schemas = [reader.read(frame).frame.schema for frame in (text, values, nothing)]
    assert schemas[0] == schemas[1] == schemas[2]
    assert list(schemas[0]) == [*domain.columns, "id"]


def test_blanks_count_where_a_declared_value_has_some():
    domain = Schema(sex=Categorical(["f", " f"]))
    frame = Reader(domain=domain).read(pl.DataFrame({"sex": ["f", " f", "f "]})).frame
    assert domain.cells(nw.from_native(frame, eager_only=True)).tolist() == [0, 1, -1]


def test_the_coordinates_of_a_box_are_read_as_numbers():
    box = Box(low=(0, 0), high=(4, 2), columns=("x", "y"), cells=2, outside="clip")
    frame = (
        Reader(domain=box)
        .read(pl.DataFrame({"y": ["0.5", "7", "here", "1"], "x": [1.0, 99.0, 1.0, None]}))
        .frame
    )
    assert box.cells(nw.from_native(frame, eager_only=True)).tolist() == [0, 3, -1, -1]
    with pytest.raises(DataError, match=r"^Column 'y' must hold numbers"):
        Reader(domain=box).read(pl.DataFrame({"x": [1.0], "y": [[1.0]]}))


numbers = st.floats() | st.integers(-(10**25), 10**25)
spellings = st.one_of(
    numbers.map(str),
    numbers.map(lambda x: f" {x:.3e}\t"),
    st.text("0123456789+-.einfa_ ", max_size=8),
    st.text(max_size=6),
)


@given(st.lists(spellings, min_size=1, max_size=8))
def test_numbers_are_read_as_python_reads_them(texts):
    """But for underlines, other scripts' digits and control characters as blanks; NaN and what is
    no number are missing.
    """

    def as_python(text):
        try:
            return (
                float(text)
                if text.isascii() and not set("_\x1c\x1d\x1e\x1f") & set(text)
                else math.nan
            )
        except ValueError:
            return math.nan

    domain = Schema(x=Real(edges=[0, 1]))
    found = (
        Reader(domain=domain)
        .read(pl.DataFrame({"x": pl.Series(texts, dtype=pl.String)}))
        .frame["x"]
    )
    expected = [
        as_python(
            text.strip(
                " \t\n\r\v\f\x85\u00a0\u1680\u2028\u2029\u202f\u205f\u3000"
                + "".join(map(chr, range(0x2000, 0x200B)))
            )
        )
        for text in texts
    ]
    assert np.array_equal(found.fill_null(math.nan).to_numpy(), expected, equal_nan=True)


@given(st.lists(st.sampled_from(list(READ["height"])), min_size=2, max_size=8), st.data())
def test_no_cell_depends_on_another(texts, data):
    values = pl.Series("height", texts, dtype=pl.String)
    gone = data.draw(st.integers(0, len(texts) - 1))
    found = cells("height", values)
    assert (
        cells("height", pl.concat([values[:gone], values[gone + 1 :]]))
        == found[:gone] + found[gone + 1 :]
    )


ONE = Schema(sex=Categorical(["f", "m"]))


def test_an_op_column_says_insert_or_delete_and_other_rows_are_left_out():
    ops = ["insert", "DELETE ", "\tInsert", "update", "", None, "deleted"]
    read = Reader(domain=ONE, op="op").read(pl.DataFrame({"sex": ["f"] * 7, "op": ops}))
    assert read.deletes.tolist() == [False, True, False, False, False, False, False]
    assert read.readable.tolist() == [True, True, True, False, False, False, False]
    nothing = Reader(domain=ONE, op="op").read(pl.DataFrame({"sex": ["f"], "op": [None]}))
    assert not nothing.readable.any()
    with pytest.raises(DataError, match=r"^Column 'op' must hold text: insert or delete.$"):
        Reader(domain=ONE, op="op").read(pl.DataFrame({"sex": ["f"], "op": [True]}))


@pytest.mark.parametrize(
    ("values", "ids"),
    [
        (
            ["7", " 7 ", "7.0", "7.", "-7.00", "07", "x7.0", "", "  ", None],
            [7, 7, 7, 7, -7, 7, "x7.0"] + [None] * 3,
        ),
        ([7, None], [7, None]),
        (pl.Series([7, 2**64 - 1], dtype=pl.UInt64), [7, 2**64 - 1]),
        (pl.Series([7, 10**30], dtype=pl.Int128), [7, 10**30]),
        ([Decimal("7.00")], [7]),
        (pl.Series(["a", "7"], dtype=pl.Categorical), ["a", 7]),
        ([None], [None]),
        ([True], ["true"]),
        ([date(2026, 1, 1)], ["2026-01-01"]),
        ([b"7", b"\xff"], [7, "\ufffd"]),
    ],
)
def test_somebody_has_one_id_however_it_is_written(values, ids):
    """Two spellings would be two people, with twice the contributions."""
    frame = pl.DataFrame({"sex": ["f"] * len(ids), "id": values})
    wanted = hash_units(np.array([*ids, None], object)[:-1], bytes(16)).tolist()
    read = Reader(domain=ONE, key="id").read(frame).frame
    assert read.schema["id"] == pl.String
    lazy = [] if frame.schema["id"] == pl.Binary else [frame.lazy()]
    for rows in (read, frame, *lazy):
        assert hash_units(unit_rows(Plan(ONE, key="id"), rows)[0], bytes(16)).tolist() == wanted


def test_ids_have_a_type_that_can_be_one():
    reader = Reader(domain=ONE, key="id")
    with pytest.raises(
        DataError, match=r"^Column 'id' must hold ids as text or as whole numbers.$"
    ):
        reader.read(pl.DataFrame({"sex": ["f"], "id": [[7]]}))
    for values in ([7.0], [None, math.nan]):
        frame = pl.DataFrame(
            {"sex": ["f"] * len(values), "id": pl.Series(values, dtype=pl.Float64)}
        )
        with pytest.raises(DataError, match=r"^Column 'id' holds ids as floats.*text.*Int64"):
            reader.read(frame)


def test_a_unit_may_be_a_column_of_the_domain():
    reader = Reader(domain=Schema(age=Integer(0, 9)), key="age")
    assert reader.columns == ["age"]
    frame = reader.read(pl.DataFrame({"age": ["7", "x"]})).frame
    ids, found = unit_rows(Plan(reader.domain, key="age"), frame)
    assert found.tolist() == [7, -1] and len(ids) == 2


def test_times_are_read_in_the_zone_and_the_form_that_are_said():
    reader = Reader(
        domain=ONE, time="day", arrived="came", timezone="Europe/Berlin", format="%d.%m.%Y"
    )
    frame = pl.DataFrame(
        {"sex": ["f"] * 2, "day": ["1.7.2026", "2026-07-01"], "came": ["2.7.2026", None]}
    )
    read = reader.read(frame)
    assert read.times is not None and read.arrived is not None
    assert read.times.tolist() == [datetime(2026, 6, 30, 22), None]
    assert read.arrived.tolist() == [datetime(2026, 7, 1, 22), None]
    with pytest.raises(DataError, match=r"^Column 'day' holds Int64, and times are"):
        Reader(domain=ONE, time="day").read(pl.DataFrame({"sex": ["f"], "day": [20260701]}))


def test_columns_are_named_once_and_must_be_there():
    reader = Reader(domain=ONE, key="id", time="day", op="op", arrived="day")
    assert reader.columns == ["sex", "id", "day", "op"]
    for missing in reader.columns:
        frame = pl.DataFrame({name: ["x"] for name in reader.columns if name != missing})
        with pytest.raises(
            DataError, match=f"^There is no column '{missing}', which the configuration names.$"
        ):
            reader.read(frame)


def test_python_values_are_written_as_text():
    values = [
        None,
        "a",
        "\ud800b",
        True,
        7,
        10**5000,
        -(10**5000),
        0.5,
        math.nan,
        Decimal("1.50"),
        Decimal("sNaN"),
    ]
    more = [
        date(2026, 1, 2),
        datetime(2026, 1, 2, 3, tzinfo=UTC),
        time(1, 2),
        [1],
        {"a": 1},
        b"x",
        object(),
    ]
    texts = [None, "a", "\ufffdb", "true", "7", "inf", "-inf", "0.5", None, "1.50", None]
    assert text_frame({"x": values + more})["x"].to_list() == [
        *texts,
        *("2026-01-02", "2026-01-02T03:00:00+00:00", "01:02:00"),
        *("\x00", "\x00", "x", "\x00"),
    ]
    assert text_frame({"x": []}).schema == {"x": pl.String}
