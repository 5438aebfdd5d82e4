"""Pages are made of released numbers, by the type of a stream's view."""

import base64
import dataclasses
import json
import re

import numpy as np
import polars as pl
import pytest

import tailrace as tr
from tailrace.mechanisms.base import Estimate
from tailrace.mechanisms.panel.queries import AtLeast, Pattern, Spell
from tailrace.report.chart import COLOURS, Line, heat_map, line_chart
from tailrace.report.page import DARK, LIGHT, TONES, Page, bars, page_of, stream_report
from tailrace.report.truth import true_history

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
    stream = new_stream()
    with pytest.raises(tr.ConfigError, match="no private report"):
        stream_report(stream, [], true_history([], stream.mechanism))


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
    page = page.split("The largest cells")[1]
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
    shown = re.search(r"<td>1 and 1</td><td>([\d,]+)[^<]*</td><td>([\d,]+)</td>", page)
    found = stream.release(2).view.marginal("a", "b").values
    assert int(shown[1].replace(",", "")) == pytest.approx(found[1, 1], abs=1)
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
    assert page.count("<polygon") == page.count("<polyline") == 3 + 2 * 2, (
        "a line and a band a value, of those who report, and of each value's spells"
    )
    spells = page.split("How long it lasts")[1]
    held = view.proportion(Spell(times=2, of=2, value="no"))
    shown = re.search(r"<td>step 4</td><td>[^<]*</td><td>([\d.]+) ±", spells)
    assert float(shown[1]) == pytest.approx(100 * held.value, abs=0.06)
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


def test_where_no_journeys_are_drawn_the_page_has_counts_and_no_empty_map():
    square = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)
    few = {"privacy": tr.PureDP(epsilon=1), "unit": tr.Event()}
    walks = tr.Trajectories(domain=square, trajectory="trip", order="minute", **few)
    rows = {"trip": np.repeat(np.arange(400), 2), "minute": [0, 5] * 400}
    rows |= {"x": [0.1, 0.2] * 400, "y": [0.1, 0.1] * 400}
    made = tr.Stream(walks, noise=tr.Noise.insecure(1))
    made.push(pl.DataFrame(rows))
    page = body(stream_report(made, []))
    assert "No journeys are drawn" in page and "<canvas" not in page
    first = re.search(r'scope="row">0.00 to 0.25</th><td[^>]*>([\d,]+) ± (\d+)', page)
    assert abs(int(first[1]) - 400) < 5 * int(first[2]), "the mean of those that begin and end"
    assert "<canvas" in stream_report(made, [], true_history([(pl.DataFrame(rows), None)], walks))


def test_the_axis_of_steps_tells_of_the_calendar(tmp_path):
    counts = tr.HistogramStream(domain=tr.Schema(sex=tr.Categorical(["f", "m"])), **ONE)
    kept = {"population": "w", "calendar": tr.Calendar(start="2026-01-31", period="1 day")}
    with tr.Stream.create(tmp_path / "w.tail", counts, **kept) as stream:
        stream.push(None)
        assert ">step</text>" in stream_report(stream, [])
        stream.push(None)
        assert ">step (1: 2026-01-31, 2: 2026-02-01)</text>" in stream_report(stream, [])


@pytest.mark.parametrize("dimensions", [1, 3])
def test_places_in_other_dimensions_have_a_page_without_a_map(dimensions):
    names = ("x", "y", "z")[:dimensions]
    box = tr.Box(low=(0,) * dimensions, high=(1,) * dimensions, columns=names, cells=8)
    points = pl.DataFrame({name: [0.1, 0.2, 0.7] for name in names})
    stream = streamed(tr.SpatialStream(domain=box, **ONE), points)
    page = stream_report(stream, [])
    assert "Rows released" in page and "How far off a count is" in page and "<canvas" not in page
    true = true_history([(points, None)], stream.mechanism)
    private = stream_report(stream, [], true)
    assert "PRIVATE" in private and "measured" in private


def test_places_with_attributes_have_a_map_for_each_value():
    box = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
    schema = tr.Schema(
        kind=tr.Categorical(["fire", "<i>"], outside="other"), size=tr.Real(edges=[0, 1, 5])
    )
    rng, many = np.random.default_rng(1), 200
    rows = pl.DataFrame(
        {
            **dict(zip("xy", rng.random((2, many)), strict=True)),
            "kind": rng.choice(["fire", "<i>", "else"], many),
            "size": rng.uniform(0, 5, many),
        }
    )
    mechanism = tr.SpatialStream(domain=tr.Places(box, schema), **ONE)
    stream = streamed(mechanism, rows)
    page = stream_report(stream, [], true_history([(rows, None)], mechanism))
    assert re.findall(r'<select id="(value-\d)">', page) == ["value-0", "value-1"]
    assert '<option value="1">&lt;i&gt;</option><option value="2">(outside)</option>' in page
    for layer, there in (("synthetic", len(stream.history().born)), ("true", many)):
        text = re.search(rf'<script id="points-{layer}"[^>]*>(.*?)</script>', page)[1]
        packed = np.frombuffer(base64.b64decode(text), "<u2").reshape(5, there)
        assert set(packed[3]) == {0, 1, 2} and set(packed[4]) == {0, 1}
    data = json.loads(re.search(r'<script id="map-data"[^>]*>(.*?)</script>', page, re.S)[1])
    boxes, codes = (base64.b64decode(data["partitions"][-1][name]) for name in ("boxes", "codes"))
    assert data["attributes"] == 2 and len(boxes) == len(codes)
    section = page.split("By kind, at step 1")[1].split("</table>")[0]
    told = re.findall(
        r"<th scope=\"row\">(.*?)</th><td[^>]*>([\d.]+) ± .*?\(true: (\d+)\)", section
    )
    true = {kind: (rows["kind"] == kind).sum() for kind in ("fire", "<i>")}
    assert [(name, int(real)) for name, _, real in told] == [
        ("fire", true["fire"]),
        ("&lt;i&gt;", true["<i>"]),
    ]
    assert all(abs(float(shown) - int(real)) < 10 for _, shown, real in told)


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
    values, marks = np.array([[1, 1, 2, 2], [3, 3, 3, 3]]), np.array([True, False, True, False])
    chart = heat_map(["a", "b"], np.arange(1, 5), values, title="t", marks=marks)
    assert chart.count("fill-opacity") == 3 and 'fill-opacity="1.00"' in chart
    assert chart.count("<circle") == 2, "a dot below each step that was measured"


def test_bars_take_errors_that_are_not_known_and_escape_names():
    made = bars(("a", "b"), [("<x>", Estimate(1, np.inf)), ("y", Estimate(-2, 1))])
    assert "&lt;x&gt;" in made and "<x>" not in made and made.count("<rect") == 2


def test_a_line_of_one_point_is_drawn():
    line = Line.of("n", np.arange(1, 2), [Estimate(10, 1)])
    chart = line_chart([line], title="t", x_label="x", y_label="y")
    first, last = re.search(r'<polyline points="([^"]+)"', chart)[1].split()
    assert first == last and 'stroke-linecap="round"' in chart


def contrast(*colours):
    """The ratio of WCAG 2 between two colours."""

    def light(colour):
        parts = np.array(colour) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dark, bright = sorted(map(light, colours))
    return (bright + 0.05) / (dark + 0.05)


def rgb(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * one for one in colour[1:])
    return [int(digits[place : place + 2], 16) for place in (0, 2, 4)]


@pytest.mark.parametrize("tones", [LIGHT, DARK])
def test_all_words_have_the_contrast_of_wcag_aa(tones):
    series = [f"c{number}" for number in range(len(COLOURS))]
    named = dict(zip((*TONES, *series), map(rgb, tones), strict=True))
    pairs = [("ink", one) for one in ("paper", "back", "soft", "head")]
    pairs += [("quiet", one) for one in ("paper", "back")]
    pairs += [(one, "paper") for one in series]
    for words, ground in pairs:
        assert contrast(named[words], named[ground]) >= 4.5, (words, ground)
    shaded = 0.7 * np.array(named["paper"]) + 0.3 * np.array(named["c0"])
    assert contrast(named["ink"], shaded) >= 4.5
    assert contrast(named["quiet"], named["back"]) >= 3, "borders of buttons"


def test_the_title_names_the_stream(tmp_path):
    schema = tr.Schema(sex=tr.Categorical(["f", "m"]))
    mechanism = tr.HistogramStream(domain=schema, **ONE)
    with tr.Stream.create(tmp_path / "my <ward>.tail", mechanism, population="p") as stream:
        stream.push(pl.DataFrame({"sex": ["f"]}))
        page = stream_report(stream, [])
    assert "<h1>my &lt;ward&gt;: a histogram, step by step</h1>" in page


def test_estimates_are_told_against_the_last_release_and_the_first():
    schema = tr.Schema(sex=tr.Categorical(["f", "m"]), age=tr.Integer(0, 9))
    made = tr.HistogramStream(domain=schema, **ONE)
    steps = [pl.DataFrame({"sex": ["f"] * many, "age": [3] * many}) for many in (200, 300, 400)]
    page = stream_report(streamed(made, *steps), [])
    cells = page.split("The largest cells")[1]
    assert re.findall(r"since step \d", cells)[:2] == ["since step 2", "since step 1"]
    moved = re.search(r"<td>f, 3</td>.*?</svg></td><td>([^<]*)</td><td>([^<]*)</td>", cells)
    assert [one.partition(" ")[0] for one in moved.groups()] == ["+400", "+700"]
    once = stream_report(streamed(made, steps[0]), [])
    assert "since step" not in once


def test_a_curator_sees_the_true_numbers_of_every_kind():
    schema = tr.Schema(sex=tr.Categorical(["f", "m"]))
    rows = [pl.DataFrame({"sex": ["f"] * 40 + ["m"] * 25}), pl.DataFrame({"sex": ["m"] * 20})]
    made = tr.HistogramStream(domain=schema, **ONE)
    stream = tr.Stream(made, noise=tr.Noise.insecure(1))
    stream.push(rows[0])
    stream.push(None, deletes=rows[1])
    true = true_history([(rows[0], None), (None, rows[1])], made)
    assert true.rows_at(np.array([1, 2])).tolist() == [65, 45]
    page = body(stream_report(stream, [], true))
    assert re.search(r"<td>m</td><td>[^<]*</td><td>5</td>", page) and "total variation" in page
    panel = tr.PanelWindow(window=2, **PANEL)
    stream = streamed(panel, *MONTHS)
    true = true_history([(month, None) for month in MONTHS], panel)
    page = body(stream_report(stream, [], true))
    assert re.search(r"<td>poor = yes</td><td>[^<]*</td><td>50.0 %</td>", page), "once in two steps"
    assert "true: poor = yes" in page and 'stroke-dasharray="5 4"' in page


def test_a_deletion_ends_the_oldest_equal_row_and_none_that_never_came():
    mechanism = new_stream().mechanism
    f, m = (pl.DataFrame({"sex": [sex]}) for sex in "fm")
    true = true_history([(f, m), (f, None), (m, f), (None, f), (None, f)], mechanism)
    assert true.columns["sex"].tolist() == ["f", "f", "m"]
    assert true.born.tolist() == [1, 2, 3] and true.gone.tolist() == [3, 4, 6]


def test_a_history_has_every_row_ever_released(tmp_path):
    box = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
    mechanism = tr.SpatialStream(domain=box, **ONE)
    rng = np.random.default_rng(1)
    frames = [pl.DataFrame(rng.random((50, 2)), schema=["x", "y"]) for _ in range(4)]
    kept = tr.Stream.create(tmp_path / "s.tail", mechanism, population="p")
    for stream in (kept, tr.Stream(mechanism)):
        for number, frame in enumerate(frames):
            stream.push(frame, deletes=frames[number - 1] if number else None)
        history = stream.history()
        for step in range(1, 5):
            there = (history.born <= step) & (step < history.gone)
            rows = stream.release(step).rows
            assert len(rows) == there.sum() == history.rows_at(np.array([step]))[0]
            np.testing.assert_array_equal(history.columns["x"][there], rows.columns["x"])
            view = stream.view(step)
            assert view.count(low=(0, 0), high=(1, 1)) == stream.release(step).view.count(
                low=(0, 0), high=(1, 1)
            )
    with pytest.raises(tr.StateError, match="no release of step 5"):
        kept.view(5)
    kept.close()


def test_amounts_have_totals_over_time_and_by_group():
    schema = tr.Schema(shop=tr.Categorical(["a", "b"]), price=tr.Amount(0, 100))
    rows = pl.DataFrame({"shop": ["a"] * 30 + ["b"] * 20, "price": [50.0] * 30 + [500.0] * 20})
    made = tr.HistogramStream(domain=schema, **ONE)
    stream = streamed(made, rows, rows)
    page = body(stream_report(stream, [], true_history([(rows, None)] * 2, made)))
    totals = page.split("Totals of price")[1]
    told, true = re.search(r"<td>step 2</td><td>([\d,]+) [^<]*</td><td>([\d,]+)", totals).groups()
    assert true == "7,000", "amounts are clipped, in the release as in the truth"
    assert int(told.replace(",", "")) == pytest.approx(7_000, abs=40)
    group = re.search(r"<td>b</td><td>([\d,]+) [^<]*</td><td>4,000</td>.*?<td>([\d.]+)", totals)
    assert int(group[1].replace(",", "")) == pytest.approx(4_000, abs=40)
    assert float(group[2]) == pytest.approx(100, abs=2), "the mean"


def test_a_stream_without_tables_has_rows_drawn_for_its_page(tmp_path):
    box = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
    made = tr.SpatialStream(domain=box, **ONE)
    points = pl.DataFrame(np.random.default_rng(1).random((90, 2)), schema=["x", "y"])
    with tr.Stream.create(tmp_path / "s.tail", made, population="p", full="none") as stream:
        stream.push(points)
        page = stream_report(stream, [])
    drawn = re.search(r'<script id="points-synthetic"[^>]*>(.*?)</script>', page)[1]
    assert 60 < len(drawn) * 3 / 4 / 6 < 120, "six bytes a point"


def test_a_value_taken_up_later_is_new_on_its_page():
    trees = tr.Schema(
        ward=tr.Integer(0, 1), tree=tr.Categorical(["oak"], outside="other", growing=3)
    )
    loss = tr.ApproxDP(epsilon=40, delta=1e-3)
    made = tr.HistogramStream(domain=trees, **ONE | {"privacy": loss, "deletes": False})
    first = pl.DataFrame({"ward": [0] * 90, "tree": ["oak"] * 90})
    then = pl.DataFrame({"ward": [0] * 90, "tree": ["elm"] * 90})
    batches = [first, then, then, then]
    stream = streamed(made, *batches)
    assert "elm" in stream.view(4).grown
    page = body(stream_report(stream, [], true_history([(one, None) for one in batches], made)))
    cells = page.split("The largest cells")[1]
    moved = re.search(r"<td>0, elm</td>.*?</svg></td><td>([^<]*)</td><td>([^<]*)</td>", cells)
    assert moved[1].startswith("+") and moved[2] == "new", "step 1 did not have it"
