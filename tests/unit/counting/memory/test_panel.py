"""What is remembered of a panel's people, against a plain rendering of the same rules."""

import numpy as np
import polars as pl
import pytest

from tailrace import (
    ZCDP,
    AddRemove,
    ConfigError,
    DataError,
    Integer,
    Mismatch,
    Missing,
    PanelWindow,
    Schema,
    Stream,
    User,
)
from tailrace.counting.memory import LastValues, Weight, batch, check, follow, levels
from tailrace.counting.plan import Plan

KEY = bytes(range(16))
POLICIES = list(Missing)
# A step without a report is one with the last value.
LACKING = (Missing.Absent, Missing.Category)


def windows(missing, first=False, window=3, values=3):
    return LastValues(window=window, values=values, missing=missing, first=first)


def weights(missing, first=False):
    return Weight(value=1, horizon=8, missing=missing, first=first)


def reports(rng, step, people=40):
    """(id, value) of a step: most report once, some twice, some not at all, some join later, some
    outside the domain.
    """
    ids = [
        i for i in range(people) if i % 4 or step > 1 for _ in range(rng.choice([0, 1, 1, 1, 1, 2]))
    ]
    return np.array(ids, np.int64), rng.choice([-1, 0, 1, 2], len(ids), p=[0.05, 0.4, 0.35, 0.2])


def value_of(rows, person):
    said = {int(v) for i, v in zip(*rows, strict=True) if i == person and v >= 0}
    return said.pop() if len(said) == 1 else None


def histories(steps, missing, last):
    """What each person counts as having reported, None while it is not counted: from its own rows
    only.
    """
    found = {}
    for person in {int(i) for ids, _ in steps for i in ids}:
        history, joined, gone = [], False, False
        for rows in steps:
            value = value_of(rows, person)
            seen = any(i == person and v >= 0 for i, v in zip(*rows, strict=True))
            if missing is Missing.Drop:
                gone |= value is None
                value = None if gone else value
            elif missing is Missing.Carry:
                value = history[-1] if value is None and joined else value
            elif missing in LACKING:
                value = last if value is None and (joined or seen) else value
            joined |= value is not None
            history.append(value)
        found[person] = history
    return found


@pytest.fixture(params=POLICIES, ids=lambda policy: policy.name)
def missing(request):
    return request.param


@pytest.fixture(params=[19, 3], ids=["one slice", "many slices"])
def slices(request, monkeypatch):
    monkeypatch.setattr(batch, "_SLICE_BITS", request.param)


def follow_all(folder, steps, recall):
    counts, old = [], None
    for number, rows in enumerate(steps, 1):
        new = folder / str(number)
        counts.append(follow(old=old, new=new, recall=recall(number == 1), key=KEY, rows=rows))
        old = new
    return counts


@pytest.mark.parametrize("window", [1, 2, 3])
def test_windows_are_those_of_each_persons_own_history(tmp_path, missing, window, slices):
    rng = np.random.default_rng(window)
    steps = [reports(rng, step) for step in range(1, 7)]
    counts = follow_all(tmp_path, steps, lambda first: windows(missing, first, window))
    everybody = histories(steps, missing, last=2)
    for step in range(window, 7):
        expected = np.zeros(3**window, int)
        for history in everybody.values():
            recent = history[:step]
            if recent[-1] is None:
                continue
            if missing in LACKING:
                recent = [2 if value is None else value for value in recent]
            if None not in recent[-window:]:
                expected[int("".join(map(str, recent[-window:])), 3)] += 1
        assert counts[step - 1].tolist() == expected.tolist(), f"step {step}"


def test_weights_count_who_reaches_them(tmp_path, missing, slices):
    rng = np.random.default_rng(9)
    steps = [reports(rng, step) for step in range(1, 9)]
    counts = np.array(follow_all(tmp_path, steps, lambda first: weights(missing, first)))
    everybody = histories(steps, missing, last=2).values()
    for step in range(1, 9):
        ones = [sum(value == 1 for value in history[:step]) for history in everybody]
        reached = [sum(number >= b for number in ones) for b in range(1, 9)]
        assert counts[:step, 1:].sum(axis=0).tolist() == reached, f"step {step}"
    assert counts[0, 0] == sum(history[0] is not None for history in everybody), (
        "seen at the first step"
    )


def rewritten(people, rows, recall, *, first):
    """One step by the plain rules, with everybody's state written again; and its counts."""
    said, counts, after = {}, np.zeros(recall.size, int), {}
    for person, value in zip(*rows, strict=True):
        if value >= 0:
            said.setdefault(int(person), set()).add(int(value))
    for person in said.keys() | people.keys():
        reports, known = said.get(person, set()), person in people
        value = reports.pop() if len(reports) == 1 else None
        if value is None and not known and recall.missing not in LACKING:
            continue
        if recall.missing is Missing.Drop and (value is None or not (known or first)):
            continue
        if isinstance(recall, Weight):
            weight, last = people.get(person, (0, None))
            if value is None and recall.missing is Missing.Carry:
                value = last
            counts[0] += not known
            weight += value == recall.value
            counts[weight] += value == recall.value
            after[person] = (weight, value)
            continue
        lacking = recall.values - 1
        missed = recall.missing in LACKING
        history = people.get(person, [lacking] * recall.kept if missed else [])
        if value is None:
            value = lacking if missed else history[-1]
        history = [*history, value]
        if len(history) >= recall.window:
            counts[int("".join(map(str, history[-recall.window :])), recall.values)] += 1
        after[person] = history
    return after, counts


@pytest.mark.parametrize(
    "make", [lambda m, f: windows(m, f), lambda m, f: windows(m, f, 1), weights]
)
@pytest.mark.parametrize("merges", [True, False])
def test_few_reports_count_as_if_everybody_were_written_again(
    tmp_path, missing, make, merges, monkeypatch
):
    """Most are silent, for one step or many; some join, some contradict themselves."""
    if merges:
        monkeypatch.setattr(levels, "RATIO", 2)
        monkeypatch.setattr(levels, "_LEAST", 1)
    rng, people, old = np.random.default_rng(4), {}, None
    for number in range(1, 9):
        many = 60 if number == 1 else 12
        ids = rng.integers(0, 40 + 5 * number, many)
        rows = ids, rng.choice([-1, 0, 1, 2], many)
        recall, new = make(missing, number == 1), tmp_path / str(number)
        counts = follow(old=old, new=new, recall=recall, key=KEY, rows=rows)
        people, expected = rewritten(people, rows, recall, first=number == 1)
        assert counts.tolist() == expected.tolist(), f"step {number}"
        assert check(new) == len(people)
        old = new


@pytest.mark.parametrize("missing", [Missing.Carry, *LACKING])
def test_a_panel_writes_those_whose_reports_are_news(tmp_path, missing):
    ids, recall = np.arange(20_000), windows(missing, True)
    first = ids % 3
    follow(old=None, new=tmp_path / "1", recall=recall, key=KEY, rows=(ids, first))
    for number, rows in enumerate(((ids[:0], first[:0]), (ids[:50], (first[:50] + 1) % 3)), 2):
        old, new = tmp_path / str(number - 1), tmp_path / str(number)
        counts = follow(old=old, new=new, recall=windows(missing), key=KEY, rows=rows)
        shared = [file for file in new.iterdir() if file.stat().st_nlink > 1]
        assert len(shared) == 1 and shared[0].name == "1"
        assert sum(f.stat().st_size for f in new.iterdir() if f not in shared) < 50 * 30 + 1_500
    assert counts.sum() == 20_000, "and everybody is counted"


def test_two_reports_that_agree_are_one_and_two_that_do_not_are_none(tmp_path):
    twice = np.array([7, 7, 8, 8]), np.array([1, 1, 1, 2])
    one = windows(Missing.Carry, True, window=1)
    assert follow(old=None, new=tmp_path / "a", recall=one, key=KEY, rows=twice).tolist() == [
        0,
        1,
        0,
    ]


def test_others_do_not_change_what_is_counted_of_a_person(tmp_path, missing):
    rng = np.random.default_rng(3)
    steps = [reports(rng, step) for step in range(1, 6)]
    alone = [(ids[ids == 5], values[ids == 5]) for ids, values in steps]
    without = [(ids[ids != 5], values[ids != 5]) for ids, values in steps]
    parts = [(tmp_path / name) for name in ("all", "alone", "without")]
    for part in parts:
        part.mkdir()
    runs = [
        follow_all(part, rows, lambda first: windows(missing, first))
        for part, rows in zip(parts, (steps, alone, without), strict=True)
    ]
    for whole, one, rest in zip(*runs, strict=True):
        assert (whole == one + rest).all() and one.sum() <= 1


def test_a_person_takes_28_bytes_an_index_and_a_filter(tmp_path):
    rows = np.arange(10_000), np.zeros(10_000, np.int64)
    follow(old=None, new=tmp_path / "a", recall=windows(Missing.Carry, True), key=KEY, rows=rows)
    assert check(tmp_path / "a") == 10_000
    # 24 bytes of index for 64 people, a byte of filter each, and one state.
    index = -(-10_000 // 64) * 24
    size = sum(file.stat().st_size for file in (tmp_path / "a").iterdir() if file.name != "header")
    assert size == 280_000 + index + 10_000 + 16


def test_a_memory_is_refused_by_another_rule_or_key(tmp_path):
    rows = np.arange(3), np.zeros(3, np.int64)
    follow(old=None, new=tmp_path / "a", recall=windows(Missing.Carry, True), key=KEY, rows=rows)
    for recall, key in (
        (windows(Missing.Drop), KEY),
        (weights(Missing.Carry), KEY),
        (windows(Missing.Carry), bytes(16)),
    ):
        with pytest.raises(Mismatch):
            follow(old=tmp_path / "a", new=tmp_path / "b", recall=recall, key=key, rows=rows)
    with pytest.raises(ConfigError, match="never changed"):
        follow(
            old=tmp_path / "a",
            new=tmp_path / "a",
            recall=windows(Missing.Carry),
            key=KEY,
            rows=rows,
        )


def test_a_plan_with_a_memory_counts_units_and_not_rows():
    plan = Plan(Schema(status=Integer(0, 2)), key="id", memory=windows(Missing.Carry))
    assert plan.size == 27
    with pytest.raises(ConfigError, match="counts units"):
        plan.counts(None)


@pytest.mark.parametrize("name", ["month", " Step ", "DATE"])
def test_a_whole_panel_is_refused_by_its_columns_and_never_by_its_rows(tmp_path, name):
    panel = PanelWindow(
        domain=Schema(poor=Integer(0, 1)),
        unit=User(column="id"),
        window=2,
        horizon=3,
        privacy=ZCDP(rho=1),
        neighbours=AddRemove,
    )
    rows = pl.DataFrame({"id": [1, 1, 2, 2], "poor": [0, 1, 1, 0]})
    with Stream.create(tmp_path / "panel", panel, population="p") as stream:
        for frame in (
            rows.with_columns(pl.lit(1).alias(name)),
            rows[:0].with_columns(pl.lit(1).alias(name)).lazy(),
        ):
            with pytest.raises(
                DataError, match=f"a column '{name}'.* one step at a time.* 'id', 'poor' alone"
            ):
                stream.push(frame)
        assert stream.push(rows.with_columns(income=5)).step == 1, (
            "nothing is lost, and ids twice are content"
        )
