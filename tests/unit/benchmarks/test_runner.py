"""The benchmarks' runner: partial runs join the saved results and lose nothing."""

import os
import subprocess
import sys

import pytest

import runner

SAVED = [
    ["city", "0.5", "ours", "1", "old"],
    ["city", "0.5", "theirs", "2", "old"],
    ["circles", "0.5", "ours", "3", "old"],
]
SCRIPT = """
from runner import data, main, measurement


@measurement(
    "tried", keys="data | method", columns="error .2f | goal met ?",
    cases=[("city",), ("circles",), ("absent",)], goal="below 1",
)
def errors(name, seeds=2):
    if name == "absent":
        data("no such folder", "points.parquet")
    print("measured", name)
    for method in ("ours", "theirs"):
        yield [name, method, seeds / 3, None if method == "theirs" else seeds < 3]


main(__doc__)
"""


def test_a_row_takes_the_place_of_the_one_with_its_key():
    new = ["city", "0.5", "theirs", "9", "new"]
    assert runner.merge(SAVED, [new], keys=3) == [SAVED[0], new, SAVED[2]]


def test_a_new_row_comes_after_its_next_of_kin():
    new = ["city", "0.5", "others", "9", "new"]
    assert runner.merge(SAVED, [new], keys=3) == [*SAVED[:2], new, SAVED[2]]
    far = ["sea", "0.5", "ours", "9", "new"]
    assert runner.merge(SAVED, [far], keys=3) == [*SAVED, far]


def test_a_case_replaces_all_of_its_rows_and_no_other():
    new = ["city", "0.5", "ours", "9", "new"]
    assert runner.merge(SAVED, [new], keys=3, case=("city", "0.5")) == [new, SAVED[2]]


def test_two_rows_with_one_key_are_refused():
    with pytest.raises(ValueError, match="same key"):
        runner.merge([], [SAVED[0], SAVED[0]], keys=3)


def test_runs_of_parts_join_keep_their_stamps_and_are_resumed(tmp_path):
    script = tmp_path / "tried.py"
    script.write_text(SCRIPT)

    def run(*words):
        command = [sys.executable, script, *words, "--to", tmp_path / "results"]
        env = {**os.environ, "PYTHONPATH": str(runner.HERE)}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout

    def saved():
        lines = (tmp_path / "results" / "tried.csv").read_text().splitlines()
        assert lines[0] == "data,method,error,goal met,settings,commit,machine"
        return [line.split(",")[:4] for line in lines[1:]], "\n".join(lines)

    assert "errors -> tried.csv (below 1)" in run("--list")
    assert "1 met, 0 missed" in run("--only", "circles")
    said = run("errors", "--resume")
    assert "measured city" in said and "measured circles" not in said, "that was saved before"
    assert "no such folder/points.parquet: not here, skipped" in said
    said = run("--only", "city", "--seeds", "3")
    assert "missed: city, ours" in said
    rows, text = saved()
    assert sorted(rows) == [
        ["circles", "ours", "0.67", "yes"],
        ["circles", "theirs", "0.67", ""],
        ["city", "ours", "1.00", "NO"],
        ["city", "theirs", "1.00", ""],
    ]
    assert text.count(",seeds 3,") == text.count(",seeds 2,") == 2, "a row says its settings"


def test_results_of_an_earlier_form_are_read_and_resumed(tmp_path, monkeypatch):
    monkeypatch.setenv("TAILRACE_RESULTS", str(tmp_path))
    lines = ["data,ms,commit,machine", 'a,1,"abc, seeds 3",here', "b,2,def,here"]
    (tmp_path / "old.csv").write_text("\n".join(lines) + "\n")
    rows = runner.read("old")
    assert [(row["settings"], row["commit"]) for row in rows] == [("seeds 3", "abc"), ("", "def")]
