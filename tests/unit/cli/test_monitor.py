"""Late steps, failing sinks, the end of the horizon: what a monitor is told."""

import json
import re
import shutil
from datetime import UTC, datetime

import pytest

import tailrace as tr
from processes import call
from tailrace.calendar import Calendar
from tailrace.cli import monitor
from tailrace.config import load
from tailrace.config.opening import open_stream

TOML = """
[stream]
path = "ward.tail"
population = "ward"
[mechanism]
kind = "HistogramStream"
horizon = {horizon}
privacy = {{ kind = "PureDP", epsilon = 1 }}
unit = {{ kind = "Event" }}
[schema]
sex = {{ kind = "Categorical", values = ["f", "m"] }}
[calendar]
start = 2026-01-01  # the first day
period = "1 day"
[source]
kind = "Folder"
path = "incoming"
files = "*.csv"
time = "day"
[[sink]]
kind = "CsvFolder"
path = "public"
[[sink]]
kind = "SqlTable"
url = "sqlite:///out.db"
table = "ward"
"""


@pytest.fixture
def ward(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "a.csv").write_text("day,sex\n2026-01-01,f\n2026-01-03,x\n")
    (tmp_path / "stream.toml").write_text(TOML.format(horizon=3))
    return tmp_path


def test_a_step_is_late_once_its_slack_is_over(ward):
    (ward / "stream.toml").write_text(TOML.format(horizon=3000))
    calendar = Calendar(start="2026-01-01", period="1 day")
    config = load("stream.toml")
    now = datetime(2026, 1, 5, 0, 30, tzinfo=UTC)
    parts = {"horizon": 3000, "now": now, "slack": "1 hour"}
    assert monitor.health(None, calendar, step=3, **parts).alarms == []
    late = monitor.health(None, calendar, step=2, **parts)
    assert (late.late, late.left, late.alarms) == (1, 2998, ["1 closed step(s) are not released."])
    assert monitor.health(None, calendar, step=3, **{**parts, "slack": "10 minutes"}).late == 1
    assert monitor.health(config, None, step=0, **parts).sinks == {
        "CsvFolder public": 0,
        "SqlTable ward": 0,
    }


def test_status_fails_with_a_code_of_its_own_where_a_step_or_sink_is_late(ward):
    assert call("run", "stream.toml")
    assert call("status", "stream.toml", "--fail-if-late")
    (ward / "public" / "000002" / "release.json").unlink()
    done = call("status", "stream.toml", "--fail-if-late", code=8)
    assert "CsvFolder public lacks 1 released step(s)." in done.output
    found = json.loads(call("status", "stream.toml", "--json").output)
    assert found["sinks_lacking"] == {"CsvFolder public": 1, "SqlTable ward": 0}
    assert found["late_steps"] == 0
    bad = call("status", "stream.toml", "--slack", "1 month", code=3)
    assert "slack must be of a fixed length" in bad.output


def test_a_sink_that_fails_does_not_stop_the_other_and_has_a_code(ward):
    (ward / "public").write_text("in the way")
    done = call("run", "stream.toml", code=7)
    assert "Released steps 1 to 3 of 3" in done.output
    assert "1 of 2 sinks could not take all releases" in done.output
    (ward / "public").unlink()
    assert call("run", "stream.toml"), "the next run delivers the rest"
    assert len(list((ward / "public").glob("0*"))) == 3


def test_the_metrics_hold_nothing_of_the_data(ward):
    call("run", "stream.toml")
    call("status", "stream.toml", "--metrics", "a.prom")
    (ward / "other").mkdir()
    text = (ward / "a.prom").read_text()
    assert re.search(r'^tailrace_step\{stream="ward.tail"\} 3$', text, re.M)
    assert 'tailrace_sink_lacking_steps{stream="ward.tail",sink="SqlTable ward"} 0' in text
    assert 'tailrace_last_step_closed_timestamp_seconds{stream="ward.tail"} 1767484800' in text
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) tailrace_\w+ .+|tailrace_\w+\{.*\} -?[0-9.e+]+", line)
    (ward / "incoming" / "a.csv").write_text("day,sex\n" + "2026-01-02,f\n" * 500)
    for name in ("ward.tail", "public"):
        (ward / name).rename(ward / "other" / name)
    for name in ("tailrace.ledger", "out.db"):
        (ward / name).unlink()
    call("run", "stream.toml")
    call("status", "stream.toml", "--metrics", "b.prom")
    assert (ward / "b.prom").read_text() == text, "the same for other data"


def test_the_end_is_told_of_and_a_successor_goes_on(ward):
    assert monitor.near(1, 30) is None and monitor.near(3, 3) is None
    assert monitor.near(29, 30).startswith("1 of 30 steps are left: tailrace succeed makes")
    assert monitor.near(365, 365).startswith("No step is left")
    (ward / "long.toml").write_text(TOML.format(horizon=20).replace("ward.tail", "long.tail"))
    for command in (("run",), ("status", "--fail-if-late")):
        done = call(command[0], "long.toml", *command[1:])
        assert "No step is left: tailrace succeed" in done.stderr, "where a timer mails it"
    for name in ("public", "out.db"):
        (ward / name).rename(ward / f"long-{name}")
    assert call("run", "stream.toml")
    call("succeed", "stream.toml", "--to", "next.toml")
    first, new = load("stream.toml"), load("next.toml")
    assert (new.calendar.start, new.path.name) == ("2026-01-04", "ward-2.tail")
    assert [getattr(sink, "table", None) or sink.path.name for sink in new.sinks] == [
        *("public-2", "ward_2")
    ]
    assert new.mechanism == first.mechanism and new.source == first.source
    assert "# the first day" in (ward / "next.toml").read_text()
    (ward / "incoming" / "b.csv").write_text("day,sex\n2026-01-05,f\n")
    assert "Released steps 1 to 3 of 3 into ward-2.tail" in call("run", "next.toml").output
    (ward / "none.toml").write_text(
        (ward / "stream.toml").read_text().replace("horizon = 3", 'horizon = "none"')
    )
    wrong = call("succeed", "none.toml", "--to", "a.toml", code=3)
    assert "lacks one of them" in wrong.output


def test_a_successor_goes_on_from_the_last_table(ward):
    rows = "2026-01-01,f\n" * 900 + "2026-01-02,m\n" * 300 + "2026-01-05,m\n" * 500
    (ward / "incoming" / "a.csv").write_text("day,sex\n" + rows)
    call("succeed", "stream.toml", "--to", "next.toml")
    early = call("run", "next.toml", code=5)
    assert "is not there yet" in early.output and not (ward / "ward-2.tail").exists()
    call("run", "stream.toml")
    assert 'after = "ward.tail"' in (ward / "next.toml").read_text()
    call("run", "next.toml")
    found = tr.open_releases(ward / "ward-2.tail")
    first, last = found.count(1, sex="f"), found.count(sex="m")
    assert abs(first.value - 900) < 60 and abs(last.value - 800) < 60
    assert abs(len(found.table()) - 1700) < 150
    with tr.Stream.open(ward / "ward-2.tail") as stream:
        (said,) = stream.release(3).provenance["notes"]
        assert said.startswith("This stream began with the last table of ward.tail: errors are")
    call("report", "next.toml")
    assert said in (ward / "report.html").read_text()
    call("succeed", "next.toml", "--to", "third.toml")
    assert load("third.toml").after == load("next.toml").path
    once = (ward / "next.toml").read_text().replace('"Event"', '"User", column = "sex", events = 3')
    (ward / "next.toml").write_text(once)
    refused = call("run", "next.toml", code=3)
    assert "after is for histograms, tables and places of single events" in refused.output
    call("succeed", "stream.toml", "--to", "again.toml")
    (ward / "again.toml").write_text(
        (ward / "again.toml").read_text().replace("ward-2.tail", "w.tail")
    )
    shutil.rmtree(ward / "ward.tail" / "releases" / "added")
    damaged = call("run", "again.toml", code=5)
    assert "is missing or is not the file" in damaged.output and not (ward / "w.tail").exists()


def test_a_table_is_taken_over_once(ward):
    (ward / "incoming" / "a.csv").write_text("day,sex\n" + "2026-01-01,f\n" * 900)
    call("run", "stream.toml")
    call("succeed", "stream.toml", "--to", "next.toml")
    config = load("next.toml")
    for _ in range(3):
        with open_stream(config) as stream:
            assert stream.step == 0
    call("run", "next.toml")
    assert abs(tr.open_releases(ward / "ward-2.tail").count(sex="f").value - 900) < 60


def test_check_warns_of_rows_that_are_lost_and_of_values_that_never_came(ward):
    rows = "".join(f"2026-01-0{day},f\n" for day in (1, 3)) + "soon,f\n2026-01-03,secret\n"
    (ward / "incoming" / "a.csv").write_text("day,sex\n" + rows)
    found = json.loads(call("check", "stream.toml", "--json").output)
    said = "\n".join(found["warnings"])
    assert "1 (25.0%) of the rows have no time that can be read: say how" in said
    assert "1 (25.0%) of the rows lie outside the domain in column 'sex'" in said
    assert "No row came for step 2 (2026-01-02):" in said
    assert "'m' of column 'sex' never came" in said and "secret" not in said
    assert "beyond the horizon" not in call("check", "stream.toml", "--strict", code=9).output
    (ward / "incoming" / "a.csv").write_text("day,sex\n2026-01-01,f\n2026-01-04,m\n")
    assert "rows after step 3 are never counted" in call("check", "stream.toml").output
    (ward / "incoming" / "a.csv").write_text("day,sex\n2026-01-01,f\n2026-01-01,m\n")
    assert call("check", "stream.toml", "incoming/a.csv", "--strict")
    quiet = call("check", "stream.toml", "--strict", code=9).output
    assert "No row came for step 2 (2026-01-02), 3 (2026-01-03):" in quiet, "they are closed"
