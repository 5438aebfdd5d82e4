import itertools

import numpy as np
import polars as pl
import pytest

from samples import last_view
from tailrace import (
    ZCDP,
    AddRemove,
    ApproxDP,
    Categorical,
    ConfigError,
    Event,
    Integer,
    Missing,
    Noise,
    Null,
    PanelWindow,
    PureDP,
    Real,
    Replace,
    Schema,
    Stream,
    User,
    papers,
)
from tailrace.mechanisms.panel.queries import AtLeast, Pattern, Spell, Weighted

POOR = Schema(poor=Integer(0, 1))
PLAIN = {
    "domain": POOR,
    "unit": User(column="id"),
    "window": 3,
    "horizon": 6,
    "privacy": ZCDP(rho=0.005),
    "neighbours": AddRemove,
    "missing": Missing.Carry,
}


def made(**changes):
    return PanelWindow(**{**PLAIN, **changes})


def truth(people=2000, steps=6, seed=0, values=2):
    """Histories of people who mostly stay as they are."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((steps, people), int)
    codes[0] = rng.integers(0, values, people) * (rng.random(people) < 0.5)
    for t in range(1, steps):
        codes[t] = np.where(
            rng.random(people) < 0.85, codes[t - 1], rng.integers(0, values, people)
        )
    return codes


def counted(codes, window, values=2):
    counts = []
    for t in range(1, len(codes) + 1):
        code = sum(
            row * values**place for place, row in enumerate(reversed(codes[max(0, t - window) : t]))
        )
        full = (
            np.bincount(code, minlength=values**window)
            if t >= window
            else np.zeros(values**window, np.int64)
        )
        counts.append(full)
    return counts


def frame(codes, step):
    order = np.random.default_rng(step).permutation(codes.shape[1])
    return pl.DataFrame({"id": order, "poor": codes[step][order]})


def test_a_stream_of_people_who_persist(tmp_path):
    codes = truth()
    with Stream.create(
        tmp_path / "panel.tail", made(privacy=ZCDP(rho=5)), population="p"
    ) as stream:
        tables = [stream.push(frame(codes, step)) for step in range(6)]
    assert [len(release.table) for release in tables[:2]] == [0, 0] and tables[1].view is None, (
        "before a window is full"
    )
    people = len(tables[2].table)
    assert abs(people - 2000) < 10
    with Stream.open(tmp_path / "panel.tail") as stream:
        last = stream.release(6)
    panel = last.view.panel
    assert panel.columns == ["id", "t1", "t2", "t3", "t4", "t5", "t6"] and len(panel) == people
    for step, release in enumerate(tables, 1):
        if release.view is not None:
            assert release.table["id"].to_list() == list(range(1, people + 1))
            assert release.table["poor"].to_list() == panel[f"t{step}"].to_list()
    for step, query in itertools.product(
        (3, 5, 6), (AtLeast(times=2, of=3), Spell(times=2, of=3), Pattern(0, 1))
    ):
        weights = query.weights([0, 1])
        rows = codes[step - query.length : step]
        assert last.view.estimate(query, step=step).value == pytest.approx(
            weights[tuple(rows)].sum(), abs=12
        )
        share = last.view.proportion(query, step=step)
        assert share.value == pytest.approx(weights[tuple(rows)].mean(), abs=0.006)


def test_the_panel_has_the_counts_that_were_shared_out():
    for values, window in ((2, 3), (3, 2), (2, 1), (4, 2)):
        codes = truth(values=values)
        domain = Schema(status=Integer(0, values - 1))
        view = last_view(
            made(domain=domain, window=window), counted(codes, window, values), Noise.insecure(1)
        )
        for release, histogram in enumerate(view.histograms):
            seen = counted(view.codes[: release + window].astype(int), window, values)[-1]
            assert seen.tolist() == histogram.tolist()


def test_the_budget_is_used_up_exactly_and_the_releases_are_equally_good():
    for neighbours, values, window in itertools.product(
        (AddRemove, Replace, Null), (2, 3), (1, 2, 3)
    ):
        mechanism = made(
            neighbours=neighbours, domain=Schema(s=Integer(0, values - 1)), window=window
        )
        assert mechanism.guarantee.loss == ZCDP(rho=0.005)
        assert mechanism.variances[0] == pytest.approx(mechanism.variances[1])
    assert made(first=3).guarantee.loss == ZCDP(rho=0.005)
    assert made(first=3).variances[0] < made(first=2).variances[0]
    assert made(window=6).guarantee.loss == ZCDP(rho=0.005), "one release only"
    approx = made(privacy=ApproxDP(epsilon=1, delta=1e-6))
    assert (
        approx.guarantee.loss.epsilon <= 1
        and approx.guarantee.loss.delta == ApproxDP(epsilon=1, delta=1e-6).delta
    )


def test_half_the_variance_of_the_published_method_or_what_replacing_leaves():
    def ratio(neighbours, **changes):
        parts = {**PLAIN, "neighbours": neighbours, "horizon": 120, **changes}
        return PanelWindow(**parts).variances[1] / papers.panel_window(**parts).variances[1]

    assert ratio(AddRemove) == pytest.approx(0.5, abs=0.01)
    assert ratio(Replace) == pytest.approx((1 + 1 / 3) / 2, abs=0.02)
    assert ratio(Replace, window=1) == pytest.approx(1, abs=0.02)
    assert ratio(AddRemove, domain=Schema(s=Integer(0, 3))) == pytest.approx(0.75, abs=0.01)


@pytest.mark.slow
def test_the_variance_of_an_answer_is_that_of_the_answers_of_many_runs():
    codes = truth(people=500, values=3, steps=5)
    three = made(domain=Schema(s=Integer(0, 2)), window=2, horizon=5, neighbours=Null, people=500)
    for mechanism in (
        three,
        made(window=2, horizon=5),
        papers.panel_window(**{**PLAIN, "window": 2, "horizon": 5}),
    ):
        values = mechanism.domain.size
        counts = counted(np.minimum(codes, values - 1), 2, values)
        views = [last_view(mechanism, counts, Noise.insecure(seed)) for seed in range(400)]
        weights = np.random.default_rng(1).normal(size=(values, values))
        for query, step in itertools.product((Pattern(0, 1), Weighted(weights)), (2, 3, 5)):
            answers = [view.estimate(query, step=step) for view in views]
            truly = query.weights(range(values))[
                tuple(np.minimum(codes, values - 1)[step - 2 : step])
            ].sum()
            found = np.array([answer.value for answer in answers])
            assert found.std() == pytest.approx(answers[0].error, rel=0.15)
            assert abs(found.mean() - truly) < 4 * answers[0].error / 20, "unbiased"


def test_answers_about_a_part_of_a_window_and_before_the_first_release():
    codes = truth()
    view = last_view(made(privacy=ZCDP(rho=1000)), counted(codes, 3), Noise.insecure(1))
    for step in (1, 2, 3, 6):
        assert view.estimate(Pattern(1), step=step).value == pytest.approx(
            codes[step - 1].sum(), abs=3
        )
    assert view.estimate(Pattern(0, 1), step=2).value == pytest.approx(
        ((codes[0] == 0) & (codes[1] == 1)).sum(), abs=3
    )


def test_a_longer_window_is_refused_with_the_reason():
    view = last_view(made(), counted(truth(), 3), Noise.insecure(1))
    with pytest.raises(ConfigError, match=r"keeps windows of 3 steps.*made up"):
        view.estimate(AtLeast(times=4, of=4))
    for step in (2, 7):
        with pytest.raises(ConfigError, match="from 3 to 6"):
            view.estimate(AtLeast(times=1, of=3), step=step)


def test_padding_is_taken_off_again():
    mechanism = papers.panel_window(**PLAIN)
    view = last_view(mechanism, counted(truth(), 3), Noise.insecure(1))
    assert view.histograms[0].sum() - 8 * mechanism.padding == pytest.approx(2000, abs=400)
    assert view.estimates[-1].sum() == pytest.approx(2000, abs=400)


def test_a_public_number_of_people_is_kept():
    view = last_view(made(neighbours=Replace, people=2000), counted(truth(), 3), Noise.insecure(1))
    assert (view.histograms.sum(axis=1) == 2000).all()
    assert view.estimates.sum(axis=1) == pytest.approx([2000] * 4)
    everybody = Weighted(np.ones((2, 2, 2)))
    assert view.estimate(everybody).error == pytest.approx(0, abs=1e-6)


def test_nobody_at_all_is_a_panel_too():
    nothing = [np.zeros(8, np.int64)] * 6
    for seed in range(5):
        view = last_view(made(), nothing, Noise.insecure(seed))
        assert (view.histograms >= 0).all() and view.codes.shape == (6, view.histograms[0].sum())


def test_missing_values_are_a_category_of_the_people_too():
    domain = Schema(status=Categorical(["work", "home"], outside="other"))
    mechanism = made(
        domain=domain, window=1, horizon=2, missing=Missing.Category, privacy=ZCDP(rho=50)
    )
    stream = Stream(mechanism, noise=Noise.insecure(1))
    stream.push(
        pl.DataFrame({"id": range(90), "status": ["work"] * 40 + ["home"] * 30 + [None] * 20})
    )
    release = stream.push(pl.DataFrame({"id": range(60), "status": ["work"] * 60}))
    assert release.view.estimate(Pattern(None)).value == pytest.approx(30, abs=4)
    assert release.table["status"].null_count() == pytest.approx(30, abs=4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"domain": Schema(a=Integer(0, 1), b=Integer(0, 1))}, "one attribute"),
        ({"domain": Schema(a=Real(edges=[0, 1, 2]))}, "Categorical or an Integer"),
        ({"domain": Schema(a=Integer(0, 999))}, "2 to 256 values"),
        ({"unit": Event()}, "whole histories"),
        ({"unit": User(column="id", events=3)}, "whole histories"),
        ({"unit": User(column="poor")}, "cannot be the one"),
        ({"privacy": PureDP(epsilon=1)}, "Gaussian noise"),
        ({"neighbours": "add"}, "neighbours must be"),
        ({"missing": "carry"}, "missing must be"),
        ({"missing": Missing.Category}, "outside='other'"),
        ({"people": 10}, "Under AddRemove nobody"),
        ({"people": 0, "neighbours": Null}, "people must be"),
        ({"window": 7}, "longer than the horizon"),
        ({"window": 0}, "window must be"),
        ({"window": 30, "horizon": 40}, "more than"),
        ({"privacy": ZCDP(rho="1e-20")}, "sampler's range"),
        ({"first": 0}, "first must be"),
    ],
)
def test_what_cannot_be_kept_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        made(**changes)
