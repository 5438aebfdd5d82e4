"""Experiments: every exhibit runs small, resumes, and is shown on its paper's page."""

import csv
import re

import pytest
from typer.testing import CliRunner

from tailrace.cli import app
from tailrace.experiments import PAPERS, paper, runner
from tailrace.experiments.paper import Curves, Pivot

# Settings that run in seconds; each exhibit takes those it has.
TINY = {"seeds": 1, "steps": 20, "journeys": 100}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder for results, and no real data."""
    monkeypatch.setenv("TAILRACE_RESULTS", str(tmp_path / "results"))
    (tmp_path / "none").mkdir()
    monkeypatch.setenv("TAILRACE_DATA", str(tmp_path / "none"))
    return tmp_path / "results"


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPERS)
def test_every_exhibit_runs_without_real_data_and_is_shown(name, results):
    one = paper(name)
    for exhibit in one.exhibits:
        settings = {**exhibit.quick, **TINY}
        done = list(runner.run(exhibit.of, settings=settings, cases=list(exhibit.few)[:1]))
        assert done and not done[0].missing, exhibit.title
        with (results / f"{exhibit.of.file}.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert rows and all(row["settings"] and row["commit"] for row in rows)
    text = one.page(quick=True).read_text()
    assert (
        "Not measured yet" not in text
        and "QUICK" in text
        and "http" not in text.replace("http://www.w3.org/2000/svg", "")
    )
    assert all(exhibit.title in text for exhibit in one.exhibits)


def test_rows_become_lines_and_a_table_with_the_ratio():
    rows = [
        {"data": "a", "step": str(step), "method": method, "error": f"{error * step}+-0.0"}
        for step in (1, 2)
        for method, error in (("ours", 1), ("published", 4))
    ]
    [(caption, svg)] = Curves("step", "error", "method", per=("data",))(rows)
    assert caption == "Error by step." and svg.count("<polyline") == 2 and ">ours</text>" in svg
    assert not list(Curves("step", "error", "method")(rows[:2])), "one step makes no line"
    table = Pivot(("data",), ("error",), across="method", ratio=("ours", "published"))(rows)
    assert re.findall("<td>(.*?)</td>", table) == ["a", "0.25", "1.5", "6"]


def test_a_run_that_was_cut_goes_on_with_the_cases_that_are_left(results):
    exhibit = paper("panels").exhibits[1]
    assert exhibit.of.file == "papers_panel_cumulative"
    cases = [("generated",), ("absent",)]
    first = runner.run(exhibit.of, settings=TINY, cases=cases, resume=True)
    assert next(first).many == 2
    first.close()
    before = (results / "papers_panel_cumulative.csv").read_text()
    [left] = runner.run(exhibit.of, settings=TINY, cases=cases, resume=True)
    assert left.case == ("absent",) and left.missing == "panels/absent.parquet"
    assert (results / "papers_panel_cumulative.csv").read_text() == before
    again = runner.run(exhibit.of, settings={"seeds": 3}, cases=cases[:1], resume=True)
    assert next(again).many == 1, "other settings are measured anew"


def test_the_command_says_what_is_wrong_in_a_sentence(tmp_path, results):
    said = CliRunner().invoke(app, ["experiments", "panel", "--to", str(tmp_path)])
    assert said.exit_code == 3 and "There is no paper panel: choose among spatial" in said.output
    (tmp_path / "papers_panel_quarters.csv").write_text("other,columns\n1,2\n")
    quick = ["experiments", "panels", "--quick", "--processes", "1"]
    said = CliRunner().invoke(app, [*quick, "--to", str(tmp_path)])
    assert said.exit_code == 3 and "has other columns than this measurement" in said.output
    said = CliRunner().invoke(app, [*quick, "--to", str(tmp_path / "papers_panel_quarters.csv")])
    assert said.exit_code == 1 and "Traceback" not in said.output
    said = CliRunner().invoke(app, ["experiments", "panels", "--data", str(tmp_path / "no")])
    assert said.exit_code == 3 and "--data is the folder of the real data" in said.output
