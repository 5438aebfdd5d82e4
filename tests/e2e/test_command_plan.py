"""`tailrace plan` as a user meets it: nothing private is opened."""

import json

import pytest

from processes import call

STREAM = """
[stream]
path = "ward.tail"
population = "patients of the ward"
ledger = "{ledger}"

[schema]
district = {{ kind = "Integer", low = 1, high = 12 }}

[mechanism]
kind = "{kind}"
horizon = 30
privacy = {{ kind = "PureDP", epsilon = {epsilon} }}
unit = {unit}

[source]
kind = "Folder"
path = "{source}"
files = "*.csv"
"""
EVENT = '{ kind = "Event" }'


def written(folder, name="stream.toml", **more):
    given = {"ledger": "none.ledger", "kind": "HistogramStream", "epsilon": 1, "unit": EVENT}
    text = STREAM.format(**{**given, "source": "nowhere", **more})
    (folder / name).write_text(text)
    return name


def test_it_works_where_source_ledger_and_stream_are_not_there(tmp_path):
    said = call("plan", written(tmp_path), "--error", 5, cwd=tmp_path).stdout
    assert "One value of district with 1,000 records will be shown as 1,000 +- " in said
    assert "Epsilon = " in said
    assert "Nothing private was read, and no budget was charged." in said
    assert [one.name for one in tmp_path.iterdir()] == ["stream.toml"]


def test_it_neither_reads_nor_changes_what_is_there(tmp_path):
    """Private files whose reading would fail: they are no CSV, and the ledger is no ledger."""
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "one.csv").write_bytes(b"\xff\x00 no csv")
    (tmp_path / "none.ledger").write_text("no ledger")
    before = sorted(tmp_path.rglob("*"))
    call("plan", written(tmp_path, source="incoming"), "--html", "plan.html", cwd=tmp_path)
    after = sorted(
        one for one in tmp_path.rglob("*") if one.name not in ("plan.html", "stream.toml")
    )
    assert after == before
    assert (tmp_path / "none.ledger").read_text() == "no ledger"


def test_a_page_and_json(tmp_path):
    name = written(tmp_path)
    found = json.loads(call("plan", name, "--html", "plan.html", "--json", cwd=tmp_path).stdout)
    assert found["page"] == "plan.html" and found["asked"]["exact"]
    (values, _), budgets = found["asked"]["courses"], [one["budget"] for one in found["budgets"]]
    assert len(values["error"]) == 30 and budgets == [0.25, 0.5, 1, 2, 4]
    assert (tmp_path / "plan.html").read_text().startswith("<!doctype html>")
    # A page of ours is written again; any other file stays.
    call("plan", name, "--html", "plan.html", cwd=tmp_path)
    (tmp_path / "mine.html").write_text("mine")
    wrong = call("plan", name, "--html", "mine.html", cwd=tmp_path, code=3)
    assert "is no page of ours" in wrong.output and (tmp_path / "mine.html").read_text() == "mine"


def test_configurations_are_compared(tmp_path):
    first, second = written(tmp_path), written(tmp_path, "other.toml", epsilon=3)
    found = json.loads(call("plan", first, second, "--json", cwd=tmp_path).stdout)
    assert [one["budget"] for one in found["others"]] == [3]


def test_private_data_cannot_stand_in(tmp_path):
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "one.csv").write_text("district\n1\n")
    name = written(tmp_path, source="incoming")
    wrong = call("plan", name, "--like", "incoming/one.csv", cwd=tmp_path, code=3)
    assert "must not be the private data" in wrong.output


def test_a_public_file_stands_in(tmp_path):
    (tmp_path / "public.csv").write_text("district\n" + "1\n2\n7\n" * 200)
    unit = '{ kind = "User", column = "id", records = 1 }'
    name = written(tmp_path, kind="SnapshotHistogram", unit=unit)
    given = ("--like", "public.csv", "--runs", 1, "--alone", "--epsilon", 2)
    said = call("plan", name, *given, cwd=tmp_path).stdout
    assert "the 600 rows of a public file" in said


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--epsilon", "-1", "epsilons must be"),
        ("--error", "0", "error must be"),
        ("--rows", "0", "rows must be"),
        ("--moving", "2", "moving must be"),
        ("--like", "none.csv", "none.csv cannot be read"),
    ],
)
def test_wrong_options_are_one_sentence(tmp_path, option, value, said):
    codes = 4 if option == "--like" else 3
    wrong = call("plan", written(tmp_path), f"{option}={value}", cwd=tmp_path, code=codes)
    assert said in wrong.output and len(wrong.output.strip().splitlines()) == 1
