"""Values that nobody declared appear once enough rows have them, and not before."""

import math

import duckdb
import numpy as np
import polars as pl
import pytest

import tailrace as tr
from processes import call
from tailrace.domain.growing import spelling
from tailrace.mechanisms.shared.growth import Growth
from tailrace.storage.codec import pack, unpack

TREES = tr.Schema(
    age=tr.Integer(0, 1), tree=tr.Categorical(["oak", "ash"], outside="other", growing=3)
)
PARTS = {
    "domain": TREES,
    "privacy": tr.ApproxDP(epsilon=4, delta=1e-6),
    "unit": tr.Event(),
    "horizon": 8,
    "deletes": False,
}


def rows(seed, many=600, names=("oak", "elm", "fir", None)):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {"age": rng.integers(0, 2, many), "tree": rng.choice([*names], many).tolist()}
    )


def mechanism(**options):
    return tr.HistogramStream(**{**PARTS, **options})


def passes(growth, threshold, rows):
    """The exact probability that a text with so many rows from the first step on ever passes."""
    scale = float(growth.scale)
    p, reach = math.exp(-1 / scale), 60 * math.ceil(scale)
    kept = np.arange(-reach, reach)
    weights = (1 - p) / (1 + p) * p ** np.abs(kept)
    needed = threshold + kept - rows
    above, below = p ** np.maximum(needed, 1), p ** (1.0 - np.minimum(needed, 1))
    tail = np.where(needed > 0, above / (1 + p), 1 - below / (1 + p))
    never = np.exp(growth.horizon * np.log1p(-np.minimum(tail, 1 - 1e-16)))
    return float((weights * (1 - never)).sum())


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize(("epsilon", "horizon"), [(0.1, 365), (1, 12), (5, 1)])
def test_a_value_of_one_row_alone_appears_with_probability_below_delta(epsilon, delta, horizon):
    growth = Growth(tr.ApproxDP(epsilon=epsilon, delta=delta), 1, horizon, 9)
    threshold = growth.threshold
    d = passes(growth, threshold, 0)
    assert (1 + math.exp(epsilon)) * d <= growth.delta(threshold) <= delta, "the bound is one"
    assert passes(growth, threshold, 1) <= delta
    assert growth.delta(threshold - 1) > delta / (1 + 1e-6), "no lower threshold is proved"
    assert passes(growth, threshold // 2, 1) > delta, "half of the threshold would be caught"
    assert growth.loss.epsilon == growth.privacy.epsilon


def test_values_of_one_person_alone_appear_with_probability_below_delta():
    """All of a person's rows have one value, or each has its own."""
    growth = Growth(tr.ApproxDP(epsilon=1, delta=1e-6), 5, 52, 9, hashed=True)
    assert passes(growth, growth.threshold, 5) <= 1e-6
    assert 5 * passes(growth, growth.threshold, 1) <= 1e-6
    assert passes(growth, growth.threshold // 2, 5) > 1e-6


def test_the_loss_is_the_declared_one():
    for epsilon in (0.5, 4):
        loss = mechanism(privacy=tr.ApproxDP(epsilon=epsilon, delta=1e-6)).guarantee.loss
        assert loss.epsilon <= epsilon
        assert loss.delta <= tr.ApproxDP(epsilon=1, delta=1e-6).delta


def test_a_value_counts_as_other_until_it_is_taken_up():
    stream = tr.Stream(mechanism(), noise=tr.Noise.insecure(3))
    first = stream.push(rows(0, 30))
    assert first.view.grown == {}
    assert set(first.table["tree"]) <= {"oak", "ash", None}
    second, third = stream.push(rows(1)), stream.push(rows(2))
    assert second.view.grown == third.view.grown == {"elm": 2, "fir": 2}
    assert third.view.domain.attributes[1].values == ("oak", "ash", "elm", "fir")
    truth = rows(2)["tree"].value_counts()
    for name in ("elm", "fir"):
        found, exact = third.view.count(tree=name), truth.filter(tree=name)["count"][0]
        assert abs(found.value - exact) < 6 * found.error
    shown = third.table["tree"].value_counts()
    assert abs(shown.filter(tree="elm")["count"][0] - truth.filter(tree="elm")["count"][0]) < 9
    assert round(third.view.count().value) in range(1200, 1260)


def test_the_order_of_rows_changes_nothing():
    seen = []
    for seed in (None, 1, 2):
        stream = tr.Stream(mechanism(), noise=tr.Noise.insecure(3))
        for step in range(3):
            frame = rows(step)
            release = stream.push(
                frame if seed is None else frame.sample(fraction=1, shuffle=True, seed=seed)
            )
        seen.append((list(release.view.grown.items()), release.table.sort("age", "tree").rows()))
    assert seen[0] == seen[1] == seen[2]


def test_beyond_the_room_nothing_is_taken_up():
    names = [f"t{i}" for i in range(6)]
    stream = tr.Stream(mechanism(), noise=tr.Noise.insecure(3))
    for step in range(3):
        found = stream.push(rows(step, 3000, names)).view
    assert list(found.grown) == ["t0", "t1", "t2"], "in alphabetical order"


def test_unknown_values_are_counted_alike_on_every_engine():
    frame = pl.DataFrame(
        {
            "age": [0, 1, 0, 1, 7, 0, 1, 0, 1],
            "tree": [" elm", "elm", "7", "7.0", "elm", "oak", None, "TRUE", "x" * 300],
        }
    )
    plan = mechanism().plan(mechanism().init().public)
    arrow = frame.to_arrow()
    engines = [frame, frame.lazy(), arrow, duckdb.from_arrow(arrow), frame.to_pandas()]
    for one in [*engines, arrow.to_reader()]:
        counts = plan.counts(one)
        assert counts.rows == {"7": 2, "elm": 2, "true": 1}
        assert counts.adds.sum() == 8
    numbers = pl.DataFrame({"age": [0, 0, 1], "tree": [7, 7, 8]})
    assert plan.counts(numbers).rows == plan.counts(numbers.lazy()).rows == {"7": 2, "8": 1}
    # As a step that was cut off is read again.
    assert unpack(pack(counts), like=plan.none).rows == counts.rows
    both = plan.counts(frame[:2]) + plan.counts(frame[2:])
    assert both.rows == counts.rows
    assert spelling("\x1b[2J", trimmed=True) is None, "control characters are never published"


def people(seed):
    return rows(seed).with_columns(id=np.random.default_rng(seed).integers(0, 400, 600))


def test_rows_of_people_are_bounded_and_counted_alike_in_any_way():
    person = mechanism(
        unit=tr.User(column="id", events=3), privacy=tr.ApproxDP(epsilon=12, delta=1e-6)
    )
    ways = {
        "whole": lambda stream, frame: stream.push(frame),
        "lazy": lambda stream, frame: stream.push(frame.lazy()),
        "duckdb": lambda stream, frame: stream.push(duckdb.from_arrow(frame.to_arrow())),
        "pandas": lambda stream, frame: stream.push(frame.to_pandas()),
        "parts": in_parts,
    }
    seen = {}
    for name, push in ways.items():
        stream = tr.Stream(person, noise=tr.Noise.insecure(3))
        for step in range(3):
            view = push(stream, people(step)).view
        seen[name] = (view.grown, view.estimates.tolist())
    assert all(one == seen["whole"] for one in seen.values())
    assert view.grown == {"elm": 1, "fir": 1}
    assert view.count().value < 3 * 400 + 60, "at most three rows of a person"


def in_parts(stream, frame):
    shuffled = frame.sample(fraction=1, shuffle=True, seed=1)
    stream.add(shuffled[:200].lazy(), key=f"first of {stream.step}")
    stream.add(shuffled[200:], key=f"rest of {stream.step}")
    return stream.publish()


def test_a_kept_stream_goes_on_with_what_it_took_up(tmp_path):
    book = tmp_path / "book"
    told = {"population": "trees", "ledger": book, "noise": tr.Noise.insecure(3)}
    with tr.Stream.create(tmp_path / "s", mechanism(), **told) as stream:
        for step in range(3):
            stream.push(rows(step))
        whole = stream.release(3)
    with tr.Stream.open(tmp_path / "s", ledger=book) as stream:
        assert stream.release(3).table.equals(whole.table)
        before = stream.release(3)
        stream.add(rows(3, 300), key="a")
        stream.add(rows(4, 300), key="b")
        after = stream.publish()
        gone = len(after.changes.removed)
    assert gone < 60, "rows of values taken up are known again, and stay"
    assert before.view.grown == after.view.grown == {"elm": 1, "fir": 1}
    releases = tr.open_releases(tmp_path / "s")
    assert releases.grown() == {"elm": 1, "fir": 1}
    assert releases.count(tree="elm") == after.view.count(tree="elm")
    assert releases.marginal("tree").to_frame()["tree"].to_list() == [
        "oak", "ash", "elm", "fir", None,
    ]  # fmt: skip
    assert releases.domain == TREES
    call("query", tmp_path / "s", "count where tree = elm")
    call("verify", tmp_path / "s")


CONFIGURATION = """
[stream]
path = "trees.tail"
population = "trees"
[mechanism]
kind = "HistogramStream"
horizon = 3
privacy = { kind = "ApproxDP", epsilon = 8, delta = 1e-6 }
unit = { kind = "Event" }
deletes = false
[schema]
age = { kind = "Integer", low = 0, high = 1 }
tree = { kind = "Categorical", values = ["oak", "ash"], outside = "other", growing = 5 }
[source]
kind = "Folder"
path = "in"
files = "*.csv"
"""


def test_commands_take_a_growing_list(tmp_path):
    (tmp_path / "stream.toml").write_text(CONFIGURATION)
    (tmp_path / "in").mkdir()
    for step in range(3):
        rows(step).write_csv(tmp_path / "in" / f"{step}.csv")
    for command in ("check", "run", "report", "status", "plan"):
        call(command, "stream.toml", cwd=tmp_path)
    found = call("query", "stream.toml", "count where tree = elm", "--json", cwd=tmp_path)
    assert '"error"' in found.stdout


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: mechanism(privacy=tr.PureDP(epsilon=1)), "ApproxDP.*delta is the probability"),
        (lambda: mechanism(privacy=tr.ZCDP(rho=1)), "ApproxDP"),
        (lambda: mechanism(deletes=True), r"events=m\), deletes=False and a horizon"),
        (lambda: mechanism(horizon=None), "a horizon"),
        (lambda: mechanism(unit=tr.Window(steps=2, column="id", events=2)), r"unit=Event\(\)"),
        (lambda: mechanism(growing_share=1), "below 1"),
        (lambda: tr.Categorical([1, 2], outside="other", growing=True), "texts"),
        (lambda: tr.Categorical(["a"], growing=True), "outside='other'"),
        (lambda: tr.Categorical(["a"], outside="other", growing=-1), "growing must be True"),
        (
            lambda: tr.TabularStream(
                domain=TREES, privacy=PARTS["privacy"], unit=tr.Event(), horizon=2
            ),
            "growing list 'tree'",
        ),
        (
            lambda: mechanism(
                domain=tr.Schema(tree=TREES.attributes[1], paid=tr.Amount(0, 9)),
            ),
            "then no amounts",
        ),
    ],
)
def test_what_cannot_grow_is_told_in_a_sentence(make, why):
    with pytest.raises(tr.ConfigError, match=why):
        make()
