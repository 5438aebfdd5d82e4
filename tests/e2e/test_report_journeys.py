"""The report of journeys, as a person meets it: what it shows, what it does not, and how a browser
draws it.
"""

import base64
import json
import re

import numpy as np
import pytest
import shapely

from looking import INK, KEYS
from tailrace import Box, Event, Integer, PureDP, Region, Roads, Schema, SpatialStream
from tailrace.errors import ConfigError
from tailrace.metrics import Tracks
from tailrace.report import journeys
from tailrace.report.maps import Sheet
from tailrace.report.page import rendered

SQUARE = Box(low=(0, 0), high=(10, 5), columns=("x", "y"), cells=64)
STREETS = Roads(
    shapely.MultiLineString(
        [[(i, 0), (i, 5)] for i in range(11)] + [[(0, i), (10, i)] for i in range(6)]
    ),
    columns=("x", "y"),
    cells=64,
)
PARK = Region(
    shapely.Polygon([(0, 0), (10, 0), (10, 5), (0, 5)], [[(4, 2), (6, 2), (6, 3), (4, 3)]]),
    columns=("x", "y"),
    cells=64,
)
# Draws fewer, hides the roads and shows the ends; what the page then shows is left in the page for
# the test to read.
MOVES = (
    """<script>
const told = {}, slider = document.getElementById("many");
"""
    + INK
    + """const state = () => ({ label: document.getElementById("many-label").textContent,
  journeys: document.getElementById("count-synthetic").textContent, ink: ink("map-synthetic"), truth: ink("map-true") });
told.all = state();
const hour = document.getElementById("hour"); hour.value = 8; hour.dispatchEvent(new Event("input"));
told.eight = state(); told.hour = document.getElementById("hour-label").textContent;
hour.value = -1; hour.dispatchEvent(new Event("input"));
"""
    + KEYS
    + """document.getElementById("ground").click(); told.bare = state();
slider.value = 3; slider.dispatchEvent(new Event("input")); told.few = state();
document.getElementById("ends").click(); told.ends = state();
document.body.setAttribute("data-told", JSON.stringify(told));
</script>"""
)


def walks(number, seed, size=12):
    """Journeys along the streets, a block a step."""
    rng = np.random.default_rng(seed)
    places = [rng.integers((0, 0), (11, 6), (number, 2))]
    for _ in range(size - 1):
        step = rng.integers(-1, 2, (number, 1)) * np.eye(2, dtype=int)[rng.integers(0, 2, number)]
        places.append(np.clip(places[-1] + step, (0, 0), (10, 5)))
    x, y = np.stack(places, axis=1).reshape(-1, 2).T
    return Tracks(np.arange(number + 1) * size, x, y)


def report(domain, synthetic, truth=None, hours=None):
    promise = SpatialStream(
        domain=SQUARE, privacy=PureDP(epsilon=1), unit=Event(), horizon=1
    ).guarantee
    synthetic, truth = (
        None if one is None else journeys.Timed(one, hours) for one in (synthetic, truth)
    )
    return rendered(journeys.journeys_page(domain, synthetic, truth), promise, [])


def data_of(html):
    return json.loads(re.search(r'<script id="map-data"[^>]*>(.*?)</script>', html, re.S)[1])


def numbers(text):
    return np.frombuffer(base64.b64decode(text), "<u2")


def test_the_public_report_needs_no_network_and_shows_no_truth():
    html = report(STREETS, walks(40, 1))
    assert not re.findall(r"(?:src|href)\s*=|@import|url\(|https?://", html), (
        "nothing is loaded from elsewhere"
    )
    assert [layer["name"] for layer in data_of(html)["layers"]] == ["synthetic"]
    assert "PRIVATE" not in html and "Whoever sees everything" in html and "SE_JSD" not in html


def test_the_private_report_says_so_wherever_it_is_read():
    html = report(STREETS, walks(40, 1), walks(50, 2))
    assert (
        re.search(r"<title>PRIVATE", html)
        and re.search(r'class="lead">PRIVATE', html)
        and "true: PRIVATE" in html
    )
    assert [layer["drawn"] for layer in data_of(html)["layers"]] == [40, 50]
    measured = dict(re.findall(r"<td>[^<]*\(([^)<]+)\)</td><td>([^<]+)</td>", html))
    assert len(measured) == 12 and 0 < float(measured["SE_JSD"]) <= 0.833
    copy = dict(
        re.findall(
            r"<td>[^<]*\(([^)<]+)\)</td><td>([^<]+)</td>",
            report(STREETS, walks(50, 2), walks(50, 2)),
        )
    )
    assert copy["SE_JSD"] == copy["QE"] == "0.000" and copy["Kendall&#x27;s tau"] == "1.000"


def test_a_map_draws_some_of_many_and_a_page_stays_small():
    many = walks(5_000, 3)
    layer = data_of(report(SQUARE, many))["layers"][0]
    assert (
        layer["drawn"] == journeys.JOURNEYS
        and max(layer["lines"]["owners"]) == journeys.JOURNEYS - 1
    )
    rng = np.random.default_rng(4)
    long = Tracks(np.arange(41) * 20_000, *rng.random((2, 800_000)))
    layer = data_of(html := report(SQUARE, long))["layers"][0]
    assert layer["drawn"] == journeys.POINTS // 20_000 and len(html) < 1_500_000
    one = Tracks([0, 400_000], *rng.random((2, 400_000)))
    assert len(journeys.some(one)) == 1, "one that is too long alone is drawn all the same"


def test_a_line_keeps_its_corners_and_breaks_outside_of_the_map():
    tracks = Tracks([0, 5, 7], [0, 5, 5, 5, 10, 1, 1], [0, 5, 5, 99, 5, 1, 1])
    lines = journeys.drawn(tracks, Sheet.of(SQUARE))
    assert lines["sizes"] == [2, 1, 1] and lines["owners"] == [0, 0, 1], (
        "points that repeat are drawn once"
    )
    assert numbers(lines["x"]).tolist() == [0, 32768, 65535, 6554] and numbers(lines["y"]).tolist()[
        :2
    ] == [0, 65535]


@pytest.mark.parametrize(
    ("domain", "lines", "name"), [(STREETS, 17, "roads"), (PARK, 2, "borders"), (SQUARE, 0, None)]
)
def test_below_the_journeys_lie_the_roads_or_borders(domain, lines, name):
    html = report(domain, walks(5, 5))
    assert len(data_of(html)["ground"]["sizes"]) == lines
    assert f"checked> {name}</label>" in html if name else 'id="ground"' not in html


def test_a_release_of_nothing_has_a_report():
    nothing = Tracks([0], [], [])
    assert data_of(report(SQUARE, nothing))["layers"][0]["drawn"] == 0
    assert "PRIVATE" in report(SQUARE, nothing, walks(9, 6)) and "PRIVATE" in report(
        SQUARE, walks(9, 6), nothing
    )


def test_degrees_are_drawn_as_on_the_ground():
    beijing = Box(low=(116.15, 39.75), high=(116.60, 40.10), columns=("lon", "lat"))
    shape = 1 / float(re.search(r"aspect-ratio: ([\d.]+)", report(beijing, walks(1, 7)))[1])
    assert shape == pytest.approx(0.35 / (0.45 * 0.767), abs=0.002)


def test_a_table_is_no_map():
    with pytest.raises(ConfigError, match="two dimensions"):
        report(Schema(age=Integer(0, 9)), walks(1, 8))


def test_a_browser_draws_fewer_hides_the_roads_and_shows_ends(browser, tmp_path):
    hours = np.arange(20) % 4 + 6
    page = report(STREETS, walks(20, 9), walks(10, 10), hours=hours)
    told = browser(page, MOVES, tmp_path, width=500)
    keys = told["keys"]
    assert keys["zooms"] and keys["moves"] and keys["returns"] and told["wide"] == 0
    maps = ["map-synthetic", "map-true"]
    wanted = ["many", "hour", "ends", "ground", "closer", "farther", "all", *maps, "summary"]
    assert told["tabs"] == wanted
    assert told["hour"] == "8:00 to 8:59" and told["eight"]["journeys"] == "5"
    assert told["all"]["label"] == "20 journeys" and told["few"]["label"] == "3 journeys"
    assert told["few"]["journeys"] == "3" and told["all"]["truth"] > 0
    assert told["all"]["ink"] > told["bare"]["ink"] > 2 * told["few"]["ink"] > 0
    assert told["ends"]["ink"] > told["few"]["ink"]
