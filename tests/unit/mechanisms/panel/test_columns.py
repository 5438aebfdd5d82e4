"""Panels of several columns, and how often between two steps."""

import itertools

import numpy as np
import polars as pl
import pytest

from tailrace import (
    ZCDP,
    AddRemove,
    Categorical,
    ConfigError,
    Integer,
    Noise,
    Null,
    PanelColumns,
    PanelCumulative,
    PanelWindow,
    Replace,
    Schema,
    Stream,
    User,
)
from tailrace.checks import check_mechanism
from tailrace.counting.plan import Counts
from tailrace.mechanisms.panel import columns
from tailrace.mechanisms.panel.queries import AtLeast, Between, Pattern

BOTH = Schema(poor=Integer(0, 1), ill=Categorical(["no", "some", "very"]))
PLAIN = {
    "domain": BOTH,
    "unit": User(column="id"),
    "window": 2,
    "horizon": 5,
    "privacy": ZCDP(rho=5),
    "neighbours": AddRemove,
}


def made(**changes):
    return PanelColumns(**{**PLAIN, **changes})


def truth(people=1500, steps=5, seed=0):
    """Codes of both columns (steps, people), and who is absent: the poor are ill more often."""
    rng = np.random.default_rng(seed)
    poor = np.zeros((steps, people), int)
    poor[0] = rng.random(people) < 0.3
    for t in range(1, steps):
        poor[t] = np.where(rng.random(people) < 0.85, poor[t - 1], rng.random(people) < 0.3)
    ill = (rng.random((steps, people)) < 0.2 + 0.4 * poor) * rng.integers(1, 3, people)
    absent = np.arange(steps)[:, None] < rng.integers(0, 3, people)
    return poor, ill, absent | (rng.random((steps, people)) < 0.1)


def frames(poor, ill, absent):
    words = np.array(["no", "some", "very"])
    for t in range(len(poor)):
        here = np.flatnonzero(~absent[t])
        yield pl.DataFrame({"id": here, "poor": poor[t][here], "ill": words[ill[t][here]]})


def test_each_column_and_their_combinations_are_kept(tmp_path):
    poor, ill, absent = truth()
    path = tmp_path / "panel.tail"
    with Stream.create(path, made(), population="p", noise=Noise.insecure(1)) as stream:
        releases = [stream.push(rows) for rows in frames(poor, ill, absent)]
    assert releases[0].view is None and len(releases[0].table) == 0
    with Stream.open(path) as stream:
        view = stream.release(5).view
    names = ["id", *(f"{name}_t{t}" for t in range(1, 6) for name in ("poor", "ill"))]
    assert view.panel.columns == names
    for step in (2, 3, 5):
        here, table = ~absent[step - 1], releases[step - 1].table
        present = table.drop_nulls()
        assert len(table) - len(present) == table["poor"].null_count() == table["ill"].null_count()
        for a, (b, word) in itertools.product((0, 1), enumerate(["no", "some", "very"])):
            true = ((poor[step - 1] == a) & (ill[step - 1] == b))[here].sum()
            found = view.count(poor=a, ill=word, step=step)
            assert found.value == pytest.approx(true, abs=4 * found.error)
            shown = len(present.filter(poor=a, ill=word)) / len(present)
            assert shown == pytest.approx(true / here.sum(), abs=0.02), "in the people too"
        both = ~absent[step - 2 : step].any(axis=0)
        for name, codes, values in (("poor", poor, (0, 1)), ("ill", ill, ("no", "very"))):
            code = [0, 1] if name == "poor" else [0, 2]
            true = (code == codes[step - 2 : step].T).all(axis=1)[both].mean()
            found = view[name].proportion(Pattern(*values), step=step)
            assert found.value == pytest.approx(true, abs=4 * found.error)
            wide = view.panel.select(f"{name}_t{step - 1}", f"{name}_t{step}").drop_nulls()
            shares = (wide.rows().count(values)) / len(wide)
            assert shares == pytest.approx(true, abs=0.02), "histories of the people"


def test_answers_are_as_wide_as_they_say():
    poor, ill, absent = truth(people=300)
    mechanism = made(privacy=ZCDP(rho=0.5))
    codes = np.where(absent, 6, poor * 3 + ill)
    counts = [np.zeros(49, np.int64)]
    counts += [np.bincount(7 * codes[t - 1] + codes[t], minlength=49) for t in range(1, 5)]
    found = []
    for seed in range(150):
        state, noise = mechanism.init(), Noise.insecure(seed)
        for step, count in enumerate(counts):
            state = mechanism.measure(state, Counts(count, 0 * count), noise.at(step)).state
        view = mechanism.view(state.public)
        asked = view.count(poor=1, ill="no"), view["ill"].estimate(Pattern("no", "some"))
        found.append([(one.value, one.error) for one in asked])
    values, errors = np.moveaxis(np.array(found), 2, 0)
    true = [(codes[4] == 3).sum(), ((ill[3] == 0) & (ill[4] == 1) & ~absent[3] & ~absent[4]).sum()]
    assert values.std(axis=0) == pytest.approx(errors.mean(axis=0), rel=0.2)
    assert (np.abs(values.mean(axis=0) - true) < 4 * errors.mean(axis=0) / 150**0.5).all()


@pytest.mark.parametrize("neighbours", [AddRemove, Replace, Null], ids=repr)
def test_it_keeps_the_promises_of_a_mechanism(neighbours):
    rows = [(rows, None) for rows in frames(*truth(people=12, steps=4))]
    mechanism = made(horizon=4, neighbours=neighbours)
    assert mechanism.guarantee.loss == ZCDP(rho=5)
    check_mechanism(mechanism, rows)


def test_combinations_beside_the_budget_are_caught(monkeypatch):
    rows = [(rows, None) for rows in frames(*truth(people=12, steps=4))]

    def panels(self):
        whole = {**vars(self), "privacy": self.privacy}
        whole = {name: value for name, value in whole.items() if name in PLAIN}
        return tuple(
            PanelWindow(**{**whole, "domain": Schema(**{name: one})})
            for name, one in zip(self.domain.columns, self.domain.attributes, strict=True)
        )

    monkeypatch.setattr(columns.PanelColumns, "panels", property(panels))
    with pytest.raises(AssertionError, match="within the declared loss"):
        check_mechanism(made(horizon=4), rows)


def test_what_cannot_be_kept_or_asked_is_refused():
    for changes, words in (
        ({"domain": Schema(a=Integer(0, 1))}, "two or three attributes"),
        ({"domain": Schema(a=Integer(0, 99), b=Integer(0, 99)), "window": 1}, "at most 255"),
        ({"window": 9, "horizon": 9}, "more than"),
        ({"window": 6}, "longer than the horizon"),
    ):
        with pytest.raises(ConfigError, match=words):
            made(**changes)
    with pytest.raises(ConfigError, match="one attribute"):
        PanelWindow(**PLAIN)
    stream = Stream(made(), noise=Noise.insecure(1))
    for rows in frames(*truth(steps=2)):
        view = stream.push(rows).view
    with pytest.raises(ConfigError, match="ask for one of 'poor', 'ill'"):
        view["age"]
    with pytest.raises(ConfigError, match="ask for one of 'poor', 'ill'"):
        view.count(age=3)


def test_how_often_between_two_steps():
    rng = np.random.default_rng(5)
    poor = (rng.random((6, 900)) < 0.3).astype(int)
    parts = {**PLAIN, "domain": Schema(poor=Integer(0, 1)), "horizon": 6}
    own = {name: value for name, value in parts.items() if name != "window"}
    window = Stream(PanelWindow(**{**parts, "window": 3}), noise=Noise.insecure(1))
    weight = Stream(PanelCumulative(**own), noise=Noise.insecure(1))
    for month in poor:
        frame = pl.DataFrame({"id": range(900), "poor": month})
        views = window.push(frame).view, weight.push(frame).view
    for first, last in ((1, 1), (2, 4), (4, 6), (1, 3)):
        asked, true = Between(first=first, last=last), poor[first - 1 : last].sum()
        for view in views:
            found, mean = view.estimate(asked), view.proportion(asked)
            assert found.value == pytest.approx(true, abs=4 * found.error)
            assert mean.value == pytest.approx(true / 900, abs=5 * mean.error)
    assert views[1].estimate(Between(first=1, last=6)).value == pytest.approx(poor.sum(), abs=60)
    for view, query, words in (
        (views[0], Between(first=1, last=5), "keeps windows of 3"),
        (views[1], Between(first=2, last=9), "from 1 to 6"),
        (views[1], Between(first=2, last=3, value=0), "ask for that one"),
    ):
        with pytest.raises(ConfigError, match=words):
            view.estimate(query)
    with pytest.raises(ConfigError, match="leave step= out"):
        views[1].estimate(Between(first=1, last=2), step=3)
    with pytest.raises(ConfigError, match="not be before"):
        Between(first=3, last=2)


@pytest.mark.slow
def test_the_error_of_how_often_is_that_of_many_runs():
    own = {**PLAIN, "domain": Schema(poor=Integer(0, 1)), "privacy": ZCDP(rho=0.5)}
    own.pop("window")
    mechanism = PanelCumulative(**own)
    nobody, answers = np.zeros(6, np.int64), []
    for seed in range(400):
        state, noise = mechanism.init(), Noise.insecure(seed)
        for step in range(5):
            state = mechanism.measure(state, Counts(nobody, nobody), noise.at(step)).state
        answers.append(mechanism.view(state.public).estimate(Between(first=3, last=5)))
    found = np.array([one.value for one in answers])
    assert found.std() == pytest.approx(answers[0].error, rel=0.12)
    assert abs(found.mean()) < 4 * answers[0].error / 20


def test_at_least_b_is_not_a_difference_of_weights():
    """Bun et al., section 1.1: how many had the value exactly b times between t1 and t2 is not
    S_b(t2) - S_{b-1}(t1): one person with the value at every step refutes it.
    """
    weights = np.cumsum(np.ones(6, int))
    reached = [[int(weight >= b) for b in range(8)] for weight in weights]
    truly, said = int(weights[5] - weights[2] == 3), reached[5][3] - reached[2][2]
    assert (truly, said) == (1, 0)
    assert AtLeast(times=3, of=3).weights([0, 1])[1, 1, 1] == 1, "a window of three steps knows"
