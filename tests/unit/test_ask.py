"""Public releases, asked without anything private."""

import functools
import http.server
import json
import re
import shutil
import threading
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

import tailrace as tr
from processes import call
from tailrace.ask import read_question
from tailrace.mechanisms.panel.queries import AtLeast

WARD = tr.Schema(
    sex=tr.Categorical(["f", "m"], outside="other"),
    age=tr.Integer(0, 9),
    bmi=tr.Real(edges=[0, 20, 40]),
)
BOX = tr.Box(low=(0, 0), high=(4, 4), columns=("lon", "lat"), cells=16)
PARTS = {"privacy": tr.PureDP(epsilon=50), "horizon": 4}
EVENT = {**PARTS, "unit": tr.Event()}
PERSON = tr.User(column="id")
MECHANISMS = {
    "histogram": tr.HistogramStream(domain=WARD, **EVENT),
    "table": tr.TabularStream(domain=WARD, **EVENT),
    "places": tr.SpatialStream(domain=BOX, **EVENT),
    "calls": tr.SpatialStream(domain=tr.Places(BOX, tr.Schema(sex=WARD.attributes[0])), **EVENT),
    "snapshots": tr.SnapshotHistogram(domain=WARD, unit=tr.User(column="id", records=1), **PARTS),
    "panel": tr.PanelWindow(
        domain=tr.Schema(sex=tr.Categorical(["f", "m"])),
        unit=PERSON,
        window=2,
        horizon=4,
        privacy=tr.ZCDP(rho=500),
        neighbours=tr.AddRemove,
    ),
    "cumulative": tr.PanelCumulative(
        domain=tr.Schema(sex=tr.Categorical(["f", "m"])),
        unit=PERSON,
        horizon=4,
        privacy=tr.ZCDP(rho=500),
        neighbours=tr.AddRemove,
    ),
}


def rows(step):
    rng = np.random.default_rng(step)
    return pl.DataFrame(
        {
            "id": np.arange(200),
            "sex": rng.choice(["f", "m", "x"], 200, p=[0.6, 0.3, 0.1]),
            "age": rng.integers(0, 10, 200),
            "bmi": rng.uniform(0, 40, 200),
            "lon": rng.uniform(0, 4, 200),
            "lat": rng.uniform(0, 1, 200),
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Streams of every kind after three steps; a public copy of each, and what was released."""
    folder = tmp_path_factory.mktemp("made")
    calendar = tr.Calendar(start="2026-01-01", period="1 day")
    kept = {}
    for name, mechanism in MECHANISMS.items():
        with tr.Stream.create(
            folder / f"{name}.tail",
            mechanism,
            population=name,
            noise=tr.Noise.insecure(3),
            calendar=calendar,
        ) as stream:
            kept[name] = [stream.push(rows(step)) for step in (1, 2, 3)]
        shutil.copytree(folder / f"{name}.tail" / "releases", folder / name)
    return folder, kept


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_public_copy_has_the_tables_and_views_of_every_step(made, name):
    folder, kept = made
    releases = tr.open_releases(folder / name)
    assert (releases.step, releases.period(), releases.guarantee) == (
        3,
        "2026-01-03",
        kept[name][-1].guarantee,
    )
    assert releases.mechanism == MECHANISMS[name] and releases.domain == MECHANISMS[name].domain
    for release in kept[name]:
        assert releases.table(release.step).equals(release.table, null_equal=True)
        view = releases.view(release.step)
        assert (view is None) == (release.view is None)
    changes = releases.changes(2)
    assert changes.added.equals(kept[name][-1].changes.added)
    assert changes.removed.equals(kept[name][-1].changes.removed)
    both = releases.changes(0)
    assert both.added.equals(releases.table()) and both.removed.is_empty()


def test_answers_are_those_of_the_view_with_its_errors(made):
    folder, kept = made
    for name, where in {
        "histogram": {"sex": "f", "age": (3, 7)},
        "table": {"sex": ["f", "m"], "bmi": (0, 20)},
        "snapshots": {"age": (0, 4)},
    }.items():
        releases = tr.open_releases(folder / name)
        assert releases.count(**where) == kept[name][-1].view.count(**where)
        assert releases.count(2, **where) == kept[name][1].view.count(**where)
        share = releases.proportion(**where)
        part, whole = releases.count(**where), releases.count()
        assert share.value == pytest.approx(part.value / whole.value)
        assert share.error >= part.error / whole.value
    calls, view = tr.open_releases(folder / "calls"), kept["calls"][-1].view
    found = calls.count(lon=(1, 2), sex=["f", "m"])
    assert found == view.count(low=(1, 0), high=(2, 4), sex=["f", "m"])
    assert calls.proportion(sex="f").value == pytest.approx(
        view.count(sex="f").value / view.count().value
    )
    assert calls.ask("count where sex = f and lon between 1 and 2") == calls.count(
        sex="f", lon=(1, 2)
    )
    assert calls.marginal("sex").to_frame()["sex"].to_list() == ["f", "m"]
    told = calls.measurements()
    assert told["what"][0].to_list() == ["lon", "lat", "sex"]
    assert set(told["cells"].list.last()) <= {"f", "m", "outside", "f, m"}
    places, last = tr.open_releases(folder / "places"), kept["places"][-1].view
    found = places.count(lon=(1, 2))
    assert found == last.count(low=(1, 0), high=(2, 4))
    panel, view = tr.open_releases(folder / "panel"), kept["panel"][-1].view
    asked = AtLeast(times=1, of=1, value="f")
    assert panel.count(sex="f").value == pytest.approx(view.estimate(asked).value)
    assert panel.proportion(sex="f").error == pytest.approx(view.proportion(asked).error)


def test_a_marginal_has_labels(made):
    folder, _ = made
    for name in ("histogram", "table", "snapshots"):
        found = tr.open_releases(folder / name).marginal("sex", "bmi")
        frame = found.to_frame()
        assert frame.columns == ["sex", "bmi", "count", "error"]
        assert frame["bmi"].unique().sort().to_list() == ["0 to 20", "20 to 40"]
        one = frame.row(by_predicate=(pl.col("sex") == "f") & (pl.col("bmi") == "0 to 20"))
        counted = tr.open_releases(folder / name).count(sex="f", bmi=(0, 20))
        assert one[2:] == pytest.approx((counted.value, counted.error))
    assert len(frame) == 4 and "marginal of sex, bmi" in repr(found)
    pandas = tr.open_releases(folder / "table", frames="pandas")
    assert type(pandas.marginal("sex").to_frame()).__module__.startswith("pandas")
    assert type(pandas.table()).__module__.startswith("pandas")


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_noisy_measurements_are_one_tidy_table(made, name):
    folder, _ = made
    found = tr.open_releases(folder / name).measurements()
    assert found.columns == ["what", "cells", "value", "error"]
    assert (found["what"].list.len() == found["cells"].list.len()).all()
    assert found["error"].is_not_nan().all() and len(found) > 1
    if name == "table":
        pair = found.filter(pl.col("what") == ["sex", "age"])
        assert len(pair) == 30
        total = found.filter(pl.col("what").list.len() == 0)["value"].item()
        assert pair["value"].sum() == pytest.approx(total, rel=0.05)


@pytest.mark.parametrize(
    ("text", "where", "share"),
    [
        ("count", {}, False),
        ("COUNT WHERE sex = f", {"sex": "f"}, False),
        ("share where age between 3 and 7 and sex in (f, m)", {"age": (3, 7), "sex": ["f", "m"]}, True),
        ("count where 'sex'=\"f\" and bmi between 0 and 20.5", {"sex": "f", "bmi": (0, 20.5)}, False),
        ("count where age=3", {"age": 3}, False),
    ],
)  # fmt: skip
def test_questions_are_read(text, where, share):
    found = read_question(text, WARD)
    assert (found.where, found.share) == (where, share)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "A question is written like"),
        ("how many", "A question is written like"),
        ("count where", "A question is written like"),
        ("count where sex = f or age = 3", "A question is written like"),
        ("count where agee = 3", "There is no column 'agee': did you mean 'age'?"),
        ("count where age > 3", "After 'age' comes = VALUE"),
        ("count where age = old", "A value of 'age' is a whole number."),
        ("count where age between 3", "A range of 'age' is written"),
        ("count where bmi = fat", "A value of 'bmi' is a number."),
        ("count where age = 1 and age = 2", "'age' is asked for twice"),
        ("count where sex in (f, m", "After 'sex' comes"),
        ("count where sex = 'f", "A quote is not closed."),
    ],
)
def test_what_is_no_question_is_said_in_one_sentence(text, said):
    with pytest.raises(tr.ConfigError) as caught:
        read_question(text, WARD)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_the_command_answers_from_public_files(made):
    folder, kept = made
    asked = "count where sex = f and age between 3 and 7"
    found = json.loads(call("query", folder / "histogram", asked, "--json").output)
    real = kept["histogram"][-1].view.count(sex="f", age=(3, 7))
    assert (found["value"], found["error"]) == (real.value, real.error)
    assert (found["step"], found["period"]) == (3, "2026-01-03")
    shown = call("query", folder / "places", "share where lat between 0 and 2", "--step", "3")
    assert "at step 3 (2026-01-03)" in shown.output
    value, error, low, high = re.search(
        r"(\S+) \+- (\S+)\n95 %: (\S+) to (\S+),", shown.output
    ).groups()
    assert len({one.partition(".")[2].__len__() for one in (value, error, low, high)}) == 1
    assert "comes = VALUE" in call("query", folder / "table", "count where age 3", code=3).output
    assert "holds no releases" in call("query", folder, "count", code=5).output


def test_releases_are_read_from_an_address(made):
    folder, kept = made
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/table/"
            releases = tr.open_releases(url)
            assert releases.step == 3
            assert releases.table(2).equals(kept["table"][1].table, null_equal=True)
            assert releases.count(sex="m") == kept["table"][-1].view.count(sex="m")
        finally:
            server.shutdown()
    with pytest.raises(tr.StateError, match="does not answer"):
        tr.open_releases(url)


def test_a_changed_or_missing_file_is_refused(made, tmp_path):
    folder, _ = made
    shutil.copytree(folder / "histogram", tmp_path / "copy")
    for file in (tmp_path / "copy").rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    state = next(iter(sorted((tmp_path / "copy" / "state").iterdir())))
    state.write_bytes(state.read_bytes()[:-1] + b"x")
    with pytest.raises(tr.Corrupt, match="is not the file that was published"):
        tr.open_releases(tmp_path / "copy").count(1)
    (tmp_path / "copy" / "added" / "000002.parquet").unlink()
    with pytest.raises(tr.Corrupt, match=r"added/000002\.parquet is missing"):
        tr.open_releases(tmp_path / "copy").table()
    (tmp_path / "copy" / "mechanism.json").write_text('{"kind": "Unheard"}')
    with pytest.raises(tr.Corrupt, match=r"mechanism\.json .* is not the file that was published"):
        tr.open_releases(tmp_path / "copy").count()
    entry = tmp_path / "copy" / "log" / "000001.json"
    plain = json.loads(entry.read_text())
    del plain["files"]["mechanism.json"]
    entry.write_text(json.dumps(plain))
    with pytest.raises(tr.Corrupt, match="another version of Tailrace, or with a part"):
        tr.open_releases(tmp_path / "copy").count()


def test_what_cannot_be_asked_is_said(made):
    folder, _ = made
    releases = tr.open_releases(folder / "places")
    for ask, said in (
        (lambda: releases.marginal("lon"), "not of places"),
        (lambda: releases.count(lon=3), "Ask for a range of 'lon'"),
        (lambda: releases.count(lon=(9, 10)), "lies outside the area"),
        (lambda: releases.count(age=3), "There is no column 'age'"),
        (lambda: releases.table(4), "step must be a whole number from 1 to 3"),
        (lambda: releases.changes(4), "since must be a step from 0 to 3"),
        (lambda: tr.open_releases(folder, frames="spark"), "frames must be one of"),
        (lambda: tr.open_releases("ftp://example.org"), "begin with https:// or http://"),
    ):
        with pytest.raises(tr.ConfigError, match=said):
            ask()


def test_releases_are_short_to_look_at(made):
    folder, _ = made
    releases = tr.open_releases(folder / "table")
    assert repr(releases) == (
        "<releases of 3 step(s), the last 2026-01-03: sex, age, bmi; "
        "epsilon = 50 for one event over 4 steps>"
    )
    assert "<th>promise</th>" in releases._repr_html_()


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_is_drawn_without_anything_from_elsewhere(made, name, tmp_path):
    _, kept = made
    figure = kept[name][-1].plot()
    root = ElementTree.fromstring(figure.svg)
    assert root.tag.endswith("svg") and root.find("{*}title").text.startswith("Step 3 (2026-01-03)")
    assert "href" not in figure.svg and figure._repr_html_() == figure.svg
    figure.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == figure.svg
    drawn = root.findall(".//{*}rect") if name != "places" else root.findall(".//{*}path")
    assert len(drawn) > 1 or name == "places"


def test_a_picture_shows_no_more_than_the_view(made):
    """Labels are the domain's, and each number is an estimate of the view with its error."""
    _, kept = made
    release = kept["histogram"][-1]
    texts = [one.text for one in ElementTree.fromstring(release.plot().svg).findall(".//{*}text")]
    assert str(release.view.count(sex="f")) in texts and "20 to 40" in texts
