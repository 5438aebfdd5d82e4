from fractions import Fraction

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
    Integer,
    Missing,
    Noise,
    Null,
    PanelCumulative,
    Replace,
    Schema,
    Stream,
    User,
    counters,
    papers,
)
from tailrace.mechanisms.panel.queries import AtLeast, Pattern

POOR = Schema(poor=Categorical(["no", "yes"]))
PLAIN = {
    "domain": POOR,
    "unit": User(column="id"),
    "horizon": 6,
    "privacy": ZCDP(rho=0.005),
    "neighbours": Null,
    "people": 2000,
    "missing": Missing.Carry,
}


def made(**changes):
    return PanelCumulative(**{**PLAIN, **changes})


def truth(people=2000, steps=6, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.zeros((steps, people), int)
    codes[0] = rng.random(people) < 0.3
    for t in range(1, steps):
        codes[t] = np.where(rng.random(people) < 0.85, codes[t - 1], rng.random(people) < 0.3)
    return codes


def counted(codes):
    """Who is first seen and who reaches 1, 2, ... at each step, and how many have reached it by
    then.
    """
    weights = np.cumsum(codes, axis=0)
    reached = np.array([[(row >= b).sum() for b in range(len(codes) + 1)] for row in weights])
    return np.diff(reached, axis=0, prepend=0), reached


def test_a_stream_of_people_whose_weights_rise(tmp_path):
    codes = truth()
    with Stream.create(
        tmp_path / "panel.tail", made(privacy=ZCDP(rho=5)), population="p"
    ) as stream:
        releases = []
        for step in range(6):
            order = np.random.default_rng(step).permutation(2000)
            values = np.array(["no", "yes"])[codes[step][order]]
            releases.append(stream.push(pl.DataFrame({"id": order, "poor": values})))
    with Stream.open(tmp_path / "panel.tail") as stream:
        view = stream.release(6).view
    for step, release in enumerate(releases, 1):
        assert len(release.table) == 2000
        assert release.table["poor"].to_list() == view.panel[f"t{step}"].to_list(), (
            "extended, never rewritten"
        )
        for times in range(step + 1):
            truly = (codes[:step].sum(axis=0) >= times).sum()
            answer = release.view.estimate(AtLeast(times=times, of=step))
            assert answer.value == pytest.approx(truly, abs=15)
            assert view.estimate(AtLeast(times=times, of=step), step=step) == answer
            assert (view.codes[:step].sum(axis=0) >= times).sum() == view.totals[step - 1, times]


@pytest.mark.parametrize("neighbours", [AddRemove, Replace, Null], ids=repr)
@pytest.mark.parametrize("make", [PanelCumulative, papers.panel_cumulative], ids=["ours", "papers"])
def test_the_budget_is_used_up_exactly(neighbours, make):
    people = None if neighbours is AddRemove else 2000
    for horizon in (1, 2, 7, 12):
        mechanism = make(
            **{**PLAIN, "neighbours": neighbours, "people": people, "horizon": horizon}
        )
        assert mechanism.guarantee.loss == ZCDP(rho=0.005)
        assert sum(mechanism._split) == Fraction(5, 1000)
    approx = make(
        **{
            **PLAIN,
            "neighbours": neighbours,
            "people": people,
            "privacy": ApproxDP(epsilon=1, delta=1e-6),
        }
    )
    assert approx.guarantee.loss.epsilon <= 1


def test_tiny_budgets_stay_within_the_lattice():
    mechanism = made(neighbours=Replace, privacy=ZCDP(rho="1e-9"), horizon=4)
    assert mechanism.counting[0].unit_bits < 20
    assert mechanism.guarantee.loss == ZCDP(rho="1e-9")


def test_the_split_over_weights_is_the_best():
    """Moving some of the budget from one counter to another makes the sum of all variances
    larger.
    """
    best = made(horizon=5).variances[:, 1:].sum()
    shares = [float(rho) for rho in made(horizon=5)._split[1:]]
    for one in range(5):
        for other in range(5):
            moved = list(shares)
            moved[one] *= 1.05
            moved[other] *= 0.95
            found = made(horizon=5, shares=tuple(moved)).variances[:, 1:].sum()
            assert found >= best * (1 - 1e-9)


@pytest.mark.slow
def test_the_variance_of_an_answer_is_that_of_many_runs_and_answers_are_unbiased():
    counts, reached = counted(truth(people=300, steps=4))
    for neighbours in (Null, AddRemove):
        mechanism = made(
            horizon=4, neighbours=neighbours, people=300 if neighbours is Null else None
        )
        views = [last_view(mechanism, counts, Noise.insecure(seed)) for seed in range(400)]
        for step in range(1, 5):
            for times in range(step + 1):
                answers = [
                    view.estimate(AtLeast(times=times, of=step), step=step) for view in views
                ]
                values = np.array([answer.value for answer in answers])
                assert values.std() == pytest.approx(answers[0].error, rel=0.15)
                assert (
                    abs(values.mean() - reached[step - 1, times])
                    <= 4 * answers[0].error / 20 + 1e-9
                )


def test_a_public_number_of_people_is_kept_and_another_one_is_noisy():
    counts, _ = counted(truth())
    assert last_view(made(), counts, Noise.insecure(1)).codes.shape == (6, 2000)
    noisy = {
        last_view(
            made(neighbours=AddRemove, people=None), counts, Noise.insecure(seed)
        ).codes.shape[1]
        for seed in range(5)
    }
    assert len(noisy) > 1 and all(abs(people - 2000) < 300 for people in noisy)


def test_shares_of_people_come_with_errors():
    counts, reached = counted(truth())
    for neighbours in (Null, AddRemove):
        mechanism = made(
            neighbours=neighbours, people=2000 if neighbours is Null else None, privacy=ZCDP(rho=1)
        )
        views = [last_view(mechanism, counts, Noise.insecure(seed)) for seed in range(200)]
        shares = [view.proportion(AtLeast(times=2, of=6)) for view in views]
        values = np.array([share.value for share in shares])
        assert values.mean() == pytest.approx(reached[5, 2] / 2000, abs=0.003)
        assert values.std() == pytest.approx(shares[0].error, rel=0.2)
        assert views[0].proportion(AtLeast(times=0, of=6)).value == 1


def test_other_questions_are_refused_with_the_reason():
    view = last_view(made(), counted(truth())[0], Noise.insecure(1))
    for query in (Pattern("yes"), AtLeast(times=1, of=3), AtLeast(times=1, of=6, value="no")):
        with pytest.raises(ConfigError, match="how often people had one value"):
            view.estimate(query)
    with pytest.raises(ConfigError, match="from 1 to 6"):
        view.estimate(AtLeast(times=1, of=7), step=7)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"domain": Schema(s=Integer(0, 2))}, "say with value= which one is counted"),
        ({"value": 7}, "no such value"),
        ({"people": None}, "give it as people="),
        ({"neighbours": AddRemove}, "Under AddRemove nobody"),
        ({"shares": (1, 2)}, "one number for each weight"),
        ({"shares": (1, 2, 3, 0, 1, 1)}, "shares must be"),
        ({"horizon": 2000}, "at most 1,000 steps"),
        ({"counter": counters.Block(size=2), "neighbours": Replace}, "move in time"),
    ],
)
def test_what_cannot_be_kept_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        made(**changes)
