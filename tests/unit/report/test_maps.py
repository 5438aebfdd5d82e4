"""Maps have the shape of the ground, in the report of places as in that of journeys."""

import re

import numpy as np
import polars as pl
import pytest

import tailrace as tr
from tailrace.metrics import Tracks
from tailrace.report.journeys import journeys_page
from tailrace.report.maps import shape
from tailrace.report.page import rendered, stream_report
from tailrace.report.places import lives

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
        ((59.8, 10.5), (60.0, 10.7), ("Lat", "Lng"), np.cos(np.radians(59.9))),
        ((0, 0), (12, 9), ("east", "north"), 0.75),
        ((0, 0), (1, 1), ("x", "y"), 1.0),
        ((-180, -90), (180, 90), ("lon", "lat"), 0.5),
        ((0, 0), (1, 100), ("x", "y"), 1.6),
        ((0, 0), (100, 1), ("x", "y"), 0.4),
        ((0, 89.9), (1, 90), ("lon", "lat"), 1.6),
    ],
)
def test_the_shape_of_a_map(low, high, columns, ratio):
    assert shape(tr.Box(low=low, high=high, columns=columns)) == pytest.approx(ratio, abs=1e-6)


def ratios(page):
    return [
        int(high) / int(wide)
        for wide, high in re.findall(r'<canvas id="[^"]*" width="(\d+)" height="(\d+)"', page)
    ]


def test_places_and_journeys_have_maps_of_one_shape():
    stream = tr.Stream(
        tr.SpatialStream(domain=OSLO, privacy=tr.PureDP(epsilon=1), unit=tr.Event(), horizon=2)
    )
    place = np.array([[10.8, 59.9]])
    stream.push(pl.DataFrame({"lon": place[:, 0], "lat": place[:, 1]}))
    places = stream_report(stream, [], lives([(place, place[:0])]))
    track = Tracks(np.array([0, 2]), np.array([10.8, 10.9]), np.array([59.9, 59.95]))
    journeys = rendered(journeys_page(OSLO, track), stream.guarantee, [])
    assert len(ratios(places)) == 2 and len(ratios(journeys)) == 1
    assert [*ratios(places), *ratios(journeys)] == pytest.approx([shape(OSLO)] * 3, abs=0.005)
