"""`tailrace report stream.toml` for every mechanism that a stream.toml can name."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from processes import call
from samples import FOLDER
from tailrace import Stream
from tailrace.config import parts

EVENT = 'privacy = { kind = "PureDP", epsilon = 2 }\nunit = { kind = "Event" }'
PERSON = 'privacy = { kind = "ZCDP", rho = 0.5 }\nunit = { kind = "User", column = "id" }'
PANEL = f'{PERSON}\nneighbours = {{ kind = "AddRemove" }}\nhorizon = 6'
# So much that journeys are drawn of a few.
JOURNEY = f'{EVENT.replace("2", "9000")}\ntrajectory = "trip"\norder = "minute"'
BOX = 'low = [0, 0]\nhigh = [1, 1]\ncolumns = ["x", "y"]\ncells = 16'
POOR = 'poor = { kind = "Integer", low = 0, high = 1 }'
TABLE = (
    'kind = { kind = "Categorical", values = ["a", "<b>"] }\n'
    'size = { kind = "Integer", low = 0, high = 19 }\n'
    'paid = { kind = "Real", edges = [0, 0.5, 1], outside = "other" }'
)
# The tables of each mechanism, its rows, and words of its page alone.
STREAMS = {
    "HistogramStream": (f"{EVENT}\nhorizon = 6", {"schema": TABLE}, "table", "The largest cells"),
    "SnapshotHistogram": (
        'horizon = 6\nprivacy = { kind = "PureDP", epsilon = 4 }\nunit = { kind = "User", column = '
        '"id", records = 1 }',
        {"schema": TABLE},
        "table",
        "Histograms over time",
    ),
    "TabularStream": (f"{EVENT}\nhorizon = 6", {"schema": TABLE}, "table", "strongest pairs"),
    "TabularSteps": (f"{EVENT}\nhorizon = 6", {"schema": TABLE}, "table", "strongest pairs"),
    "PanelWindow": (f"{PANEL}\nwindow = 3", {"schema": POOR}, "panel", "in the last 3 steps"),
    "PanelColumns": (
        f"{PANEL}\nwindow = 2",
        {"schema": f'{POOR}\nill = {{ kind = "Integer", low = 0, high = 1 }}'},
        "columns",
        "Together at step 6",
    ),
    "PanelCumulative": (PANEL, {"schema": POOR}, "panel", "How often in the first 6 steps"),
    "SpatialStream": (f"{EVENT}\nhorizon = 6", {"box": BOX}, "points", "map-synthetic"),
    "PrivTreeStream": (f"{EVENT}\nhorizon = 6", {"box": BOX}, "points", "map-synthetic"),
    "Trajectories": (JOURNEY, {"box": BOX, "calendar": None}, "journeys", "map-synthetic"),
    "JourneyStream": (
        f'{JOURNEY}\nhorizon = 6\ntiming = {{ kind = "DayClock", start = 0, end = 24 }}',
        {"box": BOX},
        "trips",
        "By hour of the day",
    ),
    "PrivTreeTrajectories": (JOURNEY, {"box": BOX, "calendar": None}, "journeys", "map-synthetic"),
}


def rows(kind, steps=6, people=300):
    """Lines of a CSV file with a head; the larger a table's size, the more often it is paid."""
    rng, kinds = np.random.default_rng(7), ("a", "<b>")
    if kind == "journeys":
        yield "trip,minute,x,y"
        for trip, (x, y) in enumerate(rng.random((60, 2))):
            yield from (f"{trip},{minute},{(x + minute / 20) % 1},{y}" for minute in range(6))
        return
    yield {
        "table": "day,id,kind,size,paid",
        "panel": "day,id,poor",
        "columns": "day,id,poor,ill",
        "points": "day,x,y",
        "trips": "day,trip,minute,x,y",
    }[kind]
    for day in range(1, steps + 1):
        for who in range(people):
            size = int(rng.integers(0, 20))
            values = {
                "table": f"{who},{kinds[size >= 8]},{size},{size / 40 + rng.random() / 2}",
                "panel": f"{who},{int((who + day) % 4 == 0)}",
                "columns": f"{who},{int((who + day) % 4 == 0)},{size % 2}",
                "points": "{:.3f},{:.3f}".format(*rng.beta(2, 5, 2)),
                "trips": f"{who // 6},{who % 6 + size},{size / 20},{who % 6 / 10}",
            }
            yield f"2026-01-0{day},{values[kind]}"


@pytest.fixture
def reported(configure, tmp_path, monkeypatch):
    """Run the stream of a mechanism and return its page."""
    monkeypatch.chdir(tmp_path)

    def report(name, *options, code=0):
        mechanism, tables, kind, _ = STREAMS[name]
        source = FOLDER + ("" if kind == "journeys" else '\ntime = "day"')
        tables = {"schema": None, "source": source, **tables}
        configure(tmp_path, mechanism=f'kind = "{name}"\n{mechanism}', **tables)
        (tmp_path / "incoming" / "all.csv").write_text("\n".join(rows(kind)) + "\n")
        call("run", "stream.toml")
        done = call("report", "stream.toml", *options, code=code)
        return done.output if code else (tmp_path / "report.html").read_text()

    return report


class Balanced(HTMLParser):
    """Every element that is opened is closed, in order."""

    VOID = frozenset({"meta", "input", "br"})

    def __init__(self, page):
        super().__init__()
        self.open = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        pass


def test_every_mechanism_of_a_configuration_is_reported_here():
    assert set(STREAMS) == set(parts._mechanisms())


@pytest.mark.parametrize("name", STREAMS)
def test_a_mechanism_has_its_page(reported, name, tmp_path):
    page = reported(name)
    words = STREAMS[name][-1]
    assert words in page and "Whoever sees" in page and "Public: made of noisy counts only." in page
    assert "nan" not in page.lower().split("<body>")[1].split("<script")[0]
    assert not re.findall(r"(?:src|href)\s*=|@import|url\(", page), "nothing comes from elsewhere"
    assert set(re.findall(r"https?://[^\"\s]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert "prefers-color-scheme: dark" in page and "width=device-width" in page
    Balanced(page)
    assert "<h1>ward: " in page, "the title names the stream"
    for figure in re.findall(r"<figure>.*?</figure>", page, re.S):
        assert "<figcaption>" in figure and "<table" in figure, "a sentence and a table each"
    call("report", "stream.toml", "--private")
    (private,) = tmp_path.glob("*.tail/private/PRIVATE-report.html")
    shown = private.read_text()
    assert "<title>PRIVATE: ward" in shown and "true" in shown and "How far" in shown
    assert words in shown and "nan" not in shown.lower().split("<body>")[1].split("<script")[0]
    Balanced(shown)
    with Stream.open(next(tmp_path.glob("*.tail"))) as stream:
        view = stream.view(stream.step)
    assert re.fullmatch(r"<view: [^\n]{10,150}>", repr(view)) and "array(" not in repr(view)
    assert view._repr_html_().startswith("<table><tr><th>")
