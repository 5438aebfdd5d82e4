"""Pages are made of released numbers, by the type of a stream's view."""

import dataclasses
import re

import numpy as np
import polars as pl
import pytest

import tailrace as tr
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.panel.queries import AtLeast, Pattern
from tailrace.report.chart import Line, heat_map, line_chart
from tailrace.report.page import Page, bars, page_of, stream_report
from tailrace.report.places import lives

ONE = {"privacy": tr.PureDP(epsilon=500), "unit": tr.Event(), "horizon": 4}


def streamed(mechanism, *frames):
    stream = tr.Stream(mechanism, noise=tr.Noise.insecure(1))
    for frame in frames:
        stream.push(frame)
    return stream


def body(page):
    return page.split("<body>")[1]


class NewView:
    """A view of a plug-in."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewMechanism(tr.HistogramStream):
    """A histogram whose view is another."""

    def view(self, public):
        return None if super().view(public) is None else NewView()

    def sample(self, view, previous, rng):
        return super().sample(None, previous, rng)


def new_stream():
    schema = tr.Schema(sex=tr.Categorical(["f", "m"]))
    return streamed(NewMechanism(domain=schema, **ONE), pl.DataFrame({"sex": ["f"]}))


def test_a_plug_in_brings_its_page_by_registering_one_function():
    assert "Rows released" in stream_report(new_stream(), []), "without one, its rows are shown"
    try:

        @page_of.register(NewView)
        def _(view, stream, truth=None):
            return Page(title="Mine", sections=[("Step", f"<p>{stream.step}</p>")])

        page = body(stream_report(new_stream(), []))
        assert "<h1>Mine</h1>" in page and "<p>1</p>" in page
        assert page.index("The promise") < page.index("<h2>Step</h2>") < page.index("The ledger")
    finally:
        # singledispatch has no other way to forget.
        page_of.register(NewView, page_of.dispatch(object))


def test_a_page_that_does_not_show_the_truth_is_not_a_private_one():
    with pytest.raises(tr.ConfigError, match="two dimensions"):
        stream_report(new_stream(), [], lives([]))


def test_nothing_is_reported_before_the_first_step():
    with (
        tr.Stream(new_stream().mechanism) as stream,
        pytest.raises(tr.ConfigError, match="release"),
    ):
        stream_report(stream, [])


def test_a_histogram_shows_its_largest_cells_and_columns():
    schema = tr.Schema(
        sex=tr.Categorical(["f", "<m>"], outside="other"),
        age=tr.Integer(0, 99),
        paid=tr.Real(edges=[0, 1, 2]),
    )
    rows = pl.DataFrame(
        {"sex": ["f"] * 7 + ["<m>"] * 2 + ["x"] * 4, "age": [30] * 13, "paid": [1.5] * 13}
    )
    page = body(stream_report(streamed(tr.HistogramStream(domain=schema, **ONE), rows), []))
    first, second, third = re.findall(r"<tr><td>([^<]*)</td><td>(\d+)", page)[:3]
    assert first == ("f, 30, 1 to 2", "7") and third == ("&lt;m&gt;, 30, 1 to 2", "2")
    assert second == ("(outside), 30, 1 to 2", "4"), "values outside are a cell too"
    assert ("26 to 38", "13") in re.findall(r"<tr><td>([^<]*)</td><td>(\d+)", page)
    assert "<m>" not in page


def test_a_table_shows_its_strongest_pair_first():
    schema = tr.Schema(**{name: tr.Categorical(["0", "1"]) for name in "abc"})
    rng = np.random.default_rng(3)
    a, c = rng.integers(0, 2, (2, 2000)).astype(str)
    made = tr.TabularStream(domain=schema, **ONE | {"privacy": tr.PureDP(epsilon=20)})
    stream = streamed(made, *[pl.DataFrame({"a": a, "b": a, "c": c})] * 2)
    page = body(stream_report(stream, []))
    pair, percent = re.search(r"<h3>(\w and \w): ([\d.]+)", page).groups()
    assert pair == "a and b" and float(percent) == pytest.approx(50, abs=1), (
        "half would have to move"
    )
    shown = re.search(r"<td>1 and 1</td><td>(\d+)[^<]*</td><td>([\d,]+)</td>", page)
    found = stream.release(2).view.marginal("a", "b").values
    assert int(shown[1]) == pytest.approx(found[1, 1], abs=1)
    assert int(shown[2].replace(",", "")) == pytest.approx(
        found[1].sum() ** 2 / found.sum(), rel=0.1
    )


def test_a_table_of_independent_columns_has_no_pair_to_show():
    schema = tr.Schema(**{name: tr.Categorical(["0", "1"]) for name in "ab"})
    every = pl.DataFrame({"a": ["0", "0", "1", "1"] * 100, "b": ["0", "1"] * 200})
    page = stream_report(streamed(tr.TabularStream(domain=schema, **ONE), every), [])
    assert "No pair of columns stands out" in page


PANEL = {
    "domain": tr.Schema(poor=tr.Categorical(["no", "yes"])),
    "unit": tr.User(column="id"),
    "horizon": 4,
    "privacy": tr.ZCDP(rho=50),
    "neighbours": tr.AddRemove,
}
MONTHS = [
    pl.DataFrame(
        {
            "id": range(100),
            "poor": ["yes" if (one + month) % 4 == 0 else "no" for one in range(100)],
        }
    )
    for month in range(4)
]


def shares(page):
    return {
        name: float(value) for name, value in re.findall(r"<td>([^<]+)</td><td>([\d.]+) ±", page)
    }


def test_a_panel_of_windows_shows_the_shares_of_its_estimates():
    stream = streamed(tr.PanelWindow(window=2, **PANEL), *MONTHS)
    page, view = body(stream_report(stream, [])), stream.release(4).view
    found = view.proportion(AtLeast(times=1, of=2, value="yes"))
    assert shares(page)["poor = yes"] == pytest.approx(100 * found.value, abs=0.06)
    assert page.count("<polygon") == page.count("<polyline") == 3, (
        "a line and a band a value, and of those who report"
    )
    assert "Who is there" in page
    assert view.proportion(Pattern("yes")).value == pytest.approx(0.25, abs=0.05)


def test_a_panel_before_its_first_release_has_a_page():
    stream = streamed(tr.PanelWindow(window=3, **PANEL), *MONTHS[:1])
    assert "Rows released" in stream_report(stream, [])
    stream.push(MONTHS[1])
    stream.push(MONTHS[2])
    assert "At least once in the last 3 steps" in stream_report(stream, [])


def test_a_cumulative_panel_shows_how_often_so_far():
    stream = streamed(tr.PanelCumulative(**PANEL), *MONTHS)
    page, view = body(stream_report(stream, [])), stream.release(4).view
    found = {
        f"{b} or more": 100 * view.proportion(AtLeast(times=b, of=4)).value for b in range(1, 5)
    }
    told = shares(page)
    assert told["1 or more"] > 95
    for name, share in found.items():
        if share > 0:
            assert told[name] == pytest.approx(share, abs=0.06)


def test_snapshots_show_every_column_over_the_steps_and_when_they_were_measured():
    person = {**ONE, "unit": tr.User(column="id", records=1), "horizon": 80}
    schema = tr.Schema(age=tr.Integer(0, 99), sex=tr.Categorical(["f", "m"]))
    rows = pl.DataFrame({"id": range(50), "age": range(50), "sex": ["f", "m"] * 25})
    stream = streamed(tr.SnapshotHistogram(domain=schema, **person), *[rows] * 80)
    page = body(stream_report(stream, []))
    measured = stream.release(80).view.measured
    assert f"measured at step {measured}; the 60 steps shown" in page, "of many, some are shown"
    assert page.count(">step</text>") == 3 and len(page) < 200_000


@pytest.mark.parametrize("dimensions", [1, 3])
def test_places_in_other_dimensions_have_a_page_without_a_map(dimensions):
    names = ("x", "y", "z")[:dimensions]
    box = tr.Box(low=(0,) * dimensions, high=(1,) * dimensions, columns=names, cells=8)
    points = pl.DataFrame({name: [0.1, 0.2, 0.7] for name in names})
    stream = streamed(tr.SpatialStream(domain=box, **ONE), points)
    page = stream_report(stream, [])
    assert "Rows released" in page and "How far off a count is" in page and "<canvas" not in page
    true = lives([(points.to_numpy(), points.to_numpy()[:0])])
    with pytest.raises(tr.ConfigError, match="two dimensions"):
        stream_report(stream, [], true)


def test_a_band_reaches_two_errors_to_each_side_inside_the_axes():
    line = Line.of("n", np.arange(1, 4), [Estimate(10, 1), Estimate(1, 5), Estimate(8, np.inf)])
    chart = line_chart([line], title="t", x_label="x", y_label="y")
    points = re.search(r'<polygon points="([^"]+)"', chart)[1].split()
    heights = [float(point.split(",")[1]) for point in points]
    axis = float(re.search(r'class="axis" d="M[\d.]+ ([\d.]+)', chart)[1])
    assert len(points) == 4 and max(heights) == axis, "no point where the error is not known"
    bottom, top = (float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="end">(?:0|10)<', chart))
    scale = (bottom - top) / 10
    assert heights[0] - heights[3] == pytest.approx(-4 * scale, abs=0.3)


def test_equal_neighbours_of_a_heat_map_are_one_rectangle():
    chart = heat_map(["a", "b"], np.arange(1, 5), np.array([[1, 1, 2, 2], [3, 3, 3, 3]]), title="t")
    assert chart.count("fill-opacity") == 3 and 'fill-opacity="1.00"' in chart


def test_bars_take_errors_that_are_not_known_and_escape_names():
    made = bars(("a", "b"), [("<x>", Estimate(1, np.inf)), ("y", Estimate(-2, 1))])
    assert "&lt;x&gt;" in made and "<x>" not in made and made.count("<rect") == 2


def test_a_line_of_one_point_is_drawn():
    line = Line.of("n", np.arange(1, 2), [Estimate(10, 1)])
    chart = line_chart([line], title="t", x_label="x", y_label="y")
    first, last = re.search(r'<polyline points="([^"]+)"', chart)[1].split()
    assert first == last and 'stroke-linecap="round"' in chart
