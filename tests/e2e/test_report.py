"""The demonstration and its reports, as a person meets them: in a terminal and in a browser."""

import json
import re

import numpy as np
import pytest

from looking import INK, KEYS

# Moves the slider, shows the partition, and plays; what the page then shows is left in the page for
# the test to read.
MOVES = (
    """<script>
const told = {}, slider = document.getElementById("step");
"""
    + INK
    + """const text = (id) => document.getElementById(id).textContent;
const state = () => ({ label: text("step-label"), points: text("count-synthetic"),
  ink: ink("map-synthetic") });
told.last = state();
"""
    + KEYS
    + """slider.value = 5; slider.dispatchEvent(new Event("input")); told.fifth = state();
document.getElementById("partition").click(); told.parted = state();
document.getElementById("play").click();
setTimeout(() => { told.played = state(); document.body.setAttribute("data-told", JSON.stringify(told)); }, 1500);
</script>"""
)


@pytest.fixture(scope="module")
def demo(tailrace, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, tailrace("demo", "--to", "out", cwd=folder).stdout


def test_the_demo_says_what_it_did_and_where(demo):
    folder, printed = demo
    assert "Whoever sees everything published over 60 steps" in printed and "epsilon = 1" in printed
    for path in ("out/report.html", "out/city.tail", "PRIVATE-report.html"):
        assert path in printed
    assert len(list((folder / "out/city.tail/releases/log").iterdir())) == 60
    off, stated = map(int, re.search(r"off by (\d+) points.* states (\d+)", printed).groups())
    assert 0.4 * stated < off < 2.5 * stated, "what a release states of its error is near the truth"


def test_the_public_report_needs_no_network_and_shows_no_truth(demo):
    report = (demo[0] / "out" / "report.html").read_text()
    assert not re.findall(r"(?:src|href)\s*=|@import|url\(", report), (
        "nothing is loaded from elsewhere"
    )
    assert set(re.findall(r"https?://[^\"\s]+", report)) == {"http://www.w3.org/2000/svg"}
    data = json.loads(re.search(r'<script id="map-data"[^>]*>(.*?)</script>', report, re.S)[1])
    assert [layer["name"] for layer in data["layers"]] == ["synthetic"] and "PRIVATE" not in report


def test_the_private_report_says_so_and_lies_in_private(demo):
    report = demo[0] / "out" / "city.tail" / "private" / "PRIVATE-report.html"
    text = report.read_text()
    assert text.count("PRIVATE") >= 3 and "map-true" in text


@pytest.mark.slow
def test_a_second_demo_takes_the_place_of_the_first(demo, tailrace):
    before = (demo[0] / "out" / "report.html").stat().st_mtime_ns
    tailrace("demo", "--to", "out", cwd=demo[0])
    assert (demo[0] / "out" / "report.html").stat().st_mtime_ns > before


def test_a_browser_moves_the_slider_and_plays(demo, browser, tmp_path):
    told = browser((demo[0] / "out" / "report.html").read_text(), MOVES, tmp_path)
    keys, tabs, wide = told.pop("keys"), told.pop("tabs"), told.pop("wide")
    assert keys["zooms"] and keys["moves"] and keys["returns"] and keys["button"]
    assert keys["where"] == "Middle: east 6.00, north 4.50; zoom 1\N{MULTIPLICATION SIGN}."
    assert re.match(r"Map of [\d,]+ synthetic points, step 60, 2026-04-29\.", keys["label"])
    first = ["play", "step", "partition", "closer", "farther", "all", "map-synthetic"]
    assert tabs == [*first, "summary"], "controls, then the map, then the numbers of the chart"
    assert wide == 0, "nothing is wider than the page"
    points = {name: int(state["points"].replace(",", "")) for name, state in told.items()}
    assert (
        told["last"]["label"] == "step 60, 2026-04-29"
        and told["fifth"]["label"] == "step 5, 2026-03-05"
    )
    assert points["last"] > 5 * points["fifth"] > 5000
    assert (
        told["parted"]["points"] == told["fifth"]["points"]
        and told["parted"]["ink"] > told["fifth"]["ink"]
    )
    assert int(re.search(r"step (\d+)", told["played"]["label"])[1]) > 8


def test_a_report_of_a_kept_stream_shows_the_truth_only_to_the_curator(
    tailrace, configure, tmp_path
):
    configure(
        tmp_path,
        mechanism='kind = "SpatialStream"\nhorizon = 3\nprivacy = { kind = "PureDP", epsilon = 2 }\nunit = { kind = "Event" }',
        schema=None,
        box='low = [0, 0]\nhigh = [1, 1]\ncolumns = ["x", "y"]\ncells = 64',
    )
    rng = np.random.default_rng(1)
    rows = "".join(
        f"2026-01-0{day},{x:.3f},{y:.3f}\n" for day in (1, 2, 3) for x, y in rng.random((40, 2))
    )
    (tmp_path / "incoming" / "all.csv").write_text(f"day,x,y\n{rows}")
    tailrace("run", "stream.toml", cwd=tmp_path)
    tailrace("report", "stream.toml", cwd=tmp_path)
    assert "map-synthetic" in (tmp_path / "report.html").read_text()
    tailrace("report", "stream.toml", "--private", cwd=tmp_path)
    private = tmp_path / "ward.tail" / "private" / "PRIVATE-report.html"
    data = json.loads(
        re.search(r'<script id="map-data"[^>]*>(.*?)</script>', private.read_text(), re.S)[1]
    )
    assert [layer["name"] for layer in data["layers"]] == ["synthetic", "true"]
    assert private.stat().st_mode & 0o077 == 0
    tailrace("report", "ward.tail", "--private", cwd=tmp_path, code=3)


def test_a_report_of_a_histogram_is_made_of_its_folder_too(tailrace, configure, tmp_path):
    configure(tmp_path)
    (tmp_path / "incoming" / "all.csv").write_text("day,sex\n2026-01-01,f\n2026-01-02,m\n")
    tailrace("run", "stream.toml", cwd=tmp_path)
    tailrace("report", "ward.tail", "--to", "page.html", cwd=tmp_path)
    assert "The largest cells" in (tmp_path / "page.html").read_text()


def test_the_demo_leaves_alone_what_it_did_not_make(tailrace, configure, tmp_path):
    (tmp_path / "city.tail").mkdir()
    (tmp_path / "city.tail" / "mine.txt").write_text("mine")
    wrong = tailrace("demo", "--to", ".", cwd=tmp_path, code=3)
    assert (
        "did not make" in wrong.stderr
        and (tmp_path / "city.tail" / "mine.txt").read_text() == "mine"
    )


def test_a_report_overwrites_reports_only_and_tells_of_no_other_stream(
    tailrace, configure, tmp_path
):
    configure(tmp_path)
    configure(
        tmp_path, name="other.toml", stream='path = "other.tail"\npopulation = "another study"'
    )
    (tmp_path / "incoming" / "all.csv").write_text("day,sex\n2026-01-01,f\n")
    tailrace("run", "stream.toml", cwd=tmp_path)
    tailrace("run", "other.toml", cwd=tmp_path)
    before = (tmp_path / "incoming" / "all.csv").read_bytes()
    assert (
        "choose another name"
        in tailrace("report", "ward.tail", "--to", "incoming/all.csv", cwd=tmp_path, code=3).stderr
    )
    assert (tmp_path / "incoming" / "all.csv").read_bytes() == before
    for _ in range(2):
        tailrace("report", "stream.toml", "--to", "page.html", cwd=tmp_path)
    page = (tmp_path / "page.html").read_text()
    assert "another study" not in page and "ward.tail" in page
    public = tailrace(
        "report",
        "stream.toml",
        "--private",
        "--to",
        "ward.tail/releases/x.html",
        cwd=tmp_path,
        code=3,
    )
    assert (
        "private folder" in public.stderr
        and not (tmp_path / "ward.tail" / "releases" / "x.html").exists()
    )


@pytest.mark.parametrize("begin", [1, 5])
def test_a_stream_without_anything_to_show_yet_has_a_report(begin):
    from tailrace import Box, Event, PureDP, SpatialStream, Stream
    from tailrace.report.page import stream_report

    square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
    spatial = SpatialStream(
        domain=square, privacy=PureDP(epsilon=1), unit=Event(), horizon=90, begin=begin
    )
    with Stream(spatial) as stream:
        stream.push(None)
        assert "Whoever sees" in stream_report(stream, [])
