"""Maps have the shape of the ground, in the report of places as in that of journeys."""

import json
import re

import numpy as np
import polars as pl
import pytest

import tailrace as tr
from tailrace.metrics import Tracks
from tailrace.report.journeys import Timed, journeys_page
from tailrace.report.maps import Sheet
from tailrace.report.page import rendered, stream_report
from tailrace.report.truth import true_history

OSLO = tr.Box(
    low=(10.5, 59.8), high=(11.1, 60.0), columns=("lon", "lat"), cells=8
)  # 33.5 km by 22.3 km


@pytest.mark.parametrize(
    ("low", "high", "columns", "ratio"),
    [
        ((10.5, 59.8), (11.1, 60.0), ("lon", "lat"), 0.2 / (0.6 * np.cos(np.radians(59.9)))),
        (
            (10.5, -60.0),
            (11.1, -59.8),
            ("pickup_longitude", "pickup_latitude"),
            0.2 / (0.6 * np.cos(np.radians(59.9))),
        ),
        ((59.8, 10.5), (60.0, 10.7), ("Lat", "Lng"), 1 / np.cos(np.radians(59.9))),
        ((0, 0), (12, 9), ("east", "north"), 0.75),
        ((0, 0), (1, 1), ("x", "y"), 1.0),
        ((-180, -90), (180, 90), ("lon", "lat"), 0.5),
        ((0, 0), (1, 100), ("x", "y"), 100.0),
        ((0, 0), (100, 1), ("x", "y"), 0.01),
    ],
)
def test_the_shape_of_a_map(low, high, columns, ratio):
    found = Sheet.of(tr.Box(low=low, high=high, columns=columns))
    assert found.shape == pytest.approx(ratio, abs=1e-6)


def test_longitudes_go_to_the_right_whatever_their_place():
    box = tr.Box(low=(59.8, 10.5), high=(60.0, 10.7), columns=("lat", "lon"))
    sheet = Sheet.of(box)
    assert sheet.columns == ("lon", "lat") and sheet.low == (10.5, 59.8)
    assert sheet.placed(np.array([[60.0, 10.5]])).tolist() == [[0, 65535]], "top left"
    assert sheet.metres == pytest.approx(0.2 * 111_320 * np.cos(np.radians(59.9)))
    table = sheet.by_area(lambda low, high: (0.0, f"{low[0]:.2f}-{low[1]:.2f}"))
    assert re.findall(r"<td[^>]*>([^<]*)</td>", table)[:2] == ["59.95-10.50", "59.95-10.55"]


def ratios(page):
    return [float(wide) ** -1 for wide in re.findall(r'style="aspect-ratio: ([\d.]+)"', page)]


def test_places_and_journeys_have_maps_of_one_shape():
    mechanism = tr.SpatialStream(
        domain=OSLO, privacy=tr.PureDP(epsilon=1), unit=tr.Event(), horizon=2
    )
    stream, place = tr.Stream(mechanism), pl.DataFrame({"lon": [10.8], "lat": [59.9]})
    stream.push(place)
    places = stream_report(stream, [], true_history([(place, None)], mechanism))
    track = Tracks(np.array([0, 2]), np.array([10.8, 10.9]), np.array([59.9, 59.95]))
    journeys = rendered(journeys_page(OSLO, Timed(track, None)), stream.guarantee, [])
    assert len(ratios(places)) == 2 and len(ratios(journeys)) == 1
    shape = Sheet.of(OSLO).shape
    assert [*ratios(places), *ratios(journeys)] == pytest.approx([shape] * 3, abs=0.005)
    data = json.loads(re.search(r'<script id="map-data"[^>]*>(.*?)</script>', places, re.S)[1])
    assert data["shape"] == shape and data["metres"] == pytest.approx(33_500, rel=0.01)
