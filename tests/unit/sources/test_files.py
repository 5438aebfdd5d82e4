"""CSV and Parquet files: which cells are found, line by line, and what is refused by name."""

import csv
import io
from datetime import date
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace import DataError
from tailrace.sources.files import names_in, read, told

CSV, PARQUET = Path("cases.csv"), Path("cases.parquet")


def rows(text, columns=("sex", "age"), path=CSV):
    data = text.encode() if isinstance(text, str) else text
    return read(path, data, columns).rows()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("sex,age\nf,41\nm,7\n", [("f", "41"), ("m", "7")], id="plain"),
        pytest.param(
            "sex,age\nf,41\nm,7", [("f", "41"), ("m", "7")], id="no end of line at the end"
        ),
        pytest.param(
            "age,note,sex\n41,x,f\n",
            [("f", "41")],
            id="another order, and a column that nobody asked for",
        ),
        pytest.param("sex;age\nf;4,5\n", [("f", "4,5")], id="semicolons"),
        pytest.param(
            "sex\tage\nf\t41\n\t\n",
            [("f", "41"), (None, None)],
            id="tabs, and a row of nothing but them",
        ),
        pytest.param(
            "\ufeffsex,age\r\nf,41\r\n\r\nm,7\r\n",
            [("f", "41"), ("m", "7")],
            id="as spreadsheets write",
        ),
        pytest.param(" sex , age\nf,41\n", [("f", "41")], id="blanks around names"),
        pytest.param('"sex","age"\n"f","4""1"\n', [("f", '4"1')], id="quotes"),
        pytest.param('sex,age\n"f,g",41\n', [("f,g", "41")], id="a separator between quotes"),
        pytest.param(
            'sex,age\nf,"4\nm,7\n', [("f", "4"), ("m", "7")], id="a quote that is not closed"
        ),
        pytest.param('sex,age\nf"g,41\n', [('f"g', "41")], id="a quote inside a cell"),
        pytest.param(
            "sex,age\nf\nm,7,8\n,\n", [("f", None), ("m", "7"), (None, None)], id="ragged"
        ),
        pytest.param("\n\n  \n", [], id="blank"),
        pytest.param("", [], id="empty"),
        pytest.param("sex,age", [], id="names and no end of line"),
        pytest.param("sex,age\n\n \n\r\n", [], id="names only"),
        pytest.param(
            "sex,age,note,note\nf,41,x,y\n", [("f", "41")], id="another column is there twice"
        ),
        pytest.param(
            "sex,age\n\x00,4\x0b1\n\u2028,\x85\n",
            [("\x00", "4\x0b1"), ("\u2028", "\x85")],
            id="controls",
        ),
        pytest.param(
            "sex,age\nf,4\r1\n", [("f", "4\r1")], id="an old end of line is no end of line"
        ),
    ],
)
def test_the_cells_of_a_csv_file(text, expected):
    assert rows(text) == expected


def test_a_file_of_one_column_may_have_any_separator_in_its_cells():
    assert rows("sex\nf\n\nm,x\n;\n", ["sex"]) == [("f",), ("m",), (";",)]


def test_bytes_that_are_no_text_spoil_their_own_cell():
    assert rows("sex,age\nweiß,1\nm,7\n".encode("latin-1")) == [("wei\ufffd", "1"), ("m", "7")]
    assert rows(b"sex,age\n\xe2\x82,1\nm,7\n") == [
        ("\ufffd", "1"),
        ("m", "7"),
    ]  # cut in the middle of a letter


def test_a_cell_may_be_as_long_as_it_likes():
    long = "x" * 300_000
    assert rows(f'sex,age,note\n{long},1,a\n"{long}",2,b\n"{long}\n') == [
        (long, "1"),
        (long, "2"),
        (long, None),
    ]
    assert rows(f'sex,age,note\nf,1,"{"a,b" * 100_000}"\n') == [("f", "1")]


lines = st.lists(st.text(st.sampled_from('fm17,;\t" \r\x00é')), min_size=1, max_size=6)
separators = st.sampled_from(",;\t")


@given(lines, separators, st.data())
def test_no_row_depends_on_another_line(lines, separator, data):
    header = f"sex{separator}age{separator}note"

    def found(lines):
        return rows("\n".join([header, *lines]), ["age", "sex"])

    gone = data.draw(st.integers(0, len(lines) - 1))
    assert found(lines) == [row for line in lines for row in found([line])]
    assert found(lines[:gone] + lines[gone + 1 :]) == found(lines[:gone]) + found(lines[gone + 1 :])


@given(st.text(st.sampled_from('ab1," é')).filter(lambda line: line.strip()))
def test_a_line_is_taken_apart_as_other_programs_do(line):
    spelt = next(csv.reader([line]))
    assert rows(f"a,b\n{line}\n", ["a", "b"]) == [
        tuple([cell or None for cell in spelt] + [None])[:2]
    ]


@given(
    st.lists(
        st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\r\n"))] * 2),
        min_size=1,
    )
)
def test_what_a_writer_of_csv_wrote_is_read_back(table):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([("a", "b"), *table])
    assert rows(text.getvalue(), ["a", "b"]) == [
        tuple(cell or None for cell in row) for row in table
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("\nsex,age\nf,41\n", "The first line of cases.csv is empty: it must name the columns."),
        ("sex,years\nf,41\n", "cases.csv has no column 'age', which the configuration names."),
        ("sex,Age\nf,41\n", "cases.csv has no column 'age', which the configuration names."),
        ("sex,age,age\nf,41,42\n", "cases.csv has two columns 'age': give each its own name."),
        ("f,41\nm,7\n", "cases.csv has no column 'sex', which the configuration names."),
    ],
)
def test_columns_that_are_not_there_once_are_refused_by_name(text, sentence):
    with pytest.raises(DataError) as refused:
        rows(text)
    assert str(refused.value) == sentence


def parquet(**columns):
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


def test_parquet_columns_are_found_as_they_are():
    data = parquet(note=[[1], [2]], age=[41, 7], sex=pl.Series(["f", None], dtype=pl.Categorical))
    found = read(PARQUET, data, ["sex", "age"])
    assert found.rows() == [("f", 41), (None, 7)]
    assert found.columns == ["sex", "age"]
    with pytest.raises(
        DataError, match=r"^cases.parquet has no column 'sex', which the configuration names.$"
    ):
        read(PARQUET, parquet(age=[1]), ["sex", "age"])


def test_a_damaged_parquet_file_is_refused_in_one_sentence():
    whole = parquet(sex=["f", "m"] * 50, age=list(range(100)))
    for data in (
        b"",
        b"PAR1",
        whole[:-1],
        whole[: len(whole) // 2],
        b"sex,age\nf,41\n",
        whole[:-30] + bytes(30),
    ):
        with pytest.raises(DataError) as refused:
            read(PARQUET, data, ["sex", "age"])
        assert str(refused.value) == (
            "cases.parquet cannot be read as Parquet: it is damaged, or still being written. Mend "
            "it and run again."
        )
        assert refused.value.__cause__ is None and refused.value.__suppress_context__


def test_only_two_kinds_of_files_are_read():
    with pytest.raises(DataError, match=r"^cases.xlsx is neither .csv nor .parquet"):
        read(Path("cases.xlsx"), b"", ["sex"])
    assert rows("sex\nf\n", ["sex"], Path("CASES.CSV")) == [("f",)]


def test_names_are_found_without_looking_at_rows(tmp_path):
    table, wide = tmp_path / "a.csv", tmp_path / "b.parquet"
    table.write_bytes(b'\xef\xbb\xbf;"sex"; day ;age, in years\r\n\xff\xfe;"\n')
    assert names_in(table) == ["sex", "day", "age, in years"]
    wide.write_bytes(parquet(sex=["f"], day=[date(2026, 1, 1)]))
    assert names_in(wide) == ["sex", "day"]


@pytest.mark.parametrize(
    "name", ["missing.csv", "folder.csv", "empty.csv", "damaged.parquet", "notes.txt"]
)
def test_a_file_without_names_is_refused(tmp_path, name):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "empty.csv").touch()
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=name):
        names_in(tmp_path / name)


def test_what_is_wrong_with_columns_is_told_with_the_name_of_the_file():
    with pytest.raises(DataError, match=r"^cases.csv: Column 'age'.$"), told(CSV):
        raise DataError("Column 'age'.")
