"""One person inside any w consecutive steps, in streams of events: blocks, bounds, losses."""

import contextlib
import itertools
import shutil

import numpy as np
import polars as pl
import pytest

from samples import FOLDER, LOSSES, growing, rows
from tailrace import (
    Box,
    Categorical,
    ConfigError,
    Guarantee,
    HistogramStream,
    Integer,
    Noise,
    PureDP,
    Schema,
    SpatialStream,
    Stream,
    TabularStream,
    Window,
    counters,
    papers,
)
from tailrace.checks import check_mechanism
from tailrace.checks.mechanism import check_loss
from tailrace.config import load
from tailrace.counting.memory import bound
from tailrace.mechanisms.shared import events
from tailrace.privacy import guarantee
from tailrace.privacy.unit import events_of
from tailrace.storage import durable
from tailrace.storage.codec import pack

WARD = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 3), ward=Integer(0, 5))
SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
DOMAINS = {SpatialStream: SQUARE, TabularStream: WARD, HistogramStream: WARD}
BATCHES = [(rows(0), None), (rows(1), rows(0, 5)), (None, None), (rows(2, 9), rows(1, 9))]
PURE = PureDP(epsilon=1)
# So little noise that counts are as they were.
CLEAR = PureDP(epsilon=300)
EVERYBODY = pl.DataFrame({"id": [7] * 5 + [8], "sex": ["f"] * 5 + ["m"]})


def stream(kind, *, deletes=True, steps=2, horizon=7, privacy=PURE, **options):
    unit = Window(steps=steps, column="id", events=2)
    whose = {"domain": DOMAINS[kind], "privacy": privacy, "unit": unit, "horizon": horizon}
    return kind(**whose, deletes=deletes, **options)


@pytest.mark.parametrize(
    ("kind", "privacy"),
    [
        pytest.param(kind, loss, marks=[] if i == j else [pytest.mark.slow])
        for i, kind in enumerate(DOMAINS)
        for j, loss in enumerate(LOSSES)
    ],
)
def test_conformance(kind, privacy):
    check_mechanism(stream(kind, privacy=privacy), BATCHES)
    check_mechanism(stream(kind, privacy=privacy, deletes=False, horizon=None), growing(BATCHES))


def test_a_window_raises_counts_by_two_bounds_and_lowers_them_by_one():
    assert events_of(stream(SpatialStream, deletes=False)) == (4, 2)
    assert events_of(stream(SpatialStream)) == (6, 6)
    assert events_of(stream(SpatialStream, steps=1, deletes=False)) == (2, 0)
    assert (
        stream(SpatialStream).atoms.loss(6, 6).epsilon
        == 12 * stream(SpatialStream).atoms.loss(1, 0).epsilon
    )


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("deletes", [False, True])
def test_two_bounds_would_not_pay_for_a_window(monkeypatch, kind, deletes):
    """The sum of both blocks' bounds forgets the rows that are accepted in place of a window's."""

    def naive(mechanism):
        return 4, 4 if mechanism.deletes else 0

    for module in (events, guarantee):
        monkeypatch.setattr(module, "events_of", naive)
    # Under much noise, the few events of an epoch of places would never be measured.
    clear = stream(kind, deletes=deletes, privacy=CLEAR)
    with pytest.raises(AssertionError, match="the loss stays within the claim"):
        check_loss(clear, BATCHES if deletes else growing(BATCHES))


def test_a_memory_that_forgets_too_often_is_caught(monkeypatch):
    monkeypatch.setattr(Window, "begins", lambda self, step: True)
    with pytest.raises(AssertionError, match="the loss stays within the claim"):
        check_loss(stream(SpatialStream, steps=4, privacy=CLEAR), BATCHES)


def test_deletions_have_a_bound_of_their_own(tmp_path):
    """They are not matched with insertions, and neither takes room from the other."""
    ids, unit = np.array([7, 7, 7, 8, None], object), Window(steps=9, column="id", events=2)
    where, told = {"unit": unit, "key": bytes(16)}, []
    for step in (1, 2, 3):
        old = tmp_path / str(step - 1) if step > 1 else None
        adds, deletes = (ids, np.array([0, 0, 0, 1, 1])), (ids, np.array([4, 4, 4, 5, 5]))
        found = bound(old=old, new=tmp_path / str(step), adds=adds, deletes=deletes, **where)
        told.append((sorted(found.adds.tolist()), sorted(found.deletes.tolist())))
    assert told == [([0, 0, 1], [4, 4, 5]), ([1], [5]), ([], [])]


def counting(steps):
    unit = Window(steps=steps, column="id", events=2)
    sex = Schema(sex=Categorical(["f", "m"]))
    whose = {"privacy": CLEAR, "unit": unit, "horizon": None}
    return HistogramStream(domain=sex, counter=counters.Simple(), **whose)


def pushed(steps):
    with Stream(counting(steps), noise=Noise.insecure(1)) as made:
        for step in range(1, 9):
            # Deletes also of rows that came in an earlier block.
            yield made.push(EVERYBODY, EVERYBODY if step == 5 else None)


def test_each_block_has_a_bound_of_its_own():
    told = [released.view.count(sex="f").value for released in pushed(steps=3)]
    assert told == pytest.approx([2, 2, 2, 4, 2, 2, 4, 4], abs=0.01)
    told = [released.view.count(sex="m").value for released in pushed(steps=3)]
    assert told == pytest.approx([1, 2, 2, 3, 3, 3, 4, 5], abs=0.01)


class Cut(BaseException):
    """The process ends here."""


def test_cut_off_in_a_block_s_first_step_a_stream_forgets_once(tmp_path, monkeypatch):
    """The releases and the memory are those of a stream that was never cut off."""
    (tmp_path / "made").mkdir()
    made = {"population": "w", "noise": Noise.insecure(1)}
    with Stream.create(tmp_path / "made" / "ward.tail", counting(3), **made) as stream:
        for _ in range(3):
            stream.push(EVERYBODY)

    def ended(path):
        with Stream.open(path) as stream:
            told = [stream.push(EVERYBODY, step=step).view.count(sex="f").value for step in (4, 5)]
            state = stream._standing.state
        memory = [file.read_bytes() for file in sorted(path.rglob("memory/*/*"))]
        return told, pack(state.public), pack(state.private), memory

    def cut_off(path, number):
        """Cut off at a point of the step, if it has so many."""
        left = [number]

        def hook(_):
            left[0] -= 1
            if left[0] == 0:
                raise Cut

        with Stream.open(path) as stream, monkeypatch.context() as patch:
            patch.setattr(durable, "hook", hook)
            with contextlib.suppress(Cut):
                stream.push(EVERYBODY, step=4)
        return left[0] <= 0

    def copied(name):
        return shutil.copytree(tmp_path / "made", tmp_path / str(name)) / "ward.tail"

    whole = ended(copied("whole"))
    assert whole[0] == pytest.approx([4, 4], abs=0.01) and whole[3]
    points = itertools.count(2, 5)
    while cut_off(path := copied(number := next(points)), number):
        assert ended(path) == whole, number
    assert number > 15


def test_a_window_is_told_and_kept():
    spoken = stream(TabularStream, steps=30, horizon=365).guarantee
    assert spoken.short == (
        "epsilon = 1 for one person (column 'id') within any 30 steps over 365 steps"
    )
    assert (
        "within any 30 consecutive steps (at most 2 inserted records and 2 deletions in each block "
        "of 30 steps) is in the data" in str(spoken)
    )
    quiet = str(stream(TabularStream, deletes=False, steps=1).guarantee)
    assert "within any one step (at most 2 inserted records in each step)" in quiet
    assert Guarantee.from_dict(spoken.to_dict()) == spoken
    # as the version before kept it
    kept = {
        **spoken.to_dict(),
        "unit": {"kind": "Window", "steps": 3, "column": "id", "records": 1},
    }
    assert Guarantee.from_dict(kept).unit == Window(steps=3, column="id", records=1)


def test_where_a_window_is_not_proved_it_is_refused():
    with pytest.raises(ConfigError, match="not both"):
        Window(steps=3, column="id", events=1, records=1)
    for kind, domain in DOMAINS.items():
        with pytest.raises(ConfigError, match="bound on the events"):
            kind(domain=domain, privacy=PURE, unit=Window(steps=3, column="id"), horizon=5)
    with pytest.raises(ConfigError, match="SpatialStream protects a Window too"):
        papers.PrivTreeStream(
            domain=SQUARE, privacy=PURE, unit=Window(steps=3, column="id", events=1), horizon=5
        )


def test_a_window_can_be_written_in_a_configuration(tmp_path):
    (tmp_path / "incoming").mkdir()
    (tmp_path / "stream.toml").write_text(
        '[stream]\npath = "w.tail"\npopulation = "w"\n'
        '[mechanism]\nkind = "TabularStream"\nhorizon = "none"\n'
        'privacy = { kind = "PureDP", epsilon = 1 }\n'
        'unit = { kind = "Window", steps = 30, column = "id", events = 3 }\n'
        '[schema]\nage = { kind = "Integer", low = 0, high = 9 }\n'
        '[calendar]\nstart = 2026-01-01\nperiod = "1 day"\ntimezone = "Europe/Berlin"\n'
        f'[source]\n{FOLDER}\ntime = "day"\n'
    )
    found = load(tmp_path / "stream.toml").mechanism
    assert (found.unit, found.horizon) == (Window(steps=30, column="id", events=3), None)
