"""Panels that people join, pause and leave."""

import itertools

import numpy as np
import polars as pl
import pytest

from samples import last_view
from tailrace import (
    ZCDP,
    AddRemove,
    Categorical,
    ConfigError,
    Integer,
    Missing,
    Noise,
    Null,
    PanelCumulative,
    PanelWindow,
    Replace,
    Schema,
    Stream,
    User,
)
from tailrace.mechanisms.panel.presence import Presence, Spread
from tailrace.mechanisms.panel.queries import AtLeast, Pattern, Weighted
from tailrace.report.page import stream_report

PLAIN = {
    "domain": Schema(poor=Integer(0, 1)),
    "unit": User(column="id"),
    "window": 3,
    "horizon": 7,
    "privacy": ZCDP(rho=0.05),
    "neighbours": AddRemove,
}


def made(**changes):
    return PanelWindow(**{**PLAIN, **changes})


def truth(people=3000, steps=7, values=2, seed=0):
    """Codes (steps, people), `values` where absent: a third join late, a third leave, gaps."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((steps, people), int)
    codes[0] = rng.integers(0, values, people) * (rng.random(people) < 0.5)
    for t in range(1, steps):
        stays = rng.random(people) < 0.85
        codes[t] = np.where(stays, codes[t - 1], rng.integers(0, values, people))
    when, at = rng.integers(1, steps, people), np.arange(steps)[:, None]
    third = np.arange(people) % 3
    absent = ((third == 0) & (at < when)) | ((third == 1) & (at >= when))
    codes[absent | (rng.random((steps, people)) < 0.1)] = values
    return codes


def counted(codes, window, symbols):
    found = []
    for t in range(1, len(codes) + 1):
        ends = np.zeros(codes.shape[1], int)
        for row in codes[max(0, t - window) : t]:
            ends = ends * symbols + row
        full = np.bincount(ends, minlength=symbols**window) if t >= window else None
        found.append(np.zeros(symbols**window, np.int64) if full is None else full)
    return found


def frame(codes, step):
    here = np.flatnonzero(codes[step] < 2)
    return pl.DataFrame({"id": here, "poor": codes[step][here]})


def test_gains_and_variances_are_those_of_the_whole_covariance():
    """Against Kalman's filter with a matrix of all windows."""
    rng = np.random.default_rng(0)
    for values, window in ((2, 3), (3, 2), (2, 1), (4, 2)):
        size, rows = values + 1, (values + 1) ** (window - 1)
        later = tuple(Spread(*rng.uniform(0.5, 2, 3)) for _ in range(4))
        presence = Presence(values, window, 1.3, later)
        covariance = 1.3 * np.eye(rows * size)
        covariance[-1, -1] = 0
        step, seen = np.zeros((rows * size,) * 2), np.zeros((values, rows * size))
        for place in range(rows * size):
            if place % rows != rows - 1:
                step[place % rows * size : place % rows * size + size, place] = 1 / size
        for value in range(values):
            seen[value, value::size] = 1
        for release, spread in enumerate(later, 1):
            fresh = np.zeros_like(covariance)
            for row in range(rows - 1):
                own = slice(row * size, row * size + size)
                fresh[own, own] = spread.differences / size * (np.eye(size) - 1 / size)
            born = slice((rows - 1) * size, rows * size - 1)
            fresh[born, born] = spread.births * np.eye(values)
            covariance = step @ covariance @ step.T + fresh
            noise = seen @ covariance @ seen.T + spread.marginals * np.eye(values)
            gain = covariance @ seen.T @ np.linalg.inv(noise)
            covariance = covariance - gain @ seen @ covariance
            weights = rng.normal(size=rows * size)
            weights[-1] = 0
            expected = weights @ covariance @ weights
            assert presence.variance(weights, release) == pytest.approx(expected)
            predicted = rng.normal(size=(rows, size))
            predicted[-1, -1] = 0
            marginals = rng.normal(size=values)
            found = presence.corrected(predicted, marginals, release)
            surprise = marginals - predicted[:, :-1].sum(axis=0)
            assert found == pytest.approx(predicted.ravel() + gain @ surprise)


@pytest.mark.parametrize(("values", "window"), [(2, 3), (3, 2), (2, 1)])
def test_answers_are_unbiased_and_as_wide_as_they_say(values, window):
    codes = truth(people=800, values=values)
    mechanism = made(domain=Schema(s=Integer(0, values - 1)), window=window)
    counts = counted(codes, window, values + 1)
    views = [last_view(mechanism, counts, Noise.insecure(seed)) for seed in range(200)]
    for step, query in itertools.product(
        (window, 5, 7), (Pattern(1), AtLeast(times=1, of=window, value=1))
    ):
        rows = codes[step - query.length : step]
        held = query.weights([*range(values), None])[tuple(rows)]
        there = (rows < values).all(axis=0)
        for asked, truly in (
            ("estimate", held.sum()),
            ("proportion", held[there].sum() / there.sum()),
        ):
            answers = [getattr(view, asked)(query, step=step) for view in views]
            found, errors = np.array([(one.value, one.error) for one in answers]).T
            assert abs(found.mean() - truly) < 4 * found.std() / len(views) ** 0.5, "unbiased"
            assert found.std() == pytest.approx(errors.mean(), rel=0.2)
            inside = (np.abs(found - truly) <= 1.96 * errors).mean()
            assert 0.88 < inside < 0.995


def test_synthetic_people_join_pause_and_leave_as_true_ones_do(tmp_path):
    codes = truth()
    path = tmp_path / "panel.tail"
    with Stream.create(path, made(privacy=ZCDP(rho=5)), population="p") as stream:
        tables = [stream.push(frame(codes, step)) for step in range(7)]
    with Stream.open(path) as stream:
        view = stream.release(7).view
    panel = view.panel
    assert panel.columns == ["id", *(f"t{step}" for step in range(1, 8))]
    for step, release in enumerate(tables[2:], 3):
        table = release.table
        assert table["id"].is_sorted() and table["id"].is_unique().all()
        own = panel.filter(pl.col("id").is_in(table["id"].implode()))
        assert table["poor"].to_list() == own[f"t{step}"].to_list()
        present = table["poor"].drop_nulls()
        true = codes[step - 1][codes[step - 1] < 2]
        assert len(present) == pytest.approx(len(true), rel=0.03)
        assert present.mean() == pytest.approx(true.mean(), abs=0.02)
        assert release.view.present(step=step).value == pytest.approx(len(true), rel=0.02)
        gone = ~np.isin(np.arange(1, len(panel) + 1), table["id"])
        lately = panel[[f"t{step - 1}", f"t{step}"]].filter(pl.Series(gone))
        assert lately.null_count().row(0) == (len(lately),) * 2, "absent for two steps: gone"
    assert set(tables[3].table["id"]) - set(tables[2].table["id"]), "some are born"
    assert set(tables[2].table["id"]) - set(tables[4].table["id"]), "some leave"


def test_a_step_without_rows_is_one_at_which_all_are_absent():
    stream = Stream(made(privacy=ZCDP(rho=5), window=2, horizon=4), noise=Noise.insecure(1))
    for step in range(2):
        stream.push(pl.DataFrame({"id": range(500), "poor": [step % 2] * 500}))
    release = stream.push(None)
    assert release.view.present().value == pytest.approx(0, abs=10)
    assert release.view.estimate(Pattern(1, None)).value == pytest.approx(500, abs=10)
    assert release.table["poor"].null_count() >= len(release.table) - 10


def test_questions_about_absence_and_weights_with_or_without_it():
    codes = truth()
    view = last_view(made(privacy=ZCDP(rho=1000)), counted(codes, 3, 3), Noise.insecure(1))
    left = ((codes[5] == 1) & (codes[6] == 2)).sum()
    assert view.estimate(Pattern(1, None)).value == pytest.approx(left, abs=3)
    both = Weighted(np.diag([1.0, 2.0]))
    also = Weighted(np.diag([1.0, 2.0, 0.0]))
    assert view.estimate(both).value == view.estimate(also).value
    assert view.estimate(AtLeast(times=0, of=1)).value == pytest.approx(
        ((codes[4:7] < 2).any(axis=0)).sum(), abs=4
    ), "nobody counts whom nobody can know of"
    assert view.values == [0, 1, None]


def test_complete_panels_keep_their_noise_and_ask_for_no_absence():
    complete = made(complete=True)
    assert complete.symbols == 2 and complete.guarantee.loss == ZCDP(rho=0.05)
    assert made(complete=True, first=2) == made(complete=True, first=2, missing=Missing.Absent)


@pytest.mark.parametrize(
    ("values", "window", "horizon", "neighbours", "people"),
    [
        (2, 3, 6, AddRemove, None),
        (2, 1, 6, AddRemove, None),
        (3, 2, 5, Replace, None),
        (2, 3, 4, Replace, None),
        (2, 2, 6, Null, 500),
        (2, 2, 2, AddRemove, None),
    ],
)
def test_a_complete_panel_has_less_noise_than_any_before(
    values, window, horizon, neighbours, people
):
    codes = np.random.default_rng(0).integers(0, values, (horizon, 500))
    parts = {
        "domain": Schema(s=Integer(0, values - 1)),
        "window": window,
        "horizon": horizon,
        "neighbours": neighbours,
        "people": people,
    }
    mechanism, counts = made(**parts, complete=True), counted(codes, window, values)
    views = [last_view(mechanism, counts, Noise.insecure(seed)) for seed in range(250)]
    found = np.array([view.estimates for view in views])
    off = found - np.array(counts[window - 1 :])
    assert (np.abs(off.mean(axis=0)) < 5 * off.std(axis=0) / 250**0.5 + 1e-9).all(), "unbiased"
    weights = np.random.default_rng(1).normal(size=values**window)
    for release in (0, horizon - window):
        said = views[0]._variance(weights, release)
        assert (found[:, release] @ weights).std() == pytest.approx(said**0.5, rel=0.15)
    published = (1 + (neighbours is Replace)) * (horizon - window + 1) / (2 * 0.05)
    carried = last_view(made(**parts, missing=Missing.Carry), counts, Noise.insecure(1))
    totals = [
        sum(
            view._variance(one, release)
            for one in np.eye(values**window)
            for release in range(horizon - window + 1)
        )
        for view in (views[0], carried)
    ]
    many = values**window * (horizon - window + 1)
    assert totals[0] <= totals[1] * (1 + 1e-6) and totals[0] <= many * published * (1 + 1e-6)
    if values == 2 and neighbours is AddRemove and horizon == 6:
        assert (totals[0] / many / published) ** 0.5 < {1: 0.71, 3: 0.775}[window]


def test_an_endless_panel_goes_on():
    codes = truth(people=400, steps=7)
    endless = made(horizon=None, window=2, privacy=ZCDP(rho=50))
    assert endless.guarantee.loss == ZCDP(rho=50)
    stream = Stream(endless, noise=Noise.insecure(1))
    for step in range(30):
        release = stream.push(frame(codes, step % 7))
        true = (codes[step % 7] == 1).sum()
        if step:
            assert release.view.estimate(Pattern(1)).value == pytest.approx(true, abs=25)
    errors = [release.view.estimate(Pattern(1), step=step).error for step in (13, 30)]
    assert errors[0] < errors[1], "later epochs have less budget a step"


def test_how_often_so_far_with_people_who_join():
    rng = np.random.default_rng(3)
    joins, poor = rng.integers(0, 5, 900), rng.random((6, 900)) < 0.3
    parts = {**PLAIN, "horizon": 6, "privacy": ZCDP(rho=20)}
    parts.pop("window")
    for neighbours in (AddRemove, Replace, Null):
        mechanism = PanelCumulative(**{**parts, "neighbours": neighbours})
        assert mechanism.guarantee.loss == ZCDP(rho=20)
        stream = Stream(mechanism, noise=Noise.insecure(1))
        for step in range(6):
            here = np.flatnonzero(joins <= step)
            rows = {"id": here, "poor": poor[step][here].astype(int)}
            release = stream.push(pl.DataFrame(rows))
            seen = poor[: step + 1][:, here] & (joins[here] <= np.arange(step + 1)[:, None])
            for times in range(step + 2):
                query = AtLeast(times=times, of=step + 1)
                true = (seen.sum(axis=0) >= times).mean()
                assert release.view.proportion(query).value == pytest.approx(true, abs=0.02)
            assert len(release.table) == pytest.approx(len(here), abs=12)
            assert release.table["poor"].mean() == pytest.approx(seen[-1].mean(), abs=0.04)
        assert release.view.panel["t1"].null_count() == pytest.approx(
            900 - (joins == 0).sum(), abs=15
        )


def test_how_often_one_of_several_values_occurred():
    status = Schema(status=Categorical(["work", "school", "home"]))
    parts = {**PLAIN, "domain": status, "horizon": 3, "privacy": ZCDP(rho=20), "value": "home"}
    parts.pop("window")
    stream = Stream(PanelCumulative(**parts), noise=Noise.insecure(1))
    rows = {"id": range(300), "status": ["work", "school", "home"] * 100}
    for _ in range(2):
        release = stream.push(pl.DataFrame(rows))
    for value in (None, "home"):
        found = release.view.estimate(AtLeast(times=2, of=2, value=value))
        assert found.value == pytest.approx(100, abs=8)
    assert set(release.table["status"]) == {"home", None}, "which other value is not known"
    with pytest.raises(ConfigError, match="keeps how often people had one value"):
        release.view.estimate(AtLeast(times=1, of=2, value="work"))


@pytest.mark.parametrize("neighbours", [Null, Replace], ids=repr)
def test_a_public_number_far_from_the_measured_one_is_said(neighbours, tmp_path):
    codes = truth(people=2000) % 2
    said = {}
    for people in (2000, 2010, 6000, 500):
        mechanism = made(neighbours=neighbours, people=people, complete=True)
        path = tmp_path / f"{people}.tail"
        with Stream.create(
            path, mechanism, population=path.name, noise=Noise.insecure(1)
        ) as stream:
            for step in range(4):
                release = stream.push(frame(codes, step))
            page = stream_report(stream, [])
        with Stream.open(path) as stream:
            again = stream.release(4)
        assert list(again.view.notes) == release.provenance.get("notes", [])
        assert again.provenance == release.provenance
        said[people] = again.view.notes
        assert ("A word of warning" in page) == bool(said[people])
        assert again.view.histograms[0].sum() == people and again.view.estimates[
            0
        ].sum() == pytest.approx(people)
    assert said[2000] == said[2010] == ()
    assert "6,000, is far from the measured one, 20" in said[6000][0]
    assert "500, is far" in said[500][0]
    joined = made(neighbours=neighbours, people=300)
    view = last_view(joined, counted(codes, 3, 3), Noise.insecure(1))
    assert "300, is far from the measured one" in view.notes[0]
    view = last_view(
        made(neighbours=neighbours, people=9000), counted(codes, 3, 3), Noise.insecure(1)
    )
    assert view.notes == (), "the others may be absent"


def test_more_people_than_the_public_number_are_said_of_weights_too():
    parts = {**PLAIN, "horizon": 2, "privacy": ZCDP(rho=5), "neighbours": Null}
    parts.pop("window")
    for options, people, said in (
        ({}, 100, True),
        ({"complete": True}, 100, True),
        ({}, 900, False),
    ):
        stream = Stream(PanelCumulative(**parts, people=people, **options), noise=Noise.insecure(1))
        release = stream.push(pl.DataFrame({"id": range(400), "poor": [1] * 400}))
        assert bool(release.view.notes) is said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"complete": 1}, "complete must be True or False"),
        ({"complete": True, "missing": Missing.Drop}, "leave missing= out"),
        ({"raw_bins": True}, "complete=True"),
        ({"padding": 3}, "complete=True"),
        ({"horizon": None, "complete": True}, "without end"),
        ({"domain": Schema(a=Integer(0, 255)), "window": 1}, "at most 255 values"),
        ({"window": 14, "horizon": 20}, "more than"),
    ],
)
def test_what_cannot_be_kept_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        made(**changes)
