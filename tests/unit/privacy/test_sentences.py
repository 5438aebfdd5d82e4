"""The sentence of every mechanism, with and without deletions, for every unit that it protects."""

import itertools
import json

import pytest

import tailrace as tr
from tailrace import papers

TABLE = tr.Schema(sex=tr.Categorical(["f", "m"]), old=tr.Integer(0, 3), ill=tr.Integer(0, 1))
CITY = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
EVENTS = {
    tr.HistogramStream: TABLE,
    tr.SpatialStream: CITY,
    tr.papers.PrivTreeStream: CITY,
    tr.TabularStream: TABLE,
    tr.papers.TabularSteps: TABLE,
}
LOSSES = (tr.PureDP(epsilon=1), tr.ZCDP(rho="1/10"), tr.ApproxDP(epsilon=1, delta=1e-6))
ONCE = {
    tr.Trajectories: CITY,
    papers.trajectories: CITY,
}


def events(kind, **more):
    return kind(domain=EVENTS[kind], horizon=12, **more).guarantee


@pytest.mark.parametrize(("kind", "privacy"), list(itertools.product(EVENTS, LOSSES)))
def test_an_event_that_cannot_be_deleted_costs_one_event(kind, privacy):
    promise = events(kind, privacy=privacy, unit=tr.Event(), deletes=False)
    assert "delet" not in str(promise).replace("records are never deleted", "")
    assert f"records are never deleted, so a record's whole life gets {promise.loss}" in str(
        promise
    )
    assert promise.of_life() == promise.loss
    assert promise.of_person(3) == promise.loss.group(3)
    assert tr.Guarantee.from_dict(json.loads(json.dumps(promise.to_dict()))) == promise


@pytest.mark.parametrize(("kind", "privacy"), list(itertools.product(EVENTS, LOSSES)))
def test_an_event_that_can_be_deleted_costs_more_over_its_life(kind, privacy):
    promise = events(kind, privacy=privacy, unit=tr.Event(), deletes=True)
    assert "any one insertion or deletion of a record" in str(promise)
    assert f"a record that is inserted and later deleted gets {promise.of_life()}" in str(promise)
    size = (
        (lambda loss: loss.rho)
        if isinstance(promise.loss, tr.ZCDP)
        else (lambda loss: loss.epsilon)
    )
    assert size(promise.loss) < size(promise.of_life()) <= size(promise.loss.group(2))


@pytest.mark.parametrize(("kind", "deletes"), list(itertools.product(EVENTS, (False, True))))
def test_a_person_has_deletions_only_where_there_are_any(kind, deletes):
    person = tr.User(column="id", events=3)
    promise = events(kind, privacy=tr.PureDP(epsilon=1), unit=person, deletes=deletes)
    assert ("(at most 3 inserted records and their deletions)" in str(promise)) is deletes
    assert ("(at most 3 inserted records)" in str(promise)) is not deletes
    assert "never deleted" not in str(promise)


@pytest.mark.parametrize("unit", [tr.Event(), tr.User(column="id", events=2)])
def test_with_a_retention_nothing_is_deleted(unit):
    made = tr.SpatialStream(
        domain=CITY, privacy=tr.PureDP(epsilon=1), unit=unit, horizon=12, retention=4
    )
    assert "delet" not in str(made.guarantee)
    assert ("leaves by a public rule 4 steps after it came" in str(made.guarantee)) is (
        unit == tr.Event()
    )


@pytest.mark.parametrize(
    ("kind", "unit"), list(itertools.product(ONCE, (tr.Event(), tr.User(column="id"))))
)
def test_a_release_at_once_speaks_of_no_deletion(kind, unit):
    made = kind(
        domain=CITY, privacy=tr.PureDP(epsilon=1), unit=unit, trajectory="trip", order="time"
    )
    assert "delet" not in str(made.guarantee)


def test_snapshots_and_panels_speak_of_no_deletion():
    one = {"privacy": tr.PureDP(epsilon=1), "horizon": 12}
    snapshots = [
        tr.SnapshotHistogram(domain=TABLE, unit=unit, changes=changes, **one)
        for unit in (tr.User(column="id", records=2), tr.Window(steps=3, column="id", records=2))
        for changes in ((False, True) if isinstance(unit, tr.User) else (False,))
    ]
    bit, rho = tr.Schema(poor=tr.Integer(0, 1)), {"privacy": tr.ZCDP(rho="1/10"), "horizon": 12}
    panels = [
        kind(
            domain=bit,
            unit=tr.User(column="id"),
            neighbours=neighbours,
            people=people,
            **more,
            **rho,
        )
        for kind, more in ((tr.PanelWindow, {"window": 2}), (tr.PanelCumulative, {}))
        for neighbours, people in ((tr.AddRemove, None), (tr.Replace, 9), (tr.Null, 9))
    ]
    for made in [*snapshots, *panels]:
        assert "delet" not in str(made.guarantee)


def test_what_version_0_1_kept_is_read_as_it_was_meant():
    kept = tr.Guarantee(tr.PureDP(epsilon=1), tr.Event(), tr.AddRemove, 9).to_dict()
    del kept["deletes"]
    assert tr.Guarantee.from_dict(kept).of_life() == tr.PureDP(epsilon=2)
    never = tr.Guarantee.from_dict({**kept, "life": kept["loss"]})
    assert never == tr.Guarantee(tr.PureDP(epsilon=1), tr.Event(), tr.AddRemove, 9, deletes=False)


def test_together_nothing_is_deleted_only_where_neither_deletes():
    keeps, deletes = (
        tr.Guarantee(tr.PureDP(epsilon=1), tr.Event(), tr.AddRemove, 9, deletes=deletes)
        for deletes in (False, True)
    )
    assert (keeps & keeps).of_life() == tr.PureDP(epsilon=2)
    assert "never deleted" in str(keeps & keeps)
    assert (keeps & deletes).of_life() == tr.PureDP(epsilon=3)
    assert "later deleted gets epsilon = 3" in str(keeps & deletes)
