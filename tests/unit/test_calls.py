"""Wrong calls that people make: one sentence each, for all mechanisms, losses and units."""

import inspect
import pickle
from typing import Any

import pytest

import tailrace
from tailrace import papers
from tailrace.calls import told
from tailrace.mechanisms.panel.queries import AtLeast

tr: Any = tailrace  # called wrongly on purpose
WARD = tr.Schema(sex=tr.Categorical(["f", "m"]), age=tr.Integer(0, 99))
CITY = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
BIT = tr.Schema(poor=tr.Integer(0, 1))
PERSON = tr.User(column="id")
EVENTS = {"privacy": tr.PureDP(epsilon=1), "unit": tr.Event(), "horizon": 9}
SNAPSHOT = {**EVENTS, "domain": WARD, "unit": tr.User(column="id", records=1)}
PANEL = {
    "domain": BIT,
    "unit": PERSON,
    "horizon": 9,
    "privacy": tr.ZCDP(rho=1),
    "neighbours": tr.AddRemove,
}
JOURNEY = {
    "domain": CITY,
    "privacy": tr.PureDP(epsilon=1),
    "unit": tr.Event(),
    "trajectory": "t",
    "order": "o",
}
MADE = [
    *(
        (kind, {**EVENTS, "domain": WARD})
        for kind in (tr.HistogramStream, tr.TabularStream, tr.papers.TabularSteps)
    ),
    *(
        (kind, {**EVENTS, "domain": CITY})
        for kind in (tr.SpatialStream, tr.papers.PrivTreeStream, papers.privstream)
    ),
    (tr.SnapshotHistogram, SNAPSHOT),
    (papers.budget_absorption, SNAPSHOT),
    (tr.PanelWindow, {**PANEL, "window": 2}),
    (tr.PanelCumulative, PANEL),
    (papers.panel_window, {**PANEL, "window": 2}),
    (papers.panel_cumulative, PANEL),
    (tr.Trajectories, JOURNEY),
    (papers.trajectories, JOURNEY),
]
NAMES = [kind.__name__ for kind, _ in MADE]


@pytest.mark.parametrize(("kind", "right"), MADE, ids=NAMES)
def test_what_is_forgotten_is_asked_for_by_name(kind, right):
    for argument in right:
        rest = {name: value for name, value in right.items() if name != argument}
        with pytest.raises(tr.ConfigError, match=f"^{kind.__name__} needs {argument}=") as error:
            kind(**rest)
        if argument == "neighbours":
            assert str(error.value).endswith("neighbours=: AddRemove, Replace or Null.")
        if argument == "privacy":
            assert str(error.value).endswith(
                "PureDP(epsilon=...), ZCDP(rho=...) or ApproxDP(epsilon=..., delta=...)."
            )


@pytest.mark.parametrize(("kind", "right"), MADE, ids=NAMES)
def test_a_class_without_its_brackets(kind, right):
    for unit in (tr.Event, tr.User, tr.Window):
        if unit is tr.Event and kind in (tr.SnapshotHistogram, papers.budget_absorption):
            continue  # whose own sentence says which units they have
        with pytest.raises(
            tr.ConfigError,
            match=f"unit={unit.__name__} of .* lacks its brackets|protects|unit must be",
        ):
            kind(**{**right, "unit": unit})
    with pytest.raises(
        tr.ConfigError, match=r"lacks its brackets: write unit=User\(column=\.\.\.\)\.$"
    ):
        kind(**{**right, "unit": tr.User})
    with pytest.raises(
        tr.ConfigError, match=r"lacks its brackets: write privacy=PureDP\(epsilon=\.\.\.\)\.$"
    ):
        kind(**{**right, "privacy": tr.PureDP})


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: tr.PureDP(1),
            "PureDP takes its arguments by name: PureDP(epsilon=...) (it has epsilon).",
        ),
        (lambda: tr.PureDP(eps=1), "PureDP has no argument 'eps': it has epsilon."),
        (lambda: tr.PureDP(), "PureDP needs epsilon=: a number."),
        (
            lambda: tr.Window("id"),
            "Window takes its arguments by name: Window(steps=..., column=...) ",
        ),
        (lambda: tr.Event(1), "Event takes its arguments by name: Event() (it has none)."),
        (lambda: tr.Integer(0), "Integer needs high=: a whole number."),
        (lambda: tr.Integer(0, 1, 2), "Integer takes further arguments by name: "),
        (lambda: tr.Integer(0, low=1), "Integer was given low= twice, by place and by name."),
        (lambda: tr.Schema(1), "Schema takes its arguments by name: "),
        (lambda: tr.counters.best(), "best needs privacy=: PureDP(epsilon=...), "),
        (lambda: tr.metrics.count(5, 5), "points of count must be an array of numbers."),
    ],
)
def test_the_sentence(call, sentence):
    with pytest.raises(tr.ConfigError) as error:
        call()
    assert str(error.value).startswith(sentence)


def test_event_without_brackets_in_a_guarantee():
    with pytest.raises(
        tr.ConfigError, match=r"unit=Event of Guarantee lacks its brackets: write unit=Event\(\)\."
    ):
        tr.Guarantee(tr.PureDP(epsilon=1), tr.Event, tr.AddRemove, 3)


def test_a_fault_of_the_function_itself_is_not_hidden():
    """Where every argument is what it should be, the error is ours and stays as it is."""

    @told
    def broken(*, number: int) -> int:
        return number // 0

    with pytest.raises(ZeroDivisionError):
        broken(number=1)
    with pytest.raises(tr.ConfigError, match=r"number of broken must be a whole number\."):
        broken(number="x")  # type: ignore[arg-type]


def test_a_told_class_stays_what_it_was():
    loss = tr.PureDP(epsilon=1)
    assert str(inspect.signature(tr.PureDP)) == "(*, epsilon: 'Number') -> 'None'"
    assert pickle.loads(pickle.dumps(loss)) == loss and isinstance(loss, tr.PureDP)


def test_a_value_outside_a_domain_lists_what_there_is():
    stream = tr.Stream(tr.HistogramStream(domain=WARD, **EVENTS), noise=tr.Noise.insecure(1))
    view = stream.push(None).view
    with pytest.raises(
        tr.ConfigError, match=r"Column 'sex' has no such value in its domain, which has 'f', 'm'\.$"
    ):
        view.count(sex="x")
    with pytest.raises(
        tr.ConfigError, match=r"Column 'sex' has no such value in its domain, which has 'f', 'm'\.$"
    ):
        view.count(sex=["f", 3])
    with pytest.raises(
        tr.ConfigError, match=r"which has 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\. 99\.$"
    ):
        view.count(age=100)
    with pytest.raises(
        tr.ConfigError, match=r"The domain has no such value: ask for one of 'a', 'b'\.$"
    ):
        AtLeast(times=1, of=1, value="c").weights(["a", "b"])
