"""A plan: exact errors, errors by trial, and what reaches an error."""

import numpy as np
import polars as pl
import pytest

import tailrace as tr
from tailrace.counting.plan import Counts
from tailrace.planning.exact import known
from tailrace.planning.facts import Generated, Like
from tailrace.planning.trials import tried

EVENT = {"privacy": tr.PureDP(epsilon=1), "unit": tr.Event()}
PERSON = {"privacy": tr.ZCDP(rho="0.05"), "unit": tr.User(column="id"), "neighbours": tr.AddRemove}
DISTRICT = tr.Schema(district=tr.Integer(1, 12))
TABLE = tr.Schema(age=tr.Integer(0, 9), sex=tr.Categorical(["f", "m"]), ill=tr.Integer(0, 3))
SQUARE = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=64)
POOR = tr.Schema(poor=tr.Integer(0, 1))
FEW = tr.Facts(rows=300, points=5)

CASES = tr.HistogramStream(domain=DISTRICT, horizon=64, **EVENT)
KINDS = {
    "table": tr.TabularStream(domain=TABLE, horizon=8, **EVENT),
    "places": tr.SpatialStream(domain=SQUARE, horizon=8, **EVENT),
    "snapshots": tr.SnapshotHistogram(
        domain=TABLE,
        horizon=8,
        privacy=tr.PureDP(epsilon=1),
        unit=tr.User(column="id", records=1),
    ),
    "other": tr.papers.privstream(domain=SQUARE, horizon=8, **EVENT),
}


def measured(mechanism, counts, asked, runs=20):
    """(runs, steps, answers) of a mechanism that is run again and again on counts."""
    found = []
    for run in range(runs):
        state, noise = mechanism.init(), tr.Noise.insecure(run)
        shown = []
        for step, count in enumerate(counts):
            state = mechanism.measure(state, Counts(count, 0 * count), noise.at(step)).state
            shown.append(asked(mechanism.view(state.public)))
        found.append(shown)
    return np.array(found)


def test_the_exact_error_of_a_histogram_is_what_a_run_measures():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (64, 12))
    off = measured(CASES, counts, lambda view: view.estimates) - np.cumsum(counts, axis=0)
    values, total = known(CASES, steps=64)
    assert values.overall == pytest.approx(np.sqrt((off**2).mean()), rel=0.08)
    summed = off.sum(axis=2)
    assert total.overall == pytest.approx(np.sqrt((summed**2).mean()), rel=0.2)
    assert (np.abs(off) < values.most[:, None]).mean() == pytest.approx(0.9, abs=0.02)


def test_several_columns_are_asked_together_as_apart():
    """The error of a pair of two columns is that of a bin; a value sums up the others' bins."""
    made = tr.HistogramStream(domain=TABLE, horizon=5, **EVENT)
    one = made.counting.variance(np.arange(1, 6))
    found = {course.question: course.error**2 for course in known(made, steps=5)}
    assert found["one value of sex"] == pytest.approx(40 * one)
    assert found["one combination of all columns"] == pytest.approx(one)
    pairs = (20 * 4 + 40 * 2 + 8 * 10) / (20 + 40 + 8)
    assert found["one pair of values of two columns"] == pytest.approx(pairs * one)


def test_the_exact_error_of_a_panel_is_what_a_run_measures():
    made = tr.PanelWindow(domain=POOR, window=2, horizon=6, complete=True, **PERSON)
    counts = [np.zeros(4, np.int64), *np.full((5, 4), 250)]
    at = known(made, steps=6)[0]

    def asked(view):
        return 500.0 if view is None else view.estimate(tr.queries.Pattern(1)).value

    off = measured(made, counts, asked, runs=60)[:, 1:] - 500
    assert at.overall == pytest.approx(np.sqrt((off**2).mean()), rel=0.15)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_tried_on_stand_in_data(kind):
    courses = tried(KINDS[kind], Generated(FEW), steps=8, runs=1, seed=1)
    assert courses
    for one in courses:
        assert np.isfinite(one.error).all() and (one.error > 0).any() and one.typical > 0
        assert (one.most <= 5 * one.error + 1).all()


@pytest.mark.slow
def test_journeys_are_tried_on_stand_in_data():
    made = tr.Trajectories(domain=SQUARE, trajectory="trip", order="minute", **EVENT)
    loose, tight = (
        tried(
            tr.Trajectories(
                domain=SQUARE,
                trajectory="trip",
                order="minute",
                privacy=tr.PureDP(epsilon=epsilon),
                unit=tr.Event(),
            ),
            Generated(tr.Facts(rows=2000, points=5)),
            steps=1,
            runs=1,
            seed=0,
        )[0].overall
        for epsilon in ("0.5", 10)
    )
    assert tr.plan(made, facts=FEW, others=[], runs=1).noun == "journeys"
    assert tight < loose


def test_a_larger_budget_has_a_smaller_error_by_trial():
    made = tr.plan(KINDS["places"], facts=FEW, epsilons=["0.05", 20], others=[], runs=1)
    errors = [one.courses[0].overall for one in made.budgets]
    assert len(errors) == 3 and errors[0] > errors[2]


def test_the_budget_found_reaches_the_error():
    made = tr.plan(CASES, error=25, others=[])
    assert len(made.reached) == 2
    for one in made.reached:
        again = tr.plan(
            tr.HistogramStream(
                domain=DISTRICT, horizon=64, unit=tr.Event(), privacy=tr.PureDP(epsilon=one.budget)
            ),
            others=[],
        )
        error = again.asked.course(one.question).overall
        assert 0.85 * 25 < error <= 25 * 1.01


def test_an_error_that_no_budget_reaches_is_said():
    made = tr.plan(KINDS["table"], facts=FEW, error=1e-9, epsilons=[1], others=[], runs=1)
    assert made.reached[0].budget is None
    assert any(one.startswith("No epsilon that was tried") for one in made.sentences)


def test_a_weaker_unit_is_told_with_its_promise():
    unit = tr.User(column="id", events=4)
    made = tr.HistogramStream(domain=DISTRICT, horizon=64, privacy=tr.PureDP(epsilon=1), unit=unit)
    advice = tr.plan(made).advice
    event = [one for one in advice if one.startswith("To protect one event")]
    assert event and "8.1 times less" in event[0] and "for one event" in event[0]
    none = tr.plan(CASES).advice
    assert none == ("No other unit, setting or mechanism that was tried has a smaller error.",)


def test_budgets_of_rho_are_told_as_rho():
    panel = tr.PanelCumulative(domain=POOR, horizon=3, **PERSON)
    made = tr.plan(panel, epsilons=["0.1"], error=30, others=[])
    assert [one.mechanism.privacy for one in made.budgets] == [
        tr.ZCDP(rho="0.05"),
        tr.ZCDP(rho="0.1"),
    ]
    assert any(one.startswith("Rho = ") for one in made.sentences)


def test_horizons_are_compared():
    made = tr.plan(CASES, horizons=[8, 512], others=[])
    assert [one.steps for one in made.horizons] == [8, 64, 512]
    errors = [one.courses[0].overall for one in made.horizons]
    assert errors == sorted(errors)


def test_a_stream_without_end_is_looked_at_for_a_year():
    made = tr.HistogramStream(domain=DISTRICT, horizon=None, **EVENT)
    assert tr.plan(made, others=[]).asked.steps == 365


def test_stand_in_rows_follow_the_facts():
    rng = np.random.default_rng(0)
    facts = tr.Facts(rows=2000, clusters=5)
    crowded, even = (
        next(iter(Generated(one).batches(KINDS["places"], 1, rng)))[0]
        for one in (facts, tr.Facts(rows=2000, clusters=0))
    )
    assert len(crowded) == len(even) == 2000

    def cells(frame):
        return frame.select((pl.all() * 16).floor()).unique().height

    assert cells(even) == 256
    assert cells(crowded) < 128


def test_stand_in_rows_move_and_leave_as_stated():
    rng = np.random.default_rng(0)
    steps = list(
        Generated(tr.Facts(rows=500, moving=0.5, stays=2)).batches(KINDS["places"], 5, rng)
    )
    assert [deletes is None for _, deletes in steps] == [True, True, False, False, False]
    assert steps[2][1].equals(steps[0][0])
    means = [frame["x"].mean() for frame, _ in steps]
    rng = np.random.default_rng(0)
    still = [
        frame["x"].mean()
        for frame, _ in Generated(tr.Facts(rows=500)).batches(KINDS["places"], 5, rng)
    ]
    assert np.ptp(means) > 2 * np.ptp(still)


def test_columns_that_matter_hang_together():
    rng = np.random.default_rng(1)
    made = tr.TabularStream(
        domain=tr.Schema(a=tr.Integer(0, 4), b=tr.Integer(0, 4)), horizon=1, **EVENT
    )

    def dependence(matter):
        facts = tr.Facts(rows=20_000, matter=matter, clusters=4)
        frame = next(iter(Generated(facts).batches(made, 1, rng)))[0]
        table = np.zeros((5, 5))
        np.add.at(table, (frame["a"].to_numpy(), frame["b"].to_numpy()), 1 / len(frame))
        return np.abs(table - np.outer(table.sum(1), table.sum(0))).sum()

    assert dependence(2) > 0.3
    assert dependence(0) < 0.1


def test_a_public_file_is_cut_into_steps_in_its_order(tmp_path):
    frame = pl.DataFrame({"x": np.arange(80) / 80, "y": np.full(80, 0.5)})
    rng = np.random.default_rng(0)
    steps = [adds for adds, _ in Like(frame, None).batches(KINDS["places"], 8, rng)]
    assert [len(one) for one in steps] == [10] * 8 and steps[1]["x"][0] == 10 / 80
    given = frame.with_columns(step=pl.lit(3))
    steps = [adds for adds, _ in Like(given, None).batches(KINDS["places"], 8, rng)]
    assert [len(one) for one in steps] == [80, *[0] * 7]
    frame.write_csv(tmp_path / "public.csv")
    made = tr.plan(KINDS["places"], like=tmp_path / "public.csv", others=[], runs=1, epsilons=[1])
    assert "must not be the private data" in made.data


def test_a_public_file_of_another_shape_is_refused(tmp_path):
    with pytest.raises(tr.DataError, match="no column 'y'"):
        tr.plan(KINDS["places"], like=pl.DataFrame({"x": [0.5]}), runs=1)
    with pytest.raises(tr.DataError, match="cannot be read"):
        tr.plan(KINDS["places"], like=tmp_path / "none.csv")


def test_nothing_of_a_stream_is_opened(monkeypatch):
    """No ledger, no source, no kept stream: whatever opens one fails the test."""

    def never(*_, **__):
        raise AssertionError("a plan opened something private")

    monkeypatch.setattr("tailrace.ledger.ledger.Ledger.__init__", never)
    monkeypatch.setattr("tailrace.config.opening.open_source", never)
    monkeypatch.setattr("tailrace.stream.stream.Stream.create", never)
    monkeypatch.setattr("tailrace.stream.stream.Stream.open", never)
    for mechanism in (CASES, *KINDS.values()):
        tr.plan(mechanism, facts=FEW, epsilons=[1], runs=1, others=[])


def test_progress_is_told_and_never_goes_back():
    told = []
    tr.plan(KINDS["table"], facts=FEW, runs=2, error=30, progress=lambda *one: told.append(one[1:]))
    done = [one for one, _ in told]
    assert done == sorted(done) and done[-1] == told[-1][1]


def test_the_page_needs_no_network_and_shows_every_question():
    made = tr.plan(CASES, error=10)
    page = made.html()
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    for course in made.asked.courses:
        assert course.question[1:] in page
    assert page.count("<svg") >= 6 and "±" in page
    assert made._repr_html_().count("<svg") == page.count("<svg")


@pytest.mark.parametrize(("epsilon", "rows", "worse"), [("0.001", 3, True), ("8", 2000, False)])
def test_a_plan_says_where_nothing_would_be_as_good(epsilon, rows, worse):
    places = tr.SpatialStream(
        domain=SQUARE, horizon=4, privacy=tr.PureDP(epsilon=epsilon), unit=tr.Event()
    )
    made = tried(places, Generated(tr.Facts(rows=rows)), steps=4, runs=2, seed=1)
    assert [("no better than" in one.sentence("points")) for one in made] == [worse] * len(made)
